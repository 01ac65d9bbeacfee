"""Minimum classification error: a smooth count of sentences with a wrong label.

    f(theta) = sum_b weight_b l(d_b) + l2 |theta|²

d_b is the misclassification measure of a sentence, l a sigmoid or the logistic function. At
psi = infinity the best wrong path counts alone (`fstcrf.train.rivals`), at a finite psi all of them
do (`fstcrf.train.deviation`). With the logistic function, alpha = 1, beta = 0, psi = 1 and no
averaging f is the penalised likelihood; nearly all other choices are not convex, and where training
starts matters. Source: Suzuki, McDermott and Isozaki (2006), section 3.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError, OptionError
from fstcrf.kernel import dot
from fstcrf.train.batches import Batch, Potentials, batch_of, batches, known_labels
from fstcrf.train.deviation import Deviation
from fstcrf.train.differences import Gradient, Mass, Occurrences
from fstcrf.train.maxima import Maxima
from fstcrf.train.parallel import ordered_map
from fstcrf.train.problem import ParameterSpace, Problem, Tables
from fstcrf.train.rivals import Rivalry
from fstcrf.train.segments import whole_sentences
from fstcrf.train.smoothing import Sigmoid, Smoothing

__all__ = ["ClassificationError"]

Floats = NDArray[np.float64]


class _Measured(Protocol):
    measure: Floats

    def add_mass(self, slope: Floats, mass: Mass) -> None: ...


class ClassificationError:
    """The objective, for batch optimisers and for `GPD`.

    Parameters
    ----------
    problem : Problem
        All labels known.
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|²: 1 / (2 C) of the paper.
    psi : float
        Above 0; infinity for the best wrong path alone.
    averaged : bool
        At a finite psi, the mean over wrong paths rather than their sum.
    loss : Sigmoid or Logistic
    threads : int
        The result has the same bits for any number.

    Attributes
    ----------
    evaluations : int
        Passes over the data.
    errors : int
        Sentences that the last pass over all data found wrong; at a finite psi those whose wrong
        paths outweigh the gold one.
    size : int
        Number of parameters.

    Raises
    ------
    OptionError
        psi out of range, or labels that are not known.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        *,
        l2: float,
        psi: float = np.inf,
        averaged: bool = True,
        loss: Smoothing = Sigmoid(),  # noqa: B008 (frozen)
        threads: int = 1,
    ) -> None:
        if not psi > 0.0:
            raise OptionError(f"psi is {psi}, expected a number above 0, perhaps infinity")
        known_labels(problem)
        self.l2, self.psi, self.averaged, self.loss = l2, psi, averaged, loss
        self.size, self.evaluations, self.errors = space.size, 0, 0
        self._problem, self._space, self._threads = problem, space, threads
        self._batches = list(batches(problem))
        self._occurrences = Occurrences(space)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta (float64 [size]).

        Raises
        ------
        NumericError
            The value is not finite.
        """
        self.evaluations += 1
        tables = self._space.tables(theta)
        parts = ordered_map(
            lambda batch: self._read(batch, tables, 1.0), self._batches, self._threads
        )
        gradient = 2.0 * self.l2 * theta
        for batch, (_, mass, _) in zip(self._batches, parts, strict=True):
            self._occurrences.add(batch, mass, gradient)
        value = sum(loss for loss, _, _ in parts) + self.l2 * dot(theta, theta)
        self.errors = sum(wrong for _, _, wrong in parts)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        return value, gradient

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self._problem.weight)

    def begin(self, tables: Tables, scale: float) -> None:
        """Take notice of the weights that an epoch begins with: nothing depends on them."""

    def stochastic(
        self, sentences: NDArray[np.int64], tables: Tables, scale: float
    ) -> tuple[float, Gradient]:
        """Return what some sentences add to the value, and its gradient, without the penalty.

        Parameters
        ----------
        sentences : int64 [B]
        tables : Tables
            Weights, to be multiplied by `scale`.
        scale : float
        """
        batch = batch_of(self._problem, sentences)
        loss, mass, _ = self._read(batch, tables, scale)
        return loss, self._occurrences.gradient(batch, mass)

    def _read(self, batch: Batch, tables: Tables, scale: float) -> tuple[float, Mass, int]:
        potentials = Potentials.of(batch, tables, scale)
        measured = self._measured(batch, potentials)
        loss, slope = self.loss(measured.measure)
        mass = Mass.empty(*potentials.node.shape)
        measured.add_mass(batch.weight * slope, mass)
        wrong = int((measured.measure > 0.0).sum())
        return dot(batch.weight, loss), mass, wrong

    def _measured(self, batch: Batch, potentials: Potentials) -> _Measured:
        if np.isinf(self.psi):
            maxima = Maxima.of(batch, potentials)
            return Rivalry(maxima, whole_sentences(batch), whole=True)
        return Deviation(batch, potentials, psi=self.psi, averaged=self.averaged)
