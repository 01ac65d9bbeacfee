"""The recipe ``partial-feedback`` on a corpus of a few made-up sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.recipes import RECIPES, Setting, run_recipe
from fstcrf.recipes import partial_feedback as recipe
from fstcrf.recipes import rewarded_systems as systems
from fstcrf.recipes.protocol import frozen

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
    monkeypatch.setattr(recipe, "MARKS", (8, 16, 40))
    return tmp_path


def test_the_parts(corpora: Path) -> None:
    parts = systems.read(Setting(corpora))
    assert [len(part) for part in (parts.train, parts.dev)] == [50, 10]
    labels = {label for part in parts.dev.column_lists("np") for label in part}
    assert labels == {"O", "B-NP", "I-NP"}


def test_the_predicates_are_those_of_the_paper() -> None:
    templates = systems.TEMPLATE.splitlines()
    assert len(templates) == 20
    assert templates[0] == "Uword00:%x[-2,word]"
    assert templates[18] == "Upos11:%x[0,pos]/%x[1,pos]/%x[2,pos]"


@pytest.mark.thorough
def test_the_quick_form(corpora: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    said: list[str] = []
    setting = Setting(corpora, folder, seed=1, say=said.append)
    report = run_recipe(RECIPES["partial-feedback"], setting)
    rows: list[dict[str, Any]] = json.loads((folder / "results.json").read_text("utf-8"))["rows"]
    tests = {r["row"]: r for r in rows if r["metric"] == "F, test, %"}
    names = [s.name for s in systems.SYSTEMS]
    assert list(tests) == ["full information", *names, "gold labels of 200 sentences"]
    assert tests["full information"]["value"] == 100.0
    assert tests["expected loss"]["paper"] == 92.3
    assert all(0 <= r["value"] <= 100 for r in tests.values())
    assert frozen(folder / "settings.json").choices["expected loss"].settings == {"rate": 0.01}
    page = report.markdown()
    for words in (
        "500 samples (10 passes), and 1 seed",
        "## What a control brings",
        "## What ratings bring",
        "## Runs that stood still or diverged",
        "## How noisy steps are",
        "attributes in",
    ):
        assert words in page
    assert sum("on the dev part" in line for line in said) == len(systems.SYSTEMS)
    assert all((folder / plot).exists() for plot in report.result.plots)
    headline = [line.row for line in report.result.headline]
    assert headline[:2] == ["full information", "expected loss"]
    assert {"logistic", "expected loss, log", "cross-entropy"} <= set(headline)
    assert "expected loss, momentum" not in headline


def test_the_choice_of_rates(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "RATE_PASSES", 5)
    monkeypatch.setattr(recipe, "LONG_RATE_PASSES", 10)
    parts = systems.read(Setting(corpora))
    for system, seeds in ((systems.SYSTEMS[0], 2), (systems.LONGER[0], 1)):
        found = recipe.tried(system, parts)
        assert len(found) == seeds
        assert all(0 <= each <= 100 for each in found)
    assert found == recipe.tried(system, parts)


def test_rates_are_among_those_tried() -> None:
    usual = systems.SYSTEMS[0].rule.rate
    for system in (*systems.SYSTEMS, *systems.LONGER):
        assert system.rule.rate in (system.rates or (usual,)), system.name


def test_the_published_systems() -> None:
    """As many samples as in the paper, with its rates; both beginnings."""
    samples = {one.name: one.samples for one in systems.PUBLISHED}
    assert set(samples.values()) == {7_500_000, 4_700_000, 5_900_000}
    assert [one.begin for one in systems.PUBLISHED].count("ones") == 3
    assert [one.rule.rate for one in systems.PUBLISHED[:3]] == [1e-4, 1e-4, 1e-6]


def test_where_the_paper_begins(corpora: Path) -> None:
    """Weights of one on supported features tag without having learnt anything."""
    parts = systems.read(Setting(corpora))
    ones, zeros = (
        systems.beginning(one, parts) for one in (systems.PUBLISHED[3], systems.PUBLISHED[0])
    )
    assert (ones.theta == 1.0).all()
    assert not zeros.theta.any()
    assert ones.space.size < zeros.space.size
    assert systems.f_of(ones, parts.dev) > systems.f_of(zeros, parts.dev)


def test_samples_until(corpora: Path) -> None:
    parts = systems.read(Setting(corpora))
    system = systems.SYSTEMS[1]
    one = systems.trained(system, systems.unlearned(parts), parts, parts.dev, 20, 0)
    assert [p.iteration for p in one.course] == [1, 2, 3, 4]
    assert systems.samples_until(system, one, 0.0, 50) == 250
    assert systems.samples_until(system, one, 101.0, 50) is None
    assert one.samples in {250, 500, 750, 1000}
    assert one.dev == pytest.approx(100 * max(p.dev or 0.0 for p in one.course))
    assert one.spans.f == pytest.approx(one.test / 100)


def test_runs_that_failed() -> None:
    empty: dict[str, Any] = {"dev": 1, "test": 1, "samples": 1, "spans": None}
    for ended, failed in (
        ("the limit of 12 iterations", False),
        ("the limit of 12 iterations; stands still: samples have ...", True),
        ("diverged after iteration 3: reinforce", True),
    ):
        assert systems.LearningRun(**empty, course=[], ended=ended).failed == failed
