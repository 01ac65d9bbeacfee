"""The averaged perceptron of Collins (2002), also as CRFsuite counts its errors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import OptionError, ShapeError
from fstcrf.kernel import Parameters, SparseRows, norm
from fstcrf.train.online import AveragedEpochs, Orders, online_learner, online_parameters, shuffled
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.protocols import Step
from fstcrf.train.settings import MaxIterations, MethodSettings, Run

__all__ = [
    "APSettings",
    "AveragedPerceptron",
    "PerceptronSettings",
    "voted_paths",
]


@dataclass(frozen=True, kw_only=True)
class PerceptronSettings(MethodSettings):
    """The averaged perceptron, for a few epochs."""

    name: ClassVar[str] = "perceptron"

    max_iterations: MaxIterations = 10

    def optimiser(self, run: Run) -> AveragedPerceptron:
        """Return the learner of a run."""
        return AveragedPerceptron(run.problem, run.space, run.theta, seed=run.seed)


@dataclass(frozen=True, kw_only=True)
class APSettings(MethodSettings):
    """The averaged perceptron, as in CRFsuite."""

    name: ClassVar[str] = "ap"

    max_iterations: MaxIterations = 100
    epsilon: Annotated[
        float, Meta(ge=0, description="stop when the share of wrong labels is below X")
    ] = 0.0

    def optimiser(self, run: Run) -> AveragedPerceptron:
        """Return the learner of a run."""
        epsilon = self.epsilon
        return AveragedPerceptron(run.problem, run.space, run.theta, seed=run.seed, epsilon=epsilon)


class AveragedPerceptron(AveragedEpochs):
    """One epoch a step: theta += features(gold) − features(best path), averaged over all steps.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [size]
        Where to start.
    seed : int
        Of the order of sentences, drawn anew for each epoch.
    epsilon : float, optional
        As in CRFsuite: the value of an epoch is the weighted sum over sentences of the share of
        their tokens that was wrong, and training stops when that is below epsilon times the number
        of sentences. When absent, the value is the number of wrong tokens, and training stops when
        there is none.
    orders : Orders, optional
        The order of sentences in each epoch, instead of `seed`.

    Raises
    ------
    OptionError
        A negative epsilon, labels that are not known, or weights of arc attributes.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        *,
        seed: int = 0,
        epsilon: float | None = None,
        orders: Orders | None = None,
    ) -> None:
        super().__init__(problem, space, theta, epsilon=epsilon, seed=seed, orders=orders)
        self.epsilon = epsilon

    def theta(self) -> Floats:
        """Return the average of the weights over all steps so far."""
        return self._average()

    def step(self) -> Step:
        """Run one epoch."""
        self._step, errors, loss = self._learner.perceptron_epoch(
            self._next_order(), *self._both(), self._step
        )
        value = float(errors) if self.epsilon is None else loss
        measures = {"norm": norm(self.theta())}
        return Step(value, None, self._epoch, self._done(errors, loss), measures)

    def _done(self, errors: int, loss: float) -> str | None:
        if self.epsilon is None:
            return None if errors else "no error is left"
        if loss / self._size < self.epsilon:
            return f"fewer than {self.epsilon:g} of the labels are wrong"
        return None


# --- The voted perceptron -------------------------------------------------------------------------


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
        Of the order of sentences.

    Returns
    -------
    int32 [N]
        States. Among paths with equally many votes the one that got its first vote first wins.

    Raises
    ------
    OptionError
        No epoch.
    ShapeError
        Attributes that are not those of the problem.
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
