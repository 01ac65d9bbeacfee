"""Two labellings of the same sentences compared: is their difference more than chance.

Sentences are what is drawn or exchanged, since the spans of one sentence depend on each other.
Sources: Gillick and Cox (1989); Yeh (2000); Efron and Tibshirani (1993). The tests are scipy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.corpus.corpus import Column
from fstcrf.corpus.schemes import span_arrays
from fstcrf.errors import OptionError, ShapeError
from fstcrf.evaluate.spans import paired

_BLOCK = 4_000_000  # sentences that are looked up at once, times resamples


@dataclass(frozen=True, slots=True)
class McNemar:
    """What McNemar's test found."""

    first: int  # items that only the first side has right
    second: int  # items that only the second side has right

    @property
    def exact(self) -> float:
        """p-value, in (0, 1]: a fair coin falls so unevenly, on either side."""
        from scipy.stats import binomtest  # noqa: PLC0415 (slow to import)

        n = self.first + self.second
        return float(binomtest(self.first, n).pvalue) if n else 1.0

    @property
    def statistic(self) -> float:
        """Chi-square of one degree of freedom, with Yates's correction for continuity."""
        n = self.first + self.second
        return max(0, abs(self.first - self.second) - 1) ** 2 / n if n else 0.0

    @property
    def chi_square(self) -> float:
        """p-value by the chi-square approximation, in (0, 1]."""
        from scipy.stats import chi2  # noqa: PLC0415

        return float(chi2.sf(self.statistic, 1))


def mcnemar(first: Bools, second: Bools) -> McNemar:
    """Compare where two sides are right, item by item: tokens, or whole sentences.

    >>> found = mcnemar(np.asarray([True] * 9 + [False]), np.asarray([False] * 9 + [True]))
    >>> found.first, found.second, round(found.exact, 4), round(found.chi_square, 4)
    (9, 1, 0.0215, 0.0269)
    """
    first, second = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if first.shape != second.shape:
        raise ShapeError(f"{first.size} items against {second.size}, expected as many")
    return McNemar(int((first & ~second).sum()), int((second & ~first).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class SpanCounts:
    """Spans right, found and wanted of each sentence, [S]."""

    right: Longs
    found: Longs
    wanted: Longs

    def __len__(self) -> int:
        """Return the number of sentences, S."""
        return len(self.wanted)

    @property
    def f(self) -> float:
        """F over all sentences, in [0, 1]; 0 where there is no span at all."""
        return float(self.f_of(np.arange(len(self))))

    def f_of(self, sentences: Longs) -> Floats:
        """Return F over sentences, some perhaps several times, along the last axis."""
        right, both = self.right[sentences].sum(-1), (self.found + self.wanted)[sentences].sum(-1)
        return np.asarray(2.0 * right / np.maximum(both, 1))


def span_counts(
    gold: Sequence[Sequence[str]] | Column,
    predicted: Sequence[Sequence[str]] | Column,
    offsets: Longs | None = None,
) -> SpanCounts:
    """Count spans as conlleval does, sentence by sentence; `offsets` [S + 1] are of columns."""
    if isinstance(gold, Column) and isinstance(predicted, Column):
        if offsets is None:
            raise OptionError("columns of labels need offsets: where each sentence begins")
        columns, bounds = (gold, predicted), offsets
    else:
        both = paired(_lists(gold), _lists(predicted))
        columns, bounds = (both.gold, both.predicted), both.offsets
    sentence = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    number: dict[str, int] = {}
    wanted, guessed = (_starts(column, bounds, number) for column in columns)
    right = (wanted == guessed).all(axis=0) & (wanted[0] >= 0)
    places = right, guessed[0] >= 0, wanted[0] >= 0
    return SpanCounts(*(np.bincount(sentence[at], minlength=len(bounds) - 1) for at in places))


def _lists(labels: Sequence[Sequence[str]] | Column) -> Sequence[Sequence[str]]:
    if isinstance(labels, Column):
        raise OptionError("a column of labels beside a list of them: give two of a kind")
    return labels


def _starts(column: Column, offsets: Longs, number: dict[str, int]) -> Longs:
    """End and type of the span that starts at each token, int64 [2, N]; −1 where none does."""
    arrays = span_arrays(column, offsets, "conlleval", illegal="repair")
    kinds = np.asarray([number.setdefault(name, len(number)) for name in arrays.types], np.int64)
    row = np.full((2, int(offsets[-1])), -1, dtype=np.int64)
    if len(arrays.start):
        row[:, arrays.start] = arrays.end, kinds[arrays.type]
    return row


def randomised_f(
    first: SpanCounts, second: SpanCounts, *, shuffles: int = 9_999, seed: int = 0
) -> float:
    """Return the p-value, in (0, 1], of a difference in F when sentences change sides by a coin.

    Where there are fewer ways to exchange sentences than shuffles, all are tried.
    """
    from scipy.stats import permutation_test  # noqa: PLC0415

    pool = _pooled(first, second)

    def apart(mine: Longs, others: Longs, axis: int) -> Floats:
        mine, others = np.moveaxis(mine, axis, -1), np.moveaxis(others, axis, -1)
        return np.abs(pool.f_of(mine) - pool.f_of(others))

    n = len(first)
    # Sentences with equal counts on both sides change nothing; F needs them all the same.
    result = permutation_test(
        (np.arange(n), np.arange(n, 2 * n)),
        apart,
        permutation_type="samples",
        vectorized=True,
        n_resamples=_positive("shuffles", shuffles),
        batch=max(1, _BLOCK // max(n, 1)),
        alternative="greater",
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def bootstrapped_f(
    first: SpanCounts,
    second: SpanCounts | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 9_999,
    seed: int = 0,
) -> tuple[float, float]:
    """Return a confidence interval of F, or of F of the first minus F of the second.

    By percentiles of resampled sentences, drawn for both sides together.
    """
    from scipy.stats import bootstrap  # noqa: PLC0415

    if not 0.0 < confidence < 1.0:
        raise OptionError(f"confidence is {confidence}, expected a number between 0 and 1")
    if second is not None:
        _pooled(first, second)  # checks

    def statistic(drawn: Longs, axis: int) -> Floats:
        drawn = np.moveaxis(drawn, axis, -1)
        return first.f_of(drawn) - (0.0 if second is None else second.f_of(drawn))

    result = bootstrap(
        (np.arange(len(first)),),
        statistic,
        vectorized=True,
        confidence_level=confidence,
        n_resamples=_positive("resamples", resamples),
        batch=max(1, _BLOCK // len(first)),
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _positive(name: str, number: int) -> int:
    if number < 1:
        raise OptionError(f"{name} is {number}, expected at least 1")
    return number


def _pooled(first: SpanCounts, second: SpanCounts) -> SpanCounts:
    """Put the sentences of the second behind those of the first."""
    if len(first) != len(second):
        raise ShapeError(f"{len(first)} sentences against {len(second)}, expected as many")
    if len(first) < 2:
        raise ShapeError(f"{len(first)} sentences, expected at least 2 to resample")
    if not np.array_equal(first.wanted, second.wanted):
        raise ShapeError("the two sides want different spans: they are of different sentences")
    names = "right", "found", "wanted"
    return SpanCounts(*(np.append(getattr(first, n), getattr(second, n)) for n in names))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two labellings compared.

    Parameters
    ----------
    tokens, sentences : McNemar
        Tokens with the right label, and sentences with all labels right, on one side alone.
    f : (float, float)
        F of each side, in [0, 1].
    interval : (float, float)
        95 % confidence interval of the difference in F, by the bootstrap.
    randomised : float
        p-value of the difference in F, by approximate randomisation.
    """

    tokens: McNemar
    sentences: McNemar
    f: tuple[float, float]
    interval: tuple[float, float]
    randomised: float


def compare(
    gold: Sequence[Sequence[str]],
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    *,
    resamples: int = 9_999,
    seed: int = 0,
) -> Comparison:
    """Compare two labellings of the same sentences.

    Parameters
    ----------
    gold, first, second : sequence of sequences of str
        Labels of each sentence.
    resamples : int
        Of the randomisation and of the bootstrap.
    seed : int

    Raises
    ------
    ShapeError
        The labellings are not of the same tokens, or there are fewer than two sentences.
    """
    one, two = span_counts(gold, first), span_counts(gold, second)
    sides = [paired(gold, labels) for labels in (first, second)]
    tokens = [side.right for side in sides]
    filled = np.flatnonzero(np.diff(sides[0].offsets))
    starts = sides[0].offsets[:-1][filled]
    whole = [np.logical_and.reduceat(right, starts) for right in tokens]
    return Comparison(
        tokens=mcnemar(*tokens),
        sentences=mcnemar(*whole),
        f=(one.f, two.f),
        interval=bootstrapped_f(one, two, resamples=resamples, seed=seed),
        randomised=randomised_f(one, two, shuffles=resamples, seed=seed),
    )
