"""Spans that are known to end before they do: runs of arcs, and labels that a scheme reads.

A run begins with an arc and is carried on by those behind it, as a symbol of CTC is over frames and
a chunk over labels of tokens. Where it ends is known when it has ended. Here it is guessed when it
begins, and paths that do not end it there are left out: each path stays one path, and what is asked
of segments is asked of runs, sums, best paths and products alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fstcrf.arrays import Bools, Longs
from fstcrf.lattices.arcs import Arcs, check_size
from fstcrf.lattices.spans import span_reading
from fstcrf.ragged import Ragged
from fstcrf.text.corpus import Scheme

__all__ = ["reading", "with_ends"]


def reading(arcs: Arcs, tape: int, labels: tuple[str, ...], scheme: Scheme) -> Arcs:
    """Return the paths with one tape more: the spans that a scheme reads on a tape of labels.

    Their types are numbered as in `span_reading`; where they end is known with the arcs.
    """
    spans = span_reading(labels, scheme)
    both = arcs.after_last(tape, len(labels), "tokens")
    code = both.label[:, -1].astype(np.int64)
    before, label = code // len(labels) - 1, np.where(code >= 0, code % len(labels), 0)
    begins = np.where(before < 0, spans.first[label], spans.begins[before, label])
    goes_on = (before >= 0) & spans.continues[before, label]
    type_ = np.where(code >= 0, spans.type[label], -1)
    columns = {
        "label": np.where(begins & (code >= 0), type_, -1),
        "under": np.where((begins | goes_on) & (code >= 0), type_, -1),
        "carries": goes_on & (code >= 0),
    }
    several = {name: getattr(both, name).copy() for name in columns}
    for name, column in columns.items():
        several[name][:, -1] = column
    may_end = (code < 0) | spans.last[label] if scheme.strict else None
    return with_ends(replace(both, **several), both.tapes - 1, may_end)


def with_ends(arcs: Arcs, tape: int, may_end: Bools | None = None) -> Arcs:
    """Return the same paths, where each arc with which a run begins says where the run ends.

    Parameters
    ----------
    arcs : Arcs
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
