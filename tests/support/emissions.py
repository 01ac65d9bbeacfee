"""Brute force over batches of scores: every labelling of every sentence, looked at."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Array, Floats, Ints
from fstcrf.machines.grammar import Grammar
from tests.support.oracles import log_sum


@dataclass(frozen=True, eq=False)
class Case:
    """A batch of scores with lengths, potentials and a grammar."""

    scores: Array  # [B, T, L]
    lengths: list[int]
    labels: tuple[str, ...]
    transitions: Floats | None = None
    initial: Floats | None = None
    final: Floats | None = None
    grammar: Grammar | None = None

    @property
    def model(self) -> dict[str, object]:
        """The keyword arguments of `Emissions` that are no scores."""
        names = ("labels", "transitions", "initial", "final", "grammar")
        return {name: getattr(self, name) for name in names}

    def ragged(self) -> list[Array]:
        """The scores as a list of arrays."""
        return [one[:n] for one, n in zip(self.scores, self.lengths, strict=True)]


@dataclass(frozen=True, eq=False)
class Labellings:
    """All labellings of a sentence, in order of their ids, with their scores."""

    ids: Ints  # [M, T]
    scores: Floats  # [M]

    @property
    def log_z(self) -> float:
        """Log of the sum over all of them."""
        return log_sum(self.scores)

    @property
    def shares(self) -> Floats:
        """Their probabilities, 0 where there is no path."""
        z = self.log_z
        return np.exp(self.scores - z) if z > -np.inf else np.zeros_like(self.scores)

    def ranked(self, n: int) -> list[int]:
        """The n best, ties by the smaller ids at the earliest token."""
        order = np.argsort(-self.scores, kind="stable")[:n]
        return [int(i) for i in order if self.scores[i] > -np.inf]

    def marginals(self, size: int) -> Floats:
        """Probability of each label at each token."""
        hot = self.ids[:, :, None] == np.arange(size)
        found: Floats = np.einsum("m,mtl->tl", self.shares, hot)
        return found

    def max_marginals(self, size: int) -> Floats:
        """Score of the best labelling through each label."""
        hot = self.ids[:, :, None] == np.arange(size)
        found: Floats = np.where(hot, self.scores[:, None, None], -np.inf).max(axis=0)
        return found


def labellings(case: Case, b: int) -> Labellings:
    """Write down all labellings of a sentence."""
    size, tokens = len(case.labels), case.lengths[b]
    ids = np.asarray(list(itertools.product(range(size), repeat=tokens)), dtype=np.int32)
    node = np.asarray(case.scores[b], dtype=np.float64)
    score = np.zeros(len(ids))
    for t in range(tokens):
        score += node[t, ids[:, t]]
        if t and case.transitions is not None:
            score += case.transitions[ids[:, t - 1], ids[:, t]]
    if tokens and case.initial is not None:
        score += case.initial[ids[:, 0]]
    if tokens and case.final is not None:
        score += case.final[ids[:, -1]]
    if tokens and case.grammar is not None:
        bound = case.grammar.bound(case.labels)
        score += [bound.score([case.labels[i] for i in row]) for row in ids.tolist()]
    return Labellings(ids.reshape(len(ids), tokens), score)
