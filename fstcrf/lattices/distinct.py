"""Paths of tropical transducers: of several runs over the same strings, only the best one counts.

`ArcEngine.apart` identifies the strings of a run. For sums, each run is compared with its rivals
(`fstcrf.machines.rivals`). The n best paths are searched, and a path is left out if a better path
has the same strings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.lattices import sequences
from fstcrf.machines.rivals import Graph, ManyRivalsError, best_runs

if TYPE_CHECKING:
    from fstcrf.lattices.arcs import ArcEngine

MOST_RIVALS = 500_000
"""PathBatch over the same strings that are compared with each other in one sentence."""


def resolved(arcs: ArcEngine) -> ArcEngine:
    """Return the arcs of the best runs; the same arcs where there are too many runs to tell."""
    found = arcs.trimmed()
    assert found.apart is not None  # noqa: S101 (the caller has looked)
    assert found.gain is not None  # noqa: S101 (it is there where that is)
    key, ends = found.apart[:, 0], np.where(found.final > -np.inf, 0.0, -np.inf)
    columns, begins = found.apart[:, 1:], found.begins.tolist()
    graph = Graph(found.source, found.target, key, columns, found.gain, ends, begins)
    try:
        best = best_runs(graph, MOST_RIVALS)
    except ManyRivalsError:
        return arcs
    if best is not None:
        found = replace(
            found.with_arcs(best.arc),
            begins=np.searchsorted(best.state, found.begins),
            at=None if found.at is None else found.at[best.state],
            final=np.where(best.ends, found.final[best.state], -np.inf),
            source=best.source.astype(np.int32),
            target=best.target.astype(np.int32),
        )
    return replace(found, ambiguous="", apart=None, gain=None)


def best_paths(arcs: ArcEngine, n: int) -> tuple[Ints, Floats, Longs] | None:
    """Return the n best paths, of runs over the same strings the best one alone.

    As `fstcrf.lattices.sequences.best_distinct` does: paths of the explicit machine.
    """
    machine, which = arcs.explicit
    assert arcs.apart is not None  # noqa: S101 (the caller has looked)
    read = [np.column_stack([arcs.label[:, k], arcs.under[:, k]]) for k in range(arcs.tapes)]
    read = [rows for rows in read if (rows[:, 1] >= 0).any()]
    facts = [*read, *arcs.apart.T[:, :, None]]
    return sequences.best_distinct(machine, sequences.coded(facts, which), n)
