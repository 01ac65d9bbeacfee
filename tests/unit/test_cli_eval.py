"""`fstcrf eval`, `info` and `demo`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fstcrf
from fstcrf.demo import COLUMNS, corpus_path, template_path
from fstcrf.taggers import CRF
from tests.support.command import done, failure, run

GOLD = "a B-X\nb I-X\n\nc O\nd B-Y\n\n"
PRED = "a B-X\nb I-X\n\nc B-Y\nd B-Y\n\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one tagger of each column of the demo corpus."""
    folder = tmp_path_factory.mktemp("models")
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:200]
    dev = fstcrf.read_columns(corpus_path("dev"), COLUMNS)[:20]
    for target in ("pos", "field"):
        model = CRF.train(data, target, template_path(target), dev=dev, max_iterations=10)
        model.save(folder / f"{target}.fstcrf")
    CRF.train([[["a"], ["b"]]], [["X", "Y"]], max_iterations=2).save(folder / "literal.fstcrf")
    return folder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gold.txt").write_text(GOLD)
    Path("pred.txt").write_text(PRED)
    both = [
        f"{g} {p.split()[-1]}" if g else ""
        for g, p in zip(GOLD.split("\n"), PRED.split("\n"), strict=True)
    ]
    Path("both.txt").write_text("\n".join(both))


# --- eval -----------------------------------------------------------------------------------


REPORT = """\
processed 4 tokens with 2 phrases; found: 3 phrases; correct: 2.
accuracy:  75.00%; precision:  66.67%; recall: 100.00%; FB1:  80.00
                X: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
                Y: precision:  50.00%; recall: 100.00%; FB1:  66.67  2
sentences: 2; all labels right:  50.00%
"""


def test_labels_in_files() -> None:
    assert done("eval", "--gold", "gold.txt", "--pred", "pred.txt") == REPORT
    assert done("eval", "--pred", "both.txt") == REPORT
    assert done("eval", "--pred", "-", given=Path("both.txt").read_bytes()) == REPORT
    named = ["--columns", "word,wanted,found", "--target", "wanted", "--pred-column", "found"]
    assert done("eval", "--pred", "both.txt", *named) == REPORT
    numbered = ["--target", "1", "--pred-column", "2"]
    assert done("eval", "--pred", "both.txt", *numbered) == REPORT
    assert done("eval", "--gold", "gold.txt", "--pred", "both.txt") == REPORT


def test_json_tokens_and_strictness() -> None:
    Path("odd.txt").write_text("a I-X I-X\nb I-X I-X\n\n")
    lenient = json.loads(done("eval", "--pred", "odd.txt", "--json"))
    told = run("eval", "--pred", "odd.txt", "--json", "--strict", "--scheme", "iob2")
    assert lenient["overall"]["correct"] == 1
    assert json.loads(told.stdout)["overall"]["gold"] == 0
    assert "gold spans that are not well formed in iob2 are ignored: X (1)" in told.stderr
    iob1 = json.loads(done("eval", "--pred", "odd.txt", "--json", "--strict", "--scheme", "iob1"))
    assert iob1["overall"]["correct"] == 1
    assert done("eval", "--pred", "both.txt", "--tokens").startswith("processed 4 tokens in 2")
    Path("tags.txt").write_text("a N N\nb V N\n\n")
    assert "accuracy:  50.00%" in done("eval", "--pred", "tags.txt")
    assert done("eval", "--pred", "tags.txt", "--spans").startswith("processed 2 tokens with")
    assert "--strict" in failure("eval", "--pred", "tags.txt", "--strict", status=2)
    assert "scheme" in failure("eval", "--pred", "both.txt", "--strict", status=2)
    line = failure("eval", "--pred", "both.txt", "--scheme", "bioes", status=2)
    assert line.startswith("--scheme bioes needs --strict")
    assert done("eval", "--pred", "both.txt", "--scheme", "conlleval") == REPORT


def test_a_label_that_training_never_saw_is_an_error_and_a_warning(models: Path) -> None:
    Path("new.txt").write_text("the DET B-NEW\nhall NOUN I-NEW\nthe DET I-NEW\n\n")
    result = run("eval", models / "field.fstcrf", "new.txt")
    assert result.exit_code == 0
    assert result.stderr == (
        "fstcrf: warning: labels that training never saw count as errors: I-NEW (2), B-NEW (1)\n"
    )
    assert "NEW: precision:   0.00%; recall:   0.00%" in result.stdout


def test_labels_of_another_scheme_are_no_strangers() -> None:
    Path("train.txt").write_text("a B-X\nb I-X\nc I-X\n\nd B-Y\n\n" * 3)
    data = fstcrf.read_columns("train.txt", ("word", "label"))
    CRF.train(data, "label", "U:%x[0,word]\nB", scheme="iob2:bioes", max_iterations=20).save("m")
    Path("new.txt").write_text("a B-X\nb I-X\nc I-X\n\nd I-Y\n\nd B-Z\n\n")
    result = run("eval", "m", "new.txt", "--columns", "word,label")
    assert "labels that training never saw count as errors: B-Z (1)\n" in result.stderr


def test_options_are_checked_before_anything_is_decoded(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fstcrf.cli.evaluate.tagged", None)
    given = ["eval", models / "pos.fstcrf", corpus_path("test")]
    assert failure(*given, "--strict", "--scheme", "iob2", status=2).startswith("--strict is about")
    line = failure(*given, "--strict", "--spans", status=2)
    assert line.startswith("--strict needs the scheme of the labels: --scheme iob2")
    for target in (["--target", "gold"], ["--columns", "word,pos,x", "--target", "field"]):
        assert "no column" in failure(*given, *target)


@pytest.mark.parametrize(
    ("rows", "warned"),
    [
        ("a B-NP B-PER\nb O O\nc O O\n", True),  # the O that they share says nothing
        ("a NN B-NP\nb VB B-VP\n", True),
        ("a NP B-NP\nb VP B-VP\n", True),
        ("a B-NP S-NP\nb O O\n", False),  # another scheme
        ("a B-NP O\nb O O\n", False),  # a tagger that found nothing
        ("a O B-NP\nb O O\n", False),
        ("a B-X B-NP\n" * 18 + "b B-NP B-PP\n" * 2, False),  # one in ten
        ("a B-X B-NP\n" * 19 + "b B-NP B-PP\n", False),  # most found are wanted somewhere
        ("a B-X B-PP\n" * 19 + "b B-NP B-PP\nc B-X B-NP\n", True),
        ("a N V\n" * 50 + "b V V\n", False),  # one label everywhere
    ],
)
def test_columns_of_two_tasks(rows: str, warned: bool) -> None:
    result = run("eval", "--pred", "-", given=rows)
    assert result.exit_code == 0
    assert ("have hardly one in common" in result.stderr) == warned
    assert ("compared as iob2" in result.stderr) == ("S-NP" in rows)
    assert result.stderr.count("\n") == (warned or "S-NP" in rows)


def test_columns_of_two_tasks_are_named() -> None:
    text = "a B-NP B-PER\nb I-NP O\nc B-NP B-LOC\n"
    told = (
        "fstcrf: warning: the labels wanted, column {} (B-NP, I-NP), and those found, column {} "
        "(B-PER, B-LOC), have hardly one in common: are they of one task?\n"
    )
    assert run("eval", "--pred", "-", given=text).stderr == told.format("'1'", "'2'")
    named = ["--columns", "word,chunk,ner"]
    assert run("eval", "--pred", "-", *named, given=text).stderr == told.format("'chunk'", "'ner'")
    Path("wanted.txt").write_text("a B-NP\nb I-NP\nc B-NP\n")
    result = run("eval", "--gold", "wanted.txt", "--pred", "-", given=text)
    assert result.stderr == told.format("'1'", "'2'")


def test_bad_input_of_eval(models: Path) -> None:
    model = models / "field.fstcrf"
    Path("short.txt").write_text("a B-X\n\nc O\nd B-Y\n\n")
    Path("one.txt").write_text("a\n")
    Path("two.txt").write_text("the DET\n\n")
    line = failure("eval", "--gold", "gold.txt", "--pred", "short.txt")
    assert line == "sentence 0: 2 gold labels, 1 predicted"
    assert failure("eval", "--pred", "one.txt") == "one.txt: 1 column, expected two: wanted, found"
    assert "no column 'x'" in failure("eval", "--pred", "both.txt", "--target", "x")
    assert "2 columns, expected 3" in failure("eval", model, "two.txt")
    assert "none.txt: No such file" in failure("eval", model, "none.txt")
    for arguments in ([], [model], ["--gold", "gold.txt"], [model, "two.txt", "--pred", "p"]):
        assert failure("eval", *arguments, status=2).startswith("give MODEL TEST, or --gold")


def test_conllu_gold() -> None:
    row = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    Path("a.conllu").write_text(row.format(1, "New York", "PROPN") + row.format(2, "is", "AUX"))
    Path("p.txt").write_text("New York\tPROPN\nis\tVERB\n\n")
    files = ["eval", "--gold", "a.conllu", "--pred", "p.txt", "--set", "separator=tab"]
    assert "accuracy:  50.00%" in done(*files, "--target", "upos")
    assert failure(*files, status=2).startswith("--target is missing")


# --- info and explain -----------------------------------------------------------------------


def test_info(models: Path) -> None:
    path = models / "field.fstcrf"
    model = CRF.load(path)
    text = done("info", path, "--top", 3)
    assert text.startswith(f"{path}: a conditional random field of order 1 with ")
    for label in model.labels:
        assert label in text
    assert "word, pos of word, pos, field" in text
    assert "lbfgs, l2 0.5, 10 iterations" in text
    top = model.top_features(3)
    assert text.splitlines()[-3:] == [
        f"  {w.weight:+9.4f}  {w.slot:<20} {w.attribute or '(labels only)'}" for w in top
    ]
    facts = json.loads(done("info", path, "--json", "--top", 2))
    assert facts["labels"] == list(model.labels)
    assert facts["weights"] == model.space.size
    assert len(facts["top"]) == 2
    assert facts["training"]["iterations"] == 10
    assert "largest" not in done("info", path, "--top", 0)
    assert "labels" in done("info", models / "literal.fstcrf")


def test_explain(models: Path) -> None:
    path = models / "field.fstcrf"
    data = fstcrf.read_columns(corpus_path("test"), COLUMNS)
    text = done("info", path, corpus_path("test"), "--sentence", 2, "--token", 1)
    first, *rest = text.splitlines()
    words = data[2]["word"]
    assert first == " ".join([words[0], f"[{words[1]}]", *words[2:]])
    assert "\n".join(rest) == str(CRF.load(path).explain(data[2], 1))
    stdin = done("info", path, "--token", 0, given="the DET\nhall NOUN\n\n")
    assert stdin.startswith("[the] hall\ntoken 0: ")
    options = ["info", path, corpus_path("dev")]
    assert "--sentence 9999 of " in failure(*options, "--sentence", 9999, "--token", 0, status=2)
    assert "token 500 of a sentence" in failure(*options, "--token", 500, status=2)
    assert "needs --token" in failure(*options, status=2)
    assert "needs --token" in failure("info", path, "--sentence", 1, status=2)
    assert "cannot go with --token" in failure(*options, "--token", 1, "--json", status=2)


# --- report ---------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_report_on_standard_output(models: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run("report", models / "field.fstcrf", corpus_path("dev"), "-o", "-")
    assert result.exit_code == 0
    assert result.stdout.startswith("<!doctype html>")
    assert result.stderr.startswith("fstcrf: standard output: field.fstcrf ")
    assert not Path("-").exists()


# --- demo -----------------------------------------------------------------------------------


def test_demo_copies_its_files() -> None:
    result = run("demo", "--copy", "a/b")
    assert result.stdout == ""
    names = {"train.txt", "dev.txt", "test.txt"}
    names |= {"pos.tpl", "field.tpl", "joint.tpl", "notices.grm"}
    assert {p.name for p in Path("a/b").iterdir()} == names
    assert Path("a/b/dev.txt").read_bytes() == corpus_path("dev").read_bytes()
    Path("file").touch()
    assert failure("demo", "--copy", "file").startswith("file: ")
    done("demo", "--copy", "a/b")
    Path("a/b/train.txt").write_text("mine")
    line = failure("demo", "--copy", "a/b", status=2)
    assert line.startswith("--copy a/b would overwrite a/b/train.txt, which is not the demo's")
    assert Path("a/b/train.txt").read_text() == "mine"


# --- Labels in the last column of CoNLL-U ---------------------------------------------------------


def test_labels_in_misc_come_back_through_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a tagger of columns writes into CoNLL-U trains, is tagged and is scored."""
    monkeypatch.chdir(tmp_path)
    sentences = [[("Ann", "B-PER"), ("slept", "O")], [("Bo", "B-PER"), ("ran", "O")]] * 3
    Path("t.tpl").write_text("U0:%x[0,form]\nB\n")
    Path("gold.tsv").write_text(
        "".join("".join(f"{w}\t{y}\n" for w, y in s) + "\n" for s in sentences)
    )
    rows = [
        "".join(f"{k}\t{w}\t{w}\tX\t_\t_\t0\troot\t_\t_\n" for k, (w, _) in enumerate(s, 1))
        for s in sentences
    ]
    Path("plain.conllu").write_text("\n".join([*rows, ""]))
    done(
        "train",
        "gold.tsv",
        "-o",
        "ner",
        "--columns",
        "form,ner",
        "--target",
        "ner",
        "--template",
        "t.tpl",
    )
    line = failure("tag", "ner", "plain.conllu")
    assert line.endswith("to read it as CoNLL-U: --format conllu")
    done("tag", "ner", "plain.conllu", "--format", "conllu", "-o", "found.conllu")
    assert "FB1: 100.00" in done("eval", "ner", "found.conllu", "--format", "conllu")
    done("train", "found.conllu", "-o", "again", "--target", "ner", "--template", "t.tpl")
    assert done("tag", "again", "plain.conllu") == Path("found.conllu").read_text()
    assert "FB1: 100.00" in done("eval", "again", "found.conllu")
    two = ("--gold", "found.conllu", "--pred", "found.conllu", "--target", "ner")
    assert "FB1: 100.00" in done("eval", *two)
    for line in (
        failure("eval", "ner", "plain.conllu", "--format", "conllu"),
        failure("eval", "again", "plain.conllu"),
        failure("train", "found.conllu", "-o", "x", "--target", "nre", "--template", "t.tpl"),
    ):
        assert "no token has the feature 'n" in line
    assert "perhaps 'ner' is meant" in line
