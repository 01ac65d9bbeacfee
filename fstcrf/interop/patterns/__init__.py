"""Taggers of CRF++ and of Wapiti: patterns, the texts that they give, and weights.

Both programs know an attribute by its text: a pattern with its holes filled. A CRF of ours knows it
by the strings in the holes. One text may be cut into such strings in several ways (``a/b/c`` at
``%x[0,0]/%x[1,0]``) and may come from several patterns; each way is a row with the same weights.

============== ===============================================================
Hole           one place of a pattern that a string of the sentence fills
Pattern        literal bytes around holes
PatternModel   what the file of such a tagger holds
SparseWeights  numbered weights without the zeros
tagger         the same as a CRF over columns
============== ===============================================================

The rest is what every reader of such a file checks.
"""

from fstcrf.interop.patterns.checks import (
    check_encoding,
    check_labels,
    decoded,
    shown,
)
from fstcrf.interop.patterns.model import Hole, Pattern, PatternModel
from fstcrf.interop.patterns.tagger import tagger
from fstcrf.interop.patterns.weights import SparseWeights

__all__ = [
    "Hole",
    "Pattern",
    "PatternModel",
    "SparseWeights",
    "check_encoding",
    "check_labels",
    "decoded",
    "shown",
    "tagger",
]
