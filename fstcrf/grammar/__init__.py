"""Grammars: what label sequences are legal, hard or weighted, over one tape or several.

The constraints that they are made of are in `fstcrf.constraints`.
"""

from fstcrf.grammar.acceptor import (
    Acceptor,
    either,
    equivalent,
    intersect,
    is_empty,
    minimise,
    on_tapes,
    trim,
)
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
    overfull,
    shortest,
    wanted,
)
from fstcrf.grammar.grammar import Grammar
from fstcrf.grammar.structure import TwoLocal, constrained_topology, simplified, two_local

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
