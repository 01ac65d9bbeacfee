"""``fstcrf convert``, and models of CRFsuite in the other commands."""

from __future__ import annotations

from pathlib import Path

import pytest

import fstcrf
from fstcrf import CRF
from fstcrf.ext.foreign.crfsuite import export, write_model
from tests.support.command import done, failure, run
from tests.support.crfsuite_models import small
from tests.support.pattern_models import crfpp_text

ITEMS = "DET\tw=the\nN\tw=cat\tnaïve\\:ü:0.5\n\nDET\tw=the\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.crfsuite").write_bytes(write_model(small()))
    Path("in.items").write_text(ITEMS, encoding="utf-8")
    return tmp_path


def test_there_and_back() -> None:
    result = run("convert", "m.crfsuite", "-o", "m.fstcrf")
    assert result.stderr == "fstcrf: m.fstcrf: 3 labels, 8 weights\n"
    done("convert", "m.fstcrf", "-o", "again.crfsuite")
    wanted = write_model(export(fstcrf.load_crfsuite("m.crfsuite")))
    assert Path("again.crfsuite").read_bytes() == wanted
    done("convert", "again.crfsuite", "-o", "copy", "--to", "fstcrf", "--set", "tape_name=pos")
    assert CRF.load("copy").tape == "pos"


def test_templates_go_to_programs_that_read_columns() -> None:
    data = fstcrf.Corpus.from_sentences([[("a", "X", "N"), ("b", "Y", "V")]], ("w", "l", "p"))
    CRF.train(data, "l", "U:%x[0,w]/%x[0,p]\nB").save("own.fstcrf")
    for name in ("m.wapiti", "m.crfpp", "text"):
        to = ("--to", "crfpp-text") if name == "text" else ()
        said = run("convert", "own.fstcrf", "-o", name, *to).stderr.splitlines()
        assert said[1] == "fstcrf: its input has the columns w, p, in this order"
        assert done("tag", name, given="a N\nb V\n") == "a N X\nb V Y\n"
    line = failure("convert", "m.crfsuite", "-o", "x.wapiti", status=2)
    assert line.startswith("Wapiti's format has no place for this: the tagger reads lists of attr")
    assert not Path("x.wapiti").exists()


def test_what_it_does_not_convert() -> None:
    done("convert", "m.crfsuite", "-o", "m.fstcrf")
    Path("one.grm").write_text('export ONE = "[N]" (any - "[N]")*;\n')
    done("compose", "m.fstcrf", "--grammar", "one.grm", "-o", "legal.fstcrf")
    line = failure("convert", "legal.fstcrf", "-o", "legal.crfsuite")
    assert line.startswith("legal.fstcrf: other formats cannot store a composition of taggers")
    for name in ("m.crfsuite", "m.fstcrf"):
        line = failure("convert", name, "-o", "x.fstcrf", "--set", "tape_name=", status=2)
        assert line.startswith("the name of the tape is empty")
    assert not Path("x.fstcrf").exists()


def test_where_it_cannot_go() -> None:
    line = failure("convert", "m.crfsuite", "-o", "m.foo", status=2)
    endings = ".fstcrf or .crfsuite or .crfpp or .wapiti"
    assert line.startswith(f"m.foo does not end in {endings}: name the format with --to FORMAT")
    assert "--to frob: expected one of fstcrf, crfsuite, crfpp, crfpp-text, wapiti" in failure(
        "convert", "m.crfsuite", "-o", "x", "--to", "frob", status=2
    )
    for more in (("--set", "factor=9"), ("--to", "mecab", "--set", "tape_name=x")):
        assert "--to mecab" in failure("convert", "m.crfsuite", "-o", "x.fstcrf", *more, status=2)
    line = failure("convert", "m.crfsuite", "-o", "m.crfsuite", status=2)
    assert line.startswith("--output m.crfsuite would overwrite an input")
    assert failure("convert", "m.crfsuite", "-o", "no/m.fstcrf") == (
        "no/m.fstcrf: No such file or directory"
    )
    Path("bad.crfsuite").write_bytes(b"no model")
    for output in ("no/m.fstcrf", "no/m.crfsuite"):  # before the model is read
        assert failure("convert", "bad.crfsuite", "-o", output).startswith("no/m.")
    sentences, labels = [[["x"], ["y"]]], [["B-X", "I-X"]]
    CRF.train(sentences, labels, scheme="iob2", max_iterations=1).save("legal.fstcrf")
    line = failure("convert", "legal.fstcrf", "-o", "legal.crfsuite", status=2)
    assert "forbids label sequences" in line
    assert not Path("legal.crfsuite").exists()


def test_what_cannot_be_read() -> None:
    whole = Path("m.crfsuite").read_bytes()
    fstcrf.load_crfsuite("m.crfsuite").save("own.fstcrf")
    files = {
        "empty": b"",
        "text": ITEMS.encode(),
        "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
        "cut": whole[:-1],
        "start": whole[:8],
        "own.cut": Path("own.fstcrf").read_bytes()[:-1],
    }
    for name, data in files.items():
        Path(name).write_bytes(data)
        for command in (("convert", name, "-o", "out.fstcrf"), ("info", name), ("tag", name)):
            line = failure(*command, given="")
            assert line.startswith(f"{name}: "), line
    assert not Path("out.fstcrf").exists()
    assert failure("convert", "none", "-o", "out.fstcrf") == "none: No such file or directory"
    assert failure("info", ".") == ".: a folder, expected the file of a model"


def test_scoring_and_explaining() -> None:
    assert done("eval", "m.crfsuite", "in.items").splitlines()[0].startswith("processed 3 tokens")
    assert done("info", "m.crfsuite", "in.items", "--token", "1").splitlines()[:2] == [
        "DET [N]",
        "token 1: N",
    ]
    assert "3 labels" in done("info", "m.crfsuite")


def test_items() -> None:
    assert done("tag", "m.crfsuite", "in.items") == "DET\tDET\nN\tN\n\nDET\tDET\n"
    assert failure("tag", "m.crfsuite", given="DET\tw:the\n") == (
        "<stdin>:1: attribute 'w' has the value 'the', expected a number; a colon in an attribute "
        "is written \\:"
    )
    assert failure("tag", "m.crfsuite", given="the DT\n").startswith(
        "<stdin>:1: no line has attributes"
    )
    assert done("tag", "m.crfsuite", given="") == ""
    line = failure("tag", "m.crfsuite", "in.items", "--columns", "a,b", status=2)
    assert line.startswith("--columns and --format are for models over columns")


# --- Models whose columns have no names ---------------------------------------------------------

PATTERNS = crfpp_text(
    [b"N", b"V"],
    [b"U0:%x[0,0]", b"U1:%x[0,1]", b"B"],
    {b"U0:\xe9t\xe9": (0, 2), b"U1:NN": (1, 0), b"B": (0, 0, 0, 0)},
)


@pytest.fixture
def patterns() -> Path:
    path = Path("model.txt")
    path.write_bytes(PATTERNS)
    Path("data").write_text("\u00e9t\u00e9 NN\nwall NN\n\n", encoding="utf-8")
    return path


@pytest.fixture
def counted(patterns: Path) -> None:
    """The model whose columns are counted, as model.fstcrf."""
    done("convert", patterns, "-o", "model.fstcrf", "--set", "encoding=latin-1")


def test_columns_are_named_and_texts_decoded(patterns: Path) -> None:
    given = ("--columns", "word,pos", "--set", "encoding=latin-1", "--set", "tape_name=chunk")
    done("convert", patterns, "-o", "model.fstcrf", *given)
    model = CRF.load("model.fstcrf")
    assert (model.tape, model.columns) == ("chunk", ("word", "pos", "chunk"))
    assert done("tag", "model.fstcrf", "data") == "\u00e9t\u00e9 NN V\nwall NN N\n\n"


@pytest.mark.usefixtures("counted")
def test_named_columns_of_the_input_are_found_by_number() -> None:
    Path("turned").write_text("x \u00e9t\u00e9 NN\n\n", encoding="utf-8")
    assert done("tag", "model.fstcrf", "data", "--columns", "word,pos") == (
        "\u00e9t\u00e9 NN V\nwall NN N\n\n"
    )
    assert "expected" in failure("tag", "model.fstcrf", "turned", "--columns", "word,pos")


@pytest.mark.parametrize(
    ("columns", "given"),
    [
        ("0,1", "wall NN"),
        ("1,0", "NN wall"),
        ("word,1", "wall NN"),
        ("x,0,1", "x wall NN"),
        ("1,x,0", "NN x wall"),
        ("word,pos,more", "wall NN more"),
        (None, "wall NN"),
        (None, "wall NN more of it"),
    ],
)
@pytest.mark.usefixtures("counted")
def test_what_columns_mean_to_models_that_count_them(columns: str | None, given: str) -> None:
    options = [] if columns is None else ["--columns", columns]
    assert done("tag", "model.fstcrf", *options, given=f"{given}\n") == f"{given} N\n"


@pytest.mark.parametrize("columns", ["word,0", "1,x", "x,y,0"])
@pytest.mark.usefixtures("counted")
def test_columns_that_count_otherwise_are_not_guessed(columns: str) -> None:
    given = " ".join("abc"[: columns.count(",") + 1])
    line = failure("tag", "model.fstcrf", "--columns", columns, given=f"{given}\n")
    assert "reads column" in line
    assert "0,0 " not in line


@pytest.mark.usefixtures("counted")
def test_labels_stand_behind_counted_columns() -> None:
    Path("gold").write_text("wall NN N\nwall NN V\n\n")
    assert "accuracy:  50.00%" in done("eval", "model.fstcrf", "gold")


def test_columns_by_name_and_by_number_go_together(patterns: Path) -> None:
    named = ("--set", "encoding=latin-1", "--columns", "word,pos", "--set", "tape_name=first")
    done("convert", patterns, "-o", "named.fstcrf", *named)
    done("convert", patterns, "-o", "counted.fstcrf", "--set", "encoding=latin-1")
    done("compose", "named.fstcrf", "counted.fstcrf", "-o", "both.fstcrf")
    wanted = "wall NN N N\n"
    assert done("tag", "both.fstcrf", given="wall NN\n") == wanted
    assert done("tag", "both.fstcrf", "--columns", "word,pos", given="wall NN\n") == wanted
    options = ("--columns", "pos,word,0,1")
    found = done("tag", "both.fstcrf", *options, given="NN wall wall NN\n")
    assert found == "NN wall wall NN N N\n"


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ((), 1, "encoding"),
        (("--set", "encoding=klingon"), 2, "klingon"),
        (("--set", "encoding=latin-1", "--columns", "word"), 2, "expected names for 2 columns"),
    ],
)
def test_what_does_not_go_with_patterns(
    patterns: Path, options: tuple[str, ...], status: int, message: str
) -> None:
    assert message in failure("convert", patterns, "-o", "model.fstcrf", *options, status=status)
    assert not Path("model.fstcrf").exists()
