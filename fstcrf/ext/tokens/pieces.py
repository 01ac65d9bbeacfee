"""Word pieces of documents: scores, places in the text, words; windows put together.

A document longer than a model's window is read in overlapping windows. The scores of a piece in
several windows are averaged as log-probabilities, weighted by the distance of the piece from the
nearest border of its window. From one window to the next, the weights change step by step, and
scores at the very edge, without context on one side, count least. The beginning and the end of the
document are no borders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import DataError, NumericError, OptionError, ShapeError
from fstcrf.lattices.emissions.reading import host_array, host_integers

_LARGEST = 1e300


@dataclass(frozen=True, eq=False)
class Pieces:
    """A model's scores for the word pieces of one document.

    Parameters
    ----------
    logits : [T, L], or W windows [W, T, L] or list of W [T_w, L]
        Scores of L labels, of any package's arrays; log-probabilities do as well.
    offsets : int [T, 2], or as many windows
        ``offset_mapping``: where each piece begins and ends in the text, in characters.
    word_ids : sequence of T (int or None), or as many windows, optional
        The word of each piece; `None` for special tokens and padding, which are left out. When
        absent, pieces without characters are left out, and each other piece is a word.
    text : str, optional
        The document: spans do not begin or end with white space then.
    """

    logits: Any
    offsets: Any
    word_ids: Sequence[Any] | None = None
    text: str | None = None

    @classmethod
    def from_encoding(
        cls, encoding: Any, logits: Any, texts: str | Sequence[str] | None = None
    ) -> list[Pieces]:
        """Return the documents of a batch that a fast tokenizer of Hugging Face encoded.

        Parameters
        ----------
        encoding : BatchEncoding
            Made with ``return_offsets_mapping=True``; with ``return_overflowing_tokens=True`` and
            ``stride=`` the windows of long documents are put together.
        logits : [W, T, L]
            Scores of all its rows.
        texts : str or sequence of B str, optional
            The documents; a string is one.

        Raises
        ------
        OptionError
            An encoding without offsets or words.
        ShapeError
            Another number of rows, or of documents.
        """
        if not hasattr(encoding, "word_ids") or "offset_mapping" not in encoding:
            raise OptionError(
                "the encoding has no offsets: a fast tokenizer gives them with "
                "return_offsets_mapping=True"
            )
        rows, offsets = host_array(logits, "logits"), encoding["offset_mapping"]
        if _depth(offsets) == 2:  # of a single text outside a batch
            offsets, rows = [offsets], rows[None] if rows.ndim == 2 else rows
        if rows.ndim != 3 or len(rows) != len(offsets):
            raise ShapeError(
                f"logits are {list(rows.shape)}, expected [{len(offsets)}, T, L]: a row for each "
                "of the encoding"
            )
        of = encoding.get("overflow_to_sample_mapping")
        owner = np.arange(len(rows)) if of is None else host_integers(of, "the rows' documents")
        if isinstance(texts, str):
            texts = [texts]
        size = int(owner.max(initial=-1)) + 1 if texts is None else len(texts)
        if len(owner) and owner.max() >= size:
            raise ShapeError(f"{size} texts for an encoding of {owner.max() + 1} documents")
        mine = [np.flatnonzero(owner == k).tolist() for k in range(size)]
        return [
            cls(
                [rows[i] for i in windows],
                [offsets[i] for i in windows],
                [encoding.word_ids(i) for i in windows],
                None if texts is None else texts[k],
            )
            for k, windows in enumerate(mine)
        ]


class PieceRows(NamedTuple):
    """The pieces of a document's text, in sequence.

    Attributes
    ----------
    scores : float64 [P, L]
        Log-probabilities.
    start, end : int64 [P]
        Characters.
    word : int64 [P]
        Number of the word.
    """

    scores: Floats
    start: Longs
    end: Longs
    word: Longs


def read_document(
    pieces: Pieces, labels: tuple[str, ...], temperature: float, number: int
) -> PieceRows:
    """Return the pieces of a document, its windows put together.

    Raises
    ------
    DataError
        Offsets that decrease or are outside the text, windows that do not continue each other.
    NumericError
        NaN or +inf.
    ShapeError
        Arrays that do not go together.
    """
    where = f"document {number}"
    if not isinstance(pieces, Pieces):
        raise OptionError(f"{where} is {type(pieces).__name__}, expected Pieces(logits, offsets)")
    if not isinstance(pieces.text, str | None):
        raise OptionError(f"the text of {where} is {type(pieces.text).__name__}, expected a str")
    windows = [
        _window(one, labels, f"{where}{name}", pieces.text) for name, one in _windows(pieces, where)
    ]
    whole = windows[0] if len(windows) == 1 else _joined(windows, len(labels), where)
    return whole._replace(scores=_log_softmax(whole.scores / temperature))


_Window: TypeAlias = tuple[Any, Any, Sequence[Any] | None]
"""Logits, offsets, word ids."""


def _windows(pieces: Pieces, where: str) -> list[tuple[str, _Window]]:
    """Return the windows of a document, with their names in messages."""
    logits, offsets, ids = pieces.logits, pieces.offsets, pieces.word_ids
    if _depth(logits) < 3:
        return [("", (logits, offsets, ids))]
    sizes = {len(logits), len(offsets), len(logits if ids is None else ids)}
    if len(sizes) > 1:
        raise ShapeError(
            f"{where}: {len(logits)} windows of logits, {len(offsets)} of offsets"
            + ("" if ids is None else f", {len(ids)} of word ids")
        )
    none = [None] * len(logits)
    each = zip(logits, offsets, none if ids is None else ids, strict=True)
    return [(f", window {k}", given) for k, given in enumerate(each)]


def _depth(value: Any) -> int:
    """Return the number of axes of an array, of nested lists, or of a list of arrays."""
    if isinstance(value, list | tuple):
        return 1 + (_depth(value[0]) if len(value) else 0)
    return int(getattr(value, "ndim", 0))


def _window(given: _Window, labels: tuple[str, ...], where: str, text: str | None) -> PieceRows:
    logits, offsets, word_ids = given
    rows = np.asarray(host_array(logits, f"logits of {where}"), dtype=np.float64)
    if rows.size == 0 and rows.ndim <= 2:
        rows = np.empty((0, len(labels)))
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        raise ShapeError(
            f"{where}: logits are {list(rows.shape)}, expected [pieces, {len(labels)} labels]"
        )
    places = host_integers(offsets, f"offsets of {where}").reshape(-1, 2)
    if len(places) != len(rows) or (word_ids is not None and len(word_ids) != len(rows)):
        words = "" if word_ids is None else f", {len(word_ids)} word ids"
        raise ShapeError(f"{where}: {len(rows)} pieces, {len(places)} offsets{words}")
    if word_ids is None:
        there = np.flatnonzero(places[:, 1] > places[:, 0])
        word = places[there, 0]  # apart where their characters are
    else:
        there = np.flatnonzero([i is not None for i in word_ids])
        word = _word_numbers([word_ids[i] for i in there.tolist()], where)
    start, end = places[there].T
    found = rows[there]
    document = PieceRows(found, start, end, word)
    _check_places(document, there, where, text)
    wrong = ~((np.abs(found) <= _LARGEST) | np.isneginf(found))
    if wrong.any():
        i, y = (int(k[0]) for k in np.nonzero(wrong))
        raise NumericError(
            f"{where}, piece {there[i]} (characters {start[i]} to {end[i]}): the score of label "
            f"{labels[y]!r} is {found[i, y]:g}, expected a number below 1e300; -inf forbids"
        )
    return document


def _word_numbers(words: list[Any], where: str) -> Longs:
    odd = next((one for one in words if not isinstance(one, int | np.integer)), None)
    if odd is not None:
        raise DataError(f"{where}: word id {odd!r}, expected a number, or None for a special token")
    return np.asarray(words, dtype=np.int64)


def _check_places(rows: PieceRows, there: Longs, where: str, text: str | None) -> None:
    _, start, end, word = rows
    if not len(start):
        return
    odd = np.flatnonzero((start < 0) | (end < start))
    back = np.flatnonzero((np.diff(start) < 0) | (np.diff(end) < 0)) + 1
    firsts = np.flatnonzero(np.diff(word)) + 1
    if not len(back) and end[-1] > 1 and not start[firsts].any():
        back = firsts  # words whose characters are counted from 0, and grow longer
    if len(odd):
        i = int(odd[0])
        raise DataError(f"{where}, piece {there[i]}: offsets {start[i]} to {end[i]}")
    if len(back):
        i = int(back[0])
        raise DataError(
            f"{where}, piece {there[i]}: offsets run backwards, {start[i]} to {end[i]} "
            f"after {start[i - 1]} to {end[i - 1]}: expected offsets into one text, not "
            "into words or a pair of texts"
        )
    if text is not None and end[-1] > len(text):
        raise DataError(
            f"{where}: offsets reach {end[-1]}, and the text has {len(text)} characters"
        )


def _log_softmax(scores: Floats) -> Floats:
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    moved = scores - np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        log_sum = np.log(np.exp(moved).sum(axis=1, keepdims=True))
    found: Floats = moved - np.where(np.isneginf(log_sum), 0.0, log_sum)
    return found


# --- Windows --------------------------------------------------------------------------------------


def _joined(windows: Sequence[PieceRows], n_labels: int, where: str) -> PieceRows:
    """Return the document that windows are of."""
    shown = [window for window in windows if len(window.start)]
    places = [np.empty(0, dtype=np.int64)] * 3
    firsts = []
    for k, window in enumerate(shown):
        mine = [window.start, window.end, window.word]
        first = _continued(places, mine, f"{where}, window {k}")
        new = len(places[0]) - first
        places = [np.concatenate([a, b[new:]]) for a, b in zip(places, mine, strict=True)]
        firsts.append(first)
    total, weight = np.zeros((len(places[0]), n_labels)), np.zeros(len(places[0]))
    for k, (first, window) in enumerate(zip(firsts, shown, strict=True)):
        near = _weights(len(window.start), first=k == 0, last=k == len(shown) - 1)
        here = slice(first, first + len(near))
        total[here] += near[:, None] * _log_softmax(window.scores)
        weight[here] += near
    return PieceRows(total / weight[:, None], *places)


def _continued(places: Sequence[Longs], mine: Sequence[Longs], where: str) -> int:
    """Return which piece of the document is the first one of a window."""
    size, start = len(places[0]), mine[0][0]
    first = int(np.searchsorted(places[0], start, side="left"))
    while first < size and places[0][first] == start:  # pieces of one character begin alike
        both = min(size - first, len(mine[0]))
        if all(
            np.array_equal(a[first : first + both], b[:both])
            for a, b in zip(places, mine, strict=True)
        ):
            return first
        first += 1
    if size and start < places[1][-1]:
        raise DataError(
            f"{where}: does not continue the windows before it, at characters {start} to "
            f"{mine[1][0]}; windows are in the order of the text, and of the same pieces"
        )
    return size


def _weights(size: int, *, first: bool, last: bool) -> Floats:
    """Return the distance of each piece of a window from its nearest border, from 1."""
    place = np.arange(size, dtype=np.float64)
    left = np.full(size, size + 1.0) if first else place + 1.0
    right = np.full(size, size + 1.0) if last else size - place
    found: Floats = np.minimum(left, right)
    return found
