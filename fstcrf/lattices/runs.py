"""Spans that are known to end before they do: runs of arcs, and labels that a scheme reads.

A run begins with an arc and is carried on by those behind it, as a symbol of CTC is over frames and
a chunk over labels of tokens. Where it ends is known when it has ended. Here it is guessed when it
begins, and paths that do not end it there are left out: each path stays one path, and what is asked
of segments is asked of runs, sums, best paths and products alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.lattices.arcs import ArcEngine, check_size
from fstcrf.lattices.paths import share
from fstcrf.lattices.results import ProbableSpans
from fstcrf.lattices.spans import span_reading
from fstcrf.lazy import made_once
from fstcrf.ragged import Ragged
from fstcrf.text.corpus import Scheme


@dataclass(frozen=True, eq=False)
class SpanRuns:
    """The spans of a tape of an only row: what begins with an arc and is carried on by others.

    Parameters
    ----------
    arcs : ArcEngine
    tape : int
    types : tuple of str
    may_end : bool [A], optional
        A span may end behind the arc; None: behind all.
    """

    arcs: ArcEngine
    tape: int
    types: tuple[str, ...]
    may_end: Bools | None

    @classmethod
    def of(
        cls, arcs: ArcEngine, tape: int, labels: tuple[str, ...], scheme: Scheme | None
    ) -> SpanRuns:
        """Return the spans that a scheme reads of labels; None: that stand on the tape."""
        if scheme is None:
            return cls(arcs, tape, labels, None)
        typed, may_end = reading(arcs, tape, labels, scheme)
        return cls(typed, typed.tapes - 1, span_reading(labels, scheme).types, may_end)

    @made_once
    def ended(self) -> ArcEngine:
        """Arcs that say where what they begin ends."""
        there = self.arcs.begun(self.tape) is not None
        return self.arcs if there else with_ends(self.arcs, self.tape, self.may_end)

    @made_once
    def listed(self) -> tuple[Longs, Longs, Longs, Floats]:
        """Spans by ascending keys: element and span of each fact, the keys, their probabilities."""
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
        """Return the probability that each of some spans is just there."""
        once = "listed" in vars(self) or self.arcs.begun(self.tape) is not None
        if not once and len(start) <= self._sizes[0]:  # a lattice each costs less than all
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
        """Return the paths on which a run (start, end, label) is just there."""
        (start, end, label), arcs = run, self.arcs
        place, last = arcs.position[arcs.source], arcs.position[arcs.target]
        carries, inside = arcs.carries[:, self.tape], (place >= start) & (place < end)
        keep = np.where(place == start, (arcs.label[:, self.tape] == label) & ~carries, carries)
        keep = np.where(inside, keep & (last <= end), (place != end) | ~carries)
        if self.may_end is not None:
            keep &= ~inside | (last < end) | self.may_end
        return arcs.with_arcs(keep | (arcs.tokens == 0))

    def probable(self, above: float) -> ProbableSpans:
        """Return the spans whose probability is above a number, by their ends."""
        _, _, keys, shares = self.listed
        kept = np.flatnonzero(shares > above)
        columns = np.array(np.unravel_index(keys[kept], self._sizes), dtype=np.int32)
        order = np.lexsort((columns[2], columns[0], columns[1]))
        start, end, label = columns[:, order]
        return ProbableSpans(start, end, label, shares[kept[order]], self.types)

    def best(self) -> tuple[Ints, float]:
        """Return the path whose spans have the largest expected F, and that ratio.

        Dinkelbach's way: the best set under p − ratio / 2, until the ratio does not grow.
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
    """Return the paths with one tape more: the spans that a scheme reads on a tape of labels.

    Their types are numbered as in `span_reading`. Then behind which arcs a span may end; None:
    behind all.
    """
    spans = span_reading(labels, scheme)
    both = arcs.after_last(tape, "tokens")
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
    end[:, -1] = -1  # not where the first token of a span does
    may_end = ~there | spans.last[label] if scheme.strict else None
    return replace(both, label=names, under=under, carries=carries, end=end), may_end


def with_ends(arcs: ArcEngine, tape: int, may_end: Bools | None = None) -> ArcEngine:
    """Return the same paths, where each arc with which a run begins says where the run ends.

    Parameters
    ----------
    arcs : ArcEngine
    tape : int
    may_end : bool [A], optional
        A run may end behind the arc; one that ends behind another is none, and begins nothing. Then
        arcs may carry on what never began, too.
    """
    last = int(arcs.position.max(initial=0))
    # 0: closed; 1 … last: the end of what is open; broken, which stops or goes on; nothing is open.
    stops, goes, idle = last + 1, last + 2, last + 3
    states = last + 4
    ok = np.ones(len(arcs.source), dtype=bool) if may_end is None else may_end
    begins, carries = arcs.label[:, tape] >= 0, arcs.carries[:, tape]
    silent = (arcs.tokens < 1) & ~begins & ~carries
    end = arcs.position[arcs.target]
    strict = may_end is not None
    free = (0, stops, idle) if strict else (0,)  # what begins may begin
    rest = idle if strict else 0
    parts: list[tuple[Longs, Longs, Longs]] = []  # arc, state before it and behind it

    def add(arc: Longs, before: Longs | int, behind: Longs | int) -> None:
        parts.append((arc, np.broadcast_to(before, len(arc)), np.broadcast_to(behind, len(arc))))

    def ahead(arc: Longs) -> tuple[Longs, Longs]:
        """Return arcs and the ends that a run may have behind each."""
        there = Ragged.from_lengths(last - end[arc])
        return arc[there.rows()], there.ranges(end[arc] + 1)

    check_size(int((last - end[begins | carries] + 1).sum()) * len(free), "the lattice of runs")
    for state in free:
        add(np.flatnonzero(~begins & ~carries & ~silent), state, rest)
        add(np.flatnonzero(begins & ok), state, 0)  # it ends at once
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
    arc, before, behind = (np.concatenate(column) for column in zip(*parts, strict=True))
    moved = arcs.with_arcs(arc)
    label, ends = moved.label.copy(), moved.ends.copy()
    run = begins[arc]
    label[run & (behind > last), tape] = -1
    ends[run, tape] = np.where(behind == 0, end[arc], np.where(behind > last, -1, behind))[run]
    final = np.full((len(arcs.final), states), -np.inf)
    final[:, list(free)] = arcs.final[:, None]
    return (
        replace(
            moved,
            begins=arcs.begins * states,
            at=None if arcs.at is None else np.repeat(arcs.at, states),
            final=final.reshape(-1),
            source=(moved.source.astype(np.int64) * states + before).astype(np.int32),
            target=(moved.target.astype(np.int64) * states + behind).astype(np.int32),
            label=label,
            end=ends,
        )
        .in_order()
        .trimmed()
    )
