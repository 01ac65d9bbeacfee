"""Compositions in batches, in threads, by every variant: the same bits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Ragged
from fstcrf.kernel import decoding
from tests.support.machine_strategies import Bounds, machine_cases, random_case
from tests.support.machines import Case, assert_near
from tests.support.strategies import each_variant

ANY = Bounds(paths=None)

Arrays = list[NDArray[Any]]


def everything(case: Case) -> Arrays:
    """All answers of a batch, as arrays whose first or second axis is that of the sentences."""
    uniform = np.random.default_rng(case.tokens).random((3, case.tokens))
    every = tuple(range(len(case.sizes)))
    found = decoding.axis_posterior(case.bound, arcs=every)
    arcs = [arc for arc in found.arc if arc is not None]
    ranked = decoding.nbest_paths(case.bound, 5)
    return [
        *decoding.best_paths(case.bound),
        *decoding.axis_max_marginals(case.bound),
        decoding.log_partitions(case.bound),
        decoding.dead_tokens(case.bound),
        *(found.log_z, *found.node, *arcs),
        *(ranked.n_paths, ranked.score, ranked.path.T),
        decoding.sample_paths(case.bound, uniform).T,
    ]


def bits(arrays: Arrays) -> list[bytes]:
    return [array.tobytes() for array in arrays]


@pytest.mark.thorough
@each_variant
@given(case=machine_cases(ANY))
def test_batches_are_sentence_by_sentence_bit_for_bit(variant: str, case: Case) -> None:
    uniform = np.random.default_rng(1).random((3, case.tokens))
    together, drawn = everything(case), decoding.sample_paths(case.bound, uniform)
    for b, (first, last) in enumerate(case.bounds):
        one = case.sentence(first, last)
        for alone, all_of_them in zip(everything(one)[:-1], together[:-1], strict=True):
            per_token = len(all_of_them) == case.tokens and len(alone) == last - first
            own = all_of_them[first:last] if per_token else all_of_them[b : b + 1]
            assert alone.tobytes() == own.tobytes()
        part = np.ascontiguousarray(uniform[:, first:last])
        assert (decoding.sample_paths(one.bound, part) == drawn[:, first:last]).all()


@each_variant
@given(case=machine_cases(ANY), seed=st.integers(0, 99))
def test_empty_sentences_between_others_change_no_bit(variant: str, case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths, score = np.diff(case.offsets), float(rng.choice([-np.inf, -0.5]))
    full = rng.permutation(np.arange(len(lengths) + rng.integers(1, 4)) < len(lengths))
    spread = np.zeros(len(full), dtype=np.int64)
    spread[full] = lengths
    machine = replace(case.machine, empty=score)
    there = Case(machine, Ragged.from_lengths(spread).offsets, case.per_token)
    bound = there.bound
    for among, alone in zip(everything(there), everything(case), strict=True):
        per_sentence = len(among) == len(full) != len(alone)
        assert (among[full] if per_sentence else among).tobytes() == alone.tobytes()
    ranked = decoding.nbest_paths(bound, 5)
    scores = (decoding.best_paths(bound)[1], decoding.log_partitions(bound), ranked.score[:, 0])
    assert all((one[~full] == score).all() for one in scores)
    assert (ranked.n_paths[~full] == (score > -np.inf)).all()
    found = decoding.axis_posterior(bound, entropy=True)
    assert (found.log_z[~full] == score).all()
    assert found.entropy is not None
    assert (found.entropy[~full] == 0.0).all()


def test_threads_do_not_matter(variant: str) -> None:
    cases = [random_case(seed, ANY) for seed in range(60)]
    alone = [bits(everything(case)) for case in cases]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda case: bits(everything(case)), cases)) == alone


def test_one_batch_in_many_threads(variant: str) -> None:
    """The machine is shared, a bound batch has scratch of its own."""
    for seed in range(10):
        case = random_case(seed, ANY)
        alone = bits(everything(case))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda one: bits(everything(one)), [case] * 8))
        assert found == [alone] * 8


@given(case=machine_cases(ANY))
def test_variants_agree(case: Case) -> None:
    before, results = kernel.variant(), []
    for name in kernel.variants():
        kernel.use(name)
        results.append(
            (
                decoding.best_paths(case.bound),
                decoding.nbest_paths(case.bound, 5),
                decoding.axis_max_marginals(case.bound),
                decoding.axis_posterior(case.bound),
            )
        )
    kernel.use(before)
    (best, ranked, tops, sums), *others = results
    for other_best, other_ranked, other_tops, other_sums in others:
        assert bits(list(other_best)) == bits(list(best))
        assert bits(list(other_ranked)) == bits(list(ranked))
        assert bits(list(other_tops)) == bits(list(tops))
        assert_near(other_sums.log_z, sums.log_z, scale=case.scale)
        for one, other in zip(sums.node, other_sums.node, strict=True):
            assert_near(other, one)


@each_variant
@given(case=machine_cases(ANY))
def test_nothing_is_written_to_what_comes_in(variant: str, case: Case) -> None:
    machine = case.machine
    arrays: Arrays = [case.offsets, *case.per_token]
    arrays += [machine.initial, machine.final]
    arrays += [f.value for f in machine.factors if f.value is not None]
    arrays += [a.score for a in machine.axes if a.score is not None]
    before = bits(arrays)
    for array in arrays:
        array.flags.writeable = False
    everything(case)
    assert bits(arrays) == before
