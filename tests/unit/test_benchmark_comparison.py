"""An old commit beside a new one: ratios, the spread of the old, verdicts, turns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import pytest

from tests.benchmarks import compare
from tests.benchmarks.compare import Pair, Side, measure
from tests.benchmarks.running import BenchmarkError

STEADY = [1.00, 1.01, 0.99, 1.00, 1.01, 0.99]
UNSTEADY = [1.0, 1.5, 1.0, 1.5, 1.0, 1.5]


@pytest.mark.parametrize(
    ("old", "new", "more_is_better", "verdict"),
    [
        (STEADY, [1.04, 1.04, 1.2], False, "same"),
        (STEADY, [1.07, 1.08, 1.0], False, "slower"),
        (STEADY, [0.9, 0.9, 1.2], False, "faster"),
        (STEADY, [0.9, 0.9, 1.2], True, "slower"),
        (STEADY, [1.2, 1.2, 0.9], True, "faster"),
        (UNSTEADY, [1.6, 1.6, 1.6], False, "same"),
        (UNSTEADY, [2.5, 2.5, 2.5], False, "slower"),
        ([1.0], [1.04], False, "same"),
        ([], [1.0], False, "nothing to compare"),
    ],
)
def test_verdicts(old: list[float], new: list[float], more_is_better: bool, verdict: str) -> None:
    pair = Pair("work", "s", more_is_better, old, new)
    assert pair.verdict() == verdict
    assert len(pair.cells()) == 6


def test_all_changes_together_may_cost_more_than_one() -> None:
    slower = Pair("work", old=STEADY, new=[1.07] * 3)
    in_all = Pair("work", old=STEADY, new=[1.07] * 3, allowed=compare.ALLOWED_IN_ALL)
    assert (slower.verdict(), in_all.verdict()) == ("slower", "same")
    assert Pair("work", old=STEADY, new=[1.12] * 3, allowed=0.1).verdict() == "slower"


@pytest.mark.parametrize(("given", "commit"), [([], compare.BASELINE), (["main"], "main")])
def test_without_a_commit_the_baseline_is_compared_with(
    given: list[str], commit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def git(*arguments: str) -> str:
        asked.append(arguments[-1])
        raise BenchmarkError("no such commit")

    monkeypatch.setattr(compare, "_git", git)
    monkeypatch.setattr(sys, "argv", ["compare", *given, "--data", str(tmp_path)])
    assert compare.main() == 1
    assert asked == [f"{commit}^{{commit}}"]


def test_the_spread_is_that_of_medians() -> None:
    assert Pair("work", old=[2.0]).spread == 0
    assert Pair("work", old=[2.0, 3.0]).spread == pytest.approx(0.5)
    assert Pair("work", old=[1.0] * 10).spread == 0
    # One run that was disturbed moves no median of five.
    assert Pair("work", old=[*[1.0] * 9, 9.0]).spread == 0


def test_a_line_without_a_number() -> None:
    pair = Pair("work")
    sides: tuple[Literal["old"], Literal["new"]] = ("old", "new")
    for side in sides:
        pair.add(side, {"ours": None, "error": "the machine is too busy", "skipped": None})
    assert (pair.verdict(), pair.cells()[-1]) == ("failed", "failed")
    assert pair.errors == [f"{side}: the machine is too busy" for side in sides]


HARNESS = """\
import json, pathlib, sys
log = pathlib.Path("../log")
log.write_text((log.read_text() if log.exists() else "") + pathlib.Path.cwd().name + " ")
line = {"key": "k", "work": "w", "unit": "s", "more_is_better": False, "skipped": None}
line |= {"ours": SECONDS, "error": None}

def main():
    path = sys.argv[sys.argv.index("--json") + 1]
    pathlib.Path(path).write_text(json.dumps({"lines": [line]}))
    return 0
"""


def checkout(folder: Path, harness: str) -> Side:
    package = folder / "tests" / "benchmarks"
    package.mkdir(parents=True)
    (folder / "tests" / "__init__.py").touch()
    (package / "running.py").write_text("class Bench: ...\n")
    (package / "__main__.py").write_text(harness)
    return Side(folder.name, folder, Path(sys.executable))


def test_old_and_new_take_turns(tmp_path: Path) -> None:
    old = checkout(tmp_path / "old", HARNESS.replace("SECONDS", "2.0"))
    new = checkout(tmp_path / "new", HARNESS.replace("SECONDS", "3.0"))
    found = measure(old, new, ["tagging"], tmp_path, rounds=2)
    assert (found["k"].old, found["k"].new) == ([2.0] * 4, [3.0] * 2)
    assert (tmp_path / "log").read_text().split() == ["old", "new", "old"] * 2
    assert found["k"].verdict() == "slower"


def test_a_side_that_cannot_run_is_named(tmp_path: Path) -> None:
    broken = checkout(tmp_path / "old", "raise SystemExit('no such corpus')\n")
    with pytest.raises(BenchmarkError, match=r"tagging of old ended with 1: no such corpus"):
        broken.lines("tagging", tmp_path, tmp_path / "report.json")
