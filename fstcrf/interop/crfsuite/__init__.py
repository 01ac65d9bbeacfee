"""CRFsuite's binary models, read and written.

What a model does: the score of a labelling is the sum of the weights of its state features
(attribute, label), each times the attribute's value, and of its transition features (label,
label). A transition that the model does not have scores 0; it is not forbidden. Nothing scores the
ends of a sentence. Attributes that the model does not have are ignored.
"""

from fstcrf.interop.crfsuite.conversion import CRFSUITE, as_tagger, export, load_crfsuite
from fstcrf.interop.crfsuite.model import (
    FEATURE,
    STATE,
    TRANSITION,
    CRFsuiteModel,
    read_model,
    write_model,
)

__all__ = [
    "CRFSUITE",
    "FEATURE",
    "STATE",
    "TRANSITION",
    "CRFsuiteModel",
    "as_tagger",
    "export",
    "load_crfsuite",
    "read_model",
    "write_model",
]
