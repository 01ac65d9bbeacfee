"""The constraints, all in one place: what `fstcrf.constraints` offers."""

from __future__ import annotations

from fstcrf.grammar.conditions import if_present, pairs
from fstcrf.grammar.neighbours import bilou, bio, bioes, iob1, tagging_scheme, transitions
from fstcrf.grammar.occurrences import (
    at_least,
    at_most,
    before,
    contiguous,
    end_with,
    exactly,
    never,
    requires,
    start_with,
)
from fstcrf.grammar.reading import ANY, label, spans

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
