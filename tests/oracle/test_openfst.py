"""Machines as bytes against pynini's own: the same machines, the same properties, both ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from fstcrf.lattices.machines import sausage_machine
from fstcrf.machines import openfst
from fstcrf.machines.algebra import trimmed
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import ArcType, FstType
from tests.support.fsts import ARC_TYPES, machines, made_by_pynini, pynini_or_skip

EACH_TYPE = pytest.mark.parametrize("arc_type", ARC_TYPES)
ALL_TRINARY = 0x0000FFFFFFFF0000
PAIRS = 0x0000555555550000


def same(one: Machine, other: Machine) -> None:
    for name in ("source", "target", "input", "output", "score", "final"):
        found, wanted = getattr(one, name), getattr(other, name)
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
    assert one.input_symbols == other.input_symbols
    assert one.output_symbols == other.output_symbols


def naming(machine: Machine) -> openfst.Naming:
    return openfst.Naming((machine.input_symbols, machine.output_symbols))


def bits(fst: Any, *, test: bool) -> int:
    import pywrapfst

    return int(fst.properties(pywrapfst.FST_PROPERTIES, test=test).value)


@pytest.mark.thorough
@EACH_TYPE
@given(machine=machines())
def test_bytes_are_the_machine(arc_type: ArcType, machine: Machine) -> None:
    pynini = pynini_or_skip()
    wanted = made_by_pynini(machine, arc_type)
    kinds: tuple[FstType, ...] = ("vector", "const")
    for kind in kinds:
        found = pynini.Fst.read_from_string(openfst.to_bytes(machine, arc_type, fst_type=kind))
        assert found.verify()
        assert found.arc_type() == arc_type
        assert pynini.equal(found, wanted, 0.0)
    assert pynini.equal(openfst.to_fst(machine, arc_type), wanted, 0.0)


@EACH_TYPE
@given(machine=machines())
def test_no_property_is_wrong(arc_type: ArcType, machine: Machine) -> None:
    """OpenFst believes what the bytes say; what it finds out by itself must be the same."""
    pynini = pynini_or_skip()
    kinds: tuple[FstType, ...] = ("vector", "const")
    for kind in kinds:
        data = openfst.to_bytes(machine, arc_type, fst_type=kind)
        said = bits(pynini.Fst.read_from_string(data), test=False) & ALL_TRINARY
        true = bits(made_by_pynini(machine, arc_type), test=True) & ALL_TRINARY
        assert said & ~true == 0
        assert said & PAIRS & (said >> 1) == 0


@EACH_TYPE
@given(machine=machines())
def test_an_fst_is_the_machine(arc_type: ArcType, machine: Machine) -> None:
    same(openfst.from_fst(made_by_pynini(machine, arc_type), naming(machine)), machine)


@EACH_TYPE
@given(machine=machines(tables=True))
def test_what_pynini_writes_is_read(arc_type: ArcType, machine: Machine) -> None:
    pynini_or_skip()
    import pywrapfst

    fst = openfst.to_fst(machine, arc_type)
    same(openfst.from_bytes(fst.write_to_string()), machine)
    same(openfst.from_bytes(pywrapfst.convert(fst, "const").write_to_string()), machine)
    same(openfst.from_fst(fst), machine)


@given(machine=machines(tables=True))
def test_symbol_tables_are_those_of_pynini(machine: Machine) -> None:
    pynini = pynini_or_skip()
    fst = openfst.to_fst(machine)
    sides = (
        (fst.input_symbols(), machine.input_symbols),
        (fst.output_symbols(), machine.output_symbols),
    )
    for found, wanted in sides:
        made = pynini.SymbolTable()
        for number, symbol in enumerate(("<eps>", *wanted)):
            made.add_symbol(symbol, number)
        assert found.labeled_checksum() == made.labeled_checksum()
        assert found.available_key() == made.available_key()


def test_tables_with_holes() -> None:
    pynini = pynini_or_skip()
    fst, table = pynini.Fst("log64"), pynini.SymbolTable()
    fst.set_start(fst.add_state())
    fst.set_final(0)
    for symbol, number in (("<eps>", 0), ("a", 1), ("d", 4)):
        table.add_symbol(symbol, number)
    fst.set_output_symbols(table)
    machine = openfst.from_fst(fst)
    assert machine.input_symbols == machine.output_symbols == ("a", "d")


def test_numbers_keep_their_digits() -> None:
    pynini_or_skip()
    rng = np.random.default_rng(0)
    node, arcs = rng.normal(size=(9, 5)) * 100, rng.normal(size=(9, 25))
    first, last = rng.normal(size=(2, 5))
    machine = sausage_machine(node, arcs, first, last, tuple("abcde"))
    same(openfst.from_fst(openfst.to_fst(machine, "log64")), machine)
    for arc_type in ("standard", "log"):
        found = openfst.from_fst(openfst.to_fst(machine, arc_type))
        wanted = machine.score.astype(np.float32).astype(np.float64)
        assert found.score.tolist() == wanted.tolist()


def test_what_comes_back_can_be_changed() -> None:
    pynini = pynini_or_skip()
    text = "0\t1\ta\ta\t0.5\n1\t0.0\n"
    fst = openfst.to_fst(openfst.from_att(text), "standard")
    fst.closure()
    twice = pynini.compose(
        fst, openfst.to_fst(openfst.from_att("0 1 a a\n1 2 a a\n2\n"), "standard")
    )
    best = openfst.from_fst(pynini.shortestpath(twice))
    assert best.score.sum() + best.final.max() == -1.0
    assert openfst.att_text(openfst.from_att(text)) == text


@given(machine=machines())
def test_trimmed_machines_are_connected_ones(machine: Machine) -> None:
    pynini = pynini_or_skip()
    allowed = machine.score > -np.inf  # pynini keeps forbidden arcs
    columns = ("source", "input", "output", "target", "score")
    without = replace(machine, **{name: getattr(machine, name)[allowed] for name in columns})
    wanted, small = made_by_pynini(without, "log64").connect(), trimmed(machine)
    if wanted.num_states():
        assert pynini.equal(openfst.to_fst(small), wanted, 0.0)
    else:  # the start stays here
        assert (small.final.tolist(), len(small.source)) == ([-np.inf], 0)


@EACH_TYPE
@given(machine=machines())
def test_text_is_read_by_pynini(arc_type: ArcType, machine: Machine) -> None:
    pynini = pynini_or_skip()
    import pywrapfst

    compiler = pywrapfst.Compiler(arc_type=arc_type, keep_state_numbering=True)
    compiler.write(openfst.att_text(machine, numeric=True))
    found = pynini.Fst.read_from_string(compiler.compile().write_to_string())
    assert pynini.equal(found.connect(), made_by_pynini(machine, arc_type).connect(), 0.0)


@given(machine=machines())
def test_text_of_pynini_is_read(machine: Machine) -> None:
    pynini_or_skip()
    fst = made_by_pynini(machine, "log64").connect()
    if fst.num_states():
        found = openfst.from_att(fst.print(), naming(machine), numeric=True)
        same(found, openfst.from_fst(fst, naming(machine)))
