"""Model files: exact, mapped, and checked field by field even under a right checksum."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from fstcrf import CRF, Corpus
from fstcrf.errors import ModelFileError
from fstcrf.storage import read_arrays, write_arrays
from fstcrf.training import Chain, Features
from tests.support.training import flat_train

KIND, VERSION = "fstcrf-crf", 1

COLUMNS = [
    {
        "word": ["the", "big", "dog", "ran"],
        "pos": ["D", "J", "N", "V"],
        "y": ["B-X", "I-X", "I-X", "O"],
    },
    {"word": ["a", "dog"], "pos": ["D", "N"], "y": ["B-X", "I-X"]},
    {"word": ["ran"], "pos": ["V"], "y": ["O"]},
]
TEMPLATE = """\
U1:%x[-1..1,word]
U2:%x[0,suffix(word,2)]
U3:%x[0,pos]/%x[1,pos]
B1:%x[0,pos]
B
"""
LITERAL = [
    [["w=the", "bias"], {"w": "big", "len": 3.5}, {"w=dog", "bias"}],
    [{"w": "a", "title": True}, ["w=dog"]],
]
TARGET = [["B-X", "I-X", "O"], ["B-X", "O"]]


def columns(**options: Any) -> CRF:
    return flat_train(COLUMNS, "y", TEMPLATE, max_iterations=5, **options)


MODELS: dict[str, Callable[[], CRF]] = {
    "columns": columns,
    "order 0": lambda: columns(order=0),
    "order 2": lambda: columns(order=2, scheme="iob2", ends=True),
    "skip": lambda: columns(boundary="skip", pairs="complete", transitions="all"),
    "hashed": lambda: columns(hash_bits=6),
    "perceptron": lambda: CRF.train(
        COLUMNS,
        "y",
        "U:%x[0,word]\nB",
        method="perceptron",
        structure=Chain(ends=True),
        tape="chunk",
    ),
    "one label": lambda: CRF.train([{"w": ["a"], "y": ["X"]}], "y", "U:%x[0,w]\nB"),
    "no weights": lambda: CRF.train(
        [{"w": ["a"], "y": ["X"]}], "y", Features("U:%x[5,w]", boundary="skip")
    ),
    "literal": lambda: CRF.train(LITERAL, TARGET, max_iterations=5),
    "literal, hashed": lambda: CRF.train(
        LITERAL, TARGET, features=Features(hash_bits=4), max_iterations=5
    ),
}


@pytest.fixture(params=list(MODELS.values()), ids=list(MODELS))
def model(request: pytest.FixtureRequest) -> CRF:
    made = request.param()
    assert isinstance(made, CRF)
    return made


def sentences(model: CRF) -> list[Any]:
    if not model.columns:
        return LITERAL
    if "word" not in model.columns:
        return [{"w": ["a", "b"]}]
    return [{"word": s["word"] + ["new"], "pos": [*s["pos"], "V"]} for s in COLUMNS]


def test_round_trip(model: CRF, tmp_path: Path) -> None:
    path = tmp_path / "model"
    model.save(path)
    loaded = CRF.load(path)
    assert np.array_equal(loaded.theta, model.theta)
    assert loaded.record == model.record
    assert (loaded.labels, loaded.tape, loaded.columns, loaded.reads) == (
        model.labels,
        model.tape,
        model.columns,
        model.reads,
    )
    for name, array in model.topology.arrays().items():
        assert np.array_equal(loaded.topology.arrays()[name], array)
    ours, theirs = (m.marginals_all(sentences(model)) for m in (model, loaded))
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert loaded.tag_all(sentences(model)) == model.tag_all(sentences(model))
    assert loaded.top_features(99) == model.top_features(99)
    again = tmp_path / "again"
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


def test_weights_are_a_read_only_view_of_the_file(tmp_path: Path) -> None:
    columns().save(tmp_path / "model")
    theta = CRF.load(tmp_path / "model").theta
    assert not theta.flags.writeable
    assert not theta.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        theta[0] = 1.0


def test_a_model_may_be_saved_over_the_file_it_is_mapped_from(tmp_path: Path) -> None:
    path = tmp_path / "model"
    columns().save(path)
    loaded = CRF.load(path)
    before = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == before
    assert loaded.tag(COLUMNS[0]) == CRF.load(path).tag(COLUMNS[0])


def test_the_example_of_readme(tmp_path: Path) -> None:
    corpus = Corpus.from_sentences(COLUMNS)
    CRF.train(corpus, "y", TEMPLATE).save(str(tmp_path / "model"))
    assert CRF.load(str(tmp_path / "model")).tag_all(corpus) == corpus.column_lists("y")


# --- Damage -----------------------------------------------------------------------------------


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "model"
    columns().save(path)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    rest = {k: v for k, v in metadata.items() if k not in {"format", "version", "crc32"}}
    write_arrays(path, arrays, rest, kind=KIND, version=VERSION + 1)
    with pytest.raises(ModelFileError, match="format version '2', this fstcrf reads 1"):
        CRF.load(path)
    write_arrays(path, arrays, rest, kind="fstcrf-checkpoint", version=VERSION)
    with pytest.raises(ModelFileError, match="holds 'fstcrf-checkpoint', expected 'fstcrf-crf'"):
        CRF.load(path)
    with pytest.raises(FileNotFoundError):
        CRF.load(tmp_path / "nothing")


def resigned(
    path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]
) -> CRF | ModelFileError:
    """Save with a right checksum; what loading it gives."""
    fields = {k: v for k, v in metadata.items() if k not in {"format", "version", "crc32"}}
    write_arrays(path, arrays, fields, kind=KIND, version=VERSION)
    try:
        return CRF.load(path)
    except ModelFileError as error:
        found = error
    assert str(path) in str(found)
    assert "\n" not in str(found)
    return found


def test_offsets_whose_differences_wrap(tmp_path: Path) -> None:
    path = tmp_path / "model"
    columns().save(path)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    for name in (n for n in arrays if n.endswith(("offsets", "starts"))):
        for far in (2**62 + 1, 2**63 - 1):
            odd = np.asarray([0, far, -far, arrays[name][-1]])
            assert isinstance(resigned(path, {**arrays, name: odd}, metadata), ModelFileError), name


def test_rows_without_weights_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a few bytes may say that there are 2^30 rows of attributes."""
    whole, few = (MODELS["hashed"]() for _ in range(2))
    data = sentences(whole)
    wanted = whole.tag_all(data), [m.tolist() for m in whole.marginals_all(data)[0]]
    monkeypatch.setattr("fstcrf.taggers.weights._ROWS", 1)
    monkeypatch.setattr("fstcrf.taggers.weights._LOOKED_UP", 0)
    assert few._weights.sentence_graph is None
    assert (few.tag_all(data), [m.tolist() for m in few.marginals_all(data)[0]]) == wanted
    assert [few.tag(sentence) for sentence in data] == wanted[0]
    assert not {"_packed", "_packed_arcs"} & set(vars(few._weights))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(bad: float, tmp_path: Path) -> None:
    path = tmp_path / "model"
    columns().save(path)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    theta = arrays["theta"].copy()
    theta[3] = bad
    found = resigned(path, {**arrays, "theta": theta}, metadata)
    assert "a weight is not finite" in str(found)


@pytest.mark.parametrize("name", ["node_cells", "arc_cells"])
def test_cells_behind_the_slots_of_a_row(name: str, tmp_path: Path) -> None:
    """A row is as wide as the kernel reads it: a weight there would have no label."""
    path = tmp_path / "model"
    columns().save(path)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    cells = arrays[f"space.{name}"].copy()
    cells[-1] += 4
    found = resigned(path, {**arrays, f"space.{name}": cells}, metadata)
    assert f"{name} has cell {cells[-1]}" in str(found)


def test_a_template_that_reads_nothing_has_one_key(tmp_path: Path) -> None:
    path = tmp_path / "model"
    CRF.train(COLUMNS, "y", "U0:%x[0,word]\nU1\nB", max_iterations=1).save(path)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    keys = arrays["index.node.keys"].copy()
    assert keys[-1] == 0  # of U1
    keys[-1] = 2
    found = resigned(path, {**arrays, "index.node.keys": keys}, metadata)
    assert "numbers of strings that do not exist" in str(found)


def test_labels_twice(tmp_path: Path) -> None:
    path = tmp_path / "model"
    columns().save(path)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    header = msgspec.json.decode(metadata["model"])
    header["labels"] = ["O"] * len(header["labels"])
    fields = {**metadata, "model": msgspec.json.encode(header).decode()}
    assert isinstance(resigned(path, arrays, fields), ModelFileError)


# --- Saving -----------------------------------------------------------------------------------
