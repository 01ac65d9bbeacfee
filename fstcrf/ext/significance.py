"""Two labellings of the same sentences compared: is their difference more than chance.

Sentences are drawn or exchanged, since the spans of one sentence depend on each other; or
documents, if `SpanCounts.grouped` has added their counts. If training is random, each side has
several runs, which are drawn, too. Overlapping splits of one corpus have a separate test. Sources:
Gillick and Cox (1989); Yeh (2000); Efron and Tibshirani (1993); Nadeau and Bengio (2003). The tests
are scipy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf import display
from fstcrf.arguments import string_lists
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import DataError, OptionError, ShapeError
from fstcrf.evaluate.labellings import paired, written_alike
from fstcrf.text.corpus.corpus import Column
from fstcrf.text.corpus.schemes import span_arrays

__all__: list[str] = []  # `fstcrf.evaluate` offers it

_BLOCK = 4_000_000  # sentences that are looked up at once, times resamples


@dataclass(frozen=True, slots=True)
class McNemar:
    """The results of McNemar's test."""

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

    Parameters
    ----------
    first, second : bool [N]
        Whether each side has each item right.

    Raises
    ------
    ShapeError
        Different numbers of items, or values other than truth values; counts are given as
        ``McNemar(9, 1)``.

    Examples
    --------
    >>> found = mcnemar(np.asarray([True] * 9 + [False]), np.asarray([False] * 9 + [True]))
    >>> found.first, found.second, round(found.exact, 4), round(found.chi_square, 4)
    (9, 1, 0.0215, 0.0269)
    """
    first, second = np.asarray(first), np.asarray(second)
    for side in (first, second):
        if side.ndim != 1 or (side.dtype != np.bool and side.size):
            raise ShapeError(
                f"{side.dtype} {list(side.shape)}, expected bool [N]: which items a side has "
                "right; of counts it is McNemar(first, second)"
            )
    if first.shape != second.shape:
        raise ShapeError(f"{first.size} items against {second.size}, expected as many")
    return McNemar(int((first > second).sum()), int((second > first).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class SpanCounts:
    """Spans right, found and wanted of each sentence, [S]; or of T types, [T, S].

    F of types apart is the mean of theirs.
    """

    right: Longs
    found: Longs
    wanted: Longs

    def __len__(self) -> int:
        """Return the number of sentences, S."""
        return int(self.wanted.shape[-1])

    @property
    def f(self) -> float:
        """F over all sentences, in [0, 1]; 0 without any spans."""
        return float(self.f_of(np.arange(len(self))))

    def f_of(self, sentences: Longs) -> Floats:
        """Return F over sentences, some perhaps several times, along the last axis."""
        right, both = self.right, self.found + self.wanted
        right, both = (each[..., sentences].sum(-1) for each in (right, both))
        each = np.asarray(2.0 * right / np.maximum(both, 1))
        return np.asarray(each.mean(axis=0)) if self.wanted.ndim > 1 else each

    def grouped(self, groups: Longs | Ints) -> SpanCounts:
        """Return the counts of groups of sentences, such as documents.

        Parameters
        ----------
        groups : int64 [S]
            Number of each sentence's group; groups without sentences do not count.

        Raises
        ------
        ShapeError
            The number of values differs from the number of sentences.
        DataError
            Something that is no whole number.
        """
        numbers = np.asarray(groups)
        if numbers.shape != (len(self),):
            raise ShapeError(
                f"{numbers.size} numbers of groups for {len(self)} sentences, expected one for each"
            )
        if numbers.size and numbers.dtype.kind not in "iu":
            raise DataError(
                f"numbers of groups are {numbers.dtype}, expected whole numbers, such as those of "
                "Corpus.documents"
            )
        _, groups = np.unique(numbers, return_inverse=True)
        count = int(groups.max(initial=-1)) + 1

        def summed(one: Longs) -> Longs:
            sums = np.zeros((*one.shape[:-1], count), dtype=np.int64)
            np.add.at(sums.T, groups, one.T)
            return sums

        return SpanCounts(summed(self.right), summed(self.found), summed(self.wanted))


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
    sentence = Ragged(bounds).rows()
    number: dict[str, int] = {}
    wanted, guessed = (_starts(column, bounds, number) for column in columns)
    right = (wanted == guessed).all(axis=0) & (wanted[0] >= 0)
    places = right, guessed[0] >= 0, wanted[0] >= 0
    return SpanCounts(*(np.bincount(sentence[at], minlength=len(bounds) - 1) for at in places))


def _lists(labels: Sequence[Sequence[str]] | Column) -> Sequence[Sequence[str]]:
    if isinstance(labels, Column):
        raise OptionError(
            "one argument is a column of labels, the other a list: give two columns or two lists"
        )
    return labels


def _starts(column: Column, offsets: Longs, number: dict[str, int]) -> Longs:
    """End and type of the span that starts at each token, int64 [2, N]; −1 without one."""
    arrays = span_arrays(column, offsets, "conlleval", illegal="repair")
    kinds = np.asarray([number.setdefault(name, len(number)) for name in arrays.types], np.int64)
    row = np.full((2, int(offsets[-1])), -1, dtype=np.int64)
    if len(arrays.start):
        row[:, arrays.start] = arrays.end, kinds[arrays.type]
    return row


def randomised_f(
    first: SpanCounts, second: SpanCounts, *, shuffles: int = 9_999, seed: int = 0
) -> float:
    """Return the p-value, in (0, 1], of a difference in F if sentences randomly change sides.

    Where there are fewer ways to exchange sentences than shuffles, all are tried.
    """
    from scipy.stats import permutation_test  # noqa: PLC0415

    pool = _pooled(first, second)

    def apart(mine: Longs, others: Longs, axis: int) -> Floats:
        mine, others = np.moveaxis(mine, axis, -1), np.moveaxis(others, axis, -1)
        return np.abs(pool.f_of(mine) - pool.f_of(others))

    n = len(first)
    # Sentences with equal counts on both sides change nothing in a permutation, but F includes
    # them.
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
    first: SpanCounts | Sequence[SpanCounts],
    second: SpanCounts | Sequence[SpanCounts] | None = None,
    *,
    matched: bool = False,
    confidence: float = 0.95,
    resamples: int = 9_999,
    seed: int = 0,
) -> tuple[float, float]:
    """Return a confidence interval of F, or of F of the first minus F of the second.

    By percentiles of resampled sentences, drawn for both sides together.

    Parameters
    ----------
    first, second : SpanCounts or sequence of SpanCounts
        Of the same sentences. Several are runs of one system from several seeds: the interval is
        for their mean F, and on each side, runs are drawn with replacement; their deviations from
        the mean are widened by √(k / (k − 1)), for k runs.
    matched : bool
        Run k of one side belongs to run k of the other, for example if one network is decoded in
        two ways: they are drawn together.
    confidence : float
        Share of intervals that hold the truth, in (0, 1).
    resamples : int
    seed : int
        Seed of the draws.

    Raises
    ------
    OptionError
        A confidence that is no share, or fewer than one resample.
    ShapeError
        Fewer than two sentences, no run, or sides of different sentences; matched runs in different
        numbers.
    """
    from scipy.stats import bootstrap  # noqa: PLC0415

    if not 0.0 < confidence < 1.0:
        raise OptionError(f"confidence is {confidence}, expected a number between 0 and 1")
    sides = [_runs(first)] if second is None else [_runs(first), _runs(second)]
    for runs in sides:
        for one in runs:
            _pooled(sides[0][0], one)  # checks
    rng = np.random.default_rng(seed)
    if matched and len({len(runs) for runs in sides}) > 1:
        raise ShapeError(f"{len(sides[0])} runs against {len(sides[1])}, expected as many: matched")

    def statistic(drawn: Longs, axis: int) -> Floats:
        each = [_each_f(runs, np.moveaxis(drawn, axis, -1)) for runs in sides]
        if len(each) == 1:
            return np.clip(_drawn_mean(each[0], rng), 0.0, 1.0)
        if matched:
            return _drawn_mean(each[0] - each[1], rng)
        return _drawn_mean(each[0], rng) - _drawn_mean(each[1], rng)

    result = bootstrap(
        (np.arange(len(sides[0][0])),),
        statistic,
        vectorized=True,
        confidence_level=confidence,
        n_resamples=_positive("resamples", resamples),
        batch=max(1, _BLOCK // len(sides[0][0])),
        method="percentile",
        rng=rng,
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _runs(side: SpanCounts | Sequence[SpanCounts]) -> Sequence[SpanCounts]:
    runs = [side] if isinstance(side, SpanCounts) else list(side)
    if not runs:
        raise ShapeError("one side has no run, expected at least one")
    return runs


def _each_f(runs: Sequence[SpanCounts], sentences: Longs) -> Floats:
    """F of each run, [runs, ...], over drawn sentences [..., S]."""
    return np.stack([run.f_of(sentences) for run in runs])


def _drawn_mean(each: Floats, rng: np.random.Generator) -> Floats:
    """Mean of figures of runs, [runs, ...], drawn with replacement.

    Drawn from k runs, a mean varies (k − 1) / k as much as it should: deviations are widened.
    """
    if len(each) == 1:
        return np.asarray(each[0])
    count, shape = len(each), each.shape[1:]
    times = rng.multinomial(count, np.full(count, 1.0 / count), size=shape)
    middle = each.mean(axis=0)
    apart = (np.moveaxis(times, -1, 0) * each).sum(0) / count - middle
    return np.asarray(middle + apart * np.sqrt(count / (count - 1)))


@dataclass(frozen=True, slots=True)
class ResampledT:
    """The results of the corrected test of overlapping splits.

    Parameters
    ----------
    mean : float
        Of the differences.
    interval : (float, float)
        95 % confidence interval of the mean.
    p : float
        Of no difference, in [0, 1], on either side.
    """

    mean: float
    interval: tuple[float, float]
    p: float


def resampled_t(differences: Sequence[float] | Floats, *, test_share: float) -> ResampledT:
    """Compare two systems over random splits of one corpus, whose parts overlap.

    The variance of the mean is (1 / J + n₂ / n₁) times the variance of the J differences, with n₁
    and n₂ the sizes of the training and test parts: Nadeau and Bengio (2003), section 3, statement
    5.

    Parameters
    ----------
    differences : float [J]
        Of the figures of both systems, split by split.
    test_share : float
        Of the corpus in the test part, n₂ / (n₁ + n₂), in (0, 1).

    Raises
    ------
    OptionError
        A share outside its range.
    ShapeError
        Fewer than two splits.
    DataError
        A difference that is not finite.

    Examples
    --------
    >>> found = resampled_t([1.0, 2.0, 0.5, 1.5], test_share=0.5)
    >>> round(found.mean, 2), round(found.p, 3)
    (1.25, 0.182)
    """
    from scipy.stats import t as student  # noqa: PLC0415

    x = np.asarray(differences, dtype=np.float64)
    if x.ndim != 1 or len(x) < 2:
        raise ShapeError(f"{x.size} differences, expected a list of at least 2")
    if not np.isfinite(x).all():
        at = int(np.flatnonzero(~np.isfinite(x))[0])
        raise DataError(f"difference {at} is {x[at]}, expected a finite number")
    if not 0.0 < test_share < 1.0:
        raise OptionError(f"test_share is {test_share}, expected a number between 0 and 1")
    mean = float(x.mean())
    error = float(np.sqrt((1.0 / len(x) + test_share / (1.0 - test_share)) * x.var(ddof=1)))
    if error == 0.0:
        return ResampledT(mean, (mean, mean), 1.0 if mean == 0.0 else 0.0)
    half = float(student.ppf(0.975, len(x) - 1)) * error
    p = float(2.0 * student.sf(abs(mean) / error, len(x) - 1))
    return ResampledT(mean, (mean - half, mean + half), p)


def _positive(name: str, number: int) -> int:
    if number < 1:
        raise OptionError(f"{name} is {number}, expected at least 1")
    return number


def _pooled(first: SpanCounts, second: SpanCounts) -> SpanCounts:
    """Append the sentences of the second to the sentences of the first."""
    if len(first) != len(second):
        raise ShapeError(f"{len(first)} sentences against {len(second)}, expected as many")
    if len(first) < 2:
        raise ShapeError(
            f"{len(first)} sentences or documents, expected at least 2 to draw from them"
        )
    if not np.array_equal(first.wanted, second.wanted):
        raise ShapeError(
            "the two sides have different gold spans: both must be of the same sentences"
        )
    names = "right", "found", "wanted"
    return SpanCounts(*(np.append(getattr(first, n), getattr(second, n), axis=-1) for n in names))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two labellings compared.

    Parameters
    ----------
    tokens, sentences : McNemar
        Tokens with the right label, and sentences with only right labels, on just one side.
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

    def _repr_html_(self) -> str:
        """Return both sides as a table for notebooks."""
        low, high = self.interval
        rows: list[list[display.Cell]] = [
            ["F", *self.f, self.randomised],
            ["tokens right on this side alone", *_sides(self.tokens)],
            ["sentences right on this side alone", *_sides(self.sentences)],
        ]
        between = display.note(f"difference in F: {low:+.4f} to {high:+.4f} (95 %)")
        return display.picture(display.table(["", "first", "second", "p"], rows), between)


def _sides(test: McNemar) -> tuple[int, int, float]:
    return test.first, test.second, test.exact


def compare(
    gold: Sequence[Sequence[str]],
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    *,
    documents: Longs | Ints | None = None,
    resamples: int = 9_999,
    seed: int = 0,
) -> Comparison:
    """Compare two labellings of the same sentences.

    Spans in another scheme than the gold labels have are written in theirs first.

    Parameters
    ----------
    gold, first, second : sequence of sequences of str
        Labels of each sentence.
    documents : int64 [S], optional
        Number of each sentence's document, as in `Corpus.documents`: documents are drawn and
        exchanged whole.
    resamples : int
        Of the randomisation and of the bootstrap.
    seed : int

    Raises
    ------
    ShapeError
        The labellings are not of the same tokens, or there are fewer than two sentences.
    LabelError
        A sentence that is no list of labels, or a label that is no string.
    DataError
        Numbers of documents that are no whole numbers.
    """
    gold = string_lists(gold, "gold label")
    first, second = (written_alike(gold, labels)[0] for labels in (first, second))
    one, two = span_counts(gold, first), span_counts(gold, second)
    sides = [paired(gold, labels) for labels in (first, second)]
    tokens = [side.right for side in sides]
    filled = np.flatnonzero(Ragged(sides[0].offsets).lengths)
    starts = sides[0].offsets[:-1][filled]
    whole = [np.logical_and.reduceat(right, starts) for right in tokens]
    if documents is not None:
        one, two = one.grouped(documents), two.grouped(documents)
    return Comparison(
        tokens=mcnemar(*tokens),
        sentences=mcnemar(*whole),
        f=(one.f, two.f),
        interval=bootstrapped_f(one, two, resamples=resamples, seed=seed),
        randomised=randomised_f(one, two, shuffles=resamples, seed=seed),
    )
