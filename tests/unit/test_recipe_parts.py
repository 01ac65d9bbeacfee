"""Runs of recipes that end early: what is written, what is kept, what the next run does again."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen

import numpy as np
import pytest

import fstcrf
import tests.support.command as program
from fstcrf.recipes import Recipe, Result, Row, Setting, experiment, run_recipe
from fstcrf.recipes.experiment import Parts, Work, fingerprint
from fstcrf.recipes.report import blank_figure


@dataclass(frozen=True, slots=True)
class Course:
    scores: list[float]
    name: str


class Toy:
    """A recipe of three parts; the second fails as often as it is told to."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures, self.made = list(failures), list[str]()

    def __call__(self, setting: Setting) -> Result:
        rows = setting.rows("first", self._first)
        rows += setting.rows("second", self._second)
        third = setting.kept("third", self._third, Course)
        return Result([*rows, Row("third", "sum", sum(third.scores))])

    def _first(self) -> Iterator[Row]:
        self.made.append("first")
        yield Row("first", "F, %", 93.5, paper=94.0, seconds=1.5)

    def _second(self) -> Iterator[Row]:
        self.made.append("second")
        yield Row("second", "weights", np.int64(7))  # type: ignore[arg-type]
        if self.failures:
            raise self.failures.pop(0)
        yield Row("second", "F, %", np.float64(91.25))

    def _third(self) -> Course:
        self.made.append("third")
        return Course([1.0, 2.0], "third")


def recipe(run: Callable[[Setting], Result]) -> Recipe:
    return Recipe("toy", "A toy", needs=("*.txt",), paper="Toy (1999)", run=run)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), ValueError("no such label")])
def test_a_run_that_ends_early_leaves_a_report_and_is_taken_up(
    data: Path, tmp_path: Path, failure: BaseException
) -> None:
    toy, said, out = Toy(failure), list[str](), tmp_path / "out"
    with pytest.raises(type(failure)):
        run_recipe(recipe(toy), Setting(data, out, say=said.append))
    rows = json.loads((out / "results.json").read_text("utf-8"))["rows"]
    assert [(row["row"], row["value"]) for row in rows] == [("first", 93.5), ("second", 7)]
    page = (out / "report.md").read_text("utf-8")
    why = "interrupted" if isinstance(failure, KeyboardInterrupt) else "ValueError: no such label"
    assert f"**Not complete**: {why} after " in page
    assert said[0] == "first: F, % 93.5 (published 94)"
    assert said[1] == "second: weights 7"
    assert "what was found until now; 1 finished parts are kept: the same command" in said[-1]

    report = run_recipe(recipe(toy), Setting(data, out, say=said.append))
    assert toy.made == ["first", "second", "second", "third"]
    assert "first: from an earlier run" in said
    assert [row.value for row in report.result.rows] == [93.5, 7, 91.25, 3.0]
    assert report.result.rows[0] == Row("first", "F, %", 93.5, paper=94.0, seconds=1.5)
    assert report.facts["of earlier runs"].startswith("1 parts, from 2")
    assert "Not complete" not in (out / "report.md").read_text("utf-8")


def test_parts_of_another_revision_are_made_anew(data: Path, tmp_path: Path) -> None:
    toy, out = Toy(), tmp_path / "out"
    for revision, made in ((1, 3), (1, 3), (2, 6), (2, 6)):
        run_recipe(replace(recipe(toy), revision=revision), Setting(data, out))
        assert len(toy.made) == made


def test_what_a_run_reads_again_of_itself_is_not_of_an_earlier_one(
    data: Path, tmp_path: Path
) -> None:
    def twice(setting: Setting) -> Result:
        rows = setting.rows("first", lambda: [Row("a", "F, %", 1.0)])
        return Result([*rows, *setting.rows("first", list)])

    out = tmp_path / "out"
    assert "of earlier runs" not in run_recipe(recipe(twice), Setting(data, out)).facts
    assert run_recipe(recipe(twice), Setting(data, out)).facts["of earlier runs"].startswith("1 ")


def test_kept_parts_are_those_of_the_same_run(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    once = ["first", "second", "third"]
    for change, made in (
        ({}, once),
        ({}, []),
        ({"seed": 1}, once),
        ({"full": True}, once),
        ({}, []),
    ):
        toy = Toy()
        run_recipe(recipe(toy), Setting(data, out, **change))
        assert toy.made == made
    (data / "a.txt").write_text("b")
    toy = Toy()
    run_recipe(recipe(toy), Setting(data, out))
    assert toy.made == once


def test_without_a_report_nothing_is_kept(data: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    toy = Toy(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_recipe(recipe(toy), Setting(data))
    run_recipe(recipe(toy), Setting(data))
    assert toy.made == ["first", "second", "first", "second", "third"]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("sections", [0, 1])
def test_sections_are_in_the_report_of_a_run_that_ends_early(
    data: Path, tmp_path: Path, sections: int
) -> None:
    """What has found nothing leaves no folder."""

    def run(setting: Setting) -> Result:
        for _ in range(sections):
            setting.section("## What was chosen")
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_recipe(recipe(run), Setting(data, out))
    assert out.exists() == bool(sections)
    if sections:
        assert (out / "report.md").read_text("utf-8").endswith("## What was chosen\n")


def test_parts_depend_on_what_they_are_told(tmp_path: Path) -> None:
    parts = Parts(tmp_path, "run", "1.0")
    parts.put("l2 0.5", {"F": 93.0}, about=(0.5, "lbfgs"))
    assert parts.get("l2 0.5", dict[str, float], about=(0.5, "lbfgs")) == {"F": 93.0}
    for name, about, other in (
        ("l2 0.5", (0.25, "lbfgs"), "run"),
        ("l2 0,5", (0.5, "lbfgs"), "run"),
        ("l2 0.5", (0.5, "lbfgs"), "another"),
    ):
        with pytest.raises(KeyError):
            Parts(tmp_path, other).get(name, dict[str, float], about)
    with pytest.raises(KeyError):  # not what is expected
        parts.get("l2 0.5", list[int], about=(0.5, "lbfgs"))


def test_a_damaged_part_is_made_again(tmp_path: Path) -> None:
    parts = Parts(tmp_path, "run")
    parts.put("a", [1])
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[:-3], b"\xff" + whole[1:]):
        path.write_bytes(damaged)
        with pytest.raises(KeyError):
            parts.get("a", list[int])


def test_the_processor_time_of_earlier_runs_counts(tmp_path: Path) -> None:
    Parts(tmp_path, "run").put("a", [1])
    (path,) = tmp_path.iterdir()
    kept = json.loads(path.read_bytes())
    assert kept["seconds"] >= 0.0
    path.write_bytes(json.dumps(kept | {"seconds": 36_000.0}).encode())
    later, other = Parts(tmp_path, "run"), Parts(tmp_path, "another run")
    assert later.hours() == pytest.approx(10.0, abs=0.1)  # it may have been made for another part
    assert [later.get("a", list[int]) for _ in range(2)] == [[1], [1]]
    later.put("b", [2])
    assert later.hours() == pytest.approx(10.0, abs=0.1)  # once
    assert other.hours() == pytest.approx(0.0, abs=0.1)


def _shared(folder: Path, name: str) -> list[float]:
    """Make eight parts in one of several processes; a file notes who made what."""

    def make(k: int) -> float:
        with (folder / "made").open("a") as file:
            file.write(f"{k} {name}\n")
        time.sleep(0.2)
        return setting.kept(f"below {k // 4}", lambda: 10.0 * (k // 4), float) + k

    setting = Setting(folder, parts=Parts(folder / "work", "a"))
    return setting.all_kept([Work(f"part {k}", partial(make, k)) for k in range(8)], float)


@pytest.mark.thorough
def test_processes_share_the_work_of_one_folder(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(_shared, [tmp_path] * 3, "abc"))
    assert found == [[0.0, 1.0, 2.0, 3.0, 14.0, 15.0, 16.0, 17.0]] * 3
    made = [line.split() for line in (tmp_path / "made").read_text().splitlines()]
    assert sorted(part for part, _ in made) == [str(k) for k in range(8)]


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from fstcrf.recipes.experiment import Parts\n"
        "with Parts(Path(sys.argv[1]), 'a').claimed('x') as mine:\n"
        "    print(mine, flush=True); sys.stdin.read(1); os._exit(9)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        parts = Parts(tmp_path, "a")
        with parts.claimed("x", wait=False) as mine:
            assert not mine
        with parts.claimed("y", wait=False) as mine:
            assert mine
        other.communicate("\n")
        assert other.returncode == 9
        with parts.claimed("x", wait=False) as mine:
            assert mine


def test_what_json_has_no_form_for_is_refused() -> None:
    with pytest.raises(TypeError, match="holds object, which JSON has no form for"):
        Parts().put("a", object())


def test_taggers_are_kept_with_what_is_known_of_them(tmp_path: Path) -> None:
    made = []

    def train() -> tuple[fstcrf.CRF, Course]:
        made.append(1)
        tagger = fstcrf.CRF.train([[["w=a"], ["w=b"]]], [["A", "B"]], max_iterations=3)
        return tagger, Course([tagger.theta[0]], "run")

    setting = Setting(tmp_path, parts=Parts(tmp_path, "run"))
    (one, course), (two, again) = (setting.trained("lbfgs", train, Course) for _ in range(2))
    assert len(made) == 1
    assert course == again
    np.testing.assert_array_equal(one.theta, two.theta)
    next(tmp_path.glob("*.fstcrf")).unlink()  # facts alone are of no use
    assert setting.trained("lbfgs", train, Course)[1] == course
    next(tmp_path.glob("*.json")).unlink()  # as after a death between the two files
    assert setting.trained("lbfgs", train, Course)[1] == course
    assert len(made) == 3
    assert Setting(tmp_path).trained("lbfgs", train, Course)[1] == course


def test_fingerprints(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    one.write_text("a")
    two.write_text("b")
    known = {
        fingerprint([one], {"seed": 1}),
        fingerprint([one], {"seed": 2}),
        fingerprint([two], {"seed": 1}),
        fingerprint([one, two], {"seed": 1}),
    }
    assert len(known) == 4
    two.write_text("a")
    assert fingerprint([two], {"seed": 1}) in known


def test_a_plot_without_matplotlib_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(_: Path) -> None:
        blank_figure(1, 1)

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said: list[str] = []
    assert Setting(tmp_path, tmp_path, say=said.append).drawn("f.svg", draw) == []
    assert said == ["no plot f.svg: it needs matplotlib: pip install 'fstcrf[recipes]'"]
    assert Setting(tmp_path).drawn("f.svg", draw) == []
    assert Setting(tmp_path, tmp_path).drawn("f.svg", Path.touch) == ["plots/f.svg"]

    def broken(_: Path) -> None:
        raise ImportError("libfreetype.so.6: cannot open shared object file")

    assert Setting(tmp_path, tmp_path, say=said.append).drawn("f.svg", broken) == []
    assert said[1:] == ["no plot f.svg: libfreetype.so.6: cannot open shared object file"]


def test_ctrl_c_in_the_shell(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = recipe(Toy(KeyboardInterrupt()))
    monkeypatch.setattr("fstcrf.recipes.command.RECIPES", {"toy": toy})
    given = ("recipe", "toy", "--data", data, "-o", tmp_path / "out")
    stopped = program.run(*given)
    assert stopped.exit_code == 130
    assert "report.md, results.json of what was found until now" in stopped.stderr
    assert stopped.stderr.endswith("fstcrf: interrupted\n")
    assert (tmp_path / "out" / "results.json").exists()
    page = program.done(*given)  # to no terminal: nothing is cut to a width
    assert "| first | F, % | 93.50 | 94 | 1.50 |\n" in page


def test_a_course_divides_what_is_left_among_parts_and_loops() -> None:
    course = experiment.WorkCourse()
    seen: list[float] = []
    course.until(0.5)
    for _ in course.each("ab"):
        seen.append(course.share)
        seen += [course.share for _ in course.each(range(2))]
    assert seen == [0.0, 0.0, 0.125, 0.25, 0.25, 0.375]
    course.until(0.8)
    assert course.share == 0.5
    course.until(1.0)
    assert course.share == 0.8
    assert list(course.each(())) == []
    assert course.share == 1.0
