"""The conditional log-likelihood with an L2 penalty: value and gradient.

    f(theta) = sum_b weight_b (log Z_b − log Z_b(allowed)) + l2 |theta|²

log Z(allowed) sums over the label sequences that the target allows; if all labels are known it is
the score of the gold path. The gradient is the difference of the expected feature counts, plus 2 l2
theta. Chains, segments, words and rules differ in their `Expectation`. Source: Lafferty, McCallum
and Pereira (2001); for partial labels, Tsuboi et al. (2008).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ints, Singles
from fstcrf.errors import NumericError
from fstcrf.kernel import dot
from fstcrf.kernel.native import Workers
from fstcrf.training.evidence import Evidence, Precision
from fstcrf.training.expectation import Expectation
from fstcrf.training.magnitudes import units
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.settings import ObjectiveSettings, TrainingRun
from fstcrf.training.shards import spans

_ROUNDING = {True: 2.0**-26, False: 2.0**-50}  # of sums whose errors cancel: measured
LOG_ROUNDING = 2.0**-48
"""Relative rounding error of log Z, if it is a sum of logarithms."""


class LikelihoodSettings(ObjectiveSettings):
    """The penalised likelihood."""

    name: ClassVar[str] = "likelihood"

    def function(self, run: TrainingRun, l2: float) -> Likelihood:
        """Return the objective of a run."""
        return Likelihood(run.problem, run.space, l2=l2, threads=run.threads)


class SummedLikelihood:
    """Penalised negative log-likelihood, from an expectation.

    Parameters
    ----------
    expectation : Expectation
        Its `subtracted`, if it has one, is a score that its last value is without.
    observed : float64 [size]
        Count of each feature on the gold paths of sentences whose labels are all known.
    fused : bool
        The data uses weights rounded to float32.
    scored : int
        The expectation already includes the gold score of this number of first weights.
    value_sums : float64 [2, size], optional
        Magnitudes of feature values (see `sums_of_squares`); all are 1 if absent.
    l2 : float
        Coefficient of |theta|², CRFsuite's ``c2``; 1 / (2 sigma²).
    threads : int
        The result has the same bits for any number of threads.
    members : int32 [size], optional
        The data uses ``sqrt(members) * theta``, the penalty uses theta (see `Sharing`).
    fixed : float
        Part of the gold score that does not depend on the weights.
    weight : float
        Weight of each sentence, besides weights that the expectation includes.
    block_l2 : (slice, float), optional
        A block of weights with another coefficient than `l2`.
    rounding : float, optional
        Relative rounding error of log Z.

    Attributes
    ----------
    evaluations : int
        Number of calls so far: passes of forward-backward over the data.
    observed : float64 or float32 [size]
        Count of each feature on the gold paths of sentences whose labels are all known; float32 if
        it is exact.
    noise : float
        Approximate rounding error of the last value.
    """

    def __init__(
        self,
        expectation: Expectation,
        observed: Floats | Singles,
        fused: bool = False,  # noqa: FBT001, FBT002 (as `Evidence.summed` returns them)
        scored: int = 0,
        value_sums: Floats | None = None,
        *,
        l2: float,
        threads: int | Workers = 1,
        members: Ints | None = None,
        fixed: float = 0.0,
        weight: float = 1.0,
        block_l2: tuple[slice, float] | None = None,
        rounding: float | None = None,
    ) -> None:
        self.l2, self.size, self.evaluations, self.noise = l2, len(observed), 0, 0.0
        self._scored, self._fixed, self._value_sums = scored, fixed, value_sums
        self._members, self._fused, self._weight = members, fused, weight
        self._block, other_l2 = block_l2 or (slice(0), l2)
        self._more_l2 = other_l2 - l2  # of the block
        self._rounding = _ROUNDING[fused] if rounding is None else rounding
        self.observed = _narrow(observed)
        self._workers = Workers(threads) if isinstance(threads, int) else threads
        self._spans = spans(self.size)
        self._expectation = expectation

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta (float64 [size]).

        Raises
        ------
        NumericError
            The value is not finite.
        DataError
            A sentence whose allowed labels have no path.
        """
        return self.in_units(theta, None)

    def in_units(self, u: Floats, unit: Floats | Singles | None) -> tuple[float, Floats]:
        """Return value and gradient with respect to u at ``theta = unit * u``, not stored.

        The result equals `fstcrf.training.preconditioning.Rescaled`, which works for any objective.

        Raises
        ------
        NumericError, DataError
            As above.
        """
        self.evaluations += 1
        seen, gold, square, scored = self._seen(u, unit)
        loss, gradient = self._expectation(seen)
        del seen
        scored += getattr(self._expectation, "subtracted", 0.0)
        self.noise = self._rounding * abs(self._weight * (loss + scored))
        # No path scores more than the sum of all paths: a value below zero is rounding error.
        value = self._weight * max(loss - gold - self._fixed, 0.0) + self.l2 * square
        block = u[self._block] if unit is None else u[self._block] * unit[self._block]
        value += self._more_l2 * dot(block, block)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        self._finish(gradient, u, unit)
        slope = 2.0 * self._more_l2 * block
        gradient[self._block] += slope if unit is None else slope * unit[self._block]
        return value, gradient

    def expected(self, theta: Floats) -> tuple[float, Floats]:
        """Return the log-likelihood without the penalty, and the expected counts at theta."""
        seen, gold, _, _ = self._seen(theta)
        loss, counts = self._expectation(seen)
        return gold + self._fixed - loss, counts

    def curvature(self, theta: Floats) -> Floats | None:
        """Return the approximate diagonal of the Hessian at theta, float64 [size].

        It is defined as in `DiagonalHessian`, and computed by one sweep of the fused kernel; `None`
        if that is not possible.
        """
        diagonal = self._expectation.curvature(self._seen(theta)[0])
        if diagonal is None:
            return None
        self.evaluations += 1
        if self._members is not None:
            diagonal *= self._members
        diagonal *= self._weight
        diagonal += 2.0 * self.l2
        diagonal[self._block] += 2.0 * self._more_l2
        return diagonal

    @property
    def value_units(self) -> Singles | None:
        """Units of weights, float32 [size], that compensate the values of features (`units`)."""
        if self._value_sums is None:
            return None
        sums = self._weight * self._value_sums
        return units(sums if self._members is None else sums * self._members, self.l2)

    def _seen(
        self, u: Floats, unit: Floats | Singles | None = None
    ) -> tuple[Singles | Floats, float, float, float]:
        """Return the weights as used by the data, the score of the gold paths, and |theta|².

        The last value is the score that the expectation already includes.
        """
        # The fused kernel uses rounded weights, so the gold paths are scored with them as well.
        seen: NDArray[Any] = np.empty(len(u), np.float32 if self._fused else np.float64)

        def see(part: slice) -> Floats:
            theta, rounded = u[part] if unit is None else u[part] * unit[part], seen[part]
            rounded[:] = theta if self._members is None else theta * np.sqrt(self._members[part])
            counts = self.observed[part]
            cut = min(max(0, self._scored - part.start), len(rounded))
            score = dot(_wide(rounded[cut:]), _wide(counts[cut:]))
            scored = dot(_wide(rounded[:cut]), _wide(counts[:cut])) if cut else 0.0
            return np.asarray([score, dot(theta, theta), scored])

        gold, square, scored = sum(self._workers.map(see, self._spans), np.zeros(3))
        return seen, float(gold), float(square), float(scored)

    def _finish(self, gradient: Floats, u: Floats, unit: Floats | Singles | None) -> None:
        """Turn expected counts into the gradient, in place."""

        def finish(part: slice) -> None:
            slopes = gradient[part]
            slopes -= self.observed[part]
            if self._members is not None:
                slopes *= np.sqrt(self._members[part])
            if self._weight != 1.0:
                slopes *= self._weight
            if unit is None:
                slopes += 2.0 * self.l2 * u[part]
            else:
                slopes += 2.0 * self.l2 * (u[part] * unit[part])
                slopes *= unit[part]

        self._workers.each(finish, self._spans)


class Likelihood(SummedLikelihood):
    """The penalised likelihood of a problem in memory.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    l2, threads, members
        As for `SummedLikelihood`.
    precision : {"float32", "float64"}
        "float32" uses the fused kernel for sentences whose labels are all known, if there are no
        attributes of arcs; totals are float64 in any case.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        *,
        l2: float,
        threads: int = 1,
        members: Ints | None = None,
        precision: Precision = "float32",
    ) -> None:
        data = Evidence.of(problem, space, threads=threads)
        terms = data.summed(sweeps=precision == "float32")
        super().__init__(*terms, l2=l2, threads=threads, members=members)


def likelihood_of(data: Evidence, l2: float) -> SummedLikelihood:
    """Return the penalised likelihood of data, whose parts are made ready to be summed."""
    return SummedLikelihood(*data.summed(), l2=l2, threads=data.threads, members=data.members)


def _narrow(counts: Floats | Singles) -> Floats | Singles:
    """Return counts as float32 if this is exact: they are mostly integers."""
    if counts.dtype == np.float32:
        return counts
    singles = counts.astype(np.float32)
    same = all(np.array_equal(singles[part], counts[part]) for part in spans(len(counts)))
    return singles if same else counts


def _wide(array: Floats | Singles) -> Floats:
    return array.astype(np.float64, copy=False)
