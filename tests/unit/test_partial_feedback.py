"""The recipe ``partial-feedback`` on a corpus of a few made-up sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.recipes import RECIPES, Setting, run_recipe
from fstcrf.recipes import partial_feedback as recipe
from fstcrf.recipes import partial_feedback as systems

LEARNT = (*systems.SYSTEMS, *systems.LONGER)
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
    monkeypatch.setattr(systems, "DEV_SENTENCES", 10)
    monkeypatch.setattr(recipe, "QUICK", 10)
    return tmp_path


def test_the_parts(corpora: Path) -> None:
    parts = systems.read(Setting(corpora))
    assert [len(part) for part in (parts.train, parts.dev, parts.test)] == [50, 10, 10]
    labels = {label for part in parts.test.column_lists("np") for label in part}
    assert labels == {"O", "B-NP", "I-NP"}


def test_the_predicates_are_those_of_the_paper() -> None:
    templates = systems.TEMPLATE.splitlines()
    assert len(templates) == 20
    assert templates[0] == "Uword00:%x[-2,word]"
    assert templates[18] == "Upos11:%x[0,pos]/%x[1,pos]/%x[2,pos]"


@pytest.mark.thorough
def test_the_report(corpora: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    said: list[str] = []
    setting = Setting(corpora, folder, seed=1, say=said.append)
    report = run_recipe(RECIPES["partial-feedback"], setting)
    rows: list[dict[str, Any]] = json.loads((folder / "results.json").read_text("utf-8"))
    tests = {r["row"]: r for r in rows if r["metric"] == "F, test, %"}
    assert list(tests) == ["full information", *(s.name for s in LEARNT)]
    assert tests["full information"]["value"] == 100.0
    assert tests["expected loss"]["paper"] == 92.3
    assert tests["expected loss"]["seconds"] > 0
    assert all(0 <= r["value"] <= 100 for r in tests.values())
    speeds = [r for r in rows if r["row"] == "speed"]
    assert len(speeds) == 5
    assert all(r["value"] > 0 for r in speeds)
    page = report.markdown()
    extent = "500 samples (10 passes), those called longer 5 times as many"
    for words in (extent, "## What a control brings", "## How noisy steps are", "attributes in"):
        assert words in page
    assert sum("on the dev part" in line for line in said) == len(LEARNT)
    assert all((folder / plot).exists() for plot in report.result.plots)


@pytest.mark.thorough
def test_the_full_report(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More seeds and systems; every run says what became of it."""
    for name, number in (("FULL", 5), ("SEEDS", 2)):
        monkeypatch.setattr(recipe, name, number)
    said: list[str] = []
    report = run_recipe(
        RECIPES["partial-feedback"], Setting(corpora, full=True, seed=4, say=said.append)
    )
    everything = (*LEARNT, *systems.CLIPPED)
    for system in everything:
        lines = [line for line in said if line.startswith(f"partial-feedback: {system.name}, seed")]
        assert [line.partition(", seed ")[2][0] for line in lines] == ["4", "5"]
    rows = report.result.rows
    spread = [r.row for r in rows if r.metric == "its standard deviation over 2 seeds"]
    assert spread == [s.name for s in everything]
    assert "## Rates and seeds" in report.markdown()


def test_the_choice_of_rates(
    corpora: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipe, "RATE_PASSES", 5)
    system = systems.SYSTEMS[0]
    recipe.main([str(corpora), system.name])
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("| system | rate | F, dev")
    assert len(lines) == len(system.rates)
    for line, rate in zip(lines, system.rates, strict=True):
        name, tried, each, mean = line.strip("| ").split(" | ")
        assert (name, float(tried)) == (system.name, rate)
        assert len(each.split(", ")) == len(recipe.RATE_SEEDS)
        assert 0 <= float(mean) <= 100


def test_rates_are_among_those_tried() -> None:
    usual = systems.SYSTEMS[0].rule.rate
    for system in LEARNT:
        assert system.rule.rate in (system.rates or (usual,)), system.name


def test_samples_until(corpora: Path) -> None:
    parts = systems.read(Setting(corpora))
    system = systems.SYSTEMS[1]
    one = systems.trained(system, systems.unlearned(parts), parts, 20, 0)
    assert [p.iteration for p in one.course] == [1, 2, 3, 4]
    assert systems.samples_until(one, 0.0, 50) == 250
    assert systems.samples_until(one, 101.0, 50) is None
    assert one.samples in {250, 500, 750, 1000}
    assert one.dev == pytest.approx(100 * max(p.dev or 0.0 for p in one.course))
