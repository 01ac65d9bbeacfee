"""The conditional log-likelihood with an L2 penalty: value and gradient.

    f(theta) = sum_b weight_b (log Z_b − log Z_b(allowed)) + l2 |theta|²

log Z(allowed) sums over the label sequences that the target allows; where all labels are known it
is the score of the gold path. The gradient is the difference of the expected feature counts, plus
2 l2 theta. Source: Lafferty, McCallum and Pereira (2001); for partial labels, Tsuboi et al. (2008).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError
from fstcrf.kernel import dot
from fstcrf.train.expectation import Expectation, Fused, General
from fstcrf.train.observed import observed_counts
from fstcrf.train.parallel import Workers, spans
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.shards import fits

__all__ = ["Likelihood", "Precision"]

Floats = NDArray[np.float64]
Precision = Literal["float32", "float64"]

_ROUNDING = {True: 2.0**-26, False: 2.0**-50}  # of sums whose errors cancel: measured


class Likelihood:
    """Penalised negative log-likelihood, for batch optimisers.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|², CRFsuite's ``c2``; 1 / (2 sigma²).
    threads : int
        The result has the same bits for any number.
    scale : float64 [size], optional
        The data sees ``scale * theta``, the penalty theta (see `fstcrf.train.ties`).
    precision : {"float32", "float64"}
        "float32" takes the fused kernel where the problem allows it (dense topology, all labels
        known, no attributes of arcs); totals are float64 in any case.

    Attributes
    ----------
    evaluations : int
        Number of calls so far: passes of forward-backward over the data.
    observed : float64 [size]
        How often each feature occurs on the gold paths of sentences whose labels are all known.
    noise : float
        Rounding error of the last value, about.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        *,
        l2: float,
        threads: int = 1,
        scale: Floats | None = None,
        precision: Precision = "float32",
    ) -> None:
        self.l2, self.size, self.evaluations, self.noise = l2, space.size, 0, 0.0
        self._scale = scale
        self.observed = observed_counts(problem, space)
        self._fused = precision == "float32" and fits(problem, space)
        engine = Fused if self._fused else General
        self._workers, self._spans = Workers(threads), spans(space.size)
        self._expectation: Expectation = engine(problem, space, workers=self._workers)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta (float64 [size]).

        Raises
        ------
        NumericError
            The value is not finite.
        DataError
            A sentence whose allowed labels have no path.
        """
        self.evaluations += 1
        seen, gold, square = self._seen(theta)
        loss, gradient = self._expectation(seen)
        self.noise = _ROUNDING[self._fused] * abs(loss)
        value = loss - gold + self.l2 * square
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        self._finish(gradient, theta)
        return value, gradient

    def _seen(self, theta: Floats) -> tuple[Floats, float, float]:
        """Return the weights as the data sees them, the score of the gold paths, and |theta|²."""
        seen = np.empty_like(theta)

        def see(part: slice) -> NDArray[np.float64]:
            weights = theta[part] if self._scale is None else theta[part] * self._scale[part]
            # The fused kernel sees rounded weights; the gold paths are scored with the same.
            seen[part] = weights.astype(np.float32) if self._fused else weights
            own = theta[part]
            return np.asarray([dot(seen[part], self.observed[part]), dot(own, own)])

        gold, square = sum(self._workers.map(see, self._spans), np.zeros(2))
        return seen, float(gold), float(square)

    def _finish(self, gradient: Floats, theta: Floats) -> None:
        """Make of expected counts the gradient."""

        def finish(part: slice) -> None:
            own = gradient[part]
            own -= self.observed[part]
            if self._scale is not None:
                own *= self._scale[part]
            own += 2.0 * self.l2 * theta[part]

        self._workers.each(finish, self._spans)
