"""Acyclic lattices and the kernel below them: what they refuse, and what they say of little."""

from __future__ import annotations

from pathlib import Path as File
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from fstcrf.errors import (
    DataError,
    LabelError,
    NoPathError,
    OptionError,
    ShapeError,
)
from fstcrf.kernel import Budget, acyclic
from fstcrf.lattices import Lattice
from fstcrf.lattices.machines import sausage_machine
from fstcrf.machines import openfst
from tests.support.fsts import bytes_of_ids

NEVER = float("-inf")
LABELS = ("x", "y", "z")
NAMED = openfst.Naming((LABELS, LABELS))
# x y (score 3), y z (score 2), x z twice (1 and 0).
TEXT = "0 1 1 1 -1\n0 2 2 2\n0 4 1 1 -1\n1 3 2 2 -2\n2 3 3 3 -2\n1 3 3 3\n4 3 3 3 1\n3\n"


def lattice(text: str = TEXT) -> Lattice:
    return Lattice.from_machine(openfst.from_att(text, NAMED, numeric=True))


def ints(*numbers: int) -> Any:
    return np.asarray(numbers, dtype=np.int32)


# --- Answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["0 1 1 1\n", "0 1 1 1 Infinity\n1\n", "0 Infinity\n"])
def test_nothing(text: str) -> None:
    one = lattice(text)
    refused = one.best, one.marginals, one.entropy, one.draw, lambda: one.sample(1, seed=0)
    for ask in refused:
        with pytest.raises(NoPathError, match="no path") as caught:
            ask()
        assert caught.value.position is None
    assert one.log_partition() == one.score(["x"]) == NEVER
    assert one.probability(["x"]) == 0.0
    assert one.nbest(3) == one.nbest(3, tapes=["label"]) == one.strings(n=3) == []
    assert one.lengths == (0, 0)
    assert one.scale(2.0).log_partition() == NEVER


# --- What is no lattice ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1 1 1\n1 0 2 2\n1\n", "a cycle through state"),
        ("0 0 1 1\n0\n", "a cycle through state 0"),
        ("0 1 1 1\n1 2 0 0\n2 1 0 0\n2\n", "an epsilon loop through state [12]"),
        ("0 1 1 1\n1 1 0 0\n1\n", "an epsilon loop through state 1"),
        ("0 1 1 2\n1\n", "an arc of state 0 reads 'x' and writes 'y'; project"),
        ("0 1 0 2\n1\n", "reads '<eps>' and writes 'y'"),
    ],
)
def test_machines_that_are_no_lattice(text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        lattice(text)


def test_a_cycle_with_a_tail() -> None:
    """The state that is named lies on the cycle, not behind it."""
    tail = "".join(f"{s} {s + 1} 1 1\n" for s in range(3, 9))
    with pytest.raises(DataError, match=r"through state [12] "):
        lattice("0 1 1 1\n1 2 1 1\n2 1 1 1\n2 3 1 1\n" + tail + "9\n")


def test_labels() -> None:
    named = openfst.from_att("0 1 x x\n1\n", NAMED)
    assert Lattice.from_machine(named).labels == LABELS
    assert Lattice.from_machine(named, LABELS).labels == LABELS
    with pytest.raises(DataError, match="symbol 2 is 'y' in one and 'q' in the other"):
        Lattice.from_machine(named, ("x", "q", "z"))
    with pytest.raises(DataError, match="symbol 4 is missing in one and 'w' in the other"):
        Lattice.from_machine(named, (*LABELS, "w"))
    other = openfst.from_att("0 1 x x\n1\n", openfst.Naming((LABELS, LABELS[::-1])))
    assert Lattice.from_machine(other).nbest(2) == Lattice.from_machine(named).nbest(2)


def test_labels_of_a_file_without_symbols(tmp_path: File) -> None:
    for number in (1, 9):
        columns = ints(0), ints(1), ints(number), ints(number), np.zeros(1)
        data = bytes_of_ids(0, *columns, np.asarray([NEVER, 0.0]))
        (tmp_path / f"{number}.fst").write_bytes(data)
    assert Lattice.from_fst(tmp_path / "1.fst", LABELS).best().labels == ("x",)
    with pytest.raises(LabelError, match="symbols without a name: give labels="):
        Lattice.from_fst(tmp_path / "1.fst")
    with pytest.raises(LabelError, match="'x' occurs twice"):
        Lattice.from_fst(tmp_path / "1.fst", ("x", "x"))
    with pytest.raises(LabelError, match="reads symbol 9, but there are 3 labels"):
        Lattice.from_fst(tmp_path / "9.fst", LABELS)


@pytest.mark.parametrize("ask", ["score", "probability"])
def test_unknown_labels(ask: str) -> None:
    with pytest.raises(LabelError, match="unknown label 'q'; the labels are x, y, z"):
        getattr(lattice(), ask)(["x", "q"])


def test_paths_of_several_lengths() -> None:
    one = lattice("0 1 1 1\n0 2 0 0\n1 2 2 2\n2 3 3 3\n3\n1\n")
    assert one.lengths == (1, 3)
    assert sorted(p.labels for p in one.nbest(9)) == [("x",), ("x", "y", "z"), ("z",)]
    with pytest.raises(ShapeError, match=r"len.. needs paths of one length; .* 1 to 3 labels"):
        len(one)
    shares = np.full((3, 3), 0.0)
    shares[0, 0], shares[0, 2], shares[1, 1], shares[2, 2] = 2 / 3, 1 / 3, 1 / 3, 1 / 3
    assert one.marginals() == pytest.approx(shares)
    assert (one.max_marginals() > NEVER).tolist() == (shares > 0).tolist()
    assert [p.labels for p in one.restrict(np.eye(3, dtype=bool)).nbest(9)] == [
        ("x",),
        ("x", "y", "z"),
    ]


def test_options() -> None:
    with pytest.raises(OptionError, match="no tape 'words': the tapes are label"):
        lattice().nbest(1, tapes=["words"])
    for wrong in ("label", [], ["label", "label"]):
        with pytest.raises(OptionError, match="expected names of tapes, each once"):
            lattice().nbest(1, tapes=wrong)
    for n, budget in ((0, 9), (1, 0), (1, Budget(seconds=1)), (1, "9")):
        with pytest.raises(OptionError, match=r"(n|budget) is .*, expected"):
            lattice().strings(n=n, budget=budget)  # type: ignore[arg-type]
    for ask in (
        lambda: lattice().nbest(0),
        lambda: lattice().nbest(0, tapes=["label"]),
        lambda: lattice().sample(-1),
    ):
        with pytest.raises(OptionError, match=r"n is (0|-1), expected at least (1|0)"):
            ask()
    assert lattice().sample(0) == []


# --- Texts -------------------------------------------------------------------------------------


def test_drawing_without_graphviz(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    uneven = lattice("0 1 1 1 -1\n1 2 2 2\n1\n2\n")
    root = ET.fromstring(uneven.draw(tmp_path / "two.svg"))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(map(str, texts)) == ["0", "1", "2", "x/1", "y"]
    assert (tmp_path / "two.svg").read_text("utf-8") == uneven.draw()


def test_what_is_too_large_for_a_drawing_is_a_table() -> None:
    labels = tuple(f"L{i}" for i in range(30))
    wide = sausage_machine(np.eye(5, 30), np.zeros(900), np.zeros(30), np.zeros(30), labels)
    svg = Lattice.from_machine(wide, labels).draw()
    texts = [text.text for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert {*labels, "0", "4", "0.09", "0.03"} <= set(texts)


def test_drawing_with_graphviz(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\nexec cat\n")
    program.chmod(0o755)
    assert 'a0_0 -> a0_1 [label="x/1"];' in lattice().draw()


def test_order_of_states() -> None:
    row, target = np.asarray([0, 1, 2, 3]), ints(2, 0, 2)
    assert acyclic.topological(row[:3], ints(1, 1))[1] == 1
    number, cycle = acyclic.topological(np.asarray([0, 1, 2, 2]), ints(2, 0))
    assert (number.tolist(), cycle) == ([1, 0, 2], -1)
    keep = acyclic.connected(row, target, 1, np.asarray([False, False, True]))
    assert keep.tolist() == [True, True, True]
    keep = acyclic.connected(row, target, 0, np.asarray([False, False, True]))
    assert keep.tolist() == [True, False, True]
    assert not acyclic.connected(row, target, -1, np.ones(3, dtype=bool)).any()
    assert (
        acyclic.connected(np.zeros(1, dtype=np.int64), ints(), -1, np.ones(0, dtype=bool)).size == 0
    )
    nothing, cycle = acyclic.topological(np.zeros(1, dtype=np.int64), ints())
    assert (nothing.size, cycle) == (0, -1)
    with pytest.raises(ShapeError, match="entry 1"):
        acyclic.topological(row, ints(2, 3, 0))
    with pytest.raises(ShapeError, match=r"row is \[4\], expected \[3\]"):
        acyclic.connected(row, target, 0, np.ones(2, dtype=bool))
