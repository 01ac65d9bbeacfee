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

If the search does not end soon, the gap between the bound and the best score is too large. Then the
acceptors whose limits the paths near the lowest bound break most often become part of the machine,
a few more at each stage. Its bound is exact for them, and the other multipliers are found anew.

Sums with multipliers are rounded in another way. So the search looks for one path more than wanted,
if its score differs by less than rounding: such paths are left to a search without multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ragged
from fstcrf.kernel import Allowance, Budget, LazyAcceptor
from fstcrf.machines.plans.cost import search_cost

_STATES = 64  # of an acceptor that may have a limited group
_FEWEST = 8_000  # joint states of the product with these acceptors: below, it costs less
_TOKENS = 50_000  # of sentences whose multipliers are found together
_STEPS = 60  # along the subgradient, at first
_ROUND = 10  # steps after which sentences whose multipliers are found are left out
_FIRST, _NEXT = 0.5, 0.05  # the first step, in mean deviations: at first, and at a further stage
_LARGER, _SMALLER = 1.2, 0.6  # the factors of further steps
_BITS = 16  # of multipliers, so that their sums are exact and have the same bits in any batch
_ROUNDING = 1e-9  # relative
_EXPANDED = 128  # largest number of states of the acceptors that become part of the machine
_STAGES = ((0, 0, 60), (2, 20, 100), (4, 24, 250), (5, 20, 700), (6, 12, 0))
"""Acceptors in the machine, steps of the multipliers of the others, and best paths of the machine
that a search may cost; 0: no limit."""


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
        self._sizes = np.asarray([len(grammar.readers[k].final) for k, _ in self._classes])
        self._states = np.asarray([states for _, _, states, _ in groups])
        self._most = np.asarray([most for *_, most in groups], dtype=np.float64)

    @classmethod
    def of(cls, grammar: kernel.Conjunction) -> Multipliers | None:
        """Return the multipliers of a conjunction; None if its product costs less than these."""
        multipliers = cls(grammar)
        joint = grammar.machine.outer * grammar.machine.width
        return multipliers if joint * np.prod(multipliers._most + 1.0) >= _FEWEST else None

    def paths(
        self, batch: kernel.Bound, n: int, budget: Budget
    ) -> list[tuple[kernel.SearchResult, bool]]:
        """Return the n best paths of each sentence, and whether they are proven and have no tie."""
        results = []
        for run in Ragged(batch.bounds).runs(_TOKENS):
            part = batch.part(*run)
            values = np.zeros((part.n_sentences, len(self._most)))
            values, misses = self._lowest(part, values, np.ones(values.shape[1]), _STEPS, _FIRST)
            for b, row in enumerate(zip(values, misses, strict=True)):
                results.append(self._sentence(part.part(b, b + 1), n, budget, *row))
        return results

    def _sentence(
        self, batch: kernel.Bound, n: int, budget: Budget, value: Floats, misses: Floats
    ) -> tuple[kernel.SearchResult, bool]:
        """Search stage by stage, with more acceptors in the machine, until the paths are proven."""
        cost, left = search_cost(batch.machine).operations, budget.most_states
        inside: list[int] = []
        bound, active = batch, np.ones(len(value))
        for groups, steps, worth in _STAGES:
            if groups:
                for k in np.argsort(-misses, kind="stable").tolist():
                    more = [*inside, k]
                    few = len(more) <= min(groups, len(self.grammar.readers) - 1)
                    if few and k not in inside and self._sizes[more].prod() <= _EXPANDED:
                        inside = more
                active[inside] = 0.0
                readers = [self.grammar.readers[self._classes[k][0]] for k in inside]
                bound = batch.over(_expanded(batch.machine, readers))
                values, several = self._lowest(bound, value[None] * active, active, steps, _NEXT)
                value, misses = values[0], several[0]
            last = not worth or len(inside) == len(self._most)
            limit = int(n * worth * cost)
            result = kernel.lazy_paths(
                _shifted(bound, self._factor, value @ self._states),
                kernel.Conjunction(bound.machine, self._readers(value, inside)),
                n + 1,
                Budget(states=left),
                allowance=None if last else Allowance(limit, limit),
                apart=_ROUNDING,
            )
            left -= int(result.states_expanded[0])
            if last or left <= 0 or not result.unproven(n + 1)[0]:
                break
        return _first(result, n)

    def _readers(self, values: Floats, inside: Sequence[int]) -> Sequence[LazyAcceptor]:
        """Return the acceptors with the scores of multipliers, without those in the machine."""
        readers = dict(enumerate(self.grammar.readers))
        for group, (k, classes) in enumerate(self._classes):
            reader = readers.pop(k)
            if group not in inside:
                score = np.where(classes, values[group], 0.0) + np.zeros(reader.target.shape)
                score = score if reader.score is None else score + reader.score
                readers[k] = LazyAcceptor(reader.place, reader.target, score, reader.final)
        return [*readers.values()]

    def _lowest(
        self, batch: kernel.Bound, value: Floats, active: Floats, steps: int, first: float
    ) -> tuple[Floats, Floats]:
        """Return the multipliers with the lowest bound, and how often paths near it break limits.

        Both are float64 [B, groups]. Multipliers of groups that are not active remain 0.
        """
        deviation = _mean_deviation(batch.per_token[self._factor][:, 0], Ragged(batch.bounds))
        deviation = deviation[:, None]
        unit, step = np.exp2(np.frexp(deviation)[1] - _BITS), first * deviation + 0.0 * value
        best, misses = value.copy(), np.zeros_like(value)
        open_, lowest, before = np.arange(len(value)), np.full(len(value), np.inf), 0.0 * value
        width = batch.machine.width
        for k in range(steps):
            row = Ragged(batch.bounds).repeat(np.arange(len(value)))
            shifted = _shifted(batch, self._factor, (value @ self._states)[row])
            path, score = kernel.best_paths(shifted)
            bound = score + value @ self._most
            lower = bound < lowest
            lowest[lower], best[open_[lower]] = bound[lower], value[lower]
            used = np.bincount(row * width + path % width, minlength=len(value) * width)
            over = used.reshape(-1, width) @ self._states.T - self._most
            if 2 * k >= steps:
                misses[open_] += np.where((value > 0.0) | (over > 0.0), np.abs(over), 0.0) * active
            sign = np.sign(over) * active
            turned = sign * before
            step *= np.where(turned < 0.0, _SMALLER, np.where(turned > 0.0, _LARGER, 1.0))
            further = np.maximum(0.0, unit * np.rint((value + step * sign) / unit))
            changed = np.flatnonzero((further != value).any(axis=1))
            value, before = further, sign
            if (k + 1) % _ROUND == 0 and len(changed) < len(value):
                if not len(changed):
                    break
                batch, open_ = batch.select(changed.tolist()), open_[changed]
                rest = value, before, step, lowest, unit
                value, before, step, lowest, unit = (part[changed] for part in rest)
        return best, misses


def _expanded(machine: kernel.JointChain, readers: Sequence[LazyAcceptor]) -> kernel.JointChain:
    """Return a machine with the product of some acceptors as its residual automaton."""
    joint = machine.outer * machine.width
    target, score, final = np.zeros((1, joint), dtype=np.int64), np.zeros((1, joint)), np.zeros(1)
    for reader in readers:
        other = reader.target[:, reader.place]
        more = 0.0 if reader.score is None else reader.score[:, reader.place]
        legal = (target[:, None] >= 0) & (other >= 0)
        target = np.where(legal, target[:, None] * len(other) + other, -1).reshape(-1, joint)
        score = (score[:, None] + more + np.zeros(other.shape)).reshape(-1, joint)
        final = (final[:, None] + reader.final).reshape(-1)
    states = len(final)
    source, cell = np.nonzero(target >= 0)
    pairs, edge = np.unique(source * states + target[source, cell], return_inverse=True)
    value = np.full((len(pairs), joint), -np.inf)
    value[edge, cell] = score[source, cell]
    start, end = np.divmod(pairs, states)
    residual = kernel.Residual(
        *(states, start.astype(np.int32), end.astype(np.int32), machine.outer, machine.width),
        value.reshape(len(pairs), machine.outer, machine.width),
        np.where(np.arange(states) == 0, 0.0, -np.inf),
        final,
        np.arange(machine.outer, dtype=np.int32) if machine.outer > 1 else None,
    )
    return kernel.JointChain(
        machine.axes, machine.factors, residual, machine.initial, machine.final, empty=machine.empty
    )


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


def _first(result: kernel.SearchResult, n: int) -> tuple[kernel.SearchResult, bool]:
    """Return the n best of n + 1 paths, and whether they are proven, and their order, too."""
    score = result.score[0][result.score[0] > -np.inf]
    unproven = bool(result.unproven(n + 1)[0])
    close = (-np.diff(score) <= _ROUNDING * np.maximum(1.0, np.abs(score[1:]))).any()
    certain = not (unproven or close) and bool(np.isfinite(score).all())
    shown = result.score[:, :n], result.path[:n]
    count, proven = np.minimum(result.n_paths, n), np.minimum(result.proven, n)
    bound = np.where(proven < n, result.bound, -np.inf)
    return kernel.SearchResult(count, proven, *shown, bound, result.states_expanded), certain


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
