"""Machines that were made elsewhere as grammars: arrays, files of OpenFst; small ones and large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import Transducer
from fstcrf.errors import DataError, FstcrfError, GrammarError
from fstcrf.machines import openfst
from fstcrf.machines.grammar import Grammar, equivalent, minimise, trim
from fstcrf.machines.machine import Machine
from tests.support.fsts import bytes_of_ids

LABELS = ("O", "A", "B")
NEVER = -np.inf


def machine(
    arcs: list[tuple[int, int, int]], final: list[float], *, start: int = 0, symbols: bool = True
) -> bytes:
    """OpenFst's bytes of a machine of arcs (source, label, target) without scores."""
    table = np.asarray(arcs, dtype=np.int32).reshape(-1, 3)
    names = ("<eps>", *LABELS) if symbols else None
    columns = table[:, 0], table[:, 2], table[:, 1] + 1, table[:, 1] + 1, np.zeros(len(table))
    return bytes_of_ids(start, *columns, np.asarray(final), names, names, "standard")


def file(folder: Path, made: bytes, name: str = "mine.fst") -> Path:
    path = folder / name
    path.write_bytes(made)
    return path


# --- Arrays ------------------------------------------------------------------------------------


def test_arrays() -> None:
    # B only directly behind A, which costs 1; the sentence may not end behind A.
    grammar = Grammar.from_arrays(
        ["B", "A", "O"],
        [[-1, 1, 0], [0, -1, 0]],
        score=[[7.0, -1.0, 0.0], [0.0, 0.0, 0.0]],
        final=[0.0, NEVER],
        name="ab",
    )
    (acceptor,) = grammar.bind(LABELS)
    assert (acceptor.labels, acceptor.name) == ((LABELS,), "ab")
    bound = grammar.bound(LABELS)
    assert bound.score(["O", "A", "B"]) == -1.0
    assert not bound.accepts(["B"])
    assert not bound.accepts(["O", "A"])
    # A label that it does not know is rejected, whatever the order.
    assert not grammar.bound(["new", *LABELS]).accepts(["new"])


def test_arrays_of_a_tape() -> None:
    sets = {"x": LABELS, "y": ("U", "V")}
    (acceptor,) = Grammar.from_arrays(["U"], [[0]], tape="y").bind(sets)
    assert (acceptor.tapes, acceptor.labels) == (("y",), (("U", "V"),))
    with pytest.raises(GrammarError, match="does not name the tape that it reads"):
        Grammar.from_arrays(["U"], [[0]]).bind(sets)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": [0, 1]}, "acceptor: target is int64 [2], expected integers [states, labels]"),
        ({"target": [[0.0, 1.0]]}, "target is float64 [1, 2], expected integers"),
        ({"target": [[0, 1]]}, "target holds numbers outside [-1, 1)"),
        ({"target": [[0, -2]]}, "target holds numbers outside [-1, 1)"),
        ({"target": [[0]]}, "target is [1, 1], expected [1, 2]"),
        ({"target": [[0, 0]], "score": [[1.0]]}, "score is [1, 1], expected [1, 2]"),
        ({"target": [[0, 0]], "score": [[1.0, np.nan]]}, "the score of a step is not finite"),
        ({"target": [[0, 0]], "final": [0.0, 0.0]}, "target is [1, 2], expected [2, 2]"),
        ({"target": [[0, 0]], "final": [np.inf]}, "a final score is NaN or +inf"),
        ({"labels": ["A", "A"], "target": [[0, 0]]}, "label 'A' occurs twice"),
    ],
)
def test_arrays_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(FstcrfError) as caught:
        Grammar.from_arrays(**{"labels": ["A", "B"], **arguments})
    assert message in str(caught.value)


def test_arrays_over_labels_that_are_not_there() -> None:
    with pytest.raises(GrammarError, match=r"mine: no label 'C'; .* 'O', 'A', 'B'"):
        Grammar.from_arrays(["A", "C"], [[0, 0]], name="mine").bind(LABELS)
    with pytest.raises(GrammarError, match="mine accepts no sequence of these 3 labels"):
        Grammar.from_arrays(["A"], [[-1]], final=[-np.inf], name="mine").bind(LABELS)


# --- Files -------------------------------------------------------------------------------------


def test_files(tmp_path: Path) -> None:
    # One path for a labelling; the start is not the first state.
    direct = machine([(0, 2, 0), (1, 1, 0), (1, 0, 1)], [0.0, NEVER], start=1)
    # The same with an alternative and a step that reads nothing.
    loose = machine([(0, 0, 0), (0, 1, 1), (0, 1, 2), (1, -1, 2), (2, 2, 2)], [NEVER, NEVER, 0.0])
    one, other = (Grammar.from_fst(file(tmp_path, m)).bind(LABELS)[0] for m in (direct, loose))
    assert equivalent(one, other)
    assert (one.name, other.name) == ("mine.fst", "mine.fst")
    grammar = Grammar.from_fst(str(file(tmp_path, direct)), name="one A").bound(LABELS)
    assert grammar.accepts(["O", "A", "B"])
    assert not grammar.accepts(["O", "B"])
    assert repr(grammar) == "Grammar(one A)"


def test_symbols_of_files(tmp_path: Path) -> None:
    path = file(tmp_path, machine([(0, 1, 0)], [0.0]))
    assert Grammar.from_fst(path).bound(["A", "C"]).accepts(["A"])
    with pytest.raises(GrammarError, match=r"mine.fst: symbol 'A' is no label; there are 'C'"):
        Grammar.from_fst(path).bind(["C"])
    numbers = file(tmp_path, machine([(0, 1, 0)], [0.0], symbols=False))
    assert Grammar.from_fst(numbers).bound(["C", "A"]).accepts(["A"])
    with pytest.raises(GrammarError, match="symbol 2, but there are 1 labels"):
        Grammar.from_fst(numbers).bind(["C"])


def test_files_in_grammar_files(tmp_path: Path) -> None:
    file(tmp_path, machine([(0, 0, 0), (0, 1, 1), (1, 0, 1)], [NEVER, 0.0]), "one.fst")
    text = '# Exactly one A.\nexport ONE = fst["one.fst"];\nexport OR = fst["one.fst"] | "[B]"+;\n'
    (tmp_path / "mine.grm").write_text(text, "utf-8")
    grammar = Grammar.from_file(tmp_path / "mine.grm")
    assert grammar.bind(LABELS)[0].name == "mine.grm:2: ONE"
    assert grammar.bound(LABELS).accepts(["O", "A"])
    assert not grammar.bound(LABELS).accepts(["B"])
    with pytest.raises(GrammarError, match=r"mine.grm:2:14: one.fst: symbol 'A' is no label"):
        grammar.bind(["O", "B"])
    sets = {"x": LABELS, "y": ("U",)}
    (tmp_path / "mine.grm").write_text('export ONE = fst["one.fst", tape=x];', "utf-8")
    assert Grammar.from_file(tmp_path / "mine.grm").bind(sets)[0].tapes == ("x",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('fst["none.fst"]', "mine.grm:1:12: {}/none.fst: No such file"),
        ('fst["mine.grm"]', "mine.grm:1:12: {}/mine.grm: not an OpenFst machine"),
        ("fst[2]", 'mine.grm:1:12: wrong arguments for fst, expected for example fst["names.fst"]'),
        ('fst["a" | "b"]', "mine.grm:1:12: wrong arguments for fst"),
        ('fst["a", <2>]', "mine.grm:1:12: fst has no option 'weight', only tape"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.grm").write_text(f"export X = {text};", "utf-8")
    with pytest.raises(GrammarError) as caught:
        Grammar.from_file(tmp_path / "mine.grm")
    assert message.format(tmp_path) in str(caught.value)


def test_a_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "mine.fst"
    path.write_bytes(b"no machine at all")
    with pytest.raises(DataError, match=r"mine\.fst: not an OpenFst machine"):
        Grammar.from_fst(path)
    rewriting = Transducer.from_table({"A": "B"})
    path.write_bytes(openfst.to_bytes(rewriting, "log64"))
    with pytest.raises(GrammarError, match="writes other symbols than it reads"):
        Grammar.from_fst(path)


# --- Sizes -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_acceptors_of_many_states(tmp_path: Path) -> None:
    states, size = 20_000, 40
    labels = tuple(f"L{i}" for i in range(size))
    rng = np.random.default_rng(0)
    # A tree of random words; 12 labels lead on from a state.
    target = np.full((states, size), -1, dtype=np.int32)
    inner = (states - 1) // 12
    place = rng.random((inner, size)).argsort(axis=1)[:, :12]
    target[np.arange(inner)[:, None], place] = 1 + np.arange(inner * 12).reshape(inner, 12)
    final = np.where(rng.random(states) < 0.5, 0.0, NEVER)
    (whole,) = Grammar.from_arrays(labels, target, final=final).bind(labels)
    assert whole.target.dtype == np.int32
    small = minimise(whole)
    assert small.n_states < whole.n_states <= states
    arcs = np.argwhere(target >= 0).astype(np.int32)
    read, to = arcs[:, 1], target[arcs[:, 0], arcs[:, 1]]
    made = Machine(arcs[:, 0], read, read, to, np.zeros(len(arcs)), final, labels, labels)
    data = openfst.to_bytes(made, "standard")
    (found,) = Grammar.from_fst(file(tmp_path, data)).bind(labels)
    assert np.array_equal(found.target, minimise(trim(small)).target)
