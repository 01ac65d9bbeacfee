"""What lattices of segments are made from: arcs as they are given, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import real_array
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import DataError, LabelError, NumericError, OptionError, ShapeError
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.arcs import SegmentArcs, pairs_of
from fstcrf.lattices.tapes import potentials
from fstcrf.lazy import memoised


class Candidates(NamedTuple):
    """The arcs that a lattice was made from."""

    start: Ints  # [E]
    end: Ints  # [E]
    label: Ints  # [E]


def unknown_label(label: str, labels: Sequence[str]) -> str:
    """Return the message about a label that is not in the list."""
    known = ", ".join(labels[:12]) + (", …" if len(labels) > 12 else "")
    return f"unknown label {label!r}; the labels are {known}"


def checked_length(length: int) -> int:
    """Return the number of tokens of a text; OptionError where it is none."""
    if type(length) is bool or not np.issubdtype(type(length), np.integer) or length < 0:
        raise OptionError(f"length is {length!r}, expected the number of tokens, 0 or more")
    if length > 2**30:
        raise OptionError(f"length is {length}, expected at most {2**30}")
    return int(length)


def span_columns(
    spans: Sequence[tuple[int, int, str, float]],
) -> tuple[list[int], list[int], list[str], list[float]]:
    """Return the columns of (start, end, label, score); DataError where they are none."""
    try:
        rows = [(start, end, str(label), score) for start, end, label, score in spans]
    except (TypeError, ValueError):
        raise DataError("spans are tuples (start, end, label, score)") from None
    start, end, label, score = zip(*rows, strict=True) if rows else ((), (), (), ())
    return list(start), list(end), list(label), list(score)


def _whole(values: ArrayLike, name: str) -> Longs:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ShapeError(f"{name} is {array.dtype} {list(array.shape)}, expected whole numbers [E]")
    return array.astype(np.int64, copy=False)


def checked_candidates(
    length: int,
    start: ArrayLike,
    end: ArrayLike,
    label: ArrayLike,
    score: ArrayLike,
    labels: tuple[str, ...],
) -> tuple[Candidates, Floats]:
    """Return arcs and scores as they are given, inside the text, of labels that there are."""
    columns = [_whole(v, n) for v, n in ((start, "start"), (end, "end"), (label, "label"))]
    value = real_array(score, "score")
    if any(column.shape != value.shape for column in columns):
        sizes = [list(column.shape) for column in columns]
        raise ShapeError(f"start, end and label are {sizes}, score {list(value.shape)}")
    first, last, number = columns
    if first.size and (first.min() < 0 or last.max() > length or (last <= first).any()):
        k = int(np.flatnonzero((first < 0) | (last <= first) | (last > length))[0])
        raise DataError(
            f"segment {k} is {first[k]}:{last[k]}, expected a stretch of the {length} tokens"
        )
    if number.size and (number.min() < 0 or number.max() >= len(labels)):
        k = int(np.flatnonzero((number < 0) | (number >= len(labels)))[0])
        raise LabelError(f"segment {k} has the label {number[k]}, expected 0 to {len(labels) - 1}")
    if value.size and not value.max() < np.inf:  # nor is NaN
        k = int(np.flatnonzero(~(value < np.inf))[0])
        raise NumericError(f"segment {k} has the score {value[k]}; -inf forbids")
    return Candidates(*(column.astype(np.int32) for column in columns)), value


def checked_pairs(
    names: tuple[str, ...],
    transitions: ArrayLike | None,
    initial: ArrayLike | None,
    final: ArrayLike | None,
) -> tuple[PairScores, Floats]:
    """Return the pair scores of labels, and what ending behind each scores."""
    size = len(names)
    parts = [
        None if values is None else potentials(values, name, [shape])
        for name, values, shape in (
            ("transitions", transitions, (size, size)),
            ("initial", initial, (size,)),
            ("final", final, (size,)),
        )
    ]
    return _shared_pairs(size, *(None if p is None else p.tobytes() for p in parts))


@memoised(64)
def _shared_pairs(
    size: int, transitions: bytes | None, initial: bytes | None, final: bytes | None
) -> tuple[PairScores, Floats]:
    """Return the same object for the same numbers: lattices that share it are one batch."""
    table = None if transitions is None else np.frombuffer(transitions).reshape(size, size)
    ends = [None if e is None else np.frombuffer(e) for e in (initial, final)]
    return pairs_of(max(size, 1), table, *ends)


@memoised(1)
def free_pairs() -> tuple[PairScores, Floats]:
    """Return the pair scores of one class, which are 0."""
    return pairs_of(1, None, None, None)


def _rise(*columns: Ints) -> bool:
    """Tell whether rows of columns, the first of them counting most, are in order."""
    right = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    for column in reversed(columns):  # bytes alone: wide temporaries cost more than all else
        before, here = column[:-1], column[1:]
        right &= here == before
        right |= here > before
    return bool(right.all())


def plain_arcs(
    length: int,
    given: Candidates,
    score: Floats,
    pairs: PairScores,
    class_final: Floats,
    free: tuple[int, float] | None = None,
) -> SegmentArcs:
    """Return the arcs of segments, and of one token outside each where there are such."""
    start, end, label = given
    origin, read = np.arange(len(start)), label
    if free is not None:
        tokens = np.arange(length, dtype=np.int32)
        start, end = np.append(start, tokens), np.append(end, tokens + np.int32(1))
        label = np.append(label, np.full(length, free[0], dtype=np.int32))
        read = np.append(read, np.full(length, -1, dtype=np.int32))
        score = np.append(score, np.full(length, free[1]))
        origin = np.append(origin, np.full(length, -1))
    classes = label if pairs.pair.shape[2] > 1 else np.zeros_like(label)
    if not _rise(start, label, end):
        order = np.lexsort((end, label, start))
        start, end, read, score = start[order], end[order], read[order], score[order]
        origin, label, classes = origin[order], label[order], classes[order]
    count = len(start)
    final = np.full(length + 1, -np.inf)
    final[length] = 0.0
    return SegmentArcs(
        position=np.arange(length + 1),
        source=start,
        target=end,
        label=read,
        under=label,
        carries=np.zeros(count, dtype=bool),
        left=classes,
        right=classes,
        score=score,
        origin=origin,
        state=np.full(count, -1, dtype=np.int32),
        final=final,
        class_final=class_final,
        pairs=pairs,
    )
