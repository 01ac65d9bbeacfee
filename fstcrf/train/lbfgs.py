"""L-BFGS, and OWL-QN for an L1 penalty.

The direction of the two-loop recursion is a combination of the stored pairs and the gradient, and
its coefficients follow from inner products alone: one pass over the pairs for those, one to form
the direction. Source: Nocedal and Wright (2006), algorithm 7.4; Chen, Wang and Zhou (2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError
from fstcrf.kernel import VectorStore, dot, norm
from fstcrf.train.asgd import ASGD, ASGDSettings, stochastic
from fstcrf.train.descent import ARMIJO, LINE_SEARCHES, Found, LineDescent, QuasiNewton
from fstcrf.train.likelihood import Likelihood
from fstcrf.train.optimiser import Objective, Optimiser, Staged, State, floats
from fstcrf.train.preconditioning import DiagonalHessian, InUnits, Ties, Untied, arc_cells, tied
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.settings import Needs, TrainingRun
from fstcrf.train.sgd import FROM_ZERO
from fstcrf.train.shards import SERIAL, Workers, spans

_PARTS = 16  # of vectors, for threads


class Pairs:
    """The last m pairs (s, y) and their inner products.

    Rows 0 .. m - 1 of the store are steps s, the others changes y of the gradient; a new pair takes
    the place of the oldest.

    Parameters
    ----------
    memory : int
        m.
    size : int
        Length of the vectors.
    workers : Workers
        The result has the same bits for any number.
    """

    def __init__(self, memory: int, size: int, workers: Workers = SERIAL) -> None:
        self._workers, self._spans = workers, spans(size, _PARTS)
        self._m, self._store = memory, VectorStore(2 * memory, size)
        self._vectors = np.zeros((3, size))  # the newest gradient, s and y
        self._sy, self._yy = np.zeros((memory, memory)), np.zeros((memory, memory))
        self._dots = np.zeros(2 * memory)  # of the store with the gradient
        self._order: list[int] = []  # places, oldest first

    @property
    def used(self) -> int:
        """Number of pairs."""
        return len(self._order)

    def clear(self) -> None:
        """Forget all pairs."""
        self._order = []

    def add(self, theta: Floats, old_theta: Floats, gradient: Floats, old_gradient: Floats) -> None:
        """Add the pair of two points, unless the curvature between them is not positive."""
        place = len(self._order) if len(self._order) < self._m else self._order[0]
        rows, (g, s, y) = self._store.rows, self._vectors

        def differ(part: slice) -> Floats:
            g[part] = gradient[part]
            np.subtract(theta[part], old_theta[part], out=s[part])
            np.subtract(gradient[part], old_gradient[part], out=y[part])
            return np.asarray([dot(s[part], y[part]), dot(y[part], y[part])])

        sy, yy = sum(self._workers.map(differ, self._spans), np.zeros(2))
        keep = sy > 1e-10 * yy
        if keep:
            self._order = [*(p for p in self._order if p != place), place]

        def products(part: slice) -> Floats:
            if keep:
                rows[place, part], rows[self._m + place, part] = s[part], y[part]
            return self._store.dots(self._vectors, part)

        dots = sum(self._workers.map(products, self._spans), np.zeros((2 * self._m, 3)))
        self._dots = np.ascontiguousarray(dots[:, 0])
        if keep:
            m = self._m
            self._sy[place, :], self._sy[:, place] = dots[m:, 1], dots[:m, 2]
            self._yy[place, :] = self._yy[:, place] = dots[m:, 2]

    def direction(self, gradient: Floats, *, newest: bool = True) -> Floats:
        """Return −H · gradient: two-loop recursion in coordinates, c₀ g + Σ a_i s_i + b_i y_i.

        Parameters
        ----------
        gradient : float64 [size]
        newest : bool
            It is the gradient of the last `add`, whose inner products are known.
        """
        if not self._order:
            return -gradient / max(1.0, norm(gradient))
        m, sy, yy = self._m, self._sy, self._yy
        dots = self._dots if newest else self._store.dots(gradient[None])[:, 0]
        on_s, on_y = np.zeros(m), np.zeros(m)
        for i in reversed(self._order):
            on_y[i] = (dots[i] - sy[i] @ on_y) / sy[i, i]
        last = self._order[-1]
        scale = sy[last, last] / yy[last, last]
        on_y *= scale
        for i in self._order:
            along = -scale * dots[m + i] + yy[i] @ on_y + sy[:, i] @ on_s
            on_s[i] = -on_y[i] / scale - along / sy[i, i]
        weights, out = np.concatenate([on_s, on_y]), np.empty_like(gradient)

        def combine(part: slice) -> None:
            np.multiply(gradient[part], -scale, out=out[part])
            self._store.add_combination(weights, out, part)

        self._workers.each(combine, self._spans)
        return out

    def state(self) -> State:
        """Return all that is needed to go on with the same bits."""
        return {
            "pairs": self._store.rows.copy(),
            "sy": self._sy,
            "yy": self._yy,
            "dots": self._dots,
            "order": np.asarray(self._order, dtype=np.int64),
        }

    def restore(self, state: State) -> None:
        """Go back to a state."""
        self._store.rows[:] = state["pairs"]
        self._sy, self._yy, self._dots = (floats(state[name]) for name in ("sy", "yy", "dots"))
        self._order = state["order"].tolist()


# --- L-BFGS ---------------------------------------------------------------------------------------


class LBFGS(LineDescent):
    """Limited-memory BFGS.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Where to start.
    settings : QuasiNewton
    workers : Workers
        For the work on vectors.
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        settings: QuasiNewton = QuasiNewton(),  # noqa: B008 (frozen)
        *,
        workers: Workers = SERIAL,
    ) -> None:
        super().__init__(objective, theta, settings, LINE_SEARCHES[settings.line_search])
        self._pairs = Pairs(settings.memory, len(theta), workers)

    def state(self) -> State:
        """Return all that is needed to go on with the same bits."""
        return {**super().state(), **self._pairs.state()}

    def restore(self, state: State) -> None:
        """Go back to a state."""
        super().restore(state)
        self._pairs.restore(state)

    def _direction(self, slope: Floats) -> Floats:
        return self._pairs.direction(slope)

    def _learn(self, found: Found, theta: Floats, gradient: Floats) -> None:
        self._pairs.add(found.theta, theta, found.gradient, gradient)

    def _forget(self) -> bool:
        used = self._pairs.used > 0
        self._pairs.clear()
        return used


# --- OWL-QN ---------------------------------------------------------------------------------------


class OWLQN(LBFGS):
    """Orthant-wise limited-memory quasi-Newton.

    Parameters
    ----------
    objective : Objective
        The smooth part, an L2 penalty included.
    theta : float64 [size]
        Where to start.
    settings : LBFGSSettings
        Their l1 is the coefficient of sum |theta_i|; the line search halves the step.
    """

    def __init__(self, objective: Objective, theta: Floats, settings: LBFGSSettings) -> None:
        super().__init__(objective, theta, settings)
        self.l1 = settings.l1

    def _evaluate(self, theta: Floats) -> tuple[float, Floats]:
        value, gradient = self.objective(theta)
        return value + self.l1 * float(np.abs(theta).sum()), gradient

    def _slope(self, gradient: Floats) -> Floats:
        """Return the subgradient of least norm: zero where |gradient| <= l1 at a zero weight."""
        inside = np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0.0)
        return np.where(self._theta == 0.0, inside, gradient + self.l1 * np.sign(self._theta))

    def _direction(self, slope: Floats) -> Floats:
        """Return the quasi-Newton direction, without what does not descend by itself."""
        direction = self._pairs.direction(slope, newest=False)
        direction[direction * slope >= 0.0] = 0.0
        return direction

    def _search(self, slope: Floats, direction: Floats) -> Found | None:
        orthant = np.where(self._theta == 0.0, -np.sign(slope), np.sign(self._theta))
        start, length = self._values[-1], 1.0
        for _ in range(self._most_trials):
            theta = self._theta + length * direction
            theta[theta * orthant <= 0.0] = 0.0
            promised = dot(slope, theta - self._theta)
            if not promised < 0.0:
                return None
            self._trials += 1
            try:
                value, gradient = self._evaluate(theta)
            except NumericError:
                value, gradient = np.inf, slope
            if value <= start + ARMIJO * promised:
                return Found(theta, value, gradient, length)
            length *= 0.5
        return None


# --- What the likelihood is trained by ------------------------------------------------------------

# L-BFGS starts with stochastic epochs where they are cheaper than what they save.
_STAGED_SENTENCES, _STAGED_EPOCHS = 1000, 12
_STAGED_SENTENCES_TRIED = 400  # of step sizes
_TRIED = 10  # step sizes, two passes over those sentences each
_SAVED = 10.0  # evaluations, for each doubling of the sentences from 40 on: 46 of a thousand
_SAVED_FROM = 40

# Units are curvature^-0.35: half of Newton's -0.5 is too little, all of it too much away from the
# point where curvature was measured.
_UNIT_POWER = -0.35
_MOST_CELLS = 100_000_000  # arcs at all tokens: with more, the curvature costs memory (and time)


@dataclass(frozen=True, kw_only=True)
class LBFGSSettings(QuasiNewton):
    """The likelihood by L-BFGS; with an L1 penalty by OWL-QN.

    What speeds it up is used where it is valid: attributes that fire on the same tokens are one
    parameter; it begins with stochastic epochs, and goes on in units that suit the curvature.
    """

    name: ClassVar[str] = "lbfgs"

    l1: Annotated[
        float,
        Meta(
            ge=0,
            description="strength of the penalty l1 · sum |weights| (CRFsuite's c1), which makes "
            "many of them zero",
        ),
    ] = 0.0
    stochastic_epochs: Annotated[
        int | None,
        Meta(
            ge=0, description="epochs of asgd to begin with; 12 where they cost less than they save"
        ),
        Needs(lambda values: not values["l1"], "needs a run without l1: OWL-QN has no such epochs"),
        Needs(lambda values: not values.get("warm_start"), FROM_ZERO),
    ] = None

    def optimiser(self, run: TrainingRun) -> Optimiser:
        """Return the optimiser of a run."""
        problem, space, theta = run.problem, run.space, run.theta
        if self.l1 > 0:
            return OWLQN(Likelihood(problem, space, l2=self.l2, threads=run.threads), theta, self)
        workers = Workers(run.threads)

        def minimiser(objective: Objective, start: Floats) -> LBFGS:
            return LBFGS(objective, start, self, workers=workers)

        def likelihood(ties: Ties) -> Likelihood:
            threads = run.threads
            return Likelihood(
                ties.problem, ties.space, l2=self.l2, threads=threads, scale=ties.scale
            )

        def in_units(start: Floats) -> Optimiser:
            ties = tied(problem, space)
            u, seen = ties.reduce(start), likelihood(ties)
            return Untied(InUnits(seen, u, self._units(seen, ties, u), minimiser, workers), ties)

        if theta.any():  # a warm start: tied attributes may have parted
            return minimiser(run.objective.function(run, self.l2), theta)
        epochs = self._epochs(problem, space)
        if not epochs:
            ties = tied(problem, space)
            return Untied(minimiser(likelihood(ties), ties.reduce(theta)), ties)
        told = ASGDSettings(l2=self.l2, calibration_sentences=_STAGED_SENTENCES_TRIED)
        first = ASGD(problem, space, theta, told, seed=run.seed)
        return Staged(first, epochs, in_units)

    def _epochs(self, problem: Problem, space: ParameterSpace) -> int:
        """Return with how many stochastic epochs it begins."""
        if self.stochastic_epochs is not None:
            return self.stochastic_epochs
        able = self.l2 > 0 and not problem.partial.any() and stochastic(problem, space)
        if not able or len(problem.weight) < _STAGED_SENTENCES:
            return 0
        return _STAGED_EPOCHS if start_pays(problem, space, _STAGED_EPOCHS) else 0

    def _units(self, likelihood: Likelihood, ties: Ties, u: Floats) -> Floats:
        """Return a power of the curvature at u; ones where it is not known, or costs too much."""
        problem = ties.problem
        if not self.l2 > 0 or problem.partial.any():
            return np.ones(len(u))
        diagonal = likelihood.curvature(u)
        if diagonal is None:
            if arc_cells(problem) > _MOST_CELLS:
                return np.ones(len(u))
            diagonal = DiagonalHessian(problem, ties.space, l2=self.l2, scale=ties.scale)(u)
        unit: Floats = diagonal**_UNIT_POWER
        return unit


def start_pays(problem: Problem, space: ParameterSpace, epochs: int) -> bool:
    """Tell whether stochastic epochs cost less than the evaluations that they save.

    Operations are counted, for an evaluation and an epoch: rows of weights read and written, arcs
    at all tokens, and in an epoch the arcs that have a weight, once a sentence. What is saved was
    measured: it grows with the logarithm of the number of sentences.
    """
    sentences, tokens = len(problem.weight), int(problem.offsets[-1])
    arcs = 3 * arc_cells(problem) // max(1, tokens) * (tokens - sentences)
    cells = len(problem.node.index) * space.width + tokens * problem.topology.n_states
    evaluation = 2 * cells + arcs
    own = sentences * (len(space.transitions) + 2 * problem.topology.n_states)
    epoch = 4 * cells + arcs + 4 * own
    tried = 2 * _TRIED * min(1.0, _STAGED_SENTENCES_TRIED / sentences)
    saved = _SAVED * np.log2(max(1.0, sentences / _SAVED_FROM))
    return bool((epochs + tried) * epoch < saved * evaluation)
