"""Models of CRF++: answers by hand, what is damaged, what is foreign."""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.errors import DataError, ModelFileError, OptionError
from tests.support.pattern_models import crfpp_binary, crfpp_text, double_array

Writer = Callable[..., bytes]
WRITERS = [crfpp_text, crfpp_binary]

LABELS = [b"A", b"B"]
TEMPLATES = [b"U0:%x[0,0]", b"U1:%x[-1,0]/%x[0,0]", b"B"]
# exp of the weights: a is twice as likely A, A after A three times, a at the start is B five times.
WEIGHTS = {
    b"U0:a": [log(2), 0],
    b"U1:_B-1/a": [0, log(5)],
    b"B": [log(3), 0, 0, 0],
}


def model(write: Writer, **changes: Any) -> bytes:
    given = {"labels": LABELS, "templates": TEMPLATES, "weights": WEIGHTS, "columns": 1} | changes
    return write(given.pop("labels"), given.pop("templates"), given.pop("weights"), **given)


@pytest.mark.parametrize("write", WRITERS)
def test_answers_by_hand(write: Writer) -> None:
    tagger = fstcrf.load_crfpp(model(write))
    # AA 2·2·3, AB 2, BA 5·2, BB 5
    assert tagger.labels == ("A", "B")
    lattice = tagger.lattice([("a",), ("a",)])
    assert lattice.log_partition() == pytest.approx(log(29), abs=1e-6)
    assert lattice.marginals() == pytest.approx(np.array([[14, 15], [22, 7]]) / 29, abs=1e-6)
    assert tagger.tag([("a",), ("a",)]) == ["A", "A"]
    assert tagger.tag([("a",)]) == ["B"]
    assert tagger.tag([]) == []


@pytest.mark.parametrize("write", WRITERS)
def test_the_cost_factor_multiplies(write: Writer) -> None:
    tagger = fstcrf.load_crfpp(model(write, factor=2))
    assert tagger.lattice([("a",)]).log_partition() == pytest.approx(log(4 + 25), abs=1e-6)


def test_both_ways_to_write_a_model_say_the_same() -> None:
    text, binary = (fstcrf.load_crfpp(model(write)) for write in WRITERS)
    assert str(text.index.templates) == str(binary.index.templates)  # type: ignore[union-attr]
    assert text.theta == pytest.approx(binary.theta, abs=1e-6)
    assert np.array_equal(text.space.node_cells, binary.space.node_cells)


def test_every_way_to_cut_a_text_counts() -> None:
    """CRF++ sees a/b/c, whether the words are a and b/c or a/b and c."""
    weights = {b"U:a/b/c": [1.0, 0.0], b"U:x": [0.0, 2.0]}
    data = crfpp_text(LABELS, [b"U:%x[0,0]/%x[1,0]"], weights, columns=1)
    tagger = fstcrf.load_crfpp(data)
    for words in (["a", "b/c"], ["a/b", "c"]):
        assert tagger.potentials([{"0": words}]).node[0].values[0].tolist() == [1, 0]
    assert not tagger.potentials([{"0": ["a", "c"]}]).node[0].values.any()


def test_one_text_of_several_templates_counts_once_for_each() -> None:
    """A bag of words: the same word to the left and to the right is twice the weight."""
    templates = [b"U:%x[-1,0]", b"U:%x[1,0]", b"U:%x[0,1]", b"U:%x[1,0]"]
    weights = {b"U:a": [1.0, 0.0], b"U:_B+1": [0.0, 8.0]}
    tagger = fstcrf.load_crfpp(crfpp_text(LABELS, templates, weights))
    values = tagger.potentials([[("a", "a"), ("b", "a"), ("a", "_")]]).node[0].values
    assert values.tolist() == [[1, 0], [4, 0], [0, 16]]
    assert str(tagger.index.templates).split() == [  # type: ignore[union-attr]
        'U:%x[-1,"0"]',
        'U#2:%x[1,"0"]',
        'U:%x[0,"1"]',
        'U#3:%x[1,"0"]',
    ]


def test_transitions_that_read_and_those_that_do_not() -> None:
    templates = [b"U", b"B", b"B", b"B1:%x[0,0]%x[-1,0]", b"Bx"]
    weights = {
        b"U": [1.0, 2.0],
        b"B": [1.0, 2.0, 3.0, 4.0],
        b"B1:ba": [10.0, 0.0, 0.0, 20.0],
        b"Bx": [100.0, 0.0, 0.0, 0.0],
    }
    tagger = fstcrf.load_crfpp(crfpp_text(LABELS, templates, weights))
    lattice = tagger.lattice([("a",), ("b",)])
    scores = [lattice.score([*labels]) for labels in ("AA", "AB", "BA", "BB")]
    assert scores == pytest.approx([2 + 2 + 10 + 100, 3 + 4, 3 + 6, 4 + 8 + 20])


def test_blanks_are_part_of_a_template() -> None:
    data = crfpp_text(LABELS, [b"U 1:%x[0,0] ", b"U\r"], {b"U 1:a ": [1.0, 0], b"U\r": [0, 2.0]})
    tagger = fstcrf.load_crfpp(data)
    assert tagger.potentials([{"0": ["a"]}]).node[0].values.tolist() == [[1, 2]]


def test_windows_line_ends() -> None:
    tagger = fstcrf.load_crfpp(model(crfpp_text).replace(b"\n", b"\r\n"))
    assert tagger.tag([("a",), ("a",)]) == ["A", "A"]


def test_a_model_without_label_pairs() -> None:
    tagger = fstcrf.load_crfpp(crfpp_text(LABELS, [b"U:%x[0,0]"], {b"U:a": [0.0, 1.0]}))
    assert tagger.topology.n_arc_slots == 0
    assert tagger.tag([("a",), ("b",)]) == ["B", "A"]


def test_names_of_columns() -> None:
    data = model(crfpp_text, columns=2)
    tagger = fstcrf.load_crfpp(data)
    assert tagger.columns == ("0", "1", "label")
    assert tagger.tag([("a", "x", "B"), ("a", "y", "B")]) == ["A", "A"]
    assert fstcrf.load_crfpp(data, columns=("w", "p", "t"), tape="t").columns == ("w", "p", "t")
    with pytest.raises(OptionError, match="expected names for 2 columns"):
        fstcrf.load_crfpp(data, columns=("w",))
    with pytest.raises(OptionError, match="expected distinct names"):
        fstcrf.load_crfpp(data, columns=("w", "w"))
    with pytest.raises(DataError, match="'0'"):
        tagger.tag({"word": ["a"]})


def changed(old: bytes, new: bytes) -> bytes:
    data = model(crfpp_text)
    assert old in data
    return data.replace(old, new, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no model of CRF"),
        (b"MZ", "no model of CRF"),
        (changed(b"version: 100", b"version: 200"), ":1: a model of version 200"),
        (changed(b"version: 100", b"version: x"), "version is 'x', expected a number"),
        (changed(b"maxid: 8", b"maxid: 9"), "8 weights, maxid is 9"),
        (changed(b"xsize: 1", b"xsize: 1001"), "1001 columns"),
        (changed(b"xsize: 1", b"xsize:1"), ":4: 'xsize:1', expected 'name: value'"),
        (changed(b"cost-factor: 1", b"cost-factor: nan"), "cost-factor is 'nan'"),
        (changed(b"A\nB\n", b"A\nA\n"), "labels must be distinct"),
        (changed(b"U0:%x[0,0]\n", b"X0:%x[0,0]\n"), "template 'X0:%x.0,0.' begins with neither"),
        (changed(b"U0:%x[0,0]\n", b"U0:%x[0,1]\n"), "%x.0,1. is out of range"),
        (changed(b"U0:%x[0,0]\n", b"U0:%x[9,0]\n"), "%x.9,0. is out of range"),
        (changed(b"U0:%x[0,0]\n", b"U0:%y[0,0]\n"), "after every %"),
        (changed(b"U0:%x[0,0]\n", b"U0:%x[0,0\n"), "after every %"),
        (changed(b"4 U0:a", b"7 U0:a"), "attribute 'U0:a' has weights 7 to 8 of 8"),
        (changed(b"4 U0:a", b"U0:a"), ":14: 'U0:a', expected a number and a text"),
        (changed(b"4 U0:a", b"4 B"), "attribute 'B' is there twice"),
        (changed(b"4 U0:a", b"4 X"), "attribute 'X' begins with neither"),
        (changed(b"0.6931", b"0x6931"), ":21: '0x6931"),
        (changed(b"0.6931", b"9e999"), "a weight is not finite|expected a weight"),
        (model(crfpp_text)[:-1], ":24: cut short: the last line has no end"),
        (model(crfpp_text)[:-3], "cut short"),
        (model(crfpp_text)[:40], "the file ends in its header"),
        (model(crfpp_text)[:75], "the file ends in its templates"),
    ],
)
def test_damaged_text(data: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        fstcrf.load_crfpp(data)


def test_texts_from_other_editors() -> None:
    data = model(crfpp_text)
    wanted = fstcrf.load_crfpp(data)
    for text in (b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n")):
        tagger = fstcrf.load_crfpp(text)
        assert tagger.labels == wanted.labels
        assert tagger.theta.tolist() == wanted.theta.tolist()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("the", 3), "token 1: column '1' is 3, expected a string"),
        (("the", None), "token 1: column '1' is None, expected a string"),
        ((), "token 1: 0 columns, expected 2"),
    ],
)
def test_rows_of_something_else(row: Any, message: str) -> None:
    tagger = fstcrf.load_crfpp(model(crfpp_text, columns=2).replace(b"[-1,0]", b"[-1,1]"))
    with pytest.raises(DataError, match=message):
        tagger.tag([("a", "x"), row])
    with pytest.raises(DataError, match=f"sentence 1, {message}" if row else message):
        tagger.tag_all([[("a", "x")], [("a", "x"), row]])


@pytest.mark.parametrize("sentence", [[()], [[]], [(), ()]])
def test_rows_without_columns(sentence: Any) -> None:
    """A label for each of them could not be said."""
    with pytest.raises(DataError, match="token 0: a row without columns"):
        fstcrf.load_crfpp(model(crfpp_text)).tag(sentence)


def word(place: int, value: int) -> bytes:
    data = bytearray(model(crfpp_binary))
    struct.pack_into("<I", data, place, value)
    return bytes(data)


BINARY = model(crfpp_binary)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (BINARY[:30], "the file ends before its labels|the labels go to"),
        (BINARY[:-4], "weights of 4"),
        (BINARY + b"\0\0\0\0", "weights of 4"),
        (word(16, 1 << 31), "weights of 4"),
        (word(20, 5000), "5000 columns"),
        (word(24, 12), "a trie of 12"),
        (word(28, 0xFFFFFFFF), "the labels go to byte"),
        (word(28, 3), "the labels go to byte 35"),
        (word(36, 0xFFFFFFF0), "the templates go to byte"),
        (BINARY[:-4] + b"\0\0\x80\x7f", "weight 7 is inf"),
        (BINARY[:8] + struct.pack("<d", float("nan")) + BINARY[16:], "the cost factor is nan"),
    ],
)
def test_damaged_binary(data: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        fstcrf.load_crfpp(data)


def test_tries_that_are_none() -> None:
    units = np.frombuffer(double_array({b"U0:a": 0}), dtype="<i4").reshape(-1, 2).copy()
    place = BINARY.index(units[:1].tobytes(), 60)
    end = len(BINARY) - 32
    loop = units.copy()
    loop[:, 1] = loop[0, 0]
    for trie, message in ((units[:0], "the trie is empty"), (loop, "the trie of attributes")):
        data = bytearray(BINARY[:place] + trie.tobytes() + BINARY[end:])
        struct.pack_into("<I", data, 24, trie.nbytes)
        with pytest.raises(ModelFileError, match=message):
            fstcrf.load_crfpp(bytes(data))


def test_texts_that_can_be_cut_in_too_many_ways() -> None:
    templates = [b"U" + b"%x[0,0]" * 12]
    data = crfpp_text(LABELS, templates, {b"U" + b"a" * 60: [1.0, 0.0]})
    with pytest.raises(ModelFileError, match="can be cut in too many ways"):
        fstcrf.load_crfpp(data)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_bytes(changed(b"maxid: 8", b"maxid: 9"))
    with pytest.raises(ModelFileError, match=f"^{path}: 8 weights"):
        fstcrf.load_crfpp(path)
