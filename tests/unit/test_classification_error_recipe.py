"""The recipe ``mce`` on a small corpus in the place of CoNLL-2000."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tests.support.command as program
from fstcrf.demo import corpus_path
from fstcrf.recipes import Setting
from fstcrf.recipes.classification_error import SYSTEMS, Choice, System, chosen, chunking, entities
from fstcrf.recipes.corpora import entities as read_entities


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notices of the demo: word, tag and field stand for word, tag and chunk."""
    data = tmp_path_factory.mktemp("data")
    for name in ("conll2000", "conll2003"):
        (data / name).mkdir()
    for part, size in (("train", 80), ("test", 40)):
        sentences = corpus_path(part).read_text("utf-8").strip().split("\n\n")[:size]
        rows = [[line.split() for line in sentence.splitlines()] for sentence in sentences]
        text = "\n\n".join("\n".join(" ".join(row) for row in sentence) for sentence in rows)
        (data / "conll2000" / f"{part}.txt").write_text(text + "\n", "utf-8")
    for part, size in (("train", 40), ("testa", 20), ("testb", 20)):
        sentences = corpus_path("train").read_text("utf-8").strip().split("\n\n")[:size]
        rows = [[line.split() for line in sentence.splitlines()] for sentence in sentences]
        text = "\n\n".join(
            "\n".join(f"{w} {tag} O {field}" for w, tag, field in sentence) for sentence in rows
        )
        (data / "conll2003" / f"eng.{part}").write_text(text + "\n", "utf-8")
    return data


@pytest.mark.thorough
def test_the_short_run(folder: Path, tmp_path: Path) -> None:
    printed = program.done("recipe", "mce", "--data", folder, "--report", tmp_path / "out")
    assert "MCE-F (sig) from MAP" in printed
    rows = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    systems = [system for system in SYSTEMS if system.quick]
    runs = [(task, s) for task in ("chunking", "entities") for s in systems]
    assert [row["row"] for row in rows[::2]] == [f"{task}: {s.name}" for task, s in runs]
    assert [row["paper"] for row in rows[::2]] == [s.paper[task][0] for task, s in runs]
    assert all(0.0 < row["value"] <= 100.0 for row in rows)
    page = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "McNemar" in page


def test_settings_are_chosen_on_the_dev_part(folder: Path) -> None:
    task = chunking(Setting(folder))
    assert len(task.data.part) == len(task.data.dev) == len(task.data.train) // 2 > 20
    said: list[str] = []
    system = System(
        "MCE-F",
        {"objective": "mce-f", "method": "quickprop"},
        from_map=False,
        quick=True,
        paper={},
        choice={"chunking": Choice(0.1, 5)},
        grid=(0.1, 1.0),
    )
    found = chosen(system, task, None, 0, said.append)
    assert found.l2 in system.grid
    assert found.iterations is not None
    assert 1 <= found.iterations <= 10
    assert [line.rpartition(":")[0] for line in said] == [
        f"mce: chunking, MCE-F, l2 {l2:g}" for l2 in system.grid
    ]


def test_entities_are_read_in_bioes(folder: Path) -> None:
    task = entities(Setting(folder))
    labels = task.data.test.column_lists("entity")
    assert {label[0] for sentence in labels for label in sentence} == set("BIOES")
    assert task.data.part is task.data.train
    setting = Setting(folder)
    for corpus, part in (
        (task.data.train, "train"),
        (task.data.dev, "testa"),
        (task.data.test, "testb"),
    ):
        shared = read_entities(setting, part, "bioes")  # the file as other recipes read it
        assert corpus.column_lists("entity") == shared.column_lists("ner")
        assert corpus.column_lists("word") == shared.column_lists("word")
