"""Minimum classification error: smooth counts of errors, by the misclassification measure d.

Where d < 0 the right answer wins, where d > 0 a wrong one does. The count of errors is the step
between; these are differentiable. Source: Suzuki, McDermott and Isozaki (2006), equation 8.

F of segments is made differentiable as

    f(theta) = M (gamma² FN + FP) / ((gamma² + 1) TP) + l2 |theta|²,  M = (gamma² + 1) (TP + FN)

TP = sum over gold segments of 1 − l(d), FN = sum of l(d), FP = sum over the segments of the best
competitor that are not gold of l(d'), with d the misclassification measure of a segment at
psi = infinity (`fstcrf.ext.papers.competitors`) and l a sigmoid. M is constant: TP + FN is the
number of gold segments. Minimising the first term maximises F_gamma = 1 / (1 + that term / M). The
paper has no M; with it, the value is close to the number of wrong segments, and l2 has the same
meaning as for the likelihood: M / (2 C) in the paper's terms. A sentence without gold or competing
segments adds nothing to any sum. The function is not convex: the starting point matters (section
4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from msgspec import Meta

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs
from fstcrf.errors import DataError, NumericError, OptionError
from fstcrf.ext.papers.batches import (
    Batch,
    BatchPotentials,
    Segments,
    batch_of,
    batches,
    gold_segments,
    label_segments,
    whole_sentences,
)
from fstcrf.ext.papers.competitors import Gradient, Mass, Maxima, Occurrences, Rivalry
from fstcrf.kernel import dot
from fstcrf.kernel.native import Workers
from fstcrf.machines.topology import Topology
from fstcrf.training.problem import ParameterSpace, Problem, Tables
from fstcrf.training.settings import Needs, ObjectiveSettings, TrainingRun


class Smoothing(Protocol):
    """A smooth, rising function of the misclassification measure."""

    def __call__(self, measure: Floats) -> tuple[Floats, Floats]:
        """Return loss and derivative at each d (float64 [M]); d may be −inf, the loss is 0."""


@dataclass(frozen=True, slots=True)
class _Sloped:
    """A loss as a function of alpha d + beta; OptionError for invalid parameters."""

    alpha: float = 1.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < np.inf:
            raise OptionError(f"alpha is {self.alpha}, expected a finite number above 0")
        if not np.isfinite(self.beta):
            raise OptionError(f"beta is {self.beta}, expected a finite number")


@dataclass(frozen=True, slots=True)
class Sigmoid(_Sloped):
    """1 / (1 + exp(−alpha d − beta)).

    Parameters
    ----------
    alpha : float
        How steep it is, above 0: the larger, the closer to the count of errors.
    beta : float
        Shifts it: a positive one asks for a margin.

    Raises
    ------
    OptionError
        alpha not above 0, or a number that is not finite.
    """

    def __call__(self, measure: Floats) -> tuple[Floats, Floats]:
        """Return loss and derivative at each d."""
        loss = _sigmoid(self.alpha * measure + self.beta)
        return loss, self.alpha * loss * (1.0 - loss)


@dataclass(frozen=True, slots=True)
class Logistic(_Sloped):
    """log(1 + exp(alpha d + beta)) / alpha; parameters and errors as of `Sigmoid`."""

    def __call__(self, measure: Floats) -> tuple[Floats, Floats]:
        """Return loss and derivative at each d."""
        x = self.alpha * measure + self.beta
        return np.logaddexp(0.0, x) / self.alpha, _sigmoid(x)


def _sigmoid(x: Floats) -> Floats:
    # exp of −|x| cannot overflow.
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0.0, 1.0, small) / (1.0 + small))


# --- The misclassification measure of whole sentences by all --------------------------------------
_GOLD, _LEFT, _FREE = range(3)

_SUCCESSION = ((_GOLD, _GOLD), (_GOLD, _LEFT), (_LEFT, _FREE), (_FREE, _FREE))


class Deviation:
    """The measure of each sentence of a batch.

    Parameters
    ----------
    batch : Batch
    potentials : BatchPotentials
    psi : float
        Above 0; with larger values, the best wrong path dominates.
    averaged : bool
        Divide by the number of wrong paths, A.

    Attributes
    ----------
    measure : float64 [B]
        d; −inf without a wrong path.
    """

    def __init__(
        self, batch: Batch, potentials: BatchPotentials, *, psi: float, averaged: bool
    ) -> None:
        self._batch = batch
        topology = batch.problem.topology
        self._copies = _Copies(topology)
        graph, node = potentials.graph, potentials.node
        self._graph = self._copies.graph(graph, psi)
        self._node = self._copies.node(batch, psi * node)
        wrong = kernel.log_partition(self._graph, batch.offsets, self._node)
        if averaged:
            flat = topology.graph(np.zeros(topology.n_arc_slots))
            wrong -= kernel.log_partition(
                self._copies.graph(flat, 1.0),
                batch.offsets,
                self._copies.node(batch, np.zeros_like(node)),
            )
        wrong = np.where(np.isneginf(wrong) | np.isnan(wrong), -np.inf, wrong)
        self.measure = wrong / psi - _gold_score(batch, potentials)

    def add_mass(self, slope: Floats, mass: Mass) -> None:
        """Add the derivative of sum of slope x d.

        Parameters
        ----------
        slope : float64 [B]
        mass : Mass
        """
        batch, states = self._batch, mass.node.shape[1]
        weight = np.where(np.isneginf(self.measure), 0.0, slope)
        posterior = kernel.forward_backward(self._graph, batch.offsets, self._node, weight=weight)
        node = posterior.node.reshape(len(posterior.node), 3, states).sum(axis=1)
        share = weight[batch.sentence_of]
        token, gold = np.arange(len(batch.state)), batch.state.astype(np.int64)
        node[token, gold] -= share
        mass.node += node
        mass.begin += node[batch.first].sum(axis=0)
        mass.end += node[batch.last].sum(axis=0)
        inner = np.flatnonzero(~batch.first)
        mass.add_arcs(inner, gold[inner - 1], gold[inner], -share[inner])
        arcs = self._copies.single(posterior.arc)
        source, target = self._copies.source, self._copies.target
        if arcs.ndim == 1:
            mass.add_arcs(np.zeros(len(source), dtype=np.int64), source, target, arcs)
            return
        arcs[batch.first] = 0.0
        into, which = np.nonzero(arcs)
        mass.add_arcs(into, source[which], target[which], arcs[into, which])


def _gold_score(batch: Batch, potentials: BatchPotentials) -> Floats:
    """Score of the gold path of each sentence."""
    gold = np.full(potentials.node.shape, -np.inf)
    token = np.arange(len(batch.state))
    gold[token, batch.state] = potentials.node[token, batch.state]
    return kernel.viterbi(potentials.graph, batch.offsets, gold)[1]


class _Copies:
    """Three consecutive copies of a topology."""

    def __init__(self, topology: Topology) -> None:
        states = topology.n_states
        self._states = states
        self.source = topology.source.astype(np.int64)
        self.target = topology.target.astype(np.int64)
        self._kernel_arcs = topology.kernel_arcs()
        source = np.concatenate([self.source + a * states for a, _ in _SUCCESSION])
        target = np.concatenate([self.target + b * states for _, b in _SUCCESSION])
        self._order = np.lexsort((target, source))
        self._source = source[self._order].astype(np.int32)
        self._target = target[self._order].astype(np.int32)

    def graph(self, one: kernel.Graph, psi: float) -> kernel.Graph:
        """Return the graph of the copies, at psi times the potentials."""
        score = np.tile(psi * one.score[..., self._kernel_arcs], len(_SUCCESSION))
        shut = np.full(self._states, -np.inf)
        initial = np.concatenate([psi * one.initial, psi * one.initial, shut])
        final = np.concatenate([shut, psi * one.final, psi * one.final])
        return kernel.Graph(
            initial,
            final,
            np.ascontiguousarray(score[..., self._order]),
            self._source,
            self._target,
        )

    def node(self, batch: Batch, node: Floats) -> Floats:
        """Return the potentials of the copies' states, float64 [n, 3 S]."""
        gold = np.zeros(node.shape, dtype=bool)
        gold[np.arange(len(node)), batch.state] = True
        copies = np.where(gold, node, -np.inf), np.where(gold, -np.inf, node), node
        return np.concatenate(copies, axis=1)

    def single(self, arcs: Floats) -> Floats:
        """Add up the copies of each arc: [..., copies] → [..., arcs]."""
        unsorted = np.empty_like(arcs)
        unsorted[..., self._order] = arcs
        copies = unsorted.reshape(*arcs.shape[:-1], len(_SUCCESSION), -1)
        return np.asarray(copies.sum(axis=-2))


# --- Minimum classification error -----------------------------------------------------------------
class _Measured(Protocol):
    measure: Floats

    def add_mass(self, slope: Floats, mass: Mass) -> None: ...


@dataclass(frozen=True, kw_only=True)
class SmoothErrors(ObjectiveSettings):
    """Parameters that make a count of errors smooth."""

    steepness: Annotated[
        float, Meta(gt=0, description="how close to the count it is: the alpha of the sigmoid")
    ] = 1.0
    offset: Annotated[
        float, Meta(description="shifts it, the beta; above 0 it asks for a margin")
    ] = 0.0

    tables: ClassVar[float]
    """Tables of float64 [tokens, states] that an evaluation keeps."""
    moved: ClassVar[int]
    """Weights of an attribute that differ between the paths of a sentence, about."""

    @property
    def compares_paths(self) -> bool:
        """Single paths are compared: little of a sentence has a part in the gradient."""
        return True

    def at_rest(self, run: TrainingRun) -> int:
        """Return the bytes of the places of all weights, and of one table of the weights."""
        return (4 + 8) * run.space.n_node_rows * run.space.width

    def rows(self, run: TrainingRun) -> int:
        """Return the bytes that an evaluation takes for the sentences."""
        tokens, states = int(run.problem.offsets[-1]), run.problem.topology.n_states
        return int(8 * self.tables * tokens * states)

    @property
    def sigmoid(self) -> Sigmoid:
        """The sigmoid of the misclassification measure."""
        return Sigmoid(self.steepness, self.offset)


@dataclass(frozen=True, kw_only=True)
class MCE(SmoothErrors):
    """A smooth count of sentences with an error."""

    name: ClassVar[str] = "mce"
    tables = 1.5
    moved = 1

    smoothing: Annotated[
        Literal["sigmoid", "logistic"],
        Meta(description="function that smooths the count of errors"),
    ] = "sigmoid"
    psi: Annotated[
        float | None,
        Meta(
            gt=0,
            description="weight of the best wrong labelling; without it, only the best one counts",
        ),
    ] = None
    competitors: Annotated[
        Literal["mean", "sum"],
        Meta(description="with `psi`: the mean over wrong labellings, or their sum"),
        Needs(
            lambda values: values["psi"] is not None,
            "needs a finite psi: without one only the best counts",
        ),
    ] = "mean"

    @property
    def compares_paths(self) -> bool:
        """Not at a finite psi: all wrong paths count."""
        return self.psi is None

    def function(self, run: TrainingRun, l2: float) -> ClassificationError:
        """Return the objective of a run."""
        logistic = Logistic(self.steepness, self.offset)
        return ClassificationError(
            run.problem,
            run.space,
            l2=l2,
            psi=np.inf if self.psi is None else self.psi,
            averaged=self.competitors == "mean",
            loss=self.sigmoid if self.smoothing == "sigmoid" else logistic,
            threads=run.threads,
        )


class _SmoothCount(ABC):
    """A smooth count of errors, for batch optimisers and for `GPD`."""

    def __init__(self, problem: Problem, space: ParameterSpace, *, l2: float, threads: int) -> None:
        problem.require_known(
            "classification errors cannot be counted there, train by objective 'likelihood'"
        )
        self.l2, self.size, self.evaluations = l2, space.size, 0
        self._problem, self._space, self._workers = problem, space, Workers(threads)
        self._occurrences = Occurrences(space)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta (float64 [size]).

        Raises
        ------
        NumericError
            The value is not finite.
        """
        self.evaluations += 1
        count, masses = self._counted(self._space.tables(theta))
        value = count + self.l2 * dot(theta, theta)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        gradient = 2.0 * self.l2 * theta
        for batch, mass in masses:
            self._occurrences.add(batch, mass, gradient)
        return value, gradient

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self._problem.weight)

    @abstractmethod
    def _counted(self, tables: Tables) -> tuple[float, Iterable[tuple[Batch, Mass]]]:
        """Return the count over all data, and its derivative by the parts of paths."""


class ClassificationError(_SmoothCount):
    """The objective, for batch optimisers and for `GPD`.

    Parameters
    ----------
    problem : Problem
        All labels known.
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|²: 1 / (2 C) of the paper.
    psi : float
        Above 0; infinity for only the best wrong path.
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
        Wrong sentences in the last pass over all data; at a finite psi, sentences whose wrong paths
        outweigh the gold one.
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
        loss: Smoothing = Sigmoid(),
        threads: int = 1,
    ) -> None:
        if not psi > 0.0:
            raise OptionError(f"psi is {psi}, expected a number above 0, perhaps infinity")
        super().__init__(problem, space, l2=l2, threads=threads)
        self.psi, self.averaged, self.loss, self.errors = psi, averaged, loss, 0
        self._batches = list(batches(problem))

    def _counted(self, tables: Tables) -> tuple[float, Iterable[tuple[Batch, Mass]]]:
        read = self._workers.map(lambda batch: self._read(batch, tables, 1.0), self._batches)
        losses, masses, wrong = zip(*read, strict=True)
        self.errors = sum(wrong)
        return sum(losses), zip(self._batches, masses, strict=True)

    def begin(self, tables: Tables, scale: float) -> None:
        """Receive the initial weights of an epoch, which have no effect here."""

    def stochastic(self, sentences: Longs, tables: Tables, scale: float) -> tuple[float, Gradient]:
        """Return the part of some sentences in the value, and its gradient, without the penalty.

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
        potentials = BatchPotentials.of(batch, tables, scale)
        measured = self._measured(batch, potentials)
        loss, slope = self.loss(measured.measure)
        mass = Mass.empty(*potentials.node.shape)
        measured.add_mass(batch.weight * slope, mass)
        wrong = int((measured.measure > 0.0).sum())
        return dot(batch.weight, loss), mass, wrong

    def _measured(self, batch: Batch, potentials: BatchPotentials) -> _Measured:
        if np.isinf(self.psi):
            maxima = Maxima.of(batch, potentials)
            return Rivalry(maxima, whole_sentences(batch), whole=True)
        return Deviation(batch, potentials, psi=self.psi, averaged=self.averaged)


# --- F of segments --------------------------------------------------------------------------------

# The sums of an epoch are a running mean over this share of the sentences, but of at least so many:
# of fewer it would be noise.
_MEMORY, _LEAST = 0.2, 500
_LARGEST_GAMMA = 1e100  # the product of its square and counts is far from the limits of float64


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
        """F_gamma, in [0, 1]; 1 without gold and found segments."""
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
class MCEF(SmoothErrors):
    """A smooth F of spans."""

    name: ClassVar[str] = "mce-f"
    tables = 7.0
    moved = 3

    f_gamma: Annotated[
        float, Meta(gt=0, description="above 1, recall counts more than precision")
    ] = 1.0
    span_end: Annotated[
        Literal["inside", "next"],
        Meta(
            description="whether a span is right if its own labels are right (inside), or only "
            "if the label of the next token is right as well, which matters for "
            "such schemes as IOB2"
        ),
    ] = "inside"

    def function(self, run: TrainingRun, l2: float) -> SegmentF:
        """Return the objective of a run."""
        return SegmentF(
            run.problem,
            run.space,
            l2=l2,
            gamma=self.f_gamma,
            loss=self.sigmoid,
            span_end=self.span_end,
            threads=run.threads,
        )


class SegmentF(_SmoothCount):
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
    span_end : {"inside", "next"}
        The tokens in a span's measure: its tokens, or also the next token. Under IOB2, the labels
        of a span do not determine its end: ``B I I`` has all labels of a gold ``B I``.
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
        loss: Sigmoid = Sigmoid(),
        span_end: Literal["inside", "next"] = "inside",
        threads: int = 1,
    ) -> None:
        if not 0.0 < gamma <= _LARGEST_GAMMA:
            raise OptionError(
                f"gamma is {gamma}, expected a number above 0 and up to {_LARGEST_GAMMA:g}"
            )
        if not isinstance(loss, Sigmoid):
            raise OptionError("the F of segments needs a sigmoid: TP must not fall below 0")
        super().__init__(problem, space, l2=l2, threads=threads)
        labels = problem.topology.labels
        if not any(
            label[:2] in {"B-", "I-", "M-", "S-", "E-", "U-", "L-", "W-"} for label in labels
        ):
            shown = ", ".join(labels[:5])
            raise OptionError(
                f"objective 'mce-f' is about segments, and no label is part of one ({shown}): "
                "use labels such as B-X and I-X, or objective 'mce'"
            )
        self.gamma, self.loss, self.counts = gamma, loss, SmoothCounts(0.0, 0.0, 0.0)
        self._next = span_end == "next"
        self._batches = [(batch, gold_segments(batch)) for batch in batches(problem)]
        wanted = sum(float(b.weight[b.sentence_of[s.start]].sum()) for b, s in self._batches)
        if not wanted:
            raise DataError("the training data has no gold segment: objective 'mce-f' needs some")
        self._total = (gamma**2 + 1.0) * wanted

    def _counted(self, tables: Tables) -> tuple[float, Iterable[tuple[Batch, Mass]]]:
        parts = list(self._workers.map(lambda part: self._read(*part, tables, 1.0), self._batches))
        self.counts = _total(part.counts for part in parts)
        masses = self._workers.map(self._mass, parts)
        return self._ratio(self.counts), zip((p.batch for p in parts), masses, strict=True)

    def begin(self, tables: Tables, scale: float) -> None:
        """Take the sums over all data, at the weights that an epoch begins with."""
        self.evaluations += 1
        self.counts = _total(self._read(*part, tables, scale).counts for part in self._batches)

    def stochastic(self, sentences: Longs, tables: Tables, scale: float) -> tuple[float, Gradient]:
        """Return the errors gamma² FN + FP of some sentences, and their part of the gradient.

        The value is taken for linear in the losses of segments, with the slopes that it has at the
        sums over all data. The sums start in `begin` and follow the sentences since: the weights of
        an epoch that begins at zero soon have different sums.

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
        maxima = Maxima.of(batch, BatchPotentials.of(batch, tables, scale))
        topology = batch.problem.topology
        rival = topology.state_label[Rivalry(maxima, whole_sentences(batch), whole=True).rivals()]
        others = label_segments(rival, batch.offsets, topology.labels)
        segments = gold, others.without(gold, len(batch.label))
        if self._next:
            segments = segments[0].with_next(batch.offsets), segments[1].with_next(batch.offsets)
        sides = Rivalry(maxima, segments[0]), Rivalry(maxima, segments[1])
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
