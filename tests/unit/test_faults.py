"""Every write, sync and rename fails in turn: the old state or the new one, never neither."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Self

import pytest
from click.testing import CliRunner

import fstcrf
from fstcrf import CRF, files
from fstcrf.cli.main import main
from fstcrf.ext.feedback import FeedbackLearner, untrained
from fstcrf.taggers.pipelines import Pipeline, Task, load_pipeline

DATA = [{"w": list("abcab"), "y": list("XYZXY")}, {"w": list("ca"), "y": list("ZX")}]
TEMPLATE = "U:%x[0,w]\nB"
STEPS = [7, pytest.param(1, marks=pytest.mark.slow)]
"""Which steps fail: one of seven, or every one."""


class Disk:
    """Counts what reaches the disk, and fails at one step; from there on, where it is full."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps, self.fail_at, self.stays_full = 0, 0, False
        for owner, name in ((os, "fsync"), (os, "write"), (Path, "replace")):
            patch.setattr(owner, name, self.failing(getattr(owner, name)))
        created = files._created

        def opened(*arguments: Any) -> Any:
            return Written(self.failing(created)(*arguments), self)

        patch.setattr(files, "_created", opened)

    def failing(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            self.step()
            return work(*arguments)

        return step

    def step(self) -> None:
        self.steps += 1
        late = self.stays_full and 0 < self.fail_at < self.steps
        if self.steps == self.fail_at or late:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Written:
    """A file, half of whose failing write is there."""

    def __init__(self, file: BinaryIO, disk: Disk) -> None:
        self.file, self.disk = file, disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, data: Any) -> int:
        try:
            self.disk.step()
        except OSError:
            self.file.write(memoryview(data)[: memoryview(data).nbytes // 2])
            raise
        return self.file.write(data)


def tagger(labels: str) -> CRF:
    data = [{"w": list("abc"), "y": list(labels)}]
    return CRF.train(data, "y", TEMPLATE, max_iterations=2)


def each_failure(
    monkeypatch: pytest.MonkeyPatch,
    begin: Callable[[], None],
    act: Callable[[], object],
    check: Callable[[], None],
    *,
    full: bool = True,
    every: int = 1,
) -> int:
    """Let every step of `act` fail in turn, after `begin`; return how many there are.

    `full`: once more, with all later steps failing, too. `every`: of so many steps, one fails.
    """
    with monkeypatch.context() as patch:
        disk = Disk(patch)
        begin()
        disk.steps = 0
        act()
        total = disk.steps
    for stays_full in (False, True)[: 1 + full]:
        for number in range(1, total + 1, every):
            begin()
            with monkeypatch.context() as patch:
                disk = Disk(patch)
                disk.fail_at, disk.stays_full = number, stays_full
                try:
                    act()
                except OSError as error:
                    assert error.errno == errno.ENOSPC, (number, error)  # noqa: PT017
            check()
    return total


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.name.endswith(".tmp")}


def test_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, old, new = tmp_path / "m", tagger("XYZ"), tagger("ZYX")

    def check() -> None:
        found = fstcrf.load(path).tag([("a",), ("b",), ("c",)])
        assert found in (list("XYZ"), list("ZYX"))
        assert not left(tmp_path)

    steps = each_failure(monkeypatch, lambda: old.save(path), lambda: new.save(path), check)
    assert steps > 5


@pytest.mark.thorough
@pytest.mark.parametrize("every", STEPS)
def test_training_with_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    path = tmp_path / "checkpoint"
    options: dict[str, Any] = {"checkpoint": path, "checkpoint_every": 1, "max_iterations": 4}
    whole = CRF.train(DATA, "y", TEMPLATE, max_iterations=4)

    def check() -> None:
        again = CRF.train(DATA, "y", TEMPLATE, resume=True, **options)
        assert again.theta.tolist() == whole.theta.tolist()
        assert not left(tmp_path)

    def begin() -> None:
        path.unlink(missing_ok=True)

    def act() -> None:
        CRF.train(DATA, "y", TEMPLATE, **options)

    assert each_failure(monkeypatch, begin, act, check, every=every) > 10


@pytest.mark.thorough
@pytest.mark.parametrize("every", STEPS)
def test_pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    rows = [{**s, "z": ["P"] * len(s["w"])} for s in DATA]
    options: dict[str, Any] = {"max_iterations": 2}
    tasks = [
        Task("y", rows, TEMPLATE, options=options),
        Task("z", rows, "U:%x[0,w]\nU:%y[0,y]\nB", reads=["y"], options=options),
    ]
    wanted = Pipeline(tasks).train().tag({"w": list("abc")})
    rounds = iter(range(1000))
    folder = tmp_path

    def begin() -> None:
        nonlocal folder
        folder = tmp_path / str(next(rounds))

    def check() -> None:
        Pipeline(tasks).train(folder)  # goes on with what is there
        assert load_pipeline(folder).tag({"w": list("abc")}) == wanted
        assert not left(folder)

    def act() -> None:
        Pipeline(tasks).train(folder)

    assert each_failure(monkeypatch, begin, act, check, full=False, every=every) > 10


@pytest.mark.thorough
def test_learners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = untrained([{"w": list("abc")}], ["X", "Y"], TEMPLATE)
    rounds = iter(range(1000))
    folder = tmp_path
    heard: list[float] = []

    def begin() -> None:
        nonlocal folder
        folder = tmp_path / str(next(rounds))
        heard.clear()
        FeedbackLearner.create(folder, start).close()

    def act() -> None:
        with FeedbackLearner.open(folder) as learner:
            for reward in (0.25, 0.5):
                proposal = learner.propose({"w": list("abc")})
                learner.feedback(proposal, reward)
                heard.append(reward)
            learner.save()
            learner.feedback(learner.propose({"w": list("ab")}), 1.0)
            heard.append(1.0)

    def check() -> None:
        with FeedbackLearner.open(folder) as learner:
            assert learner.rewards - len(heard) in {0, 1}  # what was acknowledged, perhaps one more
            learner.feedback(learner.propose({"w": list("c")}), 0.0)
            learner.save()
        assert not left(folder)

    assert each_failure(monkeypatch, begin, act, check) > 10


def test_tagged_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger("XYZ").save(tmp_path / "m")
    (tmp_path / "text").write_text("a\nb\n\nc\n", encoding="utf-8")
    out = tmp_path / "tagged"

    def act() -> None:
        arguments = ["tag", str(tmp_path / "m"), str(tmp_path / "text"), "-o", str(out)]
        found = CliRunner().invoke(main, arguments)
        if found.exit_code:
            assert "No space left on device" in found.output
            raise OSError(errno.ENOSPC, "as the command says")

    def check() -> None:
        assert out.read_text(encoding="utf-8") in {"old\n", "a X\nb Y\n\nc Z\n\n"}
        assert not left(tmp_path)

    def begin() -> None:
        out.write_text("old\n", encoding="utf-8")

    assert each_failure(monkeypatch, begin, act, check) >= 3
