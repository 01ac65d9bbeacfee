"""Random ``.grm`` expressions against their definition: a score for each labelling."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf.errors import GrammarError
from fstcrf.machines.grammar import Acceptor, Grammar, minimise

LABELS = ("a", "B-x", "c]")
LENGTH = 4

Language = Mapping[tuple[int, ...], float]
"""Best cost of each sequence up to the length."""

EMPTY: Language = {(): 0.0}


@dataclass(frozen=True)
class Case:
    """An expression as text, and what it means."""

    text: str
    language: Language
    hard: bool


def best(pairs: list[tuple[tuple[int, ...], float]]) -> Language:
    found: dict[tuple[int, ...], float] = {}
    for sequence, cost in pairs:
        if len(sequence) <= LENGTH:
            found[sequence] = min(cost, found.get(sequence, np.inf))
    return found


def concatenated(a: Language, b: Language) -> Language:
    return best([(x + y, v + w) for x, v in a.items() for y, w in b.items()])


def either(a: Language, b: Language) -> Language:
    return best([*a.items(), *b.items()])


def power(a: Language, low: int, high: int | None) -> Language:
    """Costs are not negative, so more than LENGTH rounds beyond `low` add nothing."""
    now = EMPTY
    for _ in range(low):
        now = concatenated(now, a)
    total = now
    for _ in range(LENGTH if high is None else high - low):
        now = concatenated(now, a)
        total = either(total, now)
    return total


def symbol(text: str, *ids: int) -> Case:
    return Case(text, {(i,): 0.0 for i in ids}, hard=True)


ATOMS = st.sampled_from(
    [
        symbol('"[a]"', 0),
        symbol('"[B-x]"', 1),
        symbol(r'"[c\]]"', 2),
        symbol("any", 0, 1, 2),
        symbol('label["[ac].*"]', 0, 2),
        symbol(r'label["c\]|B-.*"]', 1, 2),
        Case('"[a] [B-x]"', {(0, 1): 0.0}, hard=True),
        Case('""', EMPTY, hard=True),
        Case(
            'at_most[1, "a"]',
            {
                s: 0.0
                for n in range(LENGTH + 1)
                for s in itertools.product(range(3), repeat=n)
                if s.count(0) <= 1
            },
            hard=True,
        ),
        Case(
            'at_most[0, "x", <2>]',
            {
                s: 2.0 * s.count(1)
                for n in range(LENGTH + 1)
                for s in itertools.product(range(3), repeat=n)
            },
            hard=False,
        ),
    ]
)


def grown(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    hard = inner.filter(lambda case: case.hard)
    return st.one_of(
        st.builds(
            lambda a, b: Case(
                f"({a.text} {b.text})", concatenated(a.language, b.language), a.hard and b.hard
            ),
            inner,
            inner,
        ),
        st.builds(
            lambda a, b: Case(
                f"({a.text} | {b.text})", either(a.language, b.language), a.hard and b.hard
            ),
            inner,
            inner,
        ),
        st.builds(
            lambda a, b: Case(
                f"({a.text} - {b.text})",
                {s: v for s, v in a.language.items() if s not in b.language},
                a.hard,
            ),
            inner,
            hard,
        ),
        st.builds(
            lambda a, times: Case(
                f"({a.text}){times[0]}", power(a.language, times[1], times[2]), a.hard
            ),
            inner,
            st.sampled_from(
                [
                    ("*", 0, None),
                    ("+", 1, None),
                    ("?", 0, 1),
                    ("{2}", 2, 2),
                    ("{1,3}", 1, 3),
                    ("{2,}", 2, None),
                ]
            ),
        ),
        st.builds(
            lambda a, cost: Case(
                f"({a.text} <{cost}>)", {s: v + cost for s, v in a.language.items()}, hard=False
            ),
            inner,
            st.sampled_from([0.5, 1.0, 3.0]),
        ),
    )


CASES = st.recursive(ATOMS, grown, max_leaves=6)


def bound(grammar: Grammar) -> tuple[tuple[Acceptor, ...], str]:
    """Return acceptors, or none and the message of the error."""
    try:
        return grammar.bind(LABELS), ""
    except GrammarError as error:
        return (), str(error)


@given(CASES)
def test_expressions(case: Case) -> None:
    grammar = Grammar.from_text(f"export X = {case.text};")
    acceptors, error = bound(grammar)
    if error:
        # Two loops over the same labels at different costs have no deterministic machine.
        assert not any(case.language) if "accepts no sentence" in error else not case.hard
        return
    for n in range(LENGTH + 1):
        for sequence in itertools.product(range(3), repeat=n):
            found = sum(a.walk([LABELS[i] for i in sequence]) for a in acceptors)
            assert found == -case.language.get(sequence, np.inf), (case.text, sequence)
    assert all(minimise(a).n_states == a.n_states for a in acceptors)


@pytest.mark.thorough
@given(CASES)
def test_definitions_and_functions_change_nothing(case: Case) -> None:
    direct, named = (
        Grammar.from_text(text)
        for text in (
            f"export X = {case.text} {case.text};",
            f"func twice[x] {{ y = x; return x y; }} Z = {case.text}; export X = twice[Z];",
        )
    )
    expected, error = bound(direct)
    if error:
        assert bound(named)[1]
        return
    assert len(expected) == 1
    (found,) = named.bind(LABELS)
    assert np.array_equal(found.target, expected[0].target)
    assert np.array_equal(found.final, expected[0].final)
