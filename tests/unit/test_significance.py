"""Two labellings compared, against enumeration and numbers worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from fstcrf.errors import DataError, OptionError, ShapeError
from fstcrf.evaluate import evaluate_spans
from fstcrf.ext.significance import (
    McNemar,
    SpanCounts,
    bootstrapped_f,
    compare,
    mcnemar,
    randomised_f,
    resampled_t,
    span_counts,
)
from fstcrf.text.corpus import Column

GOLD = [["B-NP", "I-NP", "O"], ["B-VP"], ["O", "B-NP", "B-NP", "I-NP"], []]
FIRST = [["B-NP", "I-NP", "O"], ["B-NP"], ["O", "B-NP", "B-NP", "I-NP"], []]
SECOND = [["B-NP", "O", "O"], ["B-VP"], ["O", "B-NP", "I-NP", "I-NP"], []]


def random_counts(rng: np.random.Generator, wanted: np.ndarray) -> SpanCounts:
    found = rng.integers(0, 4, len(wanted))
    right = np.minimum(rng.integers(0, 4, len(wanted)), np.minimum(found, wanted))
    return SpanCounts(right, found, wanted)


def test_spans_of_each_sentence() -> None:
    counts = span_counts(GOLD, SECOND)
    assert counts.right.tolist() == [0, 1, 0, 0]
    assert counts.found.tolist() == [1, 1, 1, 0]
    assert counts.wanted.tolist() == [1, 1, 2, 0]
    assert counts.f == pytest.approx(evaluate_spans(GOLD, SECOND).f)
    assert span_counts([["O"], []], [["O"], []]).f == 0.0


def test_columns_are_lists_of_labels() -> None:
    def column(labels: list[list[str]]) -> Column:
        return Column.from_strings(itertools.chain.from_iterable(labels))

    offsets = np.cumsum([0, *map(len, GOLD)])
    listed, counted = span_counts(GOLD, FIRST), span_counts(column(GOLD), column(FIRST), offsets)
    assert (listed.right == counted.right).all()
    assert (listed.found == counted.found).all()
    with pytest.raises(OptionError, match="need offsets"):
        span_counts(column(GOLD), column(FIRST))
    with pytest.raises(OptionError, match="give two columns or two lists"):
        span_counts(column(GOLD), FIRST)


@pytest.mark.parametrize(
    ("first", "second", "exact", "statistic", "chi_square"),
    [
        # 2 * P(X <= 5), X ~ Bin(20, 1/2), = 0.041389465; (|15 - 5| - 1)^2 / 20 = 4.05
        (15, 5, 0.041389465, 4.05, 0.0441714),
        (5, 15, 0.041389465, 4.05, 0.0441714),
        (3, 3, 1.0, 0.0, 1.0),
        (0, 0, 1.0, 0.0, 1.0),
        (1, 0, 1.0, 0.0, 1.0),
    ],
)
def test_mcnemar_by_hand(
    first: int, second: int, exact: float, statistic: float, chi_square: float
) -> None:
    found = McNemar(first, second)
    assert found.exact == pytest.approx(exact, rel=1e-6)
    assert found.statistic == pytest.approx(statistic)
    assert found.chi_square == pytest.approx(chi_square, rel=1e-5)


def test_mcnemar_counts_what_one_side_alone_has_right() -> None:
    found = mcnemar(np.asarray([True, True, False, False]), np.asarray([True, False, True, False]))
    assert (found.first, found.second) == (1, 1)
    with pytest.raises(ShapeError, match="2 items against 3"):
        mcnemar(np.ones(2, bool), np.ones(3, bool))


def all_exchanges(first: SpanCounts, second: SpanCounts) -> list[float]:
    """Differences in F for every way to exchange sentences."""
    out = []
    for sides in itertools.product([False, True], repeat=len(first)):
        swap = np.asarray(sides)
        a, b = (
            SpanCounts(*(np.where(swap, x, y) for x, y in zip(p, q, strict=True)))
            for p, q in (
                (fields(second), fields(first)),
                (fields(first), fields(second)),
            )
        )
        out.append(abs(a.f - b.f))
    return out


def fields(counts: SpanCounts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return counts.right, counts.found, counts.wanted


@pytest.mark.parametrize("seed", range(3))
def test_randomisation_is_enumeration_where_it_can_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = rng.integers(0, 4, 9)
    first, second = random_counts(rng, wanted), random_counts(rng, wanted)
    seen = abs(first.f - second.f)
    exact = np.mean([apart >= seen - 1e-12 for apart in all_exchanges(first, second)])
    assert randomised_f(first, second) == pytest.approx(exact, abs=1e-12)
    drawn = randomised_f(first, second, shuffles=500, seed=seed)
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 500))
    assert drawn == randomised_f(first, second, shuffles=500, seed=seed)


def test_no_difference_is_not_significant() -> None:
    counts = span_counts(GOLD, FIRST)
    assert randomised_f(counts, counts) == 1.0
    assert bootstrapped_f(counts, counts, resamples=99) == (0.0, 0.0)


def test_the_bootstrap_draws_sentences_of_both_sides_together() -> None:
    """All draws of three sentences, by enumeration: the interval is their percentiles."""
    wanted = np.asarray([2, 1, 3])
    first = SpanCounts(np.asarray([2, 0, 3]), np.asarray([2, 1, 3]), wanted)
    second = SpanCounts(np.asarray([1, 1, 1]), np.asarray([2, 1, 3]), wanted)
    apart = [
        float(first.f_of(np.asarray(drawn)) - second.f_of(np.asarray(drawn)))
        for drawn in itertools.product(range(3), repeat=3)
    ]
    low, high = bootstrapped_f(first, second, confidence=0.5, resamples=4_000)
    assert low == pytest.approx(np.quantile(apart, 0.25), abs=0.12)
    assert high == pytest.approx(np.quantile(apart, 0.75), abs=0.12)
    assert bootstrapped_f(first, second) == bootstrapped_f(first, second)


def test_a_comparison() -> None:
    found = compare(GOLD, FIRST, SECOND, resamples=200)
    assert (found.tokens.first, found.tokens.second) == (2, 1)
    assert (found.sentences.first, found.sentences.second) == (2, 1)  # an empty one says nothing
    assert found.f == (span_counts(GOLD, FIRST).f, span_counts(GOLD, SECOND).f)
    assert found.interval[0] <= found.f[0] - found.f[1] <= found.interval[1]
    assert 0.0 < found.randomised <= 1.0


def test_bad_input() -> None:
    counts = span_counts(GOLD, FIRST)
    with pytest.raises(OptionError, match="shuffles is 0"):
        randomised_f(counts, counts, shuffles=0)
    with pytest.raises(OptionError, match="confidence is 95"):
        bootstrapped_f(counts, confidence=95)
    with pytest.raises(ShapeError, match="4 sentences against 1"):
        randomised_f(counts, span_counts([["O"]], [["O"]]))
    with pytest.raises(ShapeError, match="1 sentences or documents, expected at least 2"):
        randomised_f(span_counts([["O"]], [["O"]]), span_counts([["O"]], [["O"]]))
    other = span_counts(SECOND, FIRST)
    with pytest.raises(ShapeError, match="have different gold spans"):
        bootstrapped_f(counts, other)
    with pytest.raises(ShapeError, match="sentence 0"):
        compare(GOLD, FIRST, [["O"], *SECOND[1:]])


@pytest.mark.parametrize(
    ("first", "second"), [(30, 12), ([0.2, 0.7], [1.0, 0.0]), ([[True]], [[False]])]
)
def test_counts_are_not_taken_for_items(first: object, second: object) -> None:
    with pytest.raises(ShapeError, match=r"expected bool \[N\]"):
        mcnemar(first, second)  # type: ignore[arg-type]


def test_documents_are_drawn_whole() -> None:
    rng = np.random.default_rng(3)
    wanted = rng.integers(1, 4, 60)
    first, second = random_counts(rng, wanted), random_counts(rng, wanted)
    documents = np.repeat(np.arange(12), 5)
    one, two = first.grouped(documents), second.grouped(documents)
    assert len(one) == 12
    assert one.right.tolist() == first.right.reshape(12, 5).sum(1).tolist()
    assert one.f == pytest.approx(first.f)
    # Copies of a sentence within a document tell nothing new: the interval stays as wide.
    copied = SpanCounts(*(np.tile(x, 4) for x in (first.right, first.found, first.wanted)))
    same = copied.grouped(np.tile(np.arange(60), 4))
    assert bootstrapped_f(same, seed=1) == pytest.approx(bootstrapped_f(first, seed=1))
    alone = np.diff(bootstrapped_f(copied, seed=1))
    assert alone < 0.6 * np.diff(bootstrapped_f(same, seed=1))
    assert bootstrapped_f(one, two, seed=1)[0] < one.f - two.f < bootstrapped_f(one, two, seed=1)[1]


def test_types_apart_have_the_mean_of_their_f() -> None:
    rng = np.random.default_rng(8)
    wanted = rng.integers(0, 4, (3, 40))
    sides = [
        [random_counts(rng, each) for each in wanted],
        [random_counts(rng, each) for each in wanted],
    ]
    names = "right", "found", "wanted"
    apart = [
        SpanCounts(*(np.stack([getattr(one, n) for one in side]) for n in names)) for side in sides
    ]
    assert len(apart[0]) == 40
    assert apart[0].f == pytest.approx(np.mean([one.f for one in sides[0]]))
    documents = np.repeat(np.arange(10), 4)
    grouped = apart[0].grouped(documents)
    assert len(grouped) == 10
    assert (grouped.right[1] == sides[0][1].grouped(documents).right).all()
    drawn = rng.integers(0, 40, (500, 40))
    each = [np.mean([one.f_of(drawn) for one in side], axis=0) for side in sides]
    assert bootstrapped_f(apart[0], seed=1) == pytest.approx(
        np.quantile(each[0], [0.025, 0.975]), abs=0.02
    )
    assert bootstrapped_f(*apart, seed=1) == pytest.approx(
        np.quantile(each[0] - each[1], [0.025, 0.975]), abs=0.03
    )
    assert 0 < randomised_f(*apart, shuffles=99) <= 1


def test_documents_of_other_sentences() -> None:
    with pytest.raises(ShapeError, match="2 numbers of groups for 4 sentences"):
        compare(GOLD, FIRST, SECOND, documents=np.asarray([0, 1]), resamples=10)
    for numbers in ([0.5, 1.0, 1.5, 2.0], ["a", "a", "b", "b"]):
        with pytest.raises(DataError, match="expected whole numbers"):
            compare(GOLD, FIRST, SECOND, documents=np.asarray(numbers), resamples=10)


def test_any_whole_numbers_name_documents() -> None:
    counts = span_counts(GOLD, FIRST)
    for numbers in ([-1, 7, 7, 10**12], [5, 5, 3, 2]):
        grouped = counts.grouped(np.asarray(numbers))
        assert len(grouped) == 3
        assert grouped.f == counts.f


def test_comparing_by_documents() -> None:
    gold, first, second = ([*x] * 8 for x in (GOLD, FIRST, SECOND))
    documents = np.repeat(np.arange(8), 4)
    found = compare(gold, first, second, documents=documents, resamples=200)
    assert found.f == compare(gold, first, second, resamples=10).f
    assert found.interval[0] == pytest.approx(found.interval[1])  # all documents are alike


def test_runs_are_drawn_with_the_sentences() -> None:
    rng = np.random.default_rng(5)
    wanted = rng.integers(1, 4, 80)
    runs = [random_counts(rng, wanted) for _ in range(5)]
    assert bootstrapped_f([runs[0]], seed=2) == bootstrapped_f(runs[0], seed=2)
    equal = bootstrapped_f([runs[0]] * 5, seed=2)
    low, high = bootstrapped_f(runs, seed=2)
    assert low < np.mean([run.f for run in runs]) < high
    # Seeds that differ widen it: the share of sentences alone is that of one run's mean.
    spread = [SpanCounts(wanted * (k < 2), wanted, wanted) for k in range(4)]
    low, high = bootstrapped_f(spread, seed=2)
    assert (low, high) == pytest.approx((0.0, 1.0))
    assert np.diff(equal) == pytest.approx(np.diff(bootstrapped_f(runs[0], seed=2)), rel=0.1)
    with pytest.raises(ShapeError, match="one side has no run"):
        bootstrapped_f([])
    with pytest.raises(ShapeError, match="both must be of the same sentences"):
        bootstrapped_f([runs[0], random_counts(rng, wanted + 1)])


def test_the_mean_of_runs_varies_as_student_says() -> None:
    """Where runs alone differ: the variance of the drawn mean is s² / k, with s² over k − 1."""
    figures = np.asarray([0.40, 0.45, 0.48, 0.52, 0.60])
    wanted = np.full(30, 100)
    runs = [SpanCounts(np.full(30, round(100 * x)), wanted, wanted) for x in figures]
    low, high = bootstrapped_f(runs, confidence=0.6827, resamples=20_000)
    error = np.sqrt(figures.var(ddof=1) / 5)
    assert (high - low) / 2 == pytest.approx(error, rel=0.05)


def test_runs_that_belong_together_are_drawn_together() -> None:
    """One side is as far above the other in every run: seeds add nothing to the difference."""
    wanted = np.full(50, 4)
    worse = [SpanCounts(np.full(50, k), wanted, wanted) for k in (0, 1, 2)]
    better = [SpanCounts(np.full(50, k + 1), wanted, wanted) for k in (0, 1, 2)]
    assert bootstrapped_f(better, worse, matched=True) == pytest.approx((0.25, 0.25))
    low, high = bootstrapped_f(better, worse)
    assert low < 0.0
    assert high > 0.5
    with pytest.raises(ShapeError, match="3 runs against 2"):
        bootstrapped_f(better, worse[:2], matched=True)


def test_overlapping_splits_against_simulation() -> None:
    """Splits of one corpus share sentences: without the correction far too many p are small."""
    rng = np.random.default_rng(0)
    found, naive = [], []
    for _ in range(400):
        corpus = rng.normal(size=60)  # differences of two systems that are equal
        splits = [rng.permutation(corpus)[:30].mean() for _ in range(10)]
        found.append(resampled_t(splits, test_share=0.5).p)
        naive.append(scipy.stats.ttest_1samp(splits, 0.0).pvalue)
    assert np.mean(np.asarray(found) < 0.05) < 0.1
    assert np.mean(np.asarray(naive) < 0.05) > 0.3


def test_the_corrected_test_by_hand() -> None:
    x = np.asarray([0.3, -0.1, 0.4, 0.2, 0.5])
    found = resampled_t(x, test_share=0.2)
    error = np.sqrt((1 / 5 + 0.25) * x.var(ddof=1))
    assert found.mean == pytest.approx(0.26)
    assert found.p == pytest.approx(2 * scipy.stats.t(4).sf(0.26 / error))
    assert found.interval == pytest.approx(scipy.stats.t(4, loc=0.26, scale=error).interval(0.95))
    assert resampled_t([1.0, 1.0], test_share=0.5).p == 0.0
    assert resampled_t([0.0, 0.0], test_share=0.5).p == 1.0


@pytest.mark.parametrize(("differences", "share"), [([1.0], 0.5), ([1.0, 2.0], 0.0), ([1, 2], 1.0)])
def test_what_the_corrected_test_refuses(differences: list[float], share: float) -> None:
    with pytest.raises((OptionError, ShapeError), match=r"differences|test_share"):
        resampled_t(differences, test_share=share)


def test_differences_that_are_no_numbers() -> None:
    with pytest.raises(DataError, match="difference 1 is nan"):
        resampled_t([0.1, float("nan")], test_share=0.5)
