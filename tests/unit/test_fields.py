"""Fields that agree throughout a document: values, names, what counts as a violation."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import tests.support.command as program
from fstcrf.errors import ModelFileError, NumericError, OptionError
from fstcrf.ext.documents import Consistency, Differing, Fields, Unlabelled, Violation
from fstcrf.ext.documents.fields import LONGEST, VALUES, last_word
from tests.support.document_cases import document_of


@pytest.mark.parametrize(
    ("words", "time"),
    [
        ("3 : 30", 330),
        ("3 : 30 p . m .", 330),
        ("3", 300),
        ("12 noon", 1200),
        ("noon", 1200),
        ("09 : 00", 900),
        ("four", None),
    ],
)
def test_times_are_normalised(words: str, time: int | None) -> None:
    assert VALUES["clock"](words.split()) == time


def test_last_words_have_letters() -> None:
    assert last_word(["Dr", ".", "Jo", "Smith", ",", "3"]) == 3
    assert last_word([",", "."]) is None


def test_each_of_two_times_that_differ_costs_its_length() -> None:
    document = document_of("3 : 30 or 4 or 3 : 30")
    labels = ["B-stime", "I-stime", "I-stime", "O", "B-stime", "O", "B-stime", "I-stime", "I-stime"]
    assert Fields.seminars(-1.0).score(document, labels) == -((3 + 1) + (1 + 3))
    labels[4] = "B-etime"
    assert Fields.seminars(-1.0).score(document, labels) == 0


def test_a_value_that_others_have_counts_once() -> None:
    document = document_of("3 : 30 or 4 or 4 or 5")
    labels = ["B-stime", "I-stime", "I-stime", "O", *["B-stime", "O"] * 2, "B-stime"]
    assert Fields.seminars(-1.0, counting="values").score(document, labels) == -(3 + 1 + 1 + 1) * 2
    assert Fields.seminars(-1.0).score(document, labels) == -(4 + 4 + 4 + 2 + 2)


def test_values_counted_once_are_saved(tmp_path: Path) -> None:
    model = Fields.seminars(-2.0, counting="values")
    model.save(tmp_path / "fields.json")
    assert Fields.load(tmp_path / "fields.json") == model
    made = tmp_path / "made.json"
    times = ["--differing", "stime", "clock", "-1", "--set", "count_values=true"]
    program.run("train", "--structure", "fields", "-o", str(made), *times)
    assert Fields.load(made) == Fields([Differing("stime", "clock", -1.0, "values")])
    with pytest.raises(OptionError, match="counting is 'all'"):
        Differing("stime", "clock", -1.0, "all")  # type: ignore[arg-type]


def test_each_place_of_a_speaker_that_is_not_labelled_costs() -> None:
    document = document_of("Jo Smith and Ann Smith : Smith")
    labels = ["B-speaker", "I-speaker", "O", "B-speaker", "I-speaker", "O", "O"]
    assert Fields.seminars(-1.5).score(document, labels) == 2 * -1.5
    labels[6] = "B-speaker"
    assert Fields.seminars(-1.5).score(document, labels) == 0


def test_fields_with_a_value_of_ones_own() -> None:
    room = Differing("location", lambda words: words[-1], -1.0)
    document = document_of("Room 4 or Hall 4 or Hall 5")
    labels = ["B-location", "I-location", "O", "B-location", "I-location", "O", "O", "O"]
    assert Fields([room]).score(document, labels) == 0
    labels[6:] = ["B-location", "I-location"]
    assert Fields([room]).score(document, labels) == -8


def test_long_spans_agree_with_all() -> None:
    words = ["3", *["x"] * LONGEST, "4"]
    labels = ["B-stime", *["I-stime"] * LONGEST, "B-stime"]
    assert Fields.seminars().score(document_of(" ".join(words)), labels) == 0


def test_models_are_saved_as_text(tmp_path: Path) -> None:
    path = tmp_path / "fields.json"
    Fields.seminars(-2.0, tape="field").save(path)
    assert Fields.load(path) == Fields.seminars(-2.0, tape="field")
    with pytest.raises(ModelFileError, match="of type Fields, expected Consistency"):
        Consistency.load(path)
    with pytest.raises(OptionError, match="the value of 'a' is a function"):
        Fields([Differing("a", len)]).save(path)
    Consistency([Violation("same", ("a", "b"), -1.0)]).save(path)
    with pytest.raises(ModelFileError, match="of type Consistency, expected Fields"):
        Fields.load(path)


@pytest.mark.parametrize(
    "row",
    [
        '{"violation": "odd", "type": "a", "penalty": -1}',
        '{"type": "a"}',
        '{"violation": "differing", "type": "a", "penalty": -1, "value": "x"}',
    ],
)
def test_wrong_files(tmp_path: Path, row: str) -> None:
    path = tmp_path / "fields.json"
    path.write_text(f'{{"format": "fstcrf fields", "version": 1, "violations": [{row}]}}')
    with pytest.raises(ModelFileError, match=r"fields\.json"):
        Fields.load(path)


def test_the_command(tmp_path: Path) -> None:
    path = str(tmp_path / "fields.json")
    program.done("train", "--structure", "fields", "-o", path, "--set", "seminars=true")
    assert Fields.load(path) == Fields.seminars()
    given = ("--differing", "stime", "clock", "-2", "--differing", "room", "text", "-1.5")
    more = ("--unlabelled", "speaker", "-3", "--set", "compare=form", "--set", "tape=field")
    program.done("train", "--structure", "fields", "-o", path, *given, *more)
    wanted = [Differing("stime", "clock", -2.0), Differing("room", "text", -1.5)]
    assert Fields.load(path) == Fields([*wanted, Unlabelled("speaker", -3.0)], "form", "field")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no penalty is given: give --differing, --unlabelled or --set seminars=true"),
        (
            ["--set", "seminars=true", "--unlabelled", "speaker", "-1"],
            "Unlabelled of 'speaker' is there 2",
        ),
        (["--differing", "room", "txt", "-1"], "'txt' is not one of 'clock', 'text'"),
        (["--unlabelled", "room", "-inf"], "penalty of unlabelled room is -inf"),
        (["--unlabelled", "a", "0", "--differing", "b", "text", "4"], "--differing b: the penalty"),
        (["--unlabelled", "room", "4"], "is 4, which would be a reward; expected at most 0, such"),
    ],
)
def test_what_the_command_refuses(tmp_path: Path, given: list[str], message: str) -> None:
    result = program.run(
        "train", "--structure", "fields", "-o", str(tmp_path / "fields.json"), *given
    )
    assert result.exit_code != 0
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_wrong_models() -> None:
    with pytest.raises(OptionError, match="violations has 1, expected Differing or Unlabelled"):
        Fields([1])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="penalty of differing a is '1', expected a number"):
        Differing("a", "clock", "1")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no value 'tme', expected one of clock, text"):
        Differing("stime", "tme")
    with pytest.raises(NumericError, match="penalty of differing stime is nan"):
        Differing("stime", "clock", math.nan)
    with pytest.raises(NumericError, match="penalty of unlabelled speaker is -inf"):
        Unlabelled("speaker", -math.inf)
    with pytest.raises(OptionError, match="at least one violation"):
        Fields([])
    with pytest.raises(OptionError, match="Unlabelled of 'speaker' is there 2 times"):
        Fields([Unlabelled("speaker"), Unlabelled("speaker")])


def test_penalties_that_no_float_holds() -> None:
    with pytest.raises(NumericError, match="penalty of unlabelled a is inf"):
        Unlabelled("a", 10**400)


def test_rewards_are_legal_in_python(tmp_path: Path) -> None:
    path = tmp_path / "fields.json"
    Fields([Differing("room", "text", 4)]).save(path)
    assert Fields.load(path).violations[0].penalty == 4.0


def test_values_can_be_compared() -> None:
    said = Fields([Differing("a", list, -1.0)])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="the value of 'a' is a list, expected something that"):
        said.score(document_of("x"), ["B-a"])
