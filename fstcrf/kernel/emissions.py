"""Batches of scores in float32 or float64, read in place: best labels, sums, spans.

float32 is computed in float32, renormalised at every token; sentences that float32 cannot represent
are computed in float64. The result of a sentence depends neither on the others nor on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from fstcrf.arrays import Array, Bools, Bytes, Floats, Ints, Longs, Ragged
from fstcrf.errors import KernelError, NumericError
from fstcrf.kernel.machines import allocated
from fstcrf.kernel.native import (
    CALL_STEPS,
    array_in,
    array_out,
    check,
    ffi,
    freeze,
    frozen,
    lib,
    mapped,
)

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData, View


MOST_EMITTERS = int(lib.FC_MAX_EMITTERS)
"""Largest number of states of a chain."""

_ABREAST = 16  # least sentences of a call, because several are processed side by side
_SHARD = 32_768
"""Tokens of a shard of expected arcs; fixed, so that sums do not depend on threads."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ExpandedChain:
    """A chain whose states each have a label, with a full matrix of arcs.

    Parameters
    ----------
    n_labels : int
    label : int32 [S]
        Label of each state; at most `MOST_EMITTERS` states.
    arc : float64 [S, S]
        Score from row to column; −inf: no arc.
    initial, final : float64 [S]
    empty : float
        Score of a sentence without tokens; −inf: it has no path.
    """

    n_labels: int
    label: Ints
    arc: Floats
    initial: Floats
    final: Floats
    empty: float = 0.0

    def __post_init__(self) -> None:
        freeze(self, "label")

    def view(self) -> View:
        """Return the C view of the chain, and the memory it points into."""
        size = len(self.label)
        keep = [
            array_in(self.label, np.int32, (size,), "label"),
            array_in(self.arc, np.float64, (size, size), "arc"),
            array_in(self.initial, np.float64, (size,), "initial"),
            array_in(self.final, np.float64, (size,), "final"),
        ]
        fields = dict(zip(("label", "arc", "initial", "final"), keep, strict=True))
        return ffi.new("fc_emitter *", {"S": size, "L": self.n_labels, **fields}), keep


@dataclass(frozen=True, eq=False)
class SpanRules:
    """Pairs of labels that begin and continue a span.

    Parameters
    ----------
    n_types : int
    type : int32 [L]
        Type of the label's spans; −1: outside of spans.
    begins, continues : uint8 [L, L]
    first, last : uint8 [L]
        Whether a span begins if the first token has the label; whether a span may end with it.
    """

    n_types: int
    type: Ints
    begins: Bytes
    continues: Bytes
    first: Bytes
    last: Bytes

    def view(self) -> View:
        """Return the C view of the tables, and the memory they point into."""
        size = len(self.type)
        keep = [
            array_in(self.type, np.int32, (size,), "type"),
            array_in(self.begins, np.uint8, (size, size), "begins"),
            array_in(self.continues, np.uint8, (size, size), "continues"),
            array_in(self.first, np.uint8, (size,), "first"),
            array_in(self.last, np.uint8, (size,), "last"),
        ]
        names = ("type", "begins", "continues", "first", "last")
        fields = dict(zip(names, keep, strict=True))
        return ffi.new("fc_span_reading *", {"L": size, "types": self.n_types, **fields}), keep


class Sums(NamedTuple):
    """Result of `EmissionRows.sums`.

    log_z : float64 [B]; NaN for a sentence that is left.
    left : bool [B]; float64 cannot represent the sentence; the sums exclude it.
    node : [B, W, L] or [N, L]; the probability of each label, zeros beyond the end.
    arc : float64 [S, S]; expected numbers of arcs, over all sentences.
    begin, end : float64 [S]; expected numbers of first and last states.

    Arrays that were not requested are empty.
    """

    log_z: Floats
    left: Bools
    node: Array
    arc: Floats
    begin: Floats
    end: Floats


class PathSpans(NamedTuple):
    """The spans of given labels.

    ends : int64 [B + 1]; sentence b has the spans ``ends[b] : ends[b + 1]``.
    span : int32 [M, 3]; start and end within the sentence, type.
    probability : float64 [M]; NaN if the sentence is left.
    left : bool [B]
    """

    ends: Longs
    span: Ints
    probability: Floats
    left: Bools


class EmissionRows:
    """Scores of a batch under a chain.

    Parameters
    ----------
    emitter : ExpandedChain
    rows : float32 or float64 [B, W, L] or [N, L]
        Labels are contiguous, rows at least L numbers apart; [N, L]: concatenated sentences.
    sentences : Ragged
        B rows of tokens.
    width : int
        W: tokens of a row of padded results.
    threads : int
    padded : bool
        Whether probabilities of labels are [B, W, L]; else [N, L].

    Raises
    ------
    NumericError
        NaN, +inf or numbers beyond 1e300 in the chain; the scores are checked by each method.
    """

    def __init__(
        self,
        emitter: ExpandedChain,
        rows: Array,
        sentences: Ragged,
        width: int,
        threads: int = 1,
        *,
        padded: bool = True,
    ) -> None:
        self.offsets = frozen(sentences.offsets)
        lengths = self.lengths = Ragged(self.offsets).lengths
        lengths.flags.writeable = False
        self.emitter, self.width, self.threads, self.padded = emitter, width, threads, padded
        self.n_labels, self.n_sentences = emitter.n_labels, len(lengths)
        self.rows, item = rows, rows.dtype.itemsize
        stride = max(rows.strides[-2] // item, self.n_labels)
        size = (rows.shape[-2] - 1) * (rows.strides[-2] // item) + rows.shape[-1]
        if rows.ndim == 3:
            step = rows.strides[0] // item
            size += (self.n_sentences - 1) * step
            self.start = np.arange(self.n_sentences, dtype=np.int64) * step
        else:
            self.start = self.offsets[:-1] * stride
        self._view = ffi.new("fc_rows *")
        name = "narrow" if rows.dtype == np.float32 else "wide"
        kind = "float *" if name == "narrow" else "double *"
        pointer = ffi.cast(kind, rows.__array_interface__["data"][0])
        setattr(self._view, name, pointer)
        self._view.size = size if rows.size else 0
        self._view.stride, self._view.B, self._view.L = stride, self.n_sentences, self.n_labels
        self._keep: list[object] = [
            array_in(self.start, np.int64, self.start.shape, "start"),
            array_in(lengths, np.int64, lengths.shape, "lengths"),
        ]
        self._view.start, self._view.length = self._keep
        self._emitter, memory = emitter.view()
        self._keep.append(memory)
        where = ffi.new("int64_t *")
        status = lib.fc_check_emissions(self._emitter, self._view, where)
        if status == lib.FC_ENUMERIC:
            raise NumericError("transitions, initial or final: NaN, +inf or beyond 1e300")
        check(status, "scores: sentence", where[0])

    def best(self) -> tuple[Ints, Floats]:
        """Return the best labels, int32 [N], −1 without a path, and scores, float64 [B].

        Ties: the smaller state, at the earliest token where the candidates differ.

        Raises
        ------
        NumericError
            A score that is NaN, +inf or beyond 1e300.
        """
        path, score = np.empty(int(self.offsets[-1]), dtype=np.int32), np.empty(self.n_sentences)
        out = array_out(path), array_out(score)
        offsets = array_in(self.offsets, np.int64, self.offsets.shape, "offsets")

        def ask(first: int, last: int, where: CData) -> int:
            work = self._work(first, last)
            return lib.fc_emission_best(
                *(self._emitter, self._view, first, last, offsets, *out, work, where)
            )

        self._run(ask, list(self._portions()))
        score[self.lengths == 0] = self.emitter.empty
        if self.rows.dtype == np.float64:
            self._check_pathless(np.flatnonzero(np.isneginf(score)))
        return path, score

    def _check_pathless(self, sentences: Longs) -> None:
        """Refuse scores below −1e300: their sums become −∞, and best paths do not check it."""
        for b in sentences.tolist():
            tokens = slice(*self.offsets[b : b + 2].tolist())
            rows = self.rows[tokens] if self.rows.ndim == 2 else self.rows[b, : self.lengths[b]]
            if ((rows < -1e300) & (rows > -np.inf)).any():
                raise NumericError(f"sentence {b}: a score is NaN, +inf or beyond 1e300")

    def sums(self, *, posteriors: bool = False, arcs: bool = False) -> Sums:
        """Return log Z, and probabilities of labels and expected numbers of arcs if asked for.

        Raises
        ------
        NumericError
            A score that is NaN, +inf or beyond 1e300.
        """
        out, states = _Sums(self, posteriors=posteriors), len(self.emitter.label)
        shards = list(self._shards()) if arcs else []
        parts = np.zeros((len(shards), states, states + 2)) if arcs else None

        def ask(first: int, last: int, where: CData, shard: int) -> int:
            view = out.view(None if parts is None else parts[shard])
            work = self._work(first, last)
            return lib.fc_emission_total(
                self._emitter, self._view, first, last, view[0], work, where
            )

        if arcs:
            self._run(ask, [(*shard, k) for k, shard in enumerate(shards)])
        else:
            self._run(ask, [(*portion, 0) for portion in self._portions()])
        out.log_z[self.lengths == 0] = self.emitter.empty
        return out.result(parts)

    def score_labels(self, tags: Ints, sums: Sums) -> Floats:
        """Return the scores of given labels, and subtract their path from the sums.

        Parameters
        ----------
        tags : int32 [B, W]
            Values beyond a sentence's end are not read.
        sums : Sums
            Result of `sums`; the path is subtracted from its arrays, in place, as if it were
            certain.

        Returns
        -------
        float64 [B]
            −inf if the labels are not legal; then the sums do not change.
        """
        score = np.empty(self.n_sentences)
        out = _Sums(self, posteriors=False, node=sums.node, left=sums.left)
        states = len(self.emitter.label)
        part = np.zeros((states, states + 2)) if sums.arc.size else None
        place = np.arange(self.n_sentences, dtype=np.int64) * self.width
        inputs = (
            array_in(place, np.int64, place.shape, "place"),
            array_in(tags, np.int32, (self.n_sentences, self.width), "tags"),
            array_out(score),
        )

        def ask(first: int, last: int, where: CData) -> int:
            view = out.view(part)
            work = self._work(first, last)
            return lib.fc_emission_given(
                *(self._emitter, self._view, first, last, *inputs, view[0], work, where)
            )

        self._run(ask, [(0, self.n_sentences)])
        score[self.lengths == 0] = self.emitter.empty
        if part is not None:
            for total, counts in zip(sums[3:], _parted(part), strict=True):
                np.add(total, counts, out=total)
        return score

    def spans(self, path: Ints, reading: SpanRules) -> PathSpans:
        """Return the spans of given labels, int32 [N], with their probabilities.

        Sentences whose first label is −1 have no spans.

        Raises
        ------
        NumericError
            A score that is NaN, +inf or beyond 1e300.
        """
        tokens = int(self.offsets[-1])
        sums = _Sums(self, posteriors=False)
        view = sums.view(None)
        ends = np.zeros(self.n_sentences + 1, dtype=np.int64)
        span, probability = np.empty((tokens, 3), dtype=np.int32), np.empty(tokens)
        table, keep = reading.view()
        inputs = (
            array_in(self.offsets, np.int64, self.offsets.shape, "offsets"),
            array_in(path, np.int32, (tokens,), "path"),
            table,
        )

        def ask(first: int, last: int, where: CData) -> int:
            rows = slice(int(self.offsets[first]), None)
            out = array_out(ends[1:]), array_out(span[rows]), array_out(probability[rows])
            work = self._work(first, last)
            return lib.fc_emission_spans(
                self._emitter, self._view, first, last, *inputs, *out, view[0], work, where
            )

        portions = list(self._portions())
        self._run(ask, portions)
        del keep
        if len(portions) > 1:  # each portion counted from 0, at the place of its first token
            count = np.diff(ends, prepend=0)[1:]
            starts = [first for first, _ in portions]
            count[starts] = ends[1:][starts]
            sizes = [count[first:last].sum() for first, last in portions]
            kept = Ragged.from_lengths(sizes).ranges(self.offsets[starts])
            span, probability = span[kept], probability[kept]
            ends = Ragged.from_lengths(count).offsets
        total = int(ends[-1])
        return PathSpans(ends, span[:total], probability[:total], sums.left.astype(bool))

    # --- How it is asked ----------------------------------------------------------------------

    def _work(self, first: int, last: int) -> CData:
        size = int(lib.fc_emission_work(self._emitter, self._view, first, last))
        what = f"a sentence of {self.width:,} tokens, {len(self.emitter.label):,} states at each"
        return ffi.from_buffer("double[]", allocated(size, what, self.width))

    def _portions(self) -> Iterator[tuple[int, int]]:
        """Yield runs of about equal numbers of tokens that keep calls short."""
        size, steps = self.n_sentences, int(self.offsets[-1]) * len(self.emitter.label) ** 2
        count = max(self.threads, min(size // _ABREAST, steps // CALL_STEPS), 1)
        if count == 1 or size < 2:
            yield 0, size
            return
        marks = np.arange(1, count) * int(self.offsets[-1]) / count
        cuts = np.searchsorted(self.offsets, marks).tolist()
        bounds = sorted({0, size, *(c for c in cuts if 0 < c < size)})
        yield from pairwise(bounds)

    def _shards(self) -> Iterator[tuple[int, int]]:
        """Yield runs of sentences that depend on their lengths only."""
        return Ragged(self.offsets).runs(_SHARD)

    def _run(self, ask: Callable[..., int], parts: Sequence[tuple[int, ...]]) -> None:
        def one(part: tuple[int, ...]) -> tuple[int, int]:
            where = ffi.new("int64_t *")
            first, last, *rest = part
            return ask(first, last, where, *rest), int(where[0])

        results = [one(parts[0])] if len(parts) == 1 else mapped(one, parts, self.threads)
        for status, where in results:
            if status == lib.FC_ENUMERIC:
                raise NumericError(f"sentence {where}: a score is NaN, +inf or beyond 1e300")
            check(status, "scores: sentence", where)


class _Sums:
    """The memory that sums are written to."""

    def __init__(
        self,
        rows: EmissionRows,
        *,
        posteriors: bool,
        node: Array | None = None,
        left: Bools | None = None,
    ) -> None:
        size = rows.n_sentences
        shape: tuple[int, ...] = (size, rows.width, rows.n_labels)
        place = np.arange(size, dtype=np.int64) * rows.width
        if not rows.padded:
            shape, place = (int(rows.offsets[-1]), rows.n_labels), rows.offsets[:-1]
        self.log_z = np.empty(size)
        self.left = np.zeros(size, dtype=np.uint8) if left is None else left.astype(np.uint8)
        none = np.empty((0, 0, 0), dtype=rows.rows.dtype) if node is None else node
        written = size * rows.width == rows.offsets[-1] or not rows.padded  # each row
        made = np.empty if written else np.zeros
        self.node = made(shape, dtype=rows.rows.dtype) if posteriors else none
        self.start, self.stride = place * rows.n_labels, rows.n_labels

    def view(self, part: Floats | None) -> tuple[CData, Floats | None]:
        """Return the C view; arcs and ends are written to a part, float64 [S, S + 2]."""
        view = ffi.new("fc_emission_sums *")
        view.log_z, view.left = array_out(self.log_z), array_out(self.left)
        if self.node.size:
            if not self.node.flags.c_contiguous:
                raise KernelError("probabilities of labels are not contiguous")
            name = "narrow" if self.node.dtype == np.float32 else "wide"
            setattr(view, name, array_out(self.node.reshape(-1)))
            view.size, view.stride = self.node.size, self.stride
            view.start = array_in(self.start, np.int64, self.start.shape, "start")
        if part is not None:
            for name, array in zip(("arc", "begin", "end"), _parted(part), strict=True):
                setattr(view, name, array_out(array))
        return view, part

    def result(self, parts: Floats | None) -> Sums:
        """Return the sums; parts are added in their order."""
        total = np.empty((0, 2)) if parts is None else np.add.reduce(parts, axis=0)
        arcs, begin, end = _parted(total)
        return Sums(self.log_z, self.left.astype(bool), self.node, arcs, begin, end)


def _parted(part: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the arcs [S, S] and both ends [S], which are consecutive in [S, S + 2]."""
    states, flat = len(part), part.reshape(-1)
    arc = flat[: states * states].reshape(states, states)
    begin, end = flat[states * states :].reshape(2, states)
    return arc, begin, end
