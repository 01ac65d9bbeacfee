"""Every kind of lattice beside every other, by each operation, beside enumeration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Grammar
from tests.laws.asking import differs, marginals
from tests.laws.kinds import KINDS, RULES, Case, Facts, Rule, log_sum, units

BESIDE = [kind for kind in KINDS if "arrays" not in kind]
"""What stands beside another; a batch stands beside a batch."""

_N = 5
_HARD, _SOFT = RULES["hard"], RULES["soft"]


@cache
def made(kind: str, tokens: int, side: int) -> Case:
    return KINDS[kind](np.random.default_rng(side), tokens)


def _scores(a: Case, b: Case, operation: str) -> Any:
    """Return scores of the labels that the first tapes of two have at a token, or at each."""
    size = (a.tokens, len(a.labels), len(b.labels))
    return np.random.default_rng(9).normal(size=size if operation == "couplings" else size[1:])


# --- What lattices say ----------------------------------------------------------------------------


def _grammar(case: Case, tape: str) -> Grammar:
    return _SOFT.grammar(case.labels, tape)


def _coupled(a: Case, b: Case, operation: str) -> Any:
    table = _scores(a, b, operation)
    if (len(a.tapes), len(b.tapes)) != (1, 1) and hasattr(a.lattice, "with_tokens"):
        return a.lattice.with_tokens(b.lattice, coupling={(a.first, b.first): table})
    return fstcrf.compose(a.lattice, b.lattice, coupling={(0, 1): table})


def _under(a: Case, b: Case, side: int) -> Any:
    both = a.lattice @ b.lattice
    return both & _grammar((a, b)[side], both.tapes[side * len(a.tapes)])


def _composed(a: Case, b: Case) -> Any:
    tape = (a.lattice @ b.lattice).tapes[len(a.tapes)]
    return fstcrf.compose(a.lattice, b.lattice, grammar=_grammar(b, tape))


OPERATIONS: dict[str, tuple[Callable[[Case, Case], Any], Rule | None, Rule | None]] = {
    "@": (lambda a, b: a.lattice @ b.lattice, None, None),
    "@ of ruled": (lambda a, b: a.ruled(_HARD).lattice @ b.ruled(_SOFT).lattice, _HARD, _SOFT),
    "coupling": (partial(_coupled, operation="coupling"), None, None),
    "couplings": (partial(_coupled, operation="couplings"), None, None),
    "& left": (lambda a, b: _under(a, b, 0), _SOFT, None),
    "& right": (lambda a, b: _under(a, b, 1), None, _SOFT),
    "compose": (_composed, None, _SOFT),
}
"""How two are put together, and the grammars of their first tapes."""


def _facts(path: Any) -> tuple[Facts, ...]:
    """Return what stands on each tape."""
    places = path.places or [None] * len(path.labels)
    return tuple(
        units(row) if own is None else tuple(zip(own.starts, own.ends, row, strict=True))
        for row, own in zip(path.labels, places, strict=True)
    )


def asked(operation: str, a: Case, b: Case) -> Any:
    both = OPERATIONS[operation][0](a, b)
    paths = both.nbest(_N)
    assert both.best().score == paths[0].score
    scores = [path.score for path in paths]
    return both.log_partition(), scores, _facts(paths[0]), list(both.marginals())


# --- What enumeration says ------------------------------------------------------------------------


def wanted(operation: str, a: Case, b: Case) -> Any:
    """Add the scores of all pairs of ways that read equally many tokens."""
    _, *rules = OPERATIONS[operation]
    scores, lengths = [], []
    for case, rule in zip((a, b), rules, strict=True):
        facts = [way.facts[case.first] for way in case.ways]
        gains = [rule.weigh(case.labels, own) if rule else 0.0 for own in facts]
        scores.append(case.scores + gains)
        covered = [case.tokens] * len(facts) if case.tapes[case.first].outside else None
        lengths.append(np.array(covered or [own[-1][1] if own else 0 for own in facts]))
    total = scores[0][:, None] + scores[1]
    total[lengths[0][:, None] != lengths[1]] = -np.inf
    if operation.startswith("coupling"):
        one, two = a.under(a.first), b.under(b.first)
        table = np.broadcast_to(_scores(a, b, operation), (a.tokens, len(a.labels), len(b.labels)))
        met = table[np.arange(a.tokens), one[:, None], two[None]]
        total += np.where((one[:, None] >= 0) & (two >= 0), met, 0.0).sum(axis=-1)
    log_z, flat = log_sum(total.ravel()), total.ravel()
    order = np.argsort(-flat, kind="stable")[:_N]
    best, shares = divmod(int(order[0]), len(b.ways)), np.exp(total - log_z)
    found = [*marginals(a, shares.sum(axis=1)), *marginals(b, shares.sum(axis=0))]
    key = (*a.ways[best[0]].key, *b.ways[best[1]].key)
    return log_z, [score for score in flat[order].tolist() if score > -np.inf], key, found


def check(left: str, right: str, operation: str, *, wrong: bool = False) -> None:
    for tokens in (3, 0):
        a, b = made(left, tokens, 1), made(right, tokens, 2)
        found = asked(operation, a, b)
        b = replace(b, ways=b.ways[1:]) if wrong else b
        true = wanted(operation, a, b)
        assert not differs(found, true, 1e-8), f"{tokens} tokens: {found}, expected {true}"


@pytest.mark.thorough
@pytest.mark.parametrize("right", BESIDE)
@pytest.mark.parametrize("left", BESIDE)
def test_two_lattices_are_the_pairs_of_their_ways(left: str, right: str) -> None:
    for operation in OPERATIONS:
        check(left, right, operation)


@pytest.mark.parametrize("right", ["segments", "words"])
@pytest.mark.parametrize("left", ["chain", "second order", "chain rule"])
def test_spans_of_labels_are_those_that_they_were_alone(left: str, right: str) -> None:
    """A scheme reads the labels of tokens, whatever stands beside them."""
    a, b = made(left, 3, 1), made(right, 3, 2)
    both = a.lattice @ b.lattice
    for scheme in (None, "iob2", "iob1"):
        alone = dict(a.lattice.probable_spans(0.0, tape=a.first, scheme=scheme))
        beside = dict(both.probable_spans(0.0, tape=a.first, scheme=scheme))
        assert beside == pytest.approx(alone)
        assert len(beside) > 3
        shares = both.span_probabilities([tuple(one) for one in alone], tape=a.first, scheme=scheme)
        assert shares == pytest.approx(list(alone.values()))
        ask = partial((a.lattice @ b.lattice).span_probability, tape=a.first, scheme=scheme)
        assert [ask(*span) for span in alone] == pytest.approx(list(alone.values()))
    assert both.minimum_risk("span", tape=a.first).expected == pytest.approx(
        a.lattice.minimum_risk("span", tape=a.first).expected
    )


# --- The laws notice ------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_path_that_is_left_out_is_noticed(operation: str) -> None:
    check("chain", "second order", operation)
    with pytest.raises(AssertionError):
        check("chain", "second order", operation, wrong=True)


@pytest.mark.parametrize("left", ["chain", "segments"])
def test_couplings_and_grammars_that_are_ignored_are_noticed(
    left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = OPERATIONS["@"][0]
    for operation in ("coupling", "couplings", "& left", "@ of ruled"):
        check(left, "chain", operation)
        monkeypatch.setitem(OPERATIONS, operation, (plain, *OPERATIONS[operation][1:]))
        with pytest.raises(AssertionError):
            check(left, "chain", operation)
