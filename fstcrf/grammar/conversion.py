"""Machines of pynini ↔ acceptors. `fstcrf.openfst` reads and writes them: scores here, costs there.

============  ==================================================================
fst_of        a small unweighted machine from its arcs
automaton_of  a machine, some of whose symbols stand for scores
to_fst        an acceptor as a machine of pynini
============  ==================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.determinise import Automaton
from fstcrf.openfst import ArcType, Machine, connect, from_fst
from fstcrf.openfst import symbols as name_table
from fstcrf.openfst import to_fst as machine_fst

if TYPE_CHECKING:
    import pynini

__all__ = ["automaton", "automaton_of", "fst_of", "to_fst"]


def fst_of(n_states: int, arcs: Iterable[tuple[int, int, int]], final: Iterable[int]) -> pynini.Fst:
    """Return an unweighted machine of pynini that starts in state 0.

    Parameters
    ----------
    n_states : int
    arcs : iterable of (source, symbol, target)
        Symbol 0 reads nothing.
    final : iterable of int
        States in which it ends.
    """
    table = np.asarray(sorted(arcs), dtype=np.int32).reshape(-1, 3)
    ends = np.full(n_states, -np.inf)
    ends[list(final)] = 0.0
    fst: pynini.Fst = machine_fst(_machine(table, np.zeros(len(table)), ends), "standard")
    return fst


def _machine(
    arcs: np.ndarray[tuple[int, int], np.dtype[np.int32]],
    score: np.ndarray[tuple[int], np.dtype[np.float64]],
    final: np.ndarray[tuple[int], np.dtype[np.float64]],
    symbols: tuple[str, ...] | None = None,
) -> Machine:
    source, symbol, target = (np.ascontiguousarray(column) for column in arcs.T)
    return Machine(0, source, target, symbol, symbol, score, final, symbols, symbols)


def automaton_of(fst: pynini.Fst, n_symbols: int, scores: Sequence[float] = ()) -> Automaton:
    """Return the useful part of an acceptor.

    Parameters
    ----------
    fst : pynini.Fst
        Symbols 1 … n_symbols read a token, 0 nothing; n_symbols + 1 + i stands for scores[i].
    n_symbols : int
    scores : sequence of float
        Natural-log scores.
    """
    return automaton(connect(from_fst(fst)), n_symbols, scores)


def automaton(machine: Machine, n_symbols: int, scores: Sequence[float] = ()) -> Automaton:
    """Return an acceptor all of whose states are useful; parameters as for `automaton_of`."""
    symbol = machine.ilabel
    silent = (symbol == 0) | (symbol > n_symbols)
    worth = np.concatenate([np.zeros(n_symbols + 1), np.asarray(scores, dtype=np.float64)])
    total = (machine.score + worth[symbol]).tolist()
    steps: list[list[tuple[int, float, int]]] = [[] for _ in range(machine.n_states)]
    quiet: list[list[tuple[float, int]]] = [[] for _ in range(machine.n_states)]
    arcs = zip(
        machine.source.tolist(), symbol.tolist(), total, machine.target.tolist(), strict=True
    )
    for (source, label, score, target), unread in zip(arcs, silent.tolist(), strict=True):
        if unread:
            quiet[source].append((score, target))
        else:
            steps[source].append((label - 1, score, target))
    return Automaton(machine.start, steps, quiet, machine.final.tolist(), n_symbols)


def to_fst(acceptor: Acceptor, arc_type: ArcType = "log64") -> pynini.Fst:
    """Return an acceptor as a machine of pynini with a symbol table.

    Parameters
    ----------
    acceptor : Acceptor
        Label i is symbol i + 1. Of several tapes, a symbol is ``pos=NN chunk=B-NP``; they are
        numbered with the last tape fastest.
    arc_type : {"standard", "log", "log64"}

    Raises
    ------
    MissingDependencyError
        pynini is not installed.
    LabelError
        A label that symbol tables cannot hold: none, or ``<eps>``.
    """
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    states, symbols = np.nonzero(flat >= 0)
    arcs = np.column_stack([states, symbols + 1, flat[states, symbols]]).astype(np.int32)
    score = np.zeros(len(arcs))
    if acceptor.score is not None:
        score = acceptor.score.reshape(flat.shape)[states, symbols]
    names: Iterable[str] = acceptor.labels[0]
    if len(acceptor.tapes) > 1:
        names = (
            " ".join(f"{tape}={label}" for tape, label in zip(acceptor.tapes, labels, strict=True))
            for labels in product(*acceptor.labels)
        )
    table = name_table(tuple(names))
    fst: pynini.Fst = machine_fst(_machine(arcs, score, acceptor.final, table), arc_type)
    return fst
