"""Laws of compositions: one machine written in several ways, and sums that must agree."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.kernel import Graph, decoding
from fstcrf.kernel.decoding import NBestPaths
from tests.support.machine_strategies import LONG, WIDE, Bounds, machine_cases, random_case
from tests.support.machines import (
    Case,
    assert_near,
    node_scores,
)
from tests.support.strategies import each_variant

ANY = Bounds(paths=None)
SMALL = Bounds(paths=300)
CHAINS = Bounds(paths=None, axes=(1,), residuals=("none",))


def node_table(case: Case) -> Floats:
    """Potentials of the joint states at every token, [N, J]."""
    return np.asarray([node_scores(case, t) for t in range(case.tokens)])


# --- One machine in several ways -----------------------------------------------------------------


@each_variant
@given(case=machine_cases(CHAINS))
def test_one_axis_is_a_chain(variant: str, case: Case) -> None:
    check_chain(case)


@pytest.mark.parametrize("bounds", [WIDE, LONG])
def test_one_axis_of_many_states_or_tokens_is_a_chain(variant: str, bounds: Bounds) -> None:
    for seed in range(8):
        check_chain(random_case(seed, replace(bounds, axes=(1,), residuals=("none",))))


def check_chain(case: Case) -> None:
    machine, (axis,) = case.machine, case.machine.axes
    context = 0 if axis.place is None else int(axis.place[0])
    score = case.per_token[-1] if axis.score is None else axis.score
    score = np.ascontiguousarray(score[..., context, :])
    if axis.score is None:
        score[case.offsets[:-1]] = 0.0  # a graph reads all rows but the first
    graph = Graph(machine.initial[0], machine.final[0], score, axis.source, axis.target)
    batch = (graph, case.offsets, node_table(case))
    path, best = decoding.best_paths(case.bound)
    its_path, its_best = kernel.viterbi(*batch)
    assert path.tolist() == its_path.tolist()
    assert best.tolist() == its_best.tolist()
    assert_near(decoding.log_partitions(case.bound), kernel.log_partition(*batch), scale=case.scale)
    found = decoding.axis_posterior(case.bound, arcs=(0,))
    log_z, node, arc = kernel.forward_backward(*batch)
    assert_near(found.log_z, log_z, scale=case.scale)
    assert_near(found.node[0], node)
    assert found.arc[0] is not None
    assert_near(found.arc[0] if graph.per_token else found.arc[0].sum(axis=0), arc)


# --- Sums ----------------------------------------------------------------------------------------


@each_variant
@given(case=machine_cases(SMALL), rank=st.integers(0, 5))
def test_paths_above_a_score(variant: str, case: Case, rank: int) -> None:
    """They are those that all paths begin with, the best one whatever it scores."""
    whole = decoding.nbest_paths(case.bound, 301)
    some = decoding.nbest_paths(case.bound, 301, above=whole.score[:, rank].copy())
    check_cut(case, whole, some, whole.score[:, rank])


@each_variant
@given(case=machine_cases(SMALL), within=st.sampled_from([0.0, 0.5, 2.0, 1e9, np.inf]))
def test_paths_not_far_below_the_best(variant: str, case: Case, within: float) -> None:
    whole = decoding.nbest_paths(case.bound, 301)
    some = decoding.nbest_paths(case.bound, 301, within=within)
    check_cut(case, whole, some, whole.score[:, 0] - within)
    above = whole.score[:, 2].copy()
    both = decoding.nbest_paths(case.bound, 301, above=above, within=within)
    check_cut(case, whole, both, np.maximum(above, whole.score[:, 0] - within))


def check_cut(case: Case, whole: NBestPaths, some: NBestPaths, floor: Floats) -> None:
    """Some are the first ones of the whole: the best one, and those that score more."""
    wanted = (whole.score > floor[:, None]).sum(axis=1)
    assert some.n_paths.tolist() == np.minimum(np.maximum(wanted, 1), whole.n_paths).tolist()
    inside = np.arange(301) < some.n_paths[:, None]
    assert some.score.tolist() == np.where(inside, whole.score, -np.inf).tolist()
    rows = np.repeat(inside, np.diff(case.offsets), axis=0).T
    assert some.path.tolist() == np.where(rows, whole.path, -1).tolist()
