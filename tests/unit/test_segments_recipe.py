"""The recipe ``segments`` on a small corpus in the place of CoNLL-2000 and CoNLL-2003."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tests.support.command as program
from fstcrf.recipes import Setting, segment_taggers
from fstcrf.recipes.protocol import FILE, Protocol, frozen
from fstcrf.recipes.report import number
from fstcrf.recipes.segment_taggers import (
    CHAIN,
    EVERY,
    LABELS,
    PENALTIES,
    QUICK,
    SEGMENTS,
    SHAPES,
    SegmentTask,
    choose,
    chunking,
    entities,
    measured,
)
from fstcrf.text.corpus import Corpus
from tests.support import notices


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    for part, other, size in (("train", "train", 60), ("test", "testa", 10), ("test", "testb", 30)):
        notices.write(data / "conll2000" / f"{part}.txt", part, size, chunks=True)
        notices.write(data / "conll2003" / f"eng.{other}", part, size, chunks=False)
    return data


def test_both_taggers_learn(folder: Path) -> None:
    for task in (chunking(Setting(folder)), entities(Setting(folder))):
        test = task.read_test()
        settings: dict[str, Any] = {"l2": 0.5, "longest": 4, "strings": True, "scheme": "bioes"}
        runs = [measured(task, system, settings, test) for system in (CHAIN, SEGMENTS)]
        assert all(run.f > 50.0 and run.weights > 100 for run in runs)
        assert [len(labels) for labels in runs[1].labels] == [len(s) for s in test]


def test_what_chooses_is_not_learnt_from(folder: Path) -> None:
    chunks, names = chunking(Setting(folder)), entities(Setting(folder))
    rest = len(chunks.train) - len(chunks.held_out)
    assert chunks.learnt.column_lists("word") == chunks.train[:rest:EVERY].column_lists("word")
    assert names.learnt.column_lists("word") == names.train[::EVERY].column_lists("word")
    assert 0 < len(names.held_out) < len(names.read_test())


def test_settings_are_chosen_on_held_out_sentences(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = chunking(Setting(folder))
    asked: list[tuple[str, dict[str, Any]]] = []

    class Tagger:
        """Is right the more often, the longer its segments and the weaker its penalty."""

        def __init__(self, settings: Mapping[str, Any]) -> None:
            self.right = int(settings.get("longest", 1)) / float(settings["l2"]) / 5.0

        def tag_all(self, corpus: Corpus) -> list[list[str]]:
            assert corpus is task.held_out
            gold = corpus.column_lists(task.target)
            return [g if k < self.right else ["O"] * len(g) for k, g in enumerate(gold)]

    def trained(system: str) -> Any:
        def train(_: SegmentTask, data: Corpus, settings: Mapping[str, Any]) -> Tagger:
            assert data is task.learnt
            asked.append((system, dict(settings)))
            return Tagger(settings)

        return train

    for system in (CHAIN, SEGMENTS):
        monkeypatch.setitem(segment_taggers.TRAIN, system, trained(system))
    settings = choose(Protocol("segments", Setting(folder, full=True)), task)
    assert settings == {
        CHAIN: {"l2": 0.001, "scheme": "iob2"},
        SEGMENTS: {"l2": 0.001, "longest": 8, "strings": False},
    }
    assert len(asked) == (2 + 8) + (4 + 8)  # labels and shapes are not trained again


def test_a_quick_run_is_one_of_the_full_one() -> None:
    full = {"labels": LABELS, "chain": PENALTIES, "shape": SHAPES, "segments": PENALTIES}
    for name, settings in QUICK.items():
        assert settings in full[name.removeprefix("chunking, ")]


@pytest.mark.slow
def test_the_whole_run(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "segments" in program.done("recipe", "segments", "--data", folder, "-o", out, "--full")
    rows = json.loads((out / "results.json").read_text("utf-8"))["rows"]
    assert len(rows) == 2 * 2 * 6
    assert len(frozen(out / FILE).choices) == 2 * 4
    page = (out / "report.md").read_text("utf-8")
    assert "randomised F" in page
    assert "Significance, entities" in page
    headline = page[: page.index("<details>")]
    for row in rows:
        if row["metric"] == "F, test, %":
            line = f"| {row['row']} | F, test, % | {number(row['value'])} |"
            assert headline.count(line) == 1
