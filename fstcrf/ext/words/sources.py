"""Learnt scores as the costs of a dictionary, which MeCab runs: integers, a matrix of contexts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import InexactWarning, OptionError, TooLargeError, warn
from fstcrf.ext.lexicon import Dictionary, Entry, Lexicon
from fstcrf.ext.words.scores import WordScores, WordWeights

_MOST = 1 << 16
_LOW, _HIGH = -(2**15), 2**15 - 1


class _Row(NamedTuple):
    surface: str
    word: int  # its number in the lexicon
    feature: str


def compiled(lexicon: Lexicon, scores: WordScores, weights: WordWeights, factor: float) -> Lexicon:
    """Return a lexicon whose costs are scores; see `LatticeCRF.compiled`.

    Raises
    ------
    OptionError
        A factor that is not positive, or templates with %n.
    TooLargeError
        Too many contexts.
    """
    if not 0 < factor < np.inf:
        raise OptionError(f"factor is {factor}, expected a positive number")
    if scores.classes.counted:
        raise OptionError(
            "templates with %n see lengths of unknown words, whose costs are one for each kind"
        )
    parts = [list(_rows(one, first)) for one, first in _dictionaries(lexicon)]
    unknown = list(_unknown(lexicon))
    rows = [row for part in (*parts, unknown) for row in part]
    number = np.asarray([row.word for row in rows], dtype=np.int32)
    found = [scores.classes.of_word(row.word, row.surface) for row in rows]
    own, left, right = np.asarray(found, dtype=np.int64).reshape(-1, 3).T
    entries = lexicon.entries(number)
    counts = weights.costs != 0.0
    base = weights.costs * factor / lexicon.unit
    cost, clipped = _cost(base * entries["cost"] - factor * scores.own()[own])
    lefts, left = _contexts(left, entries["left"], scores.classes.ends[0], costs=counts)
    rights, right = _contexts(right, entries["right"], scores.classes.ends[1], costs=counts)
    matrix, far = _matrix(lexicon, scores, weights, lefts, rights, factor)
    if clipped + far:
        warn(
            f"{clipped + far} costs beyond 16 bits are cut: choose a factor below {factor:g}",
            InexactWarning,
        )
    columns = left.tolist(), right.tolist(), cost.tolist()
    made = [
        Entry(row.surface, a, b, c, row.feature)
        for row, a, b, c in zip(rows, *columns, strict=True)
    ]
    known = len(made) - len(unknown)
    contexts = len(rights), len(lefts)
    return Lexicon(
        [Dictionary.from_entries(made[:known], contexts)],
        Dictionary.from_entries(made[known:], contexts),
        lexicon.characters,
        matrix,
        unit=factor,
        longest_run=lexicon.tables.longest_run,
    )


def _dictionaries(lexicon: Lexicon) -> Iterator[tuple[Dictionary, int]]:
    return iter(zip(lexicon.dictionaries, lexicon.tables.first, strict=False))


def _rows(one: Dictionary, first: int) -> Iterator[_Row]:
    for surface, (at, count) in one.rows.items():
        for k in range(at, at + count):
            yield _Row(surface, first + k, one.feature(k))


def _unknown(lexicon: Lexicon) -> Iterator[_Row]:
    """Entries under the names of kinds, as the lexicon numbers them."""
    rows = lexicon.tables.unknown.tolist()
    for name, first, end in zip(lexicon.characters.names, rows[:-1], rows[1:], strict=True):
        for k in range(first, end):
            word = lexicon.n_known + k
            yield _Row(name, word, lexicon.feature(word))


def _contexts(classes: Longs, own: Ints, end: int, *, costs: bool) -> tuple[Longs, Longs]:
    """Return class · 2¹⁶ + the lexicon's context, for each context and for each word.

    Context 0 belongs to both ends of a text.
    """
    code = classes << 16 | (own.astype(np.int64) if costs else 0)
    first = end << 16
    others = np.setdiff1d(code, [first])
    codes = np.concatenate([[first], others])
    if len(codes) >= _MOST:
        raise TooLargeError(f"{len(codes)} contexts, MeCab has at most {_MOST - 1}")
    number = np.where(code == first, 0, np.searchsorted(others, code) + 1)
    return codes, number


def _matrix(
    lexicon: Lexicon,
    scores: WordScores,
    weights: WordWeights,
    lefts: Longs,
    rights: Longs,
    factor: float,
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int16]], int]:
    """Return the costs of all pairs of contexts, int16 [lefts, rights], and how many were cut."""
    tables = list(_tables(weights, scores.classes.left.rows.shape[1]))
    first, second = scores.classes.right.rows, scores.classes.left.rows
    found = np.empty((len(lefts), len(rights)), dtype=np.int16)
    cut = 0
    for k, code in enumerate(lefts.tolist()):
        score = np.zeros(len(rights))
        for t, (firsts, seconds, table) in enumerate(tables):
            column = seconds[second[code >> 16, t]]
            score += table[column][firsts[first[rights >> 16, t]]]
        cost = -factor * score
        if weights.costs:
            own = lexicon.matrix[code & 0xFFFF, rights & 0xFFFF]
            cost += weights.costs * factor / lexicon.unit * own
        found[k], clipped = _cost(cost)
        cut += clipped
    return found, cut


def _tables(weights: WordWeights, templates: int) -> Iterator[tuple[Longs, Longs, Floats]]:
    """Yield, for each template, places of parts in its table [second, first], absent parts last."""
    owner = np.asarray([t for t, _ in weights.firsts], dtype=np.int64)
    other = np.asarray([t for t, _ in weights.seconds], dtype=np.int64)
    first, second = np.divmod(weights.pair, max(1, len(weights.seconds)))
    for t in range(templates):
        places = []
        for mine in (owner == t, other == t):
            place = np.full(len(mine) + 1, mine.sum(), dtype=np.int64)  # −1 if absent
            place[:-1][mine] = np.arange(mine.sum())
            places.append(place)
        firsts, seconds = places
        table = np.zeros((seconds[-1] + 1, firsts[-1] + 1))
        own = owner[first] == t
        table[seconds[second[own]], firsts[first[own]]] = weights.pairs[own]
        yield firsts, seconds, table


def _cost(values: Floats) -> tuple[Longs, int]:
    whole = np.rint(values)
    cut = int(((whole < _LOW) | (whole > _HIGH)).sum())
    return np.clip(whole, _LOW, _HIGH).astype(np.int64), cut
