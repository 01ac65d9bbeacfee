"""Law: every function that takes labels takes the same forms of them, and refuses the same.

Doors beside forms. `tests/extras` asks the layers of networks, which need PyTorch and JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from fstcrf import Grammar, Lattice, Lattices, TokenDecoder, Transducer, constraints, decode
from fstcrf.errors import FstcrfError, GrammarError
from fstcrf.ext.feedback import untrained
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import Naming, from_att, symbols
from fstcrf.machines.topology import chain_topology
from fstcrf.text.corpus import legal_transitions

LABELS = ("O", "B-A", "I-A")
FORMS: dict[str, Any] = {
    "list": list(LABELS),
    "tuple": LABELS,
    "array": np.array(LABELS),
    "id2label": {2: "I-A", 0: "O", 1: "B-A"},
    "id2label of NumPy": {np.int64(k): label for k, label in enumerate(LABELS)},
    "id2label of JSON": {"2": "I-A", "0": "O", "1": "B-A"},
}
REFUSED: dict[str, tuple[Any, str]] = {
    "gap": ({0: "O", 2: "B-A"}, "has the keys 0 to 1"),
    "gap of JSON": ({"0": "O", "2": "B-A"}, "has the keys 0 to 1"),
    "from 1": ({1: "O", 2: "B-A"}, "has the keys 0 to 1"),
    "not ids": ({"a": "O", "b": "B-A"}, "has the keys 0 to 1"),
    "other digits": ({"0": "O", "01": "B-A"}, "has the keys 0 to 1"),
    "one id twice": ({"0": "O", 0: "B-A"}, "has the keys 0 to 1"),
    "label2id": ({"O": 0, "B-A": 1}, "label2id, expected id2label"),
    "twice": (["B-A", "O", "B-A"], "label 'B-A' occurs twice, at 0 and 2"),
    "twice by number": ({0: "O", 2: "B-A", 1: "B-A"}, "label 'B-A' occurs twice, at 1 and 2"),
    "twice in JSON": ({"0": "O", "1": "B-A", "2": "B-A"}, "'B-A' occurs twice, at 1 and 2"),
    "numbers": ([1, 2], "expected a list of labels"),
    "numbers by number": ({0: 0}, "expected a list of labels|expected id2label"),
    "a set": ({"O"}, "expected a list of labels"),
    "a number": (3, "expected a list of labels"),
}

BIO = "export BIO = bio;"
ZEROS = np.zeros((2, 3))
STEP = [[0, 0, 0]]
DATA = [{"word": ["a", "b"], "y": ["O", "B-A"]}]
TEMPLATE = "U:%x[0,word]\nB"


def machine(labels: Any) -> Machine:
    """Return a machine that reads the first label, whose ids are named by these labels."""
    return from_att("0 1 1\n1", Naming((labels, labels), tape=None), numeric=True)


def bound(grammar: Grammar) -> tuple[str, ...]:
    assert grammar.labels is not None
    return next(iter(grammar.labels.values()))


def written(side: str, labels: Any) -> tuple[str, ...]:
    table = {"input_symbols": LABELS, "output_symbols": LABELS, side: labels}
    found: tuple[str, ...] = getattr(
        Transducer.from_arrays([0], [0], [0], [0], **table, tape="y"), side
    )
    return found


def of_spans(labels: Any) -> tuple[str, ...]:
    """The labels of spans are without O, which the lattice adds."""
    if isinstance(labels, Mapping):
        labels = {k: "Z" if label == "O" else label for k, label in labels.items()}
    elif isinstance(labels, list | tuple | np.ndarray):
        labels = ["Z" if label == "O" else label for label in labels]
    *found, outside = Lattice.from_spans(1, [], labels=labels).labels
    assert outside == "O"
    return tuple("O" if label == "Z" else label for label in found)


DOORS: dict[str, Callable[[Any], tuple[str, ...]]] = {
    "decode": lambda labels: decode(ZEROS[None], labels=labels)["label"].label_set,
    "Lattices.from_arrays": lambda labels: Lattices.from_arrays(labels, [ZEROS])[0].labels,
    "Lattice.from_arrays": lambda labels: Lattice.from_arrays(labels, ZEROS).labels,
    "Lattice.from_segments": lambda labels: (
        Lattice.from_segments(*(1, [0], [1], [0], [0.0], labels)).labels
    ),
    "Lattice.from_spans": of_spans,
    "Lattice.from_paths": lambda labels: Lattice.from_paths([["O"]], [0], labels).labels,
    "Lattice.from_ctc": lambda labels: Lattice.from_ctc(ZEROS, labels=labels).labels,
    "Lattice.from_machine": lambda labels: Lattice.from_machine(machine(labels), labels).labels,
    "Transducer, input": lambda labels: written("input_symbols", labels),
    "Transducer, output": lambda labels: written("output_symbols", labels),
    "TokenDecoder": lambda labels: TokenDecoder(labels).labels,
    "Grammar.from_text": lambda labels: bound(Grammar.from_text(BIO, labels)),
    "Grammar.bound": lambda labels: bound(constraints.bio().bound(labels)),
    "Grammar.from_arrays": lambda labels: bound(Grammar.from_arrays(labels, STEP).bound(labels)),
    "chain_topology": lambda labels: chain_topology(labels, 1).labels,
    "untrained": lambda labels: untrained(DATA, labels, TEMPLATE, scheme="iob2").labels,
    "symbols": lambda labels: symbols(labels)[1:],
    "legal_transitions": lambda labels: LABELS if legal_transitions(labels).shape == (4, 4) else (),
}


@pytest.mark.parametrize("door", DOORS)
def test_labels_in_every_form(door: str) -> None:
    assert {form: DOORS[door](FORMS[form]) for form in FORMS} == dict.fromkeys(FORMS, LABELS)


@pytest.mark.parametrize("door", DOORS)
def test_labels_that_are_refused(door: str) -> None:
    for given, says in REFUSED.values():
        with pytest.raises(FstcrfError, match=says):
            DOORS[door](given)


@pytest.mark.parametrize("door", [door for door in DOORS if door != "chain_topology"])
def test_a_text_is_no_list_of_labels(door: str) -> None:
    with pytest.raises(FstcrfError, match=r"labels are 'OBI', expected a list of labels"):
        DOORS[door]("OBI")


@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith("id2label")])
def test_the_order_is_that_of_the_ids_in_the_scores_too(form: str) -> None:
    scores = [[0.0, 0.0, 5.0]]
    assert Lattice.from_arrays(FORMS[form], scores).best().labels == ("I-A",)
    assert decode([scores], labels=FORMS[form]).labels() == [["I-A"]]


@pytest.mark.parametrize("form", FORMS)
def test_a_grammar_of_tapes_takes_all_forms_for_each(form: str) -> None:
    sets: Any = {"a": FORMS[form], "b": ["x"]}
    grammar = constraints.bio(tape="a").bound(sets)
    assert grammar.labels == {"a": LABELS, "b": ("x",)}


@pytest.mark.parametrize("form", REFUSED)
def test_a_grammar_of_tapes_names_the_tape_of_wrong_labels(form: str) -> None:
    given, says = REFUSED[form]
    with pytest.raises(GrammarError, match=f"tape 'a': .*({says})"):
        constraints.bio(tape="a").bound({"a": given, "b": ["x"]})
