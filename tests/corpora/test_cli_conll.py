"""The command line on real corpora: chunks, parts of speech, entities."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fstcrf
from tests.support.command import done, run
from tests.support.treebanks import same_but

pytestmark = pytest.mark.corpus

CHUNK = """\
U00:%x[-2,word]
U01:%x[-1,word]
U02:%x[0,word]
U03:%x[1,word]
U04:%x[2,word]
U05:%x[-1,word]/%x[0,word]
U06:%x[0,word]/%x[1,word]
U10:%x[-2,pos]
U11:%x[-1,pos]
U12:%x[0,pos]
U13:%x[1,pos]
U14:%x[2,pos]
U15:%x[-2,pos]/%x[-1,pos]
U16:%x[-1,pos]/%x[0,pos]
U17:%x[0,pos]/%x[1,pos]
U18:%x[1,pos]/%x[2,pos]
U20:%x[-2,pos]/%x[-1,pos]/%x[0,pos]
U21:%x[-1,pos]/%x[0,pos]/%x[1,pos]
U22:%x[0,pos]/%x[1,pos]/%x[2,pos]
B
"""
ENTITY = """\
U00:%x[-1,word]
U01:%x[0,word]
U02:%x[1,word]
U03:%x[0,suffix(word,3)]
U04:%x[0,shape(word)]
U05:%x[-1,shape(word)]/%x[0,shape(word)]
U06:%x[0,shape(word)]/%x[1,shape(word)]
U07:%x[-1,pos]/%x[0,pos]
U08:%x[0,pos]/%x[1,pos]
B
"""
UPOS = """\
U00:%x[-1,lower(form)]
U01:%x[0,lower(form)]
U02:%x[1,lower(form)]
U03:%x[0,prefix(form,2)]
U04:%x[0,suffix(form,2)]
U05:%x[0,suffix(form,3)]
U06:%x[0,shape(form)]
B
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("chunk", CHUNK), ("entity", ENTITY), ("upos", UPOS)):
        Path(f"{name}.tpl").write_text(text)


def figure(report: str, name: str) -> float:
    """Return a percentage of the line that sums up."""
    found = re.search(rf"{name}: +([0-9.]+)", report)
    assert found is not None, report
    return float(found[1])


def test_conll2000_chunks(data: Path) -> None:
    test = data / "conll2000" / "test.txt"
    done(
        *("train", data / "conll2000" / "train.txt", "-o", "m", "--columns", "word,pos,chunk"),
        *("--target", "chunk", "--template", "chunk.tpl", "--set", "boundary=skip"),
        *("--method", "perceptron"),
    )
    done("tag", "m", test, "-o", "tagged.txt")
    files = done("eval", "--pred", "tagged.txt")
    assert files.startswith("processed 47377 tokens with 23852 phrases; found: ")
    assert figure(files, "FB1") >= 93.2
    model = run("eval", "m", test)
    assert model.stdout == files
    assert model.stderr == (
        "fstcrf: warning: labels that training never saw count as errors: I-LST (2)\n"
    )
    # The chunk column may be missing, and nothing of the file changes but for the new column.
    lines = test.read_text("utf-8").splitlines()
    words = "\n".join(line.rpartition(" ")[0] for line in lines) + "\n"
    short, tagged = done("tag", "m", given=words).splitlines(), Path("tagged.txt").read_text()
    assert [line.rpartition(" ")[0] for line in tagged.splitlines()] == lines
    assert [line.split(" ")[-1] for line in short] == [
        line.split(" ")[-1] for line in tagged.splitlines()
    ]
    probable = done("tag", "m", test, "--probabilities").splitlines()
    assert sum(line.startswith("# ") for line in probable) >= 2012


def test_ewt_parts_of_speech(data: Path) -> None:
    part = "en_ewt-ud-{}.conllu"
    train, dev, test = (
        data / "ud_english_ewt" / part.format(name) for name in ("train", "dev", "test")
    )
    done(
        *("train", train, "-o", "m", "--target", "upos", "--template", "upos.tpl"),
        *("--method", "perceptron", "--max-iterations", 6, "--dev", dev),
    )
    report = done("eval", "m", test)
    assert report.startswith("processed 25094 tokens in 2077 sentences")
    assert figure(report, "accuracy") >= 93.5
    done("tag", "m", test, "-o", "tagged.conllu")
    assert done("eval", "--gold", test, "--target", "upos", "--pred", "tagged.conllu") == report
    assert done("tag", "m", "tagged.conllu") == Path("tagged.conllu").read_text()
    same_but(test.read_bytes(), Path("tagged.conllu").read_bytes(), ["upos"])
    assert "reads       form of id, form," in done("info", "m", "--top", 1)


def test_conll2003_entities(data: Path) -> None:
    folder = data / "conll2003"
    done(
        *("train", folder / "eng.train", "-o", "m", "--columns", "word,pos,chunk,entity"),
        *("--target", "entity", "--template", "entity.tpl", "--method", "perceptron"),
    )
    report = done("eval", "m", folder / "eng.testa")
    assert report.startswith("processed 51362 tokens with 5942 phrases; found: ")
    assert figure(report, "FB1") >= 85
    tagged = done("tag", "m", folder / "eng.testa")
    assert tagged.count("-DOCSTART-") == 216
    assert len(fstcrf.CRF.load("m").labels) == 8
