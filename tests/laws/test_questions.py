"""Every kind of lattice is asked every question, alone and under grammars, beside enumeration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

import fstcrf
from fstcrf import Lattice
from tests.laws.asking import QUESTIONS, differs
from tests.laws.kinds import KINDS, RULES, Case, Row, Way

STATES = {
    "alone": (3, ""),
    "hard": (3, "hard"),
    "soft": (3, "soft"),
    "dead": (3, "dead"),
    "empty": (0, ""),
    "empty soft": (0, "soft"),
    "empty dead": (0, "dead"),
}
"""Tokens, and the grammar that a lattice is asked under."""


def drawn(kind: str, state: str, seed: int, size: int) -> Case:
    tokens, rule = STATES[state]
    case = KINDS[kind](np.random.default_rng(seed), tokens and size)
    others = [KINDS[kind](np.random.default_rng(seed + 4), other).lattice for other in (2, 4)]
    case = replace(case, others=others)
    return case.ruled(RULES[rule]) if rule else case


@cache
def made(kind: str, state: str) -> Case:
    return drawn(kind, state, 3, 3)


def check(kind: str, question: str, state: str) -> None:
    QUESTIONS[question].check(made(kind, state))


@pytest.mark.thorough
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_lattice_answers_as_its_ways_do(kind: str, question: str) -> None:
    for state in STATES:
        check(kind, question, state)


@pytest.mark.parametrize("state", ["alone", "soft"])
def test_lattices_of_all_kinds_are_asked_together(state: str) -> None:
    """What a lattice answers depends on nothing that stands beside it."""
    each = {kind: made(kind, state).lattice for kind in KINDS}
    several = [one.batch[1] if isinstance(one, Row) else one for one in each.values()]
    assert list(fstcrf.best(several)) == [one.best() for one in several]
    assert list(fstcrf.nbest(several, 3)) == [one.nbest(3) for one in several]
    assert fstcrf.log_partition(several).tolist() == [one.log_partition() for one in several]
    for one, found in zip(several, fstcrf.marginals(several), strict=True):
        assert not differs(found, one.marginals(), 1e-12)
    drawn = fstcrf.sample(several, 2, seed=5)
    assert drawn[0] == several[0].sample(2, seed=5)
    assert list(map(len, drawn)) == [2] * len(several)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("kind", KINDS)
def test_every_case_of_a_kind_is_answered(kind: str, seed: int, variant: str) -> None:
    for state, question in product(STATES, QUESTIONS.values()):
        if state != "empty dead":
            case = drawn(kind, state, seed, 2 + seed % 2)
            wide = 2.0 if question.within > 0.01 else 1.0  # frequencies of samples
            replace(question, within=wide * question.within).check(case)


# --- The laws notice ------------------------------------------------------------------------------


def _best(case: Case) -> int:
    return int(case.scores.argmax())


def _raised(case: Case) -> Case:
    ways = list(case.ways)
    ways[_best(case)] = Way(case.ways[_best(case)].score + 1.0, case.ways[_best(case)].facts)
    return replace(case, ways=ways)


WRONG: dict[str, Callable[[Case], Case]] = {
    "another score": _raised,
    "a path left out": lambda c: replace(
        c, ways=[w for k, w in enumerate(c.ways) if k != _best(c)]
    ),
    "a grammar ignored": lambda c: replace(c, ways=[way for way, _ in c.free]),
}
"""Wrong enumerations."""


def notices(kind: str, question: str, wrong: Callable[[Case], Case]) -> bool:
    """Whether a cell that is answered fails beside a wrong enumeration."""
    try:
        QUESTIONS[question].check(wrong(made(kind, "hard")))
    except AssertionError:
        return True
    return False


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", WRONG)
def test_every_question_notices(wrong: str) -> None:
    blind = {q for q in QUESTIONS if not any(notices(kind, q, WRONG[wrong]) for kind in KINDS)}
    assert blind == {"draw", "plan", "without_grammar"}


@pytest.mark.parametrize("wrong", WRONG)
def test_every_kind_notices(wrong: str) -> None:
    assert all(notices(kind, "nbest all", WRONG[wrong]) for kind in KINDS)


@pytest.mark.parametrize("kind", ["chain", "joint", "segments", "ctc", "acyclic"])
def test_a_grammar_that_is_ignored_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lattice, "constrained", lambda own, *_, **__: own)
    case = KINDS[kind](np.random.default_rng(3), 3)
    for question in ("best", "nbest 3", "log_partition"):
        QUESTIONS[question].check(case)
        with pytest.raises(AssertionError):
            QUESTIONS[question].check(case.ruled(RULES["hard"]))
