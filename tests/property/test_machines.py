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
from fstcrf.kernel.decoding import Ranked
from fstcrf.kernel.machines import Axis, Factor, Machine, Residual
from tests.support.machine_strategies import MILD, Bounds, machine_cases
from tests.support.machines import (
    Case,
    arc_scores,
    assert_near,
    axis_states,
    cells,
    node_scores,
)
from tests.support.oracles import log_sum
from tests.support.strategies import each_variant

ANY = Bounds(paths=None)
SMALL = Bounds(paths=300)
CHAINS = Bounds(paths=None, axes=(1,), residuals=("none",))
FREE = Bounds(paths=None, contexts=False)


def same_answers(one: Case, other: Case) -> None:
    """All but the paths."""
    scale = one.scale
    mine, its = (decoding.axis_posterior(c.bound) for c in (one, other))
    assert_near(mine.log_z, its.log_z, scale=scale)
    tops, other_tops = (decoding.axis_max_marginals(c.bound) for c in (one, other))
    for c in range(len(one.sizes)):
        assert_near(mine.node[c], its.node[c])
        assert tops[c].tolist() == other_tops[c].tolist()
    scores, other_scores = (decoding.best_paths(c.bound)[1] for c in (one, other))
    assert scores.tolist() == other_scores.tolist()


def same_paths(one: Case, other: Case) -> None:
    same_answers(one, other)
    paths, other_paths = (decoding.best_paths(c.bound)[0] for c in (one, other))
    assert paths.tolist() == other_paths.tolist()


def node_table(case: Case) -> Floats:
    """Potentials of the joint states at every token, [N, J]."""
    return np.asarray([node_scores(case, t) for t in range(case.tokens)])


def residual_table(case: Case, residual: Residual) -> Floats:
    """Scores of the residual's edges in every joint state, [E, J]."""
    row, column = cells(case, residual.width, residual.place)
    return np.ascontiguousarray(residual.value[:, row, column])


# --- One machine in several ways -----------------------------------------------------------------


@each_variant
@given(case=machine_cases(CHAINS))
def test_one_axis_is_a_chain(variant: str, case: Case) -> None:
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
    (tops,) = decoding.axis_max_marginals(case.bound)
    assert tops.tolist() == kernel.max_marginals(*batch).tolist()


def flattened(case: Case) -> Case:
    """The same machine with one axis of joint states."""
    size, machine = case.states, case.machine
    arcs = np.zeros((case.tokens, 1, size * size))
    for first, last in case.bounds:
        for t in range(first + 1, last):
            arcs[t, 0] = arc_scores(case, t).reshape(-1)
    residual = machine.residual
    if residual is not None:
        value = residual_table(case, residual)[:, None, :]
        residual = replace(residual, rows=1, width=size, place=None, value=value)
    ends = [part.reshape(1, -1) for part in (machine.initial, machine.final)]
    flat = Machine((Axis(size),), (Factor(1, size),), residual, *ends)
    return Case(flat, case.offsets, (node_table(case)[:, None, :], arcs))


@each_variant
@given(case=machine_cases(ANY))
def test_axes_multiplied_out(variant: str, case: Case) -> None:
    flat = flattened(case)
    path, score = decoding.best_paths(case.bound)
    its_path, its_score = decoding.best_paths(flat.bound)
    assert path.tolist() == its_path.tolist()
    assert score.tolist() == its_score.tolist()
    found, its = (decoding.axis_posterior(c.bound) for c in (case, flat))
    assert_near(found.log_z, its.log_z, scale=case.scale)
    for c, states in enumerate(axis_states(case)):
        summed = np.zeros_like(found.node[c])
        np.add.at(summed.T, states, its.node[0].T)
        assert_near(found.node[c], summed)


def turned(case: Case, order: list[int]) -> Case:
    """The same machine with its axes in another order; they must not depend on one another."""
    machine, sizes = case.machine, case.sizes

    def turn(table: Floats) -> Floats:
        """[..., J] → [..., outer, S] of the new order."""
        lead = table.shape[:-1]
        axes = [*range(len(lead)), *(len(lead) + c for c in order)]
        shape = (*lead, -1, sizes[order[-1]])
        return np.ascontiguousarray(table.reshape(*lead, *sizes).transpose(axes).reshape(shape))

    residual, outer = machine.residual, case.states // sizes[order[-1]]
    each, width = np.arange(outer, dtype=np.int32), sizes[order[-1]]
    if residual is not None:
        value = turn(residual_table(case, residual))
        residual = replace(residual, rows=outer, width=width, place=each, value=value)
    n_factors = sum(f.value is None for f in machine.factors)
    per_token = dict(
        zip(
            [c for c, a in enumerate(machine.axes) if a.score is None],
            case.per_token[n_factors:],
            strict=True,
        )
    )
    other = Machine(
        tuple(machine.axes[c] for c in order),
        (Factor(outer, width, each),),
        residual,
        *(turn(part.reshape(-1)) for part in (machine.initial, machine.final)),
    )
    values = (turn(node_table(case)), *(per_token[c] for c in order if c in per_token))
    return Case(other, case.offsets, values)


@each_variant
@given(case=machine_cases(FREE), data=st.data())
def test_order_of_independent_axes(variant: str, case: Case, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(case.sizes))))
    other = turned(case, order)
    mine, its = (decoding.axis_posterior(c.bound) for c in (case, other))
    assert_near(mine.log_z, its.log_z, scale=case.scale)
    tops, its_tops = (decoding.axis_max_marginals(c.bound) for c in (case, other))
    for k, c in enumerate(order):
        assert_near(mine.node[c], its.node[k])
        assert tops[c].tolist() == its_tops[k].tolist()


@each_variant
@given(case=machine_cases(replace(ANY, residuals=("none",))), data=st.data())
def test_a_residual_of_one_state_is_a_factor(variant: str, case: Case, data: st.DataObject) -> None:
    factor = data.draw(machine_cases(replace(ANY, axes=(1,)))).machine.initial[:1, :1]
    outer, width = case.machine.outer, case.machine.width
    rng = np.random.default_rng(case.tokens)
    rows = data.draw(st.integers(1, outer))
    place = rng.integers(0, rows, (outer,)).astype(np.int32)
    columns = data.draw(st.sampled_from((1, width)))
    value = rng.integers(-4, 5, (rows, columns)) * 0.5 + factor
    value[rng.random(value.shape) < 0.1] = -np.inf
    none = np.zeros(1, dtype=np.int32)
    begin, end = np.asarray([2.0]), np.asarray([-3.0])
    residual = Residual(1, none, none, rows, columns, value[None], begin, end, place)
    one = case._replace(machine=replace(case.machine, residual=residual))
    factors = (*case.machine.factors, Factor(rows, columns, place, value))
    shifted = replace(case.machine, factors=factors, initial=case.machine.initial - 1.0)
    same_paths(one, case._replace(machine=shifted))


@each_variant
@given(case=machine_cases(ANY))
def test_static_and_moving_sparse_and_dense(variant: str, case: Case) -> None:
    """What is static may move, arcs that are not there may be −inf."""
    machine, rest = case.machine, iter(case.per_token)
    values = [next(rest) if f.value is None else f.value for f in machine.factors]
    tables = [next(rest) if a.score is None else a.score for a in machine.axes]
    axes: list[Axis] = []
    per_token: list[Floats] = [
        np.broadcast_to(v, (case.tokens, *v.shape[-2:])).copy() for v in values
    ]
    for axis, score in zip(machine.axes, tables, strict=True):
        size = axis.n_states
        square = np.full((case.tokens, axis.contexts, size, size), -np.inf)
        if axis.source is None or axis.target is None:
            square[:] = score.reshape(*score.shape[:-1], size, size)
        else:
            square[..., axis.source, axis.target] = score
        per_token.append(square.reshape(case.tokens, axis.contexts, size * size))
        axes.append(Axis(size, place=axis.place, contexts=axis.contexts))
    factors = tuple(Factor(f.rows, f.width, f.place) for f in machine.factors)
    other = Machine(tuple(axes), factors, machine.residual, machine.initial, machine.final)
    same_paths(case, Case(other, case.offsets, tuple(per_token)))


@each_variant
@given(case=machine_cases(ANY), step=st.integers(-5, 5))
def test_a_constant_moves_scores_only(variant: str, case: Case, step: int) -> None:
    constant = Factor(1, 1, None, np.asarray([[8.0 * step]]))
    machine = replace(case.machine, factors=(constant, *case.machine.factors))
    moved = case._replace(machine=machine)
    lengths = 8.0 * step * np.diff(case.offsets)
    mine, its = (decoding.axis_posterior(c.bound) for c in (case, moved))
    assert_near(its.log_z, mine.log_z + lengths, scale=case.scale)
    for one, other in zip(mine.node, its.node, strict=True):
        assert_near(other, one)
    (path, score), (its_path, its_score) = (decoding.best_paths(c.bound) for c in (case, moved))
    assert path.tolist() == its_path.tolist()
    assert (score + lengths).tolist() == its_score.tolist()


# --- Sums ----------------------------------------------------------------------------------------


@each_variant
@given(case=machine_cases(ANY))
def test_marginals_are_distributions(variant: str, case: Case) -> None:
    found = decoding.axis_posterior(case.bound, arcs=tuple(range(len(case.sizes))))
    alive = np.repeat(found.log_z > -np.inf, np.diff(case.offsets))
    inner = np.ones(case.tokens, dtype=bool)
    inner[case.offsets[:-1]] = False
    for axis, node, arc in zip(case.machine.axes, found.node, found.arc, strict=True):
        assert (node >= 0.0).all()
        assert_near(node.sum(axis=1), alive)
        assert arc is not None
        assert not arc[~(inner & alive)].any()
        size = axis.n_states
        square = np.zeros((case.tokens, size, size))
        if axis.source is None or axis.target is None:
            square[:] = arc.reshape(-1, size, size)
        else:
            square[:, axis.source, axis.target] = arc
        assert_near(square.sum(axis=1)[inner], node[inner])
        assert_near(square.sum(axis=2)[inner], node[np.flatnonzero(inner) - 1])


@each_variant
@given(case=machine_cases(replace(ANY, magnitudes=MILD.magnitudes)))
def test_marginals_are_slopes_of_log_z(variant: str, case: Case) -> None:
    """Every state of every axis at every token is lifted a little, up and down: one batch."""
    step, (first, last) = 1e-4, case.bounds[0]
    one = case.sentence(first, last)
    log_z, node, *_ = decoding.axis_posterior(one.bound)
    if log_z[0] == -np.inf:
        return
    joint = axis_states(one)
    lifts = [
        (c, t, s, np.where(joint[c] == s, sign * step, 0.0))
        for c, size in enumerate(one.sizes)
        for t, s in np.ndindex(one.tokens, size)
        for sign in (1, -1)
    ]
    bumps = np.zeros((len(lifts), one.tokens, one.states))
    for k, (_, t, _, lift) in enumerate(lifts):
        bumps[k, t] = lift
    outer, width = one.machine.initial.shape
    factor = Factor(outer, width, np.arange(outer, dtype=np.int32))
    machine = replace(one.machine, factors=(factor, *one.machine.factors))
    copies = tuple(np.concatenate([values] * len(lifts)) for values in one.per_token)
    offsets = np.arange(len(lifts) + 1) * one.tokens
    lifted = Case(machine, offsets, (bumps.reshape(-1, outer, width), *copies))
    up, down = decoding.log_partitions(lifted.bound).reshape(-1, 2).T
    slopes = (up - down) / (2 * step)
    expected = [node[c][t, s] for c, t, s, _ in lifts[::2]]
    np.testing.assert_allclose(slopes, expected, atol=1e-7)


@each_variant
@given(case=machine_cases(ANY), data=st.data())
def test_a_forbidden_state_splits_the_sum(variant: str, case: Case, data: st.DataObject) -> None:
    """Z = Z(through one state of an axis at one token) + Z(through the others)."""
    token = data.draw(st.integers(0, case.tokens - 1))
    axis = data.draw(st.integers(0, len(case.sizes) - 1))
    chosen = axis_states(case)[axis] == data.draw(st.integers(0, case.sizes[axis] - 1))
    outer, width = case.machine.initial.shape
    factor = Factor(outer, width, np.arange(outer, dtype=np.int32))
    machine, parts = replace(case.machine, factors=(factor, *case.machine.factors)), []
    for mask in (chosen, ~chosen):
        values = np.zeros((case.tokens, outer * width))
        values[token, ~mask] = -np.inf
        table = values.reshape(-1, outer, width)
        parts.append(
            decoding.log_partitions(Case(machine, case.offsets, (table, *case.per_token)).bound)
        )
    whole = decoding.log_partitions(case.bound)
    b = int(np.searchsorted(case.offsets, token, side="right")) - 1
    assert_near(np.logaddexp(parts[0][b], parts[1][b]), whole[b], scale=case.scale)


@each_variant
@given(case=machine_cases(SMALL))
def test_all_paths_add_up_to_log_z(variant: str, case: Case) -> None:
    counts, scores, paths = decoding.nbest_paths(case.bound, 301)
    log_z = decoding.log_partitions(case.bound)
    assert (counts <= 300).all()
    assert_near([log_sum(row) for row in scores], log_z, scale=case.scale)
    assert (np.diff(np.where(np.isinf(scores), -1e300, scores), axis=1) <= 0).all()
    few = decoding.nbest_paths(case.bound, 4)
    assert few.score.tolist() == scores[:, :4].tolist()
    path, score = decoding.best_paths(case.bound)
    assert paths[0].tolist() == path.tolist()
    assert scores[:, 0].tolist() == score.tolist()


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


def check_cut(case: Case, whole: Ranked, some: Ranked, floor: Floats) -> None:
    """Some are the first ones of the whole: the best one, and those that score more."""
    wanted = (whole.score > floor[:, None]).sum(axis=1)
    assert some.found.tolist() == np.minimum(np.maximum(wanted, 1), whole.found).tolist()
    inside = np.arange(301) < some.found[:, None]
    assert some.score.tolist() == np.where(inside, whole.score, -np.inf).tolist()
    rows = np.repeat(inside, np.diff(case.offsets), axis=0).T
    assert some.path.tolist() == np.where(rows, whole.path, -1).tolist()


@each_variant
@given(case=machine_cases(ANY))
def test_best_path_and_max_marginals_agree(variant: str, case: Case) -> None:
    path, score = decoding.best_paths(case.bound)
    tops = decoding.axis_max_marginals(case.bound)
    for (first, last), best in zip(case.bounds, score.tolist(), strict=True):
        for top, states in zip(tops, axis_states(case), strict=True):
            assert (top[first:last].max(axis=1) == best).all()
            if best > -np.inf:
                own = states[path[first:last]]
                assert (top[np.arange(first, last), own] == best).all()


@each_variant
@given(case=machine_cases(SMALL), seed=st.integers(0, 99))
def test_expected_arcs_are_sums_of_posteriors(variant: str, case: Case, seed: int) -> None:
    weight = np.random.default_rng(seed).uniform(-1.0, 2.0, len(case.offsets) - 1)
    own = np.repeat(weight, np.diff(case.offsets))[:, None]
    axes = tuple(range(len(case.machine.axes)))
    each = kernel.axis_posterior(case.bound, arcs=axes)
    found = kernel.axis_expectations(case.bound, weight=weight)
    assert found.log_z.tobytes() == each.log_z.tobytes()
    for node, arc, sums, expected in zip(found.node, each.arc, found.arc, each.node, strict=True):
        assert arc is not None
        assert sums is not None
        assert_near(node, own * expected)
        assert_near(sums, (own * arc).sum(axis=0), scale=case.tokens)


@each_variant
@given(case=machine_cases(SMALL))
def test_both_halves_meet_in_the_max_marginals(variant: str, case: Case) -> None:
    found = kernel.axis_maxima(case.bound)
    path, score = kernel.best_paths(case.bound)
    assert found.path.tobytes() == path.tobytes()
    assert found.score.tobytes() == score.tobytes()
    own = np.concatenate([[node_scores(one, t) for t in range(one.tokens)] for one in case.each()])[
        :, None
    ]
    with np.errstate(invalid="ignore"):
        whole = np.where(np.isneginf(own), -np.inf, found.forward + found.ahead - own)
    shape = (case.tokens, -1, *case.sizes)
    for c, (node, expected) in enumerate(
        zip(found.node, kernel.axis_max_marginals(case.bound), strict=True)
    ):
        assert node.tobytes() == expected.tobytes()
        others = tuple(k for k in range(1, len(shape)) if k != c + 2)
        best = whole.reshape(case.tokens, whole.shape[1], *case.sizes).max(axis=others)
        assert_near(best, node, scale=case.scale * case.tokens)


@pytest.mark.parametrize("tokens", [2, 3, 5])
@pytest.mark.parametrize("before", [0, 1])
def test_sums_of_a_sentence_that_the_linear_domain_loses_on_the_way(
    tokens: int, before: int
) -> None:
    """What was added before it was lost is not added twice; other sentences keep theirs."""
    machine = Machine(
        axes=(
            Axis(2, None, None, np.asarray([[200.0, 128.0, 0.0, -256.0]]), None, 1, None, None),
            Axis(
                1,
                np.zeros(1, dtype=np.int32),
                np.zeros(1, dtype=np.int32),
                np.asarray([[300.0], [0.0]]),
                np.asarray([0, 1], dtype=np.int32),
                2,
                None,
                None,
            ),
        ),
        factors=(),
        residual=None,
        initial=np.zeros((2, 1)),
        final=np.zeros((2, 1)),
    )
    lengths = [2] * before + [tokens]
    case = Case(machine=machine, offsets=np.cumsum([0, *lengths]), per_token=())
    found = kernel.axis_expectations(case.bound)
    each = kernel.axis_posterior(case.bound, arcs=(0, 1))
    for total, arc in zip(found.arc, each.arc, strict=True):
        assert total is not None
        assert arc is not None
        np.testing.assert_allclose(total, arc.sum(axis=0), rtol=1e-9, atol=1e-12)
        assert total.sum() == pytest.approx(sum(lengths) - len(lengths))  # an arc between tokens
