"""The recipe ``consistency``: columns from the rest of a document, tokens, folds, a small run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fstcrf.recipes import RECIPES, Setting, announcements, consistency, run_recipe
from fstcrf.recipes.announcements import folds
from fstcrf.recipes.corpora import BREAK, all_messages, mean_f, token_counts, without_breaks
from fstcrf.recipes.entity_features import (
    CASE,
    OCCURS,
    LocalFeatures,
    columns,
    elsewhere,
    occurrences,
)
from fstcrf.recipes.protocol import frozen
from fstcrf.text.corpus import Corpus

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


def test_how_names_occur_nearby() -> None:
    rows = [
        ["in", "Rome", "and", "Bonn", "there"],
        ["the", "mayor", "of", "old", "Rome", "said", "that", "Jo", "Smith", "left"],
        ["then", "Smith", "went", "and", "Ann", "Smith", "came"],
    ]
    tags = [["NNP" if w[0].isupper() else "X" for w in row] for row in rows]
    found = occurrences(
        Corpus.from_sentences([{"word": w, "pos": t} for w, t in zip(rows, tags, strict=True)])
    )
    patterns = found.column(OCCURS).strings()
    words = found.column("word").strings()
    assert [(w, p) for w, p in zip(words, patterns, strict=True) if p != "-"] == [
        ("Rome", "+a"),
        ("Bonn", "0"),
        ("Rome", "-a"),
        ("Smith", "+n"),  # Jo Smith: another name before, and none
        ("Smith", "+l-l"),
        ("Smith", "-n"),
    ]
    found.documents[:] = range(3)
    apart = occurrences(found).column(OCCURS).strings()
    assert [p for w, p in zip(words, apart, strict=True) if w == "Rome"] == ["0", "0"]


def test_templates_of_the_factorial() -> None:
    train = Corpus.from_sentences([{"word": ["Rome", "fell", "at", "Last"]}])
    texts = {}
    for settings in consistency.FACTORIAL:
        texts[str(settings)] = str(LocalFeatures.of(settings).template(train))
    assert len(set(texts.values())) == len(consistency.FACTORIAL) == 16
    every = LocalFeatures(known=True, products=True, occurrences=True, across=True, pairs=True)
    assert 'BS0:%d[-1,known_shape(word,"lower")]' in str(every.template(train))
    templates = every.template(train)
    assert templates.lists == {"lower": ("at", "fell")}
    assert "U9:%d{-4..-1,word}" in str(templates)
    assert "UW0:%d[-1,word]/%d[0,known_shape(word" in str(templates)


def test_line_breaks_are_tokens_that_are_not_scored(tmp_path: Path) -> None:
    (tmp_path / "seminars/docs").mkdir(parents=True)
    (tmp_path / "seminars/docs/001.txt").write_text(MESSAGE.format(5))
    setting = Setting(tmp_path)
    plain, broken = all_messages(setting), all_messages(setting, breaks=True)
    words = broken.column_lists("word")
    assert words[0].count(BREAK) == 3
    assert without_breaks(words, words) == plain.column_lists("word")
    assert without_breaks(words, broken.column_lists("field")) == plain.column_lists("field")


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


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """Return the setting of a small run."""
    short = {
        "_TABLE1": (("token", 20),),
        "FACTORIAL": [consistency.QUICK["features"], consistency.FACTORIAL[-1]],
        "LABELS": consistency.LABELS[-2:],
        "PRIORS": consistency.PRIORS[-2:],
        "STRINGS": consistency.STRINGS[-2:],
        "WEIGHTS": consistency.WEIGHTS[:2],
        "RUNS_FULL": 2,
        "RUNS": 2,
        "SMALL": 40,
    }
    for name, value in short.items():
        monkeypatch.setattr(consistency, name, value)
    for name in ("RUNS", "RUNS_FULL"):
        monkeypatch.setattr(announcements, name, 2)
    for name in ("TIMES", "NAMES"):
        monkeypatch.setattr(announcements, name, (0.0, -1.0))
    data = tmp_path / "data"
    (data / "conll2003").mkdir(parents=True)
    (data / "seminars/docs").mkdir(parents=True)
    for name in ("train", "testa", "testb"):
        (data / f"conll2003/eng.{name}").write_text(NAMES * 2)
    for k in range(10):
        (data / f"seminars/docs/{k:03}.txt").write_text(MESSAGE.format(k))
    return Setting(data, tmp_path / "report")


@pytest.mark.thorough
def test_the_quick_form(setting: Setting) -> None:
    first = run_recipe(RECIPES["consistency"], setting)
    values = {(row.row, row.metric): row.value for row in first.result.rows}
    assert values["features of table 2, Viterbi", "F, test, %"] == 100
    name = next(row for row, _ in values if "exact answers of" in row)
    assert values[name, "documents of at most 40 tokens"] == 2
    assert values[name, "solved: best labels proven"] == 2
    name = "announcements, features of the paper, Viterbi"
    assert values[name, "token F, %: mean of the fields"] > 80
    assert [line.row for line in first.result.headline][:2] == [
        "features of table 2, Viterbi",
        "features of table 2, with consistency",
    ]
    assert "L2 of 0.1 (features of the paper)" in first.markdown()
    assert setting.report is not None
    assert set(frozen(setting.report / "settings.json").choices) >= {
        "features",
        "labels and prior",
        "chosen features, weights",
        "announcements, features of the paper, fold 1, prior",
        "announcements, more features, fold 5, names",
        "announcements, fold 5, tokens",
    }


@pytest.mark.slow
def test_types_that_a_file_does_not_have(setting: Setting) -> None:
    for path in setting.files("conll2003/*"):
        path.write_text(path.read_text().replace("I-ORG", "I-PER"))
    report = run_recipe(RECIPES["consistency"], setting)
    values = {(row.row, row.metric): row.value for row in report.result.rows}
    assert values["features of table 2, Viterbi", "F, test, %: PER"] == 100
    assert values["features of table 2, Viterbi", "F, test, %: ORG"] == 0
    assert "| ORG |  |  | 0 (2,975) | 0 (0) |" in report.markdown()
