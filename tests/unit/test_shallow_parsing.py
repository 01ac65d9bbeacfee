"""The recipe ``shallow-parsing`` on a text of a few sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fstcrf.recipes import RECIPES, Setting, run_recipe
from fstcrf.recipes import phrase_chunkers as data_module
from fstcrf.recipes import shallow_parsing as recipe_module
from fstcrf.recipes.corpora import PHRASE
from fstcrf.recipes.phrase_chunkers import (
    OPTIMISERS,
    Point,
    local,
    optimised,
    perceptron,
    perceptron_course,
    read,
    read_training,
)
from fstcrf.recipes.protocol import FILE, frozen
from fstcrf.recipes.shallow_parsing import courses, lowest, reached

WORDS = {"DT": ["the", "a"], "NN": ["dog", "cat", "park"], "VB": ["saw", "ran"], "IN": ["in"]}
PATTERNS = [["DT", "NN", "VB", "DT", "NN"], ["NN", "VB"], ["NN", "VB", "IN", "DT", "NN"]]


def text(seed: int, sentences: int) -> str:
    """Noun phrases of a determiner and a noun; some labels are wrong."""
    rng = np.random.default_rng(seed)
    lines: list[str] = []
    for _ in range(sentences):
        before = ""
        for tag in PATTERNS[int(rng.integers(len(PATTERNS)))]:
            inside = tag == "NN" and before == "DT"
            chunk = {"VB": "B-VP", "IN": "B-PP"}.get(tag, "I-NP" if inside else "B-NP")
            if chunk == "B-NP" and rng.random() < 0.1:
                chunk = "B-ADVP"
            word = WORDS[tag][int(rng.integers(len(WORDS[tag])))]
            lines.append(f"{word} {tag} {chunk if before != 'wrong' else 'O'}")
            before = tag if chunk != "B-ADVP" else "wrong"
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {"DEV_SENTENCES": 15, "EPOCHS_TRIED": 3}.items():
        monkeypatch.setattr(data_module, name, value)
    short = {"DEV_ITERATIONS": 4, "DEV_FULL": 4, "SEEDS": 2, "GIS": 5, "GIS_FULL": 6}
    for name, some in {**short, "_PENALTIES": (0.5,), "_STOPS": (3, None)}.items():
        monkeypatch.setattr(recipe_module, name, some)
    (tmp_path / "conll2000").mkdir()
    for seed, (name, size) in enumerate((("train", 60), ("test", 20))):
        (tmp_path / "conll2000" / f"{name}.txt").write_text(text(seed, size), "utf-8")
    return tmp_path


def test_only_noun_phrases_are_left(folder: Path) -> None:
    data = read(Setting(folder))
    assert (len(data.train), len(data.part), len(data.dev), len(data.test)) == (60, 45, 15, 20)
    assert len(read_training(Setting(folder)).test) == 0
    labels = {label for sentence in data.train.column_lists(PHRASE) for label in sentence}
    assert labels == {"O", "B-NP", "I-NP"}
    chunks = data.test.column_lists("chunk")
    assert any("B-VP" in sentence for sentence in chunks)


@pytest.mark.thorough
def test_the_quick_form(folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    done = run_recipe(RECIPES["shallow-parsing"], Setting(folder, report))
    rows = json.loads((report / "results.json").read_text("utf-8"))["rows"]
    assert set(rows[0]) == {"row", "metric", "value", "paper", "seconds"}
    found = {(row["row"], row["metric"]): row for row in rows}
    for optimiser in OPTIMISERS:
        assert found[optimiser.name, "F, test, %"]["paper"] == optimiser.f
        assert found[optimiser.name, "passes over the data"]["value"] >= 1
    assert found["GIS", "iterations"]["value"] <= 5
    assert found["CRF against MEMM", "McNemar's p"]["paper"] == 0.00109
    headline = {line.row: line for line in done.result.headline}
    assert headline["CRF, complete"].paper == 94.38
    assert not frozen(report / FILE).choices["CRF, complete"].trials
    page = (report / "report.md").read_text("utf-8")
    for words in (
        "approximate randomisation",
        "Norm of the gradient",
        "F on the dev part",
        "Why the objective",
    ):
        assert words in page
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: no plot")
    assert (report / "plots" / "shallow-parsing.svg").stat().st_size > 1000


@pytest.mark.thorough
def test_optimisers_reach_the_same_objective(folder: Path) -> None:
    data = read(Setting(folder))
    ends = [optimised(one, data)[1].course[-1] for one in OPTIMISERS if one.name != "GIS"]
    best = max(end.objective for end in ends)
    assert [end.objective for end in ends] == pytest.approx([best] * len(ends), rel=1e-3)
    assert all(end.likelihood > end.objective for end in ends)


def test_systems_learn(folder: Path) -> None:
    data = read(Setting(folder))
    tagger, crf = optimised(OPTIMISERS[3], data)
    memm = local(data, tagger)
    scores = perceptron_course(data)
    assert len(scores) == 3
    average = perceptron(data, 1 + scores.index(max(scores)))
    for run in (crf, memm, average):
        assert run.f > 80
        assert [len(s) for s in run.labels] == [len(s) for s in data.test]
    assert memm.weights == crf.weights == tagger.space.size


def point(passes: int, objective: float, dev: float | None = None) -> Point:
    return Point(passes, 0.1 * passes, objective, objective + 1, 1.0 / passes, dev)


def test_courses_by_hand() -> None:
    course = [point(3, -90.0), point(6, -50.0), point(11, -40.0)]
    assert reached(course, -50.0) == course[1]
    assert reached(course, -1.0) is None
    # A running value of an epoch of drawn sentences is that of no weights.
    drawn = replace(course[0], objective=-10.0, gradient_norm=None)
    assert reached([drawn, *course], -50.0) == course[1]

    class Named:
        name, course = "some", [point(3, -90.0), point(6, -50.0), point(11, -40.0)]

    lines = courses([Named()]).splitlines()  # type: ignore[list-item]
    assert lines[2].startswith("| some | -90 | -50 |  |")  # at 5 and 10 passes; it did 11


def test_no_line_is_below_the_panel_of_f() -> None:
    class Named:
        def __init__(self, *scores: float | None) -> None:
            self.course = [point(k + 1, -9.0, f) for k, f in enumerate(scores)]

    some, none = [Named(10.0, 93.9), Named(40.0, 83.2, 82.0)], [Named(None, None)]
    assert lowest(some) == 82.0  # type: ignore[arg-type]
    assert lowest(none) is None  # type: ignore[arg-type]
