"""The frame of recipes: running, reports, the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import tests.support.command as program
from fstcrf.errors import DataError
from fstcrf.recipes import RECIPES, Recipe, Result, Row, Setting, run_recipe
from fstcrf.recipes.report import number, provenance, table


def run(setting: Setting) -> Result:
    rows = [Row("a|b", "F", 93.456, paper=94.0, seconds=1.5), Row("c", "errors", 0)]
    picture = setting.plot("curve.svg")
    if picture is not None:
        picture.write_text("<svg/>")
    plots = [] if picture is None else ["plots/curve.svg"]
    return Result(rows, [f"## Drawn with seed {setting.seed}"], plots)


RECIPE = Recipe("toy", "A toy", needs=("toys/*.txt",), paper="Toy (1999)", run=run)


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    (tmp_path / "data" / "toys").mkdir(parents=True)
    (tmp_path / "data" / "toys" / "b.txt").touch()
    (tmp_path / "data" / "toys" / "a.txt").touch()
    return tmp_path / "data"


def test_a_report_is_written(corpora: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "report"
    report = run_recipe(RECIPE, Setting(corpora, folder, seed=7))
    rows = json.loads((folder / "results.json").read_text("utf-8"))["rows"]
    assert rows == [
        {"row": "a|b", "metric": "F", "value": 93.456, "paper": 94.0, "seconds": 1.5},
        {"row": "c", "metric": "errors", "value": 0, "paper": None, "seconds": None},
    ]
    page = (folder / "report.md").read_text("utf-8")
    assert page == report.markdown()
    assert "| row | metric | value | Toy (1999) | seconds |" in page
    assert r"| a\|b | F | 93.46 | 94 | 1.50 |" in page
    assert "![plots/curve.svg](plots/curve.svg)" in page
    assert page.endswith("## Drawn with seed 7\n")
    for fact in ("| seed | 7 |", "| date | ", "| machine | ", "| wall clock | ", "| fstcrf | "):
        assert fact in page
    assert (folder / "plots" / "curve.svg").exists()


def test_without_a_folder_nothing_is_written(corpora: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    report = run_recipe(RECIPE, Setting(corpora))
    assert report.result.plots == []
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["report.md", "results.json"])
def test_what_cannot_be_written_is_found_out_first(
    corpora: Path, tmp_path: Path, name: str
) -> None:
    def work(_: Setting) -> Result:
        pytest.fail("work before the report is known to be writable")

    (tmp_path / "report" / name).mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match=name):
        run_recipe(replace(RECIPE, run=work), Setting(corpora, tmp_path / "report"))


def test_files_come_in_order(corpora: Path) -> None:
    assert [path.name for path in Setting(corpora).files("toys/*.txt")] == ["a.txt", "b.txt"]


def test_missing_data_is_said_before_the_work(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    with pytest.raises(DataError, match=r"no toys/\*\.txt in this folder"):
        run_recipe(RECIPE, Setting(tmp_path, folder))
    assert not folder.exists()


def test_numbers_and_tables() -> None:
    assert [number(x) for x in (None, 0, -3, 1234, 0.00123, 12.345, 98765.4)] == [
        "",
        "0",
        "-3",
        "1,234",
        "0.00123",
        "12.35",
        "98,765",
    ]
    assert table(["a"], [["x\n| y"]]) == "| a |\n| --- |\n| x \\| y |"


def test_versions_of_what_is_not_installed_are_left_out() -> None:
    facts = provenance(["numpy", "no-such-package"])
    assert ", numpy " in facts["versions"]
    assert "no-such-package" not in facts["versions"]


# --- The command ---------------------------------------------------------------------------------


def test_recipes_are_listed() -> None:
    lines = program.done("recipe").splitlines()
    assert [line.split()[0] for line in lines] == list(RECIPES)
    assert "usaddress" in RECIPES


def test_the_command_prints_the_table(
    corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fstcrf.recipes.command.RECIPES", {"toy": RECIPE})
    out = program.done("recipe", "toy", "--data", corpora, "--set", "seed=3", "-o", tmp_path / "r")
    for text in ("93.46", "Toy (1999)", "Drawn with seed 3", "machine"):
        assert text in out
    assert (tmp_path / "r" / "results.json").exists()
    monkeypatch.setenv("FSTCRF_DATA", str(corpora))
    assert "Drawn with seed 0" in program.done("recipe", "toy")


def test_wrong_usage_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FSTCRF_DATA", raising=False)
    known = ", ".join(RECIPES)
    assert f"there are: {known}" in program.failure("recipe", "cake", status=2)
    assert "give --data DIR" in program.failure("recipe", "usaddress", status=2)
    absent = program.failure("recipe", "usaddress", "--data", tmp_path / "absent", status=2)
    assert "no such folder" in absent
    assert "usaddress/*.xml" in program.failure("recipe", "usaddress", "--data", tmp_path)
