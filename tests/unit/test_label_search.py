"""The best-first search for label sequences, over words whose scores are listed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from fstcrf import Lattice, Transducer
from fstcrf.lattices import labellings
from fstcrf.lattices.labellings import Entry, Labels, search

SCORES: dict[Labels, float] = {(): -3.0, (0,): -2.0, (1,): -2.0, (0, 1): -1.0, (1, 0): -2.0}


def entries(prefix: Labels) -> Iterator[Entry[Labels]]:
    """Yield the word that is the prefix, and the longer words by their next label."""
    if prefix in SCORES:
        yield SCORES[prefix], prefix, None
    for label in (0, 1):
        longer = (*prefix, label)
        scores = [x for word, x in SCORES.items() if word[: len(longer)] == longer]
        yield max(scores, default=-float("inf")), longer, longer


def test_words_come_best_first_and_ties_in_the_order_of_labels() -> None:
    words = list(search(entries(()), entries))
    assert [word.labels for word in words] == [(0, 1), (0,), (1,), (1, 0), ()]
    assert all(word.exact and word.bound == word.score == SCORES[word.labels] for word in words)


@pytest.mark.parametrize("budget", range(5))
def test_what_a_budget_leaves_unproven_is_bounded(budget: int) -> None:
    words = list(search(entries(()), entries, budget, lambda: ((1, 0), SCORES[1, 0])))
    labels = [word.labels for word in words]
    assert len(set(labels)) == len(labels)
    assert (1, 0) in labels
    assert [word.exact for word in words] == sorted([word.exact for word in words], reverse=True)
    assert all(word.exact for word in words) == (budget == 4)
    for k, word in enumerate(words):
        assert word.score == SCORES[word.labels]
        rest = SCORES.keys() - set(labels[:k])
        assert max(SCORES[other] for other in rest) <= word.bound


# --- Flat scores of 40 tokens: more strings than a search can visit -----------------------------


def flat(labels: str, seed: int, tape: str = "x") -> Lattice:
    rng = np.random.default_rng(seed)
    scores = 0.1 * rng.normal(size=(40, len(labels))), 0.1 * rng.normal(size=(len(labels),) * 2)
    return Lattice.from_arrays(tuple(labels), *scores, tape=tape)


def test_the_best_string_of_one_of_two_chains_is_proven() -> None:
    """No label of the other tape takes a choice away, so the limits of states are exact."""
    lattice = flat("abcdef", 0, "x") @ flat("vwyz", 1, "y")
    (found,) = lattice.strings("x", budget=100)
    alone = flat("abcdef", 0, "x").best()
    assert found.labels == alone.labels
    assert found.exact
    assert (
        found.bound
        == found.score
        == pytest.approx(alone.score + flat("vwyz", 1, "y").log_partition())
    )


def test_a_string_under_edits_that_is_not_proven_has_a_bound() -> None:
    arcs = [f"0 0 {x} {y} {int(x != y)}" for x in "abc" for y in (*"abc", "<eps>")]
    edits = Transducer.from_text("\n".join([*arcs, "0"]), tape="y")
    lattice = flat("abc", 0) @ edits
    few, more = (lattice.strings("y", budget=budget)[0] for budget in (20, 400))
    usual = lattice.strings("y")[0]
    for found in (few, more, usual):
        assert not found.exact
        assert found.score == pytest.approx(lattice.string_log_partition(found.labels, tape="y"))
        assert found.score <= found.bound < lattice.log_partition()
    assert usual.bound <= more.bound <= few.bound
    drawn = {path[1] for path in lattice.sample(50, seed=0)}
    assert all(lattice.string_log_partition(x, tape="y") <= usual.bound for x in drawn)


def test_strings_of_lattices_too_large_for_limits_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    rows = [Lattice.from_arrays(("a", "b"), rng.normal(size=(5, 2)), tape=tape) for tape in "xy"]
    lattice = rows[0] @ rows[1]
    limited = lattice.strings("y", n=40)
    monkeypatch.setattr(labellings, "_MOST_LIMITED", 0)
    summed = lattice.strings("y", n=40)
    assert len(limited) == 32
    assert [path.labels for path in summed] == [path.labels for path in limited]
    assert [path.score for path in summed] == [path.score for path in limited]
    assert all(path.exact for path in summed)
