"""Machines of pynini ↔ acceptors. Costs become scores in `fstcrf.openfst`, which reads weights.

==================  ===================================================================
fst_of              a small unweighted machine from its arcs
automaton_of        an unweighted machine with symbols that stand for scores
to_fst              an acceptor as a machine of pynini
constraint_from_fst a machine of pynini as a part of a grammar
==================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fstcrf.errors import GrammarError, MissingDependencyError, TooLargeError
from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.algebra import trim
from fstcrf.grammar.constraint import Constraint
from fstcrf.grammar.determinise import Automaton, determinise
from fstcrf.grammar.labels import LabelSets, nearest, only_tape
from fstcrf.grammar.minimise import minimise

if TYPE_CHECKING:
    import pynini

__all__ = ["automaton_of", "constraint_from_fst", "fst_of", "pynini_module", "to_fst"]


def pynini_module() -> Any:
    """Import pynini.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    from fstcrf.openfst import pynini_module as load  # noqa: PLC0415

    return load()


def fst_of(
    n_states: int, arcs: Iterable[tuple[int, int, int]], final: Iterable[int]
) -> pynini.Fst:
    """Return an unweighted machine of pynini that starts in state 0.

    Parameters
    ----------
    n_states : int
    arcs : iterable of (source, symbol, target)
        Symbol 0 reads nothing.
    final : iterable of int
        States in which it ends.
    """
    pynini = pynini_module()
    fst = pynini.Fst()
    fst.add_states(n_states)
    fst.set_start(0)
    one = pynini.Weight.one("tropical")
    for source, symbol, target in arcs:
        fst.add_arc(source, pynini.Arc(symbol, symbol, one, target))
    for state in final:
        fst.set_final(state)
    return fst


def automaton_of(fst: pynini.Fst, n_symbols: int, scores: Sequence[float]) -> Automaton:
    """Return the useful part of an unweighted machine.

    Parameters
    ----------
    fst : pynini.Fst
        Symbols 1 … n_symbols read a token; n_symbols + 1 + i stands for scores[i].
    n_symbols : int
    scores : sequence of float
        Natural-log scores.
    """
    fst = fst.copy().connect()
    silent_score = [0.0, *scores]
    steps: list[list[tuple[int, int]]] = []
    silent: list[list[tuple[float, int]]] = []
    final: list[bool] = []
    never = pynini_module().Weight.zero("tropical")
    for state in fst.states():
        arcs = [(arc.ilabel, arc.nextstate) for arc in fst.arcs(state)]
        steps.append([(symbol - 1, to) for symbol, to in arcs if 0 < symbol <= n_symbols])
        silent.append(
            [
                (silent_score[symbol and symbol - n_symbols], to)
                for symbol, to in arcs
                if not 0 < symbol <= n_symbols
            ]
        )
        final.append(fst.final(state) != never)
    return Automaton(fst.start(), steps, silent, final, n_symbols)
