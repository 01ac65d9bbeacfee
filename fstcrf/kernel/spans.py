"""Probabilities of spans of one axis: probable spans, given spans, expected numbers.

Each takes one backward and one forward pass over a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.kernel.blocks import LongSentence, Suffixes, is_long
from fstcrf.kernel.machines import Bound, JointChain, allocated
from fstcrf.kernel.native import array_in, array_out, check, ffi, lib

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData, View


Bytes = NDArray[np.uint8]

ARC_OPENS, ARC_CARRIES = int(lib.FC_OPENS), int(lib.FC_CARRIES)

_ROOM = 2_000_000
"""Largest number of spans of one call."""

_SPANS_PER_TOKEN = 32
"""Initial capacity: spans a token."""


@dataclass(frozen=True, eq=False)
class SpanLabels:
    """The spans that the arcs of an axis open and continue.

    Parameters
    ----------
    axis, n_types : int
    type : int32 [S]
        Type of the spans that a state belongs to; −1: outside of spans. Each type has a state.
    first, last : uint8 [S]
        1 if a sentence that begins with this state begins with a span; 1 if a span may end here.
    arc : uint8 [arcs]
        `ARC_OPENS`: a span begins at its target; `ARC_CARRIES`: a span continues; else 0.
    """

    axis: int
    n_types: int
    type: Ints
    first: Bytes
    last: Bytes
    arc: Bytes

    def view(self, machine: JointChain) -> View:
        """Return the C view of the labels, and the memory it points into."""
        axis = machine.axes[self.axis]
        states, arcs = (axis.n_states,), (axis.n_arcs,)
        keep = [
            array_in(self.type, np.int32, states, "type"),
            array_in(self.first, np.uint8, states, "first"),
            array_in(self.arc, np.uint8, arcs, "arc"),
            array_in(self.last, np.uint8, states, "last"),
        ]
        fields = dict(zip(("type", "first", "arc", "last"), keep, strict=True))
        sizes = {"axis": self.axis, "types": self.n_types}
        return ffi.new("fc_segments *", {**sizes, **fields}), keep


class FoundSpans(NamedTuple):
    """The probable spans of a batch.

    Parameters
    ----------
    ends : int64 [B + 1]
        Sentence b has the spans ``ends[b] : ends[b + 1]``.
    span : int32 [M, 3]
        Start and end within the sentence, type; in the order of ends, then types, then starts.
    probability : float64 [M]
    log_z : float64 [B]
        −inf if no path exists.
    """

    ends: Longs
    span: Ints
    probability: Floats
    log_z: Floats


class SpanQuery(NamedTuple):
    """Spans whose probabilities are to be computed.

    Parameters
    ----------
    bounds : int64 [B + 1]
        Sentence b has the spans ``bounds[b] : bounds[b + 1]``.
    span : int32 [M, 3]
        Start and end within the sentence, type; distinct, sorted by start, then type, then end.
    """

    bounds: Longs
    span: Ints


def probable_spans(batch: Bound, labels: SpanLabels, floor: float) -> FoundSpans:
    """Return all spans with a probability above a floor.

    Parameters
    ----------
    batch : Bound
    labels : SpanLabels
    floor : float
        0 to 1.

    Raises
    ------
    OptionError
        A floor outside this range.
    TooLargeError
        More spans may be open at a token than memory can hold.
    """
    if not 0.0 <= floor <= 1.0:
        raise OptionError(f"spans above {floor}: expected a probability, 0 to 1")
    pieces: list[tuple[Ints, Floats]] = []
    counts, log_z = np.zeros(batch.n_sentences, dtype=np.int64), np.empty(batch.n_sentences)
    for sentences, run in _runs(batch, labels, floor):
        lanes = _lanes(floor, run.longest)
        search = _Search(run, labels, lib.FC_ABOVE, lanes, floor)
        if run.n_sentences == 1 and (
            is_long(run, run.longest) or _room(run.longest, labels, floor) > _ROOM
        ):
            parts, log_z[sentences] = search.long(_block_size(run, labels, floor))
            pieces += parts
            counts[sentences] = sum(len(p) for _, p in parts)
            continue
        span, probability, ends, log_z[sentences] = search.probable_spans(
            sum(_room(n, labels, floor) for n in Ragged(run.bounds).lengths.tolist())
        )
        pieces.append((span, probability))
        counts[sentences] = np.diff(ends, prepend=0)
    bounds = Ragged.from_lengths(counts).offsets
    if len(pieces) == 1:
        return FoundSpans(bounds, *pieces[0], log_z)
    span = np.concatenate([np.empty((0, 3), dtype=np.int32), *(s for s, _ in pieces)])
    return FoundSpans(bounds, span, np.concatenate([np.empty(0), *(p for _, p in pieces)]), log_z)


def span_probabilities(batch: Bound, labels: SpanLabels, query: SpanQuery) -> tuple[Floats, Floats]:
    """Return the probabilities of given spans, and log Z of the sentences.

    Parameters
    ----------
    batch : Bound
    labels : SpanLabels
    query : SpanQuery

    Returns
    -------
    probability : float64 [M]
        0 in a sentence without a path.
    log_z : float64 [B]

    Raises
    ------
    ShapeError
        A span that ends after its sentence.
    """
    counts = Ragged(query.bounds).lengths
    length = np.repeat(Ragged(batch.bounds).lengths, counts)
    if (query.span[:, 1] > length).any():
        raise ShapeError("a span ends after the end of its sentence")
    probability, log_z = np.zeros(len(query.span)), np.empty(batch.n_sentences)
    for sentences, run in _runs(batch, labels, None):
        first, end = query.bounds[[sentences.start, sentences.stop]].tolist()
        bounds = query.bounds[sentences.start : sentences.stop + 1] - first
        span = np.ascontiguousarray(query.span[first:end])
        search = _Search(run, labels, lib.FC_ASKED, _most_open(bounds, span))
        if run.n_sentences == 1 and is_long(run, run.longest):
            _, log_z[sentences] = search.long(None, span, probability[first:end])
        else:
            log_z[sentences] = search.log_z(span, probability[first:end], bounds)
    return probability, log_z


def span_counts(batch: Bound, labels: SpanLabels) -> tuple[Floats, Floats]:
    """Return the expected number of spans of each type, float64 [B, types], and log Z."""
    count, log_z = np.zeros((batch.n_sentences, labels.n_types)), np.empty(batch.n_sentences)
    none = np.empty((0, 3), dtype=np.int32)
    for sentences, run in _runs(batch, labels, None):
        search = _Search(run, labels, lib.FC_COUNTED, 1)
        if run.n_sentences == 1 and is_long(run, run.longest):
            _, log_z[sentences] = search.long(None, none, count[sentences].reshape(-1))
        else:
            log_z[sentences] = search.log_z(none, count[sentences].reshape(-1))
    return count, log_z


# --- How much room --------------------------------------------------------------------------------


def _lanes(floor: float, tokens: int) -> int:
    """Return how many spans of a type may be open: they exclude each other and exceed the floor."""
    most = max(tokens, 1)
    return min(int(1.0 / floor) + 2, most) if floor > 1.0 / (most + 1) else most


def _ending(labels: SpanLabels, floor: float, tokens: int) -> int:
    """Return the maximum number of spans that end at one token."""
    most = tokens * labels.n_types
    return min(int(1.0 / floor) + 2, most) if floor > 1.0 / (most + 1) else most


def _room(tokens: int, labels: SpanLabels, floor: float) -> int:
    return tokens * _ending(labels, floor, tokens)


def _block_size(batch: Bound, labels: SpanLabels, floor: float) -> int | None:
    """Return the tokens of a block whose spans fit into memory; `None`: any number."""
    most = max(1, _ROOM // _ending(labels, floor, batch.longest))
    default_size = LongSentence(batch, 0).size
    return min(default_size, most)


def _runs(batch: Bound, labels: SpanLabels, floor: float | None) -> Iterator[tuple[slice, Bound]]:
    """Yield runs of sentences for one call each; a sentence in blocks is a separate run."""
    lengths = Ragged(batch.bounds).lengths.tolist()
    room = [0 if floor is None else _room(n, labels, floor) for n in lengths]
    in_blocks = [r > _ROOM or is_long(batch, n) for r, n in zip(room, lengths, strict=True)]
    if not any(in_blocks) and sum(room) <= _ROOM:
        if lengths:
            yield slice(0, len(lengths)), batch
        return
    first = 0
    while first < len(lengths):
        end, total = first + 1, room[first]
        while not in_blocks[first] and end < len(lengths) and not in_blocks[end]:
            total += room[end]
            if total > _ROOM:
                break
            end += 1
        all_sentences = end - first == len(lengths)
        yield slice(first, end), batch if all_sentences else batch.select(range(first, end))
        first = end


def _most_open(bounds: Longs, span: Ints) -> int:
    """Return the largest number of given spans of one type that are open at once."""
    if not len(span):
        return 1
    group = np.stack([Ragged(bounds).rows(), span[:, 2], span[:, 0]])
    new = np.append(True, (group[:, 1:] != group[:, :-1]).any(axis=0))
    starts = np.flatnonzero(new)
    ends = np.maximum.reduceat(span[:, 1], starts)
    place = np.concatenate([span[starts, 0], ends])
    step = np.repeat([1, -1], len(starts))
    kind = np.tile(group[:2, starts], 2)
    order = np.lexsort([step, place, kind[1], kind[0]])
    return max(1, int(np.cumsum(step[order]).max()))


# --- Calls ----------------------------------------------------------------------------------------


class _Search:
    """One search of a batch, whole or in blocks."""

    def __init__(
        self, batch: Bound, labels: SpanLabels, mode: int, lanes: int, floor: float = 0.0
    ) -> None:
        self.batch, self.labels, self.mode = batch, labels, mode
        self.lanes, self.floor = lanes, floor
        self.view, self._keep = labels.view(batch.machine)

    def work(self, tokens: int) -> CData:
        size = int(lib.fc_segment_work(self.batch.view, self.view, self.lanes, tokens))
        return ffi.from_buffer("double[]", allocated(size, self._many(), self.batch.longest))

    def _many(self) -> str:
        return f"{self.lanes:,} spans of a type that may be open in {self.batch.longest:,} tokens"

    def _fields(self, span: Ints, probability: Floats) -> View:
        keep = [array_out(span), array_out(probability)]
        fields = {
            "mode": self.mode,
            "floor": self.floor,
            "lanes": self.lanes,
            "room": len(span),
            "span": keep[0],
            "probability": keep[1],
        }
        return ffi.new("fc_segment_search *", fields), keep

    def probable_spans(self, most: int) -> tuple[Ints, Floats, Longs, Floats]:
        """Search all sentences for probable spans, `most` at most.

        Return span, probability, ends, log Z.
        """
        expected = _SPANS_PER_TOKEN * self.batch.n_tokens
        for room in (expected, most) if expected < most else (most,):
            span, probability = np.empty((room, 3), dtype=np.int32), np.empty(room)
            answer = self.search_sentences(span, probability)
            if answer is not None:
                break
        assert answer is not None  # noqa: S101 (there is room for all)
        ends, log_z = answer
        total = int(ends[-1])
        return span[:total].copy(), probability[:total].copy(), ends, log_z

    def log_z(self, span: Ints, probability: Floats, bounds: Longs | None = None) -> Floats:
        """Search all sentences when no room for spans is needed; return log Z of each."""
        answer = self.search_sentences(span, probability, bounds)
        assert answer is not None  # noqa: S101 (no span is found)
        return answer[1]

    def search_sentences(
        self, span: Ints, probability: Floats, bounds: Longs | None = None
    ) -> tuple[Longs, Floats] | None:
        """Search all sentences; return the spans found up to the end of each, and log Z.

        Return `None` if the arrays of spans are too small.
        """
        ends = np.zeros(self.batch.n_sentences, dtype=np.int64)
        log_z = np.empty(self.batch.n_sentences)
        where = ffi.new("int64_t *")
        search, _keep = self._fields(span, probability)
        status = lib.fc_machine_segments(
            *self.batch.inputs,
            self.view,
            ffi.NULL if bounds is None else array_in(bounds, np.int64, bounds.shape, "bounds"),
            search,
            array_out(ends),
            array_out(log_z),
            self.work(max(self.batch.longest, 1)),
            where,
        )
        if status == lib.FC_EFULL:
            return None
        check(status, "spans: sentence", where[0])
        return ends, log_z

    def long(
        self, size: int | None, span: Ints | None = None, probability: Floats | None = None
    ) -> tuple[list[tuple[Ints, Floats]], float]:
        """Search one sentence in blocks; return the spans of each block, and log Z."""
        sentence = LongSentence(self.batch, 0, size)
        for kind in (lib.FC_SUM, lib.FC_LOGS):
            suffixes = sentence.suffixes(kind)
            if suffixes is None:
                continue
            blocks = self._blocks(sentence, suffixes, span, probability)
            if blocks is not None:
                return blocks, suffixes.total
        raise NumericError("the sentence is in none of the domains")

    def _blocks(
        self,
        sentence: LongSentence,
        suffixes: Suffixes,
        span: Ints | None,
        probability: Floats | None,
    ) -> list[tuple[Ints, Floats]] | None:
        if probability is not None:
            probability[:] = 0.0
        if suffixes.total == -np.inf:
            return []
        if span is None or probability is None:
            room = sentence.size * _ending(self.labels, self.floor, sentence.n_tokens)
            span, probability = np.empty((room, 3), dtype=np.int32), np.empty(room)
        search, _keep = self._fields(span, probability)
        search.asked = len(span) if self.mode == lib.FC_ASKED else 0
        work, blocks = self.work(sentence.size), []
        for block in sentence.blocks(suffixes):
            search.found = 0
            status = lib.fc_block_segments(self.batch.view, block, self.view, search, work)
            if status == lib.FC_ERANGE:
                return None
            check(status, "spans")
            if search.found:
                n = int(search.found)
                blocks.append((span[:n].copy(), probability[:n].copy()))
        return blocks
