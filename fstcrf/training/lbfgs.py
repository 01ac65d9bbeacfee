"""L-BFGS, and OWL-QN for an L1 penalty.

The direction of the two-loop recursion is a combination of the stored pairs and the gradient. Its
coefficients follow from inner products: one pass over the pairs computes them, one forms the
direction. Source: Nocedal and Wright (2006), algorithm 7.4; Chen, Wang and Zhou (2014).

Whether L-BFGS begins with stochastic epochs is decided by counting operations (`start_pays`): rows
and arcs of twelve epochs and of the trial steps, against the evaluations that they save. The
savings were measured on parts of a corpus: 13 evaluations at 100 sentences, 46 at 1,000, 67 at
3,000, about ten for each doubling. Below 1,000 sentences training takes milliseconds, and there are
no such epochs. On CoNLL-2000 with the attributes of CRFsuite's tutorial it takes 68 evaluations in
total; it took 139 when the curvature was too expensive to use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fstcrf.arrays import Floats, Singles
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.kernel import VectorStore, dot, norm
from fstcrf.kernel.native import SERIAL, Workers
from fstcrf.training.descent import ARMIJO, LINE_SEARCHES, LineDescent, LinePoint, QuasiNewton
from fstcrf.training.evidence import Evidence
from fstcrf.training.likelihood import LikelihoodSettings, SummedLikelihood, likelihood_of
from fstcrf.training.magnitudes import UNEVEN
from fstcrf.training.memory import LONG, quasi_newton, release
from fstcrf.training.optimiser import Objective, Optimiser, Staged, State, floats
from fstcrf.training.preconditioning import (
    InUnits,
    Sharing,
    Untied,
    arc_cells,
    curvature_units,
    scaled,
    tied_size,
    value_units,
)
from fstcrf.training.problem import ParameterSpace
from fstcrf.training.settings import FROM_ZERO, MethodSettings, Needs, TrainingRun
from fstcrf.training.sgd import ASGD, SGDOptimiser, stochastic
from fstcrf.training.shards import N_SHARDS, part_count, spans, start_step, sweep_counts

_PARTS = 16  # of vectors, for threads
_MOST = 1e200  # largest number for 16 bits
_LEAST_COSINE = 1e-10  # least cosine between a step and the change of the gradient


class Pairs:
    """The last m pairs (s, y) and their inner products.

    Rows 0 .. m - 1 of the store are steps s, the others changes y of the gradient; a new pair
    replaces the oldest one. Long pairs are rounded to 11 binary digits before any use: L-BFGS needs
    the same number of iterations with them.

    Parameters
    ----------
    memory : int
        m.
    size : int
        Length of the vectors.
    workers : Workers
        The result has the same bits for any number of workers.
    """

    def __init__(self, memory: int, size: int, workers: Workers = SERIAL) -> None:
        self._workers, self._spans = workers, spans(size, _PARTS)
        self._m = memory
        try:
            self._store = VectorStore(2 * memory, size, half=size > LONG)
            self._sy, self._yy = np.zeros((memory, memory)), np.zeros((memory, memory))
        except (MemoryError, ValueError):  # ValueError: larger than the address space
            raise OptionError(
                f"memory is {memory}: that many pairs of {size:,} weights do not fit into memory"
            ) from None
        self._dots = np.zeros(2 * memory)  # of the store with the gradient
        self._order: list[int] = []  # rows, oldest first

    @property
    def used(self) -> int:
        """Number of pairs."""
        return len(self._order)

    def clear(self) -> None:
        """Remove all pairs."""
        self._order = []

    def add(self, theta: Floats, old_theta: Floats, gradient: Floats, old_gradient: Floats) -> None:
        """Add the pair of two points, unless their curvature is not positive."""
        place = len(self._order) if len(self._order) < self._m else self._order[0]

        def differences(part: slice) -> tuple[Floats, Floats, Floats]:
            both = np.empty((3, part.stop - part.start))
            both[0] = gradient[part]
            s = np.subtract(theta[part], old_theta[part], out=both[1])
            y = np.subtract(gradient[part], old_gradient[part], out=both[2])
            return both, s, y

        def measured(part: slice) -> tuple[Floats, Floats]:
            _, s, y = differences(part)
            inner = np.asarray([dot(s, y), dot(y, y), dot(s, s)])
            return inner, np.asarray([_largest(s), _largest(y)])

        measures = list(self._workers.map(measured, self._spans))
        sy, yy, ss = sum((one for one, _ in measures), np.zeros(3)).tolist()
        long_s, long_y = np.max([largest for _, largest in measures], axis=0, initial=0.0)
        # A bound on the angle, because a bound on the curvature would depend on units.
        keep = sy > _LEAST_COSINE * math.sqrt(yy) * math.sqrt(ss)
        keep = keep and max(long_s, long_y) <= _MOST
        if keep:
            self._order = [*(p for p in self._order if p != place), place]

        def products(part: slice) -> Floats:
            both, s, y = differences(part)
            if keep:
                self._store.put(place, s, long_s, part)
                self._store.put(self._m + place, y, long_y, part)
            return self._store.dots(both, part)

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
            Whether it is the gradient of the last `add`, whose inner products are known.
        """
        if not self._order:
            return -gradient / max(1.0, norm(gradient))
        m, sy, yy = self._m, self._sy, self._yy
        dots = self._dots if newest else self._store.dots(gradient[None])[:, 0]
        on_s, on_y = np.zeros(m), np.zeros(m)
        for i in reversed(self._order):
            on_y[i] = (dots[i] - dot(sy[i], on_y)) / sy[i, i]
        last = self._order[-1]
        scale = sy[last, last] / yy[last, last]
        on_y *= scale
        for i in self._order:
            column = np.ascontiguousarray(sy[:, i])
            along = -scale * dots[m + i] + dot(yy[i], on_y) + dot(column, on_s)
            on_s[i] = -on_y[i] / scale - along / sy[i, i]
        weights, out = np.concatenate([on_s, on_y]), np.empty_like(gradient)

        def combine(part: slice) -> None:
            np.multiply(gradient[part], -scale, out=out[part])
            self._store.add_combination(weights, out, part)

        self._workers.each(combine, self._spans)
        return out

    def state(self) -> State:
        """Return the state that is needed to continue with the same bits."""
        return {
            "pairs": self._store.state(),
            "sy": self._sy,
            "yy": self._yy,
            "dots": self._dots,
            "order": np.asarray(self._order, dtype=np.int64),
        }

    def restore(self, state: State) -> None:
        """Restore a state."""
        self._store.restore(state["pairs"])
        self._sy, self._yy, self._dots = (floats(state[name]) for name in ("sy", "yy", "dots"))
        self._order = state["order"].tolist()
        if sorted(self._order) != sorted(set(self._order) & set(range(len(self._sy)))):
            raise ShapeError(
                f"order must hold distinct numbers from 0 to {len(self._sy) - 1}, one per pair"
            )


def _largest(x: Floats) -> float:
    return max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))


# --- L-BFGS ---------------------------------------------------------------------------------------


class LBFGSOptimiser(LineDescent):
    """Limited-memory BFGS.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Initial parameters.
    settings : QuasiNewton
    workers : Workers
        Threads for vector operations.
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
        """Return the state that is needed to continue with the same bits."""
        return {**super().state(), **self._pairs.state()}

    def restore(self, state: State) -> None:
        """Restore a state."""
        super().restore(state)
        self._pairs.restore(state)

    def _direction(self, slope: Floats) -> Floats:
        return self._pairs.direction(slope)

    def _learn(self, found: LinePoint, theta: Floats, gradient: Floats) -> None:
        self._pairs.add(found.theta, theta, found.gradient, gradient)

    def _forget(self) -> bool:
        used = self._pairs.used > 0
        self._pairs.clear()
        return used

    def _knows_the_way(self) -> bool:
        return self._pairs.used > 0


# --- OWL-QN ---------------------------------------------------------------------------------------


class OWLQNOptimiser(LBFGSOptimiser):
    """Orthant-wise limited-memory quasi-Newton.

    Parameters
    ----------
    objective : Objective
        The smooth part, including an L2 penalty.
    theta : float64 [size]
        Initial parameters.
    settings : LBFGS
        Their l1 is the coefficient of sum |unit_i theta_i|; the line search halves the step.
    unit : float64 or float32 [size], optional
        1 if absent.
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        settings: LBFGS,
        unit: Floats | Singles | None = None,
    ) -> None:
        super().__init__(objective, theta, settings)
        self.l1, self._unit = settings.l1, unit

    def _l1(self, part: slice) -> Floats | float:
        return self.l1 if self._unit is None else self.l1 * self._unit[part].astype(np.float64)

    def _evaluate(self, theta: Floats) -> tuple[float, Floats]:
        value, gradient = self.objective(theta)
        if self._unit is None:
            size = sum(dot(theta[part], np.sign(theta[part])) for part in spans(len(theta)))
            return value + self.l1 * size, gradient
        parts = spans(len(theta))
        return value + sum(dot(np.abs(theta[p]), np.asarray(self._l1(p))) for p in parts), gradient

    def _slope(self, gradient: Floats) -> Floats:
        """Return the subgradient of least norm: zero where |gradient| <= l1 at a zero weight."""
        slope = np.empty_like(gradient)
        for part in spans(len(gradient)):
            slopes, theta = gradient[part], self._theta[part]
            l1 = self._l1(part)
            inside = np.sign(slopes) * np.maximum(np.abs(slopes) - l1, 0.0)
            slope[part] = np.where(theta == 0.0, inside, slopes + l1 * np.sign(theta))
        return slope

    def _direction(self, slope: Floats) -> Floats:
        """Return the quasi-Newton direction, without components that ascend."""
        direction = self._pairs.direction(slope, newest=False)
        for part in spans(len(slope)):
            descent = direction[part]
            descent[descent * slope[part] >= 0.0] = 0.0
        return direction

    def _search(self, slope: Floats, direction: Floats) -> LinePoint | None:
        start, length = self._values[-1], 1.0
        theta = gradient = slope[:0]
        for _ in range(self._most_trials):
            del theta, gradient  # of the last trial, because vectors are long
            theta, promised = self._projected(slope, direction, length)
            if not promised < 0.0:
                return None
            self._trials += 1
            try:
                value, gradient = self._evaluate(theta)
            except NumericError:
                value, gradient = np.inf, slope
            if value <= start + ARMIJO * promised:
                return LinePoint(theta, value, gradient, length)
            length *= 0.5
        return None

    def _projected(self, slope: Floats, direction: Floats, length: float) -> tuple[Floats, float]:
        """Return a point of the line, zero outside the orthant, and the predicted gain."""
        theta, promised = np.empty_like(direction), 0.0
        for part in spans(len(direction)):
            old, new = self._theta[part], theta[part]
            np.add(old, length * direction[part], out=new)
            orthant = np.where(old == 0.0, -np.sign(slope[part]), np.sign(old))
            new[new * orthant <= 0.0] = 0.0
            promised += dot(slope[part], new - old)
        return theta, promised


# --- What the likelihood is trained by ------------------------------------------------------------

# L-BFGS starts with stochastic epochs if they cost less than they save.
_STAGED_SENTENCES, _STAGED_EPOCHS = 1000, 12
_STAGED_SENTENCES_TRIED = 400  # of step sizes
_WITHOUT_EPOCHS = "lower l2, or leave out the epochs that come first: stochastic_epochs=0"
_TRIED = 10  # step sizes, each with two passes over these sentences
_SAVED = 10.0  # evaluations, for each doubling of the sentences from 40 on: 46 at a thousand
_SAVED_FROM = 40

# Units are curvature^(−22/64): half of Newton's −1/2 is too little, and −1/2 is too much far from
# the point where curvature was measured.
_UNIT_POWER = 22
# arcs over all tokens: beyond it, the curvature needs too much memory (and time)
_MOST_CELLS = 100_000_000


@dataclass(frozen=True, kw_only=True)
class LBFGS(QuasiNewton, MethodSettings):
    """The likelihood by L-BFGS; with an L1 penalty by OWL-QN.

    Valid accelerations are used: attributes that fire on the same tokens are merged to one
    parameter; training begins with stochastic epochs, and continues in units that fit the
    curvature.
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
            ge=0, description="epochs of asgd to begin with; 12 if they are expected to save time"
        ),
        Needs(lambda values: not values["l1"], "needs a run without l1: OWL-QN has no such epochs"),
        Needs(lambda values: not values.get("start"), FROM_ZERO),
    ] = None

    @property
    def free_of_units(self) -> bool:
        """Whether the result of a run is independent of the units of feature values."""
        return not self.stochastic_epochs

    def optimiser(self, run: TrainingRun) -> Optimiser:
        """Return the optimiser of a run."""
        data = Evidence.of(run.problem, run.space, threads=run.threads)
        return self.course(data, run.theta, seed=run.seed, threads=run.threads)

    def course(
        self, data: Evidence, theta: Floats, *, seed: int = 0, threads: int = 1
    ) -> Optimiser:
        """Return the optimiser for some data and a start; threads are threads of this process."""
        workers = Workers(threads)
        minimiser = partial(self.minimiser, workers=workers)
        if self.l1 > 0 or theta.any():  # a warm start: merged attributes may differ in weights
            return minimiser(likelihood_of(data, self.l2), theta)

        # the result is removed when it is used, to free its memory
        waiting: list[Callable[[], tuple[Evidence, Sharing, SummedLikelihood]]] = []

        def merged() -> tuple[Evidence, Sharing, SummedLikelihood]:
            ties, sharing = data.tied()
            return ties, sharing, likelihood_of(ties, self.l2)

        def in_units(start: Floats) -> Optimiser:
            release()  # memory of the epochs and their layout
            ties, sharing, likelihood = waiting.pop()() if waiting else merged()
            u = sharing.reduce(start)
            if data.counts.largest >= UNEVEN:  # steps of one length may have diverged
                u = min((u, np.zeros(len(u))), key=lambda one: likelihood(one)[0])
            units = self._units(ties, likelihood, u)
            return Untied(InUnits(likelihood, u, units, minimiser, workers), sharing)

        epochs = self.epochs(data)
        if not epochs:
            _, sharing, likelihood = merged()
            return Untied(minimiser(likelihood, sharing.reduce(theta)), sharing)
        first_part = data.start()
        share = len(first_part.weight) / data.counts.sentences
        settings = ASGD(l2=share * self.l2, calibration_sentences=_STAGED_SENTENCES_TRIED)
        first = SGDOptimiser(
            first_part, data.space, theta, settings, seed=seed, remedy=_WITHOUT_EPOCHS
        )
        # An epoch cannot use a second thread; meanwhile the layout is computed, which takes
        # longest.
        short = data.here and data.space.size <= LONG  # it takes memory
        if short and self.max_iterations > epochs and (ready := workers.begun(merged)):
            waiting.append(ready)
        return Staged(first, epochs, in_units)

    def minimiser(self, objective: Objective, theta: Floats, workers: Workers) -> Optimiser:
        """Return L-BFGS, or OWL-QN with l1, in units that suit the values of features."""
        unit = value_units(objective)

        def made(seen: Objective, start: Floats) -> LBFGSOptimiser:
            if self.l1 > 0.0:
                return OWLQNOptimiser(seen, start, self, unit)
            return LBFGSOptimiser(seen, start, self, workers=workers)

        return scaled(objective, theta, made, workers)

    def memory_of(self, run: TrainingRun) -> int | None:
        """Return the peak memory of a run, in bytes: `SweepCounts`, and vectors."""
        problem, space = run.problem, run.space
        if not isinstance(run.objective, LikelihoodSettings):
            return None
        counts = sweep_counts(problem, space)
        parts = part_count(counts.tokens)
        cold = not (self.l1 > 0 or run.theta.any())
        epochs = self.epochs(Evidence.of(problem, space)) if cold else 0
        pairs = max(0, min(self.memory, self.max_iterations - epochs))
        if not cold:
            # Current weights and gradient, slope, direction, weights of the trial.
            rest = quasi_newton(space.size, pairs, vectors=5)
            return counts.objective(N_SHARDS * parts, run.threads) + rest
        size = tied_size(problem, space) if space.size > LONG else space.size
        counts = replace(counts, weights=size)
        # Current weights and gradient, the same of the best trial, direction; units, members.
        rest = quasi_newton(size, pairs, vectors=5, more=8)
        start = counts.stochastic() if epochs else 0
        return max(start, counts.objective(N_SHARDS * parts, run.threads) + rest)

    def spread_bytes(self, space: ParameterSpace) -> int:
        """Return the approximate bytes of index and weights here, if parts are elsewhere."""
        vectors = 5 + 4  # of the optimiser, and of sums to be added
        index = 16 * space.n_node_rows + 16 * len(space.node_cells)
        return quasi_newton(space.size, self.memory, vectors=vectors, more=16) + index

    def epochs(self, data: Evidence) -> int:
        """Return the number of initial stochastic epochs."""
        if self.stochastic_epochs is not None:
            return self.stochastic_epochs
        able = self.l2 > 0 and stochastic(data.space)
        able = able and data.counts.largest < UNEVEN
        if not able or data.counts.labelled < _STAGED_SENTENCES:
            return 0
        return _STAGED_EPOCHS if start_pays(data, _STAGED_EPOCHS) else 0

    def _units(self, data: Evidence, likelihood: SummedLikelihood, u: Floats) -> Singles:
        """Return units that fit the values of features, times a power of the curvature at u.

        The power is omitted if the curvature is not known, or costs too much.
        """
        unit = value_units(likelihood)
        plain = np.ones(len(u), dtype=np.float32) if unit is None else unit
        if not self.l2 > 0:
            return plain
        diagonal = likelihood.curvature(u)
        if diagonal is None:
            if arc_cells(data.space.topology, data.counts.tokens) > _MOST_CELLS:
                return plain
            diagonal = data.hessian(self.l2, u)
        return curvature_units(diagonal, unit, _UNIT_POWER).astype(np.float32)


def start_pays(data: Evidence, epochs: int) -> bool:
    """Return whether initial stochastic epochs cost less than the evaluations that they save.

    Operations of an evaluation and of an epoch are counted: rows of weights read and written, arcs
    over all tokens, and in an epoch once per sentence the arcs that have a weight. The saving was
    measured: it grows with the logarithm of the number of sentences. Epochs take a share of a long
    text, and of any text the sentences whose labels are all known.
    """
    counts, space, topology = data.counts, data.space, data.space.topology
    sentences, tokens = counts.sentences, counts.tokens
    share = counts.labelled / sentences / start_step(tokens)
    arcs = backward = 3 * arc_cells(topology, 1) * (tokens - sentences)
    if counts.labelled and data.default_arcs is not None:
        # in multiplications of a dense product, as measured, for grouped and for single sentences
        states, listed = topology.n_states, len(space.transitions)
        backward = (tokens - sentences) * (60 * states + 5 * listed)
        arcs = min(arcs, (tokens - sentences) * (75 * states + 36 * listed))
    cells = counts.entries * space.width + tokens * topology.n_states
    evaluation = 2 * cells + backward
    weights = sentences * (len(space.transitions) + 2 * topology.n_states)
    epoch = share * (4 * cells + arcs + 4 * weights)
    trials = 2 * _TRIED * min(1.0, _STAGED_SENTENCES_TRIED / (share * sentences))
    saved = _SAVED * math.log2(max(1.0, share * sentences / _SAVED_FROM))
    return bool((epochs + trials) * epoch < saved * evaluation)
