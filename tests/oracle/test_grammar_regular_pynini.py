"""Random regular expressions of ``.grm`` files against the machines that pynini makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf.errors import GrammarError
from fstcrf.machines.grammar import Acceptor, Grammar
from fstcrf.machines.grammar.automata import to_fst
from tests.support.fsts import one_of

pynini = pytest.importorskip("pynini", reason="pynini is not installed")

LABELS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Case:
    """An expression as text, and as a machine of pynini; symbol k + 1 is label k."""

    text: str
    fst: Any
    scored: bool = False


def token(*ids: int) -> Any:
    """One token, any of these labels."""
    return one_of(*(k + 1 for k in ids))


def small(fst: Any) -> Any:
    return pynini.determinize(pynini.epsnormalize(fst)).minimize()


def empty() -> Any:
    fst = pynini.Fst()
    fst.set_start(fst.add_state())
    fst.set_final(0)
    return fst


def cost(fst: Any, value: float) -> Any:
    end = empty()
    end.set_final(0, value)
    return fst + end


ATOMS = [
    Case('"[a]"', token(0)),
    Case('"[b]"', token(1)),
    Case('"[d]"', token(3)),
    Case("any", token(0, 1, 2, 3)),
    Case('label["[bc]"]', token(1, 2)),
    Case('label["[x]"]', token()),
    Case('""', empty()),
]
TIMES: list[tuple[str, int, int | None]] = [
    ("*", 0, None),
    ("+", 1, None),
    ("?", 0, 1),
    ("{3}", 3, 3),
    ("{0}", 0, 0),
    ("{2,4}", 2, 4),
    ("{2,}", 2, None),
]


def repeated(fst: Any, low: int, high: int | None) -> Any:
    if high == 0:
        return empty()
    return pynini.closure(fst, low) if high is None else pynini.closure(fst, low, high)


def taken(left: Any, right: Any) -> Any:
    """`right` has no scores; without a state pynini's difference would not know what to do."""
    right = small(right)
    return pynini.difference(left, right) if right.num_states() else left.copy()


def grown(inner: st.SearchStrategy[Case], *, scores: bool) -> st.SearchStrategy[Case]:
    def both(sign: str, made: Callable[[Any, Any], Any]) -> Callable[[Case, Case], Case]:
        return lambda a, b: Case(
            f"({a.text}{sign}{b.text})", made(a.fst, b.fst), a.scored or b.scored
        )

    ways = [
        st.builds(both(" ", lambda a, b: a + b), inner, inner),
        st.builds(both(" | ", pynini.union), inner, inner),
        st.builds(both(" - ", taken), inner, inner.filter(lambda case: not case.scored)),
        st.builds(
            lambda a, times: Case(
                f"({a.text}){times[0]}", repeated(a.fst, times[1], times[2]), a.scored
            ),
            inner,
            st.sampled_from(TIMES),
        ),
    ]
    if scores:
        ways.append(
            st.builds(
                lambda a, value: Case(f"({a.text} <{value}>)", cost(a.fst, value), scored=True),
                inner,
                st.sampled_from([0.0, 0.25, 1.0, 2.5]),
            )
        )
    return st.one_of(ways)


def cases(*, scores: bool) -> st.SearchStrategy[Case]:
    return st.recursive(
        st.sampled_from(ATOMS), lambda inner: grown(inner, scores=scores), max_leaves=8
    )


def bound(case: Case) -> Acceptor | None:
    """Return what we make of an expression; None where it accepts no token or too much."""
    try:
        (acceptor,) = Grammar.from_text(f"export X = {case.text};").bind(LABELS)
    except GrammarError as error:
        if "accepts no sentence" in str(error):
            return None
        if case.scored and "more than 10000 states" in str(error):
            return None
        raise
    return acceptor


def plain(acceptor: Acceptor) -> Any:
    return to_fst(acceptor, "standard").set_input_symbols(None).set_output_symbols(None)


@given(cases(scores=False))
def test_the_same_language_and_as_few_states(case: Case) -> None:
    expected = small(case.fst)
    found = bound(case)
    if found is None:
        tokens = pynini.difference(expected, empty()) if expected.num_states() else expected
        assert small(tokens).num_states() == 0
        return
    ours = small(plain(found))
    assert pynini.difference(ours, expected).connect().num_states() == 0
    assert pynini.difference(expected, ours).connect().num_states() == 0
    assert found.n_states == expected.num_states()


@given(cases(scores=True))
def test_the_same_score_of_each_labelling(case: Case) -> None:
    found = bound(case)
    if found is None:
        return
    for length in range(5):
        for ids in itertools.product(range(len(LABELS)), repeat=length):
            sentence = empty()
            for k in ids:
                sentence = sentence + token(k)
            path = pynini.shortestdistance(pynini.compose(sentence, case.fst), reverse=True)
            expected = -float(path[0]) if path else -np.inf
            assert found.walk([LABELS[k] for k in ids]) == expected, (case.text, ids)


def test_it_notices() -> None:
    """Languages that differ in one labelling are told apart, both ways."""
    (found,) = Grammar.from_text('export X = any{0,6} - "[a][b][c][d]";').bind(LABELS)
    every = small(pynini.closure(token(0, 1, 2, 3), 0, 6))
    ours = small(plain(found))
    assert pynini.difference(ours, every).connect().num_states() == 0
    assert pynini.difference(every, ours).connect().num_states() > 0
