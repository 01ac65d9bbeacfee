"""The recipe ``partial-feedback`` on a corpus of a few made-up sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.recipes import RECIPES, Setting, run_recipe
from fstcrf.recipes.partial_feedback import data, recipe, systems
from fstcrf.recipes.partial_feedback.curves import samples_until

WORDS = {"the": ("DT", "B-NP"), "cat": ("NN", "I-NP"), "sat": ("VB", "B-VP"), "on": ("IN", "B-PP")}


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "conll2000"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, sentences in (("train", 60), ("test", 10)):
        blocks = []
        for _ in range(sentences):
            words = " ".join(["the cat", "sat", "on"][i] for i in rng.integers(3, size=4)).split()
            blocks.append("\n".join(" ".join((w, *WORDS[w])) for w in words))
        (folder / f"{name}.txt").write_text("\n\n".join(blocks) + "\n")
    monkeypatch.setattr(data, "DEV_SENTENCES", 10)
    monkeypatch.setattr(recipe, "QUICK", 10)
    return tmp_path


def test_the_parts(corpora: Path) -> None:
    parts = data.read(Setting(corpora))
    assert [len(part) for part in (parts.train, parts.dev, parts.test)] == [50, 10, 10]
    labels = {label for part in parts.test.column_lists("np") for label in part}
    assert labels == {"O", "B-NP", "I-NP"}


def test_the_predicates_are_those_of_the_paper() -> None:
    templates = data.TEMPLATE.splitlines()
    assert len(templates) == 20
    assert templates[0] == "Uword00:%x[-2,word]"
    assert templates[18] == "Upos11:%x[0,pos]/%x[1,pos]/%x[2,pos]"


def test_the_report(corpora: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    said: list[str] = []
    setting = Setting(corpora, folder, seed=1, say=said.append)
    report = run_recipe(RECIPES["partial-feedback"], setting)
    rows: list[dict[str, Any]] = json.loads((folder / "results.json").read_text("utf-8"))
    tests = {r["row"]: r for r in rows if r["metric"] == "F, test, %"}
    assert list(tests) == ["full information", *(s.name for s in systems.SYSTEMS)]
    assert tests["full information"]["value"] == 100.0
    assert tests["expected loss"]["paper"] == 92.3
    assert tests["expected loss"]["seconds"] > 0
    assert all(0 <= r["value"] <= 100 for r in tests.values())
    speeds = [r for r in rows if r["row"] == "speed"]
    assert len(speeds) == 5
    assert all(r["value"] > 0 for r in speeds)
    page = report.markdown()
    extent = "500 samples (10 passes), those of the paper 5 times as many"
    for words in (extent, "## How noisy steps are", "attributes in"):
        assert words in page
    assert len(said) >= len(systems.SYSTEMS)
    assert all((folder / plot).exists() for plot in report.result.plots)


def test_samples_until(corpora: Path) -> None:
    parts = data.read(Setting(corpora))
    system = systems.SYSTEMS[1]
    one = systems.trained(system, systems.unlearned(parts), parts, 20, 0)
    assert [p.iteration for p in one.course] == [1, 2, 3, 4]
    assert samples_until(one, 0.0, 50) == 250
    assert samples_until(one, 101.0, 50) is None
    assert one.samples in {250, 500, 750, 1000}
    assert one.dev == pytest.approx(100 * max(p.dev or 0.0 for p in one.course))
