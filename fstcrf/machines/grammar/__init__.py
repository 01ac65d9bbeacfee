"""Grammars: the set of legal label sequences, hard or weighted, over one tape or several.

Their constraints are in `fstcrf.constraints`.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.machines.grammar.acceptor import Acceptor as Acceptor
    from fstcrf.machines.grammar.acceptor import either as either
    from fstcrf.machines.grammar.acceptor import equivalent as equivalent
    from fstcrf.machines.grammar.acceptor import intersect as intersect
    from fstcrf.machines.grammar.acceptor import is_empty as is_empty
    from fstcrf.machines.grammar.acceptor import minimise as minimise
    from fstcrf.machines.grammar.acceptor import on_tapes as on_tapes
    from fstcrf.machines.grammar.acceptor import trim as trim
    from fstcrf.machines.grammar.constraint import Constraint as Constraint
    from fstcrf.machines.grammar.contradiction import ANY_ONE as ANY_ONE
    from fstcrf.machines.grammar.contradiction import TOGETHER as TOGETHER
    from fstcrf.machines.grammar.contradiction import Word as Word
    from fstcrf.machines.grammar.contradiction import contradiction_error as contradiction_error
    from fstcrf.machines.grammar.contradiction import contradictory as contradictory
    from fstcrf.machines.grammar.contradiction import irreducible as irreducible
    from fstcrf.machines.grammar.contradiction import listed_names as listed_names
    from fstcrf.machines.grammar.contradiction import overfull as overfull
    from fstcrf.machines.grammar.contradiction import shortest as shortest
    from fstcrf.machines.grammar.contradiction import wanted as wanted
    from fstcrf.machines.grammar.grammar import Grammar as Grammar
    from fstcrf.machines.grammar.structure import TwoLocal as TwoLocal
    from fstcrf.machines.grammar.structure import constrained_topology as constrained_topology
    from fstcrf.machines.grammar.structure import simplified as simplified
    from fstcrf.machines.grammar.structure import two_local as two_local

__all__, __getattr__ = importer(
    __name__,
    {
        "acceptor": "Acceptor either equivalent intersect is_empty minimise on_tapes trim",
        "constraint": "Constraint",
        "contradiction": "ANY_ONE TOGETHER Word contradiction_error contradictory "
        "irreducible listed_names overfull shortest wanted",
        "grammar": "Grammar",
        "structure": "TwoLocal constrained_topology simplified two_local",
    },
)
