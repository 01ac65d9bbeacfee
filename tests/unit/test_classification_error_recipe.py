"""The recipe ``mce`` on a small corpus in the place of CoNLL-2000 and CoNLL-2003."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fstcrf.recipes import Setting, run_recipe
from fstcrf.recipes import classification_error as recipe_module
from fstcrf.recipes.classification_error import chosen, sentence_counts
from fstcrf.recipes.corpora import documents_of
from fstcrf.recipes.corpora import entities as read_entities
from fstcrf.recipes.error_systems import (
    SYSTEMS,
    TASKS,
    Choice,
    System,
    Tagset,
    TaskTrainer,
    penalty,
    read_test,
)
from fstcrf.recipes.protocol import FILE, Protocol, frozen
from fstcrf.taggers import CRF
from tests.support import notices

BIOES = Tagset("bioes", "inside")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    for part, size in (("train", 80), ("test", 40)):
        notices.write(data / "conll2000" / f"{part}.txt", part, size, chunks=True)
    for part, size in (("train", 40), ("testa", 20), ("testb", 20)):
        notices.write(data / "conll2003" / f"eng.{part}", "train", size, chunks=False)
    return data


@pytest.mark.thorough
def test_the_short_run(folder: Path, tmp_path: Path) -> None:
    run_recipe(recipe_module.RECIPE, Setting(folder, tmp_path))
    rows = json.loads((tmp_path / "results.json").read_text("utf-8"))["rows"]
    quick = [system for system in SYSTEMS if system.quick]
    runs = [(task, s) for task in TASKS for s in quick]
    scores = [row for row in rows if row["metric"] == "F, test, %"]
    assert [row["row"] for row in scores] == [f"{task}: {s.name}" for task, s in runs]
    assert [row["paper"] for row in scores] == [s.paper[task][0] for task, s in runs]
    assert all(0.0 < row["value"] <= 100.0 for row in rows)
    page = (tmp_path / "report.md").read_text("utf-8")
    for words in ("McNemar", "calibration error", "| entities: MAP | sentences right, % | 77.39 |"):
        assert words in page
    assert len(frozen(tmp_path / FILE).choices) == 2 + 2 * len(quick)


def test_folds_are_what_is_trained_on_by_thirds(folder: Path) -> None:
    task = TASKS["chunking"](Setting(folder), BIOES)
    words = task.train.column_lists("word")
    assert [word for _, dev in task.held_out for word in dev.column_lists("word")] == words
    for part, dev in task.held_out:
        assert len(part) + len(dev) == len(words)
        assert abs(len(dev) - len(words) / 3) < 1
        rest = part.column_lists("word")
        assert sorted([*rest, *dev.column_lists("word")]) == sorted(words)
    assert task.dev is None


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:labels of the held-out data that training never saw")
def test_settings_are_chosen_by_means_over_folds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = Setting(folder)
    task = TASKS["chunking"](setting, BIOES)
    options = {"objective": "mce-f", "method": "quickprop"}
    system = System("MCE-F", options, {}, {}, (1e3, 1e4), (2, 3))
    trainer, protocol = TaskTrainer(task, setting), Protocol("mce", setting)
    kept = {(c, n): trainer.held_out(system, Choice(c, n)) for c in (1e3, 1e4) for n in (2, 3)}
    courses = {c: trainer.course(system, Choice(c)) for c in (1e3, 1e4)}
    assert all(kept[c, n] == courses[c][n - 1] for c, n in kept)
    alone = [
        TaskTrainer(replace(task, held_out=(fold,)), setting).course(system, Choice(1e3))
        for fold in task.held_out
    ]
    assert [row[1] for row in alone] != [courses[1e3][1]] * 3
    assert np.mean([row[1] for row in alone]) == pytest.approx(courses[1e3][1])
    monkeypatch.setattr(CRF, "train", None)
    monkeypatch.setattr(TaskTrainer, "course", lambda *given: courses[given[2].C])
    found = chosen(protocol, system, trainer, None, full=True)
    best = max((1e3, 1e4), key=lambda c: max(kept[c, 2], kept[c, 3]))
    assert best == found.C
    assert kept[best, found.iterations or 0] == max(kept[best, 2], kept[best, 3])


def test_the_penalty_in_the_units_of_the_paper(folder: Path) -> None:
    task = TASKS["entities"](Setting(folder), BIOES)
    labels = [label for row in task.train.column_lists("entity") for label in row]
    segments = sum(label[0] in "BS" for label in labels)
    by_name = {system.name: system for system in SYSTEMS}
    assert penalty(by_name["MAP"], task, task.train, 1.0) == 0.5
    assert penalty(by_name["MCE (sig)"], task, task.train, 1000.0) == 0.0005
    assert penalty(by_name["MCE-F (sig)"], task, task.train, 1e4) == pytest.approx(segments / 1e4)
    assert penalty(by_name["ML"], task, task.train, None) == 0.0


def test_lines_of_documents_count_as_right_sentences(folder: Path) -> None:
    setting = Setting(folder)
    test = read_test(TASKS["entities"](setting, BIOES), setting)
    labels = test.column_lists("entity")
    labels[0] = ["O"] * (len(labels[0]) + 1)
    without, counted = (
        sentence_counts(test, "entity", labels, document_lines=given) for given in (False, True)
    )
    text = (folder / "conll2003" / "eng.testb").read_text("utf-8")
    lines = text.count("-DOCSTART-")
    assert len(test) + lines == text.count("\n\n") + 1
    assert lines > 1
    assert without.f == pytest.approx((len(test) - 1) / len(test))
    assert counted.f == pytest.approx((len(test) + lines - 1) / (len(test) + lines))
    numbers = documents_of(test)
    assert numbers is not None
    assert numbers.max() + 1 == lines


def test_entities_are_read_in_bioes(folder: Path) -> None:
    setting = Setting(folder)
    task = TASKS["entities"](setting, BIOES)
    test = read_test(task, setting)
    assert {label[0] for row in test.column_lists("entity") for label in row} == set("BIOES")
    ((part, dev),) = task.held_out
    assert part is task.train
    assert task.dev is dev
    for corpus, name in ((task.train, "train"), (dev, "testa"), (test, "testb")):
        shared = read_entities(setting, name, "bioes")  # the file as other recipes read it
        assert corpus.column_lists("entity") == shared.column_lists("ner")
        assert corpus.column_lists("word") == shared.column_lists("word")
