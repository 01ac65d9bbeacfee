"""Law: an operation over machines with odd symbol tables equals the operation over dense tables.

Forms of tables (gaps, another order, epsilon called otherwise, all of these on one side alone)
beside operations of the algebra, semirings, and random machines. The oracle of `test_algebra` gives
the weights of all pairs of strings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fstcrf import Grammar, Lattice, Transducer
from fstcrf.errors import LabelError
from fstcrf.machines.machine import Semiring
from tests.oracle.test_algebra import READ, SEMIRINGS, Matrices, check_same, language, random, table
from tests.support.fsts import bytes_of_ids

Ids = Callable[[int, int], int]
"""The id of symbol k of n."""

FORMS: dict[str, tuple[Ids, str]] = {
    "dense": (lambda k, _: k + 1, "<eps>"),
    "gaps": (lambda k, _: 2 * k + 2, "<eps>"),
    "reversed": (lambda k, n: n - k, "<eps>"),
    "gaps at the end, reversed": (lambda k, n: 3 * (n - k), "epsilon"),
    "no name for epsilon": (lambda k, _: k + 4, ""),
    "epsilon's name at another id": (lambda k, _: k + 3, "<eps> at 2"),
}


def written(form: str, symbols: tuple[str, ...], label: Any) -> tuple[Any, tuple[str, ...]]:
    """Return ids of labels, -1: none, and a symbol table of a form."""
    of, epsilon = FORMS[form]
    ids = [of(k, len(symbols)) for k in range(len(symbols))]
    names = [""] * (max(ids) + 1)
    for number, symbol in zip(ids, symbols, strict=True):
        names[number] = symbol
    names[2 if "at 2" in epsilon else 0] = epsilon.partition(" ")[0]
    return np.asarray([*ids, 0], dtype=np.int32)[label], tuple(names)


def stored(machine: Transducer, form: str, path: Path, other: str = "") -> Transducer:
    """Return a machine that was written with tables of a form, or of two forms, and read again."""
    order = np.argsort(machine.source, kind="stable")
    ilabel, isymbols = written(form, machine.input_symbols, machine.input[order])
    olabel, osymbols = written(other or form, machine.output_symbols, machine.output[order])
    path.write_bytes(bytes_of_ids(
        0, machine.source[order], machine.target[order], ilabel, olabel, machine.score[order],
        machine.final, isymbols, osymbols,
    ))  # fmt: skip
    return Transducer.from_fst(path, semiring=machine.semiring, tape=machine.tape)


OPERATIONS: dict[str, Callable[[Transducer, Transducer], Transducer]] = {
    "itself": lambda a, _: a,
    "|": lambda a, b: a | b,
    "+": lambda a, b: a + b,
    "@": lambda a, b: a.invert() @ b,
    "closure": lambda a, _: a.closure(),
    "invert": lambda a, _: a.invert(),
    "project": lambda a, _: a.project("output"),
    "reverse": lambda a, _: a.reverse(),
    "remove_epsilon": lambda a, _: a.remove_epsilon(),
    "support": lambda a, _: a.support(),
    "push": lambda a, _: a.push(),
}
LANGUAGES: dict[str, Callable[[Transducer, Transducer], Any]] = {
    "&": lambda a, b: table(a & b),
    "|": lambda a, b: table(a | b),
    "-": lambda a, b: table(a - b),
    "~": lambda a, _: table(~a),
    "determinize": lambda a, _: table(a.determinize()),
    "minimize": lambda a, _: table(a.minimize()),
    "replace": lambda a, b: table(a.replace({"c": b}, 1)),
    "example": lambda a, b: len((a | b).example() or ()),
    "shortest": lambda a, b: cast("Any", (a | b).shortest()).score,
    "witness": lambda a, b: len(a.witness(b) or ()),
    "equivalent": lambda a, b: (a.equivalent(a), a.equivalent(b)),
    "sample": lambda a, _: [Matrices(a).weight((x, x)) for x in a.sample(5)],
}


def _same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        check_same(found, wanted)
    else:
        assert found == wanted


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("form", FORMS)
def test_transducers_with_odd_tables_are_those_with_dense_tables(
    form: str, semiring: Semiring, tmp_path: Path
) -> None:
    answered = Counter[str]()
    for seed in range(4):
        rng = np.random.default_rng(seed)
        a = random(rng, semiring, acyclic=True)
        b = random(rng, semiring, acyclic=True, symbols=(("b", "c"), ("y", "z")))
        one, two = stored(a, form, tmp_path / "a"), stored(b, "dense", tmp_path / "b", form)
        for name, operation in OPERATIONS.items():
            wanted = table(operation(a, b))
            check_same(table(operation(one, two)), wanted)
            answered[name] += len(wanted)
        lattice = Lattice.from_arrays(["b", "a"], rng.normal(size=(2, 2)))
        then = Transducer.from_table({"x": "u", "y": "v"}, tape="v")
        totals = [(lattice @ x @ then).log_partition() for x in (one, a)]
        np.testing.assert_allclose(totals[0], totals[1])
    assert all(answered[name] for name in OPERATIONS), answered


@pytest.mark.parametrize("form", FORMS)
def test_acceptors_with_odd_tables_are_those_with_dense_tables(form: str, tmp_path: Path) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        a, b = language(rng, "tropical"), language(rng, "tropical", ("b", "c", "d"))
        if not table(a) or not table(b):
            continue
        one, two = stored(a, form, tmp_path / "a"), stored(b, "gaps", tmp_path / "b", form)
        for operation in LANGUAGES.values():
            _same(operation(one, two), operation(a, b))


@pytest.mark.parametrize("form", FORMS)
def test_lattices_and_grammars_read_odd_tables(form: str, tmp_path: Path) -> None:
    machine = Transducer.from_text("0 1 a 1\n0 1 b 2\n1 2 b 3\n2", tape=None)
    ids, names = written(form, machine.input_symbols, machine.input)
    path = tmp_path / "grammar.fst"
    path.write_bytes(bytes_of_ids(0, machine.source, machine.target, ids, ids, machine.score,
                                  machine.final, names, names))  # fmt: skip
    lattice = Lattice.from_machine(Transducer.from_fst(path, tape=None))
    assert sorted(lattice.on[0].labels) == ["a", "b"]
    assert [path.labels for path in lattice.nbest(3)] == [("a", "b"), ("b", "b")]
    ruled = lattice & Grammar.from_text('export X = "[b]" "[b]";', ["a", "b"])
    assert ruled.best().labels == ("b", "b")
    again = Lattice.from_machine(lattice.machine)
    assert again.log_partition() == lattice.log_partition()
    grammar = Grammar.from_fst(path)
    assert [grammar.bound(READ).accepts([x, "b"]) for x in ("a", "b")] == [True, True]
    assert not grammar.bound(READ).accepts(["a", "a"])


@pytest.mark.parametrize("twice", ["a", "<eps>"])
def test_a_name_twice_is_refused_when_a_machine_is_made(twice: str, tmp_path: Path) -> None:
    names = ["a", "b", twice]
    arc: Any = [[0], [2], [2], [1], None, [-np.inf, 0.0]]
    for tables in ((names, ["a", "b", "c"]), (["a", "b", "c"], names)):
        with pytest.raises(LabelError, match=twice):
            Transducer.from_arrays(*arc, input_symbols=tables[0], output_symbols=tables[1])
    machine = Transducer.from_text("0 1 a\n1", tape=None)
    path, ids = tmp_path / "twice.fst", machine.input + 1
    columns = 0, machine.source, machine.target, ids, ids, machine.score, machine.final
    path.write_bytes(bytes_of_ids(*columns, ("<eps>", "a", "", "a")))
    with pytest.raises(LabelError, match="label 'a' occurs twice"):
        Transducer.from_fst(path)


def test_an_arc_with_epsilons_name_at_another_id_is_refused(tmp_path: Path) -> None:
    machine = Transducer.from_text("0 1 a\n1", tape=None)
    names, ids = ("", "<eps>", "a"), machine.input + 1
    columns = 0, machine.source, machine.target, ids, ids, machine.score, machine.final
    path = tmp_path / "odd.fst"
    path.write_bytes(bytes_of_ids(*columns, names, names))
    for read in (Transducer.from_fst, Lattice.from_fst, Grammar.from_fst):
        with pytest.raises(LabelError, match="symbol 1, which is named '<eps>'"):
            read(path)
