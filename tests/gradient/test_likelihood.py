"""The objective against enumeration and central differences."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fstcrf.arrays import Floats
from fstcrf.errors import DataError, NumericError
from fstcrf.kernel import SparseRows
from fstcrf.machines.topology import chain_topology
from fstcrf.training import Likelihood, Problem, parameter_space
from fstcrf.training.evidence import Precision
from tests.support.problems import Case, iob2, random_case, random_rows

# In single precision weights are rounded, and so is every potential.
VALUE, GRADIENT = 1e-6, 1e-5
PRECISIONS: tuple[Precision, ...] = ("float32", "float64")

TEN = tuple("ABCDEFGHIJ")
BIO = ("B-X", "I-X", "O")

CASES: dict[str, dict[str, Any]] = {
    "order 0": {"order": 0},
    "order 1": {},
    "order 1, all": {"features": "complete", "transitions": "all"},
    "order 1, no transitions": {"transitions": "none"},
    "one label": {"labels": ("A",), "features": "complete", "transitions": "all"},
    "two labels": {"labels": ("A", "B"), "ends": True},
    "values": {"values": True, "features": "complete"},
    "ends": {"ends": True, "weights": True},
    "ten labels": {
        "labels": TEN,
        "lengths": (1, 3, 2),
        "features": "complete",
        "transitions": "all",
        "ends": True,
    },
    "ten labels, values": {
        "labels": TEN,
        "lengths": (3, 1),
        "values": True,
        "features": "complete",
        "weights": True,
    },
    "arcs": {"arcs": True, "attributes": 4},
    "arcs, all, values": {
        "arcs": True,
        "values": True,
        "features": "complete",
        "transitions": "all",
    },
    "arcs, partial": {"arcs": True, "partial": True, "weights": True, "ends": True},
    "partial": {"partial": True, "weights": True},
    "partial, all": {"partial": True, "features": "complete", "transitions": "all", "ends": True},
    "scheme": {"labels": BIO, "legal": iob2, "ends": True, "weights": True},
    "scheme, partial": {"labels": BIO, "legal": iob2, "partial": True, "transitions": "all"},
    "order 2": {"order": 2},
    "order 2, all": {
        "order": 2,
        "features": "complete",
        "transitions": "all",
        "ends": True,
        "lengths": (1, 3, 2),
    },
    "order 2, start": {"order": 2, "labels": BIO, "start": "O", "ends": True, "weights": True},
    "order 2, scheme": {"order": 2, "labels": BIO, "start": "O", "legal": iob2, "values": True},
    "order 2, scheme, no start": {"order": 2, "labels": BIO, "legal": iob2, "partial": True},
    "order 2, arcs, partial": {"order": 2, "arcs": True, "partial": True, "lengths": (1, 3, 2)},
}


def check(case: Case, theta: Floats, *, l2: float = 0.1) -> None:
    compare(case, theta, case.objective(theta, l2=l2), l2=l2)


def compare(case: Case, theta: Floats, truth: tuple[float, Floats], *, l2: float) -> None:
    expected, slope = truth
    scale = max(1.0, float(np.abs(theta).max(initial=0.0)))
    for precision, sharper in zip(PRECISIONS, (1.0, 1e-6), strict=True):
        likelihood = Likelihood(case.problem, case.space, l2=l2, precision=precision)
        value, gradient = likelihood(theta)
        near, close = VALUE * sharper, GRADIENT * sharper
        assert value == pytest.approx(expected, rel=near, abs=near * scale)
        assert gradient == pytest.approx(slope, rel=close, abs=close * scale)


@cache
def enumerated(name: str) -> tuple[Case, list[tuple[Floats, tuple[float, Floats]]]]:
    """Return a case, and its objective at two sets of weights: for all kernel variants."""
    case = random_case(len(str(CASES[name])), **CASES[name])
    rng = np.random.default_rng(1)
    thetas = [scale * rng.normal(size=case.space.size) for scale in (0.0, 1.0)]
    return case, [(theta, case.objective(theta, l2=0.1)) for theta in thetas]


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_enumeration(name: str, variant: str) -> None:
    case, found = enumerated(name)
    for theta, truth in found:
        compare(case, theta, truth, l2=0.1)


def test_the_comparison_notices() -> None:
    case = random_case(1, **CASES["order 2, scheme"])
    theta = np.random.default_rng(1).normal(size=case.space.size)
    check(case, theta)
    moved = theta.copy()
    moved[int(np.argmax(np.abs(case.objective(theta, l2=0.0)[1])))] += 1e-3
    value, gradient = Likelihood(case.problem, case.space, l2=0.1)(moved)
    expected, slope = case.objective(theta, l2=0.1)
    assert value != pytest.approx(expected, rel=VALUE, abs=VALUE)
    assert gradient != pytest.approx(slope, rel=GRADIENT, abs=GRADIENT)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.integers(0, 2),
    flags=st.fixed_dictionaries(
        {name: st.booleans() for name in ("arcs", "values", "partial", "weights", "ends")}
    ),
    features=st.sampled_from(["supported", "complete"]),
    transitions=st.sampled_from(["observed", "all", "none"]),
    scheme=st.booleans(),
)
def test_enumeration_of_any_case(
    seed: int,
    order: int,
    flags: dict[str, bool],
    features: str,
    transitions: str,
    scheme: bool,
) -> None:
    rules: dict[str, Any] = {"labels": BIO, "legal": iob2} if scheme else {"labels": ("A", "B")}
    rules |= flags
    case = random_case(
        seed,
        order=order,
        lengths=(1, 3, 2),
        features=features,
        transitions=transitions,
        **rules,
    )
    check(case, np.random.default_rng(seed).normal(size=case.space.size))


@pytest.mark.parametrize("scale", [30.0, 300.0, 3000.0])
@pytest.mark.parametrize("name", ["order 1, all", "ten labels", "arcs", "scheme", "order 2"])
def test_large_weights(name: str, scale: float) -> None:
    case = random_case(3, **CASES[name])
    theta = scale * np.random.default_rng(2).normal(size=case.space.size)
    check(case, theta, l2=0.0)


def larger_case(seed: int, **options: Any) -> Problem:
    """Enough sentences for every shard to have several."""
    rng = np.random.default_rng(seed)
    labels = options.pop("labels", "ABCDEFGHIJK")
    lengths = rng.integers(1, 12, 90)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    allowed = np.zeros((n, len(labels)), dtype=bool)
    allowed[np.arange(n), rng.integers(len(labels), size=n)] = True
    if options.pop("partial", False):
        allowed[rng.random(n) < 0.1] = True
    node = random_rows(rng, n, 200, values=options.pop("values", False), mean=6.0)
    arc = random_rows(rng, n, 5, values=False) if options.pop("arcs", False) else None
    topology = chain_topology(labels, options.pop("order", 1))
    return Problem(topology, offsets, node, arc, allowed, rng.random(90))


LARGER: dict[str, dict[str, Any]] = {
    "plain": {},
    "values": {"values": True},
    "partial": {"partial": True},
    "arcs": {"arcs": True, "labels": "ABC"},
    "order 2": {"order": 2, "labels": "ABCD"},
    "many labels": {"labels": [f"l{k}" for k in range(300)]},
}


@pytest.mark.thorough
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("options", LARGER.values(), ids=LARGER)
def test_threads_change_no_bit(options: dict[str, Any], precision: Precision, variant: str) -> None:
    problem = larger_case(11, **options)
    space = parameter_space(problem, ends=True)
    thetas = [np.random.default_rng(k).normal(size=space.size) for k in range(3)]
    runs = []
    for threads in (1, 2, 7, 1):
        likelihood = Likelihood(problem, space, l2=0.5, threads=threads, precision=precision)
        runs.append([likelihood(theta) for theta in thetas])
    for run in runs[1:]:
        for (value, gradient), (expected, slope) in zip(run, runs[0], strict=True):
            assert value == expected
            assert np.array_equal(gradient, slope)


@pytest.mark.thorough
@pytest.mark.parametrize("options", LARGER.values(), ids=LARGER)
def test_a_sum_over_sentences(options: dict[str, Any]) -> None:
    """Shards neither drop nor repeat a sentence: each alone adds up to all."""
    problem = larger_case(12, **options)
    space = parameter_space(problem, ends=True)
    theta = np.random.default_rng(0).normal(size=space.size)
    value, gradient = Likelihood(problem, space, l2=0.0)(theta)
    total, slope = 0.0, np.zeros(space.size)
    for b in range(len(problem.offsets) - 1):
        first, last = problem.offsets[b : b + 2].tolist()
        alone = Problem(
            problem.topology,
            np.asarray([0, last - first]),
            problem.node.slice(first, last),
            None if problem.arc is None else problem.arc.slice(first, last),
            problem.allowed[first:last],
            problem.weight[b : b + 1],
        )
        one, part = Likelihood(alone, space, l2=0.0)(theta)
        total, slope = total + one, slope + part
    assert value == pytest.approx(total, rel=VALUE)
    assert gradient == pytest.approx(slope, rel=GRADIENT, abs=GRADIENT * 10)


def test_calls_do_not_disturb_each_other() -> None:
    problem = larger_case(14)
    space = parameter_space(problem)
    one, other = Likelihood(problem, space, l2=0.5), Likelihood(problem, space, l2=0.5)
    theta = np.random.default_rng(0).normal(size=space.size)
    value, gradient = one(theta)
    kept = gradient.copy()
    for k in range(3):
        one(np.full(space.size, float(k)))
    assert np.array_equal(gradient, kept), "a result that was returned changed later"
    again, slope = one(theta)
    assert (value, other(theta)[0]) == (again, again)
    assert np.array_equal(slope, kept)
    assert one.evaluations == 5
    before = theta.copy()
    one(theta)
    assert np.array_equal(theta, before)


@pytest.mark.parametrize("bad", [1e300, np.nan, np.inf])
def test_numbers_out_of_range(bad: float) -> None:
    kinds: list[dict[str, Any]] = [{}, {"arcs": True}, {"partial": True}]
    for options in kinds:
        case = random_case(4, values=True, features="complete", **options)
        # Overflow on the way to the error is no news.
        with np.errstate(all="ignore"), pytest.raises(NumericError):
            Likelihood(case.problem, case.space, l2=0.0)(np.full(case.space.size, bad))


def test_allowed_labels_without_a_path() -> None:
    case = random_case(6, labels=BIO, legal=iob2, lengths=(2, 2))
    old = case.problem
    allowed = old.allowed.copy()
    allowed[2:] = [[False, False, True], [False, True, False]]  # O I-X
    with pytest.raises(DataError, match="sentence 1"):
        Problem(old.topology, old.offsets, old.node, None, allowed, old.weight)
    offsets = np.asarray([0, 2, 5])
    node = random_rows(np.random.default_rng(0), 5, 3, values=False)
    partial = np.vstack([allowed, [[True, True, True]]])
    problem = Problem(old.topology, offsets, node, None, partial, old.weight)
    space = parameter_space(problem, features="complete")
    with pytest.raises(DataError, match="sentence 1"):
        Likelihood(problem, space, l2=0.0)(np.zeros(space.size))


def test_a_state_that_cannot_be_reached_does_not_matter(variant: str) -> None:
    """Its backward row grows without bound: 300 tokens at 30 nats each."""
    del variant
    tokens = 300
    topology = chain_topology(
        ["A", "B"], 1, allowed=lambda before, after: after != "B" or before == "B"
    )
    one_each = SparseRows(
        np.arange(tokens + 1, dtype=np.int64), np.zeros(tokens, dtype=np.int32), None, 1
    )
    allowed = np.tile([True, False], (tokens, 1))
    offsets = np.asarray([0, tokens], dtype=np.int64)
    problem = Problem(topology, offsets, one_each, None, allowed, np.ones(1))
    space = parameter_space(problem, features="complete", transitions="all")
    theta = np.zeros(space.size)
    theta[1] = 30.0  # of B, which no sentence can begin with and A never turns into
    precisions: tuple[Precision, ...] = ("float32", "float64")
    for precision in precisions:
        likelihood = Likelihood(problem, space, l2=0.0, precision=precision)
        value, gradient = likelihood(theta)
        assert value == pytest.approx(0.0, abs=1e-3)
        assert gradient == pytest.approx(np.zeros(space.size), abs=1e-3)
