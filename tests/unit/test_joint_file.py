"""Compositions in files: whole, damaged, and where pynini is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Composition, Grammar, compose
from fstcrf.constraints import at_most, bio, label, pairs
from fstcrf.errors import ModelFileError
from fstcrf.storage import VERSION, read_arrays, write_arrays
from fstcrf.taggers.joint import KIND
from tests.support.joint_cases import CASES, TEST, TRAIN, tagger, taggers

GRAMMAR = at_most(1, label("B"), tape="chunk") & pairs(
    [("P0", "B"), ("P1", "I"), ("P2", "O"), ("P2", "B"), ("P0", "I")], ["pos", "chunk"]
)
SOFT = Grammar.from_text('tape chunk; export E = (("[B]" <0.5>) | "[I]" | ("[O]" <-1>))*;')


def saved(composition: Composition, path: Path) -> Composition:
    composition.save(path)
    loaded = fstcrf.load(path)
    assert isinstance(loaded, Composition)
    return loaded


def answers(composition: Composition) -> list[Any]:
    return [(p.labels, p.score, p.bound) if p else None for p in composition.paths_all(TEST)]


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("normalize", ["product", "chain"])
def test_a_loaded_composition_is_the_same(case: str, normalize: Any, tmp_path: Path) -> None:
    parts = taggers(case)
    weights = [1.0, 0.3, 0.7][: len(parts)]
    composition = compose(*parts, weights=weights, normalize=normalize)
    if {"pos", "chunk"} <= set(composition.tapes):
        composition = composition & GRAMMAR & SOFT
    loaded = saved(composition, tmp_path / "joint.fstcrf")
    assert repr(loaded) == repr(composition)
    assert loaded.weights == composition.weights
    assert loaded.labels == composition.labels
    assert [a.name for a in loaded.conjuncts] == [a.name for a in composition.conjuncts]
    assert answers(loaded) == answers(composition)
    # It is a tagger again: it composes, is constrained, and is saved.
    more = loaded & Grammar.from_text("tape pos; export E = any*;") if len(parts) > 1 else loaded
    assert answers(saved(more, tmp_path / "again.fstcrf")) == answers(composition)


def test_files_are_equal_bytes_for_equal_compositions(tmp_path: Path) -> None:
    composition = compose(*taggers("pair"), grammar=GRAMMAR)
    composition.save(tmp_path / "one")
    saved(composition, tmp_path / "two").save(tmp_path / "three")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "three").read_bytes()


def test_taggers_of_attribute_lists(tmp_path: Path) -> None:
    data: list[Any] = [[[f"w={w}"] for w in s["word"]] for s in TRAIN]
    parts = [CRF.train(data, [s[t] for s in TRAIN], tape=t, l2=0.1) for t in ("pos", "ent")]
    composition = compose(*parts, weights=(1, 0.5))
    assert saved(composition, tmp_path / "joint").tag_all(data) == composition.tag_all(data)


def test_load_reads_taggers_and_compositions(tmp_path: Path) -> None:
    tagger("pos").save(tmp_path / "pos")
    assert isinstance(fstcrf.load(tmp_path / "pos"), CRF)
    compose(tagger("pos")).save(tmp_path / "one")
    loaded = fstcrf.load(tmp_path / "one")
    assert isinstance(loaded, Composition)
    assert loaded.tag_all(TEST) == tagger("pos").tag_all(TEST)
    with pytest.raises(FileNotFoundError):
        fstcrf.load(tmp_path / "none")


# --- Damage -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("joint") / "joint"
    compose(*taggers("pair"), grammar=GRAMMAR & SOFT).save(path)
    return path.read_bytes()


def header_of(path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    return msgspec.json.decode(metadata["composition"]), arrays, metadata


def test_sound_files_with_unsound_contents(whole: bytes, tmp_path: Path) -> None:
    """Checksums are right, what they protect is not."""
    path = tmp_path / "joint"
    path.write_bytes(whole)
    header, arrays, _ = header_of(path)

    def write(changed: dict[str, Any], other: dict[str, Any] | None = None) -> Path:
        target = tmp_path / "odd"
        text = msgspec.json.encode({**header, **changed}).decode()
        fresh = {k: v for k, v in {**arrays, **(other or {})}.items() if v is not None}
        write_arrays(target, fresh, {"composition": text}, kind=KIND, version=VERSION)
        return target

    conjunct = header["conjuncts"][0]
    target = arrays["conjunct0.target"]
    relabelling = {"reader": "chunk", "read": "pos", "tape": "pos", "labels": ["P0", "P1", "P2"]}
    place = np.zeros(3, dtype=np.int32)
    tape_map = {"tape": "pos", "labels": ["P0"], "acceptor": conjunct}
    odd: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"weights": [1.0]}, {}),
        ({"weights": [1.0, -1.0]}, {}),
        ({"weights": "x"}, {}),
        ({"normalize": "sum"}, {}),
        ({"taggers": []}, {}),
        ({"taggers": header["taggers"][:1] * 2}, {}),
        ({"taggers": [{}, {}]}, {}),
        ({"more": 1}, {}),
        ({"conjuncts": [{**conjunct, "tapes": ["ner"]}, *header["conjuncts"][1:]]}, {}),
        ({"conjuncts": [{**conjunct, "labels": [["B"]]}, *header["conjuncts"][1:]]}, {}),
        ({"conjuncts": [*header["conjuncts"], conjunct]}, {}),
        ({}, {"conjunct0.target": None}),
        ({}, {"conjunct0.target": target + 9}),
        ({}, {"conjunct0.target": target.astype(np.int64)}),
        ({}, {"conjunct0.target": target.reshape(-1)}),
        ({}, {"conjunct0.final": arrays["conjunct0.final"].astype(np.float32)}),
        ({}, {"conjunct0.final": arrays["conjunct0.final"][:, None]}),
        ({}, {"conjunct0.final": np.full(len(target), np.nan)}),
        ({}, {"conjunct0.final": arrays["conjunct0.final"][:0]}),
        ({}, {"conjunct0.score": np.full(target.shape, np.inf)}),
        ({}, {"tagger0.theta": arrays["tagger0.theta"][:-1]}),
        ({"maps": [tape_map]}, {}),
        ({"maps": [tape_map]}, {"map0.target": target, "map0.final": arrays["conjunct0.final"]}),
        ({"relabellings": [relabelling]}, {}),
        ({"relabellings": [relabelling]}, {"relabelling0.place": place[:2]}),
        ({"relabellings": [relabelling]}, {"relabelling0.place": place + 3}),
        ({"relabellings": [relabelling]}, {"relabelling0.place": place.astype(np.int64)}),
        ({"relabellings": [relabelling]}, {"relabelling0.place": place[:, None]}),
        ({"relabellings": [{**relabelling, "read": "x"}]}, {"relabelling0.place": place}),
        ({"relabellings": [{**relabelling, "tape": "x"}]}, {"relabelling0.place": place}),
        ({"relabellings": [{**relabelling, "labels": ["Q"]}]}, {"relabelling0.place": place}),
    ]
    assert isinstance(fstcrf.load(write({})), Composition)
    for changed, other in odd:
        with pytest.raises(ModelFileError, match="not a sound"):
            fstcrf.load(write(changed, other)), changed, list(other)
    sound = {"relabelling0.place": place}
    assert isinstance(fstcrf.load(write({"relabellings": [relabelling]}, sound)), Composition)


# --- Without pynini -----------------------------------------------------------------------------


def test_a_constrained_tagger(tmp_path: Path) -> None:
    grammar = bio() & at_most(1, "NP")
    data = [{"w": ["a", "b"], "y": ["B-NP", "I-NP"]}, {"w": ["c"], "y": ["O"]}]
    model = CRF.train(data, "y", "U:%x[0,w]\nB\n") & grammar
    loaded = saved(model, tmp_path / "model")
    assert loaded.tag({"w": list("abcab")}) == model.tag({"w": list("abcab")})
    assert loaded.tape == "y"
