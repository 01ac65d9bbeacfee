"""Taggers of segments in the shell: train and tag, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import fstcrf
from fstcrf.taggers.segmental import SegmentCRF
from tests.support.command import done, failure, run

TEXT = """\
she N O
left V O
New N B-LOC
York N I-LOC

Ann N B-PER
left V O

New N B-LOC
York N I-LOC
is V O
big A O
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(TEXT, "utf-8")
    (tmp_path / "words.tpl").write_text("U0:%x[-1..1,word]\n", "utf-8")
    (tmp_path / "city.txt").write_text("New York\nRio de Janeiro\n\n", "utf-8")
    return tmp_path


TRAIN = (
    *("train", "train.txt", "-o", "model"),
    *("--structure", "segments", "--columns", "word,pos,tag"),
)


def test_a_model_is_trained_and_tags(folder: Path) -> None:
    options = ("--template", "words.tpl", "--segment-columns", "word", "--lexicon", "city.txt")
    result = run(*TRAIN, *options, "--l2", "0.05", "--dev", "train.txt")
    assert result.exit_code == 0
    assert "SegmentCRF: 3 labels" in result.stderr
    assert "lexicon=city" in SegmentCRF.load(folder / "model").features.names
    tagged = done("tag", "model", "train.txt")
    assert [line.split()[-1] for line in tagged.splitlines() if line] == [
        line.split()[-1] for line in TEXT.splitlines() if line
    ]
    (folder / "new.txt").write_text("Ann N\nleft V\nNew N\nYork N\n", "utf-8")
    assert done("tag", "model", "new.txt") == ("Ann N B-PER\nleft V O\nNew N B-LOC\nYork N I-LOC\n")
    for text in ("", "\n\n", "-DOCSTART- X\n\n", "\n-DOCSTART-\nAnn\tN\tO"):
        assert done("tag", "model", given=text) == text + "\tB-PER" * ("Ann" in text)
    done("tag", "model", "new.txt", "-o", "out.txt", "--columns", "word,x")
    assert (folder / "out.txt").read_text("utf-8").startswith("Ann N B-PER\n")


def test_a_model_is_loaded_tags_and_is_scored_as_any_tagger(folder: Path) -> None:
    assert run(*TRAIN, "--template", "words.tpl", "--l2", "0.05").exit_code == 0
    assert isinstance(fstcrf.load("model"), SegmentCRF)
    assert fstcrf.load("model", SegmentCRF).tag({"word": ["Ann"], "pos": ["N"]}) == ["B-PER"]
    tagged = done("tag", "model", "train.txt")
    assert done("tag", "model", "train.txt", "--threads", "2") == tagged
    assert "100.00" in done("eval", "model", "train.txt")
    named = ("--columns", "word,pos,gold", "--target", "gold")
    assert done("eval", "model", "train.txt", *named) == done("eval", "model", "train.txt")
    line = failure("tag", "model", "train.txt", "-o", "model", status=2)
    assert line.startswith("--output model would overwrite an input")
    assert done("tag", "model", given="Ann\n") == "Ann B-PER\n"  # its template reads words alone
    (folder / "two.txt").write_text("Ann N\n", "utf-8")
    assert "2 columns" in failure("eval", "model", "two.txt")


def test_what_they_refuse(folder: Path) -> None:
    template = ("--template", "words.tpl")
    assert "no column 'x'" in failure(*TRAIN, *template, "--target", "x")
    assert "no column 'z' of segments" in failure(
        *TRAIN, *template, "--segment-columns", "z", status=2
    )
    assert "No such file" in failure(*TRAIN, "--template", "other.tpl")
    lexicon = (*TRAIN[:3], "city.txt", *TRAIN[4:], *template, "--lexicon", "city.txt")
    assert failure(*lexicon, status=2).startswith("--output city.txt would overwrite an input")
    assert (folder / "train.txt").read_text("utf-8") == TEXT
    assert "resume needs a checkpoint" in failure(*TRAIN, *template, "--resume", status=2)
    long = (*TRAIN, *template, "--set", "longest=1", "--set", "tails=false")
    assert "2 gold segments are longer" in failure(*long)
    assert "cut into pieces" in run(*long, "--set", "on_missing=nearest").stderr
    assert "reads column 'word'; train.txt has 'a', 'b', 'c'" in failure(
        "tag", "model", "train.txt", "--columns", "a,b,c"
    )
    (folder / "model").write_bytes(b"no model")
    assert "no model of a known format" in failure("tag", "model", "train.txt")
