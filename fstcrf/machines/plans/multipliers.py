"""Lagrange multipliers: tight bounds for searches under acceptors that limit the number of labels.

The bound of a search (`csrc/lazy.h`) is the best path of the machine without the acceptors. It is
loose if that path often uses labels of which the acceptors allow few: under ``contiguous`` each
type has one span, but the best path has several spans of the best types.

A *limited group* of an acceptor are labels of which it accepts at most m, whatever the other labels
are. With a multiplier l >= 0, each label of the group loses l in the machine and gains l in the
acceptor. Scores of paths that the acceptor accepts are the same, since both changes cancel; others
have no score. But the bound becomes

    best path of (machine - l * count) + l * m

for each group, which is the Lagrangian dual. Its minimum is found by steps along the subgradient,
m - count on the best path. The search then expands few states, and proves its answer as before.

Sums with multipliers are rounded in another way. So the search looks for one path more than wanted;
paths whose scores differ by less than rounding are left to a search without multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ragged
from fstcrf.kernel import Allowance, Budget, LazyAcceptor

_STATES = 64  # of an acceptor that may have a limited group
_FEWEST = 8_000  # joint states of the product with these acceptors: below, it costs less
_TOKENS = 50_000  # of sentences whose multipliers are found together
_STEPS = 40  # along the subgradient
_FIRST, _LARGER, _SMALLER = 0.5, 1.2, 0.6  # the first step, and the factors of further ones
_BITS = 16  # of multipliers, so that their sums are exact and have the same bits in any batch
_ROUNDING = 1e-9  # relative
_SHARE = 4  # of the states of a budget, one for the search with multipliers


class Multipliers:
    """The limited groups of a conjunction, and searches with multipliers for them.

    Parameters
    ----------
    grammar : kernel.Conjunction
    """

    def __init__(self, grammar: kernel.Conjunction) -> None:
        self.grammar, machine = grammar, grammar.machine
        per_token = [f for f in machine.factors if f.value is None]
        plain = [f.rows == 1 and f.width == machine.width > 1 for f in per_token]
        self._factor = plain.index(True) if any(plain) else -1
        limits = [_limited_group(reader, machine.width) for reader in grammar.readers]
        groups = [(k, *g) for k, g in enumerate(limits) if g is not None and self._factor >= 0]
        self._classes = [(k, classes) for k, classes, _, _ in groups]
        self._states = np.asarray([states for _, _, states, _ in groups])
        self._most = np.asarray([most for *_, most in groups], dtype=np.float64)

    @classmethod
    def of(cls, grammar: kernel.Conjunction) -> Multipliers | None:
        """Return the multipliers of a conjunction; None if its product costs less than these."""
        multipliers = cls(grammar)
        joint = grammar.machine.outer * grammar.machine.width
        return multipliers if joint * np.prod(multipliers._most + 1.0) >= _FEWEST else None

    def paths(
        self, batch: kernel.Bound, n: int, budget: Budget, allowance: Allowance
    ) -> list[kernel.SearchResult | None]:
        """Return the n best paths of each sentence; None for sentences that it does not decide."""
        runs = [batch.part(*run) for run in Ragged(batch.bounds).runs(_TOKENS)]
        limit = Budget(states=max(1, budget.most_states // _SHARE))
        return [result for part in runs for result in self._paths(part, n, limit, allowance)]

    def _paths(
        self, batch: kernel.Bound, n: int, limit: Budget, allowance: Allowance
    ) -> list[kernel.SearchResult | None]:
        results: list[kernel.SearchResult | None] = []
        for b, each in enumerate(self._values(batch)):
            shifted = _shifted(batch.part(b, b + 1), self._factor, each @ self._states)
            conjunction = kernel.Conjunction(batch.machine, self._readers(each))
            result = kernel.lazy_paths(shifted, conjunction, n + 1, limit, allowance=allowance)
            results.append(_first(result, n))
        return results

    def _readers(self, values: Floats) -> Sequence[LazyAcceptor]:
        readers = list(self.grammar.readers)
        for (k, classes), value in zip(self._classes, values.tolist(), strict=True):
            reader = readers[k]
            score = np.where(classes, value, 0.0) + np.zeros(reader.target.shape)
            score = score if reader.score is None else score + reader.score
            readers[k] = LazyAcceptor(reader.place, reader.target, score, reader.final)
        return readers

    def _values(self, batch: kernel.Bound) -> Floats:
        """Return the multipliers of each sentence with the lowest bound, float64 [B, groups]."""
        rows, node = Ragged(batch.bounds), batch.per_token[self._factor][:, 0]
        row = rows.repeat(np.arange(len(rows)))
        value = np.zeros((len(rows), len(self._most)))
        best, lowest, before = value.copy(), np.full(len(rows), np.inf), np.zeros_like(value)
        deviation = _mean_deviation(node, rows)[:, None]
        unit, step = np.exp2(np.frexp(deviation)[1] - _BITS), _FIRST * deviation + before
        for _ in range(_STEPS):
            shifted = _shifted(batch, self._factor, (value @ self._states)[row])
            path, score = kernel.best_paths(shifted)
            bound = score + value @ self._most
            lower = bound < lowest
            lowest[lower], best[lower] = bound[lower], value[lower]
            counts = np.zeros_like(value)
            np.add.at(counts, row, self._states.T[path % batch.machine.width])
            sign = np.sign(counts - self._most)
            step *= np.where(
                sign * before < 0.0, _SMALLER, np.where(sign * before > 0.0, _LARGER, 1.0)
            )
            value = np.maximum(0.0, unit * np.rint((value + step * sign) / unit))
            before = sign
        return best


def _shifted(batch: kernel.Bound, factor: int, less: Floats) -> kernel.Bound:
    """Return sentences with lower node potentials; `less` is [N, S] or [S]."""
    values = list(batch.per_token)
    values[factor] = values[factor] - (less if less.ndim == 1 else less[:, None, :])
    return kernel.Bound(batch.machine, batch.bounds, tuple(values), checked=True)


def _mean_deviation(node: Floats, rows: Ragged) -> Floats:
    """Return the mean deviation of the potentials of a token, float64 [B]."""
    finite = np.isfinite(node)
    count = np.maximum(finite.sum(axis=1), 1)
    mean = np.where(finite, node, 0.0).sum(axis=1) / count
    away = np.where(finite, np.abs(node - mean[:, None]), 0.0).sum(axis=1) / count
    return np.asarray([away[part].sum() / max(1, len(away[part])) for part in rows.slices()])


def _first(result: kernel.SearchResult, n: int) -> kernel.SearchResult | None:
    """Return the n best of n + 1 paths; None if they are not proven, or their order is not."""
    score = result.score[0][result.score[0] > -np.inf]
    if result.unproven(n + 1)[0] or not np.isfinite(score).all():
        return None
    if (-np.diff(score) <= _ROUNDING * np.maximum(1.0, np.abs(score[1:]))).any():
        return None
    count = np.minimum(result.n_paths, n)
    none = np.full(1, -np.inf)
    shown = result.score[:, :n], result.path[:n]
    return kernel.SearchResult(count, count, *shown, none, result.states_expanded)


def _limited_group(reader: LazyAcceptor, width: int) -> tuple[Bools, Floats, int] | None:
    """Return the limited group of an acceptor, if it has one, and how many labels it accepts.

    The group is given by the classes of the acceptor, bool [classes], and by the states of the last
    axis with its labels, 1.0 or 0.0 [S].
    """
    target = reader.target
    if len(target) > _STATES:
        return None
    source, label = np.nonzero(target >= 0)
    reachable = np.eye(len(target), dtype=bool)
    reachable[source, target[source, label]] = True
    for _ in range(len(target).bit_length()):
        reachable = reachable @ reachable
    returns = np.zeros(target.shape[1], dtype=bool)  # an arc is part of a cycle
    np.logical_or.at(returns, label, reachable[target[source, label], source])
    read = np.bincount(label, minlength=target.shape[1]) > 0
    classes = read & ~returns
    states = classes[reader.place].reshape(-1, width)
    if not classes.any() or (states != states[0]).any():
        return None
    most = np.zeros(len(target), dtype=np.int64)
    for _ in range(len(target)):
        further = np.where(target >= 0, most[target] + classes, 0)
        most = further.max(axis=1)
    return classes, states[0].astype(np.float64), int(most[0])
