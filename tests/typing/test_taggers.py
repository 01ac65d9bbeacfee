"""Types of taggers, as mypy sees them: exact for one tape and for several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

import fstcrf
from fstcrf import CRF, Composition, Corpus, Grammar, Path
from fstcrf.arrays import Floats
from fstcrf.lattices import Answer, AnyLattice, TapeLattice
from fstcrf.taggers import JointCRF, Tagger
from fstcrf.text.corpus import Column
from tests.support.joint_cases import TEST, tagger, taggers

Lists = tuple[list[str], ...]


def test_one_tape() -> None:
    crf, grammar = taggers("pair")[0], Grammar.from_text("export E = any*;")
    corpus = Corpus.from_sentences(TEST)
    assert_type(crf, CRF)
    assert_type(crf.tag(TEST[0]), list[str])
    assert_type(crf.tag_all(TEST), list[list[str]])
    assert_type(crf.decode(TEST), Answer)
    assert_type(crf.tag_column(corpus), Column)
    assert_type(crf.tag_columns(corpus, threads=2), tuple[Column, ...])
    assert_type(crf.paths_all(TEST, budget=8), list[Path | None])
    assert_type(crf.nbest_all(TEST, 2), list[list[Path]])
    assert_type(crf.marginals_all(TEST, bias={}), list[Floats])
    assert_type(crf.lattice(TEST[0]), TapeLattice)
    tags = [["x"] * len(sentence["word"]) for sentence in TEST]
    assert_type(CRF.train(corpus, tags, "U:%x[0,word]", l2=0.5, max_iterations=1), CRF)
    legal = assert_type(crf & grammar, JointCRF[list[str]])
    assert_type(crf.constrained(grammar), JointCRF[list[str]])
    assert_type(fstcrf.compose(crf, grammar=grammar), JointCRF[Any])
    labels = assert_type(legal.tag(TEST[0]), list[str])
    assert_type(legal.tag(TEST[0], forced=[None] * len(labels), bias={}, budget=8), list[str])
    assert_type(legal.lattice(TEST[0]), AnyLattice)
    assert_type(legal.lattices(TEST), Sequence[AnyLattice])
    assert_type(legal & grammar, JointCRF[list[str]])
    assert labels == crf.tag(TEST[0])
    rows = legal.marginals_all(TEST)
    assert rows[0].shape == (len(labels), len(crf.labels))


def test_several_tapes(tmp_path: Any) -> None:
    pos, chunk = taggers("pair")
    both = assert_type(pos @ chunk, Composition[Lists])
    assert_type(fstcrf.compose(pos, chunk), JointCRF[Lists])
    assert_type(fstcrf.compose(pos, chunk).taggers, tuple[CRF, ...])
    assert_type(both @ tagger("last"), Composition[Lists])
    under = both & Grammar.from_text("tape pos; export E = any*;")
    assert_type(under, Composition[Lists])
    assert_type(both.lattice(TEST[0], n=5), AnyLattice)
    product = assert_type(fstcrf.compose(pos, chunk, normalize="product"), JointCRF[Lists])
    assert_type(product.lattices(TEST), Sequence[AnyLattice])
    assert_type(both.tag_all(TEST, search="lazy"), list[Lists])
    assert_type(both.with_weights(1, 0.5), Composition[Lists])
    labels = assert_type(both.tag(TEST[0]), Lists)
    assert len(labels) == len(both.tapes)
    both.save(tmp_path / "m")
    loaded = assert_type(fstcrf.load(tmp_path / "m"), Tagger[Any])
    assert_type(fstcrf.load(tmp_path / "m", fstcrf.Composition), fstcrf.Composition)
    assert loaded.tag(TEST[0]) == labels
