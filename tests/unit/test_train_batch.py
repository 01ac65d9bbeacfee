"""Batch optimisers: one law for all on convex problems, and what goes wrong with each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, OptionError
from fstcrf.ext.papers.conjugate_gradient import ConjugateGradient
from fstcrf.ext.papers.weightwise import (
    GISOptimiser,
    QuickProp,
    QuickPropOptimiser,
    largest_count,
)
from fstcrf.training import LBFGSOptimiser, Likelihood, Optimiser, fit, parameter_space, tied
from fstcrf.training.descent import LINE_SEARCHES, LineSearching, QuasiNewton
from fstcrf.training.preconditioning import DiagonalHessian, InUnits
from fstcrf.training.settings import Converging
from tests.support.problems import BIO_CASES, Case, iob2, random_case
from tests.unit.test_train_lbfgs import Counted, Function, quadratic, rosenbrock

Make = Callable[[Case, float], Optimiser]

EXACT: dict[str, Any] = {"epsilon": 1e-9, "delta": 0.0}


def likelihood(case: Case, l2: float) -> Likelihood:
    return Likelihood(case.problem, case.space, l2=l2, precision="float64")


def curvature(case: Case, l2: float) -> DiagonalHessian:
    return DiagonalHessian(case.problem, case.space, l2=l2)


def plain(case: Case, l2: float, **options: Any) -> Optimiser:
    return ConjugateGradient(
        likelihood(case, l2), np.zeros(case.space.size), LineSearching(**EXACT), **options
    )


def gis(case: Case, l2: float) -> Optimiser:
    start = np.zeros(case.space.size)
    return GISOptimiser(likelihood(case, l2), case.problem, case.space, start, Converging(**EXACT))


def in_units(case: Case, l2: float) -> Optimiser:
    start = np.zeros(case.space.size)
    unit = curvature(case, l2)(start) ** -0.35
    return InUnits(
        likelihood(case, l2),
        start,
        unit,
        lambda function, u: LBFGSOptimiser(function, u, QuasiNewton(**EXACT)),
    )


def lbfgs(case: Case, l2: float, **options: Any) -> Optimiser:
    start = np.zeros(case.space.size)
    return LBFGSOptimiser(likelihood(case, l2), start, QuasiNewton(**EXACT, **options))


def quickprop(case: Case, l2: float) -> Optimiser:
    start = np.zeros(case.space.size)
    return QuickPropOptimiser(likelihood(case, l2), start, QuickProp(**EXACT))


METHODS: dict[str, Make] = {
    **{
        f"l-bfgs, {search}, memory {memory}": partial(lbfgs, line_search=search, memory=memory)
        for search, memory in (("wolfe", 10), *product(LINE_SEARCHES, (1, 3)))
    },
    "quickprop": quickprop,
    "cg": plain,
    "cg, fletcher-reeves": lambda case, l2: plain(case, l2, formula="fletcher-reeves"),
    "preconditioned cg": lambda case, l2: plain(case, l2, preconditioner=curvature(case, l2)),
    "mixed cg": lambda case, l2: plain(
        case, l2, preconditioner=curvature(case, l2), preconditioned=3
    ),
    "gis": gis,
    "l-bfgs in other units": in_units,
}


@cache
def least(name: str) -> tuple[Case, Floats, float]:
    """Return a case, where scipy finds its minimum, and the value that the definition gives it."""
    case = random_case(3, lengths=(1, 3, 2, 1), **BIO_CASES[name])
    start, options = np.zeros(case.space.size), {"gtol": 1e-9}
    found = minimize(likelihood(case, 0.5), start, jac=True, method="BFGS", options=options).x
    return case, found, case.objective(found, l2=0.5)[0]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "method"),
    # Iterative scaling has no values below 0.
    [pair for pair in product(BIO_CASES, METHODS) if pair != ("complete", "gis")],
)
def test_the_minimum_that_scipy_finds(name: str, method: str) -> None:
    case, theta, value = least(name)
    outcome = fit(METHODS[method](case, 0.5), max_iterations=3000)
    assert outcome.theta == pytest.approx(theta, abs=1e-6)
    assert outcome.value == pytest.approx(value, rel=1e-9)
    assert outcome.iterations < 3000


@pytest.mark.parametrize("method", [name for name in METHODS if name != "quickprop"])
def test_the_value_never_rises(method: str) -> None:
    optimiser = METHODS[method](random_case(5, order=2), 0.05)
    values = [optimiser.step().value for _ in range(12)]
    assert values == sorted(values, reverse=True)


SEARCHING: dict[str, Callable[[Counted, Floats], Optimiser]] = {
    "l-bfgs": lambda function, start: LBFGSOptimiser(function, start, QuasiNewton(**EXACT)),
    "cg": lambda function, start: ConjugateGradient(function, start, LineSearching(**EXACT)),
}


@pytest.mark.parametrize("make", SEARCHING.values(), ids=SEARCHING)
def test_functions_that_are_not_convex(make: Callable[[Counted, Floats], Optimiser]) -> None:
    """A narrow valley, and a gradient that leads nowhere."""
    outcome = fit(make(Counted(rosenbrock, 2), np.asarray([-1.2, 1.0])), max_iterations=500)
    assert outcome.theta == pytest.approx([1.0, 1.0], abs=1e-6)
    wrong = Counted(lambda x: (float(x @ x), -2 * x), 2)
    outcome = fit(make(wrong, np.ones(2)), max_iterations=10)
    assert outcome.reason.startswith("no descent")
    assert outcome.theta.tolist() == [1.0, 1.0]
    assert outcome.iterations == 1


# --- Conjugate gradients -------------------------------------------------------------------------


def conjugate(function: Function, size: int, **options: Any) -> ConjugateGradient:
    """From zero, to the minimum."""
    start, settings = np.zeros(size), LineSearching(**EXACT)
    return ConjugateGradient(Counted(function, size), start, settings, **options)


def test_a_quadratic_takes_few_iterations() -> None:
    """Gradient descent would need some hundreds."""
    function, goal = quadratic(12, condition=100.0)
    outcome = fit(conjugate(function, 12), max_iterations=200)
    assert outcome.theta == pytest.approx(goal, abs=1e-6)
    assert outcome.iterations < 100


class Diagonal:
    """A preconditioner that is given."""

    def __init__(self, diagonal: Floats) -> None:
        self.diagonal, self.evaluations = diagonal, 0

    def __call__(self, theta: Floats) -> Floats:
        self.evaluations += 1
        return np.broadcast_to(self.diagonal, theta.shape)


def badly_scaled(size: int) -> tuple[Callable[[Floats], tuple[float, Floats]], Floats]:
    diagonal = np.geomspace(1.0, 1e6, size)
    return lambda x: (0.5 * float(diagonal @ (x - 1) ** 2), diagonal * (x - 1)), diagonal


def test_the_true_hessian_makes_it_newton_s_method() -> None:
    function, diagonal = badly_scaled(20)
    outcome = fit(conjugate(function, 20, preconditioner=Diagonal(diagonal)), max_iterations=50)
    assert outcome.iterations == 1
    assert outcome.theta == pytest.approx(np.ones(20), abs=1e-9)


def test_the_preconditioner_is_left_after_some_iterations() -> None:
    function, diagonal = badly_scaled(6)
    known = Diagonal(np.sqrt(diagonal))
    optimiser = conjugate(function, 6, preconditioner=known, preconditioned=4, refresh=2)
    steps = [optimiser.step() for _ in range(9)]
    assert known.evaluations == 2
    assert steps[-1].evaluations == optimiser.objective.evaluations + 2


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_preconditioner_that_is_none(bad: float) -> None:
    """The first one is an error; a later one ends training with the weights so far."""
    function, diagonal = badly_scaled(3)

    class Later(Diagonal):
        def __call__(self, theta: Floats) -> Floats:
            out = super().__call__(theta).copy()
            out[1] = bad if self.evaluations > 2 else out[1] * 20
            return out

    optimiser = conjugate(function, 3, preconditioner=Later(diagonal), refresh=1)
    outcome = fit(optimiser, max_iterations=50)
    assert outcome.reason.startswith("diverged after iteration 2: the preconditioner of weight 1")
    assert outcome.iterations == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"formula": "dai-yuan"}, "'dai-yuan' is unknown; there are 'polak-ribiere'"),
        ({"preconditioned": 3}, "preconditioned is 3, expected a preconditioner"),
        ({"preconditioned": 0, "preconditioner": Diagonal(np.ones(1))}, "expected at least 1"),
        ({"refresh": 0}, "refresh is 0"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        ConjugateGradient(Counted(rosenbrock, 2), np.zeros(2), **options)


# --- The diagonal of the Hessian -----------------------------------------------------------------


def without_repeats(case: Case) -> Case:
    """An attribute twice at a token counts as two, which is only about right."""
    rows = case.problem.node
    kept, counts = [], []
    for a, b in zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True):
        first = np.unique(rows.index[a:b], return_index=True)[1] + a
        kept.append(first)
        counts.append(len(first))
    entry = np.concatenate(kept)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    value = None if rows.value is None else rows.value[entry]
    node = replace(rows, indptr=indptr, index=rows.index[entry], value=value)
    return replace(case, problem=replace(case.problem, node=node))


@pytest.mark.parametrize("options", BIO_CASES.values(), ids=BIO_CASES)
def test_it_is_the_sum_of_variances_at_tokens(options: dict[str, Any]) -> None:
    """By enumeration of all paths, token after token, for attributes of labels."""
    case = without_repeats(random_case(4, lengths=(2, 3), **options))
    theta = np.random.default_rng(4).normal(size=case.space.size)
    found = curvature(case, 0.25)(theta) - 0.5
    problem, space = case.problem, case.space
    expected = np.zeros(len(space.node_cells))
    for b in range(case.n_sentences):
        paths = case.paths(b)
        scores = np.asarray([case.features(b, path) @ theta for path in paths])
        share = np.exp(scores - scores.max())
        share /= share.sum()
        first, last = problem.offsets[b : b + 2].tolist()
        for token in range(first, last):
            mean, square = np.zeros_like(expected), np.zeros_like(expected)
            for p, path in zip(share.tolist(), paths, strict=True):
                counts = at_token(
                    case, token, case._states(path)[token - first], path[token - first]
                )
                mean += p * counts
                square += p * counts**2
            expected += problem.weight[b] * (square - mean**2)
    assert found[: len(expected)] == pytest.approx(expected, rel=1e-6, abs=1e-12)


def at_token(case: Case, token: int, state: str, label: int) -> Floats:
    """Values of the node features of one token."""
    rows, space = case.problem.node, case.space
    slots = {case.labels[label], state} if case.order == 2 else {case.labels[label]}
    entries = range(int(rows.indptr[token]), int(rows.indptr[token + 1]))
    values = {
        int(rows.index[e]): 1.0 if rows.value is None else float(rows.value[e]) for e in entries
    }
    names = space.topology.node_slot_names
    return np.asarray(
        [
            values.get(cell // space.width, 0.0) * (names[cell % space.width] in slots)
            for cell in space.node_cells.tolist()
        ]
    )


def test_tied_attributes_have_one_curvature() -> None:
    case = random_case(11, attributes=3)
    twice = replace(case.problem.node, index=case.problem.node.index % 2, n_columns=4)
    problem = replace(case.problem, node=twice)
    space = parameter_space(problem, features="complete")
    merged, inner, sharing = tied(problem, space)
    scale = np.sqrt(sharing.members)
    theta = sharing.expand(np.random.default_rng(0).normal(size=inner.size))
    apart = DiagonalHessian(problem, space, l2=0.5)(theta)
    together = DiagonalHessian(merged, inner, l2=0.5, scale=scale)(sharing.reduce(theta))
    # Of m tied weights with curvature h: m h + penalty, for a parameter √m times as long.
    m = scale[sharing.place] ** 2
    assert together[sharing.place] - 1.0 == pytest.approx((apart - 1.0) * m, rel=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"order": 0},
        {"transitions": "all"},
        {"ends": True, "weights": True},
        {"values": True, "features": "complete"},
        {"labels": ("B-X", "I-X", "O"), "legal": iob2, "ends": True},
    ],
)
def test_the_sweep_tells_the_same_curvature(options: dict[str, Any], variant: str) -> None:
    case = random_case(7, **options)
    theta = 2.0 * np.random.default_rng(0).normal(size=case.space.size)
    members = 1 + np.arange(case.space.size, dtype=np.int32) % 4
    for shared in (None, members):
        scale = None if shared is None else np.sqrt(shared)
        fused = Likelihood(case.problem, case.space, l2=0.5, members=shared).curvature(theta)
        wanted = DiagonalHessian(case.problem, case.space, l2=0.5, scale=scale)(theta)
        assert fused is not None
        assert fused == pytest.approx(wanted, rel=1e-4)
    assert likelihood(case, 0.5).curvature(theta) is None


def test_the_curvature_of_what_float32_cannot_hold() -> None:
    """Of arcs, no more than what is expected; the rest is the same."""
    case = random_case(7, transitions="all", ends=True)
    theta = 60.0 * np.random.default_rng(0).normal(size=case.space.size)
    fused = Likelihood(case.problem, case.space, l2=0.5).curvature(theta)
    wanted = DiagonalHessian(case.problem, case.space, l2=0.5)(theta)
    assert fused is not None
    arcs = slice(*case.space.bounds[1:3])
    assert (fused[arcs] >= wanted[arcs] - 1e-4).all()
    assert np.delete(fused, np.r_[arcs]) == pytest.approx(np.delete(wanted, np.r_[arcs]), rel=1e-4)


def test_no_preconditioner_without_a_penalty() -> None:
    with pytest.raises(OptionError, match=r"l2 is 0\.0"):
        curvature(random_case(1), 0.0)


# --- Iterative scaling ---------------------------------------------------------------------------


@pytest.mark.parametrize("options", BIO_CASES.values(), ids=BIO_CASES)
def test_the_largest_count_of_features(options: dict[str, Any]) -> None:
    case = random_case(6, **options | {"values": False})
    counts = [
        case.features(b, path).sum() for b in range(case.n_sentences) for path in case.paths(b)
    ]
    assert largest_count(case.problem, case.space) == pytest.approx(max(1.0, *counts))


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_a_step_of_scaling_solves_its_equation(l2: float) -> None:
    case = random_case(9, lengths=(3, 4))
    objective = likelihood(case, l2)
    optimiser = GISOptimiser(objective, case.problem, case.space, np.zeros(case.space.size))
    _, gradient = objective(optimiser.theta())
    expected = gradient + objective.observed
    optimiser.step()
    delta = optimiser.theta()
    right = expected * np.exp(optimiser.constant * delta) + 2 * l2 * delta
    assert right == pytest.approx(objective.observed, rel=1e-9)


def test_scaling_refuses_what_it_is_not_for() -> None:
    negative = random_case(1, values=True)
    with pytest.raises(OptionError, match="a value below 0"):
        gis(negative, 0.5)
    with pytest.raises(OptionError, match="labels that are not known"):
        gis(random_case(1, partial=True), 0.5)
    never = random_case(1, features="complete")
    with pytest.raises(OptionError, match="never occurs"):
        gis(never, 0.0)
    case = random_case(1)
    with pytest.raises(OptionError, match="epsilon is -1"):
        GISOptimiser(
            likelihood(case, 0.5),
            case.problem,
            case.space,
            np.zeros(case.space.size),
            Converging(epsilon=-1),
        )


def test_scaling_that_overflows_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    optimiser = gis(random_case(1), 0.5)
    optimiser.step()
    monkeypatch.setattr(optimiser, "_gradient", np.full(len(optimiser.theta()), np.nan))
    with pytest.raises(NumericError, match="the change of weight 0 is nan"):
        optimiser.step()
