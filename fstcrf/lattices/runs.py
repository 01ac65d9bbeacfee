"""Runs of arcs as spans: symbols of CTC, and the spans that a scheme reads in labels.

An arc begins a run, and the following arcs continue it, as labels of tokens continue a chunk. The
end of a run depends on the arcs after it. `with_ends` multiplies the states, so that the first arc
of a run has the end of the run. Each path stays one path. So all questions about segments can also
be answered for runs: sums, best paths and products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.lattices.arcs import ArcEngine, check_size
from fstcrf.lattices.paths import share
from fstcrf.lattices.results import ProbableSpans
from fstcrf.lattices.spans import span_reading
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor
from fstcrf.text.corpus import Scheme


@dataclass(frozen=True, eq=False)
class SpanRuns:
    """The spans of a tape of one row: each is an arc that begins it and the arcs that continue it.

    Parameters
    ----------
    arcs : ArcEngine
    tape : int
    types : tuple of str
        Types of the spans.
    may_end : bool [A], optional
        Whether a span may end after the arc; by default, after each arc.
    """

    arcs: ArcEngine
    tape: int
    types: tuple[str, ...]
    may_end: Bools | None

    @classmethod
    def of(
        cls, arcs: ArcEngine, tape: int, labels: tuple[str, ...], scheme: Scheme | None
    ) -> SpanRuns:
        """Return the spans that a scheme reads in labels, or the spans of the tape."""
        if scheme is None:
            return cls(arcs, tape, labels, None)
        typed, may_end = reading(arcs, tape, labels, scheme)
        return cls(typed, typed.tapes - 1, span_reading(labels, scheme).types, may_end)

    @made_once
    def ended(self) -> ArcEngine:
        """The paths, whose arcs have the ends of the spans that they begin."""
        there = self.arcs.begun(self.tape) is not None
        return self.arcs if there else with_ends(self.arcs, self.tape, self.may_end)

    @made_once
    def listed(self) -> tuple[Longs, Longs, Longs, Floats]:
        """Elements that begin spans, the span of each; keys of spans, rising, and probabilities."""
        begun = self.ended.begun(self.tape)
        assert begun is not None  # noqa: S101 (ends are known here)
        element = np.arange(self.ended.n_elements)[begun.element]
        keys, of = np.unique(self._key(begun.start, begun.end, begun.label), return_inverse=True)
        of = of.reshape(-1)
        total = np.bincount(of, self.ended.posterior[element], len(keys))
        return element, of, keys, np.minimum(total.astype(np.float64), 1.0)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        length = int(self.arcs.position.max(initial=0)) + 1
        return length, length, max(len(self.types), 1)

    def _key(self, start: Longs, end: Longs, label: NDArray[np.integer]) -> Longs:
        key: Longs = np.ravel_multi_index((start, end, label.astype(np.int64)), self._sizes)
        return key

    def probabilities(self, start: Longs, end: Longs, label: Longs) -> Floats:
        """Return the probability of each of some spans, float64 [M]."""
        once = "listed" in vars(self) or self.arcs.begun(self.tape) is not None
        if not once and len(start) <= self._sizes[0]:  # a sum for each costs less than `listed`
            each = zip(start.tolist(), end.tolist(), label.tolist(), strict=True)
            log_z = float(self.arcs.log_z[0])
            return np.asarray([share(float(self._only(run).log_z[0]), log_z) for run in each])
        _, _, keys, shares = self.listed
        inside = end < self._sizes[0]
        key = self._key(np.where(inside, start, 0), np.where(inside, end, 0), label)
        place = np.searchsorted(keys, key)
        there = inside & (np.append(keys, -1)[place] == key)
        return np.where(there, np.append(shares, 0.0)[place], 0.0)

    def _only(self, run: tuple[int, int, int]) -> ArcEngine:
        """Return the paths that have a run (start, end, label)."""
        (start, end, label), arcs = run, self.arcs
        place, last = arcs.position[arcs.source], arcs.position[arcs.target]
        carries, inside = arcs.carries[:, self.tape], (place >= start) & (place < end)
        keep = np.where(place == start, (arcs.label[:, self.tape] == label) & ~carries, carries)
        keep = np.where(inside, keep & (last <= end), (place != end) | ~carries)
        if self.may_end is not None:
            keep &= ~inside | (last < end) | self.may_end
        return arcs.with_arcs(keep | (arcs.tokens == 0))

    def probable(self, above: float) -> ProbableSpans:
        """Return the spans whose probability is above a number, in the order of their ends."""
        _, _, keys, shares = self.listed
        kept = np.flatnonzero(shares > above)
        columns = np.array(np.unravel_index(keys[kept], self._sizes), dtype=np.int32)
        order = np.lexsort((columns[2], columns[0], columns[1]))
        start, end, label = columns[:, order]
        return ProbableSpans(start, end, label, shares[kept[order]], self.types)

    def best(self) -> tuple[Ints, float]:
        """Return the path whose spans have the largest expected F, and its expected F.

        By Dinkelbach's algorithm: maximise p − ratio / 2 until the ratio does not grow.
        """
        element, of, _, shares = self.listed
        begins, place = np.zeros((2, self.ended.n_elements))
        begins[element], place[element] = 1.0, shares[of]
        true = float(self.ended.posterior[element].sum())
        ratio, chosen = -1.0, np.zeros(0, dtype=np.int32)
        while True:
            value = place - begins * (max(ratio, 0.0) / 2)
            path = self.ended.reweight(value).nbest(1).elements
            size = float(begins[path].sum()) + true
            better = 2.0 * float(place[path].sum()) / size if size > 0.0 else 1.0
            if better <= ratio + 1e-15:
                return chosen, min(1.0, ratio)
            ratio, chosen = better, path


def reading(
    arcs: ArcEngine, tape: int, labels: tuple[str, ...], scheme: Scheme
) -> tuple[ArcEngine, Bools | None]:
    """Return the paths with a further tape, the spans that a scheme reads on a tape of labels.

    Types are numbered as in `span_reading`. The second result is bool [A], whether a span may end
    after an arc, or None if it may end after each.
    """
    spans = span_reading(labels, scheme)
    both = _after_last(arcs, tape)
    code = both.label[:, -1].astype(np.int64)
    before, label = code // len(labels) - 1, np.where(code >= 0, code % len(labels), 0)
    there = code >= 0
    begins = there & np.where(before < 0, spans.first[label], spans.begins[before, label])
    goes_on = there & (before >= 0) & spans.continues[before, label]
    names, under, carries, end = (
        getattr(both, name).copy() for name in ("label", "under", "carries", "ends")
    )
    names[:, -1] = np.where(begins, spans.type[label], -1)
    under[:, -1] = np.where(begins | goes_on, spans.type[label], -1)
    carries[:, -1] = goes_on
    end[:, -1] = -1  # unknown: the arc of the first token does not end the span
    may_end = ~there | spans.last[label] if scheme.strict else None
    return replace(both, label=names, under=under, carries=carries, end=end), may_end


def _after_last(arcs: ArcEngine, tape: int) -> ArcEngine:
    """Return the product with the machine whose state is 0, then the last label + 1.

    One more tape has the labels state · L + label.
    """
    size = arcs.sizes[tape]
    target = np.tile(np.arange(1, size + 1, dtype=np.int32), (size + 1, 1))
    labels = (tuple(map(str, range(size))),)
    last = Acceptor(("",), labels, target, None, np.zeros(size + 1), "successions")
    return arcs.product(last, [tape], "tokens", written=True)


def with_ends(arcs: ArcEngine, tape: int, may_end: Bools | None = None) -> ArcEngine:
    """Return the paths with the end of each run at the arc that begins it.

    Parameters
    ----------
    arcs : ArcEngine
    tape : int
    may_end : bool [A], optional
        Whether a run may end after the arc. A run that ends after another arc is no span. If given,
        arcs may also continue a run that has no beginning.
    """
    last = int(arcs.position.max(initial=0))
    # States: 0, a run has ended; 1 … last, the end of the open run; an open run that is no span,
    # and stops here or goes on; no run is open.
    stops, goes, idle = last + 1, last + 2, last + 3
    states = last + 4
    ok = np.ones(len(arcs.source), dtype=bool) if may_end is None else may_end
    begins, carries = arcs.label[:, tape] >= 0, arcs.carries[:, tape]
    silent = (arcs.tokens < 1) & ~begins & ~carries
    end = arcs.position[arcs.target]
    strict = may_end is not None
    starts = (0, stops, idle) if strict else (0,)  # states in which a run may begin
    rest = idle if strict else 0
    parts: list[tuple[Longs, Longs, Longs]] = []  # arcs, states before and after them

    def add(arc: Longs, before: Longs | int, after: Longs | int) -> None:
        parts.append((arc, np.broadcast_to(before, len(arc)), np.broadcast_to(after, len(arc))))

    def ahead(arc: Longs) -> tuple[Longs, Longs]:
        """Return arcs and later ends of a run, all pairs."""
        there = Ragged.from_lengths(last - end[arc])
        return arc[there.rows()], there.ranges(end[arc] + 1)

    check_size(int((last - end[begins | carries] + 1).sum()) * len(starts), "the lattice of runs")
    for state in starts:
        add(np.flatnonzero(~begins & ~carries & ~silent), state, rest)
        add(np.flatnonzero(begins & ok), state, 0)  # a run of one arc
        arc, then = ahead(np.flatnonzero(begins))
        add(arc, state, then)
        if strict:
            add(np.flatnonzero(begins & ~ok), state, stops)
            add(np.flatnonzero(begins & ok), state, goes)
    add(carried := np.flatnonzero(carries & ok), end[carried], 0)
    arc, then = ahead(np.flatnonzero(carries))
    add(arc, then, then)
    if strict:
        add(np.flatnonzero(carries), idle, idle)
        for state in (stops, goes):
            add(np.flatnonzero(carries & ~ok), state, stops)
            add(np.flatnonzero(carries & ok), state, goes)
    quiet = np.flatnonzero(silent)
    same = np.tile(np.arange(states), len(quiet))
    add(np.repeat(quiet, states), same, same)
    arc, before, after = (np.concatenate(column) for column in zip(*parts, strict=True))
    moved = arcs.with_arcs(arc)
    label, ends = moved.label.copy(), moved.ends.copy()
    run = begins[arc]
    label[run & (after > last), tape] = -1
    ends[run, tape] = np.where(after == 0, end[arc], np.where(after > last, -1, after))[run]
    final = np.full((len(arcs.final), states), -np.inf)
    final[:, list(starts)] = arcs.final[:, None]
    return (
        replace(
            moved,
            begins=arcs.begins * states,
            at=None if arcs.at is None else np.repeat(arcs.at, states),
            final=final.reshape(-1),
            source=(moved.source.astype(np.int64) * states + before).astype(np.int32),
            target=(moved.target.astype(np.int64) * states + after).astype(np.int32),
            label=label,
            end=ends,
        )
        .in_order()
        .trimmed()
    )
