"""Bounds of the probability of the best labelling under a grammar, and of the legal mass.

Z is the sum over all paths of the model. Z' is the sum over the legal paths, with the scores of the
grammar. The best legal path has the probability exp(score) / Z'. The legal mass is the probability
that a sample from the model is legal.

If Z' cannot be summed, it is bounded. One method ranks the n best legal paths and the n best paths
of the model. The other paths have the rest of Z, of which any part may be legal. The other method
draws samples from the model. The share of legal samples is a binomial proportion, with the interval
of Clopper and Pearson (1934). For the scores of a soft grammar, the mean of the samples has the
interval of Hoeffding (1963).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs
from fstcrf.errors import NoPathError
from fstcrf.kernel import Budget
from fstcrf.lattices.batching import nbest_paths, sample
from fstcrf.lattices.paths import Path
from fstcrf.lattices.results import Confidence, Interval, Method
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import warn_unproven

Ids = dict[str, Longs]

_NARROW = 0.02
"""The method "auto" draws samples if an interval is wider."""


def bounded(
    lattice: Any,
    method: Method,
    n: int,
    samples: int,
    level: float,
    seed: int,
    budget: Budget | None,
) -> Confidence:
    """Return bounds for the best legal path; see `Lattice.confidence` for the parameters."""
    paths = _RankedPaths(lattice, n, budget)
    bounds = paths.nbest_bounds()
    narrow = max(bounds.probability.width, bounds.legal.width) <= _NARROW
    if method == "n-best" or (method == "auto" and narrow):
        return bounds
    sampled = paths.sampled_bounds(samples, level, seed)
    if method == "sampling":
        return sampled
    return replace(
        sampled,
        probability=bounds.probability.within(sampled.probability),
        legal=bounds.legal.within(sampled.legal),
    )


class _RankedPaths:
    """The n best legal paths of a lattice, and the n best paths of its model.

    All probabilities come from the model without the grammar.
    """

    def __init__(self, lattice: Any, n: int, budget: Budget | None) -> None:
        self.lattice, self.conjuncts = lattice, lattice.row.program.conjuncts
        self.model = type(lattice)(lattice.row.without_grammar())
        self.log_z = self.model.log_partition()
        # The bounds hold even if the n best are not proven; the best path must be, or we warn.
        legal = nbest_paths([lattice], n, budget=budget)[0]
        if not legal:
            lattice.best(budget)  # raises an error that names the token
            raise NoPathError("no legal label sequence was found within the budget")
        self.path = legal[0]
        warn_unproven(int(not self.path.exact), 1)
        self.gains, self.shares = self._scored(legal, self.model.nbest(n))
        self.most = math.exp(sum(_most(a, len(lattice)) for a in self.conjuncts))

    def _scored(self, legal: list[Path], unconstrained: list[Path]) -> tuple[Floats, Floats]:
        """Return the grammar's score of each path (−inf: illegal), and the model's probability."""
        under = {path.labels: path.score for path in legal}
        before = {path.labels: path.score for path in unconstrained if path.labels not in under}
        gains = _gains(self.conjuncts, self._ids([*under, *before]))
        scores = np.asarray([*under.values(), *before.values()])
        scores[: len(under)] -= gains[: len(under)]
        return gains, np.exp(np.minimum(0.0, scores - self.log_z))

    def _ids(self, labellings: list[Any]) -> Ids:
        """Return label numbers of each tape, int64 [labellings, T]."""
        tapes = self.lattice.tapes
        several = [[one] if len(tapes) == 1 else list(one) for one in labellings]
        ids = {}
        for k, tape in enumerate(tapes):
            index = {label: i for i, label in enumerate(self.lattice.on[k].labels)}
            rows = [[index[label] for label in parts[k]] for parts in several]
            ids[tape] = np.asarray(rows, dtype=np.int64)
        return ids

    def nbest_bounds(self) -> Confidence:
        """Return the bounds that follow from the n best paths."""
        legal = self.gains > -np.inf
        left = max(0.0, 1.0 - float(self.shares.sum()))
        inside = float(self.shares[legal].sum())
        total = float((self.shares * np.exp(self.gains))[legal].sum())
        mass = Interval(min(1.0, inside), min(1.0, inside + left))
        return self._answer(Interval(total, total + left * self.most), mass, "n-best", 1.0)

    def sampled_bounds(self, samples: int, level: float, seed: int) -> Confidence:
        """Return the bounds that follow from samples of the model."""
        gains = _gains(self.conjuncts, self._ids(sample([self.model], samples, seed=seed)[0]))
        mass = _proportion(int((gains > -np.inf).sum()), samples, level)
        total = mass
        if any(acceptor.weighted for acceptor in self.conjuncts):
            mean = float(np.exp(gains).mean())
            off = self.most * math.sqrt(math.log(2 / (1 - level)) / (2 * samples))
            total = Interval(max(0.0, mean - off), mean + off)
        return self._answer(total, mass, "sampling", level)

    def _answer(self, total: Interval, mass: Interval, method: str, level: float) -> Confidence:
        """Return the answer, given bounds of Z' / Z, which includes the best path's share."""
        share = math.exp(self.path.score - self.log_z)
        low, high = max(total.low, share), max(total.high, share)
        return Confidence(self.path, Interval(share / high, share / low), mass, method, level)


def _gains(conjuncts: Sequence[Acceptor], ids: Ids) -> Floats:
    """Return the score of each labelling under all conjuncts; −inf if one rejects it."""
    count, tokens = next(iter(ids.values())).shape
    total = np.zeros(count)
    for acceptor in conjuncts:
        state, alive = np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
        for t in range(tokens):
            step = (state, *(ids[tape][:, t] for tape in acceptor.tapes))
            if acceptor.score is not None:
                total += np.where(alive, acceptor.score[step], 0.0)
            target = acceptor.target[step]
            alive &= target >= 0
            state = np.maximum(target, 0)
        total += np.where(alive, acceptor.final[state], -np.inf)
    return total


def _most(acceptor: Acceptor, tokens: int) -> float:
    """Return the largest score of an acceptor over all labellings of a number of tokens."""
    if not acceptor.weighted:
        return 0.0
    flat = acceptor.n_states, -1
    score = None if acceptor.score is None else acceptor.score.reshape(flat)
    nothing = np.zeros(1, dtype=np.int32)
    reader = kernel.LazyAcceptor(nothing, acceptor.target.reshape(flat), score, acceptor.final)
    ahead = reader.ahead(tokens)
    return float(ahead[min(tokens, len(ahead) - 1), 0])


def _proportion(hits: int, trials: int, level: float) -> Interval:
    """Return Clopper and Pearson's interval of a binomial proportion."""
    from scipy.stats import binomtest  # noqa: PLC0415 (slow to import)

    bounds = binomtest(hits, trials).proportion_ci(level, method="exact")
    return Interval(float(bounds.low), float(bounds.high))
