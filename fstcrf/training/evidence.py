"""The data of a batch training, in this process or in parts elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.lazy import made_once
from fstcrf.machines.topology import Topology
from fstcrf.training.executors.executor import folded
from fstcrf.training.likelihood import Likelihood, SummedLikelihood
from fstcrf.training.magnitudes import largest_value
from fstcrf.training.preconditioning import DiagonalHessian, Sharing, Ties, tied
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.shards import (
    added,
    fits,
    parts_of,
    sparse_default_arcs,
    start_sentences,
    start_step,
)

NO_START = "stochastic_epochs need sentences whose labels are all known, and there are none"
"""The error for a text that epochs cannot begin with."""


@dataclass(frozen=True, slots=True)
class DataCounts:
    """Sizes of the data, which determine the course of a batch training.

    Parameters
    ----------
    sentences, tokens : int
    entries : int
        Number of attributes over all tokens, without attributes of arcs.
    labelled : int
        Number of sentences whose labels are all known.
    listed : bool
        Whether the fused kernel treats the arcs with weights as exceptions.
    largest : float
        Largest absolute value of an attribute, at least 1.
    """

    sentences: int
    tokens: int
    entries: int
    labelled: int
    listed: bool
    largest: float = 1.0


class TiedEvidence(NamedTuple):
    """The data with attributes of equal tokens merged; see `Ties`.

    hessian : l2, theta → the approximate diagonal of the Hessian, float64 [size], by a reference
    method that needs memory.
    """

    likelihood: SummedLikelihood
    sharing: Sharing
    hessian: Callable[[float, Floats], Floats]


class Evidence(Protocol):
    """The data of a batch training, as its optimisers use it."""

    @property
    def topology(self) -> Topology:
        """The structure of labels."""

    @property
    def space(self) -> ParameterSpace:
        """The weights that exist."""

    @property
    def counts(self) -> DataCounts:
        """Sizes of the data."""

    def likelihood(self, l2: float) -> SummedLikelihood:
        """Return the likelihood of all weights."""

    def tied(self, l2: float) -> TiedEvidence:
        """Return the likelihood with attributes of equal tokens merged."""

    def start(self) -> Problem:
        """Return the sentences for initial stochastic epochs: every k-th with known labels."""


class InMemory:
    """The evidence of a problem in memory.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    threads : int
    """

    def __init__(self, problem: Problem, space: ParameterSpace, *, threads: int = 1) -> None:
        self.problem, self.space, self._threads = problem, space, threads

    @property
    def topology(self) -> Topology:
        """The structure of labels."""
        return self.problem.topology

    @made_once
    def counts(self) -> DataCounts:
        """Sizes of the data."""
        problem = self.problem
        return DataCounts(
            sentences=len(problem.weight),
            tokens=int(problem.offsets[-1]),
            entries=len(problem.node.index),
            labelled=int(np.count_nonzero(~problem.partial)),
            listed=fits(problem, self.space)
            and sparse_default_arcs(problem, self.space) is not None,
            largest=largest_value(problem),
        )

    def likelihood(self, l2: float) -> SummedLikelihood:
        """Return the likelihood of all weights."""
        return Likelihood(self.problem, self.space, l2=l2, threads=self._threads)

    def tied(self, l2: float) -> TiedEvidence:
        """Return the likelihood with attributes of equal tokens merged."""
        ties = tied(self.problem, self.space)
        likelihood = Likelihood(
            ties.problem, ties.space, l2=l2, threads=self._threads, members=ties.members
        )
        return TiedEvidence(likelihood, ties.sharing, lambda l2, u: _hessian(ties, l2, u))

    def start(self) -> Problem:
        """Return the sentences for initial stochastic epochs: every k-th with known labels."""
        problem = self.problem
        numbers = start_sentences(problem, start_step(int(problem.offsets[-1])))
        if not len(numbers):
            raise OptionError(NO_START)
        return problem if len(numbers) == len(problem.weight) else problem.chosen(numbers)


def _hessian(ties: Ties, l2: float, u: Floats) -> Floats:
    parts = [
        DiagonalHessian(part, ties.space, l2=l2, scale=ties.scale)
        for part in parts_of(ties.problem)
    ]
    total = folded(lambda k: parts[k].variances(u), added, 0, len(parts))
    return parts[0].completed(total)
