"""Grammars: bound early or late, combined, scored."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from fstcrf import constraints as c
from fstcrf.errors import GrammarError
from fstcrf.machines.grammar import Grammar

LABELS = ["O", "B-NP", "I-NP"]


def test_unbound_until_labels_are_known() -> None:
    grammar = c.at_most(1, "NP")
    assert grammar.labels is None
    with pytest.raises(
        GrammarError, match=r"is not bound to labels: bind it with \.bound\(labels\)"
    ):
        grammar.accepts(["O"])
    assert grammar.bound(LABELS).accepts(["O"])
    with pytest.raises(GrammarError, match="no type 'VP'"):
        c.at_most(1, "VP").bound(LABELS)


def test_bindings_are_kept() -> None:
    grammar = c.at_most(1, "NP")
    first = grammar.bind(LABELS)
    assert grammar.bind(tuple(LABELS))[0] is first[0]
    assert (grammar & c.bio()).bind(LABELS)[0] is first[0]
    assert grammar.bind([*LABELS, "X"])[0] is not first[0]


def test_labels_of_combinations() -> None:
    bound, free = c.bio().bound(LABELS), c.at_most(1, "NP")
    assert (bound & free).labels == (free & bound).labels == bound.labels
    assert (bound & bound).labels == bound.labels
    other = c.bio(tape="ner").bound({"ner": ["O", "B-X"]})
    chunk = c.bio(tape="chunk").bound({"chunk": LABELS})
    assert (chunk & other).labels == {"chunk": tuple(LABELS), "ner": ("O", "B-X")}
    with pytest.raises(GrammarError, match="bound to different labels"):
        _ = bound & c.bio().bound(["O"])
    with pytest.raises(TypeError):
        _ = bound & 1  # type: ignore[operator]


def test_from_acceptor() -> None:
    (acceptor,) = c.at_most(1, "NP").bind(LABELS)
    grammar = Grammar.from_acceptor(acceptor)
    assert grammar.bind(LABELS) == (acceptor,)
    with pytest.raises(
        GrammarError, match="does not have the labels that the grammar was made for"
    ):
        grammar.bind(["O"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "cannot bind the grammar: the label set is empty"),
        ({}, "cannot bind the grammar: no tapes are given"),
        ({"pos": []}, "tape 'pos': cannot bind the grammar: the label set is empty"),
        ("abc", "labels are 'abc', expected a list of labels"),
        ({"pos": "abc"}, "a dict of labels has the keys 0 to 0"),
        ([1, 2], "expected a list of labels"),
        (["a", "b", "a"], "label 'a' occurs twice"),
        ({"pos": ["a", "a"]}, "tape 'pos': label 'a' occurs twice"),
    ],
)
def test_what_is_no_label_set(labels: Any, message: str) -> None:
    with pytest.raises(GrammarError) as raised:
        c.bio().bind(labels)
    assert message in str(raised.value)


def test_labellings_of_other_tapes() -> None:
    grammar = c.bio(tape="chunk").bound({"chunk": LABELS, "pos": ["N"]})
    assert grammar.accepts({"chunk": ["O"], "pos": ["N"]})
    with pytest.raises(
        GrammarError, match=r"the labelling has the tapes '', but .* reads 'chunk', 'pos'"
    ):
        grammar.accepts(["O"])
    one = c.bio().bound({"chunk": LABELS})
    assert one.accepts(["O"])
    assert one.accepts({"chunk": ["O"]})


WITHOUT_PYNINI = """
import sys
sys.modules["pynini"] = None
from fstcrf import constraints as c
assert "lark" not in sys.modules  # it is for files only
from fstcrf.errors import MissingDependencyError
from fstcrf.machines.grammar import Grammar, intersect, minimise, simplified, two_local
from fstcrf.machines.grammar.automata import to_fst
labels = ["O", "B-stime", "I-stime", "B-etime", "I-etime", "B-location", "B-speaker"]
grammar = Grammar.shipped("seminar", labels) & c.contiguous() & c.if_present("stime", "etime")
assert grammar.accepts(["B-stime", "O", "B-etime"])
scheme, *others = grammar.bind(labels)
assert two_local(scheme) is not None
assert minimise(intersect(scheme, others[0])).n_states == 5
outside = Grammar.from_text('export X = any* - (any* label["[BI]-.*"] any*);', labels)
assert outside.accepts(["O", "O"]) and not outside.accepts(["O", "I-stime"])
try:
    to_fst(minimise(scheme))
except MissingDependencyError as error:
    print(error)
"""


def test_grammars_run_without_pynini() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_PYNINI],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "pynini is needed for this and not installed: `pip install pynini`"
    )
    assert done.stdout.count("\n") == 1
