"""Machines: what they refuse, their text, their drawings, and bytes that are none."""

from __future__ import annotations

import struct
from pathlib import Path
from shutil import which
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given

from fstcrf.errors import (
    DataError,
    LabelError,
    LabelWarning,
    MissingDependencyError,
    NumericError,
    OptionError,
    ShapeError,
    TooLargeError,
)
from fstcrf.ext.pictures import machines as drawn
from fstcrf.lattices.machines import sausage_machine
from fstcrf.machines import openfst
from fstcrf.machines.algebra import trimmed
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import FstType
from tests.support.fsts import bytes_of_ids, machines

NEVER = float("-inf")
NAMES = ("a", "b")


def ints(*numbers: int) -> Any:
    return np.asarray(numbers, dtype=np.int32)


def machine(**changes: Any) -> Machine:
    """0 -a:b/0.5-> 1 -eps:a-> 2, ends in 1 and 2."""
    fields: dict[str, Any] = {
        "source": ints(0, 1),
        "input": ints(0, -1),
        "output": ints(1, 0),
        "target": ints(1, 2),
        "score": np.asarray([0.5, 0.0]),
        "final": np.asarray([NEVER, 0.25, 0.0]),
        "input_symbols": NAMES,
        "output_symbols": NAMES,
    }
    return Machine(**{**fields, **changes})


def same(one: Machine, other: Machine) -> None:
    for name in ("source", "target", "input", "output", "score", "final"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert one.input_symbols == other.input_symbols
    assert one.output_symbols == other.output_symbols


# --- Machines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": ints(1)}, r"target is int32 \[1\], expected int32 \[2\]"),
        ({"source": np.asarray([0, 1])}, r"source is int64 \[2\], expected int32"),
        ({"score": np.zeros(2, dtype=np.float32)}, "score is float32"),
        ({"final": np.zeros((3, 1))}, "final is float64"),
        ({"source": ints(0, 3)}, r"source holds numbers outside \[0, 3\)"),
        ({"target": ints(1, -1)}, "target holds numbers outside"),
        ({"input": ints(1, 2)}, r"input holds numbers outside \[-1, 2\)"),
        ({"output": ints(-2, 0)}, "output holds numbers"),
    ],
)
def test_arrays_must_fit(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        machine(**changes)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers(bad: float) -> None:
    with pytest.raises(NumericError, match=r"score has NaN or \+inf at 1"):
        machine(score=np.asarray([0.0, bad]))
    with pytest.raises(NumericError, match=r"final has NaN or \+inf at 2"):
        machine(final=np.asarray([0.0, 0.0, bad]))


def test_what_a_machine_says_of_itself() -> None:
    one = machine()
    assert repr(one) == "<Machine: the last tape → output; 3 states, 2 arcs, log>"
    assert not one.is_acceptor
    assert machine(output=one.input).is_acceptor


def test_symbols() -> None:
    assert openfst.symbols(["O", "B-NP"]) == ("<eps>", "O", "B-NP")
    for labels, words in (
        (["O", "O"], "'O' occurs twice"),
        (["<eps>"], "label 0 is <eps>"),
        (["O", ""], "label 1 is empty"),
    ):
        with pytest.raises(LabelError, match=words):
            openfst.symbols(labels)


# --- Bytes -------------------------------------------------------------------------------------


def test_every_end_that_comes_too_early() -> None:
    kinds: tuple[FstType, ...] = ("vector", "const")
    for kind in kinds:
        whole = openfst.to_bytes(machine(), fst_type=kind)
        for size in range(len(whole)):
            with pytest.raises(DataError, match=r"OpenFst|not in the symbol table"):
                openfst.from_bytes(whole[:size])


def patched(place: int, form: str, value: object) -> bytes:
    """Bytes of a machine without symbols, with another number behind the types."""
    columns = ints(0, 1), ints(1, 2), ints(1, 0), ints(2, 1), np.asarray([0.5, 0.0])
    whole = bytearray(bytes_of_ids(0, *columns, np.asarray([NEVER, 0.25, 0.0])))
    struct.pack_into("<" + form, whole, place, value)
    return bytes(whole)


HEAD = 4 + 4 + 6 + 4 + 5  # magic, "vector", "log64"
BODY = HEAD + 4 + 4 + 4 * 8  # version, flags, properties, start, states, arcs


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "end within the header"),
        (b"PK\x03\x04 and so on", "not an OpenFst machine"),
        (patched(0, "i", 7), "not an OpenFst machine"),
        (patched(4, "i", -1), "the type of machine has -1 bytes"),
        (patched(4, "i", 1000), "the type of machine has 1000 bytes"),
        (patched(8, "6s", b"edits!"), "type 'edits!', expected vector or const"),
        (patched(8, "6s", b"\xff" * 6), "not UTF-8"),
        (patched(18, "5s", b"lex64"), "type 'lex64', expected one of standard, log, log64"),
        (patched(HEAD, "i", 9), "version 9"),
        (patched(HEAD + 4, "i", 1), "the table is missing"),
        (patched(HEAD + 16, "q", 3), "start is state 3 of 3"),
        (patched(HEAD + 24, "q", 5), "end within state 3 of 5"),
        (patched(BODY, "d", np.nan), "final state 0 has the weight nan"),
        (patched(BODY, "d", -np.inf), "final state 0 has the weight -inf"),
        (patched(BODY + 8, "q", 2**40), "end within state 0"),
        (patched(BODY + 8, "q", -1), "end within state 0"),
        (patched(BODY + 16, "i", -1), "a label is negative"),
        (patched(BODY + 32, "i", 3), "leads to no state, expected 0 to 2"),
    ],
)
def test_bytes_that_are_no_machine(data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        openfst.from_bytes(data)


def test_a_const_machine_whose_arcs_overlap() -> None:
    whole = openfst.to_bytes(machine(), fst_type="const")
    states = struct.pack("<dII", np.inf, 0, 1)  # the end, the first arc and the arcs of state 0
    assert whole.count(states) == 1
    with pytest.raises(DataError, match="not stored state after state"):
        openfst.from_bytes(whole.replace(states, struct.pack("<dII", np.inf, 1, 1)))
    sizes = struct.pack("<qqq", 0, 3, 2)
    with pytest.raises(DataError, match="const machine with -1 states"):
        openfst.from_bytes(whole.replace(sizes, struct.pack("<qqq", 0, -1, 2)))


def test_states_up_to_the_end() -> None:
    """A writer that could not go back leaves the number of states open."""
    found = openfst.from_bytes(patched(HEAD + 24, "q", -1), openfst.Naming((NAMES, NAMES)))
    same(found, machine())


def test_any_start_becomes_state_0() -> None:
    columns = ints(0, 1), ints(1, 2), ints(1, 0), ints(2, 1), np.asarray([0.5, 0.0])
    data = bytes_of_ids(1, *columns, np.asarray([NEVER, 0.25, 0.0]))
    with pytest.raises(LabelError, match="reads symbols without a name"):
        openfst.from_bytes(data)
    found = openfst.from_bytes(data, openfst.Naming(numbered=True))
    turned = {"source": ints(1, 0), "target": ints(0, 2), "final": np.asarray([0.25, NEVER, 0.0])}
    same(
        found, machine(**turned, output=ints(1, 0), input_symbols=("1",), output_symbols=("1", "2"))
    )


def test_bytes_without_a_start_are_a_machine_that_accepts_nothing() -> None:
    data = bytes_of_ids(-1, ints(), ints(), ints(), ints(), np.empty(0), np.empty(0))
    found = openfst.from_bytes(data)
    assert (found.final.tolist(), len(found.source)) == ([NEVER], 0)


def test_ids_beyond_reason() -> None:
    whole = openfst.to_bytes(machine(output_symbols=("a", "c")))
    for number in (2**40, -5):
        bad = whole.replace(b"b" + struct.pack("<q", 2), b"b" + struct.pack("<q", number))
        with pytest.raises(DataError, match=f"symbol 'b' has the id {number}"):
            openfst.from_bytes(bad)


def test_other_types() -> None:
    wrong: Any = "tropical"
    with pytest.raises(OptionError, match="arc type is 'tropical', expected one of 'standard'"):
        openfst.to_bytes(machine(), wrong)
    with pytest.raises(OptionError, match="fst type is 'tropical'"):
        openfst.to_bytes(machine(), fst_type=wrong)


def test_float32_is_not_enough() -> None:
    large = machine(score=np.asarray([-1e300, 0.0]))
    with pytest.raises(NumericError, match=r"1e\+300 is too large for float32; use arc type log64"):
        openfst.to_bytes(large, "standard")
    same(openfst.from_bytes(openfst.to_bytes(large, "log64")), large)


def test_no_cost_is_minus_zero() -> None:
    """OpenFst hashes bits: −0 would be another weight than 0."""
    whole = openfst.to_bytes(machine(final=np.zeros(3), score=np.zeros(2)))
    assert struct.pack("<d", -0.0) not in whole


# --- pynini that is not there ------------------------------------------------------------------


def test_without_pynini(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynini", None)
    for ask in (
        openfst.pynini_module,
        lambda: openfst.to_fst(machine()),
        lambda: openfst.from_fst(0),
    ):
        with pytest.raises(MissingDependencyError, match="pip install pynini"):
            ask()


def test_what_is_no_fst() -> None:
    pytest.importorskip("pynini", reason="pynini is not installed")
    with pytest.raises(OptionError, match=r"expected a pynini\.Fst, not int"):
        openfst.from_fst(0)


def test_an_fst_that_failed() -> None:
    pynini: Any = pytest.importorskip("pynini", reason="pynini is not installed")
    import pywrapfst

    fst = pynini.Fst()
    fst.set_properties(pywrapfst.ERROR, pywrapfst.ERROR)
    with pytest.raises(DataError, match="error flag"):
        openfst.from_fst(fst)


# --- Text --------------------------------------------------------------------------------------


def test_text() -> None:
    assert (
        openfst.att_text(machine()) == "0\t1\ta\tb\t-0.5\n1\t2\t<eps>\ta\t0.0\n1\t-0.25\n2\t0.0\n"
    )
    numbers = "0\t1\t1\t2\t-0.5\n1\t2\t0\t1\t0.0\n1\t-0.25\n2\t0.0\n"
    assert openfst.att_text(machine(), numeric=True) == numbers
    final = np.asarray([0.0, NEVER, NEVER])
    acceptor = machine(output=ints(0, -1), final=final, tape=None)
    assert openfst.att_text(acceptor) == "0\t1\ta\t-0.5\n0\t0.0\n1\t2\t<eps>\t0.0\n"


def test_the_start_comes_first() -> None:
    lonely = machine(source=ints(1, 1), final=np.asarray([NEVER, 0.25, NEVER]))
    assert openfst.att_text(lonely).splitlines()[0] == "0\tInfinity"
    found = openfst.from_att("7 9 a b\n3 7 b b\n9\n")
    assert (found.source.tolist(), found.target.tolist()) == ([1, 0], [0, 2])
    with pytest.raises(DataError, match="no start state"):
        openfst.from_att("")


@given(one=machines(tables=True))
def test_text_there_and_back(one: Machine) -> None:
    naming = openfst.Naming((one.input_symbols, one.output_symbols))
    wanted = trimmed(one)
    numbers = openfst.from_att(openfst.att_text(wanted, numeric=True), naming, numeric=True)
    same(numbers, wanted)


@given(one=machines())
def test_text_by_names_there_and_back(one: Machine) -> None:
    naming = openfst.Naming((one.input_symbols, one.output_symbols))
    with pytest.warns(LabelWarning, match="all symbols are numbers"):
        same(openfst.from_att(openfst.att_text(trimmed(one)), naming), trimmed(one))


def test_costs_keep_their_digits() -> None:
    score = np.asarray([-1 / 3, 1e-300])
    found = openfst.from_att(openfst.att_text(machine(score=score)))
    assert found.score.tolist() == score.tolist()


def test_columns_of_text() -> None:
    one = openfst.from_att("3 7 x y 0.5\n\n  3 9 <eps> x\n9 1.5\n7 Infinity\n")
    assert one.source.tolist() == [0, 0]  # states keep their order
    assert one.target.tolist() == [1, 2]
    assert one.score.tolist() == [-0.5, 0.0]
    assert one.final.tolist() == [NEVER, NEVER, -1.5]
    assert (one.input_symbols, one.output_symbols) == (("x",), ("y", "x"))
    assert (one.input.tolist(), one.output.tolist()) == ([0, -1], [0, 1])
    naming = openfst.Naming((("y", "x"), None), tape=None)
    acceptor = openfst.from_att("0 1 x 0.5\n1 0 y\n1", naming)
    assert acceptor.is_acceptor
    assert acceptor.input.tolist() == [1, 0]
    assert acceptor.output_symbols == acceptor.input_symbols == ("y", "x")


NUMBERS = {"symbols": (NAMES, NAMES), "numeric": True}


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("0 1 1\n", {}, "<input>:1: 3 columns, expected 1 or 2 or 4 or 5; is it tape=None?"),
        ("0 1 1 1 0 7\n", {}, "6 columns"),
        (
            "0\n0 1 1 1 0\n",
            {"tape": None},
            '<input>:2: 5 columns, expected 1 or 2 or 3 or 4; is it tape="NAME"?',
        ),
        ("0 x 1 1\n", {}, "'x' is not a state"),
        ("0 1 1 1\n-1\n", {}, "<input>:2: '-1' is not a state"),
        ("0 1 1 1 cheap\n", {}, "'cheap' is not a cost"),
        ("0 nan\n", {}, "cost nan, expected"),
        ("0 -Infinity\n", {}, "cost -Infinity"),
        ("0 1 4294967295 1\n1\n", NUMBERS, "label 4294967295 is too large"),
        pytest.param(f"0 1 1 {'9' * 5000}\n1\n", NUMBERS, "label 9+ is too large", id="digits"),
        ("0 1 a 1\n1\n", NUMBERS, "label 'a' is not a whole number"),
        pytest.param(f"0 {'9' * 5000} 1 1\n", {}, "'9+' is not a state", id="digits of a state"),
    ],
)
def test_text_that_is_no_machine(text: str, options: dict[str, Any], words: str) -> None:
    options = {"numeric": False} | options
    numeric = options.pop("numeric")
    with pytest.raises(DataError, match=words):
        openfst.from_att(text, openfst.Naming(**options), numeric=numeric)


def test_symbols_that_text_cannot_hold() -> None:
    with pytest.raises(LabelError, match="label 'q' is not in the symbol table of 3 symbols"):
        openfst.from_att("0 1 a q\n1\n", openfst.Naming((NAMES, NAMES)))
    spaced = ("New York", "b")
    with pytest.raises(LabelError, match="'New York' has a character that separates"):
        openfst.att_text(machine(input_symbols=spaced))
    assert openfst.att_text(machine(input_symbols=spaced), numeric=True)


# --- Drawings ----------------------------------------------------------------------------------


def test_dot() -> None:
    spaced = machine(input_symbols=('a"\\', "b"))
    lines = drawn.dot_text([drawn.diagram(spaced)]).splitlines()
    assert lines[:2] == ["digraph grammar {", "  rankdir=LR;"]
    assert '    a0_0 [label="0", style=bold];' in lines
    assert '    a0_1 [label="1/0.25", shape=doublecircle];' in lines
    assert '    a0_0 -> a0_1 [label="a\\"\\\\:b/0.5"];' in lines
    assert '    a0_1 -> a0_2 [label="<eps>:a"];' in lines
    assert lines[-1] == "}"


def fake_dot(folder: Path, body: str) -> None:
    program = folder / "dot"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def test_svg_by_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    fake_dot(tmp_path, 'echo "<svg>$1"; exec cat')
    assert drawn.svg(machine()) == "<svg>-Tsvg\n" + drawn.dot_text([drawn.diagram(machine())])
    fake_dot(tmp_path, "cat >/dev/null; echo out of ink >&2; exit 3")
    with pytest.raises(OSError, match="dot failed with status 3: out of ink"):
        drawn.svg(machine())


def test_svg_by_graphviz() -> None:
    if which("dot") is None:
        pytest.skip("graphviz is not installed")
    root = ET.fromstring(drawn.svg(machine()))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_svg_without_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    root = ET.fromstring(drawn.svg(machine()))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    arcs = [
        path for path in root.iter("{http://www.w3.org/2000/svg}path") if path.get("marker-end")
    ]
    ends = set(zip(machine().source.tolist(), machine().target.tolist(), strict=True))
    assert len(arcs) == len(ends)  # arcs with the same ends are one


def test_svg_of_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fake_dot(tmp_path, "exit 1")
    names = tuple(map(str, range(30)))
    large = sausage_machine(np.zeros((4, 30)), np.zeros(900), np.zeros(30), np.zeros(30), names)
    with pytest.raises(TooLargeError, match="2,730 arcs are too many"):
        drawn.svg(large)


# --- Sausages ----------------------------------------------------------------------------------


def test_sausages_that_do_not_fit() -> None:
    node, ends = np.zeros((2, 2)), np.zeros(2)
    for arcs, first in ((np.zeros(3), ends), (np.zeros(4), np.zeros(3))):
        with pytest.raises(ShapeError, match="the shapes do not match"):
            sausage_machine(node, arcs, first, ends, NAMES)
    with pytest.raises(NumericError, match="score has NaN"):
        sausage_machine(node * np.nan, np.zeros(4), ends, ends, NAMES)
    assert len(sausage_machine(node[:0], np.zeros(4), ends, ends, NAMES).source) == 0
