"""Grammars against machines that pynini makes of the same expressions, and pynini's as grammars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf import constraints as c
from fstcrf.errors import GrammarError, LabelError
from fstcrf.machines.grammar import Acceptor, Grammar, equivalent
from fstcrf.machines.grammar.automata import to_fst
from fstcrf.machines.grammar.syntax import fields
from tests.support.fsts import one_of

pynini = pytest.importorskip("pynini", reason="pynini is not installed")

LABELS = ("O", "B-NP", "I-NP", "B-VP", "I-VP")


O, B_NP, I_NP, B_VP, I_VP = (one_of(k) for k in range(1, 6))  # noqa: E741
ANY = one_of(1, 2, 3, 4, 5)
STAR = pynini.closure(ANY).optimize()


def joined(*parts: Any) -> Any:
    whole = parts[0].copy()
    for part in parts[1:]:
        whole = whole + part
    return whole.optimize()


def without(unwanted: Any) -> Any:
    return pynini.difference(STAR, unwanted).optimize()


BIO_EXPRESSION = pynini.closure(
    pynini.union(O, B_NP + pynini.closure(I_NP), B_VP + pynini.closure(I_VP))
)
OTHERS = pynini.closure(one_of(1, 3, 4, 5))
CASES: list[tuple[str, Grammar, Any]] = [
    ("bio", c.bio(), BIO_EXPRESSION),
    (
        "at most two of a label",
        c.at_most(2, "B-NP"),
        OTHERS + pynini.closure(B_NP + OTHERS, 0, 2),
    ),
    ("order", c.before("B-NP", "B-VP"), without(STAR + B_VP + STAR + B_NP + STAR)),
    (
        "never behind",
        c.neighbours({"O": ["O", "B-NP", None]}),
        without(joined(STAR, O, one_of(3, 4, 5), STAR)),
    ),
    (
        "requires",
        c.requires("B-NP", "B-VP"),
        pynini.union(pynini.closure(one_of(1, 3, 4, 5)), joined(STAR, B_VP, STAR)),
    ),
    (
        "a file",
        Grammar.from_text('export X = ("[O]" | "[B-NP]" "[I-NP]"* | "[B-VP]" "[I-VP]"*)*;'),
        BIO_EXPRESSION,
    ),
    (
        "a difference",
        Grammar.from_text('export X = any* - (any* "[O]" "[O]" any*) - "[B-VP]"{2,3};'),
        pynini.difference(without(joined(STAR, O, O, STAR)), pynini.closure(B_VP, 2, 3)),
    ),
]


@pytest.mark.parametrize(("name", "grammar", "fst"), CASES, ids=[case[0] for case in CASES])
def test_the_same_as_pynini_s(name: str, grammar: Grammar, fst: Any) -> None:
    (acceptor,) = grammar.bind(LABELS)
    expected = pynini.optimize(fst.copy().rmepsilon())
    found = to_fst(acceptor, "standard")
    found.set_input_symbols(None)
    found.set_output_symbols(None)
    assert pynini.isomorphic(found.copy().optimize(), expected)
    assert acceptor.n_states == expected.num_states()


@pytest.mark.parametrize("k", [0, 1, 3])
def test_weights_are_costs(k: int) -> None:
    (acceptor,) = c.at_most(k, "B-NP", weight=-0.75).bind(LABELS)
    fst = to_fst(acceptor, "standard")
    sentence = joined(B_NP, O, B_NP, B_NP, I_NP)
    sentence.set_input_symbols(fst.input_symbols())
    sentence.set_output_symbols(fst.output_symbols())
    distance = pynini.shortestdistance(pynini.compose(sentence, fst), reverse=True)[0]
    assert float(distance) == 0.75 * max(0, 3 - k)
    assert acceptor.walk(["B-NP", "O", "B-NP", "B-NP", "I-NP"]) == -0.75 * max(0, 3 - k)


# --- Machines of pynini as grammars ------------------------------------------------------------


def bound(fst: Any, labels: tuple[str, ...] = LABELS) -> Acceptor:
    (acceptor,) = Grammar.from_fst(fst, name="mine").bind(labels)
    return acceptor


@pytest.mark.parametrize("arc_type", ["standard", "log", "log64"])
@pytest.mark.parametrize("grammar", [c.bio(), c.at_most(1, "NP", weight=-0.5), c.contiguous("NP")])
def test_there_and_back(arc_type: Any, grammar: Grammar) -> None:
    (acceptor,) = grammar.bind(LABELS)
    assert equivalent(acceptor, bound(to_fst(acceptor, arc_type)))


def test_symbols_are_matched_by_name() -> None:
    (acceptor,) = c.bio().bind(LABELS)
    turned = LABELS[::-1]
    assert equivalent(bound(to_fst(acceptor), turned), c.bio().bind(turned)[0])
    plain = to_fst(acceptor).set_input_symbols(None).set_output_symbols(None)
    assert equivalent(bound(plain), acceptor)


def test_the_score_is_that_of_the_best_path() -> None:
    cheap, dear = O.copy(), ANY.copy()
    cheap.set_final(1, 0.5)
    dear.set_final(1, 2.0)
    acceptor = bound(pynini.closure(pynini.union(cheap, dear)))
    assert acceptor.walk(["O", "B-NP", "O"]) == -3.0
    assert acceptor.n_states == 1


def test_pairs_of_tapes() -> None:
    (acceptor,) = c.pairs([("a", "y")], ("l", "r")).bind({"l": ["a", "b"], "r": ["x", "y"]})
    fst = to_fst(acceptor)
    assert [arc.ilabel for arc in fst.arcs(0)] == [2]
    assert fst.input_symbols().find(2) == "l=a r=y"


def test_symbols_of_tapes_can_be_told_apart() -> None:
    """As in ``.grm`` files, where a blank within a label has a backslash before it."""
    labels = {"l": ["a r=x", "a", "b\\"], "r": ["x r=x", "x"]}
    (acceptor,) = c.pairs([("a", "x")], ("l", "r"), weight=-1.0).bind(labels)
    table = to_fst(acceptor).input_symbols()
    symbols = [table.find(k) for k in range(1, 7)]
    read = [dict(fields(symbol, ("l", "r"))) for symbol in symbols]
    assert read == [{"l": one, "r": two} for one in labels["l"] for two in labels["r"]]


def test_what_is_no_grammar() -> None:
    rewriting = pynini.Fst()
    rewriting.add_states(2)
    rewriting.set_start(0)
    rewriting.set_final(1)
    rewriting.add_arc(0, pynini.Arc(1, 2, 0, 1))
    with pytest.raises(GrammarError, match="mine writes other symbols than it reads"):
        Grammar.from_fst(rewriting, name="mine")
    with pytest.raises(GrammarError, match=r"mine: symbol 7, but there are 5 labels"):
        bound(one_of(7))
    with pytest.raises(GrammarError, match=r"mine: symbol 'I-VP' is no label; the nearest are"):
        bound(to_fst(c.bio().bind(LABELS)[0]), LABELS[:4])
    with pytest.raises(GrammarError, match="mine accepts no sequence of these 5 labels"):
        bound(pynini.Fst())
    loops = pynini.union(
        pynini.closure(weighted(O, 1.0)) + B_NP, pynini.closure(weighted(O, 2.0)) + B_VP
    )
    with pytest.raises(
        GrammarError, match="cannot make the machine deterministic: more than 10000 states"
    ):
        bound(loops)
    silent = pynini.Fst()
    silent.add_states(1)
    silent.set_start(0)
    silent.set_final(0)
    silent.add_arc(0, pynini.Arc(0, 0, -1.0, 0))
    with pytest.raises(GrammarError, match="a loop that reads no label has a negative weight"):
        bound(silent + O)


def weighted(fst: Any, cost: float) -> Any:
    copy = fst.copy()
    copy.set_final(1, cost)
    return copy


def test_labels_that_symbol_tables_cannot_hold() -> None:
    (acceptor,) = c.at_most(1, "a").bind(["a", "<eps>"])
    with pytest.raises(LabelError, match="<eps>"):
        to_fst(acceptor)


def test_scores_keep_their_digits() -> None:
    weight = -0.1234567890123456
    (acceptor,) = c.at_most(0, "O", weight=weight).bind(LABELS)
    assert bound(to_fst(acceptor, "log64")).walk(["O", "O"]) == 2 * weight
    assert np.isclose(bound(to_fst(acceptor, "standard")).walk(["O"]), weight, rtol=1e-6)
