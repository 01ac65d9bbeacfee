"""The recipe ``consistency``: columns from the rest of a document, tokens, folds, a small run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fstcrf.corpus import Corpus
from fstcrf.recipes.consistency import announcements, recipe
from fstcrf.recipes.consistency.announcements import folds
from fstcrf.recipes.consistency.elsewhere import CASE, columns, elsewhere
from fstcrf.recipes.consistency.tokens import mean_f, token_counts
from fstcrf.recipes.recipe import Setting

NAMES = """\
-DOCSTART- -X- O O

Jo NNP I-NP I-PER
of IN I-PP O
Rome NNP I-NP I-LOC
met VBD I-VP O
Acme NNP I-NP I-ORG

Acme NNP I-NP I-ORG
likes VBZ I-VP O
Roman JJ I-NP I-MISC
Jo NNP I-NP I-PER

"""
MESSAGE = """\
Who: <speaker>Jo Smith</speaker>
When: <stime>3:3{0}</stime> - <etime>4 p.m.</etime>, <location>Hall {0}</location>
Dr. <speaker>Smith</speaker> talks at <stime>3:3{0}</stime>.
"""


def test_what_documents_say_of_words() -> None:
    words = [["Rome", "fell"], ["in", "Rome", "then"], ["at", "Rome", "."], ["ROME", "WON"]]
    found = elsewhere(Corpus.from_sentences([{"word": w} for w in words]))
    before, after = (found.column_lists(columns(side)[0]) for side in ("before", "after"))
    assert [row[0] for row in before] == ["in", "", "", "in"]
    assert before[1][1] == "at"
    assert after[1] == ["", "fell", ""]
    assert found.column_lists(columns("after")[1])[1] == ["", ".", ""]
    assert found.column_lists(CASE) == [
        ["c", "l"],
        ["l", "c", "l"],
        ["l", "c", "-"],
        ["c", "-"],
    ]


def test_other_documents_do_not_count(tmp_path: Path) -> None:
    corpus = Corpus.from_sentences([{"word": ["at", "Rome"]}, {"word": ["in", "Rome"]}])
    corpus.documents[1] = 1
    assert elsewhere(corpus).column_lists(columns("before")[0]) == [["", ""], ["", ""]]


def test_tokens_have_the_type_of_their_field() -> None:
    gold, labels = [["B-a", "I-a", "O", "B-b"]], [["B-a", "B-a", "I-a", "O"]]
    counts = token_counts(gold, labels, ["a", "b"])
    assert counts["a"].f == pytest.approx(2 * 2 / (3 + 2))
    assert counts["b"].f == 0
    assert mean_f(counts) == pytest.approx(0.4)


def test_folds_are_equal_and_keep_twins_together() -> None:
    found = folds(485, 0)
    assert found[0] == found[25]
    assert {found.tolist().count(k) for k in range(5)} <= {96, 97, 98}


def test_a_small_run_and_its_resumption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SAME": (0.0,), "WITHIN": (1.0,), "_TABLE1": (("token", 20),)}.items():
        monkeypatch.setattr(recipe, name, value)
    for name in ("TIMES", "NAMES"):
        monkeypatch.setattr(announcements, name, (0.0, -1.0))
    data, report = tmp_path / "data", tmp_path / "report"
    (data / "conll2003").mkdir(parents=True)
    (data / "seminars/docs").mkdir(parents=True)
    report.mkdir()
    for name in ("train", "testa", "testb"):
        (data / f"conll2003/eng.{name}").write_text(NAMES * 2)
    for k in range(10):
        (data / f"seminars/docs/{k:03}.txt").write_text(MESSAGE.format(k))
    told: list[str] = []
    first = recipe.run(Setting(data, report, say=told.append))
    values = {(row.row, row.metric): row.value for row in first.rows}
    assert values["features of the paper, Viterbi", "F, test, %"] == 100
    name = "announcements, features of the paper, Viterbi"
    assert values[name, "token F, %: mean of the fields"] > 80
    told.clear()
    again = recipe.run(Setting(data, report, say=told.append))
    assert not any(line.endswith("training") for line in told)
    assert [row.row for row in again.rows] == [row.row for row in first.rows]
