"""Tied columns change the size of a problem, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf.kernel import SparseRows
from fstcrf.machines.topology import chain_topology
from fstcrf.training import Likelihood, Problem, parameter_space, tied


def problem_with_ties(*, values: bool = False, seed: int = 0) -> Problem:
    """Attributes 0..5 are free, 6 and 9 copy 0, 7 copies 1, 8 occurs nowhere."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=30)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    fires = rng.random((n, 6)) < 0.4
    dense = np.zeros((n, 10), dtype=bool)
    dense[:, :6] = fires
    dense[:, [6, 9]], dense[:, 7] = fires[:, [0]], fires[:, 1]
    token, index = np.nonzero(dense)
    indptr = np.concatenate([[0], np.cumsum(dense.sum(axis=1))]).astype(np.int64)
    value = None
    if values:
        per_token = rng.normal(size=n).astype(np.float32)
        value = per_token[token]
        value[index == 7] *= 2.0  # no longer a copy of attribute 1
    design = SparseRows(indptr, index.astype(np.int32), value, 10)
    allowed = np.zeros((n, 3), dtype=bool)
    allowed[np.arange(n), rng.integers(0, 3, size=n)] = True
    topology = chain_topology(["A", "B", "C"], 1)
    return Problem(topology, offsets, design, None, allowed, np.ones(len(lengths)))


@pytest.mark.parametrize(("values", "columns"), [(False, 7), (True, 8)])
def test_groups(*, values: bool, columns: int) -> None:
    problem = problem_with_ties(values=values)
    merged, _, _ = tied(problem, parameter_space(problem))
    assert merged.node.n_columns == columns


@pytest.mark.parametrize("features", ["supported", "complete"])
@pytest.mark.parametrize("values", [False, True])
def test_value_and_gradient(features: str, *, values: bool) -> None:
    problem = problem_with_ties(values=values)
    space = parameter_space(problem, features=features)  # type: ignore[arg-type]
    merged, inner, sharing = tied(problem, space)
    u = np.random.default_rng(1).normal(size=inner.size)
    theta = sharing.expand(u)
    assert sharing.reduce(theta) == pytest.approx(u, rel=1e-12)
    whole = Likelihood(problem, space, l2=0.7, precision="float64")
    small = Likelihood(merged, inner, l2=0.7, members=sharing.members, precision="float64")
    (value, gradient), (tied_value, tied_gradient) = whole(theta), small(u)
    assert tied_value == pytest.approx(value, rel=1e-12)
    summed = np.zeros(inner.size)
    np.add.at(summed, sharing.place, gradient)
    assert tied_gradient == pytest.approx(summed / np.sqrt(sharing.members), rel=1e-9, abs=1e-9)
