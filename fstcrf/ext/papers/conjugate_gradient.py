"""Nonlinear conjugate gradients: plain, preconditioned, and first one, then the other.

Sources: Nocedal and Wright (2006), section 5.2; Sha and Pereira (2003) for the mixed method, which
leaves the preconditioner after some iterations, because near the maximum it no longer fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from msgspec import Meta

from fstcrf.arrays import Floats, Singles
from fstcrf.errors import NumericError, OptionError
from fstcrf.ext.papers.batches import batch_bytes
from fstcrf.kernel import dot, norm
from fstcrf.training.descent import LineDescent, LinePoint, LineSearching
from fstcrf.training.likelihood import Likelihood
from fstcrf.training.memory import LONG
from fstcrf.training.optimiser import Objective, Optimiser, State, vector
from fstcrf.training.preconditioning import (
    DiagonalHessian,
    Sharing,
    Untied,
    scaled,
    tied,
    tied_size,
)
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.settings import MethodSettings, TrainingRun
from fstcrf.training.shards import sweep_counts

Formula = Literal["polak-ribiere", "fletcher-reeves"]

_FORMULAS = ("polak-ribiere", "fletcher-reeves")


class Preconditioner(Protocol):
    """The diagonal of an approximate Hessian."""

    evaluations: int

    def __call__(self, theta: Floats) -> Floats:
        """Return the diagonal at theta, float64 [size], all of it above 0."""


class _DiagonalInUnits:
    """The diagonal for u = theta / unit."""

    def __init__(self, diagonal: Preconditioner, unit: Singles) -> None:
        self._diagonal, self._unit = diagonal, unit.astype(np.float64)

    @property
    def evaluations(self) -> int:
        return self._diagonal.evaluations

    @evaluations.setter
    def evaluations(self, number: int) -> None:
        self._diagonal.evaluations = number

    def __call__(self, theta: Floats) -> Floats:
        return np.asarray(self._diagonal(self._unit * theta) * self._unit**2)


@dataclass(frozen=True, kw_only=True)
class CG(LineSearching, MethodSettings):
    """The likelihood by conjugate gradients."""

    name: ClassVar[str] = "cg"
    has_preconditioner: ClassVar[bool] = False

    @property
    def free_of_units(self) -> bool:
        """Whether the result of a run is independent of the units of feature values."""
        return True

    def optimiser(self, run: TrainingRun) -> Optimiser:
        """Return the optimiser of a run."""
        if run.theta.any():  # a warm start: tied attributes may have parted
            return self._made(run, run.problem, run.space, run.theta, None)
        problem, space, sharing = tied(run.problem, run.space)
        start = sharing.reduce(run.theta)
        return Untied(self._made(run, problem, space, start, sharing), sharing)

    def memory_of(self, run: TrainingRun) -> int:
        """Return the bytes that a run takes at its peak: weights, slopes, directions, a trial."""
        whole, size = run.space.size, run.space.size
        if size > LONG and not run.theta.any():
            size = tied_size(run.problem, run.space)
        counts = replace(sweep_counts(run.problem, run.space), weights=size)
        added = batch_bytes(run.problem, counts, run.threads, 7)
        if self.has_preconditioner:  # its sums are a table
            added += 8 * (counts.attributes * counts.width * size // max(1, whole) + size)
        return added

    def _made(
        self,
        run: TrainingRun,
        problem: Problem,
        space: ParameterSpace,
        start: Floats,
        sharing: Sharing | None,
    ) -> Optimiser:
        members = None if sharing is None else sharing.members
        objective = Likelihood(problem, space, l2=self.l2, threads=run.threads, members=members)
        unit, diagonal = objective.value_units, None
        if self.has_preconditioner:
            problem.require_known("no preconditioner for those")
            scale = None if members is None else np.sqrt(members)
            hessian = DiagonalHessian(problem, space, l2=self.l2, scale=scale)
            diagonal = hessian if unit is None else _DiagonalInUnits(hessian, unit)

        def made(seen: Objective, u: Floats) -> ConjugateGradient:
            left = self._preconditioned
            return ConjugateGradient(seen, u, self, preconditioner=diagonal, preconditioned=left)

        return scaled(objective, start, made)

    @property
    def _preconditioned(self) -> int | None:
        return None


class PreconditionedCG(CG):
    """The likelihood by conjugate gradients with the diagonal of the Hessian."""

    name: ClassVar[str] = "preconditioned-cg"
    has_preconditioner: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class MixedCG(PreconditionedCG):
    """Preconditioned conjugate gradients for the first iterations, then plain ones."""

    name: ClassVar[str] = "mixed-cg"

    preconditioned: Annotated[int, Meta(ge=1, description="iterations with the preconditioner")] = (
        20
    )

    @property
    def _preconditioned(self) -> int | None:
        return self.preconditioned


class ConjugateGradient(LineDescent):
    """Nonlinear conjugate gradients.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Where to start.
    settings : LineSearching
    preconditioner : Preconditioner, optional
        Its diagonal is asked for at the first iteration and again every `refresh` iterations:
        directions stay conjugate for a while, and it costs a pass over the data.
    preconditioned : int, optional
        Iterations that use it (mixed conjugate gradients); all of them when absent.
    refresh : int
    formula : {"polak-ribiere", "fletcher-reeves"}
        The share of the last direction in the new one; Polak-Ribière restarts if it would be
        negative.

    Raises
    ------
    OptionError
        A number outside its range, or an unknown formula.
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        settings: LineSearching = LineSearching(),  # noqa: B008 (frozen)
        *,
        preconditioner: Preconditioner | None = None,
        preconditioned: int | None = None,
        refresh: int = 10,
        formula: Formula = "polak-ribiere",
    ) -> None:
        if formula not in _FORMULAS:
            names = ", ".join(map(repr, _FORMULAS))
            raise OptionError(f"formula {formula!r} is unknown; there are {names}")
        if preconditioned is not None:
            MixedCG(preconditioned=preconditioned)  # checks it
            if preconditioner is None:
                raise OptionError(
                    f"preconditioned is {preconditioned}, expected a preconditioner to leave"
                )
        if refresh < 1:
            raise OptionError(f"refresh is {refresh}, expected at least 1")
        super().__init__(objective, theta, settings)
        self.formula, self.preconditioned, self.refresh = formula, preconditioned, refresh
        self._diagonal: Floats | None = None
        self._preconditioner = preconditioner
        self._iteration = 0
        self._along: Floats | None = None  # the last direction
        self._last: Floats | None = None  # the gradient at the beginning of the last step
        # Of the last step: gradient · preconditioned gradient, gradient · direction, length.
        self._square, self._descent, self._length = 0.0, 0.0, 1.0
        self._unit = 1.0  # the length of 1 in the line search

    curvature = 0.1  # conjugacy needs better line searches than quasi-Newton steps do

    def state(self) -> State:
        """Return all that is needed to go on with the same bits."""
        none = np.empty(0)
        evaluations = 0 if self._preconditioner is None else self._preconditioner.evaluations
        return {
            **super().state(),
            "diagonal": none if self._diagonal is None else self._diagonal,
            "along": none if self._along is None else self._along,
            "last": none if self._last is None else self._last,
            "of_step": np.asarray([self._square, self._descent, self._length]),
            "counts": np.asarray([self._iteration, evaluations]),
        }

    def restore(self, state: State) -> None:
        """Go back to a state."""
        super().restore(state)
        self._diagonal, self._along, self._last = (
            vector(state, name, len(self._theta)) for name in ("diagonal", "along", "last")
        )
        self._square, self._descent, self._length = state["of_step"].tolist()
        self._iteration, evaluations = state["counts"].tolist()
        if self._preconditioner is not None:
            self._preconditioner.evaluations = evaluations

    def _direction(self, slope: Floats) -> Floats:
        steepest = self._preconditioned(slope)
        square = dot(slope, steepest)
        along = -steepest
        if self._along is not None:
            along += self._kept(steepest, square) * self._along
            if not dot(slope, along) < 0.0:
                along = -steepest
                self._along = None
        descent = dot(slope, along)
        # The expected decrease is the same as for the last step; the first step, along the
        # gradient, has length 1.
        if self._along is not None:
            self._unit = self._length * self._descent / descent
        elif self._preconditioning:
            self._unit = 1.0
        else:
            self._unit = 1.0 / max(1.0, norm(slope)) if self._iteration == 0 else self._length
        self._along, self._square, self._descent = along, square, descent
        return self._unit * along

    def _kept(self, steepest: Floats, square: float) -> float:
        """Return beta: how much of the last direction is kept."""
        if self.formula == "fletcher-reeves":
            return square / self._square
        if self._last is None:
            return 0.0
        return max(0.0, (square - dot(self._last, steepest)) / self._square)

    @property
    def _preconditioning(self) -> bool:
        if self._preconditioner is None:
            return False
        return self.preconditioned is None or self._iteration < self.preconditioned

    def _preconditioned(self, slope: Floats) -> Floats:
        if self._preconditioner is None or not self._preconditioning:
            if self._iteration == self.preconditioned:
                self._along = None  # directions of different metrics are not conjugate
            return slope
        if self._diagonal is None or self._iteration % self.refresh == 0:
            self._diagonal = self._checked(self._preconditioner(self._theta))
        return np.asarray(slope / self._diagonal)

    def _checked(self, diagonal: Floats) -> Floats:
        if not (np.isfinite(diagonal).all() and (diagonal > 0.0).all()):
            first = int(np.flatnonzero(~(diagonal > 0.0) | ~np.isfinite(diagonal))[0])
            raise NumericError(
                f"the preconditioner of weight {first} is {diagonal[first]} at iteration "
                f"{self._iteration + 1}, expected a finite number above 0"
            )
        return diagonal

    def _learn(self, found: LinePoint, theta: Floats, gradient: Floats) -> None:
        del theta
        self._iteration += 1
        self._last, self._length = gradient, found.length * self._unit

    def _forget(self) -> bool:
        had_direction = self._last is not None
        self._along = self._last = None
        return had_direction

    def _passes(self) -> int:
        evaluations = 0 if self._preconditioner is None else self._preconditioner.evaluations
        return super()._passes() + evaluations
