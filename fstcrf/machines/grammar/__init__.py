"""Grammars: what label sequences are legal, hard or weighted, over one tape or several.

The constraints that they are made of are in `fstcrf.constraints`.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.machines.grammar.acceptor import (
        Acceptor,
        either,
        equivalent,
        intersect,
        is_empty,
        minimise,
        on_tapes,
        trim,
    )
    from fstcrf.machines.grammar.constraint import Constraint
    from fstcrf.machines.grammar.contradiction import (
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
    from fstcrf.machines.grammar.grammar import Grammar
    from fstcrf.machines.grammar.structure import (
        TwoLocal,
        constrained_topology,
        simplified,
        two_local,
    )

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

__getattr__ = importer(
    __name__,
    {
        "ANY_ONE": "contradiction",
        "Acceptor": "acceptor",
        "Constraint": "constraint",
        "Grammar": "grammar",
        "TOGETHER": "contradiction",
        "TwoLocal": "structure",
        "Word": "contradiction",
        "constrained_topology": "structure",
        "contradiction_error": "contradiction",
        "contradictory": "contradiction",
        "either": "acceptor",
        "equivalent": "acceptor",
        "hardened": "contradiction",
        "intersect": "acceptor",
        "irreducible": "contradiction",
        "is_empty": "acceptor",
        "listed_names": "contradiction",
        "minimise": "acceptor",
        "on_tapes": "acceptor",
        "overfull": "contradiction",
        "shortest": "contradiction",
        "simplified": "structure",
        "trim": "acceptor",
        "two_local": "structure",
        "wanted": "contradiction",
    },
)
