"""Paths of tropical transducers: the best of several runs over the same strings.

`ArcEngine.run_keys` identifies the strings of a run. For sums, each run is compared with its rivals
(`fstcrf.machines.rivals`). The n best paths are searched, and a path is left out if a better path
has the same strings.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.lattices.labellings import LabelledMachine, ScoredLabels
from fstcrf.machines.rivals import Graph, ManyRivalsError, best_runs

if TYPE_CHECKING:
    from fstcrf.lattices.arcs import ArcEngine

MOST_RIVALS = 500_000
"""Runs over the same strings that are compared with each other in one sentence."""

_PREFIXES, _EACH = 10_000, 1_000
"""Prefixes that the search for the n best paths may divide: so many, and more for each path."""


def resolved(arcs: ArcEngine) -> ArcEngine:
    """Return the arcs of the best runs; the same arcs if there are too many runs to compare."""
    runs = arcs.trimmed()
    assert runs.run_keys is not None  # noqa: S101 (callers check it)
    assert runs.gain is not None  # noqa: S101 (it comes with run_keys)
    key, ends = runs.run_keys[:, 0], np.where(runs.final > -np.inf, 0.0, -np.inf)
    columns, begins = runs.run_keys[:, 1:], runs.begins.tolist()
    graph = Graph(runs.source, runs.target, key, columns, runs.gain, ends, begins)
    try:
        best = best_runs(graph, MOST_RIVALS)
    except ManyRivalsError:
        return arcs
    if best is not None:
        runs = replace(
            runs.with_arcs(best.arc),
            begins=np.searchsorted(best.state, runs.begins),
            at=None if runs.at is None else runs.at[best.state],
            final=np.where(best.ends, runs.final[best.state], -np.inf),
            source=best.source.astype(np.int32),
            target=best.target.astype(np.int32),
        )
    return replace(runs, ambiguous="", run_keys=None, gain=None)


def best_paths(arcs: ArcEngine, n: int) -> tuple[Ints, Floats, Longs] | None:
    """Return the n best paths of each row, as arcs of the explicit machine; see `best_distinct`.

    Only the best of several runs over the same strings is a path.
    """
    machine, which = arcs.explicit
    assert arcs.run_keys is not None  # noqa: S101 (callers check it)
    read = [np.column_stack([arcs.label[:, k], arcs.under[:, k]]) for k in range(arcs.tapes)]
    read = [rows for rows in read if (rows[:, 1] >= 0).any()]
    facts = [*read, *arcs.run_keys.T[:, :, None]]
    return best_distinct(machine, _symbols(facts, which), n)


def best_distinct(machine: Acyclic, symbols: Ints, n: int) -> tuple[Ints, Floats, Longs] | None:
    """Return the n best paths of each row that have different strings.

    Two paths have the same strings if each column has the same sequence of symbols; the arcs may
    differ. There is no result if too many paths have the same strings.

    Parameters
    ----------
    machine : Acyclic
    symbols : int32 [A, K]
        Symbol of each arc in each column, or −1. Columns share no symbol.
    n : int

    Returns
    -------
    int32 [P, longest], float64 [P], int64 [B]; or None
        The arcs of all paths, row by row and best first, padded with −1. The scores of the paths.
        The number of paths of each row.
    """
    split, symbol, arcs = _split(machine, symbols)
    sequences, original = LabelledMachine(split, symbol, summed=False), arcs.tolist()
    starts, targets, labels = split.row.tolist(), split.target.tolist(), symbol.tolist()
    lists = starts, targets, labels, split.score.tolist(), split.final.tolist()
    column = np.zeros(symbols.max(initial=-1) + 1, dtype=np.int64)
    for k, values in enumerate(symbols.T):
        column[values[values >= 0]] = k
    rows: list[list[tuple[float, list[int]]]] = []
    for begin in split.begins.tolist():
        best = _differing(sequences.search(begin, _PREFIXES + _EACH * n), column, n)
        if best is None:
            return None
        paths = [(path.score, _arcs(lists, path.labels, begin)) for path in best]
        rows.append(
            [(score, [a for k in path if (a := original[k]) >= 0]) for score, path in paths]
        )
    all_paths = [path for row in rows for path in row]
    lengths = Ragged.from_lengths(len(path) for _, path in all_paths)
    padded = np.full((len(all_paths), int(lengths.lengths.max(initial=0))), -1, dtype=np.int32)
    padded[lengths.rows(), lengths.ranges()] = [arc for _, path in all_paths for arc in path]
    counts = np.asarray([len(row) for row in rows], dtype=np.int64)
    return padded, np.asarray([score for score, _ in all_paths]), counts


def _differing(
    sequences: Iterator[ScoredLabels], column: Longs, n: int
) -> list[ScoredLabels] | None:
    """Return the n best sequences that differ in a column, unless some are not proven."""
    best: dict[tuple[tuple[int, ...], ...], ScoredLabels] = {}
    for sequence in sequences:
        if not sequence.exact:
            return None
        labels = np.asarray(sequence.labels, dtype=np.int64)
        columns = column[labels]
        strings = [tuple(labels[columns == k].tolist()) for k in range(column.max(initial=-1) + 1)]
        best.setdefault(tuple(strings), sequence)
        if len(best) >= n:
            break
    return list(best.values())


def _symbols(facts: Sequence[NDArray[np.integer]], which: Ints | None) -> Ints:
    """Return the symbols of arcs, int32 [A, K], −1 if an arc has no symbol in a column.

    Parameters
    ----------
    facts : sequence of K int [A', F]
        Facts of each arc. An arc has no symbol if the first two facts, or the only one, are −1.
    which : int32 [A], optional
        Index of each arc among the A', −1 for an arc without symbols. By default, all A' arcs.
    """
    symbols, size = np.full((len(facts[0]) + 1, len(facts)), -1, dtype=np.int32), 0
    for k, rows in enumerate(facts):
        values, code = np.unique(rows, axis=0, return_inverse=True)
        has_symbol = (values[:, :2] >= 0).any(axis=1)
        number = np.where(has_symbol, np.arange(len(values)) + size, -1)
        symbols[:-1, k] = number[code.reshape(-1)]
        size += len(values)
    return symbols[:-1] if which is None else symbols[which]


def _split(machine: Acyclic, symbols: Ints) -> tuple[Acyclic, Ints, Longs]:
    """Return a machine whose arcs have one symbol at most, their symbols, and the original arcs.

    An arc with several symbols becomes several arcs. The first of them has the original arc, the
    others have −1. States between them follow the state that the arc leaves.
    """
    there = symbols >= 0
    count = there.sum(axis=1)
    source = Ragged(machine.row).rows()
    more = np.maximum(count - 1, 0)
    before = np.cumsum(more) - more  # states between, of the arcs before each
    number = np.arange(len(machine.final)) + np.append(0, np.cumsum(more))[machine.row[:-1]]
    pieces = Ragged.from_lengths(np.maximum(count, 1))
    arc, place = pieces.rows(), pieces.ranges()
    between = source[arc] + before[arc] + place
    last = place == np.maximum(count, 1)[arc] - 1
    symbol = np.full(len(arc), -1, dtype=np.int32)
    symbol[count[arc] > 0] = symbols[there]
    final = np.full(len(number) + int(more.sum()), -np.inf)
    final[number] = machine.final
    begins = np.where(place == 0, number[source[arc]], between)
    order = np.argsort(begins, kind="stable")
    split = Acyclic(
        Ragged.from_rows(begins[order], len(final)).offsets,
        np.where(last, number[machine.target[arc]], between + 1)[order].astype(np.int32),
        np.where(place == 0, machine.score[arc], 0.0)[order],
        final,
        number[machine.begins],
    )
    return split, symbol[order], np.where(place == 0, arc, -1)[order]


_Lists: TypeAlias = tuple[list[int], list[int], list[int], list[float], list[float]]
"""Rows, targets, labels, scores and final scores: few of the arcs are read, one at a time."""

_Link: TypeAlias = "tuple[int, _Link] | None"  # an arc, and the arcs before it


def _arcs(lists: _Lists, labels: Sequence[int], begin: int) -> list[int]:
    """Return the arcs of the best path with these labels."""
    row, target, read, scores, final = lists
    reached: dict[int, tuple[float, _Link]] = {begin: (0.0, None)}
    for label in (*labels, None):
        line, after = list(reached), dict[int, tuple[float, _Link]]()
        heapq.heapify(line)
        while line:
            s = heapq.heappop(line)
            for a in range(row[s], row[s + 1]):
                silent = read[a] < 0
                if not silent and read[a] != label:
                    continue
                states, t = reached if silent else after, target[a]
                score = reached[s][0] + scores[a]
                if t not in states and silent:
                    heapq.heappush(line, t)
                if t not in states or score > states[t][0]:
                    states[t] = score, (a, reached[s][1])
        if label is not None:
            reached = after
    _, link = max(reached.items(), key=lambda item: item[1][0] + final[item[0]])[1]
    arcs: list[int] = []
    while link is not None:
        arcs.append(link[0])
        link = link[1]
    return arcs[::-1]
