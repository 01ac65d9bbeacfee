"""Random small problems for learning from rewards, and what enumeration says of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.ext.feedback.bandit import feedback_over
from fstcrf.ext.feedback.descent import Aim, Descent, FeedbackBatch, Rule
from fstcrf.ext.feedback.kernel import Feedback, Proposals
from fstcrf.kernel import Parameters
from fstcrf.lazy import made_once
from fstcrf.training import ParameterSpace
from fstcrf.training.online import online_parameters
from fstcrf.training.problem import Tables
from tests.support.problems import Case, random_case

STILL = Rule(rate=1.0)


@dataclass(frozen=True)
class Bandits:
    """A case with weights, ready to propose and to learn."""

    case: Case
    theta: Floats

    @property
    def space(self) -> ParameterSpace:
        return self.case.space

    @made_once
    def feedback(self) -> Feedback:
        return feedback_over(self.space, Descent(online_parameters(self.space, self.theta)))

    @made_once
    def batch(self) -> FeedbackBatch:
        problem = self.case.problem
        return self.feedback.batch(problem.offsets, problem.node)

    def propose(self, order: Longs, aim: Aim, seed: int, rule: Rule = STILL) -> Proposals:
        draws = self.batch.tokens(order) * (1 + aim.pairs)
        uniform = np.random.default_rng(seed).random(draws)
        return self.feedback.propose(self.batch, order, aim, rule, uniform)

    def labels(self, path: Ints) -> tuple[int, ...]:
        return tuple(self.space.topology.state_label[path].tolist())

    def paths(self, sentence: int) -> tuple[list[tuple[int, ...]], Floats]:
        """All legal label sequences, and their features [paths, size]."""
        paths = self.case.paths(sentence)
        return paths, np.stack([self.case.features(sentence, path) for path in paths])

    def theta_now(self) -> Floats:
        return of_parameters(self.space, self.feedback.descent.theta)


def of_parameters(space: ParameterSpace, p: Parameters) -> Floats:
    return space.collect(Tables(p.table, p.arc, None, p.initial, p.final))


def bandits(seed: int, scale: float = 1.0, **options: Any) -> Bandits:
    case = random_case(seed, **{"lengths": (1, 3, 2), **options})
    theta = scale * np.random.default_rng(seed).normal(size=case.space.size)
    return Bandits(case, theta)


def shares(features: Floats, theta: Floats) -> Floats:
    """Probabilities of paths with these features."""
    scores = features @ theta
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def spans(labels: tuple[str, ...]) -> set[tuple[int, int, str]]:
    """Spans of legal IOB2 labels."""
    found, start = set(), -1
    for t, (now, after) in enumerate(itertools.pairwise((*labels, "O"))):
        if now.startswith("B-"):
            start = t
        if now != "O" and not after.startswith("I-"):
            found.add((start, t + 1, now[2:]))
    return found


def span_f(labels: tuple[str, ...], gold: tuple[str, ...]) -> float:
    """F of the spans of one sentence; 1 where neither has one."""
    mine, wanted = spans(labels), spans(gold)
    both = len(mine) + len(wanted)
    return 1.0 if both == 0 else 2 * len(mine & wanted) / both
