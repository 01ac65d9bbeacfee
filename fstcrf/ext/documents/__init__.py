"""Documents: taggers whose labels agree across sentences, decoded by Gibbs sampling."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.documents.consistency import Consistency, Violation
    from fstcrf.ext.documents.document import Document, Recounted, ViolationModel, Violations
    from fstcrf.ext.documents.exact import ExactLabels, exact_labels
    from fstcrf.ext.documents.fields import Differing, Fields, Unlabelled
    from fstcrf.ext.documents.given import agreed_labels
    from fstcrf.ext.documents.sampler import Annealing, DocumentChain
    from fstcrf.ext.documents.tagger import DocumentTagger

__all__ = [
    "Annealing",
    "Consistency",
    "Differing",
    "Document",
    "DocumentChain",
    "DocumentTagger",
    "ExactLabels",
    "Fields",
    "Recounted",
    "Unlabelled",
    "Violation",
    "ViolationModel",
    "Violations",
    "agreed_labels",
    "exact_labels",
]

__getattr__ = importer(
    __name__,
    {
        "Annealing": "sampler",
        "Consistency": "consistency",
        "Differing": "fields",
        "Document": "document",
        "DocumentChain": "sampler",
        "DocumentTagger": "tagger",
        "ExactLabels": "exact",
        "Fields": "fields",
        "Recounted": "document",
        "Unlabelled": "fields",
        "Violation": "consistency",
        "ViolationModel": "document",
        "Violations": "document",
        "agreed_labels": "given",
        "exact_labels": "exact",
    },
)
