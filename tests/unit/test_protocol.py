"""The protocol of recipes: what is chosen, when it is frozen, when test data is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from fstcrf.errors import DataError
from fstcrf.recipes import Recipe, Result, Row, Setting, run_recipe
from fstcrf.recipes.protocol import FILE, Protocol, Value, frozen, over_seeds
from fstcrf.recipes.report import Headline, Report

GRID: list[dict[str, Value]] = [{"l2": 0.1}, {"l2": 0.5}, {"l2": 1.0}]
FIGURES = {0.1: 90.0, 0.5: 92.0, 1.0: 92.0}


@dataclass
class Trials:
    """Figures of held-out data, and how often they were asked for."""

    asked: list[Value]

    def __call__(self, settings: Mapping[str, Value]) -> float:
        self.asked.append(settings["l2"])
        return FIGURES[float(str(settings["l2"]))]


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path, report=tmp_path)


def test_the_best_is_chosen_and_the_first_of_equals(setting: Setting) -> None:
    trials = Trials([])
    assert Protocol("toy", setting).choose("MAP", GRID, trials) == {"l2": 0.5}
    assert trials.asked == [0.1, 0.5, 1.0]


def test_a_single_candidate_is_not_tried(setting: Setting) -> None:
    trials = Trials([])
    assert Protocol("toy", setting).choose("MAP", GRID[:1], trials) == {"l2": 0.1}
    assert trials.asked == []


def test_test_data_is_read_after_the_settings_are_frozen(setting: Setting) -> None:
    protocol = Protocol("toy", setting)
    read: list[str] = []
    with pytest.raises(RuntimeError, match="frozen before test data is read"):
        protocol.test(lambda: read.append("test"))
    assert read == []
    protocol.choose("MAP", GRID, Trials([]))
    protocol.freeze()
    protocol.test(lambda: read.append("test"))
    assert read == ["test"]
    with pytest.raises(RuntimeError, match="MAP: settings are chosen before"):
        protocol.choose("MAP", GRID, Trials([]))


def test_the_file_says_what_was_tried_and_its_hash(setting: Setting, tmp_path: Path) -> None:
    protocol = Protocol("toy", setting)
    protocol.choose("MAP", GRID, Trials([]))
    sha256 = protocol.freeze()
    written = json.loads((tmp_path / FILE).read_text("utf-8"))
    assert written["choices"]["MAP"]["settings"] == {"l2": 0.5}
    assert [one["held_out"] for one in written["choices"]["MAP"]["trials"]] == [90.0, 92.0, 92.0]
    plain = {"choices": written["choices"], "recipe": "toy"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    assert written["sha256"] == sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert frozen(tmp_path / FILE).sha256 == sha256
    section = protocol.section()
    assert sha256[:16] in section
    assert "| 0.5 | 92 | chosen |" in section


def test_a_choice_at_the_edge_of_what_was_tried_is_marked(setting: Setting) -> None:
    protocol = Protocol("toy", setting)
    several: list[dict[str, Value]] = [
        {"C": c, "scheme": s} for s in ("a", "b") for c in (1, 10, 100)
    ]
    protocol.choose("MAP", several, lambda settings: float(settings["C"] or 0))
    protocol.choose("pair", several[:2], lambda settings: float(settings["C"] or 0))
    protocol.freeze()
    section = protocol.section()
    assert "| 100 | a | 100 | chosen; C at the edge of what was tried |" in section
    assert "| 10 | a | 10 | chosen |" in section  # of two, each is at an edge


def test_a_file_that_was_changed_is_noticed(setting: Setting, tmp_path: Path) -> None:
    protocol = Protocol("toy", setting)
    protocol.choose("MAP", GRID, Trials([]))
    protocol.freeze()
    path = tmp_path / FILE
    path.write_text(path.read_text("utf-8").replace("0.5", "0.1"), "utf-8")
    with pytest.raises(DataError, match="changed after they had been frozen"):
        frozen(path)
    path.write_text("{}", "utf-8")
    with pytest.raises(DataError, match="no settings of a recipe"):
        frozen(path)


def test_other_settings_do_not_replace_those_that_were_frozen(
    setting: Setting, tmp_path: Path
) -> None:
    for grid in (GRID, GRID):  # the same ones go on
        protocol = Protocol("toy", setting)
        protocol.choose("MAP", grid, Trials([]))
        protocol.freeze()
    before = (tmp_path / FILE).read_bytes()
    other = Protocol("toy", setting)
    other.choose("MAP", GRID[:1], Trials([]))
    with pytest.raises(DataError, match="settings of another run were frozen here"):
        other.freeze()
    assert (tmp_path / FILE).read_bytes() == before


def test_trials_and_seeds_of_an_earlier_run_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    trials, drawn = Trials([]), list[int]()

    def draw(seed: int) -> float:
        drawn.append(seed)
        return 93.0 + seed

    def run(setting: Setting) -> Result:
        protocol = Protocol("toy", setting)
        protocol.choose("MAP", GRID, trials)
        protocol.freeze()
        values = over_seeds(setting, "MAP", draw, float, seeds=3)
        line = Headline("MAP", "F, %", tuple(values), 95.0, (93.2, 94.9))
        return Result([Row("MAP", "F, %", 94.0)], [protocol.section()], headline=[line])

    recipe = Recipe("toy", "A toy", needs=("*.txt",), paper="Toy (1999)", run=run)
    for _ in range(2):
        report = run_recipe(recipe, Setting(tmp_path, tmp_path / "report", seed=4))
    assert trials.asked == [0.1, 0.5, 1.0]
    assert drawn == [4, 5, 6]
    page = report.markdown()
    assert "| row | metric | Toy (1999) | ours | difference | 95 % interval of ours |" in page
    assert "| MAP | F, % | 95 | 98 ± 1 | +3.00 | 93.20 to 94.90 |" in page
    assert "<details><summary>All rows</summary>\n\n| row | metric | value |" in page


def test_nothing_published_has_no_columns() -> None:
    line = Headline("free", "F, %", (82.0,), interval=(80.0, 84.0))
    result = Result([Row("free", "F, %", 82.0)], headline=[line])
    page = Report("toy", "A toy", "published", result, {}).markdown()
    assert "| row | metric | ours | 95 % interval of ours |\n" in page
    assert "| free | F, % | 82 | 80 to 84 |\n" in page


def test_a_figure_of_one_run_has_no_deviation() -> None:
    assert Headline("MAP", "F", (94.0,)).deviation is None
    assert Headline("MAP", "F", (94.0,)).cells() == ["MAP", "F", "", "94", "", ""]
