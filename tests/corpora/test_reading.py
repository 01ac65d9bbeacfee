"""The real corpora, as their description says they are."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from fstcrf.errors import SchemeError
from fstcrf.evaluate import evaluate_spans
from fstcrf.ext.filling import fill_conllu
from fstcrf.text.corpus import (
    Column,
    ColumnWriter,
    convert_column,
    read_columns,
    read_conllu,
    stream_columns,
    stream_conllu,
    write_columns,
)
from fstcrf.text.corpus.conllu import CONLLU
from tests.support.treebanks import same_but

pytestmark = pytest.mark.corpus

CHUNKING = ("word", "pos", "chunk")
ENTITIES = ("word", "pos", "chunk", "entity")


@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "labels"),
    [("train", 8_936, 211_727, 22), ("test", 2_012, 47_377, 19)],
)
def test_conll2000(data: Path, name: str, sentences: int, tokens: int, labels: int) -> None:
    path = data / "conll2000" / f"{name}.txt"
    corpus = read_columns(path, CHUNKING)
    assert (len(corpus), corpus.n_tokens) == (sentences, tokens)
    seen = set(corpus.column("chunk").values)
    assert ("I-LST" in seen) == (name == "test")
    assert len(seen) == labels
    file = io.BytesIO()
    write_columns(corpus, file)
    assert file.getvalue() == path.read_bytes()


def test_most_frequent_chunk_per_pos(data: Path) -> None:
    train, test = (
        read_columns(data / "conll2000" / f"{name}.txt", CHUNKING) for name in ("train", "test")
    )
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for pos, chunk in zip(sentence["pos"], sentence["chunk"], strict=True):
            counts[pos][chunk] += 1
    best = {pos: chunks.most_common(1)[0][0] for pos, chunks in counts.items()}
    predicted = [[best[pos] for pos in sentence] for sentence in test.column_lists("pos")]
    report = evaluate_spans(test.column_lists("chunk"), predicted)
    assert str(report).splitlines()[:2] == [
        "processed 47377 tokens with 23852 phrases; found: 26992 phrases; correct: 19592.",
        "accuracy:  77.29%; precision:  72.58%; recall:  82.14%; FB1:  77.07",
    ]


@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "documents"),
    [
        ("train", 14_041, 203_621, 946),
        ("testa", 3_250, 51_362, 216),
        ("testb", 3_453, 46_435, 231),
    ],
)
def test_conll2003(data: Path, name: str, sentences: int, tokens: int, documents: int) -> None:
    path = data / "conll2003" / f"eng.{name}"
    corpus = read_columns(path, ENTITIES)
    assert (len(corpus), corpus.n_tokens) == (sentences, tokens)
    assert len(corpus.document_headers) == len(corpus.document_slices()) == documents
    file = io.BytesIO()
    write_columns(corpus, file)
    assert file.getvalue() == path.read_bytes()
    batches = io.BytesIO()
    writer = ColumnWriter(batches)
    for part in stream_columns(path, ENTITIES, batch_tokens=5_000):
        assert part.n_tokens <= 5_000
        writer.write(part)
    assert batches.getvalue() == path.read_bytes()


@pytest.mark.parametrize("name", ["train", "testa", "testb"])
def test_conll2003_in_other_schemes(data: Path, name: str) -> None:
    corpus = read_columns(data / "conll2003" / f"eng.{name}", ENTITIES)
    bioes = convert_column(corpus, "entity", "iob1", "bioes")
    again = convert_column(bioes, "entity", "bioes", "iob1", illegal="raise")
    # Read as the scorer reads it, a B after O starts a span; IOB1 writes that with an I.
    pairs = zip(corpus.column("entity").strings(), again.column("entity").strings(), strict=True)
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    assert set(differing) <= {("B-MISC", "I-MISC")}
    report = evaluate_spans(corpus.column_lists("entity"), bioes.column_lists("entity"))
    assert report.overall.correct == report.overall.guessed == report.overall.gold
    if differing:
        with pytest.raises(SchemeError, match=r"'B-MISC' after 'O' is not legal in iob1"):
            convert_column(corpus, "entity", "iob1", "bioes", illegal="raise")


@pytest.mark.parametrize(
    ("name", "sentences", "tokens"),
    [("train", 12_544, 204_577), ("dev", 2_001, 25_147), ("test", 2_077, 25_094)],
)
def test_english_treebank(data: Path, name: str, sentences: int, tokens: int) -> None:
    path = data / "ud_english_ewt" / f"en_ewt-ud-{name}.conllu"
    corpus = read_conllu(path, feature_columns=("Number",))
    assert (len(corpus), corpus.n_tokens) == (sentences, tokens)
    assert len(corpus.column("upos").values) == 17
    assert set(corpus.column("Number").values) >= {"_", "Sing", "Plur"}
    assert corpus.char_offsets is not None
    assert (corpus.char_offsets >= 0).all()
    parts = list(stream_conllu(path, batch_tokens=10_000))
    assert sum(part.n_tokens for part in parts) == tokens
    forms = [form for part in parts for form in part.column("form").strings()]
    assert forms == corpus.column("form").strings()
    chars = [pair for part in parts for pair in np.asarray(part.char_offsets).tolist()]
    assert chars == corpus.char_offsets.tolist()


def test_morphology_of_the_english_treebank(data: Path) -> None:
    values: set[str] = set()
    for path in sorted((data / "ud_english_ewt").glob("*.conllu")):
        values |= set(read_conllu(path).column("upos+feats").values)
    assert len(values) == 340


@pytest.mark.parametrize(
    "files",
    [
        "ud_english_ewt/*-dev.conllu",
        "ud_japanese_gsd/*.conllu",
        pytest.param("ud_english_ewt/*.conllu", marks=pytest.mark.slow),
    ],
)
def test_treebanks_filled_with_other_labels(data: Path, files: str) -> None:
    for path in sorted(data.glob(files)):
        text, corpus = path.read_bytes(), read_conllu(path)
        out = io.BytesIO()
        fill_conllu(path, out, {name: corpus.columns[name] for name in CONLLU[1:]})
        assert out.getvalue() == text
    moved = {name: np.roll(corpus.columns[name].ids, 1) for name in ("upos", "feats", "deprel")}
    columns = {name: Column(ids, corpus.columns[name].values) for name, ids in moved.items()}
    out = io.BytesIO()
    fill_conllu(path, out, {**columns, "ner": columns["upos"]})
    same_but(text, out.getvalue(), [*columns], ["ner"])
    again = read_conllu(io.BytesIO(out.getvalue()))
    for name, column in columns.items():
        assert again.columns[name].strings() == column.strings()
    assert again.char_offsets is not None
    assert corpus.char_offsets is not None
    assert np.array_equal(again.char_offsets, corpus.char_offsets)


def test_against_the_conllu_package(data: Path) -> None:
    conllu = pytest.importorskip("conllu")
    path = data / "ud_english_ewt" / "en_ewt-ud-dev.conllu"
    corpus = read_conllu(path)
    with path.open(encoding="utf-8") as file:
        for sentence, tokens in zip(corpus, conllu.parse_incr(file), strict=True):
            words = tokens.filter(id=lambda number: isinstance(number, int))
            assert sentence["form"] == [word["form"] for word in words]
            assert sentence["lemma"] == [word["lemma"] for word in words]
            assert sentence["upos"] == [word["upos"] for word in words]
