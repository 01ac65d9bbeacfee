"""The tilings of a text by segments: best ones, sums, probabilities, the least expected loss.

A path is a sequence of arcs, each from where the one before it ends; its score is the sum of their
scores and of those of neighbouring labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from fstcrf import display
from fstcrf.arguments import one_of, whole_number
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import LabelError, NoPathError, OptionError
from fstcrf.kernel import acyclic
from fstcrf.kernel.paired import Paired, PairScores
from fstcrf.lattices.answer import Path, share
from fstcrf.lattices.arcs import SegmentArcs, crossed, segments_of, spread, within
from fstcrf.lattices.candidates import Candidates, unknown_label
from fstcrf.lattices.sausages import Sausage
from fstcrf.lattices.spans import MinimumRisk, ProbableSpans
from fstcrf.lattices.tapes import Taped
from fstcrf.ragged import Ragged
from fstcrf.text.corpus import Span

SEGMENT = "segment"
"""Name of the tape of segments, where there are others."""

Loss = Literal["token", "span"]

_FREE, _CARRIED = -1, -2
"""In place of a label: the arc is outside of segments, or carries one on."""


@dataclass(frozen=True, slots=True)
class SegmentPath(Path[tuple[str, ...]]):
    """One path through a lattice of segments.

    Parameters
    ----------
    labels : tuple of str
        Of the segments, in order.
    score, probability, exact, bound
        As of a `Path`.
    starts, ends : tuple of int
        First token of each segment, and the one behind its last.
    tokens : tuple of tuple of str
        The labels of each tape of tokens that was composed with it.
    arcs : int64 [k]
        Which of the given arcs the segments are; −1: none that was given.
    """

    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    tokens: tuple[tuple[str, ...], ...] = ()
    arcs: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64), compare=False)

    @property
    def segments(self) -> tuple[Span, ...]:
        """What the labels cover, ``type`` being the label; made when asked for."""
        return _spans(self.starts, self.ends, self.labels)

    def __repr__(self) -> str:
        listed = ", ".join(f"{s.start}:{s.end} {s.type}" for s in self.segments[:12])
        more = ", …" if len(self.segments) > 12 else ""
        return (
            f"<SegmentPath: {listed}{more}; score {self.score:.6g}, "
            f"probability {self.probability:.4g}>"
        )


class SegmentCounts(NamedTuple):
    """What is expected of a lattice: the gradient of its log Z by each score.

    Parameters
    ----------
    arcs : float64 [E]
        By the score of each given arc: its probability.
    transitions : float64 [L, L]
        By the scores of neighbouring labels.
    initial, final : float64 [L]
        By the scores of the first and the last label.
    """

    arcs: Floats
    transitions: Floats
    initial: Floats
    final: Floats


class Tilings:
    """The tilings of a text by segments: what a `SegmentLattice` answers.

    Parameters
    ----------
    arcs : SegmentArcs
    labels : tuple of str
    length : int
        Tokens of the text.
    candidates : Candidates
        The arcs that were given, which `SegmentArcs.origin` numbers.
    tokens : Taped, optional
        The lattice of tokens that was composed with it.
    names : list of tuple of str
        Labels of the tapes of tokens, for each state of `SegmentArcs.state`.
    """

    def __init__(
        self,
        arcs: SegmentArcs,
        labels: tuple[str, ...],
        length: int,
        candidates: Candidates,
        tokens: Taped | None = None,
        names: Sequence[tuple[str, ...]] = (),
    ) -> None:
        self.arcs, self.labels, self.length = arcs, labels, length
        self.candidates, self._tokens, self._names = candidates, tokens, names

    def _with(self, arcs: SegmentArcs) -> Self:
        return type(self)(
            arcs, self.labels, self.length, self.candidates, self._tokens, self._names
        )

    def __len__(self) -> int:
        """Tokens."""
        return self.length

    def __repr__(self) -> str:
        size = f"{self.length} tokens, {len(self.arcs.source):,} arcs, {len(self.labels)} labels"
        composed_with = f", tokens: {', '.join(self.tapes[1:])}" if len(self.tapes) > 1 else ""
        return f"<SegmentLattice: {size}{composed_with}>"

    def _repr_html_(self) -> str:
        """Return its best path for notebooks."""
        head = display.heading(repr(self))
        if self.log_partition() == -np.inf:
            return head + display.note("no sequence of segments covers the text")
        rows = {"": tuple(f"{s.start}:{s.end} {s.type}" for s in self.best().segments)}
        return display.picture(head, display.sequences(rows))

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes: that of segments, then those of tokens."""
        return (SEGMENT, *(() if self._tokens is None else self._tokens.tapes))

    # --- Best paths ---------------------------------------------------------------------------

    def best(self) -> SegmentPath:
        """Return the best path.

        Ties: the smaller label, then the shorter segment, at the earliest token where the
        candidates differ.

        Raises
        ------
        NoPathError
            Nothing tiles the text, with the first token that no path passes.
        """
        score = self.best_score()
        if score == -np.inf:
            raise self.no_path()
        if self._sausage is not None:
            return self._singles(self._sausage, *self._sausage.best())[0]
        return self._path(self.arcs.machine.best_paths()[0], score)

    def nbest(self, n: int) -> list[SegmentPath]:
        """Return the n best paths, best first; fewer where there are fewer.

        Raises
        ------
        OptionError
            A negative n.
        """
        if self._sausage is not None and n > 0:
            return self._singles(self._sausage, *self._sausage.nbest(n))
        machine, which = self.arcs.machine.explicit
        found = acyclic.nbest(machine, n)
        rows = [_own(row, which) for row in found.arcs]
        return [self._path(*pair) for pair in zip(rows, found.score.tolist(), strict=True)]

    def sample(self, n: int, *, seed: int = 0) -> list[SegmentPath]:
        """Return n independent exact samples from the distribution over paths.

        Raises
        ------
        OptionError
            A negative n or seed.
        NoPathError
            Nothing tiles the text.
        """
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        self._check_alive()
        if self._sausage is not None and n > 0:
            return self._singles(self._sausage, *self._sausage.sample(n, seed))
        machine, which = self.arcs.machine.explicit
        drawn = acyclic.sample(machine, n, np.random.default_rng(seed))
        rows = [_own(row, which) for row in drawn]
        return [self._path(row, self._score_of(row)) for row in rows]

    def max_marginals(self) -> Floats:
        """Return the score of the best path through each given arc, float64 [E]; −inf: none."""
        machine, which = self.arcs.machine.explicit
        found = acyclic.max_marginals(machine)
        best = np.full(len(self.candidates.start), -np.inf)
        arc = which >= 0
        origin = self.arcs.origin[which[arc]]
        known = origin >= 0
        np.maximum.at(best, origin[known], found[arc][known])
        return best

    # --- Sums ---------------------------------------------------------------------------------

    def log_partition(self) -> float:
        """Return log Z, the log of the sum over all paths; −inf where there is none."""
        if self._sausage is not None:
            return self._sausage.log_z
        return float(self.arcs.machine.log_partitions()[0])

    def entropy(self) -> float:
        """Return the entropy of the distribution over paths, in nats.

        Raises
        ------
        NoPathError
            Nothing tiles the text.
        """
        self._check_alive()
        machine = self.arcs.machine.explicit[0]
        node, arc = acyclic.marginals(machine)
        suffix = machine.sum_suffix
        source = Ragged(machine.row).rows()
        used = arc > 0.0
        chosen = (machine.score + suffix[machine.target])[used] - suffix[source[used]]
        ends = np.flatnonzero((machine.final > -np.inf) & (node > 0.0))
        ended = machine.final[ends] - suffix[ends]
        total = (arc[used] * chosen).sum() + (node[ends] * np.exp(ended) * ended).sum()
        return max(0.0, -float(total))

    def marginals(self) -> Floats:
        """Return the probability that each token is under each label, float64 [T, L].

        Raises
        ------
        NoPathError
            Nothing tiles the text.
        """
        if self._sausage is not None:
            if self._sausage.posterior.log_z[0] == -np.inf:
                raise self.no_path()
            return np.minimum(self._sausage.share, 1.0)
        self._check_alive()
        return np.clip(spread(self.arcs, self._share, self.length, len(self.labels)), 0.0, 1.0)

    def token_marginals(self, tape: str) -> Floats:
        """Return the probability of each label of a tape of tokens, float64 [T, labels].

        Raises
        ------
        OptionError
            No such tape.
        NoPathError
            Nothing tiles the text.
        """
        if self._tokens is None or tape not in self._tokens.tapes:
            raise OptionError(f"no tape {tape!r} of tokens: there is {', '.join(self.tapes)}")
        self._check_alive()
        names = self._tokens.program.labels(tape)
        place = self._tokens.tapes.index(tape)
        number = np.asarray([names.index(row[place]) for row in self._names])
        token = self.arcs.position[self.arcs.source]
        cell = token * len(names) + number[self.arcs.state]
        total = np.bincount(cell, weights=self._share, minlength=self.length * len(names))
        return total.astype(np.float64).reshape(self.length, len(names))

    def arc_marginals(self) -> Floats:
        """Return the probability of each given arc, float64 [E].

        Raises
        ------
        NoPathError
            Nothing tiles the text.
        """
        self._check_alive()
        return self.by_candidate(self._share)

    def span_probability(self, start: int, end: int, label: str) -> float:
        """Return the probability that exactly this segment is there; errors as for many."""
        return float(self.span_probabilities([(start, end, label)])[0])

    def span_probabilities(self, spans: Sequence[tuple[int, int, str]]) -> Floats:
        """Return the probabilities of segments; 0 of one that the lattice does not have.

        Raises
        ------
        LabelError
            A label that is not in the list.
        OptionError
            A span outside the text.
        NoPathError
            Nothing tiles the text.
        """
        if self._of_runs:
            self._check_alive()
            return np.asarray([self._run_probability(*self._checked(span)) for span in spans])
        share_, known = self.arc_marginals(), self._by_span
        found = np.zeros(len(spans))
        for k, span in enumerate(spans):
            found[k] = sum(share_[arc] for arc in known.get(self._checked(span), ()))
        return np.minimum(found, 1.0)

    def probable_spans(self, above: float = 0.01) -> ProbableSpans:
        """Return the segments with a probability above a number, by their ends.

        Raises
        ------
        OptionError
            A number outside [0, 1]; a lattice of frames, whose runs are not listed.
        NoPathError
            Nothing tiles the text.
        """
        if not 0.0 <= above <= 1.0:
            raise OptionError(f"above is {above}, expected 0 to 1")
        self._check_alive()
        if self._of_runs:
            raise OptionError("runs of frames are not listed: ask span_probabilities() of some")
        (start, end, label), found = self._spans, self._span_share
        kept = np.flatnonzero(found > above)
        kept = kept[np.lexsort((label[kept], start[kept], end[kept]))]
        return ProbableSpans(start[kept], end[kept], label[kept], found[kept], self.labels)

    def expectations(self) -> SegmentCounts:
        """Return what is expected of the lattice: the gradient of log Z.

        Raises
        ------
        NoPathError
            Nothing tiles the text.
        OptionError
            A lattice of frames, or one composed with taggers: its classes are no labels.
        """
        self._check_alive()
        classes = len(self.labels)
        if self._tokens is not None or self.arcs.pairs.pair.shape != (1, classes + 1, classes):
            raise OptionError(
                "expected transitions are those of lattices of segments with transitions: not of "
                "compositions, spans and frames; ask arc_marginals()"
            )
        return counts_of(
            self.arcs.machine.marginals(counted=True),
            self.arcs.machine,
            self.by_candidate(self._share),
        )

    def minimum_risk(self, loss: Loss = "span") -> MinimumRisk[tuple[Span, ...]]:
        """Return the segments with the least expected loss.

        Parameters
        ----------
        loss : {"span", "token"}
            span: those that maximise 2 E[right] / E[found + true], the ratio of expectations that F
            is. token: those with the largest expected number of tokens under the right label.

        Raises
        ------
        OptionError
            Another loss; "span" of a lattice of frames, whose runs are not listed.
        NoPathError
            Nothing tiles the text.
        """
        one_of("loss", loss, Loss)
        self._check_alive()
        if loss == "token":
            value = within(self.arcs, self.marginals())
            path = self._rescored(value)
            right = float(value[path].sum())
            return MinimumRisk(self._spans_of(path), right / self.length if self.length else 1.0)
        if self._of_runs:
            raise OptionError('runs of frames are not listed: ask minimum_risk("token")')
        return self._span_risk()

    def _span_risk(self) -> MinimumRisk[tuple[Span, ...]]:
        """Dinkelbach's way: the best set under p − ratio / 2, until the ratio does not grow."""
        begins = self.arcs.label >= 0
        # of a segment, whatever it was multiplied with, at the arcs that begin it
        place = np.zeros(len(begins))
        place[begins] = self._span_share[self._span_of[self.arcs.origin[begins]]]
        true = float(self._share[begins].sum())
        ratio, chosen = -1.0, np.zeros(0, dtype=np.int32)
        while True:
            path = self._rescored(np.where(begins, place - max(ratio, 0.0) / 2, 0.0))
            found = path[begins[path]]
            size = len(found) + true
            better = 2.0 * float(place[found].sum()) / size if size > 0.0 else 1.0
            if better <= ratio + 1e-15:
                return MinimumRisk(self._spans_of(chosen), min(1.0, ratio))
            ratio, chosen = better, path

    def _rescored(self, value: Floats) -> Ints:
        """Best path where arcs have other scores and what is legal scores 0."""
        arcs = self.arcs
        legal = replace(
            arcs,
            score=np.where(arcs.score > -np.inf, value, -np.inf),
            final=_support(arcs.final),
            class_final=_support(arcs.class_final),
            pairs=PairScores(_support(arcs.pairs.pair)),
        )
        return legal.machine.best_paths()[0]

    # --- One path -----------------------------------------------------------------------------

    def score(self, segments: Sequence[tuple[int, int, str]]) -> float:
        """Return the score of the best path with exactly these segments; −inf if there is none.

        Raises
        ------
        LabelError, OptionError
            As for `span_probabilities`.
        """
        return self._exactly(segments).best_score()

    def probability(self, segments: Sequence[tuple[int, int, str]]) -> float:
        """Return the probability of these segments and no others; raises as `score`."""
        return share(self._exactly(segments).log_partition(), self.log_partition())

    def best_score(self) -> float:
        """Return the score of the best path; −inf where there is none."""
        if self._sausage is not None:
            return self._sausage.best_score
        return float(self.arcs.machine.best_scores()[0])

    def _exactly(self, segments: Sequence[tuple[int, int, str]]) -> Self:
        checked = [self._checked(segment) for segment in segments]
        wanted = np.full(self.length + 1, _FREE)
        covered = np.zeros(self.length, dtype=np.int64)
        for start, end, label in checked:
            wanted[start], wanted[start + 1 : end] = label, _CARRIED
            covered[start:end] += 1
        arcs = self.arcs
        bounds = np.asarray([place for one in checked for place in one[:2]], dtype=np.int64)
        keep = (self._reads == wanted[arcs.position[arcs.source]]) & ~crossed(arcs, bounds)
        if (covered > 1).any():
            keep[:] = False
        return self._with(arcs.with_arcs(keep))

    def _run_probability(self, start: int, end: int, label: int) -> float:
        """Return the probability of a run of frames, by the sum over the paths that have it."""
        arcs, reads = self.arcs, self._reads
        place = arcs.position[arcs.source]
        keep = np.where(place == start, reads == label, (place < start) | (place >= end))
        keep |= (place > start) & (place < end) & arcs.carries
        keep &= (place != end) | ~arcs.carries
        return share(self._with(arcs.with_arcs(keep)).log_partition(), self.log_partition())

    # --- Behind the scenes --------------------------------------------------------------------

    @property
    def _reads(self) -> Longs:
        """The label that begins with each arc, `_FREE` or `_CARRIED`, [A]."""
        return np.where(self.arcs.carries, _CARRIED, self.arcs.label).astype(np.int64)

    @property
    def _of_runs(self) -> bool:
        """Whether segments are runs of frames, which no given arc stands for."""
        return bool(((self.arcs.label >= 0) & (self.arcs.origin < 0)).any())

    @cached_property
    def _sausage(self) -> Sausage | None:
        return Sausage.of(self.arcs, len(self.labels))

    @cached_property
    def _share(self) -> Floats:
        """Probability of each arc."""
        if self._sausage is not None:
            return self._sausage.by_arc(self._sausage.share)
        return self.arcs.machine.marginals().arc

    def by_candidate(self, value: Floats) -> Floats:
        """Sum over what each given arc has become."""
        known = self.arcs.origin >= 0
        size = len(self.candidates.start)
        total = np.bincount(self.arcs.origin[known], weights=value[known], minlength=size)
        return total.astype(np.float64)

    @cached_property
    def _spans(self) -> Candidates:
        """The distinct segments among the given arcs."""
        start, end, label = self.candidates
        key = (start.astype(np.int64) * (self.length + 1) + end) * (len(self.labels) + 1) + label
        _, first = np.unique(key, return_index=True)
        return Candidates(start[first], end[first], label[first])

    @cached_property
    def _span_of(self) -> Longs:
        """Which of the distinct segments each given arc is."""
        start, end, label = self.candidates
        key = (start.astype(np.int64) * (self.length + 1) + end) * (len(self.labels) + 1) + label
        return np.asarray(np.unique(key, return_inverse=True)[1], dtype=np.int64).reshape(-1)

    @property
    def _span_share(self) -> Floats:
        found = np.bincount(
            self._span_of, weights=self.arc_marginals(), minlength=len(self._spans.start)
        )
        return np.minimum(found, 1.0)

    @cached_property
    def _by_span(self) -> dict[tuple[int, int, int], list[int]]:
        found: dict[tuple[int, int, int], list[int]] = {}
        columns = (column.tolist() for column in self.candidates)
        for arc, key in enumerate(zip(*columns, strict=True)):
            found.setdefault(key, []).append(arc)
        return found

    def _checked(self, span: tuple[int, int, str]) -> tuple[int, int, int]:
        start, end, label = span
        if not 0 <= start < end <= self.length:
            raise OptionError(f"no span {start}:{end} in a text of {self.length} tokens")
        if label not in self.labels:
            raise LabelError(unknown_label(label, self.labels))
        return int(start), int(end), self.labels.index(label)

    def _spans_of(self, path: Ints) -> tuple[Span, ...]:
        (start, end, label), _ = segments_of(self.arcs, path)
        return _spans(start, end, map(self.labels.__getitem__, label))

    def _path(self, path: Ints, score: float) -> SegmentPath:
        return self.path_from(path, score, self.log_partition())

    def _singles(self, sausage: Sausage, labels: Ints, scores: Floats) -> list[SegmentPath]:
        """Return paths of some labels, one for each token, int [n, T]."""
        starts, ends = tuple(range(self.length)), tuple(range(1, self.length + 1))
        origins = self.arcs.origin[sausage.arcs_of(labels)]
        rows = zip(labels.tolist(), scores.tolist(), origins, strict=True)
        return [
            SegmentPath(
                labels=tuple(map(self.labels.__getitem__, row)),
                score=score,
                probability=share(score, sausage.log_z),
                exact=True,
                bound=score,
                starts=starts,
                ends=ends,
                arcs=origin,
            )
            for row, score, origin in rows
        ]

    def path_from(self, path: Ints, score: float, log_z: float) -> SegmentPath:
        """Return what a path of arcs stands for, its score and log Z being known."""
        (start, end, label), begins = segments_of(self.arcs, path)
        names = tuple(map(self.labels.__getitem__, label))
        tokens: tuple[tuple[str, ...], ...] = ()
        if self._tokens is not None:
            rows = [self._names[k] for k in self.arcs.state[path].tolist()]
            tapes = range(len(self._tokens.tapes))
            tokens = tuple(tuple(row[tape] for row in rows) for tape in tapes)
        return SegmentPath(
            labels=names,
            score=score,
            probability=share(score, log_z),
            exact=True,
            bound=score,
            starts=tuple(start),
            ends=tuple(end),
            tokens=tokens,
            arcs=self.arcs.origin[begins],
        )

    def _score_of(self, path: Ints) -> float:
        """Score of a path of arcs."""
        arcs, pairs = self.arcs, self.arcs.pairs.pair
        before = np.append(pairs.shape[1] - 1, arcs.right[path]).astype(np.int64)
        node = np.append(0, arcs.target[path]).astype(np.int64)
        table = arcs.position[node[:-1]] if arcs.per_position else 0
        links = pairs[table, before[:-1], arcs.left[path]]
        end = arcs.final[node[-1]] + arcs.class_final[before[-1]]
        return float(links.sum() + arcs.score[path].sum() + end)

    def _check_alive(self) -> None:
        if self.log_partition() == -np.inf:
            raise self.no_path()

    def no_path(self) -> NoPathError:
        """Return the error that says where all paths have died."""
        position = self.arcs.furthest
        if position >= self.length:
            return NoPathError("every sequence of segments that covers the text is forbidden")
        return NoPathError("no sequence of segments covers the text from here", position=position)


def _own(row: Ints, which: Ints) -> Ints:
    """Return the arcs along a path of a machine that has pairs as arcs, too."""
    found = which[row[row >= 0]]
    return found[found >= 0]


def _spans(start: Iterable[int], end: Iterable[int], names: Iterable[str]) -> tuple[Span, ...]:
    """Return spans of columns; a path has thousands, so they are made as the tuples they are."""
    return tuple(map(partial(tuple.__new__, Span), zip(start, end, names, strict=True)))


def _support(values: Floats) -> Floats:
    return np.where(values > -np.inf, 0.0, -np.inf)


def counts_of(sums: Any, machine: Paired, arcs: Floats) -> SegmentCounts:
    """Return expected counts from the sums of a machine whose classes are labels."""
    count, size = sums.met[0], sums.met.shape[2]
    ends = np.bincount(machine.right, weights=sums.end, minlength=size + 1)[:size]
    return SegmentCounts(arcs, count[:-1], count[-1], ends.astype(np.float64))
