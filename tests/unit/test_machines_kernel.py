"""What compositions refuse: sizes, places, arcs, numbers; and with which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ints
from fstcrf.errors import FstcrfError, NumericError, OptionError, ShapeError
from fstcrf.kernel import decoding
from fstcrf.kernel.machines import MAX_AXES, Axis, Bound, Factor, Machine, Residual

# Two axes of 2 and 3 states: a sparse one, and a per-token one with two contexts.
FIRST, LAST, TOKENS = 2, 3, 5
OFFSETS = np.asarray([0, 2, 5])


def ints(*values: int) -> Ints:
    return np.asarray(values, dtype=np.int32)


def strided(*shape: int) -> Floats:
    return np.zeros((*shape[:-1], 2 * shape[-1]))[..., ::2]


def misaligned(*shape: int) -> Floats:
    size = int(np.prod(shape))
    return np.zeros(8 * size + 4, dtype=np.uint8)[4:].view(np.float64).reshape(shape)


def spoilt(values: Floats, bad: float) -> Floats:
    out = values.copy()
    out.flat[-1] = bad
    return out


SPARSE = Axis(FIRST, ints(0, 0, 1), ints(0, 1, 0), np.zeros((1, 3)))
MOVING = Axis(LAST, place=ints(0, 1), contexts=2)
FACTOR = Factor(2, LAST, ints(1, 0), np.zeros((2, LAST)))
LOOSE = Factor(1, 1)
START = np.asarray([0.0, -np.inf])
TAKEN = np.asarray([[0.0, -np.inf], [-np.inf, 0.0], [0.0, 0.0]]).reshape(3, 2, 1)
RESIDUAL = Residual(2, ints(0, 0, 1), ints(0, 1, 1), 2, 1, TAKEN, START, np.zeros(2), ints(0, 1))


def machine(**changes: Any) -> Machine:
    fields: dict[str, Any] = {
        "axes": (SPARSE, MOVING),
        "factors": (FACTOR, LOOSE),
        "residual": RESIDUAL,
        "initial": np.zeros((FIRST, LAST)),
        "final": np.zeros((FIRST, LAST)),
    }
    return Machine(**{**fields, **changes})


def per_token() -> tuple[Floats, Floats]:
    return np.zeros((TOKENS, 1, 1)), np.zeros((TOKENS, 2, LAST * LAST))


def first_axis(**changes: Any) -> Machine:
    return machine(axes=(replace(SPARSE, **changes), MOVING))


def last_axis(**changes: Any) -> Machine:
    return machine(axes=(SPARSE, replace(MOVING, **changes)))


def factor(**changes: Any) -> Machine:
    return machine(factors=(replace(FACTOR, **changes), LOOSE))


def residual(**changes: Any) -> Machine:
    return machine(residual=replace(RESIDUAL, **changes))


Make = Callable[..., Machine]


def test_the_machine_itself_is_good() -> None:
    batch = Bound(machine(), OFFSETS, per_token())
    path, score = decoding.best_paths(batch)
    assert path.tolist() == [0] * TOKENS
    assert score.tolist() == [0.0, 0.0]
    assert machine().shape == (FIRST, LAST)


# --- Machines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"axes": ()},
        {"axes": (Axis(1, score=np.zeros((1, 1))),) * (MAX_AXES + 1)},
        {"initial": np.zeros(FIRST * LAST)},
        {"initial": np.zeros((LAST, FIRST))},
        {"initial": np.zeros((FIRST, LAST), dtype=np.float32)},
        {"initial": strided(FIRST, LAST)},
        {"final": np.zeros((FIRST, LAST + 1))},
        {"final": np.zeros((FIRST, LAST), dtype=np.int64)},
        {"final": misaligned(FIRST, LAST)},
        {"final": np.asfortranarray(np.zeros((FIRST, LAST)))},
    ],
)
def test_machines(changes: dict[str, Any]) -> None:
    with pytest.raises(ShapeError):
        machine(**changes)


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (first_axis, {"n_states": 0}),
        (first_axis, {"n_states": -1}),
        (first_axis, {"n_states": 3}),
        (first_axis, {"source": None}),
        (first_axis, {"target": None}),
        (first_axis, {"source": ints(0, 0, 2)}),
        (first_axis, {"source": ints(-1, 0, 1)}),
        (first_axis, {"source": ints(1, 0, 0)}),
        (first_axis, {"source": ints(0, 0)}),
        (first_axis, {"source": np.zeros(3, dtype=np.int64)}),
        (first_axis, {"source": np.zeros(3)}),
        (first_axis, {"source": np.zeros((3, 1), dtype=np.int32)}),
        (first_axis, {"source": np.zeros(6, dtype=np.int32)[::2]}),
        (first_axis, {"target": ints(0, 1, 2)}),
        (first_axis, {"target": ints(0, -1, 0)}),
        (first_axis, {"target": ints(0, 1, 2**31 - 1)}),
        (first_axis, {"target": ints(0, 1)}),
        (first_axis, {"target": ints(1, 0, 0)}),  # not sorted
        (first_axis, {"target": ints(1, 1, 0)}),  # one arc twice
        (first_axis, {"target": np.zeros(3)}),
        (first_axis, {"target": np.zeros((3, 1), dtype=np.int32)}),
        (first_axis, {"source": ints(), "target": ints(), "score": np.zeros((1, 0))}),
        (first_axis, {"score": np.zeros(3)}),
        (first_axis, {"score": np.zeros((1, 4))}),
        (first_axis, {"score": np.zeros((2, 3))}),
        (first_axis, {"score": np.zeros((TOKENS, 1, 3))}),
        (first_axis, {"score": np.zeros((1, 3), dtype=np.float32)}),
        (first_axis, {"score": strided(1, 3)}),
        (first_axis, {"place": ints(1)}),
        (first_axis, {"place": ints(0, 0)}),
        (last_axis, {"score": np.zeros((2, 8))}),
        (last_axis, {"score": np.zeros((1, 9))}),
        (last_axis, {"place": ints(0, 2)}),
        (last_axis, {"place": ints(-1, 0)}),
        (last_axis, {"place": ints(0)}),
        (last_axis, {"place": ints(0, 0, 0, 0, 0, 0)}),
        (last_axis, {"place": np.zeros(2, dtype=np.int64)}),
        (last_axis, {"place": np.zeros((2, 1), dtype=np.int32)}),
        (last_axis, {"contexts": 0}),
        (last_axis, {"contexts": -2}),
        (last_axis, {"contexts": 1}),
    ],
)
def test_axes(make: Make, changes: dict[str, Any]) -> None:
    with pytest.raises(ShapeError):
        make(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 0},
        {"rows": -1},
        {"rows": 1},
        {"rows": 3},
        {"width": 0},
        {"width": 2},
        {"width": -1},
        {"width": LAST + 1},
        {"width": 2, "value": np.zeros((2, 2))},
        {"rows": 1, "value": np.zeros((1, LAST))},
        {"rows": 0, "value": np.zeros((0, LAST)), "place": None},
        {"rows": 2**40, "value": None},
        {"place": ints(0, 2)},
        {"place": ints(0, -1)},
        {"place": ints(0)},
        {"place": ints(0, 1, 0, 1, 0, 1)},
        {"place": np.zeros(2, dtype=np.int64)},
        {"place": np.zeros(2)},
        {"value": np.zeros((2, 1))},
        {"value": np.zeros(2 * LAST)},
        {"value": np.zeros((LAST, 2))},
        {"value": np.zeros((TOKENS, 2, LAST))},  # static potentials have no tokens
        {"value": np.zeros((2, LAST), dtype=np.float32)},
        {"value": np.asfortranarray(np.zeros((2, LAST)))},
    ],
)
def test_factors(changes: dict[str, Any]) -> None:
    with pytest.raises(ShapeError):
        factor(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_states": 0},
        {"n_states": -1},
        {"n_states": 1},
        {"n_states": 3},
        {"source": ints(0, 1, 0)},
        {"source": ints(0, 0, 2)},
        {"source": ints(-1, 0, 1)},
        {"source": ints(0, 1)},
        {"source": np.zeros(3)},
        {"source": np.zeros(3, dtype=np.int64)},
        {"source": np.zeros((3, 1), dtype=np.int32)},
        {"target": ints(0, 1, 2)},
        {"target": ints(0, -1, 1)},
        {"target": ints(0, 1)},
        {"target": np.zeros(3)},
        {"rows": 0},
        {"rows": 1},
        {"rows": 3},
        {"width": 0},
        {"width": 2},
        {"width": LAST},
        {"width": 2, "value": np.zeros((3, 2, 2))},
        {"value": np.zeros((3, 1, 2))},
        {"value": np.zeros((3, 2))},
        {"value": np.zeros((2, 2, 1))},
        {"value": np.zeros((3, 2, 1), dtype=np.float32)},
        {"place": ints(0, 2)},
        {"place": ints(-1, 0)},
        {"place": ints(0, 1, 0)},
        {"place": np.zeros(2, dtype=np.int64)},
        {"initial": np.zeros(3)},
        {"initial": np.zeros((2, 1))},
        {"final": np.zeros(1)},
        {"final": np.zeros(2, dtype=np.float32)},
    ],
)
def test_residuals(changes: dict[str, Any]) -> None:
    with pytest.raises(ShapeError):
        residual(**changes)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1.1e300, -1.1e300])
@pytest.mark.parametrize(
    ("make", "name", "good", "words"),
    [
        (machine, "initial", np.zeros((FIRST, LAST)), "initial or final"),
        (machine, "final", np.zeros((FIRST, LAST)), "initial or final"),
        (first_axis, "score", np.zeros((1, 3)), "axis 0"),
        (last_axis, "score", np.zeros((2, LAST * LAST)), "axis 1"),
        (factor, "value", np.zeros((2, LAST)), "factor 0"),
        (residual, "value", TAKEN, "residual"),
        (residual, "initial", START, "residual"),
        (residual, "final", np.zeros(2), "residual"),
    ],
)
def test_numbers(make: Make, name: str, good: Floats, words: str, bad: float) -> None:
    make(**{name: spoilt(good, -np.inf)})
    with pytest.raises(NumericError, match=words):
        make(**{name: spoilt(good, bad)})


def test_the_second_factor_is_named() -> None:
    wrong = Factor(1, LAST, None, spoilt(np.zeros((1, LAST)), np.nan))
    with pytest.raises(NumericError, match="factor 1"):
        machine(factors=(FACTOR, wrong))


def test_no_label_has_two_edges() -> None:
    """Sums would count both, searches would follow the first."""
    with pytest.raises(FstcrfError, match="residual"):
        residual(value=np.zeros((3, 2, 1)))


def test_a_residual_begins_in_one_state() -> None:
    with pytest.raises(FstcrfError, match="residual"):
        residual(initial=np.zeros(2))


def test_a_residual_without_edges_reads_nothing() -> None:
    empty = residual(source=ints(), target=ints(), value=np.zeros((0, 2, 1)))
    batch = Bound(empty, OFFSETS, per_token())
    path, score = decoding.best_paths(batch)
    assert (path == -1).all()
    assert np.isneginf(score).all()
    assert np.isneginf(decoding.log_partitions(batch)).all()
    assert decoding.nbest_paths(batch, 2).found.tolist() == [0, 0]


# --- Batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "offsets",
    [
        [],
        [1, 5],
        [0, 6, 5],
        [0, -1, 5],
        [0, 2**40, 5],
        [0, 4],
        [0, 6],
        [0, -5],
        [0],
        [-(2**62), 2**62, 5],
    ],
)
def test_offsets(offsets: list[int]) -> None:
    with pytest.raises(ShapeError):
        Bound(machine(), np.asarray(offsets, dtype=np.int64), per_token())


@pytest.mark.parametrize(
    "offsets",
    [
        OFFSETS.astype(np.int32),
        OFFSETS.astype(np.float64),
        OFFSETS[None],
        OFFSETS[:, None],
        np.asarray(5),
        np.asarray([0, 9, 2, 9, 5, 9])[::2],
    ],
)
def test_offsets_of_another_kind(offsets: NDArray[Any]) -> None:
    with pytest.raises(ShapeError):
        Bound(machine(), offsets, per_token())


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m[:0],
        lambda m: m[:1],
        lambda m: (*m, np.zeros(1)),
        lambda m: m[::-1],
        lambda m: (m[0][:4], m[1]),
        lambda m: (m[0], m[1][:4]),
        lambda m: (m[0][:, 0], m[1]),
        lambda m: (m[0], m[1].reshape(TOKENS, 18)),
        lambda m: (m[0], m[1].reshape(TOKENS, 9, 2)),
        lambda m: (m[0].astype(np.float32), m[1]),
        lambda m: (m[0], np.asfortranarray(m[1])),
        lambda m: (misaligned(TOKENS, 1, 1), m[1]),
    ],
)
def test_moving_potentials(change: Callable[[Any], Any]) -> None:
    with pytest.raises(ShapeError):
        Bound(machine(), OFFSETS, change(per_token()))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1.1e300, -1.1e300])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("token", [1, 3, 4])
def test_numbers_that_move(which: int, token: int, bad: float) -> None:
    values = per_token()
    values[which][token, -1, -1] = bad
    last = values[which][0].size - 1
    words = f"per-token potentials {which}: token {token}, entry {last}"
    with pytest.raises(NumericError, match=words):
        Bound(machine(), OFFSETS, values)


@pytest.mark.parametrize("token", [0, 2])
def test_arcs_into_first_tokens_are_not_read(token: int) -> None:
    values = per_token()
    values[1][token] = np.nan
    batch = Bound(machine(), OFFSETS, values)
    assert decoding.best_paths(batch)[1].tolist() == [0.0, 0.0]
    found = decoding.axis_posterior(batch, arcs=(0, 1))
    parts = [part for part in (*found.node, *found.arc, found.log_z) if part is not None]
    assert len(parts) == 5
    assert all(np.isfinite(part).all() for part in parts)
    values[0][token] = np.nan  # node potentials are
    with pytest.raises(NumericError, match=f"per-token potentials 0: token {token}"):
        Bound(machine(), OFFSETS, values)
    values = per_token()
    values[1][token], values[1][4, 1, 3] = np.nan, np.inf
    with pytest.raises(NumericError, match="per-token potentials 1: token 4"):
        Bound(machine(), OFFSETS, values)


def test_no_sentence_at_all(variant: str) -> None:
    nothing = tuple(values[:0] for values in per_token())
    batch = Bound(machine(), np.asarray([0]), nothing)
    assert all(len(part) == 0 for part in decoding.best_paths(batch))
    assert decoding.nbest_paths(batch, 3).path.shape == (3, 0)
    assert decoding.log_partitions(batch).shape == (0,)
    assert [part.shape for part in decoding.axis_posterior(batch).node] == [(0, 2), (0, 3)]
    assert [part.shape for part in decoding.axis_max_marginals(batch)] == [(0, 2), (0, 3)]
    assert decoding.sample_paths(batch, np.zeros((2, 0))).shape == (2, 0)
    assert decoding.dead_tokens(batch).shape == (0,)


def test_potentials_of_the_largest_size(variant: str) -> None:
    """Sums of them stay finite."""
    values = np.full((TOKENS, 1, 1), 1e300), np.full((TOKENS, 2, 9), 1e300)
    batch = Bound(machine(), OFFSETS, values)
    log_z, node, *_ = decoding.axis_posterior(batch)
    assert np.isfinite(log_z).all()
    assert all(np.isfinite(part).all() for part in node)
    assert np.isfinite(decoding.best_paths(batch)[1]).all()
    low = tuple(-one for one in values)
    assert np.isfinite(decoding.log_partitions(Bound(machine(), OFFSETS, low))).all()


# --- Questions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, -1])
def test_numbers_of_paths(n: int) -> None:
    with pytest.raises(OptionError, match=f"n is {n}"):
        decoding.nbest_paths(Bound(machine(), OFFSETS, per_token()), n)


@pytest.mark.parametrize("within", [-1.0, np.nan])
def test_how_far_below_the_best(within: float) -> None:
    with pytest.raises(OptionError, match=f"within is {within}"):
        decoding.nbest_paths(Bound(machine(), OFFSETS, per_token()), 2, within=within)


@pytest.mark.parametrize("call", [decoding.log_partitions, decoding.axis_posterior])
def test_domains_have_names(call: Callable[..., object]) -> None:
    with pytest.raises(OptionError, match="domain is 'tropical', expected"):
        call(Bound(machine(), OFFSETS, per_token()), domain="tropical")


@pytest.mark.parametrize("axis", [2, -1])
def test_axes_whose_arcs_are_wanted(axis: int) -> None:
    with pytest.raises(OptionError, match=f"{axis}"):
        decoding.axis_posterior(Bound(machine(), OFFSETS, per_token()), arcs=(axis,))


@pytest.mark.parametrize(
    "uniform",
    [
        np.zeros(TOKENS),
        np.zeros((2, TOKENS - 1)),
        np.zeros((2, TOKENS + 1)),
        np.zeros((1, 2, TOKENS)),
        np.zeros((2, TOKENS), dtype=np.float32),
    ],
)
def test_uniform_numbers(uniform: Floats) -> None:
    with pytest.raises(ShapeError):
        decoding.sample_paths(Bound(machine(), OFFSETS, per_token()), uniform)


def test_uniform_numbers_that_lie_apart() -> None:
    bound = Bound(machine(), OFFSETS, per_token())
    apart = np.random.default_rng(0).random((2, 2 * TOKENS))[:, ::2]
    found = decoding.sample_paths(bound, apart)
    assert found.tolist() == decoding.sample_paths(bound, np.ascontiguousarray(apart)).tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -0.1, 1.0, 2.0])
def test_numbers_outside_the_interval(bad: float) -> None:
    uniform = np.full((2, TOKENS), 0.5)
    uniform[1, 3] = bad
    with pytest.raises(NumericError):
        decoding.sample_paths(Bound(machine(), OFFSETS, per_token()), uniform)


# --- Joint states --------------------------------------------------------------------------------


def test_states_of_the_axes() -> None:
    states = machine().axis_states(ints(0, 1, 2, 3, 4, 5, -1))
    assert [part.tolist() for part in states] == [[0, 0, 0, 1, 1, 1, -1], [0, 1, 2, 0, 1, 2, -1]]
