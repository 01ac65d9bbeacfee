"""Laws of the arrays that public functions take.

Doors beside array arguments. An array that is changed behind an object changes none of its answers,
and arrays that an object shows are read-only. A number that the library's own integers cannot hold
is refused, in every integer type that NumPy has, and one that they can hold is read as it is.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Grammar, Lattice, Lattices, TokenDecoder, Transducer
from fstcrf.errors import FstcrfError, GrammarError, LabelWarning
from fstcrf.ext.tokens import Pieces

A, END = ["a", "b"], [-np.inf, 0.0]


def _ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def _floats(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


def _transducer(**arrays: Any) -> Transducer:
    return Transducer.from_arrays(**arrays, input_symbols=A, output_symbols=A, tape="out")


def _class(**arrays: Any) -> Transducer:
    named = {"p": arrays.pop("uses")}
    return Transducer(**arrays, input_symbols=("a", "b"), output_symbols=("a", "b"), named=named)


def _narrow() -> dict[str, Any]:
    arrays = {k: v.astype(np.int32) if v.dtype.kind == "i" else v for k, v in _arcs().items()}
    return {**arrays, "uses": _floats(1, 0, 2, 0)}


def _machine_answer(machine: Transducer) -> Any:
    lattice = Lattice.from_arrays(A, [[0.5, -0.5]] * 2, tape="in")
    ones = np.ones(len(machine.score) + len(machine.final))
    return (lattice @ machine).log_partition(), machine.to_att(), machine.by_name(ones)


def _lattice_answer(lattice: Any) -> Any:
    return lattice.log_partition(), lattice.best(), lattice.to_att()


def _arcs() -> dict[str, Any]:
    return {
        "source": _ints(0, 1), "input": _ints(0, 1), "output": _ints(1, 0), "target": _ints(1, 1),
        "score": _floats(0.5, 0.25), "final": _floats(*END),
    }  # fmt: skip


def _failing(target: Any, score: Any) -> Transducer:
    plain = {k: v for k, v in _arcs().items() if k != "final"}
    return _transducer(**plain, final=END).with_failures(target, score)


def _segments(**arrays: Any) -> Any:
    return Lattice.from_segments(2, **arrays, labels=A)


def _pieces(logits: Any, offsets: Any) -> Any:
    return TokenDecoder(["O", "B-X", "I-X"]).lattices([Pieces(logits, offsets, None, "ab cd")])


def _batch(scores: Any, lengths: Any) -> Any:
    return Lattices.from_arrays(A, scores, lengths=lengths)


Door = tuple[Callable[..., Any], Callable[[], dict[str, Any]], Callable[[Any], Any]]

DOORS: dict[str, Door] = {
    "Transducer.from_arrays": (_transducer, _arcs, _machine_answer),
    "Transducer": (
        _class,
        _narrow,
        _machine_answer,
    ),
    "with_scores": (
        lambda **scores: _transducer(**_arcs()).with_scores(**scores),
        lambda: {"score": _floats(1, 2), "final": _floats(0, 1)},
        _machine_answer,
    ),
    "with_failures": (
        _failing,
        lambda: {"target": _ints(-1, 0), "score": _floats(0, -1)},
        _machine_answer,
    ),
    "Transducer.from_pairs": (
        lambda scores: Transducer.from_pairs([("a", "b"), ("a b", "b")], scores),
        lambda: {"scores": _floats(0, -1)},
        lambda machine: (machine.to_att(), machine.project("input").example()),
    ),
    "Lattice.from_arrays": (
        lambda **arrays: Lattice.from_arrays(A, **arrays),
        lambda: {
            "emissions": np.arange(6.0).reshape(3, 2), "transitions": np.arange(4.0).reshape(2, 2),
            "initial": _floats(1, 0), "final": _floats(0, 2),
        },
        _lattice_answer,
    ),
    "Lattice.from_segments": (
        _segments,
        lambda: {
            "start": _ints(0, 0, 1), "end": _ints(2, 1, 2), "label": _ints(0, 1, 1),
            "score": _floats(0, 1, 2), "transitions": np.arange(4.0).reshape(2, 2),
            "initial": _floats(1, 0), "final": _floats(0, 2),
        },
        _lattice_answer,
    ),
    "Lattice.from_paths": (
        lambda scores: Lattice.from_paths([["a"], ["b", "a"]], scores),
        lambda: {"scores": _floats(0, -1)},
        _lattice_answer,
    ),
    "Lattice.from_ctc": (
        Lattice.from_ctc,
        lambda: {"scores": np.arange(6.0).reshape(2, 3)},
        lambda lattice: (lattice.log_partition(), lattice.best()),
    ),
    "Lattice.restrict": (
        lambda mask: Lattice.from_arrays(A, np.zeros((2, 2))).restrict(mask),
        lambda: {"mask": np.array([[True, False], [True, True]])},
        _lattice_answer,
    ),
    "Lattices.from_arrays": (
        _batch,
        lambda: {"scores": np.arange(12.0).reshape(2, 3, 2), "lengths": _ints(2, 3)},
        lambda several: (several.log_partition().tolist(), [x.best() for x in several]),
    ),
    "Grammar.from_arrays": (
        lambda **arrays: Grammar.from_arrays(A, **arrays),
        lambda: {
            "target": np.array([[1, -1], [-1, 0]]), "score": np.arange(4.0).reshape(2, 2),
            "final": _floats(0, -1),
        },
        lambda grammar: (grammar.bound(A).score(["a"]), grammar.bound(A).accepts(["a", "b", "b"])),
    ),
    "TokenDecoder.lattices": (
        _pieces,
        lambda: {"logits": np.arange(6.0).reshape(2, 3), "offsets": np.array([[0, 2], [3, 5]])},
        lambda several: (several.log_partition().tolist(), [x.best() for x in several]),
    ),
    "decode": (
        lambda scores, lengths: fstcrf.decode(scores, lengths, labels=A),
        lambda: {"scores": np.arange(12.0).reshape(2, 3, 2), "lengths": _ints(2, 3)},
        lambda answer: (answer.ids.tolist(), answer.scores.tolist()),
    ),
}  # fmt: skip
CASES = [(door, name) for door, (_, arrays, _) in DOORS.items() for name in arrays()]


@pytest.mark.parametrize(("door", "name"), CASES)
def test_an_array_that_is_changed_behind_an_object_changes_no_answer(door: str, name: str) -> None:
    made, arrays, answer = DOORS[door]
    wanted = answer(made(**arrays()))
    given = arrays()
    found = made(**given)
    values = given[name]
    values[...] = ~values if values.dtype == bool else values[::-1].copy() + values.dtype.type(1)
    assert answer(found) == wanted
    assert answer(pickle.loads(pickle.dumps(found))) == wanted


@pytest.mark.parametrize("copied", [lambda x: x, copy.copy, copy.deepcopy, "pickle"])
def test_the_arrays_of_a_transducer_are_read_only(copied: Any) -> None:
    machine = _class(**_narrow())
    shown = pickle.loads(pickle.dumps(machine)) if copied == "pickle" else copied(machine)
    made = [shown, shown.closure(), shown | shown, shown.invert(), shown.with_scores([1.0, 2.0])]
    for one in made:
        several = [getattr(one, name) for name in (*_arcs(), "final")]
        for array in [*several, *one.named.values()]:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        with pytest.raises(TypeError):
            one.named["q"] = np.zeros(4)


def test_other_scores_answer_like_a_machine_made_of_them() -> None:
    """Also where other arcs and ends are forbidden."""
    machine, rng = _transducer(**_arcs()), np.random.default_rng(0)
    lattice = Lattice.from_arrays(A, rng.normal(size=(3, 2)), tape="in")
    for forbidden in (False, True, False):
        score, final = rng.normal(size=2), rng.normal(size=2)
        score[1 if forbidden else 2 :] = -np.inf
        arrays = {**_arcs(), "score": score, "final": final}
        found, wanted = lattice @ machine.with_scores(score, final), lattice @ _transducer(**arrays)
        assert found.log_partition() == wanted.log_partition()
        if not forbidden:
            assert found.best() == wanted.best()
            np.testing.assert_array_equal(found.gradient()["out"], wanted.gradient()["out"])


# --- Numbers that no integer of the library holds -------------------------------------------------

TOO_LARGE = [2**31, 2**32, 2**32 - 1, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1]
KINDS = ["<i8", ">i8", "<u8", ">u8", "<u4", ">u4"]
INTEGERS = [
    (door, name)
    for door, name in CASES
    if DOORS[door][1]()[name].dtype.kind == "i" and door != "Transducer"
]


@pytest.mark.parametrize(("door", "name"), INTEGERS)
def test_a_number_that_would_wrap_is_refused_or_read_as_it_is(door: str, name: str) -> None:
    made, arrays, answer = DOORS[door]
    wanted = answer(made(**arrays()))
    for kind in KINDS:
        plain = arrays()
        if plain[name].min() >= 0 or "i" in kind:
            plain[name] = plain[name].astype(kind)
            assert answer(made(**plain)) == wanted, kind
        for large in TOO_LARGE:
            given = arrays()
            if large > np.iinfo(kind).max:
                continue
            given[name] = np.maximum(given[name], 0).astype(kind)
            given[name].flat[-1] = large
            with pytest.raises(FstcrfError):
                made(**given)


@pytest.mark.parametrize("symbol", ["0", "1", "00", "-1", "a", "0.5"])
@pytest.mark.parametrize("tape", [None, "out"])
def test_symbols_that_look_like_numbers_come_back_from_text(symbol: str, tape: str | None) -> None:
    machine = Transducer.from_arrays(
        [0], [0], [0], [1], None, END, input_symbols=[symbol], output_symbols=[symbol], tape=tape
    )
    text = machine.to_att()
    with nullcontext() if not symbol.isdigit() else pytest.warns(LabelWarning, match="are numbers"):
        read = Transducer.from_text(text, tape=tape)
    assert read.input_symbols == (symbol,)
    symbols: Any = {"input_symbols": [symbol], "output_symbols": [symbol]}
    again = Transducer.from_text(machine.to_att(numeric=True), numeric=True, tape=tape, **symbols)
    assert again.to_att() == text


@pytest.mark.parametrize("cost", ["1e301", "-1e301", "1e308", "-1.7e308"])
def test_costs_whose_sums_overflow_are_refused(cost: str) -> None:
    with pytest.raises(GrammarError, match="at most 1e"):
        Grammar.from_text(f'export X = "[a]" <{cost}>;', A)
    with pytest.raises(FstcrfError, match="at most 1e"):
        Transducer.from_grammar('export X = "[a]" <?p>;', A, weights={"p": float(cost)})
    fine = Grammar.from_text('export X = ("[a]" <-1e300>) ("[a]" <-1e300>);', A)
    assert fine.score(["a", "a"]) == 2e300
