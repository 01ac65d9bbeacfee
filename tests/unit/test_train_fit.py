"""The loop: which weights are kept, why it ends, and how it goes on."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fstcrf.arrays import Floats
from fstcrf.errors import ModelFileError, NumericError, OptionError
from fstcrf.ext.course import Course
from fstcrf.storage import write_arrays
from fstcrf.training import (
    Checkpoint,
    Outcome,
    Progress,
    Step,
    fit,
)
from fstcrf.training.arguments import Run
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.loop import KIND, VERSION, saved_iteration
from fstcrf.training.options import structured
from tests.support.interrupts import interrupt_at


class Counter:
    """An optimiser whose weights are the number of its steps."""

    def __init__(
        self, *, last: int | None = None, fails: dict[int, BaseException] | None = None
    ) -> None:
        self.steps, self.last, self.fails = 0, last, fails or {}

    def step(self) -> Step:
        if self.steps + 1 in self.fails:
            raise self.fails[self.steps + 1]
        self.steps += 1
        done = "the end" if self.steps == self.last else None
        return Step(100.0 - self.steps, None, self.steps, done)

    def theta(self) -> Floats:
        return np.asarray([float(self.steps)])

    def state(self) -> dict[str, NDArray[Any]]:
        return {"steps": np.asarray([self.steps])}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.steps = int(state["steps"][0])


def kept(path: Path, *, resume: bool = False, **options: Any) -> Checkpoint:
    return Checkpoint(path, fingerprint="f", resume=resume, **options)


def scores(*values: float) -> Callable[[Floats], float]:
    return lambda theta: values[int(theta[0]) - 1]


def test_without_held_out_data_the_last_weights_are_kept() -> None:
    outcome = fit(Counter(last=4), max_iterations=10, patience=1)
    assert outcome.theta.tolist() == [4.0]
    assert (outcome.iterations, outcome.best_iteration, outcome.value) == (4, 4, 96.0)
    assert (outcome.dev, outcome.reason, outcome.interrupted) == (None, "the end", False)


def test_the_best_iteration_is_kept() -> None:
    outcome = fit(Counter(), max_iterations=5, evaluate=scores(0.1, 0.8, 0.3, 0.8, 0.2))
    assert outcome.theta.tolist() == [2.0], "of equal scores the earlier one"
    assert (outcome.iterations, outcome.best_iteration, outcome.dev) == (5, 2, 0.8)
    assert outcome.value == 95.0


def test_patience() -> None:
    outcome = fit(
        Counter(), max_iterations=9, patience=2, evaluate=scores(0.5, 0.4, 0.6, 0.1, 0.1, 0.9)
    )
    assert (outcome.iterations, outcome.best_iteration) == (5, 3)
    assert outcome.reason == "no better score on held-out data for 2 iterations"


def test_a_score_that_is_no_number_is_never_the_best() -> None:
    outcome = fit(
        Counter(), max_iterations=9, patience=3, evaluate=scores(np.nan, 0.2, np.nan, *[0.1] * 9)
    )
    assert (outcome.best_iteration, outcome.dev, outcome.iterations) == (2, 0.2, 5)
    never = fit(Counter(), max_iterations=9, patience=3, evaluate=lambda _: np.nan)
    assert (never.theta.tolist(), never.best_iteration, never.dev) == ([0.0], 0, None)


def test_reports() -> None:
    told: list[Progress] = []
    fit(Counter(), max_iterations=3, evaluate=scores(0.1, 0.3, 0.2), report=told.append)
    assert [(p.iteration, p.value, p.dev, p.best) for p in told] == [
        (1, 99.0, 0.1, True),
        (2, 98.0, 0.3, True),
        (3, 97.0, 0.2, False),
    ]
    assert all(0 <= p.seconds < 60 and p.evaluations == p.iteration for p in told)


def test_an_interrupt_keeps_the_best() -> None:
    outcome = fit(
        Counter(),
        max_iterations=9,
        evaluate=scores(0.1, 0.9, 0.2),
        report=interrupt_at(3),
        keep_on_interrupt=True,
    )
    assert outcome.interrupted
    assert (outcome.theta.tolist(), outcome.dev) == ([2.0], 0.9)
    assert outcome.reason == "interrupted after iteration 3"


def test_an_interrupt_in_the_middle_of_a_step() -> None:
    counter = Counter(fails={3: KeyboardInterrupt()})
    outcome = fit(counter, max_iterations=9, keep_on_interrupt=True)
    assert (outcome.theta.tolist(), outcome.interrupted, outcome.iterations) == ([2.0], True, 2)


def test_an_interrupt_is_raised_where_there_is_nothing_to_keep() -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(Counter(), max_iterations=9, report=interrupt_at(2))
    for counter, evaluate in (
        (Counter(fails={1: KeyboardInterrupt()}), None),
        (Counter(), lambda _: (_ for _ in ()).throw(KeyboardInterrupt)),
    ):
        with pytest.raises(KeyboardInterrupt):
            fit(counter, max_iterations=9, evaluate=evaluate, keep_on_interrupt=True)


def test_divergence() -> None:
    outcome = fit(Counter(fails={3: NumericError("too far")}), max_iterations=9)
    assert outcome.theta.tolist() == [2.0]
    assert outcome.reason == "diverged after iteration 2: too far"
    with pytest.raises(NumericError, match="too far"):
        fit(Counter(fails={1: NumericError("too far")}), max_iterations=9)


def test_divergence_keeps_the_weights_of_least_value() -> None:
    class Bounces(Counter):
        """Values 9, 4, 1, 4, 9, then no number."""

        def step(self) -> Step:
            return replace(super().step(), value=float((self.steps - 3) ** 2))

    def bounces() -> Counter:
        return Bounces(fails={6: NumericError("too far")})

    outcome = fit(bounces(), max_iterations=9)
    assert (outcome.theta.tolist(), outcome.best_iteration, outcome.iterations) == ([3.0], 3, 5)
    assert outcome.reason == "diverged after iteration 5: too far"
    scored = fit(bounces(), max_iterations=9, evaluate=scores(1, 2, 3, 5, 4))
    assert scored.theta.tolist() == [4.0]
    assert fit(Bounces(), max_iterations=5).theta.tolist() == [5.0]


def test_divergence_keeps_the_start_where_nothing_better_is_known(tmp_path: Path) -> None:
    class Rises(Counter):
        """Values 1, 2, 3, ...: those of the weights before each step may be meant."""

        def step(self) -> Step:
            return replace(super().step(), value=float(self.steps))

    def rises(last: int) -> Counter:
        return Rises(fails={last: NumericError("too far")})

    for last in (2, 4):
        outcome = fit(rises(last), max_iterations=9)
        assert (outcome.theta.tolist(), outcome.best_iteration) == ([0.0], 0)
        assert outcome.iterations == last - 1
        assert outcome.reason.endswith("too far; the weights kept are those at the start")
    scored = fit(rises(4), max_iterations=9, evaluate=scores(1, 2, 1))
    assert (scored.theta.tolist(), scored.dev) == ([2.0], 2)
    path = tmp_path / "run"  # where a run goes on, the start is still that of the run
    fit(Rises(), max_iterations=3, checkpoint=kept(path))
    resumed = fit(rises(6), max_iterations=9, checkpoint=kept(path, resume=True))
    assert (resumed.theta.tolist(), resumed.best_iteration) == ([0.0], 0)


@pytest.mark.parametrize("values", [[10, 5, 8, 9], [10, 5, 8, 3], [5, 8, 9, 6], [5, 5, 5, 5]])
@pytest.mark.parametrize("stop", [1, 2, 3, 4])
@pytest.mark.parametrize("held_out", [False, True])
def test_divergence_after_a_resume_is_that_of_an_uninterrupted_run(
    values: list[float], stop: int, held_out: bool, tmp_path: Path
) -> None:
    class Course(Counter):
        def step(self) -> Step:
            step = super().step()
            return replace(step, value=float(values[self.steps - 1]))

    def course(report: Callable[[Progress], None] | None, state: Checkpoint | None) -> Outcome:
        return fit(
            Course(fails={5: NumericError("too far")}),
            max_iterations=9,
            evaluate=scores(0.1, 0.4, 0.4, 0.3) if held_out else None,
            report=report,
            checkpoint=state,
        )

    whole, path = course(None, None), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        course(interrupt_at(stop), kept(path, every=None))
    resumed = course(None, kept(path, resume=True))
    assert resumed.theta.tolist() == whole.theta.tolist()
    assert replace(resumed, theta=whole.theta) == whole


def test_the_weights_kept_are_a_copy() -> None:
    class InPlace(Counter):
        weights = np.zeros(1)

        def theta(self) -> Floats:
            self.weights[0] = self.steps
            return self.weights

    outcome = fit(InPlace(), max_iterations=3, evaluate=scores(0.1, 0.9, 0.2))
    assert outcome.theta.tolist() == [2.0]


# --- Checkpoints ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"evaluate": scores(0.3, *[0.2] * 20), "patience": 4}], ids=["done", "patience"]
)
def test_a_run_that_has_ended_is_not_continued(options: dict[str, Any], tmp_path: Path) -> None:
    first, again = (
        fit(
            Counter(last=8),
            max_iterations=limit,
            checkpoint=kept(tmp_path / "run", resume=limit > 50),
            **options,
        )
        for limit in (50, 100)
    )
    assert (again.iterations, again.reason) == (first.iterations, first.reason)
    assert np.array_equal(again.theta, first.theta)


def test_a_run_may_be_given_more_iterations(tmp_path: Path) -> None:
    for limit, resume in ((4, False), (6, True), (5, True)):
        state = kept(tmp_path / "run", resume=resume)
        outcome = fit(Counter(), max_iterations=limit, checkpoint=state)
    assert outcome.iterations == 6, "what is done is not undone"
    assert outcome.theta.tolist() == [6.0]


def test_without_resume_a_checkpoint_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run"
    fit(Counter(), max_iterations=4, checkpoint=kept(path))
    before = path.read_bytes()
    with pytest.raises(OptionError, match="run exists and holds the state of an earlier run"):
        kept(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("every", [None, 1, 2, 4, 10])
@pytest.mark.parametrize("stop", [1, 3, 6])
@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_a_run_that_is_ended_goes_on_from_the_last_state(
    every: int | None, stop: int, end: type[BaseException], tmp_path: Path
) -> None:
    """An interrupt saves that of its iteration; what is killed has the last checkpoint."""

    def report(progress: Progress) -> None:
        if progress.iteration == stop:
            raise end

    def run(tell: Callable[[Progress], None], *, resume: bool) -> Outcome:
        state = kept(tmp_path / "run", every=every, resume=resume)
        held_out = scores(0.1, 0.9, *[0.2] * 9)
        return fit(Counter(), max_iterations=9, evaluate=held_out, report=tell, checkpoint=state)

    with pytest.raises(end):
        run(report, resume=False)
    told: list[Progress] = []
    outcome = run(told.append, resume=True)
    saved = stop if end is KeyboardInterrupt else (stop - 1) // every * every if every else 0
    assert [p.iteration for p in told] == list(range(saved + 1, 10))
    assert (outcome.theta.tolist(), outcome.best_iteration, outcome.dev) == ([2.0], 2, 0.9)


class Signalled(Counter):
    """Ctrl-C comes in the midst of a step, so many times."""

    def __init__(self, at: int, times: int) -> None:
        super().__init__()
        self.at, self.times = at, times

    def step(self) -> Step:
        step = super().step()
        if self.steps == self.at:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)
        self.marked = self.steps
        return step


def test_an_interrupt_in_the_midst_of_an_iteration_waits_for_its_end(tmp_path: Path) -> None:
    path, handler = tmp_path / "run", signal.getsignal(signal.SIGINT)
    state = kept(path, every=None)
    outcome = fit(Signalled(3, 1), max_iterations=9, checkpoint=state, keep_on_interrupt=True)
    assert (outcome.interrupted, outcome.iterations, outcome.theta.tolist()) == (True, 3, [3.0])
    assert saved_iteration(path) == 3
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_interrupt_ends_an_iteration_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run"
    state = kept(path, every=2)
    outcome = fit(Signalled(4, 2), max_iterations=9, checkpoint=state, keep_on_interrupt=True)
    assert (outcome.interrupted, outcome.iterations, outcome.theta.tolist()) == (True, 3, [3.0])
    assert saved_iteration(path) == 2, "the optimiser was in no state to save"


def test_an_interrupt_keeps_the_best_where_the_state_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run")

    monkeypatch.setattr(Checkpoint, "save", full)

    def run(name: str, *, keep: bool) -> Outcome:
        state = kept(tmp_path / name, every=None)
        return fit(
            Counter(),
            max_iterations=9,
            report=interrupt_at(3),
            checkpoint=state,
            keep_on_interrupt=keep,
        )

    outcome = run("one", keep=True)
    assert outcome.theta.tolist() == [3.0]
    assert "its state could not be saved: " in outcome.reason
    with pytest.raises(OSError, match="No space left"):
        run("two", keep=False)


def test_a_checkpoint_of_an_older_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write_arrays(path, {"best": np.zeros(1)}, {"fingerprint": "f"}, kind=KIND, version=VERSION - 1)
    with pytest.raises(ModelFileError, match="run: format version '2', this fstcrf reads 3") as old:
        kept(path, resume=True).restore(Counter())
    assert "\n" not in str(old.value)
    with pytest.raises(ModelFileError, match="format version '2'"):
        saved_iteration(path)


def test_when_checkpoints_are_due(tmp_path: Path) -> None:
    checkpoint = kept(tmp_path / "run", every=3, resume=True)
    assert [n for n in range(1, 10) if checkpoint.due(n)] == [3, 6, 9]
    assert checkpoint.restore(Counter()) is None, "nothing to resume is no error"
    with pytest.raises(OptionError, match="every 0 iterations"):
        kept(tmp_path / "run", every=0, resume=True)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    fit(Counter(), max_iterations=2, checkpoint=kept(path))
    with pytest.raises(ModelFileError, match="run: belongs to a run with other data or options"):
        Checkpoint(path, fingerprint="other", resume=True).restore(Counter())
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], b"", b"hello", whole[:-2] + b"xx"):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=str(path)):
            kept(path, resume=True).restore(Counter())


def test_a_checkpoint_that_cannot_be_written_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        kept(tmp_path / "nowhere" / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_course_is_read_from_arguments() -> None:
    course = Course.of("lbfgs", l2=0.25, run=Run(threads=2))
    assert course == Course(LBFGS(l2=0.25, max_iterations=200, delta=1e-4), Run(threads=2))
    method = Course.of(LBFGS(l1=0.5, delta=0.1), usual={"period": 3}).method
    assert method == LBFGS(l2=1.0, l1=0.5, max_iterations=200, delta=0.1, period=3)
    assert Course.of("lbfgs", l2=2.0, usual={"l2": 0.1}).l2 == 2.0
    with pytest.raises(OptionError, match="threads is 0"):
        Course.of("lbfgs", run=Run(threads=0))
    with pytest.raises(OptionError, match="seed is no option of this training; it has l2, l1"):
        Course.of("lbfgs", run=Run(seed=1))
    with pytest.raises(OptionError, match="unknown training option 'breadth'"):
        structured({"breadth": 3})
