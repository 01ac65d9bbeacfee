"""Each row of the table of operands of ``@`` in the guide on composition, run."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Lattices, Transducer, compose, errors
from fstcrf.constraints import at_most
from tests.support.fsts import pynini_or_skip
from tests.support.joint_cases import TEST, taggers, trained

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "composition.md"
ROW = re.compile(r"\| `([\w ]+ @ [\w @]+)` \| (.+) \| (.+) \| (.*)\|")
ROWS = [
    match.groups() for match in map(ROW.fullmatch, PAGE.read_text("utf-8").split("\n")) if match
]
SENTENCE = TEST[0]


@pytest.fixture(scope="module")
def operands() -> dict[str, Any]:
    """Return an operand for each name of the table; pynini's only if it is installed."""
    tagger, other = taggers("apart")[0], trained("chunk", "U1:%x[0,word]\nB\n")
    transducer = Transducer.from_table({x: x.lower() for x in tagger.labels}, tape="low").on("pos")
    following = Transducer.from_table({x.lower(): "x" for x in tagger.labels}, tape="first")
    names = [label.lower() for label in tagger.labels]
    scores = np.random.default_rng(1).normal(size=(len(SENTENCE["word"]), len(names)))
    rows = [{"word": row["word"], "low": (names * 3)[: len(row["word"])]} for row in TEST]
    return {
        "tagger": tagger,
        "other": other,
        "scorer": fstcrf.CRF.train(rows, "low", "U1:%x[0,word]\nB\n"),
        "lattice": tagger.lattice(SENTENCE),
        "same_tape": tagger.lattice(SENTENCE),
        "other_lattice": other.lattice(SENTENCE),
        "scorer_lattice": fstcrf.Lattice.from_arrays(names, scores, tape="low"),
        "lattices": compose(tagger).lattices(TEST),
        "other_lattices": compose(other).lattices(TEST),
        "transducer": transducer,
        "next": following,
        "grammar": at_most(1, "P0"),
        "decoder": fstcrf.TokenDecoder(["O", "B-PER", "I-PER"], "iob2"),
    }


def log_z(value: Any) -> list[float]:
    """Return log Z of a lattice, of lattices, or of a tagger's lattice of the sentence."""
    if isinstance(value, Lattices):
        return list(fstcrf.log_partition(value))
    lattice = value if isinstance(value, fstcrf.Lattice) else value.lattice(SENTENCE)
    return [lattice.log_partition()]


def tapes_of(value: Any) -> list[str]:
    """Return the tapes of a result as the table names them."""
    if isinstance(value, Transducer):
        return [value.reads or "", value.tape or ""]
    return list((value[0] if isinstance(value, Lattices) else value).tapes)


@pytest.mark.parametrize(("expression", "operation", "result", "tapes"), ROWS, ids=lambda x: x[:40])
def test_row_of_the_table(
    operands: dict[str, Any], expression: str, operation: str, result: str, tapes: str
) -> None:
    names = dict(operands)
    if "fst" in expression:
        pynini = pynini_or_skip()
        names["fst"] = operands["transducer"].to_fst()
        names["fst_next"] = pynini.project(names["fst"], "output")
    left, *rest = [names[name] for name in expression.split(" @ ")]
    kind = re.match(r"`(\w+)`", result)[1]  # type: ignore[index]
    if operation.startswith("error"):
        error = getattr(errors, kind) if hasattr(errors, kind) else getattr(builtins, kind)
        with pytest.raises(error):
            _ = left @ rest[0]
        return
    value = left
    for right in rest:
        left, value = value, value @ right
    if kind == "Fst":
        assert isinstance(value, pynini_or_skip().Fst)
        return
    assert isinstance(value, getattr(fstcrf, kind))
    assert tapes_of(value) == re.findall(r"`(\w+)`", tapes)
    if kind == "Transducer":
        return
    if operation.startswith("side by side"):
        np.testing.assert_allclose(log_z(value), np.add(log_z(left), log_z(rest[-1])))
    elif len(rest) == 1:  # each label has one output, of score 0
        np.testing.assert_allclose(log_z(value), log_z(left))
    else:
        assert not np.allclose(log_z(value), np.add(log_z(left), log_z(rest[-1])))


def test_every_operation_is_in_the_table() -> None:
    assert {operation.split()[0].strip(":;,") for _, operation, _, _ in ROWS} == {
        "side",
        "composes",
        "error",
    }
    assert len(ROWS) == 25
