"""Types of taggers, as mypy sees them: exact for one tape and for several."""

from __future__ import annotations

from typing import Any, assert_type

import fstcrf
from fstcrf import CRF, Composition, Grammar
from fstcrf.arrays import Floats
from fstcrf.joint import Tagger
from fstcrf.lattice import Answer
from tests.support.joint_cases import TEST, taggers

Lists = tuple[list[str], ...]


def test_one_tape() -> None:
    tagger, grammar = taggers("pair")[0], Grammar.from_text("export E = any*;")
    assert_type(tagger, CRF)
    assert_type(tagger.tag(TEST[0]), list[str])
    assert_type(tagger.tag_all(TEST), list[list[str]])
    assert_type(tagger.decode(TEST), Answer)
    legal = assert_type(tagger & grammar, Composition[list[str], Floats])
    assert_type(tagger.constrained(grammar), Composition[list[str], Floats])
    assert_type(fstcrf.compose(tagger, grammar=grammar), Composition[list[str], Floats])
    labels = assert_type(legal.tag(TEST[0]), list[str])
    assert labels == tagger.tag(TEST[0])
    rows = assert_type(legal.marginals_all(TEST), list[Floats])
    assert rows[0].shape == (len(labels), len(tagger.labels))


def test_several_tapes(tmp_path: Any) -> None:
    pos, chunk = taggers("pair")
    both = assert_type(pos @ chunk, Composition[Lists, tuple[Floats, ...]])
    assert_type(fstcrf.compose(pos, chunk), Composition[Lists, tuple[Floats, ...]])
    assert_type(both.taggers, tuple[CRF, ...])
    labels = assert_type(both.tag(TEST[0]), Lists)
    assert len(labels) == len(both.tapes)
    both.save(tmp_path / "m")
    loaded = assert_type(fstcrf.load(tmp_path / "m"), Tagger[Any, Any])
    assert loaded.tag(TEST[0]) == labels
