"""The voted perceptron, against one that enumerates labellings."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf.errors import OptionError, ShapeError
from fstcrf.training import voted_paths
from fstcrf.training.online import shuffled
from tests.support.problems import BIO_CASES, Case, random_case

CASES = {name: BIO_CASES[name] for name in ("order 0", "order 1", "order 2", "complete")}


def elections(case: Case, epochs: int, seed: int) -> list[Counter[tuple[int, ...]]]:
    """The votes for each sentence of the training text itself."""
    theta, survived = np.zeros(case.space.size), 1
    votes: list[Counter[tuple[int, ...]]] = [Counter() for _ in range(case.n_sentences)]

    def vote() -> None:
        for b, counter in enumerate(votes):
            counter[case.best(b, theta)] += survived

    order = shuffled(seed, case.n_sentences)
    for epoch in range(epochs):
        for b in order(epoch).tolist():
            best, gold = case.best(b, theta), case.gold(b)
            if best == gold:
                survived += 1
                continue
            vote()
            survived = 1
            change = case.features(b, gold) - case.features(b, best)
            theta = theta + case.problem.weight[b] * change
    vote()
    return votes


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_winners_are_those_of_an_election_by_hand(options: dict[str, Any], seed: int) -> None:
    case = random_case(20 + seed, **{**options, "weights": False})
    problem = case.problem
    found = voted_paths(problem, case.space, problem.node, problem.offsets, epochs=3, seed=seed)
    labels = case.space.topology.state_label[found]
    for b, counter in enumerate(elections(case, 3, seed)):
        first, last = problem.offsets[b : b + 2].tolist()
        assert counter[tuple(labels[first:last].tolist())] == max(counter.values())


def test_bad_input() -> None:
    case = random_case(1)
    problem = case.problem
    with pytest.raises(OptionError, match="epochs is 0"):
        voted_paths(problem, case.space, problem.node, problem.offsets, epochs=0)
    more = replace(problem.node, n_columns=problem.node.n_columns + 1)
    with pytest.raises(ShapeError, match="expected 11 × 6: tokens and attributes"):
        voted_paths(problem, case.space, more, problem.offsets)
