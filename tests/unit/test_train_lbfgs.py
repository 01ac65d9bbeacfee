"""L-BFGS: convex problems, hard ones, and those where the line search fails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError
from fstcrf.training import LBFGSOptimiser, fit
from fstcrf.training.descent import LINE_SEARCHES, Line, QuasiNewton

Function = Callable[[Floats], tuple[float, Floats]]


class Counted:
    """A function as an objective."""

    def __init__(self, function: Function, size: int) -> None:
        self.function, self.size, self.evaluations = function, size, 0

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        self.evaluations += 1
        return self.function(theta)


def quadratic(size: int, *, condition: float = 1e3) -> tuple[Function, Floats]:
    rng = np.random.default_rng(size)
    basis, _ = np.linalg.qr(rng.normal(size=(size, size)))
    matrix = basis @ np.diag(np.geomspace(1.0, condition, size)) @ basis.T
    goal = rng.normal(size=size)

    def function(theta: Floats) -> tuple[float, Floats]:
        slope = matrix @ (theta - goal)
        return 0.5 * float((theta - goal) @ slope), slope

    return function, goal


def rosenbrock(theta: Floats) -> tuple[float, Floats]:
    x, y = theta.tolist()
    value = (1 - x) ** 2 + 100 * (y - x * x) ** 2
    return value, np.asarray([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)])


def test_nothing_to_do_at_the_minimum() -> None:
    function, goal = quadratic(4)
    objective = Counted(function, 4)
    step = LBFGSOptimiser(objective, goal).step()
    assert step.done is not None
    assert objective.evaluations == 1
    empty = LBFGSOptimiser(Counted(lambda theta: (0.0, theta), 0), np.empty(0))
    assert fit(empty, max_iterations=5).theta.shape == (0,)


def test_too_little_gained_ends() -> None:
    function, _ = quadratic(30, condition=1e6)
    optimiser = LBFGSOptimiser(
        Counted(function, 30), np.zeros(30), QuasiNewton(epsilon=0.0, delta=0.5, period=3)
    )
    outcome = fit(optimiser, max_iterations=500)
    assert outcome.reason == "less than 0.5 gained in 3 iterations"


def test_the_start_is_copied() -> None:
    function, _ = quadratic(3)
    start = np.zeros(3)
    LBFGSOptimiser(Counted(function, 3), start).step()
    assert not start.any()


def test_numbers_out_of_range_shorten_the_step() -> None:
    """The function exists near the minimum only; the first steps lead out of there."""

    def barrier(theta: Floats) -> tuple[float, Floats]:
        if float(theta[0]) >= 1.0:
            raise NumericError("out of range")
        # -100 x - log(1 - x): minimum at 0.99
        x = float(theta[0])
        return -100 * x - float(np.log1p(-x)), np.asarray([-100 + 1 / (1 - x)])

    optimiser = LBFGSOptimiser(
        Counted(barrier, 1), np.zeros(1), QuasiNewton(epsilon=1e-8, delta=0.0)
    )
    outcome = fit(optimiser, max_iterations=100)
    assert outcome.theta == pytest.approx([0.99], abs=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_out_of_range_shorten_the_step(bad: float) -> None:
    def walled(theta: Floats) -> tuple[float, Floats]:
        x = float(theta[0])
        if x > 0.5:
            return bad, np.asarray([bad])
        return (x - 0.4) ** 2, np.asarray([2 * (x - 0.4)])

    # The steepest descent's first step is 0.8 long.
    outcome = fit(
        LBFGSOptimiser(Counted(walled, 1), np.zeros(1), QuasiNewton(delta=0.0)), max_iterations=100
    )
    assert outcome.theta == pytest.approx([0.4], abs=1e-4)


def test_an_error_at_the_start_is_raised() -> None:
    def never(theta: Floats) -> tuple[float, Floats]:
        raise NumericError("never")

    with pytest.raises(NumericError, match="never"):
        fit(LBFGSOptimiser(Counted(never, 1), np.zeros(1)), max_iterations=3)


def test_an_unbounded_function_does_not_loop() -> None:
    objective = Counted(lambda x: (-float(x.sum()), -np.ones(2)), 2)
    outcome = fit(
        LBFGSOptimiser(objective, np.zeros(2), QuasiNewton(epsilon=0.0)), max_iterations=5
    )
    assert outcome.value < -1e3
    assert objective.evaluations < 150


def test_a_kink_ends() -> None:
    """|x| has no curvature to satisfy: the best point that descends is taken."""
    objective = Counted(lambda x: (float(np.abs(x).sum()), np.sign(x)), 1)
    outcome = fit(LBFGSOptimiser(objective, np.asarray([0.3])), max_iterations=50)
    assert abs(outcome.theta[0]) < 0.01
    assert objective.evaluations < 1000


def test_misleading_memory_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    function, goal = quadratic(5)
    optimiser = LBFGSOptimiser(
        Counted(function, 5), np.zeros(5), QuasiNewton(epsilon=1e-9, delta=0.0)
    )
    for _ in range(4):
        before = optimiser.step().value
    direction = optimiser._pairs.direction
    monkeypatch.setattr(
        optimiser._pairs,
        "direction",
        lambda gradient: gradient if optimiser._pairs.used else direction(gradient),
    )
    assert optimiser.step().value < before
    assert optimiser._pairs.used == 1
    monkeypatch.undo()
    outcome = fit(optimiser, max_iterations=200)
    assert outcome.theta == pytest.approx(goal, abs=1e-6)
    assert "gradient norm" in outcome.reason


def test_trials_are_limited() -> None:
    limited = LBFGSOptimiser(
        Counted(rosenbrock, 2), np.asarray([-1.2, 1.0]), QuasiNewton(max_line_search=2)
    )
    for _ in range(30):
        assert limited.step().measures["trials"] <= 4  # twice, where it starts afresh


def along(slope_at: Callable[[float], float], value_at: Callable[[float], float]) -> Line:
    """A line whose parameter is the only coordinate."""

    def evaluate(theta: Floats) -> tuple[float, Floats]:
        return value_at(float(theta[0])), np.asarray([slope_at(float(theta[0]))])

    return Line(evaluate, np.zeros(1), np.ones(1), value_at(0.0), slope_at(0.0))


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 20.0, 1e4])
def test_the_conditions_of_line_searches(scale: float) -> None:
    """The minimum is at `scale`: much nearer or farther than the first step."""

    def line() -> Line:
        return along(lambda x: x / scale - 1.0, lambda x: 0.5 * x * x / scale - x)

    for name, search in LINE_SEARCHES.items():
        point = search(line(), 40)
        assert point is not None
        slope = point.length / scale - 1.0
        assert point.value <= -1e-4 * point.length
        assert slope >= -0.9
        if name != "backtracking":
            assert abs(slope) <= 0.9


def test_a_bracket_holds_the_minimum() -> None:
    """Behind the first step and the start, the second trial falls short of the minimum."""

    def value(x: float) -> float:
        return (x - 0.8) ** 2 + 4.0 * x**8 - 2.0 * x

    def slope(x: float) -> float:
        return 2.0 * (x - 0.8) + 32.0 * x**7 - 2.0

    line = along(slope, value)
    line.steepest = 1e-6
    point = LINE_SEARCHES["wolfe"](line, 40)
    assert point is not None
    assert abs(slope(point.length)) <= 1e-6
    assert line.trials < 30


def test_within_the_noise_slopes_decide() -> None:
    """Values are rounded so much that each step seems to rise; the minimum is at 1/2."""

    def value(x: float) -> float:
        return 5.0 if x == 0.0 else 5.0 + 1e-3

    line = along(lambda x: 2e-4 * (x - 0.5), value)
    assert LINE_SEARCHES["wolfe"](line, 20) is None
    line = along(lambda x: 2e-4 * (x - 0.5), value)
    line.noise, line.steepest = 1e-2, 1e-5
    point = LINE_SEARCHES["wolfe"](line, 20)
    assert point is not None
    assert point.length == pytest.approx(0.5, abs=0.06)
    assert line.trials <= 8
