"""How sure a labelling under a grammar is, and how much of the model the grammar leaves.

With Z the sum over all paths of the model, and Z' the sum over the legal ones, scores of the
grammar included: the best legal path has the probability exp(score) / Z', and the legal mass is
the probability that a labelling drawn from the model is legal.

Where Z' cannot be summed it is bounded. Paths that are known (the n best legal ones, and the n
best of the model, legal or not) count as what they are; all others together have what is left of
Z, of which between nothing and everything is legal. Or labellings are drawn from the model: the
share that is legal is a binomial proportion, with Clopper and Pearson's (1934) interval; scores of
a soft grammar are averaged, with Hoeffding's (1963).
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
"""Width of an interval from which auto draws samples, too."""


def bounded(
    lattice: Any,
    method: Method,
    n: int,
    samples: int,
    level: float,
    seed: int,
    budget: Budget | None,
) -> Confidence:
    """Return bounds on how sure the best legal path is; parameters as for `Lattice.confidence`."""
    parts = _Parts(lattice, n, budget)
    known = parts.known()
    narrow = max(known.probability.width, known.legal.width) <= _NARROW
    if method == "n-best" or (method == "auto" and narrow):
        return known
    drawn = parts.drawn(samples, level, seed)
    if method == "sampling":
        return drawn
    return replace(
        drawn,
        probability=known.probability.within(drawn.probability),
        legal=known.legal.within(drawn.legal),
    )


class _Parts:
    """The paths that are known of a lattice, and what is left.

    Everything is relative to the sum over the model's own paths: probabilities before the grammar.
    """

    def __init__(self, lattice: Any, n: int, budget: Budget | None) -> None:
        self.lattice, self.conjuncts = lattice, lattice.row.program.conjuncts
        self.model = type(lattice)(lattice.row.without_grammar())
        self.log_z = self.model.log_partition()
        # The bounds hold whatever is proven of the n best; of the best one it has to be said.
        legal = nbest_paths([lattice], n, budget=budget)[0]
        if not legal:
            lattice.best(budget)  # raises, and says where
            raise NoPathError("no legal label sequence was found within the budget")
        self.path = legal[0]
        warn_unproven(int(not self.path.exact), 1)
        self.gains, self.shares = self._looked_at(legal, self.model.nbest(n))
        self.most = math.exp(sum(_most(a, len(lattice)) for a in self.conjuncts))

    def _looked_at(self, legal: list[Path], free: list[Path]) -> tuple[Floats, Floats]:
        """Return what the grammar scores (−inf: illegal), and probabilities before it."""
        under = {path.labels: path.score for path in legal}
        before = {path.labels: path.score for path in free if path.labels not in under}
        gains = _gains(self.conjuncts, self._ids([*under, *before]))
        scores = np.asarray([*under.values(), *before.values()])
        scores[: len(under)] -= gains[: len(under)]
        return gains, np.exp(np.minimum(0.0, scores - self.log_z))

    def _ids(self, labellings: list[Any]) -> Ids:
        """Return label numbers of each tape, int64 [labellings, T]."""
        tapes = self.lattice.tapes
        several = [[one] if len(tapes) == 1 else list(one) for one in labellings]
        found = {}
        for k, tape in enumerate(tapes):
            index = {label: i for i, label in enumerate(self.lattice.on[k].labels)}
            rows = [[index[label] for label in parts[k]] for parts in several]
            found[tape] = np.asarray(rows, dtype=np.int64)
        return found

    def known(self) -> Confidence:
        """Return what the n best paths prove."""
        legal = self.gains > -np.inf
        left = max(0.0, 1.0 - float(self.shares.sum()))
        inside = float(self.shares[legal].sum())
        total = float((self.shares * np.exp(self.gains))[legal].sum())
        mass = Interval(min(1.0, inside), min(1.0, inside + left))
        return self._answer(Interval(total, total + left * self.most), mass, "n-best", 1.0)

    def drawn(self, samples: int, level: float, seed: int) -> Confidence:
        """Return what labellings drawn from the model say."""
        gains = _gains(self.conjuncts, self._ids(sample([self.model], samples, seed=seed)[0]))
        mass = _proportion(int((gains > -np.inf).sum()), samples, level)
        total = mass
        if any(acceptor.weighted for acceptor in self.conjuncts):
            mean = float(np.exp(gains).mean())
            off = self.most * math.sqrt(math.log(2 / (1 - level)) / (2 * samples))
            total = Interval(max(0.0, mean - off), mean + off)
        return self._answer(total, mass, "sampling", level)

    def _answer(self, total: Interval, mass: Interval, method: str, level: float) -> Confidence:
        """`total` is Z' / Z; the best path's own share is a part of it."""
        own = math.exp(self.path.score - self.log_z)
        low, high = max(total.low, own), max(total.high, own)
        return Confidence(self.path, Interval(own / high, own / low), mass, method, level)


def _gains(conjuncts: Sequence[Acceptor], ids: Ids) -> Floats:
    """Return what conjuncts score labellings, float64; −inf where one rejects them."""
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
    """Return the most that an acceptor scores any labelling of so many tokens."""
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

    found = binomtest(hits, trials).proportion_ci(level, method="exact")
    return Interval(float(found.low), float(found.high))
