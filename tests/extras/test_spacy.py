"""The component of spaCy's pipelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF
from fstcrf.constraints import at_most
from fstcrf.errors import DataError, ModelFileError, OptionError
from fstcrf.ext.calibration import Calibration, Events
from fstcrf.ext.tokens import Pieces, TokenDecoder

pytestmark = pytest.mark.extras
spacy = pytest.importorskip("spacy")

DATA = [
    {"word": ["Ann", "Lee", "sings"], "pos": ["N", "N", "V"], "ner": ["B-PER", "I-PER", "O"]},
    {"word": ["She", "met", "Bob"], "pos": ["P", "V", "N"], "ner": ["O", "O", "B-PER"]},
] * 5


@pytest.fixture(scope="module")
def tagger() -> CRF:
    return CRF.train(DATA, "ner", "U:%x[0,word]\nB", max_iterations=20)


@pytest.fixture
def file(tagger: CRF, tmp_path: Path) -> str:
    tagger.save(tmp_path / "ner.fstcrf")
    return str(tmp_path / "ner.fstcrf")


def blank(**config: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("fstcrf", config=config)
    return nlp


def shown(doc: Any, key: str = "fstcrf") -> list[tuple[int, int, str]]:
    return [(s.start, s.end, s.label_) for s in doc.spans[key]]


def test_the_factory_is_found_and_writes_spans_with_probabilities(tagger: CRF, file: str) -> None:
    doc = blank(model=file, ents=True)("Ann Lee met Bob")
    assert shown(doc) == [(0, 2, "PER"), (3, 4, "PER")]
    lattice = tagger.lattice({"word": [t.text for t in doc]})
    want = [lattice.span_probability(*s) for s in shown(doc)]
    assert doc.spans["fstcrf"].attrs["scores"] == pytest.approx(want)
    assert [(e.start, e.end, e.label_) for e in doc.ents] == shown(doc)


def test_sentences_are_those_of_the_doc(tagger: CRF, file: str) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("fstcrf", config={"model": file, "spans_key": "x"})
    doc = nlp("Ann sings. Ann Lee.")
    second = tagger.lattice({"word": ["Ann", "Lee", "."]})
    assert shown(doc, "x")[-1] == (3, 5, "PER")
    assert doc.spans["x"].attrs["scores"][-1] == pytest.approx(second.span_probability(0, 2, "PER"))
    assert shown(nlp(""), "x") == []


def test_many_docs_are_those_of_one_by_one(file: str) -> None:
    nlp = blank(model=file)
    texts = ["Ann Lee sings", "", "met Bob", "Bob met Ann"] * 3
    together = list(nlp.pipe(texts, batch_size=5))
    for text, doc in zip(texts, together, strict=True):
        alone = nlp(text)
        assert shown(doc) == shown(alone)
        assert np.array_equal(*(d.spans["fstcrf"].attrs["scores"] for d in (doc, alone)))


@pytest.mark.parametrize("way", ["disk", "bytes"])
def test_a_pipeline_takes_its_model_along(file: str, tmp_path: Path, way: str) -> None:
    Calibration.fit(Events.of([0.5, 0.6, 0.9], [False, True, True]), "log-odds").save(
        tmp_path / "c.json"
    )
    nlp = blank(model=file, calibration=str(tmp_path / "c.json"))
    before = nlp("Ann Lee met Bob")
    if way == "disk":
        nlp.to_disk(tmp_path / "nlp")
        Path(file).unlink()
        (tmp_path / "c.json").unlink()
        again = spacy.load(tmp_path / "nlp")
    else:
        again = blank().from_bytes(nlp.to_bytes())
    after = again("Ann Lee met Bob")
    assert shown(after) == shown(before)
    assert np.array_equal(*(d.spans["fstcrf"].attrs["scores"] for d in (before, after)))
    assert spacy.tokens.Doc(nlp.vocab).from_bytes(after.to_bytes()).spans["fstcrf"].attrs


def test_compositions_write_labels_to_tokens(tagger: CRF, tmp_path: Path) -> None:
    pos = CRF.train(DATA, "pos", "U:%x[0,word]\nB", max_iterations=20)
    joint = fstcrf.compose(pos, tagger) & at_most(1, "PER", tape="ner")
    nlp = blank(attributes={"pos": "tag_"})
    nlp.get_pipe("fstcrf").model = joint
    doc = nlp("Ann Lee met Bob")
    assert [t.tag_ for t in doc] == ["N", "N", "V", "N"]
    assert shown(doc) == [(0, 2, "PER")]
    again = blank(attributes={"pos": "tag_"}).from_bytes(nlp.to_bytes())
    assert shown(again("Ann Lee met Bob")) == [(0, 2, "PER")]
    alone = blank(attributes={"pos": "tag_"})
    alone.get_pipe("fstcrf").model = pos
    assert [t.tag_ for t in alone("Ann met")] == ["N", "V"]


def test_spacy_may_ask_for_a_model_that_is_not_there(tmp_path: Path) -> None:
    """Whether it does depended on the hashes of strings: in some processes no pipe was added."""
    empty, missing = (blank().get_pipe("fstcrf") for _ in range(2))
    assert repr(empty) == "<TaggerComponent: None into doc.spans['fstcrf']>"
    missing.model = tmp_path / "none"
    assert not hasattr(empty, "model")
    assert not hasattr(missing, "model")
    with pytest.raises(AttributeError, match="the component has no model"):
        _ = empty.model


@pytest.mark.parametrize("option", ["model", "calibration"])
@pytest.mark.parametrize("language", [spacy.blank, lambda _: spacy.lang.en.English()])
def test_files_are_read_when_a_pipe_is_made(
    language: Any, option: str, file: str, tmp_path: Path
) -> None:
    """So that what is missing is no surprise at the first document."""
    (tmp_path / "odd.json").write_text(json.dumps({"format": "other"}))
    for name, error in (("none", FileNotFoundError), ("odd.json", ModelFileError)):
        config = {"model": file} | {option: str(tmp_path / name)}
        with pytest.raises(error, match=name) as raised:
            language("en").add_pipe("fstcrf", config=config)
        assert "\n" not in str(raised.value)


def test_a_pipeline_that_was_saved_needs_no_file_of_its_config(file: str, tmp_path: Path) -> None:
    blank(model=file).to_disk(tmp_path / "nlp")
    config, data = spacy.blank("en"), blank(model=file).to_bytes()
    full = spacy.util.load_config(tmp_path / "nlp" / "config.cfg")
    Path(file).unlink()
    assert shown(spacy.load(tmp_path / "nlp")("Ann Lee")) == [(0, 2, "PER")]
    restored = spacy.util.load_model_from_config(full).from_bytes(data)
    assert shown(restored("Ann Lee")) == [(0, 2, "PER")]
    with pytest.raises(FileNotFoundError, match=r"ner\.fstcrf"):
        spacy.util.load_model_from_config(full)("Ann")
    with pytest.raises(FileNotFoundError, match=r"ner\.fstcrf"):
        config.add_pipe("fstcrf", config={"model": file})


def test_what_a_model_reads_is_asked_of_tokens() -> None:
    reads = CRF.train(DATA, "ner", "U:%x[0,word]\nU:%x[0,pos]\nB", max_iterations=5)
    nlp = blank()
    nlp.get_pipe("fstcrf").model = reads
    with pytest.raises(DataError, match="'tag_' as column 'pos'"):
        nlp("Ann Lee")
    doc = spacy.tokens.Doc(nlp.vocab, words=["Ann", "Lee"], tags=["N", "N"])
    assert shown(nlp(doc)) == [(0, 2, "PER")]
    odd = CRF.train([{"w": s["word"], "ner": s["ner"]} for s in DATA], "ner", "U:%x[0,w]\nB")
    nlp.get_pipe("fstcrf").model = odd
    with pytest.raises(OptionError, match="column 'w'"):
        nlp("Ann Lee")
    named = blank(columns={"w": "text"})
    named.get_pipe("fstcrf").model = odd
    assert shown(named("Ann Lee")) == [(0, 2, "PER")]


@pytest.fixture(scope="module")
def registered() -> None:
    def features() -> Any:
        return lambda sentence: [[f"w={t.text}"] for t in sentence]

    def pieces() -> Any:
        return lambda docs: [pieces_of(doc) for doc in docs]

    spacy.registry.misc.register("fstcrf_test.features", func=features)
    spacy.registry.misc.register("fstcrf_test.pieces", func=pieces)


def pieces_of(doc: Any) -> Pieces:
    """Pieces of two characters; what is upper case begins a name."""
    found = []
    for k, token in enumerate(doc):
        for first in range(0, len(token.text), 2):
            part = token.text[first : first + 2]
            row = [0.0, 5.0, -2.0] if part[0].isupper() else [3.0 - 3.0 * (first > 0), 0.0, 0.0]
            found.append(((token.idx + first, token.idx + first + len(part)), k, row))
    places, words, rows = zip(*found, strict=True)
    return Pieces(np.asarray(rows), places, words, doc.text)


def of_words(sentence: Any) -> list[dict[str, Any]]:
    return [{"word": word, "ends": word[-1:]} for word in sentence["word"]]


def of_tags(sentence: Any) -> list[list[str]]:
    return [[word, tag] for word, tag in zip(sentence["word"], sentence["pos"], strict=True)]


def test_feature_functions_get_the_columns_that_a_doc_has(tmp_path: Path) -> None:
    trained = CRF.train(DATA, "ner", of_words, max_iterations=20)
    given = [of_words(s) for s in DATA]
    gold = [s["ner"] for s in DATA]
    imported = CRF.train(given, gold, max_iterations=20).with_features(of_words)
    for model in (trained, imported, fstcrf.compose(trained), trained & at_most(9, "PER")):
        nlp = spacy.blank("en")
        nlp.add_pipe("fstcrf").model = model
        doc = nlp("Ann Lee met Bob")  # the column pos, which training had, is not there
        lattice: Any = model.lattice({"word": [t.text for t in doc]})
        assert shown(doc) == [(0, 2, "PER"), (3, 4, "PER")]
        want = [lattice.span_probability(*s) for s in shown(doc)]
        assert doc.spans["fstcrf"].attrs["scores"] == pytest.approx(want)
        with pytest.raises(OptionError, match="has a feature function, which no file holds"):
            nlp.to_disk(tmp_path / "nlp")
        nlp.to_disk(tmp_path / "nlp", exclude=["fstcrf"])
    nlp = spacy.blank("en")
    nlp.add_pipe("fstcrf").model = CRF.train(DATA, "ner", of_tags, max_iterations=20)
    with pytest.raises(DataError, match=r"function \S+of_tags stops: no column 'pos'"):
        nlp("Ann Lee met Bob")
    doc = spacy.tokens.Doc(nlp.vocab, ["Ann", "sings"], tags=["N", "V"])
    assert shown(nlp.get_pipe("fstcrf")(doc)) == [(0, 1, "PER")]


def test_models_over_features_of_ones_own(registered: None, tmp_path: Path) -> None:
    rows = [[[f"w={w}"] for w in s["word"]] for s in DATA]
    model = CRF.train(rows, [s["ner"] for s in DATA], max_iterations=20)
    nlp = blank(features={"@misc": "fstcrf_test.features"})
    nlp.get_pipe("fstcrf").model = model
    assert shown(nlp("Ann Lee met Bob")) == [(0, 2, "PER"), (3, 4, "PER")]
    nlp.to_disk(tmp_path / "nlp")
    assert shown(spacy.load(tmp_path / "nlp")("Ann Lee")) == [(0, 2, "PER")]
    bare = blank()
    bare.get_pipe("fstcrf").model = model
    with pytest.raises(OptionError, match="features"):
        bare("Ann")


def test_a_token_decoder_in_a_pipeline(registered: None, tmp_path: Path) -> None:
    decoder = TokenDecoder(["O", "B-PER", "I-PER"], "bio")
    decoder.save(tmp_path / "decoder.json")
    nlp = blank(
        model=str(tmp_path / "decoder.json"), pieces={"@misc": "fstcrf_test.pieces"}, ents=True
    )
    doc = nlp("then Anna met Bo")
    want = decoder.decode_all([pieces_of(doc)])[0]
    got = [(s.start_char, s.end_char, s.label_) for s in doc.spans["fstcrf"]]
    assert got == [s[:3] for s in want] == [(5, 9, "PER"), (14, 16, "PER")]
    assert doc.spans["fstcrf"].attrs["scores"].tolist() == [s.probability for s in want]
    nlp.to_disk(tmp_path / "nlp")
    assert len(spacy.load(tmp_path / "nlp")("then Anna").ents) == 1
    own = blank()
    own.get_pipe("fstcrf").model = decoder
    doc = own.make_doc("Anna")
    with pytest.raises(DataError, match="fstcrf_pieces"):
        own(doc)
    doc.user_data["fstcrf_pieces"] = pieces_of(doc)
    assert shown(own(doc)) == [(0, 1, "PER")]
    doc.user_data["fstcrf_pieces"] = Pieces([[0.0, 9.0, 0.0]], [(0, 99)])
    with pytest.raises(DataError, match="outside the doc"):
        own(doc)


def test_spans_below_a_probability_are_left_out(file: str) -> None:
    sure = blank(model=file, min_probability=0.7, ents=True)("Ann Lee met Bob")
    assert (sure.spans["fstcrf"].attrs["scores"] >= 0.7).all()
    assert len(sure.ents) == len(sure.spans["fstcrf"]) == 1


def test_what_goes_wrong(tagger: CRF, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no model"):
        blank()("Ann")
    with pytest.raises(OptionError, match="min_probability"):
        blank(min_probability=2.0)
    other = blank(tape="chunk")
    other.get_pipe("fstcrf").model = tagger
    with pytest.raises(OptionError, match="no tape 'chunk': the tapes are ner"):
        other("Ann")
    pos = blank()
    pos.get_pipe("fstcrf").model = CRF.train(DATA, "pos", "U:%x[0,word]", max_iterations=2)
    with pytest.raises(OptionError, match="attributes"):
        pos("Ann")
    with pytest.raises(ModelFileError):
        blank().get_pipe("fstcrf").from_bytes(b"x")
    with pytest.raises(ModelFileError, match="expected tagger or"):
        blank().get_pipe("fstcrf").from_disk(tmp_path)
