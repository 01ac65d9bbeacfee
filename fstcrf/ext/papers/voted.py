"""The voted perceptron: the votes of weights are the number of sentences that they survived."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Ints, Longs
from fstcrf.errors import OptionError, ShapeError
from fstcrf.kernel import Parameters, SparseRows
from fstcrf.training.online import online_learner, online_parameters, shuffled
from fstcrf.training.problem import ParameterSpace, Problem


def voted_paths(
    problem: Problem,
    space: ParameterSpace,
    rows: SparseRows,
    offsets: Longs,
    *,
    epochs: int = 2,
    seed: int = 0,
) -> Ints:
    """Train from zero on a problem; return the paths of other sentences that get most votes.

    Parameters
    ----------
    problem : Problem
        To learn from.
    space : ParameterSpace
    rows : SparseRows [N, R]
        Attributes of the tokens that are voted on.
    offsets : int64 [B + 1]
        Where their sentences begin.
    epochs : int
    seed : int
        Random seed of the order of sentences.

    Returns
    -------
    int32 [N]
        States. Among paths with equally many votes the one that got its first vote first wins.

    Raises
    ------
    OptionError
        No epoch.
    ShapeError
        Attributes of another problem.
    """
    if epochs < 1:
        raise OptionError(f"epochs is {epochs}, expected at least 1")
    if rows.n_columns != space.n_node_rows or len(rows) != offsets[-1]:
        raise ShapeError(
            f"rows are {len(rows)} × {rows.n_columns}, expected "
            f"{offsets[-1]} × {space.n_node_rows}: tokens and attributes"
        )
    learner = online_learner(problem, space)
    now = online_parameters(space, np.zeros(space.size))
    sums, order, step = now.zeros(), shuffled(seed, len(problem.weight)), 1
    urn, survived = _Urn(offsets), 1
    path = _decoded(space, now, rows, offsets)
    for epoch in range(epochs):
        for sentence in order(epoch):
            one = np.asarray([sentence], dtype=np.int64)
            step, errors, _ = learner.perceptron_epoch(one, now, sums, step)
            if not errors:
                survived += 1
                continue
            urn.vote(path, survived)
            path, survived = _decoded(space, now, rows, offsets), 1
    urn.vote(path, survived)
    return urn.winners()


def _decoded(space: ParameterSpace, now: Parameters, rows: SparseRows, offsets: Longs) -> Ints:
    topology = space.topology
    node = topology.node_potentials(rows.times(now.table))
    graph = topology.graph(now.arc[: topology.n_arc_slots], now.initial, now.final)
    return kernel.viterbi(graph, offsets, node)[0]


class _Urn:
    """The votes for the paths of each sentence."""

    def __init__(self, offsets: Longs) -> None:
        self._bounds = list(pairwise(offsets.tolist()))
        self._votes: list[Counter[bytes]] = [Counter() for _ in self._bounds]

    def vote(self, path: Ints, votes: int) -> None:
        for counter, (first, last) in zip(self._votes, self._bounds, strict=True):
            counter[path[first:last].tobytes()] += votes

    def winners(self) -> Ints:
        best = [max(counter, key=counter.__getitem__) for counter in self._votes]
        return np.frombuffer(b"".join(best), dtype=np.int32).copy()
