"""Tables of marginals as text."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf.errors import NoPathError, ShapeError
from fstcrf.ext.pictures.tables import lattice_table
from fstcrf.lattices import Lattice

NEVER = float("-inf")


def test_table() -> None:
    never = NEVER
    one = Lattice.from_arrays(("O", "B-NP", "I-NP"), [[0, 1, never], [1, 0, never]])
    assert lattice_table(one, ["the", "cat"]).splitlines() == [
        "         O   B-NP",
        "the  0.27   0.73*",
        "cat  0.73*  0.27",
        "not shown: 1 label below 0.005 at every token",
        "* best path: score 2, probability 0.5344",
    ]
    assert lattice_table(one).splitlines()[1].startswith("0  ")
    sure = Lattice.from_arrays(("a", "b", "c", "d"), [[9, 0, never, never]])
    assert lattice_table(sure).splitlines() == [
        "       a",
        "0  1.00*",
        "not shown: 3 labels below 0.005 at every token",
        "* best path: score 9, probability 0.9999",
    ]
    with pytest.raises(ShapeError, match="1 names for 2 tokens"):
        lattice_table(one, ["the"])
    with pytest.raises(NoPathError):
        lattice_table(Lattice.from_arrays(("a",), [[never]]))


def test_table_of_no_tokens() -> None:
    found = lattice_table(Lattice.from_arrays(("a",), np.empty((0, 1))))
    assert found == "no tokens\n* best path: score 0, probability 1\n"


def test_table_of_several_tapes() -> None:
    """One below the other, each under its name."""

    pos = Lattice.from_arrays(("N", "V"), np.log([[0.75, 0.25]]), tape="pos")
    chunk = Lattice.from_arrays(("O", "B"), [[NEVER, 0.0]], tape="chunk")
    assert lattice_table(pos @ chunk, ["ship"]).splitlines() == [
        "pos:",
        "          N      V",
        "ship  0.75*  0.25",
        "",
        "chunk:",
        "          B",
        "ship  1.00*",
        "not shown: 1 label below 0.005 at every token",
        "",
        "* best path: score -0.287682, probability 0.75",
    ]
