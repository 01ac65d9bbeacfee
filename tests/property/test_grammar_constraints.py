"""Conditions, schemes, transitions and pairs against plain predicates, over all short labellings.

Counts and orders: `tests/oracle/test_constraint_classes.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf import constraints as c
from fstcrf.errors import GrammarError
from fstcrf.machines.grammar import Grammar, simplified
from fstcrf.text.corpus.schemes import legal_transitions
from tests.oracle.test_constraint_classes import is_span_label

LENGTH = 4
TYPED = [
    ("O", "B-A", "I-A", "B-B"),
    ("O", "B-A", "I-A", "B-B", "I-B"),
    ("B-A", "E-A", "I-A", "S-A", "O"),
    ("O", "I-A", "I-B", "B-A"),
    ("O", "B-A", "L-A", "U-A"),
    ("O", "B", "I"),
    ("B-A", "I-A", "X", "O"),
]
PLAIN = [("O", "A", "B"), ("A", "B", "I", "C"), ("A", "a-b", "x-c"), ("B", "-LRB-", "A")]
SETS = st.sampled_from(TYPED + PLAIN)


def types_of(labels: Sequence[str]) -> list[str]:
    found = [label.partition("-")[2] for label in labels if is_span_label(label, labels)]
    return list(dict.fromkeys(found))


def belongs(label: str, name: str, labels: Sequence[str]) -> bool:
    """Whether a label is the named one, or of the named type."""
    typed = is_span_label(label, labels) and label.partition("-")[2] == name
    return label == name if name in labels else typed


def sentences(labels: Sequence[str], length: int = LENGTH) -> Iterator[tuple[str, ...]]:
    for n in range(length + 1):
        yield from itertools.product(labels, repeat=n)


def check(
    make: Callable[..., Grammar], labels: tuple[str, ...], broken: Callable[[Sequence[str]], int]
) -> None:
    """Compare a constraint, hard and soft, with how often sentences break it."""
    counts = [(sentence, broken(sentence)) for sentence in sentences(labels)]
    soft = make(weight=-1.5).bind(labels)
    for sentence, count in counts:
        assert sum(a.walk(sentence) for a in soft) == -1.5 * count, (sentence, count)
    if all(count for sentence, count in counts if sentence):
        # With longer sentences something may be left: at_least(9, ...) over short ones.
        return
    hard = make().bind(labels)
    for sentence, count in counts:
        accepted = all(a.walk(sentence) == 0.0 for a in hard)
        assert accepted == (count == 0), (sentence, count)
        assert accepted or any(a.walk(sentence) == -np.inf for a in hard)


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[str, ...], list[str]]:
    labels = draw(SETS)
    known = [*labels, *(kind for kind in types_of(labels) if kind not in labels)]
    return labels, [draw(st.sampled_from(known)) for _ in range(3)]


@given(cases(), st.integers(1, 2))
def test_if_present_then_a_grammar(case: tuple[tuple[str, ...], list[str]], k: int) -> None:
    labels, (name, first, second) = case
    then = c.before(first, second) & c.at_most(k, second)
    rule = c.if_present(name, then).bind(labels)
    parts = then.bind(labels)
    for sentence in sentences(labels):
        present = any(belongs(label, name, labels) for label in sentence)
        holds = all(part.walk(sentence) == 0.0 for part in parts)
        assert all(a.walk(sentence) == 0.0 for a in rule) == (holds or not present)


@given(SETS, st.integers(1, 3))
def test_contiguous_without_a_scheme(labels: tuple[str, ...], length: int) -> None:
    found = c.contiguous(scheme=None).bound(labels)
    for sentence in itertools.product(labels, repeat=length):
        runs = [label for label, _ in itertools.groupby(sentence) if label != "O"]
        assert found.accepts(sentence) == (len(set(runs)) == len(runs))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::fstcrf.errors.LabelWarning")  # of labels that never occur
@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes", "bilou", "bmes", "bmewo"])
@given(data=st.data())
def test_schemes(scheme: str, data: st.DataObject) -> None:
    letters = {"bioes": "BIES", "bilou": "BILU", "bmes": "BMES", "bmewo": "BMEW"}.get(scheme, "BI")
    known = ["O", *(f"{letter}-{kind}" for kind in "AB" for letter in letters)]
    labels = tuple(data.draw(st.permutations(known)))[: data.draw(st.integers(2, 5))]
    table = legal_transitions(labels, scheme)
    end = len(labels)

    def broken(sentence: Sequence[str]) -> int:
        path = [end, *(labels.index(label) for label in sentence), end]
        return sum(not table[a, b] for a, b in itertools.pairwise(path))

    sentences = [s for n in (1, 2, 3) for s in itertools.product(labels, repeat=n)]
    legal = {label for sentence in sentences if not broken(sentence) for label in sentence}
    if legal <= {"O"}:  # no label of a span can occur
        with pytest.raises(GrammarError, match=r"accepts no sequence|no span can be written"):
            c.tagging_scheme(scheme).bind(labels)
        return
    check(lambda **how: c.tagging_scheme(scheme, **how), labels, broken)


@given(st.sets(st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, "a", "b"]))))
def test_transitions(allowed: set[tuple[str | None, str | None]]) -> None:
    starts = any(a is None for a, _ in allowed)
    ends = any(b is None for _, b in allowed)

    def broken(sentence: Sequence[str]) -> int:
        wrong = 0
        for pair in itertools.pairwise([None, *sentence, None]):
            free = (pair[0] is None and not starts) or (pair[1] is None and not ends)
            wrong += pair not in allowed and pair != (None, None) and not free
        return wrong

    if all(broken(sentence) for sentence in sentences("ab") if sentence):
        with pytest.raises(GrammarError, match="accepts no sequence"):
            c.neighbours(allowed).bind(("a", "b"))
        return
    check(lambda **how: c.neighbours(allowed, **how), ("a", "b"), broken)


@given(st.sets(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), min_size=1))
def test_pairs(allowed: set[tuple[str, str]]) -> None:
    sets = {"l": ("a", "b"), "r": ("x", "y", "z")}
    (hard,) = c.pairs(allowed, ("l", "r")).bind(sets)
    (soft,) = c.pairs(allowed, ("l", "r"), weight=-1.0).bind(sets)
    for length in range(3):
        for left in itertools.product("ab", repeat=length):
            for right in itertools.product("xyz", repeat=length):
                wrong = sum(pair not in allowed for pair in zip(left, right, strict=True))
                assert soft.walk(left, right) == -wrong
                assert (hard.walk(left, right) == 0.0) == (wrong == 0)


@pytest.mark.parametrize("k", [1, 2])
def test_simplified_under_a_scheme(k: int) -> None:
    labels = ("O", "B-A", "I-A", "B-B", "I-B")
    legal, scheme = legal_transitions(labels), c.bio().bound(labels)
    for grammar, n_states in (
        (c.at_most(k, "A"), k + 1),
        (c.exactly(k, "A"), k + 1),
        (c.before("A", "B"), 2),
        (c.contiguous("A"), 2),
        (c.bio(), 1),
    ):
        (whole,) = grammar.bind(labels)
        small = simplified(whole, legal)
        assert small.n_states == n_states
        for sentence in sentences(labels, 5):
            if scheme.accepts(sentence):
                assert small.walk(sentence) == whole.walk(sentence)
