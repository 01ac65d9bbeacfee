"""Training comes to the same optimum, in whatever units features, sentences and penalties are.

Laws over methods, kinds of models, scales and penalties. The reference is L-BFGS of SciPy over the
float64 likelihood, of features that have about the size 1 and of penalties that make up for it.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, SegmentCRF
from fstcrf.arrays import Floats
from fstcrf.errors import DataError, LearningWarning
from fstcrf.kernel import SparseRows
from fstcrf.machines.topology import chain_topology
from fstcrf.training import Likelihood, Problem, parameter_space
from fstcrf.training.lbfgs import LBFGS
from tests.support.training import flat_train

SCALES = (1e-6, 1e-3, 1.0, 1e4, 1e6)
LABELS, FEATURES = "ABC", 4
CLOSE = 1e-3
Data = list[list[dict[str, float]]]


def drawn(sentences: int, tokens: int) -> tuple[Floats, list[list[str]]]:
    """Return values of features, float64 [sentences, tokens, FEATURES], and labels."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(sentences, tokens, FEATURES))
    weights = rng.normal(size=(FEATURES, len(LABELS))) * 1.5
    noise = rng.gumbel(size=(sentences, tokens, len(LABELS)))
    return values, [[LABELS[k] for k in own] for own in (values @ weights + noise).argmax(axis=-1)]


VALUES, TARGET = drawn(80, 8)


def as_features(scale: float, values: Floats = VALUES) -> Data:
    """Return the first feature in other units."""
    size = np.asarray([scale, 1.0, 1.0, 1.0])
    return [
        [{f"f{k}": float(x) for k, x in enumerate(token)} for token in sentence]
        for sentence in values * size
    ]


@functools.cache
def reference(scale: float) -> tuple[Likelihood, Floats]:
    """Return the likelihood of features of size 1, and the units that make up for a scale."""
    count = VALUES[..., 0].size
    labels = np.asarray([LABELS.index(y) for own in TARGET for y in own])
    index = np.tile(np.arange(FEATURES, dtype=np.int32), count)
    value = VALUES.reshape(-1).astype(np.float32)
    node = SparseRows(np.arange(0, FEATURES * count + 1, FEATURES), index, value, FEATURES)
    offsets = np.arange(0, count + 1, VALUES.shape[1])
    allowed = np.eye(len(LABELS), dtype=bool)[labels]
    topology = chain_topology(tuple(LABELS), 1)
    problem = Problem(topology, offsets, node, None, allowed, np.ones(len(VALUES)))
    space = parameter_space(problem, features="complete")
    smooth = Likelihood(problem, space, l2=0.0, precision="float64")
    unit = np.ones(space.size)  # the weights are unit * u
    unit[: len(space.node_cells)][space.node_cells // space.width == 0] = 1.0 / scale
    return smooth, unit


@functools.cache
def minimum(scale: float, l2: float) -> float:
    """Return the least value of the objective, by SciPy."""
    from scipy.optimize import minimize

    smooth, unit = reference(scale)
    wall = 1.0 / np.sqrt(1.0 + 2.0 * l2 * unit**2)

    def penalised(v: Floats) -> tuple[float, Floats]:
        u = wall * v
        loss, slope = smooth(u)
        return loss + l2 * float((unit * u) @ (unit * u)), wall * (slope + 2.0 * l2 * unit**2 * u)

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-13, "gtol": 1e-9}
    found = minimize(penalised, np.zeros(len(unit)), jac=True, method="L-BFGS-B", options=options)
    return float(found.fun)


def reached(crf: CRF) -> float:
    """Return the objective that training reached."""
    assert crf.record is not None
    assert crf.record.objective is not None
    return crf.record.objective


def trained(scale: float, **options: Any) -> tuple[CRF, list[str]]:
    """Return a model, and the warnings of its training."""
    chosen = {"pairs": "complete", "max_iterations": 300, **options}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        crf = flat_train(as_features(scale), TARGET, **chosen)
    return crf, [str(one.message) for one in found if one.category is LearningWarning]


METHODS: dict[str, dict[str, Any]] = {
    "lbfgs": {},
    "epochs first": {"stochastic_epochs": 3},
    "cg": {"method": "cg"},
    "preconditioned": {"method": "preconditioned-cg"},
    "mixed": {"method": "mixed-cg"},
    "asgd": {"method": "asgd", "max_iterations": 30},
    "l2sgd": {"method": "l2sgd", "max_iterations": 100},
    "quickprop": {"method": "quickprop"},
}
STOCHASTIC = ("asgd", "l2sgd")
CELLS = [
    pytest.param(
        *(method, scale, l2),
        marks=[pytest.mark.slow] if scale in (1e-3, 1e4) and method != "lbfgs" else [],
    )
    for method in METHODS
    for scale in SCALES
    for l2 in (0.0, 1.0)
    # Without a penalty there are no epochs and no preconditioner, and rates never fall.
    if l2 > 0.0 or method in ("lbfgs", "cg", "quickprop")
]


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "scale", "l2"), CELLS)
def test_units_of_a_feature_do_not_matter_or_training_warns(
    method: str, scale: float, l2: float
) -> None:
    crf, notes = trained(scale, l2=l2, **METHODS[method])
    if notes:
        assert method in ("epochs first", "asgd", "l2sgd", "quickprop")
        assert scale != 1.0
        assert all("'f0'" in note for note in notes)
        return
    within = 0.03 if method in STOCHASTIC else CLOSE  # their value is that of weights on the way
    assert reached(crf) == pytest.approx(minimum(scale, l2), rel=within)


@functools.cache
def least_with_l1(scale: float, l1: float) -> float:
    """Return the least value with an L1 penalty, by SciPy: weights are differences from 0 up."""
    from scipy.optimize import minimize

    smooth, unit = reference(scale)
    wall = np.tile(1.0 / (1.0 + l1 * unit), 2)

    def penalised(v: Floats) -> tuple[float, Floats]:
        both = wall * v
        up, down = np.split(both, 2)
        loss, slope = smooth(up - down)
        costs = l1 * np.tile(unit, 2)
        return loss + float(costs @ both), wall * (np.concatenate([slope, -slope]) + costs)

    options = {"maxiter": 4000, "maxfun": 8000, "ftol": 1e-13, "gtol": 1e-9}
    start = np.zeros(2 * len(unit))
    bounds = [(0.0, None)] * len(start)
    found = minimize(penalised, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(found.fun)


@pytest.mark.thorough
@pytest.mark.parametrize("scale", SCALES)
def test_units_with_an_l1_penalty(scale: float) -> None:
    crf, notes = trained(scale, l1=1.0, l2=0.0, max_iterations=1000)
    assert not notes
    assert reached(crf) == pytest.approx(least_with_l1(scale, 1.0), rel=CLOSE)


KINDS: dict[str, dict[str, Any]] = {
    "order 2": {"order": 2},
    "attributes of arcs": {},
    "unknown labels": {"partial": True},
    "warm start": {},
    "many sentences": {},
}


def of_kind(kind: str, scale: float) -> float:
    """Return the objective that training reaches without a penalty."""
    data, target, options = as_features(scale), TARGET, dict(KINDS[kind])
    if kind == "unknown labels":
        target = [["_" if k == 3 else y for k, y in enumerate(own)] for own in target]
    if kind == "warm start":
        options["start"] = trained(scale, l2=0.0, max_iterations=2)[0]
    chosen = {"pairs": "complete", "max_iterations": 300, "l2": 0.0, **options}
    return reached(flat_train(data, target, **chosen))


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [1e-6, 1e4, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_units_of_a_feature_in_models_of_other_kinds(kind: str, scale: float) -> None:
    assert of_kind(kind, scale) == pytest.approx(of_kind(kind, 1.0), rel=CLOSE)


# --- Weights of sentences -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["lbfgs", "cg", "asgd", "l2sgd"])
@pytest.mark.parametrize("factor", [1e-30, 1e-6, 1e6, 2.0**100, 1e39, 1e300])
def test_weights_of_sentences_and_penalties_in_other_units(method: str, factor: float) -> None:
    """As many times the data, as many times the penalty: the same weights."""
    own = np.random.default_rng(0).uniform(0.5, 2.0, len(TARGET))
    once, _ = trained(1.0, l2=1.0, weights=own, method=method, max_iterations=60)
    often, _ = trained(1.0, l2=factor, weights=factor * own, method=method, max_iterations=60)
    value, rel = factor * reached(once), 0.01 if method in STOCHASTIC else 1e-4
    assert reached(often) == pytest.approx(value, rel=rel)
    within = 10.0 * rel * float(np.abs(once.theta).max())
    np.testing.assert_allclose(often.theta, once.theta, rtol=0.0, atol=within)


@pytest.mark.parametrize("weight", [math.inf, math.nan, -1.0])
def test_a_weight_that_is_none_is_named(weight: float) -> None:
    weights = np.ones(len(TARGET))
    weights[7] = weight
    with pytest.raises(DataError, match=f"sentence 7.*weight {weight:g}"):
        trained(1.0, weights=weights)


@pytest.mark.parametrize("value", [1e16, -1e20, 1e37])
def test_values_beyond_what_training_takes_are_named(value: float) -> None:
    data = as_features(1.0)
    data[5][3]["f2"] = value
    with pytest.raises(DataError, match=r"sentence 5, token 3.*'f2' has the value"):
        CRF.train(data, TARGET)


# --- Values of columns, in parts and in models of segments ----------------------------------------


def as_columns(scale: float) -> list[dict[str, list[str]]]:
    """Return sentences with columns of numbers, and of labels of spans."""
    names = {"A": "O", "B": "B-x", "C": "B-y"}
    return [
        {"y": [names[y] for y in own]}
        | {f"f{k}": [repr(float(x)) for x in column] for k, column in enumerate(tokens.T)}
        for own, tokens in zip(TARGET, VALUES * np.asarray([scale, 1.0, 1.0, 1.0]), strict=True)
    ]


TEMPLATE = "\n".join(f"U{k}:%v[0,f{k}]" for k in range(FEATURES))


@pytest.mark.parametrize("scale", [1e-6, 1e4, 1e6])
@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_units_of_a_column_in_models_of_segments(scale: float, l1: float) -> None:
    found = [
        SegmentCRF.train(as_columns(size), "y", TEMPLATE, l2=0.0, method=LBFGS(l1=l1, delta=1e-7))
        for size in (scale, 1.0)
    ]
    ones = [one.record.objective for one in found]
    if l1 == 0.0:
        assert ones[0] == pytest.approx(ones[1], rel=CLOSE)
    else:  # where the penalty of the first feature is nothing, or forbids it
        assert (ones[0] < ones[1]) == (scale > 1.0)


@pytest.mark.parametrize("factor", [1e-30, 1e6, 1e39, 1e300])
def test_weights_of_sentences_in_parts_count_as_in_the_whole(factor: float) -> None:
    own = factor * np.random.default_rng(0).uniform(0.5, 2.0, len(TARGET))
    options: dict[str, Any] = {"l2": factor, "pairs": "complete", "weights": own}
    whole = flat_train(as_columns(1.0), "y", TEMPLATE, **options)
    parts = flat_train(as_columns(1.0), "y", TEMPLATE, memory_limit=1 << 30, **options)
    np.testing.assert_array_equal(parts.theta, whole.theta)
    assert reached(parts) == reached(whole)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_of_a_column_in_parts(scale: float) -> None:
    options: dict[str, Any] = {"l2": 0.5, "pairs": "complete"}
    whole = flat_train(as_columns(scale), "y", TEMPLATE, **options)
    parts = flat_train(as_columns(scale), "y", TEMPLATE, memory_limit=1 << 30, **options)
    np.testing.assert_array_equal(parts.theta, whole.theta)
