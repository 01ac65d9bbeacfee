"""Grammars: what label sequences are legal, hard or weighted, over one tape or several.

===============  ============================================================================
Grammar          a conjunction of constraints; files, text, pynini machines, `&`
Acceptor         one constraint bound to label sets: a small deterministic machine
intersect, ...   products, trimming, minimisation, equality of acceptors
two_local        what folds into transitions: which label may follow which
simplified       an acceptor made smaller by what is forbidden anyway
irreducible      which constraints contradict each other, as few as can be
shortest         the shortest labelling that an acceptor accepts
===============  ============================================================================

The constraints themselves are in `fstcrf.constraints`.
"""

from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.algebra import either, equivalent, intersect, is_empty, on_tapes, trim
from fstcrf.grammar.constraint import Constraint
from fstcrf.grammar.contradiction import (
    ANY_ONE,
    TOGETHER,
    Word,
    contradiction_error,
    contradictory,
    hardened,
    irreducible,
    listed_names,
    shortest,
)
from fstcrf.grammar.counting import overfull, wanted
from fstcrf.grammar.grammar import Grammar
from fstcrf.grammar.local import TwoLocal, two_local
from fstcrf.grammar.minimise import minimise
from fstcrf.grammar.simplify import simplified
from fstcrf.grammar.structure import constrained_topology

__all__ = [
    "ANY_ONE",
    "TOGETHER",
    "Acceptor",
    "Constraint",
    "Grammar",
    "TwoLocal",
    "Word",
    "constrained_topology",
    "contradiction_error",
    "contradictory",
    "either",
    "equivalent",
    "hardened",
    "intersect",
    "irreducible",
    "is_empty",
    "listed_names",
    "minimise",
    "on_tapes",
    "overfull",
    "shortest",
    "simplified",
    "trim",
    "two_local",
    "wanted",
]
