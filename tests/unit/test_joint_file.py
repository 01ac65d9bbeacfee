"""Compositions in files: whole, damaged, and where pynini is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Composition, Grammar, compose
from fstcrf.constraints import at_most, bio, label, pairs
from fstcrf.errors import ModelFileError
from fstcrf.ext.foreign.crfsuite import write_model
from fstcrf.storage import read_arrays, write_arrays
from fstcrf.taggers.jointmodel import KIND, VERSION
from tests.support.crfsuite_models import small
from tests.support.joint_cases import CASES, TEST, TRAIN, tagger, taggers
from tests.support.pattern_models import crfpp_text, wapiti

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


@pytest.mark.parametrize("part", [0.0, 0.0005, 0.01, 0.3, 0.7, 0.999])
def test_cut_short(whole: bytes, part: float, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(ModelFileError, match="cut"):
        fstcrf.load(path)


@pytest.mark.parametrize(
    "data",
    [
        write_model(small()),
        crfpp_text([b"A"], [b"B"], {b"B": [1.0]}),
        wapiti([b"A"], [b"b"], {b"b": [1.0]}),
    ],
)
def test_models_of_other_programs(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_bytes(data)
    loaded, read = fstcrf.load(path), fstcrf.ext.foreign.read_tagger(path)
    assert isinstance(loaded, fstcrf.CRF)
    assert loaded.labels == read.labels
    assert np.array_equal(loaded.theta, read.theta)


@pytest.mark.parametrize("data", [b"something else", b"something else" * 9])
def test_no_model(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "none"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"not an fstcrf file|no model of a known format, exp"):
        fstcrf.load(path)


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


def test_another_version(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "joint"
    path.write_bytes(whole)
    _, arrays, metadata = header_of(path)
    text = {"composition": metadata["composition"]}
    write_arrays(path, arrays, text, kind=KIND, version=VERSION + 1)
    with pytest.raises(ModelFileError, match="version"):
        fstcrf.load(path)
    write_arrays(path, arrays, text, kind="other", version=VERSION)
    with pytest.raises(ModelFileError, match="other"):
        fstcrf.load(path)


# --- Without pynini -----------------------------------------------------------------------------

ALONE = """
import sys
for name in ("pynini", "pywrapfst", "_pynini", "_pywrapfst", "lark"):
    sys.modules[name] = None  # importing it fails
import fstcrf
for path in sys.argv[1:]:
    joint = fstcrf.load(path)
    print(joint.tag_all([{"word": ["a", "b", "c"]}, {"word": ["d"]}]))
    lattice = joint.lattice({"word": ["a", "b", "c"]})
    print(lattice.best().score, [p.score for p in lattice.nbest(3)])
    print(joint.plan().n_residual)
"""


def test_it_runs_where_pynini_cannot_be_imported(tmp_path: Path) -> None:
    pynini = pytest.importorskip("pynini")
    fst = pynini.Fst()
    fst.add_states(1)
    fst.set_start(0)
    fst.set_final(0)
    arcs = [(1, 1, 0.0), (2, 1, 0.0), (3, 2, 0.0), (3, 1, 1.5)]
    for read, written, cost in arcs:
        fst.add_arc(0, pynini.Arc(read, written, cost, 0))
    plain = compose(*taggers("pair"), grammar=GRAMMAR & SOFT)
    chain = compose(*taggers("pair"), grammar=GRAMMAR & SOFT, normalize="chain")
    choice = compose(
        tagger("pos"), fst, tagger("over coarse"), grammar=at_most(2, "X", tape="coarse")
    )
    paths = []
    for k, composition in enumerate((plain, chain, choice)):
        paths.append(str(tmp_path / f"joint{k}"))
        composition.save(paths[-1])
    found = subprocess.run(
        [sys.executable, "-c", ALONE, *paths], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    wanted = []
    for composition in (plain, chain, choice):
        lattice = composition.lattice({"word": ["a", "b", "c"]})
        wanted += [
            str(composition.tag_all([{"word": ["a", "b", "c"]}, {"word": ["d"]}])),
            f"{lattice.best().score} {[p.score for p in lattice.nbest(3)]}",
            str(composition.plan().n_residual),
        ]
    assert found.stdout.splitlines() == wanted


def test_a_constrained_tagger(tmp_path: Path) -> None:
    grammar = bio() & at_most(1, "NP")
    data = [{"w": ["a", "b"], "y": ["B-NP", "I-NP"]}, {"w": ["c"], "y": ["O"]}]
    model = CRF.train(data, "y", "U:%x[0,w]\nB\n") & grammar
    loaded = saved(model, tmp_path / "model")
    assert loaded.tag({"w": list("abcab")}) == model.tag({"w": list("abcab")})
    assert loaded.tape == "y"
