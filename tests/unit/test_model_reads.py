"""Cascades: a tagger that reads the labels of an earlier one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf import CRF, Corpus
from fstcrf.errors import DataError, OptionError, TemplateError

DATA = [
    {"word": ["the", "dog", "ran"], "pos": ["D", "N", "V"], "y": ["B", "I", "O"]},
    {"word": ["a", "dog"], "pos": ["D", "N"], "y": ["B", "I"]},
    {"word": ["ran"], "pos": ["V"], "y": ["O"]},
]
POS = "U:%x[0,word]\nB\n"
CHUNK = "U1:%y[0,pos]\nU2:%y[0,pos]/%x[0,word]\nB\n"


@pytest.fixture(scope="module")
def pos() -> CRF:
    """A tagger that is wrong on purpose: it calls everything N."""
    wrong = [{**s, "pos": ["N"] * len(s["pos"])} for s in DATA] + [{"word": ["x"], "pos": ["Q"]}]
    model = CRF.train([{"word": s["word"], "pos": s["pos"]} for s in wrong], "pos", POS, l2=0.01)
    assert model.tag({"word": ["the", "dog", "ran"]}) == ["N", "N", "N"]
    return model


def test_training_sees_the_predictions_of_the_earlier_tagger(pos: CRF) -> None:
    model = CRF.train(DATA, "y", CHUNK, reads=[pos])
    attributes = {model.index.attribute(row) for row in range(model.index.n_node_rows)}
    assert {a for a in attributes if a.startswith("U1")} == {"U1:N"}, "not those of the column"
    (tape,) = model.reads
    assert (tape.name, tape.labels) == ("pos", pos.labels)
    assert model.columns == ("word", "pos", "y")


def test_tagging_alone_needs_the_column(pos: CRF) -> None:
    model = CRF.train(DATA, "y", CHUNK, reads=[pos])
    assert len(model.tag({"word": ["a", "b"], "pos": ["N", "N"]})) == 2
    with pytest.raises(DataError, match="labels of tape 'pos'"):
        model.tag({"word": ["a", "b"]})
    with pytest.raises(DataError, match="labels of tape 'pos'"):
        model.tag_all(Corpus.from_sentences([{"word": ["a", "b"]}]))


def test_the_column_decides(pos: CRF) -> None:
    good = CRF.train(DATA, "pos", POS, l2=0.01)
    model = CRF.train(DATA, "y", CHUNK, reads=[good], l2=0.01)
    for sentence in DATA:
        assert model.tag({"word": sentence["word"], "pos": sentence["pos"]}) == sentence["y"]
    assert model.tag({"word": ["new"] * 3, "pos": ["V", "V", "V"]}) == ["O", "O", "O"]


def test_held_out_data_is_tagged_too(pos: CRF) -> None:
    model = CRF.train(DATA, "y", CHUNK, reads=[pos], dev=DATA, max_iterations=5)
    data = [{**s, "pos": tags} for s, tags in zip(DATA, pos.tag_all(DATA), strict=True)]
    predicted = model.tag_all(data)
    report = fstcrf.evaluate_tokens([s["y"] for s in DATA], predicted)
    assert model.record is not None
    assert model.record.dev_score == pytest.approx(report.accuracy)


def test_a_tape_by_another_name(pos: CRF) -> None:
    tagger = CRF.train(DATA, "pos", POS, tape="tags", l2=0.01)
    model = CRF.train(DATA, "y", "U:%y[0,tags]\nB\n", reads=[tagger], l2=0.01)
    assert model.tag({"tags": ["D", "N", "V"]}) == ["B", "I", "O"]
    with pytest.raises(DataError, match="tape 'tags'"):
        model.tag({"pos": ["D", "N", "V"]})


def test_round_trip(pos: CRF, tmp_path: Path) -> None:
    model = CRF.train(DATA, "y", CHUNK + "B1:%y[0,pos]\n", reads=[pos])
    model.save(tmp_path / "model")
    loaded = CRF.load(tmp_path / "model")
    assert loaded.reads == model.reads
    data = [{"word": s["word"], "pos": ["N"] * len(s["word"])} for s in DATA]
    assert loaded.tag_all(data) == model.tag_all(data)


def test_what_is_missing(pos: CRF) -> None:
    with pytest.raises(TemplateError, match="pos"):
        CRF.train(DATA, "y", CHUNK)
    with pytest.raises(TemplateError, match="other"):
        CRF.train(DATA, "y", CHUNK + "U9:%y[0,other]\n", reads=[pos])
    literal: Any = [[["a"]]]
    with pytest.raises(OptionError, match="columns"):
        CRF.train(literal, [["X"]], reads=[pos])


def test_labels_that_the_tagger_does_not_have(pos: CRF) -> None:
    model = CRF.train(DATA, "y", CHUNK, reads=[pos])
    sentences = [{"word": ["a"], "pos": ["N"]}, {"word": ["a", "b"], "pos": ["Q", "V"]}]
    message = "sentence 1, token 1: tape 'pos' has the label 'V', .* its labels are N, Q"
    with pytest.raises(DataError, match=message):
        model.tag_all(sentences)
    with pytest.raises(DataError, match=message):
        model.tag_all(Corpus.from_sentences(sentences))
    with pytest.raises(DataError, match="token 0: tape 'pos' has the label 'V'"):
        model.lattice({"word": ["ran"], "pos": ["V"]})
    with pytest.raises(DataError, match="token 0: tape 'pos' has the label 'V'"):
        model.explain({"word": ["ran"], "pos": ["V"]}, 0)
    # The labels of a column that no token of these has say nothing.
    assert len(model.tag_all(Corpus.from_sentences(sentences)[:1])) == 1


def test_three_in_a_row(pos: CRF) -> None:
    chunk = CRF.train(DATA, "y", CHUNK, reads=[pos], tape="chunk")
    template = "U1:%y[0,chunk]\nU2:%x[0,word]\nB\n"
    data = [{**s, "chunk": ["gold"] * len(s["word"]), "z": s["y"]} for s in DATA]
    models = [CRF.train(data, "z", template, reads=reads) for reads in ([pos, chunk], [chunk, pos])]
    for model in models:
        attributes = {model.index.attribute(row) for row in range(model.index.n_node_rows)}
        # All words are N to the first tagger; so the second one says what it says of N.
        given = [{"word": s["word"], "pos": ["N"] * len(s["word"])} for s in DATA]
        labels = {label for sentence in chunk.tag_all(given) for label in sentence}
        assert {a for a in attributes if a.startswith("U1")} == {f"U1:{x}" for x in labels}
        assert [tape.name for tape in model.reads] == ["chunk"]
    with pytest.raises(OptionError, match="tape 'chunk' reads tape 'pos': add to reads"):
        CRF.train(data, "z", template, reads=[chunk])


def test_two_taggers_that_read_the_same_one(pos: CRF) -> None:
    both = [CRF.train(DATA, "y", CHUNK, reads=[pos], tape=tape) for tape in ("s", "t")]
    model = CRF.train(DATA, "y", "U:%y[0,s]/%y[0,t]", reads=[*both, pos])
    assert [tape.name for tape in model.reads] == ["s", "t"]


def test_tapes_that_clash(pos: CRF) -> None:
    with pytest.raises(OptionError, match="two taggers of tape 'pos'"):
        CRF.train(DATA, "y", CHUNK, reads=[pos, pos])
    with pytest.raises(OptionError, match="tape 'pos' is already read by the tagger"):
        CRF.train(DATA, "y", CHUNK, reads=[pos], tape="pos")
    again = CRF.train(DATA, "y", "U:%y[0,pos]", reads=[pos], tape="t")
    other = CRF.train(DATA, "pos", "U:%y[0,t]", reads=[again, pos], tape="u")
    circle = CRF.train(DATA, "y", "U:%y[0,u]", reads=[pos, again, other], tape="pos_")
    turned = replace(circle, tape="pos")
    with pytest.raises(OptionError, match="taggers read each other: t ← pos ← u ← t"):
        CRF.train(DATA, "y", "U:%y[0,t]", reads=[again, other, turned], tape="v")


def test_empty_sentences_go_through(pos: CRF) -> None:
    empty: Any = {"word": [], "pos": [], "y": []}
    model = CRF.train([DATA[0], empty, DATA[1]], "y", CHUNK, reads=[pos], dev=[empty, DATA[2]])
    assert model.tag_all([empty, {"word": ["dog"], "pos": ["N"]}])[0] == []
