"""Proofs by counting, against every labelling of a short sentence."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from fstcrf import constraints as c
from fstcrf.machines.grammar import Acceptor, minimise, overfull, trim, wanted
from tests.support.compositions import random_acceptor

LABELS = ("a", "b", "c", "d")


def satisfiable(acceptors: list[Acceptor], allowed: np.ndarray) -> bool:
    """Whether a labelling is accepted by all, by writing all of them down."""
    choices = [[LABELS[i] for i in np.flatnonzero(mask)] for mask in allowed]
    return any(
        all(a.walk(word) > -np.inf for a in acceptors) for word in itertools.product(*choices)
    )


def counting(rng: np.random.Generator) -> list[Acceptor]:
    """Some constraints that count, over random classes of labels, with others between them."""
    found = []
    for k in range(int(rng.integers(1, 6))):
        some = [x for x in LABELS if rng.random() < 0.5] or ["a"]
        make = (c.at_least, c.at_most, c.exactly)[int(rng.integers(3))]
        (acceptor,) = make(int(rng.integers(0, 4)), some[:3]).bind({"t": LABELS})
        found.append(replace(acceptor, name=f"c{k}"))
    if rng.random() < 0.5:
        found.append(random_acceptor(rng, [("t", LABELS)]))
    return [minimise(trim(a.support())) for a in found]


@pytest.mark.thorough
@pytest.mark.parametrize("tokens", [1, 2, 3, 4])
def test_what_is_shown_is_true(tokens: int) -> None:
    shown = 0
    for seed in range(50):
        rng = np.random.default_rng([tokens, seed])
        acceptors = counting(rng)
        allowed = rng.random((tokens, len(LABELS))) < 0.8
        allowed[:, 0] |= ~allowed.any(axis=1)
        found = overfull(acceptors, {"t": allowed})
        if found is not None:
            shown += 1
            assert set(found) <= set(acceptors)
            assert not satisfiable(list(found), allowed), (tokens, seed)
    assert shown > 4


@pytest.mark.thorough
@pytest.mark.parametrize("tokens", [3, 4, 5])
def test_disjoint_counts_are_told_exactly(tokens: int) -> None:
    for seed in range(25):
        rng = np.random.default_rng([tokens, seed])
        low, more = rng.integers(0, 3, 4), rng.integers(0, 3, 4)
        acceptors = []
        for label, least, further in zip(LABELS, low.tolist(), more.tolist(), strict=True):
            bounds = c.at_least(least, label) & c.at_most(least + further, label)
            acceptors += [minimise(trim(a.support())) for a in bounds.bind({"t": LABELS})]
        found = overfull(acceptors, {"t": np.ones((tokens, 4), dtype=bool)})
        fits = low.sum() <= tokens <= (low + more).sum()
        assert (found is None) == fits, (tokens, seed)


@pytest.mark.parametrize("seed", range(40))
def test_tokens_wanted(seed: int) -> None:
    acceptor = random_acceptor(np.random.default_rng(seed), [("t", LABELS[:2])])
    fewest = next(n for n in range(6) if any(ends(acceptor, n)))
    assert wanted(minimise(trim(acceptor.support())))[0] == fewest


def ends(acceptor: Acceptor, tokens: int) -> list[bool]:
    """Whether each sequence of so many labels is accepted."""
    found = []
    for word in itertools.product(range(2), repeat=tokens):
        here = 0
        for symbol in word:
            here = int(acceptor.target[here, symbol]) if here >= 0 else -1
        found.append(here >= 0 and acceptor.final[here] > -np.inf)
    return found
