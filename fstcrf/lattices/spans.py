"""Spans of a sentence: their probabilities, and the labels with the least expected loss.

Arcs of a tape begin, continue and end spans. So one backward and one forward pass over a lattice
find all of its spans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Longs, Ragged, distinct
from fstcrf.errors import OptionError
from fstcrf.lattices.batching import Group, answered
from fstcrf.lattices.chains import ChainEngine, axis_ends
from fstcrf.lattices.engine import Segment
from fstcrf.lattices.questions import Questions
from fstcrf.lattices.results import MinimumRisk, ProbableSpans, check_share
from fstcrf.lazy import memoised
from fstcrf.machines.plans import Program
from fstcrf.text.corpus import Scheme, Span, named_scheme
from fstcrf.text.corpus import spans as spans_of
from fstcrf.text.corpus.schemes import (
    OUTSIDE,
    SpanArrays,
    check_readable,
    split_label,
    tables,
    written_spans,
)

# --- How labels are read as spans -----------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class SpanReading:
    """Which successions of labels begin and continue a span."""

    types: tuple[str, ...]
    type: Longs  # [L] index into `types`; −1: outside
    begins: Bools  # [L, L] from a label to the next one
    continues: Bools  # [L, L]
    first: Bools  # [L] the label begins a span at the first token
    last: Bools  # [L] the label may be the last of a span


@lru_cache(maxsize=64)
def span_reading(labels: tuple[str, ...], scheme: Scheme) -> SpanReading:
    """Return the spans that a scheme reads in labels; GrammarError if the labels allow no span."""
    check_readable(labels, scheme)
    parts = [split_label(label, scheme) for label in labels]
    starts, inside, last = tables(scheme)
    letters = scheme.letters + "?"
    letter = np.asarray([letters.index(a) for a, _ in parts], dtype=np.int64)
    names = {"": 0} | {k: 0 for _, k in parts}
    number = {name: i for i, name in enumerate(names)}
    kind = np.asarray([number[k] for _, k in parts], dtype=np.int64)
    types = tuple(dict.fromkeys(k for a, k in parts if a != OUTSIDE))
    place = {name: i for i, name in enumerate(types)}
    type_ = np.asarray([-1 if a == OUTSIDE else place[k] for a, k in parts], dtype=np.int64)
    typed = type_ >= 0
    same = (kind[:, None] == kind).astype(np.int64)
    return SpanReading(
        types,
        type_,
        starts[letter[:, None], letter, same] & typed,
        inside[letter[:, None], letter, same] & typed,
        starts[letters.index(OUTSIDE), letter, (kind == number[""]).astype(np.int64)] & typed,
        last[letter] & typed,
    )


@memoised(64)
def _span_labels(
    program: Program, machine: kernel.JointChain, tape: str, scheme: Scheme
) -> tuple[kernel.SpanLabels | None, tuple[str, ...]]:
    """Return which arcs of a tape begin and continue spans, and the types of the spans.

    The result is (None, ()) if no arc belongs to a span.
    """
    topology, k = program.chain[tape].topology, program.order.index(tape)
    reading, label = span_reading(topology.labels, scheme), topology.state_label
    types = distinct(reading.type[label])
    types = types[types >= 0]
    if not len(types):
        return None, ()
    place = np.full(len(reading.types) + 1, -1, dtype=np.int32)
    place[types] = np.arange(len(types))
    axis = machine.axes[k]
    before, after = (label[states] for states in axis_ends(axis))
    arc = np.zeros(axis.n_arcs, dtype=np.uint8)
    arc[reading.begins[before, after]] = kernel.ARC_OPENS
    arc[reading.continues[before, after]] = kernel.ARC_CARRIES
    labels = kernel.SpanLabels(
        axis=k,
        n_types=len(types),
        type=place[reading.type[label]],
        first=reading.first[label].astype(np.uint8),
        last=reading.last[label].astype(np.uint8),
        arc=arc,
    )
    return labels, tuple(reading.types[i] for i in types.tolist())


# --- Probabilities of spans -----------------------------------------------------------------------


def probable_spans(
    lattices: Sequence[Questions],
    above: float = 0.01,
    *,
    tape: str | None = None,
    scheme: str | Scheme | None = None,
    threads: int = 1,
) -> list[ProbableSpans]:
    """Return all spans of each lattice whose probability is above a number.

    One backward and one forward pass over each lattice; at most 1 / `above` spans are open at a
    token.

    Parameters
    ----------
    lattices : sequence of Lattice
    above : float
        0 to 1. At 0, all possible spans are returned: a number quadratic in the tokens.
    tape : str, optional
        The tape, where there are several.
    scheme : str or Scheme, optional
        As for `Lattice.span_probability`.
    threads : int

    Raises
    ------
    NoPathError
        A lattice without a path.
    OptionError
        Another number; no such tape or scheme; threads below 1.
    GrammarError
        A scheme that allows no span of the labels.
    TooLargeError
        A grammar too large to multiply out, or too many spans for memory.
    """
    check_share(above)
    out: dict[int, ProbableSpans] = {}

    def ask(group: Group) -> list[ProbableSpans]:
        chain = group.engine.as_chain
        if chain is None:
            return [
                lattice.probable_spans(above, tape=tape, scheme=scheme)
                for lattice in group.lattices
            ]
        return probable(chain, above, group.lattice(0)._spanned(tape), scheme)

    for group, spans in answered(lattices, ask, threads):
        out.update(zip(group.numbers, spans, strict=True))
    return [out[number] for number in range(len(lattices))]


def probable(
    engine: ChainEngine, above: float, tape: str, scheme: str | Scheme | None
) -> list[ProbableSpans]:
    """Return all spans of each row above a probability; see `probable_spans`."""
    labels, types = _span_labels(
        engine.program, engine.bound.machine, tape, named_scheme(scheme or "conlleval")
    )
    if labels is None:
        engine.check(engine.log_z)
        none = np.empty(0, dtype=np.int32)
        return [ProbableSpans(none, none, none, np.empty(0), ())] * len(engine.rows)
    spans = kernel.probable_spans(engine.bound, labels, above)
    engine.check(spans.log_z)
    out = []
    for k in range(len(engine.rows)):
        rows = slice(int(spans.ends[k]), int(spans.ends[k + 1]))
        start, end, kind = spans.span[rows].T
        out.append(ProbableSpans(start, end, kind, spans.probability[rows], types))
    return out


def span_probabilities(
    lattices: Sequence[Questions],
    spans: Sequence[Sequence[Segment]],
    *,
    tape: str | None = None,
    scheme: str | Scheme | None = None,
    threads: int = 1,
) -> list[Floats]:
    """Return the probability that exactly these spans are there, float64 [M] of each lattice.

    Parameters
    ----------
    lattices : sequence of Lattice
    spans : sequence of sequence of (int, int, str)
        Start, end (exclusive) and type of the spans of each lattice.
    tape : str, optional
        The tape, where there are several.
    scheme : str or Scheme, optional
        As for `Lattice.span_probability`.
    threads : int

    Raises
    ------
    OptionError
        No such span in a sentence of this length, or no label of this type; no such tape or
        scheme; another number of lists than lattices; threads below 1.
    GrammarError
        A scheme that allows no span of the labels.
    NoPathError
        A lattice without a path.
    TooLargeError
        A grammar too large to multiply out.
    """
    if len(spans) != len(lattices):
        raise OptionError(f"{len(spans)} lists of spans for {len(lattices)} lattices")
    out = [np.empty(0) for _ in lattices]

    def ask(group: Group) -> list[Floats]:
        rows = [spans[number] for number in group.numbers]
        chain = group.engine.as_chain
        if chain is None:
            each = zip(group.lattices, rows, strict=True)
            return [x.span_probabilities(some, tape=tape, scheme=scheme) for x, some in each]
        return probabilities(chain, rows, group.lattice(0)._spanned(tape), scheme)

    for group, values in answered(lattices, ask, threads):
        for number, row in zip(group.numbers, values, strict=True):
            out[number] = row
    return out


def known_probabilities(
    lattices: Sequence[Questions | None],
    spans: SpanArrays,
    offsets: Longs,
    *,
    tape: str,
    threads: int = 1,
) -> Floats:
    """Return the probability of spans that conlleval reads in labels of sentences.

    Parameters
    ----------
    lattices : sequence of B (Lattice or None)
        The spans of a sentence without a lattice have probability 0.
    spans : SpanArrays
        M spans; the lattices have their labels.
    offsets : int64 [B + 1]
        Bounds of the sentences among the tokens.
    tape : str
    threads : int

    Returns
    -------
    float64 [M]

    Raises
    ------
    NoPathError
        A lattice without a path.
    TooLargeError
        A grammar too large to multiply out.
    """
    scheme, out = named_scheme("conlleval"), np.zeros(len(spans.start))
    ends = np.searchsorted(spans.start, offsets)
    counts = np.diff(ends)
    pairs = [(b, lattices[b]) for b in np.flatnonzero(counts).tolist()]
    several = [(b, lattice) for b, lattice in pairs if lattice is not None]
    numbers = np.asarray([b for b, _ in several], dtype=np.int64)

    def of_arcs(sentence: int, lattice: Questions) -> Floats:
        rows = slice(int(ends[sentence]), int(ends[sentence + 1]))
        places = np.stack([spans.start[rows], spans.end[rows]], axis=1) - offsets[sentence]
        kinds = [spans.types[k] for k in spans.type[rows].tolist()]
        pairs = zip(places.tolist(), kinds, strict=True)
        return lattice.span_probabilities([(a, b, kind) for (a, b), kind in pairs], tape=tape)

    def ask(group: Group) -> tuple[Longs, Floats]:
        sentences = numbers[group.numbers]
        bounds = Ragged(ends)
        chosen, rows = bounds.select(sentences), bounds.entries(sentences)
        engine = group.engine.as_chain
        if engine is None:
            each = zip(sentences.tolist(), group.lattices, strict=True)
            return rows, np.concatenate([of_arcs(b, lattice) for b, lattice in each])
        labels, types = _span_labels(engine.program, engine.bound.machine, tape, scheme)
        assert labels is not None  # noqa: S101 (there are spans)
        place = np.asarray([types.index(t) if t in types else -1 for t in spans.types])
        first = chosen.repeat(offsets[sentences])
        span = (spans.start[rows] - first, spans.end[rows] - first, place[spans.type[rows]])
        table = np.stack(span, axis=1).astype(np.int32)
        values, log_z = kernel.span_probabilities(
            engine.bound, labels, kernel.SpanQuery(chosen.offsets, table)
        )
        engine.check(log_z)
        return rows, values

    for _, (rows, values) in answered([lattice for _, lattice in several], ask, threads):
        out[rows] = values
    return out


def probabilities(
    engine: ChainEngine, spans: Sequence[Sequence[Segment]], tape: str, scheme: str | Scheme | None
) -> list[Floats]:
    """Return the probability of each span, one array for each row."""
    scheme = named_scheme(scheme or "conlleval")
    kinds = span_reading(engine.program.labels(tape), scheme).types
    for row, tokens in zip(spans, engine.rows.lengths.tolist(), strict=True):
        for start, end, kind in row:
            if not 0 <= start < end <= tokens:
                raise OptionError(f"span {start}:{end} in a sentence of {tokens} tokens")
            if kind not in kinds:
                there = ", ".join(sorted(kinds)) or "none"
                raise OptionError(f"no label has the type {kind!r}; the types are {there}")
    labels, types = _span_labels(engine.program, engine.bound.machine, tape, scheme)
    place = {name: i for i, name in enumerate(types)}
    rows = [
        (k, start, place[kind], end)
        for k, row in enumerate(spans)
        for start, end, kind in row
        if kind in place
    ]
    if labels is None or not rows:
        engine.check(engine.log_z)
        return [np.zeros(len(row)) for row in spans]
    distinct, number = np.unique(np.asarray(rows, dtype=np.int64), axis=0, return_inverse=True)
    bounds = np.searchsorted(distinct[:, 0], np.arange(len(spans) + 1))
    table = np.ascontiguousarray(distinct[:, [1, 3, 2]], dtype=np.int32)
    values, log_z = kernel.span_probabilities(engine.bound, labels, kernel.SpanQuery(bounds, table))
    engine.check(log_z)
    each = iter(values[number.reshape(-1)].tolist())
    return [np.asarray([next(each) if s[2] in place else 0.0 for s in row]) for row in spans]


# --- Minimum-Bayes-risk decoding ------------------------------------------------------------------
Step = tuple[float, Segment | None, str | None]

_FIRST_FLOOR = 0.01
_WRITTEN = ("bioes", "bilou", "bmes", "bmewo", "iob2", "iob1")


def span_risk(
    engine: ChainEngine, tape: str, scheme: str | Scheme | None
) -> MinimumRisk[tuple[str, ...]]:
    """Return the labels with the largest expected F of spans, for a tape of the only row."""
    scheme, tokens = named_scheme(scheme or "conlleval"), engine.rows.total
    labels = engine.program.labels(tape)
    check_readable(labels, scheme)
    if all(split_label(label, scheme)[0] in (OUTSIDE, "?") for label in labels):
        raise OptionError(f"no label of the tape {tape!r} belongs to a span: use loss='token'")
    engine.check(engine.log_z)
    if not tokens:
        return MinimumRisk((), 1.0)
    best = engine.labels_along(engine.nbest(1).elements, engine.program.tapes.index(tape))
    first = [labels[k] for k in best.label.tolist()]
    chosen = [(s.start, s.end, s.type) for s in spans_of(first, scheme=scheme)]
    shares = dict(
        zip(chosen, probabilities(engine, [chosen], tape, scheme)[0].tolist(), strict=True)
    )
    true, separate = _expected_spans(engine, tape, scheme), _nonadjacent_types(labels, scheme)
    ratio = _ratio(sum(shares.values()), len(chosen), true)
    floor = max(_FIRST_FLOOR, ratio / 2)
    while True:
        (several,) = probable(engine, floor, tape, scheme)
        shares |= {(span.start, span.end, span.type): p for span, p in several}
        chosen, ratio = _improved(chosen, shares, ratio, true, tokens, separate)
        if ratio / 2 >= floor or floor == 0.0:
            break  # spans below would lower the ratio
        floor = ratio / 2 if ratio > 0.0 else _lower(floor, true, tokens, len(labels))
    return MinimumRisk(_written(chosen, tokens, scheme, labels), ratio)


def _lower(floor: float, true: float, tokens: int, labels: int) -> float:
    """Return a lower floor if all spans are below a floor.

    It is 0 if the lower floor guarantees a span, or if there is no span.
    """
    below = floor / 16
    return below if below > true / (tokens * (tokens + 1) * labels) else 0.0


def _improved(
    chosen: list[Segment],
    shares: dict[Segment, float],
    ratio: float,
    true: float,
    tokens: int,
    separate: frozenset[str],
) -> tuple[list[Segment], float]:
    """Return the spans with the largest ratio among the spans in `shares`, and that ratio."""
    while True:
        heaviest = _heaviest(tokens, shares, ratio, separate)
        better = _ratio(sum(shares[s] for s in heaviest), len(heaviest), true)
        if better <= ratio + 1e-15:
            return chosen, ratio
        chosen, ratio = heaviest, better


def _ratio(right: float, predicted: int, true: float) -> float:
    """Return 2 E[right] / (predicted + E[true]), or 1 if both counts are zero."""
    return 2.0 * right / (predicted + true) if predicted + true > 0.0 else 1.0


def _expected_spans(engine: ChainEngine, tape: str, scheme: Scheme) -> float:
    """Return the expected number of complete spans."""
    labels, _ = _span_labels(engine.program, engine.bound.machine, tape, scheme)
    if labels is None:
        return 0.0
    counts, _ = kernel.span_counts(engine.bound, labels)
    return math.fsum(counts[0].tolist())


def _heaviest(
    length: int, shares: dict[Segment, float], ratio: float, separate: frozenset[str]
) -> list[Segment]:
    """Return the disjoint spans with the largest sum of 2 p − ratio.

    Adjacent spans of a type in `separate` are not allowed: their labels would be read as one span.
    """
    ending: dict[int, list[tuple[Segment, float]]] = {}
    for span, p in shares.items():
        if 2.0 * p > ratio:
            ending.setdefault(span[1], []).append((span, 2.0 * p - ratio))
    # best[end][kind] is the largest sum up to `end`, with its last span. `kind` is the type of a
    # span that ends at `end` if the type is in `separate`; otherwise it is None.
    best: list[dict[str | None, Step]] = [{None: (0.0, None, None)}]
    for end in range(1, length + 1):
        before = max(best[end - 1], key=lambda kind: best[end - 1][kind][0])
        here: dict[str | None, Step] = {None: (best[end - 1][before][0], None, before)}
        for span, gain in ending.get(end, []):
            start, _, kind = span
            key = kind if kind in separate else None
            left = max(
                (k for k in best[start] if k is None or k != kind), key=lambda k: best[start][k][0]
            )
            total = best[start][left][0] + gain
            if key not in here or total > here[key][0]:
                here[key] = (total, span, left)
        best.append(here)
    chosen, end = [], length
    state = max(best[end], key=lambda k: best[length][k][0])
    while end > 0:
        _, last, state = best[end][state]
        if last is not None:
            chosen.append(last)
        end = end - 1 if last is None else last[0]
    return chosen


def _nonadjacent_types(labels: tuple[str, ...], scheme: Scheme) -> frozenset[str]:
    """Return the types whose spans cannot be adjacent."""
    reading = span_reading(labels, scheme)
    ended = reading.begins & reading.last[:, None]
    same = reading.type[:, None] == reading.type
    touching = (ended & same).any(axis=0)
    kinds = {reading.types[k] for k in reading.type[touching].tolist()}
    return frozenset(reading.types) - kinds


def _written(
    chosen: list[Segment], length: int, scheme: Scheme, labels: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the labels of spans, by default in the first scheme whose labels all exist."""
    spans = [Span(*s) for s in chosen]
    letters = {split_label(label, scheme)[0] for label in labels}
    names = _WRITTEN if letters & {"E", "S"} else _WRITTEN[-2:]
    schemes = [scheme] if scheme.strict else [named_scheme(name) for name in names]
    written = [tuple(written_spans(spans, length, one)) for one in schemes]
    return next((row for row in written if set(row) <= set(labels)), written[0])
