"""What compositions refuse: sizes, places, arcs, numbers; and with which words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, OptionError
from fstcrf.kernel import blocks, decoding
from fstcrf.kernel.machines import Bound, Factor, Residual
from tests.unit.test_kernel_arrays import FACTOR, LAST, OFFSETS, RESIDUAL, TOKENS, ints, machine


def spoilt(values: Floats, bad: float) -> Floats:
    out = values.copy()
    out.flat[-1] = bad
    return out


def per_token() -> tuple[Floats, Floats]:
    return np.zeros((TOKENS, 1, 1)), np.zeros((TOKENS, 2, LAST * LAST))


# --- Machines ------------------------------------------------------------------------------------


def test_the_second_factor_is_named() -> None:
    wrong = Factor(1, LAST, None, spoilt(np.zeros((1, LAST)), np.nan))
    with pytest.raises(NumericError, match="factor 1"):
        machine(factors=(Factor(2, LAST, **FACTOR), wrong))


def test_a_residual_without_edges_reads_nothing() -> None:
    none = {"source": ints(), "target": ints(), "value": np.zeros((0, 2, 1))}
    empty = Residual(2, rows=2, width=1, **{**RESIDUAL, **none})
    batch = Bound(machine(residual=empty), OFFSETS, per_token())
    path, score = decoding.best_paths(batch)
    assert (path == -1).all()
    assert np.isneginf(score).all()
    assert np.isneginf(decoding.log_partitions(batch)).all()
    assert decoding.nbest_paths(batch, 2).n_paths.tolist() == [0, 0]


# --- Batches -------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("most", [0, blocks.LONG_BYTES])
def test_sums_of_arcs_over_tokens(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same in blocks, and without a path."""
    monkeypatch.setattr(blocks, "LONG_BYTES", most)
    rng, offsets = np.random.default_rng(1), np.asarray([0, 1, 151, 153])
    values = rng.normal(size=(153, 1, 1)), rng.normal(size=(153, 2, 9))
    values[0][151] = -np.inf
    bound = Bound(machine(), offsets, values)
    each = decoding.axis_posterior(bound, arcs=(0, 1))
    total = decoding.axis_posterior(bound, arcs=(0, 1), summed=True)
    assert np.isneginf(each.log_z).tolist() == [False, False, True]
    for arcs, sums in zip((*each.arc, *each.node), (*total.arc, *total.node), strict=True):
        assert arcs is not None
        assert sums is not None
        wanted = arcs if sums.ndim == 2 else arcs.sum(axis=0)
        np.testing.assert_allclose(sums, wanted, rtol=1e-12, atol=1e-12)
    assert decoding.axis_posterior(bound, arcs=(1,), summed=True).arc[0] is None


def test_uniform_numbers_that_lie_apart() -> None:
    bound = Bound(machine(), OFFSETS, per_token())
    apart = np.random.default_rng(0).random((2, 2 * TOKENS))[:, ::2]
    found = decoding.sample_paths(bound, apart)
    assert found.tolist() == decoding.sample_paths(bound, np.ascontiguousarray(apart)).tolist()


# --- Joint states --------------------------------------------------------------------------------


def test_states_of_the_axes() -> None:
    states = machine().axis_states(ints(0, 1, 2, 3, 4, 5, -1))
    assert [part.tolist() for part in states] == [[0, 0, 0, 1, 1, 1, -1], [0, 1, 2, 0, 1, 2, -1]]
