"""Constructors of lattices, one for each kind: they check their input and build an `ArcRow`.

A new kind needs one more function here, and a ``from_`` method of `fstcrf.Lattice` that calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import (
    LabelSet,
    check_items,
    integer_array,
    items_of,
    label_tuple,
    real_array,
    real_number,
)
from fstcrf.arrays import Floats, Ints, Longs, Ragged, distinct
from fstcrf.errors import (
    DataError,
    LabelError,
    NumericError,
    OptionError,
    ShapeError,
    TooLargeError,
)
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.arcrow import SEGMENT, ArcRow, unknown_label
from fstcrf.lattices.arcs import FIRST, MOST_ARCS, ArcEngine
from fstcrf.lattices.ctc import Frames
from fstcrf.lattices.engine import Tape
from fstcrf.lattices.inputs import SentenceInputs, potentials
from fstcrf.lattices.machines import acyclic_acceptor, check_labels, joint_arrays, joint_tokens
from fstcrf.lazy import memoised
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import symbols

_NONE = np.zeros(0)
OUTSIDE, BLANK = "O", "<blank>"


def of_tokens(lattice: SentenceInputs, on: Sequence[Tape]) -> ArcRow:
    """Return the potentials of one sentence under a program as arcs."""
    if lattice.program.order_zero:
        return _of_free_tokens(lattice, on)
    joint = joint_arrays(lattice)
    states, length = joint.node.shape[1], len(lattice)
    index = [{label: k for k, label in enumerate(tape.labels)} for tape in on]
    names = [joint.names[k] for k in joint.label.tolist()]
    columns = [[at[x] for at, x in zip(index, row, strict=True)] for row in names]
    label = np.tile(np.asarray(columns, dtype=np.int32), (length, 1))
    source = np.repeat(np.arange(length, dtype=np.int32), states)
    state = np.tile(np.arange(states, dtype=np.int32), length)
    pairs = np.empty((max(len(joint.step), 1), states + 1, states))
    pairs[:, :-1] = joint.step if len(joint.step) else 0.0
    pairs[:, -1] = joint.initial
    end = np.repeat(source[:, None] + np.int64(1), len(on), axis=1)
    arcs = ArcEngine.of_row(
        length,
        source=source,
        target=source + np.int32(1),
        left=state,
        right=state,
        score=np.ascontiguousarray(joint.node).reshape(-1),
        label=label,
        end=end,
        sizes=tuple(len(tape.labels) for tape in on),
        class_final=np.append(joint.final, joint.empty),
        pairs=PairScores(pairs),
        per_position=joint.per_token,
    )
    chains = lattice.program.chain
    stepwise = tuple(tape for tape in lattice.tapes if chains[tape].arc is None)
    return ArcRow(arcs, tuple(on), stepwise=stepwise)


def _of_free_tokens(lattice: SentenceInputs, on: Sequence[Tape]) -> ArcRow:
    """Return potentials without scores of successions: an arc for each state and token."""
    node, label = joint_tokens(lattice), lattice.program.axes.joint_labels()
    columns = np.column_stack([label[tape] for tape in lattice.tapes]).astype(np.int32)
    source = np.repeat(np.arange(len(node), dtype=np.int32), len(columns))
    none = np.zeros_like(source)  # without pairs there are no classes
    arcs = ArcEngine.of_row(
        len(node),
        source=source,
        target=source + np.int32(1),
        left=none,
        right=none,
        score=node.reshape(-1),
        label=np.tile(columns, (len(node), 1)),
        end=np.repeat(source[:, None] + np.int64(1), len(on), axis=1),
        sizes=tuple(len(tape.labels) for tape in on),
        class_final=np.zeros(0),
        pairs=None,
    )
    if not len(node):
        arcs = replace(arcs, final=np.full(1, lattice.program.empty_score))
    allowed = arcs.score > -np.inf
    return ArcRow(arcs if allowed.all() else arcs.with_arcs(allowed), tuple(on))


def from_segments(
    length: int,
    start: ArrayLike,
    end: ArrayLike,
    label: ArrayLike,
    score: ArrayLike,
    labels: LabelSet,
    transitions: ArrayLike | None = None,
    initial: ArrayLike | None = None,
    final: ArrayLike | None = None,
    *,
    tape: str = SEGMENT,
) -> ArcRow:
    """Return the lattice of segments that tile a text; see `Lattice.from_segments`."""
    names, size = label_tuple(labels), _checked_length(length)
    columns, value = _checked_arcs(size, start, end, label, score, names)
    pairs, class_final = _checked_pairs(names, transitions, initial, final)
    arcs = _segment_arcs(size, *columns, value, len(names), pairs, class_final)
    return ArcRow(arcs, (Tape(tape, names, segments=True),), len(value))


def from_spans(
    length: int,
    spans: Sequence[tuple[int, int, str, float]],
    outside: float = 0.0,
    *,
    labels: LabelSet | None = None,
    nested: bool = False,
    tape: str = SEGMENT,
) -> ArcRow:
    """Return the lattice of sets of spans that do not overlap; see `Lattice.from_spans`."""
    if nested:
        raise OptionError(
            "nested=True: a lattice cannot represent nested spans: build one lattice "
            "per level of nesting"
        )
    size = _checked_length(length)
    start, end, label, score = _span_columns(spans)
    types = tuple(dict.fromkeys(label)) if labels is None else label_tuple(labels)
    if OUTSIDE in types:
        raise OptionError('a span has the label "O", which is reserved for tokens outside of spans')
    index = {name: k for k, name in enumerate(types)}
    unknown = next((name for name in label if name not in index), None)
    if unknown is not None:
        raise LabelError(unknown_label(unknown, types))
    number = np.asarray([index[name] for name in label], dtype=np.int32)
    names = (*types, OUTSIDE)
    columns, value = _checked_arcs(size, start, end, number, score, names)
    outside_score = real_number(outside, "outside", error=NumericError)
    if not outside_score < np.inf:
        raise NumericError(f"outside is {outside_score}, expected a number or -inf")
    other = len(types), outside_score
    arcs = _segment_arcs(size, *columns, value, len(names), *_free_pairs(), outside=other)
    return ArcRow(arcs, (Tape(tape, names, segments=True),), len(value))


def from_words(
    length: int,
    start: Ints,
    end: Ints,
    label: Ints,
    labels: tuple[str, ...],
    right: Longs,
    score_after: Callable[[Longs, Longs], Floats],
    last: int,
) -> ArcRow:
    """Return the lattice of words that cover a text, scored by the context to their left.

    Parameters
    ----------
    length : int
        Number of tokens of the text.
    start, end, label : [E]
        Tokens and label of each word, sorted by start. The next word of a path starts at the end.
    labels : tuple of str
    right : int64 [E + 1]
        Context after each word, from 0; the last entry is the context before a text.
    score_after : callable
        Maps contexts and the words that follow them, int64 [n], to scores, float64 [n]. Word E is
        the end of the text.
    last : int
        End of the last words; later tokens belong to them. If it is 0, a text without words has a
        path.
    """
    bounds, row = np.array([length]), np.array([0, len(start)])
    pairs = len(labels), right, score_after, np.array([last])
    arcs = word_arcs(bounds, row, start, end, label, *pairs)
    return ArcRow(arcs, (Tape(SEGMENT, labels, segments=True),), len(start))


def word_arcs(
    lengths: Longs,
    row: Longs,
    start: Ints,
    end: Ints,
    label: Ints,
    labels: int,
    right: Longs,
    score_after: Callable[[Longs, Longs], Floats],
    last: Longs,
) -> ArcEngine:
    """Return the lattices of several texts as rows; text b has the words ``row[b] : row[b + 1]``.

    A node is a boundary and the context after a word that ends there; an arc is a word that starts
    there. The other parameters are explained at `from_words`.
    """
    texts, text = Ragged.from_lengths(lengths), Ragged(row).rows()
    first = texts.offsets[:-1] + np.arange(len(lengths))  # boundaries, numbered across texts
    begin, most = start + first[text], int(right.max()) + 2
    ends = np.where(end == last[text], lengths[text], end) + first[text]
    left = ends * most + right[:-1] + 1
    nodes = distinct(np.append(left, first * most))
    place, context = np.divmod(nodes, most)
    context = np.where(context > 0, context - 1, right[-1])
    low = np.searchsorted(begin, place)
    follow = Ragged.from_lengths(np.searchsorted(begin, place, side="right") - low)
    source, word = follow.rows(), follow.ranges(low)
    closed = np.zeros(texts.total + len(lengths), dtype=bool)
    closed[first + np.where(last == 0, 0, lengths)] = True
    closing, final = np.flatnonzero(closed[place]), np.full(len(nodes), -np.inf)
    final[closing] = score_after(context[closing], np.full(len(closing), len(start)))
    begins, read = np.searchsorted(nodes, first * most), label[word]
    at = place - np.repeat(first, np.diff(np.append(begins, len(nodes))))
    return ArcEngine(
        texts=texts,
        begins=begins,
        at=at,
        final=final,
        source=source.astype(np.int32),
        target=np.searchsorted(nodes, left).astype(np.int32)[word],
        left=read,  # not used without pair scores
        right=read,
        score=score_after(context[source], word),
        origin=word,
        label=read[:, None],
        under=read[:, None],
        end=None,
        carries=np.zeros((len(word), 1), dtype=bool),
        sizes=(labels,),
        class_final=_NONE,
        pairs=None,
    )


def from_ctc(
    scores: ArrayLike,
    blank: int | str = 0,
    *,
    labels: LabelSet | None = None,
    tape: str = SEGMENT,
) -> ArcRow:
    """Return the lattice of CTC frames that collapse to strings; see `Lattice.from_ctc`."""
    value = potentials(scores, "scores", [(None, None)])
    size = value.shape[1]
    names = _names(size, blank, labels)
    column = names.index(blank) if isinstance(blank, str) and blank in names else blank
    if isinstance(column, bool) or not isinstance(column, int | np.integer):
        raise OptionError(f"blank is {blank!r}, expected a label or a column")
    if not 0 <= column < size:
        raise OptionError(f"blank is {blank!r}, expected 0 to {size - 1}")
    if (size + 1) * 2 * size > MOST_ARCS:
        raise TooLargeError(f"{size:,} symbols: their pairs are too many to write out")
    arcs = _frame_arcs(value, int(column))
    frames = Frames(value, int(column), None)
    return ArcRow(arcs, (Tape(tape, names, segments=True),), frames=frames)


def from_machine(
    machine: Machine, labels: LabelSet | None = None, *, tape: str = "label"
) -> ArcRow:
    """Return the lattice of an acyclic acceptor; see `Lattice.from_machine`."""
    if labels is not None:
        check_labels(machine, labels)
    acceptor, number = acyclic_acceptor(machine)
    read = acceptor.input
    label = read[:, None]
    arcs = ArcEngine(
        texts=None,
        begins=FIRST,
        at=None,
        final=acceptor.final,
        source=acceptor.source,
        target=acceptor.target,
        left=read,  # not used without pair scores
        right=read,
        score=acceptor.score,
        origin=number,
        label=label,
        under=label,
        end=None,
        carries=np.zeros((len(number), 1), dtype=bool),
        sizes=(len(machine.input_symbols),),
        class_final=_NONE,
        pairs=None,
    )
    return ArcRow(arcs, (Tape(tape, machine.input_symbols, segments=False),), len(machine.source))


def from_paths(
    paths: Sequence[Sequence[str]],
    scores: ArrayLike,
    labels: LabelSet | None = None,
    *,
    tape: str = "label",
) -> ArcRow:
    """Return the lattice of some label sequences; see `Lattice.from_paths`."""
    expected = "a list of labels"
    rows = [
        tuple(items_of(path, f"the labels of path {k} are", expected))
        for k, path in enumerate(items_of(paths, "the paths are", f"{expected} each"))
    ]
    for k, path in enumerate(rows):
        check_items(path, f"a label of path {k}")
    value = real_array(scores, "scores")
    if value.shape != (len(rows),):
        raise ShapeError(
            f"scores is {list(value.shape)}, expected [{len(rows)}], one for each path"
        )
    if value.size and not value.max() < np.inf:  # false for NaN
        k = int(np.flatnonzero(~(value < np.inf))[0])
        raise NumericError(f"path {k} has the score {value[k]}; -inf forbids")
    path_labels = [label for row in rows for label in row]
    names = tuple(dict.fromkeys(path_labels)) if labels is None else label_tuple(labels)
    index = {name: k for k, name in enumerate(names)}
    unknown = next((label for label in path_labels if label not in index), None)
    if unknown is not None:
        raise LabelError(unknown_label(unknown, names))
    index[""] = -1  # the symbol of a path without labels
    # Paths share only the start state. The first arc of a path has the score of the path.
    symbol = [index[label] for row in rows for label in row or ("",)]
    sizes = Ragged.from_lengths([len(row) or 1 for row in rows])
    target = np.arange(1, sizes.total + 1, dtype=np.int32)
    source, first = target - 1, sizes.offsets[:-1]
    source[first] = 0
    score, final = np.zeros(sizes.total), np.full(sizes.total + 1, -np.inf)
    score[first], final[sizes.offsets[1:]] = value, 0.0
    order = np.argsort(source, kind="stable")
    read = np.asarray(symbol, dtype=np.int32)[order]
    columns = source[order], read, read, target[order], score[order]
    machine = Machine(*columns, final, names, symbols(names)[1:], tape=None)
    row = from_machine(machine, tape=tape)
    number = row.unconstrained.origin  # sorting by source has moved the first arcs to the front
    arcs = replace(row.unconstrained, origin=np.where(number < len(rows), number, -1))
    return replace(row, unconstrained=arcs, n_input_arcs=len(rows))


def joint_paths(
    paths: Sequence[Sequence[tuple[str, ...]]],
    scores: ArrayLike,
    sets: Mapping[str, tuple[str, ...]],
) -> ArcRow:
    """Return the lattice of some labellings of several tapes.

    Parameters
    ----------
    paths : sequence of n sequences of K tuples of str
        The labels of each tape. All tapes of a path have the same number of tokens.
    scores : [n]
    sets : mapping of K str to tuple of str
        The label set of each tape.
    """
    joint = ["\0".join(labels) for path in paths for labels in zip(*path, strict=True)]
    names = tuple(dict.fromkeys(joint))  # a joint label has the labels of all tapes
    cells = iter(joint)
    rows = [[next(cells) for _ in path[0]] for path in paths]
    row = from_paths(rows, scores, names)
    parts = [name.split("\0") for name in names]
    places = [{label: k for k, label in enumerate(labels)} for labels in sets.values()]
    table = [[at[x] for at, x in zip(places, part, strict=True)] for part in parts]
    of = np.asarray(table, dtype=np.int32).reshape(-1, len(sets))
    no_label = np.full((1, len(sets)), -1, dtype=np.int32)  # for a path without labels
    label = np.concatenate([of, no_label])[row.unconstrained.label[:, 0]]
    carries = np.zeros(label.shape, dtype=bool)
    sizes = tuple(map(len, sets.values()))
    arcs = replace(row.unconstrained, label=label, under=label, carries=carries, sizes=sizes)
    on = tuple(Tape(tape, labels, segments=False) for tape, labels in sets.items())
    return replace(row, unconstrained=arcs, on=on)


# --- Checks of the input --------------------------------------------------------------------------


def _checked_length(length: int) -> int:
    """Return a checked number of tokens."""
    if type(length) is bool or not np.issubdtype(type(length), np.integer) or length < 0:
        raise OptionError(f"length is {length!r}, expected the number of tokens, 0 or more")
    if length > 2**30:
        raise OptionError(f"length is {length}, expected at most {2**30}")
    return int(length)


def _span_columns(
    spans: Sequence[tuple[int, int, str, float]],
) -> tuple[list[int], list[int], list[str], list[float]]:
    """Return the starts, ends, labels and scores of spans."""
    try:
        rows = [(start, end, str(label), score) for start, end, label, score in spans]
    except (TypeError, ValueError):
        raise DataError("spans are tuples (start, end, label, score)") from None
    start, end, label, score = zip(*rows, strict=True) if rows else ((), (), (), ())
    return list(start), list(end), list(label), list(score)


def _checked_arcs(
    length: int,
    start: ArrayLike,
    end: ArrayLike,
    label: ArrayLike,
    score: ArrayLike,
    labels: tuple[str, ...],
) -> tuple[tuple[Ints, Ints, Ints], Floats]:
    """Return the checked starts, ends and labels of arcs, and their scores."""
    columns = [
        integer_array(values, name, np.int64, unit="E")
        for values, name in ((start, "start"), (end, "end"), (label, "label"))
    ]
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
    if value.size and not value.max() < np.inf:  # false for NaN
        k = int(np.flatnonzero(~(value < np.inf))[0])
        raise NumericError(f"segment {k} has the score {value[k]}; -inf forbids")
    start_, end_, label_ = (column.astype(np.int32) for column in columns)
    return (start_, end_, label_), value


def _checked_pairs(
    names: tuple[str, ...],
    transitions: ArrayLike | None,
    initial: ArrayLike | None,
    final: ArrayLike | None,
) -> tuple[PairScores, Floats]:
    """Return the pair scores of labels, and the score of each label at the end."""
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
    """Return one object for equal numbers: lattices that share it can be computed in one batch."""
    table = None if transitions is None else np.frombuffer(transitions).reshape(size, size)
    ends = [None if e is None else np.frombuffer(e) for e in (initial, final)]
    return _pairs_of(max(size, 1), table, *ends)


@memoised(1)
def _free_pairs() -> tuple[PairScores, Floats]:
    """Return pair scores of 0 for a single class."""
    return _pairs_of(1, None, None, None)


def _is_sorted(*columns: Ints) -> bool:
    """Return whether the rows of a table are in lexicographic order of its columns."""
    ordered = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    for column in reversed(columns):  # temporaries of bytes: integers would take most of the time
        before, here = column[:-1], column[1:]
        ordered &= here == before
        ordered |= here > before
    return bool(ordered.all())


def _segment_arcs(
    length: int,
    start: Ints,
    end: Ints,
    label: Ints,
    score: Floats,
    labels: int,
    pairs: PairScores,
    class_final: Floats,
    outside: tuple[int, float] | None = None,
) -> ArcEngine:
    """Return the arcs of segments.

    `outside`, a label and a score, adds an arc for each token outside of segments.
    """
    origin, read = np.arange(len(start)), label
    if outside is not None:
        tokens = np.arange(length, dtype=np.int32)
        start, end = np.append(start, tokens), np.append(end, tokens + np.int32(1))
        label = np.append(label, np.full(length, outside[0], dtype=np.int32))
        read = np.append(read, np.full(length, -1, dtype=np.int32))
        score = np.append(score, np.full(length, outside[1]))
        origin = np.append(origin, np.full(length, -1))
    classes = label if pairs.pair.shape[2] > 1 else np.zeros_like(label)
    if not _is_sorted(start, label, end):
        order = np.lexsort((end, label, start))
        start, end, read, score = start[order], end[order], read[order], score[order]
        origin, label, classes = origin[order], label[order], classes[order]
    return ArcEngine.of_row(
        length,
        source=start,
        target=end,
        left=classes,
        right=classes,
        score=score,
        label=read,
        under=label[:, None],
        origin=origin,
        sizes=(labels,),
        class_final=class_final,
        pairs=pairs,
    )


def _pairs_of(
    classes: int, transitions: Floats | None, initial: Floats | None, final: Floats | None
) -> tuple[PairScores, Floats]:
    """Return the pair scores and the final scores of classes."""
    pair = np.zeros((1, classes + 1, classes))
    if transitions is not None:
        pair[0, :-1] = transitions
    if initial is not None:
        pair[0, -1] = initial
    ending = np.zeros(classes + 1)
    if final is not None:
        ending[:-1] = final
    return PairScores(pair), ending


# --- Frames of CTC


def _names(size: int, blank: int | str, labels: LabelSet | None) -> tuple[str, ...]:
    if labels is not None:
        names = label_tuple(labels)
        if len(names) != size:
            raise OptionError(f"{len(names)} labels for {size} columns: expected one each")
        return names
    if isinstance(blank, str):
        raise OptionError(f"blank is {blank!r}: pass labels, or the column of the blank")
    return tuple(BLANK if k == blank else str(k) for k in range(size))


def _frame_arcs(score: Floats, blank: int) -> ArcEngine:
    """Return the arcs of frames: first or blank symbols, then repeated symbols."""
    length, size = score.shape
    symbol = np.arange(size, dtype=np.int32)
    again = symbol[symbol != blank]
    read = np.concatenate([symbol, again])
    begins = np.arange(len(read)) < size
    count = len(read)
    source = np.repeat(np.arange(length, dtype=np.int32), count)

    def each(row: Ints) -> Ints:
        return np.tile(row.astype(np.int32), length)

    pairs, class_final = _ctc_pairs(size, blank)
    return ArcEngine.of_row(
        length,
        source=source,
        target=source + np.int32(1),
        left=each(np.where(begins, read, read + size)),
        right=each(read),
        score=score[:, read].reshape(-1),
        label=each(np.where(begins & (read != blank), read, -1)),
        under=each(read)[:, None],
        end=np.full((len(source), 1), -1),
        carries=np.tile(~begins, length)[:, None],
        sizes=(size,),
        class_final=class_final,
        pairs=pairs,
    )


@memoised(16)
def _ctc_pairs(size: int, blank: int) -> tuple[PairScores, Floats]:
    """Return the pair scores of CTC: a symbol starts after a different one, or repeats itself."""
    pair = np.full((1, size + 1, 2 * size), -np.inf)
    pair[0, :, :size] = 0.0
    same = np.arange(size) != blank
    number = np.flatnonzero(same)
    pair[0, number, number] = -np.inf
    pair[0, number, size + number] = 0.0
    return PairScores(pair), np.zeros(size + 1)
