"""Models of CRF++: text (``crf_learn -t``) and binary.

==========  ==================================================================
load_crfpp  a tagger from a model of CRF++
CRFPP_TEXT  the format of text models
CRFPP       the format of binary models
==========  ==================================================================
"""

from fstcrf.interop.crfpp.loading import CRFPP, CRFPP_TEXT, load_crfpp

__all__ = ["CRFPP", "CRFPP_TEXT", "load_crfpp"]
