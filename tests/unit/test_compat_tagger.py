"""The drop-in's tagger, on a model small enough to work out by hand."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.constraints import at_most
from fstcrf.errors import DataError
from fstcrf.ext.compat.pycrfsuite import ItemSequence, Tagger
from fstcrf.ext.compat.pycrfsuite.tagger import (
    CRFsuiteDumpParser,
    InvalidModelError,
    NotOpenError,
    UnknownLabelError,
)
from fstcrf.ext.foreign.crfsuite import STATE, CRFsuiteModel, write_model
from tests.support.crfsuite_models import features, small

ITEMS: list[Any] = [["w=the"], {"w=cat": 2}, {"naïve": "ü", "b\\": "c", "none": 1.5}]
LABELS = ("DET", "N", "V")


@pytest.fixture
def tagger() -> Tagger:
    tagger = Tagger()
    tagger.open_inmemory(write_model(small()))
    return tagger


def test_what_is_set_is_asked_about(tagger: Tagger) -> None:
    assert tagger.tag(ItemSequence(ITEMS)) == tagger.tag() == ["DET", "N", "V"]
    for t, shares in enumerate(tagger.marginals()):
        assert shares == {label: tagger.marginal(label, t) for label in LABELS}
    tagger.set([])
    assert tagger.probability([]) == 1
    assert tagger.marginals() == []


def test_the_crf_beneath_takes_grammars(tagger: Tagger) -> None:
    items: list[Any] = [["w=cat"], ["w=cat"]]
    assert tagger.tag(items) == ["N", "N"]
    assert tagger.crf.tag(items) == ["N", "N"]
    labels = (tagger.crf & at_most(1, "N")).tag(items)
    assert labels.count("N") == 1


def test_opening(tmp_path: Path) -> None:
    path = tmp_path / "модель.crfsuite"
    path.write_bytes(write_model(small()))
    for name in (path, str(path), str(path).encode()):
        tagger = Tagger()
        with tagger.open(name) as opened:
            assert opened.tag(ITEMS) == ["DET", "N", "V"]
        with pytest.raises(NotOpenError):
            tagger.tag(ITEMS)
        tagger.close()
    for content in (bytearray, memoryview):
        with Tagger().open_inmemory(content(path.read_bytes())) as opened:  # type: ignore[arg-type]
            assert opened.labels() == list(LABELS)


def test_a_copy_in_a_pickle(tagger: Tagger) -> None:
    assert pickle.loads(pickle.dumps(tagger)).tag(ITEMS) == tagger.tag(ITEMS)


def test_another_model_forgets_the_sequence(tagger: Tagger) -> None:
    tagger.set(ITEMS)
    tagger.open_inmemory(write_model(small()))
    with pytest.raises(NotOpenError, match="no sequence is set"):
        tagger.tag()


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.labels(),
        lambda t: t.tag(ITEMS),
        lambda t: t.tag(),
        lambda t: t.set(ITEMS),
        lambda t: t.probability(LABELS),
        lambda t: t.marginal("N", 0),
        lambda t: t.marginals(),
        lambda t: t.dump(),
        lambda t: t.info(),
        lambda t: t.crf,
    ],
)
def test_nothing_is_open(ask: Any) -> None:
    with pytest.raises(NotOpenError, match="not opened") as caught:
        ask(Tagger())
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RuntimeError)


def test_nothing_is_set(tagger: Tagger) -> None:
    for ask in (tagger.tag, tagger.marginals, lambda: tagger.probability(["N"])):
        with pytest.raises(NotOpenError, match="no sequence is set"):
            ask()
    with pytest.raises(NotOpenError, match="no sequence is set"):
        tagger.marginal("N", 0)


def test_bad_questions(tagger: Tagger) -> None:
    tagger.set(ITEMS)
    with pytest.raises(UnknownLabelError, match="'X'") as caught:
        tagger.probability(["N", "X", "N"])
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(UnknownLabelError):
        tagger.marginal("X", 0)
    with pytest.raises(DataError, match="2 labels for 3 items"):
        tagger.probability(["N", "N"])
    for position in (-1, 3):
        with pytest.raises(DataError, match=f"position {position}"):
            tagger.marginal("N", position)


@pytest.mark.parametrize("data", [b"", b"lCRF", b"lCRFfoo" * 100, b"something else", b"lCRF" * 50])
def test_no_model(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(data)
    with pytest.raises(InvalidModelError) as caught:
        Tagger().open(path)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(InvalidModelError):
        Tagger().open_inmemory(data)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Tagger().open(tmp_path / "absent")
    with pytest.raises(TypeError, match="bytes"):
        Tagger().open_inmemory("text")  # type: ignore[arg-type]


def test_a_model_that_does_not_open_leaves_the_old_one(tagger: Tagger) -> None:
    with pytest.raises(InvalidModelError):
        tagger.open_inmemory(b"lCRF")
    assert tagger.labels() == list(LABELS)


def test_a_dump_is_parsed(tagger: Tagger, capsys: pytest.CaptureFixture[str]) -> None:
    tagger.dump()
    parser = CRFsuiteDumpParser()
    for line in capsys.readouterr().out.splitlines(keepends=True):
        parser.feed(line)
    assert vars(parser.result) == vars(tagger.info())


def test_names_that_break_the_text_do_not_break_info() -> None:
    names = ["a\nb", "c --> d", "e: 1.0"]
    rows = [(STATE, i, 0, 1.0 + i) for i in range(3)]
    tagger = Tagger()
    tagger.open_inmemory(write_model(CRFsuiteModel.of(["x --> y"], names, features(rows))))
    found = tagger.info().state_features
    assert found == {(name, "x --> y"): 1.0 + i for i, name in enumerate(names)}


def test_the_parser_of_dumps_divides_names_by_what_it_knows() -> None:
    parser = CRFsuiteDumpParser()
    for line in ("LABELS = {", "0: b --> c", "}", "ATTRIBUTES = {", "0: a", "}"):
        parser.feed(line)
    parser.feed("STATE_FEATURES = {")
    parser.feed("  (0) a --> b --> c: -0.500000")
    assert parser.result.state_features == {("a", "b --> c"): -0.5}
    for wrong in ("(0) z --> y: 1.0", "what is this"):
        with pytest.raises(DataError):
            parser.feed(wrong)


def test_probabilities_do_not_depend_on_what_was_asked_before() -> None:
    rng = np.random.default_rng(0)
    names = [f"{key}:{value}" for key in "abcdefgh" for value in range(4)]
    rows = [(STATE, k, label, rng.normal()) for k in range(len(names)) for label in range(3)]
    data = write_model(CRFsuiteModel.of([*LABELS], names, features(rows)))
    texts = [[{k: str(rng.integers(4)) for k in "abcdefgh"} for _ in range(3)] for _ in range(30)]
    used, answers = Tagger(), []
    used.open_inmemory(data)
    for text in texts + texts:
        used.set(text)
        answers.append(used.marginals())
    assert answers[:30] == answers[30:]
    new = Tagger()
    for text, answer in zip(texts, answers, strict=False):
        new.open_inmemory(data)
        new.set(text)
        assert new.marginals() == answer
