"""Samples of compositions: how often each path comes, and which numbers it comes from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from scipy import stats

from fstcrf.arrays import Floats
from fstcrf.kernel import decoding
from tests.support.machine_strategies import MILD, Bounds, machine_cases, random_case
from tests.support.machines import Case, enumerate_paths, inverse_sample
from tests.support.oracles import log_sum
from tests.support.strategies import each_variant

SMALL = Bounds(paths=300)
ORDINARY = replace(SMALL, magnitudes=MILD.magnitudes)
SAMPLES = 4000


def uniforms(seed: int, samples: int, tokens: int) -> Floats:
    return np.random.default_rng(seed).random((samples, tokens))


def alive(case: Case) -> list[Case]:
    return [one for one in case.each() if np.isfinite(enumerate_paths(one)[1]).any()]


@pytest.mark.parametrize("bounds", [ORDINARY, replace(ORDINARY, residuals=("hard", "weighted"))])
def test_frequencies(variant: str, bounds: Bounds) -> None:
    """Pearson's statistic over all paths; those that are expected rarely count as one."""
    tests = 0
    for seed in range(30):
        for one in alive(random_case(seed, bounds))[:1]:
            drawn = decoding.sample_paths(one.bound, uniforms(seed, SAMPLES, one.tokens))
            paths, scores = enumerate_paths(one)
            expected = SAMPLES * np.exp(scores - log_sum(scores))
            numbers = np.ravel_multi_index(tuple(drawn.T), (one.states,) * one.tokens)
            seen = np.bincount(numbers, minlength=len(paths))
            assert not seen[np.isneginf(scores)].any()
            rare = expected < 5
            cells = np.append(expected[~rare], expected[rare].sum())
            found = np.append(seen[~rare], seen[rare].sum())
            if cells[-1] < 5:
                cells, found = (np.append(x[:-2], x[-2:].sum()) for x in (cells, found))
            if len(cells) > 1:
                tests += 1
                assert stats.chisquare(found, cells).pvalue > 1e-5, f"seed {seed}"
    assert tests > 10


@each_variant
@given(case=machine_cases(SMALL))
def test_numbers_stand_for_paths(variant: str, case: Case) -> None:
    """Smaller numbers stand for smaller states, each for a share of [0, 1): its probability."""
    for one in alive(case):
        numbers = uniforms(one.tokens, 10, one.tokens)
        for path, uniform in zip(
            decoding.sample_paths(one.bound, numbers).tolist(), numbers, strict=True
        ):
            expected, near = inverse_sample(one, uniform)
            assert near < 1e-9 or path == expected.tolist()


@each_variant
@given(case=machine_cases(SMALL))
def test_the_ends_of_the_interval(variant: str, case: Case) -> None:
    """0 and the number below 1 give paths that exist, where there is one."""
    ends = np.asarray([0.0, np.nextafter(1.0, 0.0), 0.5, np.nextafter(0.0, 1.0)])
    numbers = np.repeat(ends[:, None], case.tokens, axis=1)
    drawn = decoding.sample_paths(case.bound, numbers)
    for first, last in case.bounds:
        one = case.sentence(first, last)
        _, scores = enumerate_paths(one)
        own = drawn[:, first:last]
        if not np.isfinite(scores).any():
            assert (own == -1).all()
            continue
        found = np.ravel_multi_index(tuple(own.T), (one.states,) * one.tokens)
        assert np.isfinite(scores[found]).all()
