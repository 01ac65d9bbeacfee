"""The n best label sequences: of an acyclic machine, and of some tapes of a lattice.

Each kind of sequence is searched in one queue of parts. A *part* is a set of sequences with a
common prefix, and its bound: no sequence of the part scores more. The part with the highest bound
is divided first. The kinds differ only in how they divide a part:

- Labels of an acyclic machine, and the strings of CTC (`fstcrf.lattices.ctc`): by their next label.
- Labellings of some tapes of a lattice that has a label for each token: a labelling has the score
  and the probability of the best path with its labels. Often the n best paths of all tapes have
  enough labellings. Otherwise a set of labellings is divided into its best labelling and one part
  for each place: the labellings that differ from the best one at this place first. The best path of
  each part is found by the usual decoder (Lawler 1972), so grammars may be searched lazily and
  within a budget.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.kernel import Budget
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.kernel.lazy import is_over, shared
from fstcrf.lattices.batching import Paths, Ranking, nbest_paths, path_batches, usual_log_z
from fstcrf.lattices.paths import Path, labels_of_tapes, share, shown_tapes
from fstcrf.lattices.questions import Questions
from fstcrf.machines.plans import Search

Labels: TypeAlias = tuple[int, ...]
PartT = TypeVar("PartT")
Entry: TypeAlias = tuple[float, Labels, PartT | None]
"""The score and the labels of a sequence, and None; or bound, prefix and contents of a part."""

_FEWEST_PREFIXES, _MOST_PREFIXES = 16, 10_000


class ScoredLabels(NamedTuple):
    """A label sequence and its score.

    `bound`: no sequence that follows in the search scores more. `exact`: the score is no less.
    """

    labels: Labels
    score: float
    bound: float
    exact: bool


def search(
    entries: Iterable[Entry[PartT]],
    divide: Callable[[PartT], Iterable[Entry[PartT]]],
    budget: float = math.inf,
    likely: Callable[[], tuple[Labels, float]] | None = None,
) -> Iterator[ScoredLabels]:
    """Yield label sequences, best first, each once.

    Sequences of equal score come in lexicographic order.

    Parameters
    ----------
    entries : iterable of Entry
        Sequences and parts that together hold all sequences.
    divide : function
        Returns the sequences and the parts that a part consists of.
    budget : float
        Largest number of parts to divide. After that, the sequences reached so far follow, with
        ``exact=False``, and one that is reached by always dividing the part with the highest bound.
    likely : function, optional
        Returns a sequence and its score, to add to them.
    """
    queue: list[tuple[float, Labels, bool, PartT | None]] = []
    divided, proven = 0, set[Labels]()
    while True:
        for score, labels, part in entries:
            if score > -math.inf:
                heapq.heappush(queue, (0.0 - score, labels, part is not None, part))
        while queue and queue[0][3] is None:
            cost, labels, _, _ = heapq.heappop(queue)
            proven.add(labels)
            yield ScoredLabels(labels, 0.0 - cost, 0.0 - cost, exact=True)
        if not queue:
            return
        cost, _, _, part = heapq.heappop(queue)
        if part is None or divided >= budget:
            break
        divided += 1
        entries = divide(part)
    scores = {labels: 0.0 - other for other, labels, is_part, _ in queue if not is_part}
    scores |= _ahead(divide, part)
    if likely is not None:
        labels, score = likely()
        if labels not in proven:
            scores[labels] = score
    for labels, score in sorted(scores.items(), key=lambda item: (-item[1], item[0])):
        yield ScoredLabels(labels, score, max(score, 0.0 - cost), exact=score >= 0.0 - cost)


def _ahead(
    divide: Callable[[PartT], Iterable[Entry[PartT]]], part: PartT | None
) -> dict[Labels, float]:
    """Return sequences and scores; always the part with the highest bound is divided."""
    scores: dict[Labels, float] = {}
    while part is not None:
        further, divided, part = -math.inf, divide(part), None
        for score, labels, rest in divided:
            if rest is None and score > -math.inf:
                scores[labels] = score
            elif rest is not None and score > further:
                further, part = score, rest
    return scores


def usual_budget(arcs: int) -> int:
    """Return the number of prefixes of a machine that take up to a second."""
    return max(_FEWEST_PREFIXES, min(_MOST_PREFIXES, 20_000_000 // (6_000 + arcs)))


# --- Label sequences of an acyclic machine --------------------------------------------------------

_Extension: TypeAlias = tuple[Labels, Longs, Floats, int]
"""Labels, the states that their paths end in, the total of the paths to each, the next label."""

_FEW_STATES = 1_024
"""Up to here, totals of all states take less time than a list of the states that are reached."""

_MOST_LIMITED = 20_000_000
"""Arcs times labels for which limits are computed; beyond it, all continuations are summed."""


def _maxima(scores: Floats, group: Longs, n: int) -> Floats:
    """Return the largest of the scores of each of n groups, float64 [n]."""
    top = np.full(n, -np.inf)
    np.maximum.at(top, group, scores)
    return top


def _log_sums(scores: Floats, group: Longs, n: int) -> Floats:
    """Return the log of the sum over the scores of each of n groups, float64 [n]."""
    top = _maxima(scores, group, n)
    shift = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.bincount(group, np.exp(scores - shift[group]), n)) + shift


def _ranges(first: Longs, count: Longs) -> Longs:
    """Return so many consecutive numbers from each first one on."""
    ends = count.cumsum()
    starts: Longs = (first - ends + count).repeat(count)
    return starts + np.arange(len(starts))


def _furthest(source: Longs, target: Ints, states: int) -> Longs:
    """Return the last state that paths of some arcs lead to, from each state, int64 [S]."""
    last, before = np.arange(states), np.zeros(states, dtype=np.int64)
    while (last != before).any():
        before = last.copy()
        np.maximum.at(last, source, before[target])
        last = last[last]
    return last


class LabelledMachine:
    """A search for the label sequences of an acyclic machine by the total of their paths.

    The machine is determinised lazily, as far as the search needs it. The bound of a prefix is the
    total of its paths, each with the limit of the state where it ends. The limit of a state is at
    least the total of its continuations with any one label sequence. For sums, it sums the
    continuations with each next label, and takes the label with the largest sum.

    Parameters
    ----------
    machine : Acyclic
    label : int32 [A]
        Label of each arc, −1 if it has no label.
    summed : bool
        Whether the total of paths is the log of their sum; otherwise it is the best score.
    """

    def __init__(self, machine: Acyclic, label: Ints, *, summed: bool) -> None:
        source = Ragged(machine.row).rows()
        self.n_labels, self.final = int(label.max(initial=-1)) + 1, machine.final
        self.summed, self.totals = summed, _log_sums if summed else _maxima
        self.limit = machine.sum_suffix if summed else machine.best_suffix
        if summed and len(label) * self.n_labels <= _MOST_LIMITED:
            self.limit = self._limits(machine, label, source)
        last = len(self.final) - 1
        read, silent = np.flatnonzero(label >= 0), np.flatnonzero(label < 0)
        # arcs of one state with one label form a group
        key = source[read].astype(np.int64) * self.n_labels + label[read]
        read = read[np.argsort(key, kind="stable")]
        self.score, self.target = machine.score[read], machine.target[read].astype(np.int64)
        keys, group, self.arcs = np.unique(key, return_inverse=True, return_counts=True)
        state, self.label = np.divmod(keys, self.n_labels)
        self.bound = self.totals(self.limit[self.target] + self.score, np.sort(group), len(keys))
        self.first_arc = np.cumsum(self.arcs) - self.arcs
        self.degree = np.bincount(state, minlength=last + 1)
        self.first = np.cumsum(self.degree) - self.degree
        # turned round: state s is number S − 1 − s, so that arcs still lead to higher states
        begins = last - machine.target[silent]
        order = np.argsort(begins, kind="stable")
        target = (last - source[silent][order]).astype(np.int32)
        row, ends = Ragged.from_rows(begins, last + 1).offsets, np.full(last + 1, -np.inf)
        self.turned = Acyclic(row, target, machine.score[silent][order], ends)
        self.last = _furthest(source[silent], machine.target[silent], last + 1)

    def _limits(self, machine: Acyclic, labels: Ints, source: Longs) -> Floats:
        """Return the limit of each state."""
        size, level = self.n_labels + 1, machine.lengths()[1]  # arcs lead to higher levels
        next_label = np.full((len(self.final), size), -np.inf)  # the last column: the sequence ends
        next_label[:, -1] = self.final
        order = np.argsort(-level[source], kind="stable")
        ends = np.flatnonzero(np.diff(level[source[order]])) + 1
        for arcs in np.split(order, ends):
            here, place = np.unique(source[arcs], return_inverse=True)
            score, target, label = machine.score[arcs], machine.target[arcs], labels[arcs]
            read = label >= 0
            cell = place[read] * size + label[read]
            limits = np.max(next_label[target[read]], axis=1, initial=-np.inf)
            total = _log_sums(score[read] + limits, cell, len(here) * size).reshape(-1, size)
            cells = (place[~read, None] * size + np.arange(size)).ravel()
            more = (score[~read, None] + next_label[target[~read]]).ravel()
            total = np.logaddexp(total, _log_sums(more, cells, total.size).reshape(-1, size))
            next_label[here] = np.logaddexp(next_label[here], total)
        return np.asarray(next_label.max(axis=1))

    def search(
        self,
        begin: int = 0,
        budget: float = math.inf,
        likely: Sequence[int] | None = None,
    ) -> Iterator[ScoredLabels]:
        """Yield the label sequences of paths from a state, best first; see `search`."""

        def scored() -> tuple[Labels, float]:
            labels = tuple(likely or ())
            return labels, self.total(labels, begin)

        entries = self._entries((), np.asarray([begin]), np.zeros(1))
        return search(entries, self._divided, budget, None if likely is None else scored)

    def _leaving(self, states: Longs) -> tuple[Longs, Longs]:
        """Return the groups of arcs that leave some states, and the number of each state's."""
        degree = self.degree[states]
        return _ranges(self.first[states], degree), degree

    def total(self, labels: Sequence[int], begin: int = 0) -> float:
        """Return the total of the paths with exactly these labels from a state."""
        states, mass = np.asarray([begin]), np.zeros(1)
        for label in labels:
            states, mass = self._read(*self._closed(states, mass), label)
        states, mass = self._closed(states, mass)
        return float(self.totals(mass + self.final[states], np.zeros_like(states), 1)[0])

    def _read(self, states: Longs, mass: Floats, label: int) -> tuple[Longs, Floats]:
        """Return the states after one more label, and the total of the paths to each."""
        groups, degree = self._leaving(states)
        read = self.label[groups] == label
        groups, mass = groups[read], mass.repeat(degree)[read]
        arcs = _ranges(self.first_arc[groups], self.arcs[groups])
        mass = mass.repeat(self.arcs[groups])
        target, score = self.target[arcs], mass + self.score[arcs]
        if len(self.final) <= _FEW_STATES:
            total = self.totals(score, target, len(self.final))
            after = (total > -np.inf).nonzero()[0]
            return after, total[after]
        after, place = np.unique(target, return_inverse=True)
        return after, self.totals(score, place, len(after))

    def _closed(self, states: Longs, mass: Floats) -> tuple[Longs, Floats]:
        """Return the states after any arcs without a label, and the total of the paths to each."""
        if not len(states) or (self.last[states] == states).all():
            return states, mass
        top, end = len(self.final) - 1, int(self.last[states].max())
        total = self.turned.suffix_to(top - end, top - states, mass, summed=self.summed)[::-1]
        states = (total > -np.inf).nonzero()[0]
        return states + (end + 1 - len(total)), total[states]

    def _divided(self, part: _Extension) -> Iterator[Entry[_Extension]]:
        labels, states, mass, label = part
        return self._entries((*labels, label), *self._read(states, mass, label))

    def _entries(self, labels: Labels, states: Longs, mass: Floats) -> Iterator[Entry[_Extension]]:
        states, mass = self._closed(states, mass)
        end = mass + self.final[states]
        score = np.logaddexp.reduce(end) if self.summed else end.max()
        yield float(score), labels, None
        groups, degree = self._leaving(states)
        bound = mass.repeat(degree) + self.bound[groups]
        bounds = self.totals(bound, self.label[groups], self.n_labels)
        for label in (bounds > -np.inf).nonzero()[0].tolist():
            yield float(bounds[label]), (*labels, label), (labels, states, mass, label)


_JOINT = 8
"""Paths of all tapes that are ranked first, for each labelling."""
_MORE, _MOST_RANKED = 4, 1_024
"""Factor of the paths of each further ranking, and the most paths of one."""


def nbest_of_tapes(
    lattices: Sequence[Any],
    n: int,
    tapes: Sequence[str],
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> list[list[Path]]:
    """Return the n best labellings of some tapes of each lattice, best first.

    A `Path` holds the labels of these tapes, in this order. It has the score and the probability of
    the best path of all tapes with these labels. If the time of the budget ends first, there are
    fewer, and the last of a lattice is not ``exact``.
    """
    chosen = [shown_tapes(lattice.tapes, tapes) for lattice in lattices]
    n = whole_number(n, "n", least=1, narrow=True)
    log_z = cache(lambda: usual_log_z(lattices, threads=threads).tolist())
    labellings: list[list[Path]] = [[] for _ in chosen]
    share = shared(budget)

    def rank(numbers: Sequence[int], n: int) -> Ranking:
        some = [lattices[number] for number in numbers] if len(numbers) < len(chosen) else lattices
        return nbest_paths(some, n, threads=threads, search=search, budget=share(1))

    def solve(parts: Sequence[Questions]) -> Paths | None:
        if is_over(left := share(1)):
            return None
        return Paths(parts, 1, path_batches(parts, 1, threads, search, left))

    left, n_paths = list(range(len(chosen))), min(_JOINT * n, 2**31 - 1)
    several = rank(left, n_paths)
    while left:
        again: list[int] = []
        for place, number in enumerate(left):
            lattice, shown = lattices[number], chosen[number]
            paths, complete = _first_of_each(several, place, shown, n, n_paths)
            labellings[number] = _distinct(lattice, paths, shown)
            if complete or len(labellings[number]) >= n:
                continue
            if is_over(share(1)):
                labellings[number][-1:] = map(_unproven, labellings[number][-1:])
                continue
            # A search would begin again: there, parts of the labellings take less time.
            if several.states_expanded[place] or _MORE * n_paths > _MOST_RANKED:
                labellings[number] = _Labellings(lattice, shown, solve).first(n)
            else:
                again.append(number)
        left, n_paths = again, _MORE * n_paths
        several = rank(left, n_paths) if left else several
    return [
        [_with_probability(path, number, log_z) for path in paths[:n]]
        for number, paths in enumerate(labellings)
    ]


def _first_of_each(
    ranking: Ranking, number: int, shown: tuple[str, ...], n: int, n_paths: int
) -> tuple[list[Path], bool]:
    """Return the first paths of n or more labellings, and whether all paths were ranked."""
    group, row, batch, part = ranking.place(number)
    count, engine = part.stop - part.start, group.engine
    paths = batch.of_row(row, part.start, part.stop)
    names = [tape.name for tape in engine.on]
    if paths.decoded is None and count > 1 and set(shown) <= set(names):
        along = [engine.labels_along(paths.elements, names.index(tape)).label for tape in shown]
        labels = np.concatenate([ids.reshape(count, -1) for ids in along], axis=1)
        first: dict[bytes, int] = {}
        for rank, ids in enumerate(labels):
            first.setdefault(ids.tobytes(), rank)
        paths = paths.ranks(np.fromiter(islice(first.values(), n), np.int64))
    return group.paths(row, paths), count < n_paths


def _with_probability(path: Path, number: int, log_z: Callable[[], list[float]]) -> Path:
    value: Any = lambda: share(path.score, log_z()[number])  # noqa: E731 (typed as what it returns)
    return replace(path, probability=value)


def _distinct(lattice: Any, paths: Sequence[Path], shown: tuple[str, ...]) -> list[Path]:
    """Return the first path of each labelling of the tapes shown, without the other tapes."""
    first: dict[tuple[tuple[str, ...], ...], Path] = {}
    exact = True
    for path in paths:
        exact = exact and path.exact
        labels = tuple(lattice._labels_on(path.labels, tape) for tape in shown)
        first.setdefault(labels, _named(shown, labels, path, exact=exact, bound=path.bound))
    return list(first.values())


def _unproven(path: Path) -> Path:
    return replace(path, exact=False)


def _named(
    tapes: tuple[str, ...],
    labels: tuple[tuple[str, ...], ...],
    path: Path,
    *,
    exact: bool,
    bound: float,
) -> Path:
    shown = labels_of_tapes(labels)
    return Path(shown, path.score, np.nan, exact=exact, bound=bound, tapes=tapes)


def _all(lattice: Any) -> list[Bools]:
    """Return masks that allow every label of every tape."""
    return [np.ones((len(lattice), size), dtype=np.bool_) for size in lattice.sizes]


class _Part(NamedTuple):
    """A set of labellings with a common prefix, and the best path among them."""

    ids: Labels  # labels of the best path: all tapes shown at the first token, the second one, ...
    path: Path
    masks: list[Bools]  # [T, L] labels that a path of the part may have, for all tapes
    fixed: int  # the number of ids in the common prefix


class _Labellings:
    """The labellings of some tapes of one lattice.

    Parameters
    ----------
    lattice : Lattice
    shown : tuple of str
        The tapes.
    solve : function
        Returns the best path of each of several lattices; None if no time is left.
    """

    def __init__(
        self, lattice: Any, shown: tuple[str, ...], solve: Callable[..., Paths | None]
    ) -> None:
        self.lattice, self.shown, self.solve = lattice, shown, solve
        self.places = [lattice.tapes.index(tape) for tape in shown]
        self.parts: dict[Labels, _Part] = {}  # that are not divided yet, by their best labelling
        self.unsolved = -np.inf  # bound of the parts for which the budget did not suffice

    def first(self, n: int) -> list[Path]:
        """Return the n best labellings; fewer if the time is over, and the last is not exact."""
        paths = list(islice(self.search(), n))
        if len(paths) < n and self.unsolved > -np.inf:
            paths[-1:] = map(_unproven, paths[-1:])
        return paths

    def search(self) -> Iterator[Path]:
        """Yield the labellings, best first, each with the score of its best path."""
        for ids, *_ in search(self._entries([(_all(self.lattice), 0)]), self._divided):
            bound = max([self.unsolved, *(part.path.bound for part in self.parts.values())])
            path = self.parts[ids].path
            labels = tuple(self.lattice._labels_on(path.labels, tape) for tape in self.shown)
            yield _named(self.shown, labels, path, exact=bound <= path.score, bound=bound)

    def _divided(self, part: _Part) -> list[Entry[_Part]]:
        """Return the rest of a part without its best labelling."""
        del self.parts[part.ids]
        return self._entries(list(self._cut(part)), part.path.score)

    def _cut(self, part: _Part) -> Iterator[tuple[list[Bools], int]]:
        """Yield the rest of a part, cut by the first place that differs from its best path."""
        masks = list(part.masks)
        for number in range(part.fixed, len(part.ids)):
            token, tape = divmod(number, len(self.places))
            place, label = self.places[tape], part.ids[number]
            other = masks[place].copy()
            other[token, label] = False
            if other[token].any():
                yield [other if k == place else m for k, m in enumerate(masks)], number
            masks[place] = masks[place].copy()
            masks[place][token] = False
            masks[place][token, label] = True

    def _entries(
        self, parts: Sequence[tuple[list[Bools], int]], most: float = np.inf
    ) -> list[Entry[_Part]]:
        """Return the best labelling of each part with its score, and the part to divide further.

        No labelling scores more than `most`.
        """
        lattices = [self.lattice._with_row(self.lattice.row.restrict(masks)) for masks, _ in parts]
        paths = self.solve(lattices)
        if paths is None:
            self.unsolved = max(self.unsolved, most)
            return []
        entries: list[Entry[_Part]] = []
        for path, bound, (masks, fixed) in zip(paths, paths.bounds, parts, strict=True):
            if path is None:
                self.unsolved = max(self.unsolved, bound)
                continue
            ids = self._ids(path)
            self.parts[ids] = part = _Part(ids, path, masks, fixed)
            entries += [(path.score, ids, None), (path.score, ids, part)]
        return entries

    def _ids(self, path: Path) -> tuple[int, ...]:
        rows = [
            self.lattice.row.program.chain[tape].topology.label_ids(
                self.lattice._labels_on(path.labels, tape)
            )
            for tape in self.shown
        ]
        return tuple(np.stack(rows, axis=1).ravel().tolist())
