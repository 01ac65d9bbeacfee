"""Documents: taggers whose labels agree across sentences, decoded by Gibbs sampling.

==================  ==========================================================================
DocumentTagger      a tagger and models of violations; tags documents as a whole
Consistency         penalties for one token sequence under several types (Finkel et al. 2005)
Violation           one type of violation: what it counts, its penalty
Fields              penalties for fields that do not agree: times, names of speakers
Differing           ... two spans of a type say different things
Unlabelled          ... the last word of a span is elsewhere without its type
ViolationModel      what a model of your own must offer, ...
Violations          ... and its scores of one document
Recounted           the same from one function, slowly
Annealing           temperatures of the sweeps
Document            the tokens of a document
DocumentChain       sampling itself: the sweeps of one document
==================  ==========================================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.documents.annealing import Annealing
    from fstcrf.documents.consistency import Consistency, Violation
    from fstcrf.documents.document import Document
    from fstcrf.documents.fields import Differing, Fields, Unlabelled
    from fstcrf.documents.sampler import DocumentChain
    from fstcrf.documents.tagger import DocumentTagger
    from fstcrf.documents.violations import Recounted, ViolationModel, Violations

__all__ = [
    "Annealing",
    "Consistency",
    "Differing",
    "Document",
    "DocumentChain",
    "DocumentTagger",
    "Fields",
    "Recounted",
    "Unlabelled",
    "Violation",
    "ViolationModel",
    "Violations",
]

__getattr__ = importer(
    __name__,
    {
        "Annealing": "annealing",
        "Consistency": "consistency",
        "Differing": "fields",
        "Document": "document",
        "DocumentChain": "sampler",
        "DocumentTagger": "tagger",
        "Fields": "fields",
        "Recounted": "violations",
        "Unlabelled": "fields",
        "Violation": "consistency",
        "ViolationModel": "violations",
        "Violations": "violations",
    },
)
