"""Transducers from text, OpenFst, arrays, pairs and tables: the same relation, whichever way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Lattice, Transducer
from fstcrf.errors import (
    DataError,
    FstcrfError,
    LabelError,
    LabelWarning,
    OptionError,
    ShapeError,
)
from fstcrf.machines import openfst
from tests.support.fsts import pynini_or_skip

LABELS = ("O", "B-NP", "I-NP")
TEXT = "2 2 O <eps>\n2 7 B-NP NP 0.5\n7 2 O <eps>\n7 7 B-NP NP 0.5\n7 7 I-NP <eps>\n2\n7 0.25\n"


def lattice(length: int = 3) -> Any:
    rng = np.random.default_rng(length)
    return Lattice.from_arrays(LABELS, rng.normal(size=(length, 3)), rng.normal(size=(3, 3)))


def from_arrays() -> Transducer:
    return Transducer.from_arrays(
        [0, 0, 1, 1, 1],
        [0, 1, 0, 1, 2],
        [-1, 0, -1, 0, -1],
        [0, 1, 0, 1, 1],
        [0, -0.5, 0, -0.5, 0],
        [0, -0.25],
        input_symbols=LABELS,
        output_symbols=["NP"],
    )


def through_pynini() -> Transducer:
    pynini_or_skip()
    return Transducer.from_fst(from_arrays().to_fst())


WAYS: dict[str, Callable[[], Transducer]] = {
    "text": lambda: Transducer.from_text(TEXT),
    "its own text": lambda: Transducer.from_text(from_arrays().to_att()),
    "pynini": through_pynini,
}


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_make_the_same_transducer(way: str) -> None:
    found, wanted = lattice() @ WAYS[way](), lattice() @ from_arrays()
    assert found.tapes == ("label", "output")
    ranked, expected = found.nbest(100), wanted.nbest(100)
    assert [path.labels for path in ranked] == [path.labels for path in expected]
    np.testing.assert_allclose([p.score for p in ranked], [p.score for p in expected], atol=1e-12)


def test_files_of_openfst_are_read(tmp_path: Any) -> None:
    (tmp_path / "chunks.fst").write_bytes(openfst.to_bytes(from_arrays(), "standard"))
    machine = Transducer.from_fst(tmp_path / "chunks.fst")
    assert (machine.semiring, machine.input_symbols) == ("tropical", LABELS)
    assert np.isclose((lattice() @ machine).best().score, (lattice() @ from_arrays()).best().score)


def test_pairs_and_tables_are_relations() -> None:
    pairs = Transducer.from_pairs([("B-NP I-NP", "long"), ("B-NP I-NP", []), ("O O", "a b c")])
    assert {path.labels for path in (lattice(2) @ pairs).nbest(9)} == {
        (("B-NP", "I-NP"), ("long",)),
        (("B-NP", "I-NP"), ()),
        (("O", "O"), ("a", "b", "c")),
    }
    table = Transducer.from_table({"O": None, "B-NP": {"N": 0.5, "M": -1.0}, "I-NP": ["N", "I"]})
    ways: dict[str, list[tuple[tuple[str, ...], float]]]
    ways = {"O": [((), 0.0)], "B-NP": [(("N",), 0.5), (("M",), -1.0)]}
    ways["I-NP"] = [(("N",), 0.0), (("I",), 0.0)]
    one = lattice(1)
    wanted = {((x,), w): one.score((x,)) + s for x in LABELS for w, s in ways[x]}
    found = {path.labels: path.score for path in (one @ table).nbest(9)}
    assert found == pytest.approx(wanted)


def test_the_tape_that_is_read_is_named_and_acceptors_add_none() -> None:
    both = fstcrf.compose(lattice(), Lattice.from_arrays(["x", "y"], np.zeros((3, 2)), tape="xy"))
    found = both @ from_arrays().on("label", writes="chunks")
    assert found.tapes == ("label", "xy", "chunks")
    odd = Transducer.from_text("0 1 x\n1 0 x\n1 1 y\n0 0 y\n1\n", tape=None)
    assert (both @ odd).tapes == both.tapes
    assert {path["xy"].count("x") for path in (both @ odd).nbest(1000)} == {1, 3}
    several = fstcrf.Lattices([lattice(2), lattice(0)]) @ from_arrays()
    assert [one.tapes for one in several] == [("label", "output")] * 2


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Transducer.from_text("0 1 a\n"), DataError, "3 columns, expected 1 or 2 or 4 or"),
        (lambda: Transducer.from_text(""), DataError, "no start state"),
        (lambda: Transducer.from_pairs([("a", "b")], [1, 2]), ShapeError, r"scores are \[2\]"),
        (lambda: Transducer.from_table({"a": {"b": float("nan")}}), FstcrfError, "NaN|nan"),
        (lambda: lattice() @ from_arrays().on("pos"), OptionError, "no tape 'pos' to read: the"),
        (lambda: lattice() @ from_arrays().on("label", "label"), OptionError, "is there already"),
        (lambda: Transducer.from_pairs([("a", "b")], tape=None), OptionError, "not an acceptor"),
        (lambda: lattice() @ Transducer.from_pairs([("NP", "b")]), LabelError, "reads 'NP'"),
    ],
)  # fmt: skip
def test_what_is_no_transducer_is_refused(
    make: Callable[[], object], error: type[FstcrfError], text: str
) -> None:
    with pytest.raises(error, match=text):
        make()


def test_machines_without_names_are_told_them() -> None:
    pynini = pynini_or_skip()
    plain = pynini.Fst()
    plain.add_states(1)
    plain.set_start(0).set_final(0)
    plain.add_arc(0, pynini.Arc(2, 1, 0.5, 0))
    with pytest.raises(LabelError, match="or input_symbols= and output_symbols="):
        Transducer.from_fst(plain)
    named = Transducer.from_fst(plain, input_symbols=LABELS, output_symbols=["NP"])
    assert (lattice(2) @ named).best().labels == (("B-NP", "B-NP"), ("NP", "NP"))
    assert np.isclose((lattice(2) @ named).best().score, (lattice(2) @ named).log_partition())


def test_labels_of_tokens_are_scored_where_each_token_writes_one() -> None:
    """A lattice behind a transducer, on the tape that this writes; against all pairs of paths."""
    first, second = lattice(3), Lattice.from_arrays(("N", "I"), np.eye(3, 2), tape="output")
    table = Transducer.from_table({"O": "I", "B-NP": ["N", "I"], "I-NP": "I"})
    scores = [p.score + second.score(p["output"]) for p in (first @ table).nbest(1000)]
    found = first @ table @ second
    assert np.isclose(found.log_partition(), np.logaddexp.reduce(scores))
    with pytest.raises(ShapeError, match="reads a label and writes none in state 0: compose a"):
        _ = first @ Transducer.from_table({"O": None, "B-NP": "N"}) @ second


# --- Text there and back --------------------------------------------------------------------------

SYMBOLS = ["a", "0", "7", "a b", "\xa0", "x\u3000y", "\u2028", "\x85", "a\tb", "a\nb", "\r", "@0@",
           "@_EPSILON_SYMBOL_@", "<epsilon>", "a:b", "#", "\ufeff", "\x0b", "−1", "٣"]  # fmt: skip


@pytest.mark.filterwarnings("ignore::fstcrf.errors.LabelWarning")
@pytest.mark.parametrize("tape", ["output", None])
@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("other", ["b", "1", "0"])
def test_text_comes_back_or_the_remedy_works(symbol: str, other: str, tape: str | None) -> None:
    inputs = (other, symbol) if other != symbol else (symbol,)
    outputs = inputs if tape is None else (symbol,)
    one = Transducer.from_arrays(
        [0, 0, 1], [0, len(inputs) - 1, -1], [0, len(outputs) - 1, -1], [1, 1, 0], [0.5, -1.0, 0.0],
        final=[-np.inf, 0.25], input_symbols=inputs, output_symbols=outputs, tape=tape,
    )  # fmt: skip
    tables: dict[str, Any] = {"input_symbols": inputs, "output_symbols": outputs, "tape": tape}
    if set(symbol) & set("\t\n\r "):
        with pytest.raises(LabelError, match="numeric=True"):
            one.to_att()
    else:
        assert same(Transducer.from_text(one.to_att(), tape=tape), one)
        assert same(Transducer.from_text(one.to_att(), **tables), one)
    assert same(Transducer.from_text(one.to_att(numeric=True), numeric=True, **tables), one)
    lattice = Lattice.from_paths([inputs], [0.5], inputs)
    assert lattice.to_att(numeric=True).splitlines()[0].split("\t")[2] == "1"


def same(one: Transducer, other: Transducer) -> bool:
    arrays = ("source", "input", "output", "target", "score", "final")
    names = ("input_symbols", "output_symbols", "tape")
    return all(getattr(one, x) == getattr(other, x) for x in names) and all(
        np.array_equal(getattr(one, x), getattr(other, x)) for x in arrays
    )


@pytest.mark.parametrize("name", ["@0@", "@_EPSILON_SYMBOL_@", "<epsilon>", "0"])
def test_the_epsilon_of_other_programs_is_named(name: str) -> None:
    text = f"0 0 1 {name}\n0"
    with pytest.warns(LabelWarning, match=f"'{name}' is a symbol|such as 0"):
        found = Transducer.from_text(text)
    assert found.output_symbols == (name,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        meant = Transducer.from_text(text, epsilon=name)
        plain = Transducer.from_text(text, epsilon="<eps>")
    assert meant.output.tolist() == [-1]
    assert same(plain, found)
    with pytest.raises(OptionError, match="needs input_symbols= and output_symbols="):
        Transducer.from_text("0 0 1 0\n0", numeric=True)
    with pytest.raises(DataError, match="label 'x' is not a whole number"):
        Transducer.from_text("0 0 1 x\n0", numeric=True, input_symbols=["a"], output_symbols=["a"])
    with pytest.raises(DataError, match=r"label 2 is too large, .* below 2$"):
        Transducer.from_text("0 0 2 1\n0", numeric=True, input_symbols=["a"], output_symbols=["a"])
