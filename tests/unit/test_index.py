"""The index of the attributes that templates give."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fstcrf.errors import DataError, ModelFileError, OptionError, ShapeError, TemplateError
from fstcrf.kernel import SparseRows
from fstcrf.text.corpus.corpus import Column, Corpus
from fstcrf.text.features import FeatureIndex, parse_template, tape_column


def corpus(*sentences: str, columns: tuple[str, ...] = ("word", "pos")) -> Corpus:
    """Sentences such as ``"the/DT cat/NN"``."""
    rows = [[tuple(token.split("/")) for token in s.split()] for s in sentences]
    return Corpus.from_sentences(rows, columns=columns)


def decoded(index: FeatureIndex, rows: SparseRows | None, *, arc: bool = False) -> list[list[str]]:
    """The attributes of each token; a value that is not 1 follows as ``=value``."""
    if rows is None:
        raise TypeError
    texts = index.attributes(rows.index.tolist(), arc=arc)
    if rows.value is not None:
        pairs = zip(texts, rows.value.tolist(), strict=True)
        texts = [t if v == 1 else f"{t}={v:g}" for t, v in pairs]
    bounds = rows.indptr.tolist()
    return [texts[a:b] for a, b in pairwise(bounds)]


def node(text: str, data: Corpus, **options: Any) -> list[list[str]]:
    index, design = FeatureIndex.build(data, parse_template(text), **options)
    assert decoded(index, index.design(data).node) == decoded(index, design.node)
    for sentence in data if not index.tapes else ():
        short = index.of_one(sentence) if len(sentence) else None
        if short is not None:
            whole = index.design(Corpus.from_sentences([sentence]))
            assert decoded(index, short.node) == decoded(index, whole.node)
    return decoded(index, design.node)


DATA = corpus("the/DT cat/NN sat/VB", "cat/NN")


def test_a_word_that_looks_like_a_pad_is_another_attribute() -> None:
    index, design = FeatureIndex.build(corpus("_B-1/X a/X"), parse_template("U:%x[-1,word]"))
    assert decoded(index, design.node) == [["U:_B-1"], ["U:_B-1"]]
    assert design.node.index.tolist() in ([0, 1], [1, 0])


def test_tapes_are_columns_of_their_own() -> None:
    templates = parse_template("U:%y[0,pos]/%x[0,pos]")
    data = DATA.with_column(tape_column("pos"), [["d", "n", "v"], ["n"]])
    assert node(str(templates), data) == [["U:d/DT"], ["U:n/NN"], ["U:v/VB"], ["U:n/NN"]]
    with pytest.raises(TemplateError, match="which are not given: name the tagger that writes"):
        FeatureIndex.build(DATA, templates)
    index, _ = FeatureIndex.build(data, templates)
    with pytest.raises(TemplateError, match="labels of tape 'pos', which are not given"):
        index.design(DATA)


@pytest.mark.parametrize("bad", ["nan", "inf", "-Infinity", "x", "1_0"])
def test_values_must_be_numbers(bad: str) -> None:
    data = corpus("a/1 b/1", f"c/1 d/{bad}", columns=("word", "n"))
    with pytest.raises(DataError, match=rf"sentence 1, token 1: column 'n' is '{bad}', expected"):
        FeatureIndex.build(data, parse_template("U:%v[0,n]"))
    located = Corpus(
        data.columns, data.offsets, source="x.txt", lines=np.array([1, 2, 4, 5], dtype=np.int64)
    )
    with pytest.raises(DataError, match=r"^x\.txt:5: column"):
        FeatureIndex.build(located, parse_template("U:%v[0,n]"))


def test_values_must_fit() -> None:
    data = corpus("a/1 b/1e39", columns=("word", "n"))
    with pytest.raises(DataError, match=r"token 1: the value 1e\+39 exceeds float32"):
        FeatureIndex.build(data, parse_template("U:%v[0,n]"))


def test_column_numbers_are_resolved_on_building() -> None:
    index, design = FeatureIndex.build(DATA, parse_template("U:%x[0,1]"))
    assert str(index.templates) == "U:%x[0,pos]\n"
    swapped = Corpus({n: DATA.columns[n] for n in ("pos", "word")}, DATA.offsets)
    assert np.array_equal(index.design(swapped).node.index, design.node.index)


def test_a_missing_column() -> None:
    index, _ = FeatureIndex.build(DATA, parse_template("\nU:%x[0,pos]", source="x.tpl"))
    data = corpus("a", columns=("word",))
    with pytest.raises(TemplateError, match=r"x\.tpl:2: .*'pos'; the corpus has 'word'"):
        index.design(data)
    with pytest.raises(TemplateError, match=r"x\.tpl:1: .*'tag'; the corpus has 'word', 'pos'"):
        FeatureIndex.build(DATA, parse_template("U:%x[0,tag]", source="x.tpl"))


def test_a_corpus_without_sentences() -> None:
    empty = Corpus.from_sentences([], columns=("word", "pos"))
    index, design = FeatureIndex.build(empty, parse_template("U:%x[-1,word]\nUb\nBOS\nB:%x[0,pos]"))
    assert index.n_node_rows == 0
    assert design.node.indptr.tolist() == [0]
    assert decoded(index, index.design(DATA).node) == [[], [], [], []]
    full, _ = FeatureIndex.build(DATA, parse_template("U:%x[-1,word]"))
    assert len(full.design(empty).node) == 0


def test_a_base_keeps_its_rows() -> None:
    templates = parse_template("U0:%x[-1,word]/%x[0,word]\nU1:%x[0,pos]\nB:%x[0,word]")
    base, old = FeatureIndex.build(DATA, templates)
    new = corpus("the/DT dog/XX sat/VB")
    index, design = FeatureIndex.build(new, templates, base=base)
    known = base.attributes(range(base.n_node_rows))
    assert index.attributes(range(base.n_node_rows)) == known
    assert set(index.attributes(range(base.n_node_rows, index.n_node_rows))) == {
        "U0:the/dog",
        "U0:dog/sat",
        "U1:XX",
    }
    assert decoded(index, design.node)[1] == ["U0:the/dog", "U1:XX"]
    assert np.array_equal(index.design(DATA).node.index, old.node.index)
    assert index.attributes(range(index.n_arc_rows), arc=True)[-1] == "B:dog"
    rare, _ = FeatureIndex.build(new, templates, base=base, min_count=2)
    assert rare.n_node_rows == base.n_node_rows


def test_a_base_of_other_options() -> None:
    base, _ = FeatureIndex.build(DATA, parse_template("U:%x[0,word]"))
    with pytest.raises(OptionError, match="same templates"):
        FeatureIndex.build(DATA, parse_template("U:%x[0,pos]"), base=base)
    with pytest.raises(OptionError, match="boundary 'pad'"):
        FeatureIndex.build(DATA, base.templates, base=base, boundary="skip")
    with pytest.raises(OptionError, match="hash_bits"):
        FeatureIndex.build(DATA, base.templates, base=base, hash_bits=8)
    hashed, design = FeatureIndex.build(DATA, base.templates, hash_bits=8)
    again, other = FeatureIndex.build(DATA, base.templates, hash_bits=8, base=hashed)
    assert again.n_node_rows == hashed.n_node_rows
    assert np.array_equal(design.node.index, other.node.index)


@pytest.mark.parametrize(
    ("text", "options", "short"),
    [
        ("U0:%x[-1,word]/%x[0,pos]\nU1:%x[1,pos]\nU2\nB", {}, True),
        ("U0:%x[0,word]\nU1:%x[-2,word]", {"boundary": "skip"}, True),
        ("U:%x[0,word]|suffix(2)", {}, True),
        ("U:%x[0,word]\nU:%x{-1..1,word}", {}, False),
        ("U:%x[0,word]\nB:%x[0,word]", {}, False),
        ("U:%x[0,word]", {"hash_bits": 8}, False),
    ],
)
def test_short_ways_of_few_strings_and_of_one_sentence(
    text: str, options: dict[str, Any], *, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = corpus("the/DT cat/NN sat/VB", "cat/NN", "the/NN the/DT")
    index, _ = FeatureIndex.build(data, parse_template(text), **options)
    new = corpus("a/NN cat/VB the/DT \ud800/XX the/DT")
    found = index.of_one(new[0])
    if options.get("hash_bits"):  # hashes do not take the lone surrogate
        assert found is None
        return
    few = index.design(new).node
    monkeypatch.setattr("fstcrf.text.features.tables._FEW", 0)
    wanted = index.design(new).node
    np.testing.assert_array_equal(few.indptr, wanted.indptr)
    np.testing.assert_array_equal(few.index, wanted.index)
    assert (found is not None) == short
    if found is not None:
        assert found.arc is None
        np.testing.assert_array_equal(found.node.indptr, wanted.indptr)
        np.testing.assert_array_equal(found.node.index, wanted.index)
        assert found.node.index.dtype == wanted.index.dtype


def test_options() -> None:
    templates = parse_template("U:%x[0,word]")
    with pytest.raises(OptionError, match="boundary is 'drop'"):
        FeatureIndex.build(DATA, templates, boundary="drop")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="min_count is 0"):
        FeatureIndex.build(DATA, templates, min_count=0)
    with pytest.raises(OptionError, match="hash_bits is 0"):
        FeatureIndex.build(DATA, templates, hash_bits=0)
    with pytest.raises(OptionError, match="no meaning with hash_bits"):
        FeatureIndex.build(DATA, templates, min_count=2, hash_bits=8)
    index, _ = FeatureIndex.build(DATA, templates)
    with pytest.raises(OptionError, match="row 3 of an index with 3 rows"):
        index.attribute(3)
    with pytest.raises(OptionError, match="only a hashed index"):
        index.collisions(DATA)


def test_rows_of_strings_that_hold_the_separator() -> None:
    rows = [[("a/b", "c")], [("a", "b/c")]]
    data = Corpus.from_sentences(rows, columns=("x", "y"))
    index, _ = FeatureIndex.build(data, parse_template("U:%x[0,x]/%x[0,y]"))
    assert index.n_node_rows == 2
    assert index.attributes([0, 1]) == ["U:a/b/c"] * 2
    assert index.row("U:a/b/c") in (0, 1)
    assert [index.row(text) for text in ("U:a/b", "U:a/b/d", "V", "", "U:a/b/c/")] == [None] * 5


def test_renumbering() -> None:
    templates = parse_template("U0:%x[-1,word]/%x[0,word]\nU1:%x[0,pos]\nB:%x[0,word]")
    index, design = FeatureIndex.build(DATA, templates)
    order = np.random.default_rng(1).permutation(index.n_node_rows).astype(np.int32)
    other = index.renumbered(order)
    assert np.array_equal(other.design(DATA).node.index, order[design.node.index])
    assert [other.attribute(int(r)) for r in order] == index.attributes(range(len(order)))
    loaded = FeatureIndex.from_arrays(other.arrays(), other.metadata())
    assert np.array_equal(loaded.design(DATA).node.index, order[design.node.index])
    warm, _ = FeatureIndex.build(corpus("new/NN"), templates, base=other)
    assert warm.attributes(range(len(order))) == other.attributes(range(len(order)))
    arcs = index.renumbered(np.array([1, 0], dtype=np.int32), arc=True)
    assert arcs.attribute(1, arc=True) == index.attribute(0, arc=True)
    with pytest.raises(ShapeError, match="permutation"):
        index.renumbered(order[:-1])
    with pytest.raises(OptionError, match="hashed"):
        FeatureIndex.build(DATA, templates, hash_bits=4)[0].renumbered(order)


def test_hashed_rows() -> None:
    templates = parse_template("U0:%x[-1,word]/%x[0,word]\nU1:%x[0,pos]\nB:%x[0,word]")
    index, design = FeatureIndex.build(DATA, templates, hash_bits=12)
    assert (index.n_node_rows, index.n_arc_rows, index.hash_bits) == (4096, 4096, 12)
    assert index.attribute(5) == "#5"
    keyed, by_name = FeatureIndex.build(DATA, templates)
    texts = [keyed.attribute(int(row)) for row in by_name.node.index]
    assert [index.row(text) for text in texts] == design.node.index.tolist()
    report = index.collisions(DATA)
    assert (report.attributes, report.rows) == (keyed.n_node_rows, 4096)
    assert "attributes in" in str(report)
    loaded = FeatureIndex.from_arrays(index.arrays(), json.loads(json.dumps(index.metadata())))
    assert np.array_equal(loaded.design(DATA).node.index, design.node.index)
    assert FeatureIndex.build(DATA, templates, hash_bits=1)[0].collisions(DATA).shared > 0


WIDE = "U:" + "/".join(f"%x[{i},word]" for i in range(-5, 6))


def wide_corpus(seed: int, words: int) -> Corpus:
    rng = np.random.default_rng(seed)
    ids = rng.integers(words, size=600).astype(np.int32)
    column = Column(ids, tuple(f"w{i}" for i in range(words)))
    return Corpus({"word": column}, np.arange(0, 601, 20, dtype=np.int64))


def test_keys_beyond_63_bits_are_exact() -> None:
    data = wide_corpus(0, 200)
    index, design = FeatureIndex.build(data, parse_template(WIDE))
    assert isinstance(index.attribute(0), str)
    words = [f"_B-{i}" for i in range(5, 0, -1)]
    words = [*words, *data.column("word").strings(0, 6)]
    assert decoded(index, design.node)[0] == ["U:" + "/".join(words)]
    assert index.row("U:" + "/".join(words)) == design.node.index[0]
    assert index.n_node_rows == 600
    loaded = FeatureIndex.from_arrays(index.arrays(), index.metadata())
    assert np.array_equal(loaded.design(data).node.index, design.node.index)
    assert len(loaded.design(wide_corpus(1, 200)).node.index) == 0
    warm, both = FeatureIndex.build(wide_corpus(1, 300), index.templates, base=index)
    assert warm.attributes(range(600)) == index.attributes(range(600))
    assert len(set(both.node.index.tolist())) == 600
    assert int(both.node.index.min()) == 600


DAMAGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "keys that do not increase": lambda a: {"node.keys": a["node.keys"][::-1].copy()},
    "keys of another type": lambda a: {"node.keys": a["node.keys"].astype(np.int64)},
    "keys beyond their width": lambda a: {"node.keys": a["node.keys"] | np.uint64(1 << 62)},
    "strings that do not exist": lambda a: {"node.keys": a["node.keys"] + np.uint64(1)},
    "fewer keys than rows": lambda a: {"node.keys": a["node.keys"][:-1]},
    "a repeated row": lambda a: {"node.rows": np.zeros_like(a["node.rows"])},
    "a row out of range": lambda a: {"node.rows": a["node.rows"] + 1},
    "negative rows": lambda a: {"node.rows": a["node.rows"] - 1},
    "decreasing starts": lambda a: {"node.starts": a["node.starts"][::-1].copy()},
    "one family fewer": lambda a: {"node.starts": np.delete(a["node.starts"], 1)},
    "no starts": lambda a: {"node.starts": a["node.starts"][:0]},
    "vocabularies missing": lambda a: {"strings.starts": a["strings.starts"][[0, -1]]},
    "starts beyond the strings": lambda a: {"strings.starts": a["strings.starts"] + 1},
    "a repeated string": lambda a: {"strings.blob": np.full_like(a["strings.blob"], 97)},
    "a prefix that nothing needs": lambda a: {
        "node.prefix.keys": a["node.keys"][:1],
        "node.prefix.rows": np.zeros(1, dtype=np.int32),
        "node.prefix.starts": np.array([0, 1]),
    },
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_arrays(damage: str) -> None:
    index, _ = FeatureIndex.build(DATA, parse_template("U0:%x[0,word]\nU1:%x[0,pos]"))
    arrays = index.arrays()
    with pytest.raises(ModelFileError):
        FeatureIndex.from_arrays(arrays | DAMAGES[damage](arrays), index.metadata())


def test_missing_arrays() -> None:
    index, _ = FeatureIndex.build(DATA, parse_template("U0:%x[0,word]"))
    for missing in index.arrays():
        arrays = {name: a for name, a in index.arrays().items() if name != missing}
        with pytest.raises(ModelFileError, match=f"no array '{missing}'"):
            FeatureIndex.from_arrays(arrays, index.metadata())


def test_damaged_prefixes() -> None:
    index, _ = FeatureIndex.build(wide_corpus(0, 200), parse_template(WIDE))
    arrays = index.arrays()
    prefixes = arrays["node.prefix.rows"]
    assert len(prefixes)
    changes: list[dict[str, Any]] = [
        {"node.prefix.rows": np.zeros_like(prefixes)},
        {
            "node.prefix.keys": arrays["node.prefix.keys"][:0],
            "node.prefix.rows": prefixes[:0],
            "node.prefix.starts": np.zeros(1, dtype=np.int64),
        },
        {
            "node.prefix.keys": arrays["node.prefix.keys"][:1],
            "node.prefix.rows": np.zeros(1, dtype=np.int32),
            "node.prefix.starts": np.array([0, 1]),
        },
    ]
    for change in changes:
        with pytest.raises(ModelFileError):
            FeatureIndex.from_arrays(arrays | change, index.metadata())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "literal"}, "the index is"),
        ({"version": 2}, "the index is"),
        ({"templates": None}, "names no templates"),
        ({"templates": "?"}, "starts with U or B"),
        ({"templates": "U:%x[0,0]"}, "by number"),
        ({"templates": "U:%x[0,word]"}, "families"),
        ({"lists": 3}, "names no templates"),
        ({"lists": ["a", "b", "c", "d"]}, "damaged"),
        ({"boundary": "drop"}, "boundary 'drop'"),
        ({"hash_bits": 77}, "hash_bits is 77"),
        ({"hash_bits": "8"}, "hash_bits is '8'"),
    ],
)
def test_damaged_metadata(change: dict[str, Any], message: str) -> None:
    index, _ = FeatureIndex.build(DATA, parse_template("U0:%x[0,word]\nU1:%x[0,pos]"))
    with pytest.raises(ModelFileError, match=message):
        FeatureIndex.from_arrays(index.arrays(), index.metadata() | change)


def test_places_of_the_sentence() -> None:
    templates = "U0:%x[@1,word]\nU1:%x[@-2,pos]/%x[0,word]\nB0:%x[@-1,word]"
    assert node(templates, DATA) == [
        ["U0:the", "U1:NN/the"],
        ["U0:the", "U1:NN/cat"],
        ["U0:the", "U1:NN/sat"],
        ["U0:cat", "U1:_B-1/cat"],
    ]
    index, design = FeatureIndex.build(DATA, parse_template(templates))
    assert decoded(index, design.arc, arc=True) == [[], ["B0:sat"], ["B0:sat"], []]
    assert node("U0:%x[@2,word]", DATA, boundary="skip") == [*[["U0:cat"]] * 3, []]
    again = FeatureIndex.from_arrays(index.arrays(), json.loads(json.dumps(index.metadata())))
    assert decoded(again, again.design(DATA).node) == decoded(index, design.node)


def test_the_boundary_of_wapiti_comes_with_its_models() -> None:
    with pytest.raises(OptionError, match="boundary is 'wapiti'"):
        FeatureIndex.build(DATA, parse_template("U"), boundary="wapiti")
