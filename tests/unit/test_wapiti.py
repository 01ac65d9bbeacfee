"""Models of Wapiti: answers by hand, patterns, what is damaged, what no CRF equals."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.errors import DataError, ModelFileError
from tests.support.pattern_models import wapiti

LABELS = [b"A", b"B"]
PATTERNS = [b"u0:%x[0,0]", b"*1:%X[-1,0]", b"b"]
WEIGHTS = {
    b"u0:a": [log(2), 0],
    b"*1:_x-1": [0, log(5), 9, 9, 9, 9],  # no pair of labels ends at a first token
    b"*1:a": [0, 0, log(7), 0, 0, 0],
    b"b": [log(3), 0, 0, 0],
}


def node(pattern: bytes, text: bytes, words: list[str]) -> list[float]:
    """The potential of A at each token, where one text weighs 1."""
    tagger = fstcrf.load_wapiti(wapiti(LABELS, [pattern], {text: [1.0, 0.0]}))
    if not any("%" in str(t) for t in tagger.index.templates):  # type: ignore[union-attr]
        words = words[:0]
    found: list[float] = tagger.potentials([{"0": words}]).node[0].values[:, 0].tolist()
    return found


def test_answers_by_hand(tmp_path: Path) -> None:
    tagger = fstcrf.load_wapiti(wapiti(LABELS, PATTERNS, WEIGHTS), columns=("word",))
    # AA 2·2·21, AB 2, BA 5·2, BB 5
    lattice = tagger.lattice([("a",), ("a",)])
    assert lattice.log_partition() == pytest.approx(log(101))
    assert lattice.marginals() == pytest.approx(np.array([[86, 15], [94, 7]]) / 101)
    assert tagger.tag([("a",), ("a",)]) == ["A", "A"]
    assert tagger.tag([("a",)]) == ["B"]
    tagger.save(tmp_path / "m.fstcrf")
    again = fstcrf.load(tmp_path / "m.fstcrf")
    assert isinstance(again, fstcrf.CRF)
    assert np.array_equal(again.lattice([("a",), ("a",)]).marginals(), lattice.marginals())
    assert again.index.attribute(0) == tagger.index.attribute(0)


def test_case_is_removed_from_letters_of_ascii_only() -> None:
    assert node(b"u:%X[0,0]", "u:Éa".encode(), ["ÉA", "éA", "Éa"]) == [1, 0, 1]


def test_texts_outside_a_sentence() -> None:
    words = ["a", "b"]
    assert node(b"u:%x[-3,0]", b"u:_x-3", words) == [1, 0]
    assert node(b"u:%x[-7,0]", b"u:_x-#", words) == [1, 1]
    assert node(b"u:%x[5,0]", b"u:_x+#", words) == [0, 1]
    assert node(b"u:%x[5,0]", b"u:_x+4", words) == [1, 0]
    # Commands apply to them.
    assert node(b'u:%t[-1,0,"^_"]', b"u:true", words) == [1, 0]
    assert node(b'u:%m[-1,0,"x.*$"]', b"u:x-1", [*words, "x-1", "z"]) == [1, 0, 0, 1]
    assert node(b'u:%m[-1,0,".?.?"]', b"u:_x", words) == [1, 0]


def test_places_of_the_sentence() -> None:
    words = ["a", "b", "c"]
    assert node(b"u:%x[@1,0]", b"u:a", words) == [1, 1, 1]
    assert node(b"u:%x[@-1,0]/%x[0,0]", b"u:c/b", words) == [0, 1, 0]
    assert node(b"u:%x[@4,0]", b"u:_x+1", words) == [1, 1, 1]
    assert node(b"u:%x[@-5,0]", b"u:_x-2", words) == [1, 1, 1]


def test_tests_and_matches() -> None:
    words = ["Ab1", "9z", "É"]
    assert node(b'u:%t[0,0,"^\\u"]', b"u:true", words) == [1, 0, 0]
    assert node(b'u:%t[0,0,"\\A"]%x[0,0]', b"u:true9z", words) == [0, 1, 0]
    assert node(b'u:%m[0,0,"\\d\\a*$"]', b"u:9z", words) == [0, 1, 0]
    assert node(b'u:%m[0,0,"\\d"]', b"u:", words) == [0, 0, 1]
    assert node(b'u:%M[0,0,"^.?.?"]', b"u:ab", words) == [1, 0, 0]
    # A byte, not a letter: half of É.
    assert node(b'u:%m[0,0,"^.?"]/', "u:É/".encode()[:3] + b"/", words) == [0, 0, 1]
    assert node(b'u:%t[0,0,"^\\u"]%T[0,0,"\\d"]', b"u:truetrue", words) == [1, 0, 0]
    assert node(b'u:%t[0,0,"\\""]', b"u:true", ['a"', "b"]) == [1, 0]


def test_what_wapiti_takes_for_a_match() -> None:
    """It counts what it tried in vain behind a question mark: abz for the a of a?ab."""
    assert node(b'u:%m[0,0,"a?ab"]', b"u:abz", ["abzz", "aab", "ab"]) == [1, 0, 0]
    assert node(b'u:%m[0,0,"a?ab"]', b"u:ab", ["abzz", "aab", "ab"]) == [0, 0, 1]
    with pytest.raises(ModelFileError, match=r"pattern 'u:%m.*may match too much"):
        fstcrf.load_wapiti(wapiti(LABELS, [b'u:%m[0,0,"a?ab"]/'], {b"u:ab/": [1.0, 0.0]}))


def test_the_same_pattern_twice_counts_twice() -> None:
    data = wapiti(LABELS, [b"u:%x[0,0]", b"u:%x[0,0]", b"u:%x[1,0]"], {b"u:a": [1.0, 0.0]})
    tagger = fstcrf.load_wapiti(data)
    assert tagger.potentials([{"0": ["a", "a"]}]).node[0].values[:, 0].tolist() == [3, 2]


def test_models_without_patterns_read_attributes() -> None:
    weights = {b"ux=1": [1.0, 0.0], b"uy": [0.0, 3.0]}
    tagger = fstcrf.load_wapiti(wapiti(LABELS, [], weights))
    assert tagger.tag([["ux=1"], ["ux=1", "uy"], ["x=1"]]) == ["A", "B", "A"]
    tagger = fstcrf.load_wapiti(wapiti(LABELS, [], weights, kind=0, single=True))
    assert tagger.tag([["x=1"], ["x=1", "y"]]) == ["A", "B"]
    with pytest.raises(ModelFileError, match="no patterns, but weights of attributes of label"):
        fstcrf.load_wapiti(wapiti(LABELS, [], weights | {b"b": [1.0, 0, 0, 0]}))


def test_maxent_token_by_token() -> None:
    data = wapiti(LABELS, [b"u:%x[0,0]"], {b"uu:a": [0.0, 1.0]}, kind=0, single=True)
    assert fstcrf.load_wapiti(data).tag([("a",), ("b",)]) == ["B", "A"]
    for pattern in (b"u:%x[1,0]", b"b:%x[0,0]"):
        with pytest.raises(ModelFileError, match="takes each for itself"):
            fstcrf.load_wapiti(wapiti(LABELS, [pattern], {b"uu:a": [0.0, 1.0]}, single=True))


def test_markov_models_of_maximal_entropy() -> None:
    with pytest.raises(ModelFileError, match="a MEMM, which is normalised at every token"):
        fstcrf.load_wapiti(wapiti(LABELS, PATTERNS, WEIGHTS, kind=1))
    free = {text: weights for text, weights in WEIGHTS.items() if text.startswith(b"u")}
    tagger = fstcrf.load_wapiti(wapiti(LABELS, PATTERNS, free, kind=1))
    assert tagger.lattice([("a",)]).marginals()[0].tolist() == pytest.approx([2 / 3, 1 / 3])


def test_old_headers() -> None:
    data = wapiti(LABELS, PATTERNS, WEIGHTS).replace(b"#mdl#2#", b"#mdl#").replace(b"/0\n", b"\n")
    assert fstcrf.load_wapiti(data).tag([("a",), ("a",)]) == ["A", "A"]


def changed(old: bytes, new: bytes, **options: Any) -> bytes:
    data = wapiti(LABELS, PATTERNS, WEIGHTS, **options)
    assert old in data
    return data.replace(old, new, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: 'the end', expected a line #mdl#"),
        (changed(b"#mdl#2", b"#mdl#7"), "a model of kind 7"),
        (changed(b"#rdr#3", b"#rdr#4"), "expected pattern 3 of 4 as"),
        (changed(b"#rdr#", b"#rdx#"), "expected a line #rdr#"),
        (changed(b"#qrk#2", b"#qrk#999999999999"), "expected label 2 of 999999999999"),
        (changed(b"10:u0:", b"11:u0:"), "expected pattern 0 of 3"),
        (changed(b"1:A,", b"0:,"), "expected label 0 of 2"),
        (changed(b"1:A,", b"1:B,"), "labels must be distinct"),
        (changed(b"1:A,", b"1:\xff,"), r"label '.xff' is not utf-8"),
        (changed(b"14=", b"999="), "weight 999, the observations have 18"),
        (changed(b"4:u0:a,", b"4:x0:a,"), "observation 'x0:a' must begin with"),
        (changed(b"4:u0:a,", b"1:b,"), "an observation is there twice"),
        (changed(b"0=0x", b"0:0x"), "expected a weight as 'number=value'"),
        (changed(b"0=0x", b"9=0x"), "do not rise"),
        (changed(b"0=0x1", b"0=nan#0x1"), "expected a weight"),
        (changed(b"0=0x", b"0=infinity\n1=0x"), "8 weights|9 weights"),
        (changed(b"3=0x1.9", b"99=0x1.9"), "do not rise"),
        (
            wapiti(LABELS, PATTERNS, WEIGHTS) + b"99=0x1p0\n",
            "9 weights, but the #mdl# line announces",
        ),
        (wapiti(LABELS, PATTERNS, WEIGHTS)[:-1], "cut short: its last line has no end"),
        (wapiti(LABELS, PATTERNS, WEIGHTS)[:-3], "cut short: its last line has no end"),
        (changed(b"10:u0:%x[0,0]", b"10:v0:%x[0,0]"), "pattern 'v0:.*must begin with u"),
        (changed(b"10:u0:%x[0,0]", b"10:u0:%y[0,0]"), "no command: '%y.0,0.'"),
        (changed(b"10:u0:%x[0,0]", b"11:u0:%x[01,0]"), "no command"),
        (changed(b"10:u0:%x[0,0]", b"10:u0:%t[0,0]"), "t takes an expression"),
        (changed(b"10:u0:%x[0,0]", b'14:u0:%x[0,0,"a"]'), "x takes no expression"),
        (changed(b"10:u0:%x[0,0]", b'14:u0:%t[0,0,"*"]'), "must be attached to a character"),
        (changed(b"10:u0:%x[0,0]", b"13:u0:%x[0,1000]"), "column 1000, expected one below 1000"),
        (changed(b"10:u0:%x[0,0]", b"13:u0:%x[2000,0]"), "offsets go from -1000 to 1000"),
    ],
)
def test_damaged(data: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        fstcrf.load_wapiti(data)


def test_texts_from_other_editors() -> None:
    data = wapiti(LABELS, PATTERNS, WEIGHTS)
    wanted = fstcrf.load_wapiti(data)
    for text in (b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n")):
        tagger = fstcrf.load_wapiti(text)
        assert tagger.labels == wanted.labels
        assert tagger.theta.tolist() == wanted.theta.tolist()


@pytest.mark.parametrize("cell", [3, None, b"a"])
@pytest.mark.parametrize("give", [lambda x: [(x,)], lambda x: {"0": [x]}])
def test_columns_of_something_else(cell: Any, give: Any) -> None:
    tagger = fstcrf.load_wapiti(wapiti(LABELS, PATTERNS, WEIGHTS))
    with pytest.raises(DataError, match=f"token 0: column '0' is {cell!r}, expected a string"):
        tagger.tag(give(cell))


def test_expressions_look_at_bytes_of_utf8() -> None:
    data = wapiti(LABELS, [b'u:%t[0,0,"."]'], {b"u:true": [1.0, 0.0]})
    assert fstcrf.load_wapiti(data).tag([("a",)]) == ["A"]
    with pytest.raises(ModelFileError, match="looks at bytes, and those here are latin-1"):
        fstcrf.load_wapiti(data, encoding="latin-1")
