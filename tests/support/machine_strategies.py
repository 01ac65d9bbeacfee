"""Random machines with sentences to run them on, from a seed or drawn by hypothesis.

=============  ========================================================================
Bounds         what may be drawn
random_case    a case from a seed: for thousands of them
machine_cases  the same as a hypothesis strategy: structure shrinks, numbers come from a seed
=============  ========================================================================

Potentials are multiples of a power of two, so that sums of them are exact: ties are ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import hypothesis.strategies as st
import numpy as np

from fstcrf.arrays import Floats, Ints
from fstcrf.kernel.machines import Axis, Factor, JointChain, Residual
from tests.support.machines import Case

T = TypeVar("T")


MAX_SENTENCES = 4
NEVER = (0.0, 0.02, 0.1, 0.3)  # share of −inf
# Steps of a unit: (unit, largest step). The last two spread further than exp() reaches.
MAGNITUDES = ((1.0, 1), (0.125, 8), (1.0, 8), (64.0, 8), (1000.0, 1), (1250.0, 8))


@dataclass(frozen=True)
class Bounds:
    """What may be drawn.

    paths : joint paths of a sentence, at most; None: as many as `joint` and `tokens` allow.
    joint : joint states, at most.
    states : of an axis, where that leaves room.
    shortest, tokens : of a sentence, at least and at most.
    axes : numbers of axes.
    magnitudes : (unit, largest step) of potentials.
    never : shares of −inf.
    residuals : kinds of residual automata; "none" is none.
    contexts : may arcs depend on the states of earlier axes.
    rest : axes of all pairs have one score but for exceptions, and say so.
    """

    paths: int | None = 4096
    joint: int = 125
    states: tuple[int, ...] = (1, 2, 3, 4, 5)
    shortest: int = 1
    tokens: int = 6
    axes: tuple[int, ...] = (1, 2, 3)
    magnitudes: tuple[tuple[float, int], ...] = MAGNITUDES
    never: tuple[float, ...] = NEVER
    residuals: tuple[str, ...] = ("none", "hard", "weighted")
    contexts: bool = True
    rest: bool = False


MILD = Bounds(magnitudes=((0.125, 8), (1.0, 4)))
"""Potentials that add up to little: for differences, samples and float32 weights."""

WIDE = Bounds(
    paths=None,
    joint=750,
    states=(7, 8, 9, 16, 17, 23, 32, 45),
    shortest=2,
    tokens=3,
    axes=(1, 2),
    never=NEVER[:3],
)
"""Axes of more states than a register, or a few of them, have lanes."""

LONG = Bounds(paths=None, joint=12, shortest=15, tokens=50, never=NEVER[:3])
"""Sentences along which scores drift further apart than exp() reaches."""


class Choice(Protocol):
    """Where decisions come from."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options, simpler ones first."""

    def upto(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`."""


class Seeded:
    """Decisions of a random generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._rng.integers(len(options)))]

    def upto(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))


class Drawn:
    """Decisions that hypothesis takes, and shrinks."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def pick(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))

    def upto(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))


def random_case(seed: int, bounds: Bounds | None = None) -> Case:
    rng = np.random.default_rng(seed)
    return _Builder(Seeded(rng), rng, bounds or Bounds()).case()


@st.composite
def machine_cases(draw: st.DrawFn, bounds: Bounds | None = None) -> Case:
    """Cases whose structure hypothesis draws and shrinks."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return _Builder(Drawn(draw), rng, bounds or Bounds()).case()


class _Builder:
    """One case in the making."""

    def __init__(self, choice: Choice, rng: np.random.Generator, bounds: Bounds) -> None:
        self.choice, self.rng, self.bounds = choice, rng, bounds
        self.unit, self.steps = choice.pick(bounds.magnitudes)
        self.never = choice.pick(bounds.never)
        longest = choice.upto(bounds.shortest, bounds.tokens)
        self.sizes = self._sizes(longest)
        self.width, self.outer = self.sizes[-1], int(np.prod(self.sizes[:-1]))
        lengths = [
            choice.upto(bounds.shortest, longest) for _ in range(choice.upto(1, MAX_SENTENCES))
        ]
        self.offsets = np.cumsum([0, *lengths]).astype(np.int64)
        self.moving_factors: list[Floats] = []
        self.moving_axes: list[Floats] = []

    def case(self) -> Case:
        """Build all parts."""
        before = np.cumprod([1, *self.sizes[:-1]]).tolist()
        axes = [self._axis(size, n) for size, n in zip(self.sizes, before, strict=True)]
        factors = [self._factor() for _ in range(self.choice.upto(0, 4))]
        kind = self.choice.pick(self.bounds.residuals)
        residual = None if kind == "none" else self._residual(kind)
        shape = (self.outer, self.width)
        ends = [self.numbers(*shape) if self._flip() else np.zeros(shape) for _ in range(2)]
        machine = JointChain(tuple(axes), tuple(factors), residual, ends[0], ends[1])
        return Case(machine, self.offsets, (*self.moving_factors, *self.moving_axes))

    def numbers(self, *shape: int) -> Floats:
        """Potentials of one magnitude, some of them −inf."""
        values = self.unit * self.rng.integers(-self.steps, self.steps + 1, shape)
        return np.where(self.rng.random(shape) < self.never, -np.inf, values)

    def _flip(self) -> bool:
        return self.choice.pick((False, True))

    def _sizes(self, longest: int) -> tuple[int, ...]:
        bounds, n = self.bounds, self.choice.pick(self.bounds.axes)
        room = bounds.joint
        if bounds.paths is not None:
            room = min(room, int(bounds.paths ** (1 / longest) + 1e-9))
        sizes = []
        for _ in range(n):
            sizes.append(self.choice.pick([s for s in bounds.states if s <= room] or [1]))
            room //= sizes[-1]
        turn = self.choice.upto(0, n - 1)  # or the first axes were the large ones
        return (*sizes[turn:], *sizes[:turn])

    def _place(self, outer: int) -> tuple[int, Ints | None]:
        """Rows of a table and the row of every outer index."""
        kind = self.choice.pick(("one", "each", "some"))
        if kind == "one":
            return 1, None
        if kind == "each":
            return outer, np.arange(outer, dtype=np.int32)
        rows = self.choice.upto(1, outer + 1)  # there may be rows that nothing uses
        return rows, self.rng.integers(0, rows, outer).astype(np.int32)

    def _axis(self, size: int, outer: int) -> Axis:
        contexts, place = self._place(outer) if self.bounds.contexts else (1, None)
        arcs, ends = size * size, dict[str, Ints]()
        if self._flip():
            chosen = self.rng.random(arcs) < self.choice.pick((0.8, 0.4))
            chosen[self.rng.integers(arcs)] = True
            source, target = np.divmod(np.flatnonzero(chosen), size)
            arcs = len(source)
            ends = {"source": source.astype(np.int32), "target": target.astype(np.int32)}
        score: Floats | None = self.numbers(contexts, arcs)
        if self.bounds.rest and not ends and contexts == 1 and score is not None:
            return self._rested(size, score, place)
        if self._flip():
            values = self.numbers(int(self.offsets[-1]), contexts, arcs)
            if self._flip():
                values[self.offsets[:-1]] = np.nan  # not read
            self.moving_axes.append(values)
            score = None
        return Axis(size, ends.get("source"), ends.get("target"), score, place, contexts)

    def _rested(self, size: int, score: Floats, place: Ints | None) -> Axis:
        finite = score[np.isfinite(score)]
        rest = float(self.rng.choice(finite)) if len(finite) else 0.0
        score = np.where(self.rng.random(score.shape) < 0.6, rest, score)
        others = np.flatnonzero(score[0] != rest)
        return Axis(size, score=score, place=place, rest=rest, others=others)

    def _factor(self) -> Factor:
        rows, place = self._place(self.outer)
        width = self.choice.pick((1, self.width))
        if self._flip():
            self.moving_factors.append(self.numbers(int(self.offsets[-1]), rows, width))
            return Factor(rows, width, place, None)
        return Factor(rows, width, place, self.numbers(rows, width))

    def _residual(self, kind: str) -> Residual:
        """Return an automaton that takes at most one edge for a label."""
        size, rng = self.choice.upto(1, 4), self.rng
        rows, place = self._place(self.outer)
        width = self.choice.pick((1, self.width))
        follow = rng.integers(-1 if self._flip() else 0, size, (size, rows, width))
        follow[0, 0, 0] = 0  # there is an edge
        score = np.zeros(follow.shape) if kind == "hard" else self.numbers(*follow.shape)
        part = rng.integers(0, 2, follow.shape) if self._flip() else np.zeros_like(follow)
        edges = []
        for source in range(size):
            here = [
                (source, target, np.where(mask, score[source], -np.inf))
                for target in range(size)
                for half in (0, 1)
                if (mask := (follow[source] == target) & (part[source] == half)).any()
            ]
            edges += [here[k] for k in rng.permutation(len(here))]
        sources, targets, values = zip(*edges, strict=True)
        initial = np.full(size, -np.inf)
        initial[rng.integers(size)] = 0.0 if kind == "hard" else self.numbers()
        final = np.where(rng.random(size) < self.never, -np.inf, 0.0)
        return Residual(
            size,
            np.asarray(sources, dtype=np.int32),
            np.asarray(targets, dtype=np.int32),
            rows,
            width,
            np.stack(values),
            initial,
            final if kind == "hard" else self.numbers(size),
            place,
        )
