"""F of segments, made differentiable: what MCE-F training minimises.

    f(theta) = M (gamma² FN + FP) / ((gamma² + 1) TP) + l2 |theta|²,  M = (gamma² + 1) (TP + FN)

TP = sum over gold segments of 1 − l(d), FN = sum of l(d), FP = sum over the segments of the best
competitor that are not gold of l(d'), with d the misclassification measure of a segment at
psi = infinity (`fstcrf.train.competitors`) and l a sigmoid. M is constant: TP + FN is the number of
gold segments. Minimising the first term maximises F_gamma = 1 / (1 + that term / M). The paper has
no M; with it the value is about the number of wrong segments, and l2 means what it means for the
likelihood: M / (2 C) in the paper's terms. A sentence without a segment on either side adds nothing
to any sum. Not convex: where it starts matters. Source: Suzuki, McDermott and Isozaki (2006),
section 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import DataError, NumericError, OptionError
from fstcrf.kernel import dot
from fstcrf.train.batches import (
    Batch,
    Potentials,
    Segments,
    batch_of,
    batches,
    gold_segments,
    known_labels,
    label_segments,
    whole_sentences,
)
from fstcrf.train.competitors import Gradient, Mass, Maxima, Occurrences, Rivalry
from fstcrf.train.mce import Sigmoid, SmoothErrors
from fstcrf.train.parallel import ordered_map
from fstcrf.train.problem import ParameterSpace, Problem, Tables
from fstcrf.train.settings import Run

__all__ = ["SegmentF", "SmoothCounts"]


# The sums of an epoch are a running mean over this share of the sentences, but of at least so many:
# of fewer it would be noise.
_MEMORY, _LEAST = 0.2, 500


@dataclass(frozen=True, slots=True)
class SmoothCounts:
    """Smooth counts of segments.

    Parameters
    ----------
    tp, fn, fp : float
        Gold segments found and missed; segments found that are not gold.
    """

    tp: float
    fn: float
    fp: float

    def __add__(self, other: SmoothCounts) -> SmoothCounts:
        """Add counts up."""
        return SmoothCounts(self.tp + other.tp, self.fn + other.fn, self.fp + other.fp)

    def times(self, factor: float) -> SmoothCounts:
        """Multiply counts."""
        return SmoothCounts(factor * self.tp, factor * self.fn, factor * self.fp)

    def mixed(self, other: SmoothCounts, share: float) -> SmoothCounts:
        """Return a mean in which others have a share, in [0, 1]."""
        return self.times(1.0 - share) + other.times(share)

    def f(self, gamma: float = 1.0) -> float:
        """F_gamma, in [0, 1]; 1 where there is no segment on either side."""
        hits = (gamma**2 + 1.0) * self.tp
        total = hits + gamma**2 * self.fn + self.fp
        return hits / total if total else 1.0


@dataclass(frozen=True, slots=True)
class _Read:
    """A batch, read at some theta: segments with their losses."""

    batch: Batch
    gold: Rivalry
    other: Rivalry
    loss: tuple[Floats, Floats]
    slope: tuple[Floats, Floats]

    @property
    def counts(self) -> SmoothCounts:
        gold, other = (
            self.batch.weight[self.batch.sentence_of[r.segments.start]]
            for r in (self.gold, self.other)
        )
        missed = dot(gold, self.loss[0])
        return SmoothCounts(float(gold.sum()) - missed, missed, dot(other, self.loss[1]))


@dataclass(frozen=True, kw_only=True)
class MCEFSettings(SmoothErrors):
    """A smooth F of spans."""

    name: ClassVar[str] = "mce-f"

    f_gamma: Annotated[
        float, Meta(gt=0, description="above 1, recall counts more than precision")
    ] = 1.0

    def function(self, run: Run, l2: float) -> SegmentF:
        """Return the objective of a run."""
        return SegmentF(
            run.problem,
            run.space,
            l2=l2,
            gamma=self.f_gamma,
            loss=self.sigmoid,
            threads=run.threads,
        )


class SegmentF:
    """The objective, for batch optimisers and for `GPD`.

    Parameters
    ----------
    problem : Problem
        All labels known; labels of spans.
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|²: M / (2 C) of the paper.
    gamma : float
        Above 1, recall counts more than precision.
    loss : Sigmoid
    threads : int
        The result has the same bits for any number.

    Attributes
    ----------
    evaluations : int
        Passes over the data.
    counts : SmoothCounts
        Of the last pass over all data; zeros before.
    size : int
        Number of parameters.

    Raises
    ------
    OptionError
        gamma or l2 out of range, or labels that are no spans, or that are not known.
    DataError
        Not one gold segment.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        *,
        l2: float,
        gamma: float = 1.0,
        loss: Sigmoid = Sigmoid(),  # noqa: B008 (frozen)
        threads: int = 1,
    ) -> None:
        if not 0.0 < gamma < np.inf:
            raise OptionError(f"gamma is {gamma}, expected a finite number above 0")
        if not isinstance(loss, Sigmoid):
            raise OptionError("the F of segments needs a sigmoid: TP must not fall below 0")
        known_labels(problem)
        labels = problem.topology.labels
        if not any(label[:2] in {"B-", "I-", "S-", "E-", "U-", "L-"} for label in labels):
            shown = ", ".join(labels[:5])
            raise OptionError(
                f"objective 'mce-f' is about segments, and no label is part of one ({shown}): "
                "use labels such as B-X and I-X, or objective 'mce'"
            )
        self.l2, self.gamma, self.loss = l2, gamma, loss
        self.size, self.evaluations = space.size, 0
        self.counts = SmoothCounts(0.0, 0.0, 0.0)
        self._problem, self._space, self._threads = problem, space, threads
        self._batches = [(batch, gold_segments(batch)) for batch in batches(problem)]
        wanted = sum(float(b.weight[b.sentence_of[s.start]].sum()) for b, s in self._batches)
        if not wanted:
            raise DataError("the training data has no gold segment: objective 'mce-f' needs some")
        self._total = (gamma**2 + 1.0) * wanted
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

        def read(part: tuple[Batch, Segments]) -> _Read:
            return self._read(*part, tables, 1.0)

        parts = ordered_map(read, self._batches, self._threads)
        self.counts = _total(part.counts for part in parts)
        value = self._ratio(self.counts) + self.l2 * dot(theta, theta)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        gradient = 2.0 * self.l2 * theta
        for part, mass in zip(parts, ordered_map(self._mass, parts, self._threads), strict=True):
            self._occurrences.add(part.batch, mass, gradient)
        return value, gradient

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self._problem.weight)

    def begin(self, tables: Tables, scale: float) -> None:
        """Take the sums over all data, at the weights that an epoch begins with."""
        self.evaluations += 1
        self.counts = _total(self._read(*part, tables, scale).counts for part in self._batches)

    def stochastic(self, sentences: Longs, tables: Tables, scale: float) -> tuple[float, Gradient]:
        """Return the errors gamma² FN + FP of some sentences, and what they add to the gradient.

        The value is taken for linear in the losses of segments, with the slopes that it has at the
        sums over all data. These are those of `begin`, and follow the sentences seen since: the
        weights of an epoch that begins at zero soon have others.

        Parameters
        ----------
        sentences : int64 [B]
        tables : Tables
            Weights, to be multiplied by `scale`.
        scale : float
        """
        if not self.counts.tp:
            self.begin(tables, scale)
        batch = batch_of(self._problem, sentences)
        part = self._read(batch, gold_segments(batch), tables, scale)
        gradient = self._occurrences.gradient(batch, self._mass(part))
        counts = part.counts
        share = min(len(sentences) / max(_MEMORY * self.n_sentences, _LEAST), 1.0)
        self.counts = self.counts.mixed(counts.times(self.n_sentences / len(sentences)), share)
        return self.gamma**2 * counts.fn + counts.fp, gradient

    def _read(self, batch: Batch, gold: Segments, tables: Tables, scale: float) -> _Read:
        maxima = Maxima.of(batch, Potentials.of(batch, tables, scale))
        topology = batch.problem.topology
        rival = topology.state_label[Rivalry(maxima, whole_sentences(batch), whole=True).rivals()]
        others = label_segments(rival, batch.offsets, topology.labels)
        sides = (
            Rivalry(maxima, gold),
            Rivalry(maxima, others.without(gold, len(batch.label))),
        )
        (one, up), (two, down) = (self.loss(side.measure) for side in sides)
        return _Read(batch, *sides, (one, two), (up, down))

    def _mass(self, part: _Read) -> Mass:
        mass = Mass.empty(*part.gold.maxima.marginal.shape)
        for side, slope, rate in zip(
            (part.gold, part.other), part.slope, self._slopes(), strict=True
        ):
            weight = part.batch.weight[part.batch.sentence_of[side.segments.start]]
            side.add_mass(rate * weight * slope, mass)
        return mass

    def _slopes(self) -> tuple[float, float]:
        """Return the derivatives of the value by the loss of a gold segment, and of another one."""
        below = (self.gamma**2 + 1.0) * self.counts.tp
        above = self.gamma**2 * self.counts.fn + self.counts.fp
        on_other = self._total / below
        return on_other * (self.gamma**2 + (self.gamma**2 + 1.0) * above / below), on_other

    def _ratio(self, counts: SmoothCounts) -> float:
        above = self.gamma**2 * counts.fn + counts.fp
        with np.errstate(divide="ignore"):
            return float(self._total * np.divide(above, (self.gamma**2 + 1.0) * counts.tp))


def _total(parts: Iterable[SmoothCounts]) -> SmoothCounts:
    total = SmoothCounts(0.0, 0.0, 0.0)
    for part in parts:
        total = total + part
    return total
