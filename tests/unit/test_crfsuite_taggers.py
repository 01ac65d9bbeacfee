"""Taggers as models of CRFsuite, and what these cannot say."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus
from fstcrf.constraints import at_most
from fstcrf.errors import ModelFileError, OptionError
from fstcrf.ext.foreign import read_tagger
from fstcrf.ext.foreign.conversion import written
from fstcrf.ext.foreign.crfsuite import export, load_crfsuite, write_model
from tests.support.crfsuite_models import small
from tests.support.training import flat_train

SENTENCES = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"], ["w=ran"]]] * 3
LABELS = [["B-X", "I-X"], ["B-X", "I-X", "O"]] * 3
COLUMNS = Corpus.from_sentences(
    [[(a.removeprefix("w="),) for (a,) in sentence] for sentence in SENTENCES], ["word"]
).with_column("tag", LABELS)


def literal(**options: Any) -> CRF:
    return flat_train(SENTENCES, LABELS, max_iterations=5, **options)


def templates(text: str, **options: Any) -> CRF:
    return flat_train(COLUMNS, "tag", text, max_iterations=5, **options)


def slashed() -> CRF:
    """Two attributes of one text."""
    rows = [[("a/b",), ("c",)], [("a",), ("b/c",)]] * 2
    corpus = Corpus.from_sentences(rows, ["word"]).with_column("tag", [["X", "X"], ["Y", "Y"]] * 2)
    return CRF.train(corpus, "tag", "U:%x[-1,word]/%x[0,word]", max_iterations=5)


def test_weights_of_zero_are_left_out() -> None:
    tagger = literal()
    theta = tagger.theta.copy()
    theta[:3] = 0.0
    model = export(replace(tagger, theta=theta))
    assert len(model.features) == np.count_nonzero(theta)
    assert (model.features["weight"] != 0).all()
    assert set(model.features["src"][model.features["type"] == 0].tolist()) == set(
        range(model.n_attributes)
    )


def test_texts_of_templates() -> None:
    model = export(templates("U0:%x[0,word]\nU1:%x[-1,word]/%x[0,word]\nB"))
    assert {"U0:the", "U1:_B-1/the", "U1:a/dog"} <= set(model.attributes)


UNSAYABLE: dict[str, tuple[Callable[[], CRF], str]] = {
    "order 2": (lambda: literal(order=2), "of order 2: train it with order=1"),
    "scheme": (lambda: literal(scheme="iob2"), "forbids label sequences"),
    "ends": (lambda: literal(ends=True), "first and last labels"),
    "hashed": (lambda: literal(hash_bits=6), "hashed"),
    "label pairs": (lambda: templates("U:%x[0,word]\nB1:%x[0,word]"), "label pairs"),
    "two texts": (slashed, "such as 'U:a/b/c'"),
}


@pytest.mark.parametrize(("made", "message"), UNSAYABLE.values(), ids=UNSAYABLE)
def test_what_the_format_cannot_say(made: Callable[[], CRF], message: str) -> None:
    with pytest.raises(OptionError, match=r"^CRFsuite's format has no place for this: ") as caught:
        export(made())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_paths_and_bytes(tmp_path: Path) -> None:
    data = write_model(small())
    path = tmp_path / "m.crfsuite"
    path.write_bytes(data)
    taggers = [
        fstcrf.load_crfsuite(path),
        fstcrf.load_crfsuite(str(path)),
        fstcrf.load_crfsuite(data),
        fstcrf.load_crfsuite(bytearray(data)),
        fstcrf.load_crfsuite(memoryview(data)),
        fstcrf.load_crfsuite(io.BytesIO(data)),
        read_tagger(path),
    ]
    for tagger in taggers:
        assert tagger.tape == "label"
        assert tagger.tag([["w=the"], ["w=cat"]]) == ["DET", "N"]
        assert write_model(export(tagger)) == write_model(export(taggers[0]))
    with pytest.raises(FileNotFoundError):
        fstcrf.load_crfsuite(tmp_path / "none")
    with pytest.raises(ModelFileError, match=r"^x: not a model of CRFsuite"):
        fstcrf.load_crfsuite(b"something else", where="x")


@pytest.mark.parametrize("load", [fstcrf.load_crfsuite, fstcrf.load_crfpp, fstcrf.load_wapiti])
def test_sources_that_are_none(load: Any, tmp_path: Path) -> None:
    for source in (3, None, io.StringIO("text")):
        with pytest.raises(OptionError, match=f"the model is {type(source).__name__}, expected a"):
            load(source)
    path = tmp_path / "m.gz"
    path.write_bytes(gzip.compress(write_model(small())))
    for loader in (load, read_tagger):
        with pytest.raises(ModelFileError, match=r"m\.gz: compressed by gzip: decompress"):
            loader(path)


def test_a_grammar_has_no_place_in_it(tmp_path: Path) -> None:
    constrained = load_crfsuite(write_model(small())) & at_most(1, "N")
    with pytest.raises(
        OptionError, match="cannot store grammars or compositions, expected a single"
    ):
        export(constrained)  # type: ignore[arg-type]
    assert export(constrained.taggers[0]).labels == ("DET", "N", "V")
    constrained.save(tmp_path / "legal.fstcrf")
    with pytest.raises(ModelFileError, match="convert the tagger that it was made of"):
        read_tagger(tmp_path / "legal.fstcrf")


def test_tapes_need_names(tmp_path: Path) -> None:
    data = write_model(small())
    (tmp_path / "m").write_bytes(data)
    load_crfsuite(data).save(tmp_path / "own")
    sources: list[tuple[Callable[..., CRF], bytes | Path]] = [
        (load_crfsuite, data),
        (read_tagger, tmp_path / "m"),
        (read_tagger, tmp_path / "own"),
    ]
    for load, source in sources:
        with pytest.raises(OptionError, match="the name of the tape is empty"):
            load(source, tape="")


def test_what_a_file_is_its_first_bytes_tell(tmp_path: Path) -> None:
    tagger = literal()
    tagger.save(tmp_path / "own")
    assert read_tagger(tmp_path / "own").tag(SENTENCES[0]) == tagger.tag(SENTENCES[0])
    (tmp_path / "empty").touch()
    with pytest.raises(ModelFileError, match="an empty file, expected a model"):
        read_tagger(tmp_path / "empty")
    (tmp_path / "text").write_text("O\tw=the\n")
    with pytest.raises(ModelFileError, match="expected one of: an fstcrf model, a CRFsuite model"):
        read_tagger(tmp_path / "text")


def test_only_what_is_written() -> None:
    assert written(literal(), "crfsuite")[:4] == b"lCRF"
    with pytest.raises(
        OptionError, match="cannot write the format 'frob', expected one of crfsuite"
    ):
        written(literal(), "frob")
