"""Spans of labelled sentences: read, written, converted between schemes.

================= ============================================================
Span              start, end (exclusive) and type
spans             the spans of one sentence
labels_from_spans labels of a sentence that has these spans
convert           labels in another scheme
convert_column    a column of a corpus in another scheme
SpanArrays        the spans of many sentences, as arrays
span_arrays       the same as `spans`, for a whole column at once
================= ============================================================

Labels that break their scheme are read in one of three ways (``illegal=``): ``"repair"`` as
conlleval does, which reads every label sequence whatever its scheme; ``"drop"`` keeps only spans
that are well formed; ``"raise"`` accepts nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Ints, Longs
from fstcrf.corpus.corpus import Column, Corpus
from fstcrf.corpus.schemes import OUTSIDE, Scheme, expected, named_scheme, split_label, tables
from fstcrf.errors import DataError, OptionError, SchemeError

__all__ = [
    "Illegal",
    "Span",
    "SpanArrays",
    "convert",
    "convert_column",
    "labels_from_spans",
    "span_arrays",
    "spans",
]

Illegal: TypeAlias = Literal["repair", "drop", "raise"]


class Span(NamedTuple):
    """A stretch of tokens.

    Attributes
    ----------
    start, end : int
        First token and the one behind the last.
    type : str
        What it is: ``"NP"``.
    """

    start: int
    end: int
    type: str


class SpanArrays(NamedTuple):
    """Spans of many sentences, in order of their starts.

    Attributes
    ----------
    start, end : int64 [M]
        First token and the one behind the last, counted through the whole corpus.
    type : int32 [M]
        Index into `types`.
    types : tuple of str
        The distinct types of the labels; all of them need not occur.
    """

    start: Longs
    end: Longs
    type: Ints
    types: tuple[str, ...]


def spans(
    labels: Sequence[str], scheme: str | Scheme = "iob2", *, illegal: Illegal = "repair"
) -> list[Span]:
    """Return the spans of one sentence, in order.

    Parameters
    ----------
    labels : sequence of str
        ``O``, or a letter, a hyphen and a type that may hold hyphens.
    scheme : str or Scheme
        The scheme of the labels; ``"repair"`` reads all schemes alike.
    illegal : "repair", "drop" or "raise"
        What becomes of labels that break the scheme.

    Raises
    ------
    SchemeError
        With ``illegal="raise"``: the first label that breaks the scheme, and its position.
    OptionError
        No such scheme, or no such way to treat illegal labels.

    Examples
    --------
    >>> spans(["B-NP", "I-NP", "O", "B-VP"])
    [Span(start=0, end=2, type='NP'), Span(start=3, end=4, type='VP')]
    """
    table = _reading(scheme, illegal)
    if illegal == "raise" and (bad := _first_illegal(labels, table)) is not None:
        raise SchemeError(bad[1], token=bad[0])
    found: list[Span] = []
    start = -1
    letter, kind = OUTSIDE, ""
    parts = [split_label(label, table) for label in labels]
    for position, (following, following_kind) in enumerate([*parts, (OUTSIDE, "")]):
        key = (letter, following, kind == following_kind)
        if start >= 0 and key not in table.inside:
            if letter in table.last:
                found.append(Span(start, position, kind))
            start = -1
        if key in table.starts:
            start = position
        letter, kind = following, following_kind
    return found


def _reading(scheme: str | Scheme, illegal: str) -> Scheme:
    table = named_scheme(scheme)
    if illegal == "repair":
        return named_scheme("conlleval")
    if illegal not in {"drop", "raise"}:
        raise OptionError(f"illegal={illegal!r}, expected 'repair', 'drop' or 'raise'")
    if not table.strict:
        raise OptionError(f"scheme {table.name!r} accepts every label; name the labels' scheme")
    return table


def _first_illegal(labels: Sequence[str], scheme: Scheme) -> tuple[int, str] | None:
    # Position of the label at fault, and what is wrong with it.
    parts = [split_label(label, scheme) for label in labels]
    neighbours = itertools.pairwise([(OUTSIDE, ""), *parts, (OUTSIDE, "")])
    for position, ((letter, kind), (following, following_kind)) in enumerate(neighbours):
        if following == "?":
            return position, f"label {labels[position]!r} is not {scheme.name}: {expected(scheme)}"
        if not scheme.legal(letter, following, same=kind == following_kind):
            before = repr(labels[position - 1]) if position else "the start"
            after = repr(labels[position]) if position < len(labels) else "the end"
            message = f"{after} after {before} is not legal in {scheme.name}"
            return min(position, len(labels) - 1), message
    return None


def labels_from_spans(
    found: Iterable[tuple[int, int, str]], length: int, scheme: str | Scheme = "iob2"
) -> list[str]:
    """Return the labels of a sentence that has these spans.

    Parameters
    ----------
    found : iterable of Span
        Spans that do not overlap, in any order.
    length : int
        Number of tokens.
    scheme : str or Scheme
        Scheme of the labels.

    Raises
    ------
    DataError
        Spans that overlap, are empty or lie outside the sentence.
    OptionError
        No such scheme, or conlleval, which is none to write.

    Examples
    --------
    >>> labels_from_spans([(0, 2, "NP"), (3, 4, "VP")], 5, "bioes")
    ['B-NP', 'E-NP', 'O', 'S-VP', 'O']
    """
    table = named_scheme(scheme)
    if not table.strict:
        raise OptionError(f"scheme {table.name!r} only reads labels; name one to write")
    labels = [OUTSIDE] * length
    previous = Span(0, 0, "")
    for span in sorted(Span(start, end, kind) for start, end, kind in found):
        if not 0 <= span.start < span.end <= length:
            raise DataError(f"{span} is empty or outside a sentence of {length} tokens")
        if span.start < previous.end:
            raise DataError(f"{span} overlaps {previous}")
        touches = 0 < previous.end == span.start and previous.type == span.type
        tail = f"-{span.type}" if span.type else ""
        labels[span.start : span.end] = [
            letter + tail for letter in _letters(span.end - span.start, table, touches=touches)
        ]
        previous = span
    return labels


def _letters(length: int, scheme: Scheme, *, touches: bool) -> str:
    if scheme.name == "iob1":
        return ("B" if touches else "I") + "I" * (length - 1)
    if len(scheme.letters) == 3:
        return "B" + "I" * (length - 1)
    end, single = scheme.letters[3], scheme.letters[4]
    return single if length == 1 else "B" + "I" * (length - 2) + end


def convert(
    labels: Sequence[str],
    source: str | Scheme,
    target: str | Scheme,
    *,
    illegal: Illegal = "repair",
) -> list[str]:
    """Return the labels of one sentence in another scheme.

    Parameters
    ----------
    labels : sequence of str
        The labels.
    source, target : str or Scheme
        Their scheme and the one wanted.
    illegal : "repair", "drop" or "raise"
        What becomes of labels that break the source scheme.

    Raises
    ------
    SchemeError, OptionError
        As `spans` and `labels_from_spans`.

    Examples
    --------
    >>> convert(["I-NP", "I-NP", "B-NP", "O"], "iob1", "bioes")
    ['B-NP', 'E-NP', 'S-NP', 'O']
    """
    return labels_from_spans(spans(labels, source, illegal=illegal), len(labels), target)


def convert_column(
    corpus: Corpus,
    column: str,
    source: str | Scheme,
    target: str | Scheme,
    *,
    illegal: Illegal = "repair",
) -> Corpus:
    """Return the corpus with one column of labels in another scheme.

    Raises
    ------
    SchemeError
        With ``illegal="raise"``: the first label that breaks the scheme, with its file and line.
    DataError
        No such column.
    OptionError
        As `convert`.
    """
    sentences = corpus.column_lists(column)
    if illegal == "raise":
        table = _reading(source, illegal)
        for number, labels in enumerate(sentences):
            if (bad := _first_illegal(labels, table)) is not None:
                place = corpus.where(int(corpus.offsets[number]) + bad[0])
                raise SchemeError(bad[1], **place)
    return corpus.with_column(
        column, [convert(labels, source, target, illegal=illegal) for labels in sentences]
    )


def span_arrays(
    column: Column,
    offsets: Longs,
    scheme: str | Scheme = "iob2",
    *,
    illegal: Literal["repair", "drop"] = "repair",
) -> SpanArrays:
    """Return the spans of a whole column of labels.

    The same spans as `spans` gives sentence by sentence, found by indexing a table with all
    neighbouring pairs at once.

    Parameters
    ----------
    column : Column
        Labels of N tokens.
    offsets : int64 [S + 1]
        Sentence ``s`` owns the tokens ``offsets[s] : offsets[s + 1]``.
    scheme, illegal
        As in `spans`; only reading, nothing is raised.

    Raises
    ------
    OptionError
        As `spans`.
    """
    table = _reading(scheme, illegal)
    starts, inside, last = tables(table)
    letters = table.letters + "?"
    parts = [split_label(value, table) for value in column.values]
    types = {"": 0}
    letter_of = np.asarray([letters.index(letter) for letter, _ in parts], dtype=np.int64)
    type_of = np.asarray([types.setdefault(kind, len(types)) for _, kind in parts], dtype=np.int32)
    # One outside position behind each sentence, and one before all.
    lengths = np.diff(offsets)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(sentence)) + sentence + 1
    letter = np.zeros(len(sentence) + len(lengths) + 1, dtype=np.int64)
    kind = np.zeros(len(letter), dtype=np.int32)
    letter[places], kind[places] = letter_of[column.ids], type_of[column.ids]
    key = (letter[:-1], letter[1:], (kind[:-1] == kind[1:]).astype(np.int64))
    first = np.flatnonzero(starts[key]) + 1
    breaks = np.flatnonzero(~inside[key]) + 1
    end = breaks[np.searchsorted(breaks, first, side="right")] if len(first) else first
    kept = last[letter[end - 1]] if len(first) else np.zeros(0, dtype=bool)
    first, end = first[kept], end[kept]
    token = np.cumsum(np.bincount(places, minlength=len(letter))) - 1
    return SpanArrays(token[first], token[end - 1] + 1, kind[first], tuple(types))
