"""The best-first search for label sequences, over words whose scores are listed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
