"""Documents: taggers whose labels agree across sentences, decoded by Gibbs sampling."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.documents.consistency import Consistency as Consistency
    from fstcrf.ext.documents.consistency import Violation as Violation
    from fstcrf.ext.documents.document import Document as Document
    from fstcrf.ext.documents.document import Recounted as Recounted
    from fstcrf.ext.documents.document import ViolationModel as ViolationModel
    from fstcrf.ext.documents.document import Violations as Violations
    from fstcrf.ext.documents.exact import ExactLabels as ExactLabels
    from fstcrf.ext.documents.exact import exact_labels as exact_labels
    from fstcrf.ext.documents.fields import Differing as Differing
    from fstcrf.ext.documents.fields import Fields as Fields
    from fstcrf.ext.documents.fields import Unlabelled as Unlabelled
    from fstcrf.ext.documents.given import agreed_labels as agreed_labels
    from fstcrf.ext.documents.sampler import Annealing as Annealing
    from fstcrf.ext.documents.sampler import DocumentChain as DocumentChain
    from fstcrf.ext.documents.tagger import DocumentTagger as DocumentTagger

__all__, __getattr__ = importer(
    __name__,
    {
        "consistency": "Consistency Violation",
        "document": "Document Recounted ViolationModel Violations",
        "exact": "ExactLabels exact_labels",
        "fields": "Differing Fields Unlabelled",
        "given": "agreed_labels",
        "sampler": "Annealing DocumentChain",
        "tagger": "DocumentTagger",
    },
)
