"""Models written for Wapiti and CRF++: the same answers from our readers, and from the programs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fstcrf
from fstcrf.errors import OptionError
from fstcrf.ext.foreign.conversion import written as converted
from fstcrf.ext.foreign.crfpp import _entries
from fstcrf.ext.foreign.doublearray import double_array
from tests.support.command_peers import (
    CRFPP_TEMPLATE,
    WAPITI_PATTERNS,
    Sentences,
    program,
    random_sentences,
    run,
    written,
)
from tests.support.training import flat_train

WAPITI, LEARN, TEST = program("wapiti", "Wapiti v1"), program("crf_learn"), program("crf_test")
COLUMNS = ("a", "b", "c")
TOLERANCE = 1e-6 + 5e-7  # programs print six decimals

COMMON = """
U00:%x[-2,a]
U01:%x[0,a]
U02:%x[-1,b]/%x[0,b]/%x[1,b]
U03:%x[0,a]%x[1,b]
U04:%x[4,a]
U10:bias
B01:%x[-1,b]/%x[0,b]
B
"""
TEMPLATES = {
    "common": COMMON,
    "order 0": "U01:%x[0,a]\nU02:%x[-1,a]",
    "transitions": "U01:%x[0,a]\nB",
    "pairs": "B01:%x[0,b]\nU:%x[0,a]",
    "one text in two columns": "U:%x[0,a]\nU:%x[0,b]\nU1%x[1,a]\nU%x[1,b]\nB%x[0,b]\nB",
    "ends": "BOS\nEOS\nU01:%x[0,a]\nB",
}


OPTIONS: list[dict[str, Any]] = [{}, {"boundary": "skip"}, {"ends": True}]


@cache
def trained(template: str, **options: Any) -> fstcrf.CRF:
    corpus = fstcrf.Corpus.from_sentences(random_sentences(0, 80), COLUMNS)
    return flat_train(corpus, "c", template, max_iterations=15, l2=0.1, **options)


def same(tagger: fstcrf.CRF, other: fstcrf.CRF, *, exact: bool) -> None:
    test = fstcrf.Corpus.from_sentences(random_sentences(1, 60), COLUMNS)
    assert tagger.labels == other.labels
    assert tagger.tag_all(test) == other.tag_all(test)
    pairs = zip(tagger.marginals_all(test), other.marginals_all(test), strict=True)
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, atol=1e-12 if exact else 1e-5)


READERS: Any = {
    "wapiti": (fstcrf.load_wapiti, True),
    "crfpp-text": (fstcrf.load_crfpp, True),
    "crfpp": (fstcrf.load_crfpp, False),  # float32
}


@pytest.mark.thorough
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_our_readers_give_the_same_answers(name: str, template: str, options: Any) -> None:
    tagger = trained(template, **options)
    load, exact = READERS[name]
    same(tagger, load(converted(tagger, name), columns=COLUMNS, tape="c"), exact=exact)


@pytest.mark.parametrize("name", READERS)
def test_what_was_read_is_written_again(name: str) -> None:
    """Attributes that were cut in several ways are one text again."""
    load, exact = READERS[name]
    tagger = trained(COMMON)
    once = load(converted(tagger, name), columns=COLUMNS, tape="c")
    again = load(converted(once, name), columns=COLUMNS, tape="c")
    same(once, again, exact=exact)


@pytest.mark.parametrize("labels", [1, 2])
def test_few_labels(labels: int) -> None:
    sentences = [[("x", "L0"), ("y", f"L{labels - 1}")], [("y", "L0")]]
    corpus = fstcrf.Corpus.from_sentences(sentences, ("a", "c"))
    tagger = fstcrf.CRF.train(corpus, "c", "U:%x[0,a]\nB", l2=0.1)
    for name, (load, _) in READERS.items():
        other = load(converted(tagger, name), columns=("a",))
        assert other.tag_all(corpus) == tagger.tag_all(corpus)


# --- The programs themselves ----------------------------------------------------------------------


@pytest.mark.skipif(WAPITI is None, reason="wapiti, of Jekub/Wapiti, is not on the path")
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_wapiti_tags_the_same(tmp_path: Path, template: str) -> None:
    tagger, test = trained(template), random_sentences(1, 60)
    compare_wapiti(tagger, test, tmp_path)


def compare_wapiti(tagger: fstcrf.CRF, test: Sentences, folder: Path) -> None:
    (folder / "model").write_bytes(converted(tagger, "wapiti"))
    written(folder / "test.txt", test)
    model, text = folder / "model", folder / "test.txt"
    corpus = fstcrf.Corpus.from_sentences(test, COLUMNS)
    tags = run(WAPITI, "label", "-l", "-m", model, text).split()
    assert [label for labels in tagger.tag_all(corpus) for label in labels] == tags
    lines = run(WAPITI, "label", "-l", "-p", "-s", "-m", model, text).split("\n")
    pairs = [line.split("\t")[1].rpartition("/") for line in lines if "\t" in line]
    found = np.concatenate(tagger.marginals_all(corpus))
    assert np.abs(found.max(axis=1) - [float(p) for _, _, p in pairs]).max() < TOLERANCE


@pytest.mark.skipif(WAPITI is None, reason="wapiti, of Jekub/Wapiti, is not on the path")
def test_wapiti_gets_its_own_models_back(tmp_path: Path) -> None:
    written(tmp_path / "train.txt", random_sentences(0, 80))
    (tmp_path / "patterns").write_text(WAPITI_PATTERNS)
    options = ("-i", "20", "-p", tmp_path / "patterns", "-2", "0.1")
    run(WAPITI, "train", *options, tmp_path / "train.txt", tmp_path / "first")
    tagger = fstcrf.load_wapiti(tmp_path / "first", columns=COLUMNS, tape="c")
    compare_wapiti(tagger, random_sentences(1, 60), tmp_path)


@pytest.mark.skipif(None in (LEARN, TEST), reason="crf_learn and crf_test are not on the path")
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("name", ["crfpp", "crfpp-text"])
def test_crfpp_tags_the_same(tmp_path: Path, template: str, name: str) -> None:
    tagger, test = trained(template), random_sentences(1, 60)
    model = tmp_path / "model"
    model.write_bytes(converted(tagger, name))
    if name == "crfpp-text":
        run(LEARN, "-C", model, tmp_path / "binary")
        model = tmp_path / "binary"
    written(tmp_path / "test.txt", test)
    corpus = fstcrf.Corpus.from_sentences(test, COLUMNS)
    lines = run(TEST, "-v2", "-m", model, tmp_path / "test.txt").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    wanted = [label for labels in tagger.tag_all(corpus) for label in labels]
    assert [row[3].rpartition("/")[0] for row in rows] == wanted
    found = np.concatenate(tagger.marginals_all(corpus))
    for row, shares in zip(rows, found, strict=True):
        theirs = dict(cell.rpartition("/")[::2] for cell in row[4:])
        assert {k: float(v) for k, v in theirs.items()} == pytest.approx(
            dict(zip(tagger.labels, shares.tolist(), strict=True)), abs=1e-4
        )


@pytest.mark.skipif(None in (LEARN, TEST), reason="crf_learn and crf_test are not on the path")
def test_crfpp_gets_its_own_models_back(tmp_path: Path) -> None:
    written(tmp_path / "train.txt", random_sentences(0, 80))
    (tmp_path / "template").write_text(CRFPP_TEMPLATE)
    run(LEARN, tmp_path / "template", tmp_path / "train.txt", tmp_path / "first")
    tagger = fstcrf.load_crfpp(tmp_path / "first", columns=COLUMNS, tape="c")
    (tmp_path / "again").write_bytes(converted(tagger, "crfpp"))
    written(tmp_path / "test.txt", random_sentences(1, 60))
    answers = [run(TEST, "-m", tmp_path / m, tmp_path / "test.txt") for m in ("first", "again")]
    assert answers[0] == answers[1]


@pytest.mark.corpus
def test_conll2000(tmp_path: Path, data: Path) -> None:
    train, test = (
        fstcrf.read_columns(data / "conll2000" / f"{part}.txt", COLUMNS)
        for part in ("train", "test")
    )
    tagger = fstcrf.CRF.train(train[:300], "c", COMMON, max_iterations=15)
    if WAPITI is TEST is None:
        test = test[:400]  # the programs read the whole file
    wanted = [label for labels in tagger.tag_all(test) for label in labels]
    text = data / "conll2000" / "test.txt"
    for name, (load, _) in READERS.items():
        (tmp_path / name).write_bytes(converted(tagger, name))
        found = load(tmp_path / name, columns=COLUMNS, tape="c").tag_all(test)
        assert [label for labels in found for label in labels] == wanted
    if WAPITI is not None:
        assert run(WAPITI, "label", "-l", "-m", tmp_path / "wapiti", text).split() == wanted
    if TEST is not None:
        lines = run(TEST, "-m", tmp_path / "crfpp", text).splitlines()
        assert [line.split()[-1] for line in lines if line.strip()] == wanted


# --- What cannot be said --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wapiti", "crfpp"])
@pytest.mark.parametrize(
    ("template", "options", "words"),
    [
        ("U:%x[0,a]\nB", {"order": 2}, "the tagger is of order 2"),
        ("U:%x[0,a]\nB", {"hash_bits": 8}, "the attributes are hashed"),
        ("U:%x[0,lower(a)]\nB", {}, r"template 'U:%x\[0,lower\(a\)\]' reads lower\(a\)"),
        ("U:%x[-1,a]\nU:%x[1,a]\nB", {}, "yields the same attribute for several offsets"),
        ("U:%x{-2..2,a}\nB", {}, "yields the same attribute for several offsets"),
        ("U:%x[-9,a]\nB", {}, "reads 9 tokens away, which is beyond"),
        ("U:100%%%x[0,a]\nB", {}, "has a % in its text"),
    ],
)
def test_what_has_no_place_is_named(name: str, template: str, options: Any, words: str) -> None:
    title = {"wapiti": "Wapiti's", "crfpp": "CRF[+][+]'s"}[name]
    with pytest.raises(OptionError, match=f"{title} format has no place for this: .*{words}"):
        converted(trained(template, **options), name)


def test_other_taggers_are_named() -> None:
    literal = fstcrf.CRF.train([[["x"], ["y"]]], [["A", "B"]])
    with pytest.raises(OptionError, match="reads lists of attributes: train it on columns"):
        converted(literal, "wapiti")
    tagger = trained("U:%x[0,a]\nB")
    ruled: Any = tagger & fstcrf.constraints.never("W")
    with pytest.raises(OptionError, match="a composition is several taggers or a grammar"):
        converted(ruled, "crfpp")
    spans = [[("x", "B-X"), ("y", "I-X"), ("x", "O")]]
    corpus = fstcrf.Corpus.from_sentences(spans, ("a", "c"))
    legal = fstcrf.CRF.train(corpus, "c", "U:%x[0,a]\nB", scheme="iob2")
    with pytest.raises(OptionError, match="forbids label sequences: train it without scheme="):
        converted(legal, "crfpp")
    reader = fstcrf.CRF.train(
        fstcrf.Corpus.from_sentences(random_sentences(0, 20), COLUMNS),
        "b",
        "U:%x[0,a]\nU1:%y[0,c]\nB",
        reads=[tagger],
    )
    with pytest.raises(OptionError, match="reads the labels of c: train it without %y"):
        converted(reader, "wapiti")


def test_texts_that_mean_two_attributes_are_named() -> None:
    sentences = [[("a/b", "c", "X"), ("a", "b/c", "Y")], [("a", "b/c", "Y")]]
    corpus = fstcrf.Corpus.from_sentences(sentences, COLUMNS)
    tagger = fstcrf.CRF.train(corpus, "c", "U:%x[0,a]/%x[0,b]", l2=0.1)
    with pytest.raises(OptionError, match="the attribute name 'U:a/b/c' is ambiguous"):
        converted(tagger, "crfpp")


# --- The double array -----------------------------------------------------------------------------


@given(st.sets(st.binary(min_size=1, max_size=6).filter(lambda k: b"\0" not in k), min_size=1))
def test_a_double_array_has_its_keys(keys: set[bytes]) -> None:
    texts = sorted(keys)
    values = np.arange(len(texts), dtype=np.int64)[::-1] * 3
    units = double_array(texts, values)
    found, numbers = _entries(units, limit=1 << 30, where="")
    assert found == texts
    assert numbers.tolist() == values.tolist()
    for key in [*texts, b"\x01", b"zz", texts[0] + b"x", texts[-1][:-1]]:
        assert looked_up(units, key) == (values[texts.index(key)] if key in keys else None)


def looked_up(units: Any, key: bytes) -> int | None:
    """Look a key up as Darts does."""
    base = int(units["base"][0])
    for byte in key:
        unit = base + byte + 1
        if units["check"][unit] != base:
            return None
        base = int(units["base"][unit])
    end = int(units["base"][base])
    return -end - 1 if units["check"][base] == base and end < 0 else None


@pytest.mark.thorough
def test_a_double_array_of_many_keys() -> None:
    rng = np.random.default_rng(0)
    texts = sorted(
        {b"U%02d:%d" % (i % 20, n) for i, n in enumerate(rng.integers(10**6, size=20_000))}
    )
    units = double_array(texts, np.arange(len(texts), dtype=np.int64))
    assert _entries(units, limit=1 << 30, where="")[0] == texts
    assert len(units) < 8 * sum(map(len, texts))
