"""The recipe ``consistency``: columns from the rest of a document, tokens, folds, a small run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fstcrf.errors import DataError
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
def test_a_small_run_and_its_resumption(setting: Setting) -> None:
    told: list[str] = []
    setting = replace(setting, say=told.append)
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
    told.clear()
    again = run_recipe(RECIPES["consistency"], setting)
    assert not any(line.startswith("consistency: ") for line in told)  # nothing is done again
    assert again.result.rows == first.result.rows


@pytest.mark.slow
def test_a_full_run_chooses_on_the_dev_file(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the test file is read before the settings are frozen."""
    told: list[str] = []
    order: list[str] = []
    entities = consistency.read

    def check() -> None:
        assert setting.report is not None
        frozen(setting.report / "settings.json")

    def read(given: Setting, part: str) -> Corpus:
        order.append(part)
        if part == "testb":
            check()
        return entities(given, part)

    def say(line: str) -> None:
        told.append(line)
        if "IOB1" in line:
            check()

    monkeypatch.setattr(consistency, "read", read)
    report = run_recipe(RECIPES["consistency"], replace(setting, full=True, say=say))
    assert setting.report is not None
    choices = frozen(setting.report / "settings.json").choices
    assert order == ["train", "testa", "testb"]
    assert len(choices["features"].trials) == 2
    assert len(choices["label pairs"].trials) == 2
    assert len(choices["more features, prior"].trials) == 2
    assert {trial.settings["scheme"] for trial in choices["labels and prior"].trials} == {"io"}
    assert "more features, with consistency" in [line.row for line in report.result.headline]
    assert any("held-out" in line for line in told)


@pytest.mark.slow
def test_types_that_a_file_does_not_have(setting: Setting) -> None:
    for path in setting.files("conll2003/*"):
        path.write_text(path.read_text().replace("I-ORG", "I-PER"))
    report = run_recipe(RECIPES["consistency"], setting)
    values = {(row.row, row.metric): row.value for row in report.result.rows}
    assert values["features of table 2, Viterbi", "F, test, %: PER"] == 100
    assert values["features of table 2, Viterbi", "F, test, %: ORG"] == 0
    assert "| ORG |  |  | 0 (2,975) | 0 (0) |" in report.markdown()


def interrupted(setting: Setting) -> tuple[str, list[str]]:
    """Stop a run in the second fold of announcements; return its page and what was said."""
    told: list[str] = []

    def say(line: str) -> None:
        told.append(line)
        if line == "consistency: announcements, features of the paper, fold 2 of 5":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_recipe(RECIPES["consistency"], replace(setting, say=say))
    assert setting.report is not None
    return (setting.report / "report.md").read_text("utf-8"), told


@pytest.mark.slow
def test_an_interrupted_run_tells_what_it_found_and_goes_on(setting: Setting) -> None:
    page, _ = interrupted(setting)
    assert "**Not complete**: interrupted after " in page
    assert "| chosen features, Viterbi | F, test, % |" in page
    assert "| announcements, features of the paper, fold 1: Viterbi |" in page
    page, told = interrupted(setting)
    assert "of earlier runs" in page
    done = [line for line in told if line.startswith("consistency: ")]
    assert done == ["consistency: announcements, features of the paper, fold 2 of 5"]


@pytest.mark.slow
def test_other_messages_are_another_run(setting: Setting) -> None:
    interrupted(setting)
    for path in setting.files("seminars/docs/*.txt")[::2]:
        text = path.read_text("utf-8")
        path.write_text(text.replace("<speaker>", "").replace("</speaker>", ""))
    with pytest.raises(DataError, match="settings of another run were frozen here"):
        run_recipe(RECIPES["consistency"], setting)
    (setting.data.parent / "report/settings.json").unlink()
    page, told = interrupted(setting)
    assert "of earlier runs" not in page
    assert "consistency: announcements, features of the paper, fold 1 of 5" in told
