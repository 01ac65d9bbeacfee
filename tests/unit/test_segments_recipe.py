"""The recipe ``segments`` on a small corpus in the place of CoNLL-2000 and CoNLL-2003."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tests.support.command as program
from fstcrf.demo import corpus_path
from fstcrf.recipes import Setting
from fstcrf.recipes.segment_taggers import chain, chunking, entities, segment_tagger


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notices of the demo: word, tag and field stand for word, tag and chunk."""
    data = tmp_path_factory.mktemp("data")
    for name in ("conll2000", "conll2003"):
        (data / name).mkdir()
    for part, other, size in (("train", "train", 60), ("test", "testb", 30)):
        sentences = corpus_path(part).read_text("utf-8").strip().split("\n\n")[:size]
        (data / "conll2000" / f"{part}.txt").write_text("\n\n".join(sentences) + "\n", "utf-8")
        rows = [[line.split() for line in sentence.splitlines()] for sentence in sentences]
        text = "\n\n".join(
            "\n".join(f"{w} {tag} O {field}" for w, tag, field in sentence) for sentence in rows
        )
        (data / "conll2003" / f"eng.{other}").write_text(text + "\n", "utf-8")
    return data


def test_both_taggers_learn(folder: Path) -> None:
    for task in (chunking(Setting(folder)), entities(Setting(folder))):
        runs = [chain(task), segment_tagger(task, task.segments, "segments")]
        assert all(run.f > 50.0 and run.weights > 100 for run in runs)
        assert [len(labels) for labels in runs[1].labels] == [len(s) for s in task.test]


@pytest.mark.thorough
def test_the_whole_run(folder: Path, tmp_path: Path) -> None:
    given = ("--data", folder, "--report", tmp_path / "out", "--full")
    assert "segments" in program.done("recipe", "segments", *given)
    rows = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert len(rows) == 2 * 3 * 3
    page = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "randomised F" in page
    assert "Significance, entities" in page
