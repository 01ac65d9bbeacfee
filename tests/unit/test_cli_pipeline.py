"""``fstcrf pipeline``: three taggers in a TOML file, trained and used from the shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import done, failure, run
from tests.unit.test_pipelines import GOOD, declared


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline")
    done("pipeline", "train", declared(folder, GOOD), "-o", folder / "out")
    return folder


TEXT = "a\nb\n\nc\nd\ne\n\n"


@pytest.mark.parametrize("decode", ["cascade", "joint", "marginals"])
def test_three_taggers_print_three_columns(folder: Path, decode: str) -> None:
    printed = done("pipeline", "tag", folder / "out", "--decode", decode, given=TEXT)
    rows = [line.split() for line in printed.splitlines() if line]
    assert [row[0] for row in rows] == list("abcde")
    assert all([field[0] for field in row[1:]] == ["A", "B", "C"] for row in rows)


def test_one_task_several_labellings_probabilities(folder: Path) -> None:
    printed = done(
        "pipeline",
        "tag",
        folder / "out",
        "--nbest",
        2,
        "--task",
        "c",
        "--probabilities",
        given=TEXT,
    )
    heads = [line.split() for line in printed.splitlines() if line.startswith("#")]
    assert [head[1] for head in heads] == ["0", "1", "0", "1"]
    assert float(heads[0][2]) >= float(heads[1][2])
    row = printed.splitlines()[1].split()
    assert row[0] == "a"
    assert row[1].startswith("C")
    assert 0 <= float(row[1].split("/")[1]) <= 1


def test_how_sure_it_is(folder: Path) -> None:
    (folder / "two.grm").write_text('tape c;\nexport ONE = at_most[1, "C1"];\n')
    given = ("pipeline", "tag", folder / "out", "--confidence")
    for options, below in (
        (("--decode", "cascade"), False),
        (("--decode", "joint"), False),
        (("--decode", "joint", "--grammar", folder / "two.grm"), True),
    ):
        printed = done(*given, *options, given=TEXT)
        heads = [line.split() for line in printed.splitlines() if line.startswith("#")]
        assert [head[2] for head in heads] == ["legal:", "legal:"]
        assert all(0 < float(head[1]) <= 1 for head in heads)
        assert any(float(head[3]) < 1 for head in heads) == below
    text = failure(*given, "--nbest", 2, status=2, given=TEXT)
    assert "--confidence is for the best labels" in text


def test_a_grammar_goes_with_joint_decisions(folder: Path) -> None:
    (folder / "one.grm").write_text('tape c;\nexport ONE = at_most[1, "C1"];\n')
    given = ("--grammar", folder / "one.grm")
    printed = done("pipeline", "tag", folder / "out", "--task", "c", *given, given=TEXT)
    assert all(sentence.count("C1") <= 1 for sentence in printed.split("\n\n"))
    text = failure(
        *("pipeline", "tag", folder / "out", "--decode", "cascade"), *given, status=2, given=TEXT
    )
    assert "--grammar needs a joint decision" in text


def test_a_text_with_other_columns(folder: Path) -> None:
    given = ("pipeline", "tag", folder / "out")
    text = failure(*given, given="a x y\nb x y\n")
    assert text.endswith("if the text has 3 columns, name them all: --columns")
    printed = done(*given, "--columns", "word,x,y", given="a x y\nb x y\n")
    assert [line.split()[:3] for line in printed.splitlines() if line] == [
        ["a", "x", "y"],
        ["b", "x", "y"],
    ]
    assert failure(*given, given="a x\nb x y\n").endswith("'b x y'")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("jackknife = 3", "task 'a': jackknife is for the taggers of reads=, and there are none"),
        ('passing = "nbest"', "task 'a': passing is for the taggers of reads=, and there are none"),
        ('scheme = "bogus"', "task 'a': scheme 'bogus', expected one of iob1, iob2"),
    ],
)
def test_options_that_cannot_be_are_refused_first(
    tmp_path: Path, option: str, message: str
) -> None:
    text = GOOD.replace('template = "a.tpl"', f'template = "a.tpl"\n{option}')
    path = declared(tmp_path, text)
    result = run("pipeline", "train", path, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"fstcrf: error: {path}: {message}")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_failures_are_one_line(folder: Path, tmp_path: Path) -> None:
    circle = GOOD.replace('template = "a.tpl"', 'template = "a.tpl"\nreads = ["c"]')
    path = declared(tmp_path, circle)
    (tmp_path / "a.tpl").write_text("U:%y[0,c]\nB\n")
    assert "read each other in a circle: " in failure(
        "pipeline", "train", path, "-o", tmp_path / "out", status=2
    )
    assert "the tasks are a, b, c" in failure(
        "pipeline", "tag", folder / "out", "--task", "x", status=2, given=TEXT
    )
    assert "expected a folder" in failure(
        *("pipeline", "train", folder / "pipeline.toml", "-o", folder / "a.txt"), status=2
    )
    (tmp_path / "none").mkdir()
    assert "no finished pipeline" in failure("pipeline", "tag", tmp_path / "none", given=TEXT)
