"""Constraints on the labels of a sentence, as grammars: ``tagger & at_most(1, "SPEAKER")``.

====================================  ==========================================================
bio, iob1, bioes, bilou               only successions that a tagging scheme allows
tagging_scheme, transitions           the same for a scheme by name, and for a list of neighbours
at_most, at_least, exactly            how often labels or spans of a type occur
contiguous                            each label in one run, each type in one span
before, requires, if_present          order, and what goes with what
never, start_with, end_with           labels nowhere, first, last
pairs                                 labels of several tapes that may meet
label, spans, ANY                     classes of labels; types by name
====================================  ==========================================================
"""

from fstcrf.grammar.constructors import (
    ANY,
    at_least,
    at_most,
    before,
    bilou,
    bio,
    bioes,
    contiguous,
    end_with,
    exactly,
    if_present,
    iob1,
    label,
    never,
    pairs,
    requires,
    spans,
    start_with,
    tagging_scheme,
    transitions,
)

__all__ = [
    "ANY",
    "at_least",
    "at_most",
    "before",
    "bilou",
    "bio",
    "bioes",
    "contiguous",
    "end_with",
    "exactly",
    "if_present",
    "iob1",
    "label",
    "never",
    "pairs",
    "requires",
    "spans",
    "start_with",
    "tagging_scheme",
    "transitions",
]
