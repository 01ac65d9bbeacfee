"""The n best label sequences of an acyclic machine in which a sequence may have several paths.

Best-first search over prefixes of labels. A prefix stands for the states that its paths end in,
each with its best score or with the log of their sum: the deterministic machine of the same label
sequences, of which only those states are made that the search looks at.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fstcrf import display
from fstcrf.arguments import AS_GRAMMAR, LabelSet, refuse_fst, whole_number
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import LabelError, NoPathError, OptionError, ShapeError, TooLargeError
from fstcrf.files import write_picture
from fstcrf.kernel import acyclic
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.lattices.answer import Path, share, shown_tapes
from fstcrf.lattices.arcs import acceptor_steps, check_size
from fstcrf.lattices.machines import acyclic_acceptor, machine_labels
from fstcrf.machines import openfst, pictures
from fstcrf.machines.grammar import Acceptor, Grammar
from fstcrf.machines.openfst import Machine
from fstcrf.ragged import Ragged

if TYPE_CHECKING:
    import pynini

_Subset = dict[int, float]
_Total = Callable[[Iterable[float]], float]

LABEL = "label"
"""The name of the only tape."""

_PREFIXES = 10_000


class _Sequence(NamedTuple):
    """A label sequence, and the total of its paths.

    `exact`: no sequence that comes later has more than `bound`, its own score.
    """

    labels: tuple[int, ...]
    score: float
    bound: float
    exact: bool


class _Lists(NamedTuple):
    """A machine as Python's lists: the search looks at few of its arcs."""

    row: list[int]
    target: list[int]
    label: list[int]
    score: list[float]
    final: list[float]
    suffix: list[float]


def best_sequences(machine: Acyclic, label: Ints) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield label sequences, best first, each once, with the score of its best path.

    `label`, int32 [A], is that of each arc; −1: none. Ties: a sequence that begins another comes
    first, then the smaller label, at the earliest place where they differ.
    """
    lists = _lists(machine, label, machine.best_suffix)
    return ((found.labels, found.score) for found in _sequences(lists, max))


def probable_sequences(
    machine: Acyclic, label: Ints, budget: int, likely: _Sequence
) -> Iterator[_Sequence]:
    """Yield label sequences, each once, the most probable first: scores are logs of sums of paths.

    When `budget` prefixes have been looked at, what was met so far follows, unproven, and `likely`.
    """
    return _sequences(_lists(machine, label, machine.sum_suffix), _log_sum, budget, likely)


def _lists(machine: Acyclic, label: Ints, suffix: Floats) -> _Lists:
    return _Lists(
        row=machine.row.tolist(),
        target=machine.target.tolist(),
        label=label.tolist(),
        score=machine.score.tolist(),
        final=machine.final.tolist(),
        suffix=suffix.tolist(),
    )


def _log_sum(scores: Iterable[float]) -> float:
    values = list(scores)
    top = max(values)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def _sequences(
    lists: _Lists, total: _Total, budget: float = math.inf, likely: _Sequence | None = None
) -> Iterator[_Sequence]:
    """Yield label sequences by the total of their paths: a maximum, or the log of a sum."""
    # (−total of the ways on, labels, 0: it ends here or 1: it may go on, states)
    queue: list[tuple[float, tuple[int, ...], int, _Subset]] = []
    _queue(queue, lists, total, (), _closed(lists, total, {0: 0.0}))
    looked, told = 0, set[tuple[int, ...]]()
    while queue:
        cost, labels, goes_on, subset = heapq.heappop(queue)
        if not goes_on:
            told.add(labels)
            yield _Sequence(labels, 0.0 - cost, 0.0 - cost, exact=True)
        elif looked < budget:
            looked += 1
            for number, states in _successors(lists, total, subset).items():
                _queue(queue, lists, total, (*labels, number), _closed(lists, total, states))
        else:
            known = {entry[1]: 0.0 - entry[0] for entry in queue if not entry[2]}
            if likely is not None and likely.labels not in told:
                known[likely.labels] = likely.score
            for rest, score in sorted(known.items(), key=lambda item: (-item[1], item[0])):
                yield _Sequence(rest, score, max(score, 0.0 - cost), exact=False)
            return


def _queue(
    queue: list[tuple[float, tuple[int, ...], int, _Subset]],
    lists: _Lists,
    total: _Total,
    labels: tuple[int, ...],
    subset: _Subset,
) -> None:
    ends = total([score + lists.final[s] for s, score in subset.items()])
    if ends > -np.inf:
        heapq.heappush(queue, (-ends, labels, 0, {}))
    further = _total_on(lists, total, subset)
    if further > -np.inf:
        heapq.heappush(queue, (-further, labels, 1, subset))


def _total_on(lists: _Lists, total: _Total, subset: _Subset) -> float:
    """Total of the paths that read another label."""
    further = [
        score + lists.score[a] + lists.suffix[lists.target[a]]
        for s, score in subset.items()
        for a in range(lists.row[s], lists.row[s + 1])
        if lists.label[a] >= 0
    ]
    return total(further) if further else -np.inf


def _closed(lists: _Lists, total: _Total, subset: _Subset) -> _Subset:
    """Add what can be reached without a label; every arc leads upwards."""
    line = list(subset)
    heapq.heapify(line)
    while line:
        s = heapq.heappop(line)
        for a in range(lists.row[s], lists.row[s + 1]):
            if lists.label[a] >= 0:
                continue
            t, score = lists.target[a], subset[s] + lists.score[a]
            if t not in subset:
                heapq.heappush(line, t)
            subset[t] = total([subset.get(t, -np.inf), score])
    return subset


def _successors(lists: _Lists, total: _Total, subset: _Subset) -> dict[int, _Subset]:
    """States behind the next label, for every label there is."""
    found: dict[int, _Subset] = {}
    for s, score in subset.items():
        for a in range(lists.row[s], lists.row[s + 1]):
            if lists.label[a] < 0:
                continue
            states, t = found.setdefault(lists.label[a], {}), lists.target[a]
            states[t] = total([states.get(t, -np.inf), score + lists.score[a]])
    return found


# --- A lattice of any shape -----------------------------------------------------------------------


class AcyclicLattice:
    """The paths of an acyclic acceptor and their scores.

    Made by `from_fst` or `from_machine`.

    Parameters
    ----------
    machine : Machine
        On its paths only, states in topological order, arcs of a state by label.
    labels : tuple of str
        Label k is the symbol k + 1.
    dead : int, optional
        First token that no path passes, where it is known why there is none.
    """

    def __init__(
        self, machine: Machine, labels: tuple[str, ...], *, dead: int | None = None
    ) -> None:
        self.machine, self.labels, self._dead = machine, labels, dead
        self._label: Ints = machine.ilabel - np.int32(1)

    @classmethod
    def from_fst(cls, fst: pynini.Fst, labels: LabelSet | None = None) -> AcyclicLattice:
        """Return the lattice of a ``pynini.Fst``.

        Parameters
        ----------
        fst : pynini.Fst
            An acyclic acceptor, of any type of arcs; epsilon arcs are allowed.
        labels : sequence of str, or mapping of int to str, optional
            Label k is the symbol k + 1; the Fst's own symbol table when absent.

        Raises
        ------
        MissingDependencyError
            pynini is not installed.
        DataError
            The Fst is no acceptor, has a cycle, no symbols, or others than `labels`.
        LabelError
            A label that is there twice.
        """
        return cls.from_machine(openfst.from_fst(fst), labels)

    @classmethod
    def from_machine(cls, machine: Machine, labels: LabelSet | None = None) -> AcyclicLattice:
        """Return the lattice of a machine; arguments and errors as for `from_fst`."""
        acceptor = acyclic_acceptor(machine)
        return cls(acceptor, machine_labels(acceptor, labels))

    def __repr__(self) -> str:
        size = f"{self.machine.n_states:,} states, {self.machine.n_arcs:,} arcs"
        return f"<AcyclicLattice: {size}, {len(self.labels)} labels>"

    def _repr_html_(self) -> str:
        """Return its best path for notebooks."""
        head = display.heading(repr(self))
        if self.log_partition() == -np.inf:
            return head + display.note("every label sequence is forbidden")
        return display.picture(head, self.best()._repr_html_())

    @property
    def tapes(self) -> tuple[str, ...]:
        """The name of the only tape."""
        return (LABEL,)

    def __len__(self) -> int:
        """Labels on every path; raises ShapeError where paths differ."""
        return self._common_length("len()")

    @property
    def lengths(self) -> tuple[int, int]:
        """Labels on the shortest and on the longest path; zeros where there is none."""
        if not self.machine.n_states:
            return 0, 0
        ends = self.machine.final > -np.inf
        shortest, longest = self._lengths
        return int(shortest[ends].min()), int(longest[ends].max())

    # --- Best paths ---------------------------------------------------------------------------

    def best(self) -> Path[tuple[str, ...]]:
        """Return the best path.

        Ties: the path that ends comes before one that goes on, then the smaller label index, at the
        earliest place where the candidates differ (an epsilon before every label).

        Raises
        ------
        NoPathError
            There is no path.
        """
        arcs, score = acyclic.best(self._flat)
        if score == -np.inf:
            raise self._no_path()
        return self._path(self._label[arcs].tolist(), score)

    def nbest(self, n: int, *, tapes: Sequence[str] | None = None) -> list[Path[tuple[str, ...]]]:
        """Return the n best paths, or all where there are fewer; ties as for `best`.

        Parameters
        ----------
        n : int
        tapes : sequence of str, optional
            ``["label"]``, the only tape there is: the n best label sequences. Each is there once,
            its score is that of its best path, its probability is summed over all of its paths.
            `strings` ranks them by that sum.

        Raises
        ------
        OptionError
            n is negative, or tapes that there are not.
        """
        if tapes is not None:
            shown_tapes(self.tapes, tapes)
        if tapes is not None and not self._deterministic:
            if n < 0:
                raise OptionError(f"n is {n}, expected 0 or more")
            found = islice(best_sequences(self._flat, self._label), n)
            return [self._path(labels, score, self._sum_of(labels)) for labels, score in found]
        arcs, scores = acyclic.nbest(self._flat, n)
        rows = self._labels_of(arcs)
        return [self._path(*pair) for pair in zip(rows, scores.tolist(), strict=True)]

    def strings(self, n: int = 1, *, budget: int = _PREFIXES) -> list[Path[tuple[str, ...]]]:
        """Return the n most probable label sequences, best first, the sum over all paths of each.

        By best-first search over prefixes; what bounds a prefix is the exact sum over all label
        sequences that begin with it.

        Parameters
        ----------
        n : int
        budget : int
            Prefixes to look at. Where they do not suffice, what is found is not proven to be the
            best: ``exact`` is False, and no sequence that is not returned scores more than
            ``bound``.

        Returns
        -------
        list of Path
            ``score`` is the log of the sum over the paths of the labels.

        Raises
        ------
        OptionError
            n or a budget below 1.
        """
        if n < 1 or budget < 1:
            raise OptionError(f"n is {n} and budget {budget}, expected 1 or more")
        if self.log_partition() == -np.inf:
            return []
        likely = tuple(self._labels_of(acyclic.best(self._flat)[0][None])[0])
        score = self._sum_of(likely)
        known = _Sequence(likely, score, score, exact=False)
        found = islice(probable_sequences(self._flat, self._label, budget, known), n)
        return [
            Path(self._names(s.labels), s.score, self._share(s.score), exact=s.exact, bound=s.bound)
            for s in found
        ]

    def max_marginals(self) -> Floats:
        """Return the score of the best path through each label, float64 [T, L]; −inf: none.

        Raises
        ------
        ShapeError
            Paths differ in length.
        """
        tokens, size = self._common_length("max_marginals"), len(self.labels)
        best = np.full(tokens * size, -np.inf)
        place, read = self._places()
        np.maximum.at(best, place, acyclic.max_marginals(self._flat)[read])
        return best.reshape(tokens, size)

    # --- Sums ---------------------------------------------------------------------------------

    def log_partition(self) -> float:
        """Return log Z, the log of the sum over all paths; −inf where there is none."""
        return acyclic.log_partition(self._flat)

    def entropy(self) -> float:
        """Return the entropy of the distribution over paths, in nats.

        Raises
        ------
        NoPathError
            There is no path.
        """
        if self.log_partition() == -np.inf:
            raise self._no_path()
        # By the chain rule, of the choices at each state: no difference of large numbers.
        node, arc = acyclic.marginals(self._flat)
        machine, suffix = self.machine, self._flat.sum_suffix
        chosen = machine.score + suffix[machine.target] - suffix[machine.source]
        ends = np.flatnonzero(machine.final > -np.inf)
        ended = machine.final[ends] - suffix[ends]
        stop = node[ends] * np.exp(ended)
        return max(0.0, -float((arc * chosen).sum() + (stop * ended).sum()))

    def marginals(self) -> Floats:
        """Return the probability of each label at each token, float64 [T, L].

        Raises
        ------
        NoPathError
            There is no path.
        ShapeError
            Paths differ in length, so that tokens are not the same on all of them.
        """
        tokens, size = self._common_length("marginals"), len(self.labels)
        if self.log_partition() == -np.inf:
            raise self._no_path()
        place, read = self._places()
        share = acyclic.marginals(self._flat)[1][read]
        total = np.bincount(place, weights=share, minlength=tokens * size).astype(np.float64)
        return total.reshape(tokens, size)

    def sample(self, n: int, *, seed: int = 0) -> list[tuple[str, ...]]:
        """Return the labels of n independent exact samples from the distribution over paths.

        Raises
        ------
        OptionError
            A negative n or seed.
        NoPathError
            There is no path.
        """
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        if self.log_partition() == -np.inf:
            raise self._no_path()
        arcs = acyclic.sample(self._flat, n, np.random.default_rng(seed))
        return [tuple(self.labels[k] for k in row) for row in self._labels_of(arcs)]

    # --- One label sequence -------------------------------------------------------------------

    def score(self, labels: Sequence[str]) -> float:
        """Return the score of the best path with these labels; −inf if there is none.

        Raises
        ------
        LabelError
            A label that the lattice does not have.
        """
        return acyclic.best(self._paths_with(labels))[1]

    def probability(self, labels: Sequence[str]) -> float:
        """Return the probability of a label sequence: that of all its paths; raises as `score`."""
        return self._share(acyclic.log_partition(self._paths_with(labels)))

    # --- Other lattices, other forms ----------------------------------------------------------

    def restrict(self, mask: ArrayLike) -> AcyclicLattice:
        """Return the lattice of the paths that a mask allows.

        Parameters
        ----------
        mask : bool [T, L]
            Labels that each token may have.

        Raises
        ------
        ShapeError
            Another shape, or paths that differ in length.
        """
        allowed = np.asarray(mask, dtype=bool)
        if not self.machine.n_states and allowed.shape[1:] == (len(self.labels),):
            return self  # without a path there is no length that a mask could have
        wanted = self._common_length("restrict"), len(self.labels)
        if allowed.shape != wanted:
            found, names = list(allowed.shape), "(tokens, labels)"
            raise ShapeError(f"mask is {found}, expected {list(wanted)} {names}")
        place, read = self._places()
        score = self.machine.score.copy()
        score[np.flatnonzero(read)[~allowed.reshape(-1)[place]]] = -np.inf
        left = replace(self.machine, score=score)
        machine = openfst.connect(left)
        dead = None if machine.n_states else self._first_dead(left)
        return AcyclicLattice(machine, self.labels, dead=dead)

    def scale(self, factor: float) -> AcyclicLattice:
        """Return the lattice of the same paths with all scores times a factor.

        Raises
        ------
        OptionError
            A factor that is not finite.
        """
        if not math.isfinite(factor):
            raise OptionError(f"factor is {factor}, expected a finite number")
        machine = self.machine
        ends = machine.final > -np.inf
        with np.errstate(over="ignore"):  # infinities are refused by name
            final = np.where(ends, factor * np.where(ends, machine.final, 0.0), -np.inf)
            scaled = replace(machine, score=factor * machine.score, final=final)
        return AcyclicLattice(scaled, self.labels, dead=self._dead)

    def constrained(self, grammar: Grammar) -> AcyclicLattice:
        """Return the lattice of the paths whose labels a grammar accepts, its scores added.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels.
        OptionError
            What is no grammar.
        TooLargeError
            A product too large to write out.
        """
        if not isinstance(grammar, Grammar):
            raise OptionError(f"grammar is {grammar!r}, expected a fstcrf.Grammar")
        lattice = self
        for acceptor in grammar.bind(self.labels):
            lattice = lattice._accepted(acceptor)
        return lattice

    def __and__(self, grammar: Grammar) -> AcyclicLattice:
        """Return the lattice of the paths that a grammar accepts; see `constrained`."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, Grammar):
            return NotImplemented
        return self.constrained(grammar)

    def _accepted(self, acceptor: Acceptor) -> AcyclicLattice:
        machine, states = self.machine, acceptor.n_states
        check_size(machine.n_arcs * states, f"the product with {acceptor.name}")
        after, gain = acceptor_steps(acceptor, self._label.astype(np.int64), None)
        arc, state = np.nonzero(after >= 0)
        source = machine.source[arc].astype(np.int64) * states + state
        target = machine.target[arc].astype(np.int64) * states + after[arc, state]
        order = np.argsort(source, kind="stable")
        product = replace(
            machine,
            start=machine.start * states if machine.n_states else machine.start,
            source=source[order].astype(np.int32),
            target=target[order].astype(np.int32),
            ilabel=machine.ilabel[arc][order],
            olabel=machine.olabel[arc][order],
            score=(machine.score[arc] + gain[arc, state])[order],
            final=(machine.final[:, None] + acceptor.final).reshape(-1),
        )
        return AcyclicLattice(acyclic_acceptor(product), self.labels, dead=self._dead)

    def to_fst(self, arc_type: openfst.ArcType = "log64") -> pynini.Fst:
        """Return the lattice as a ``pynini.Fst``; see `fstcrf.machines.openfst.to_fst`."""
        found: pynini.Fst = openfst.to_fst(self._with_symbols(), arc_type)
        return found

    def to_att(self) -> str:
        """Return the lattice as AT&T text; see `fstcrf.machines.openfst.att_text`."""
        return openfst.att_text(self._with_symbols())

    def draw(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a drawing as SVG: by graphviz where it is installed, else by fstcrf itself.

        What has too many arcs for that is a table of probabilities, if its paths are of one length.

        Parameters
        ----------
        path : str or Path, optional
            A file ``*.svg`` to write it to, too.

        Raises
        ------
        TooLargeError
            Too many arcs for a drawing, and paths of several lengths.
        NoPathError
            There is no path.
        OptionError
            A file of another kind.
        OSError
            The file cannot be written, or graphviz fails.
        """
        if self.log_partition() == -np.inf:
            raise self._no_path()
        try:
            svg = openfst.svg(self._with_symbols())
        except TooLargeError:
            if self.lengths[0] != self.lengths[1]:
                raise
            shares, best = self.marginals(), self.best().labels
            tokens = [str(t) for t in range(len(shares))]
            found = pictures.probabilities("labels", self.labels, tokens, shares.tolist(), best)
            svg = pictures.tables(found, repr(self))
        return write_picture(svg, path)

    # --- Behind the scenes --------------------------------------------------------------------

    @cached_property
    def _flat(self) -> acyclic.Acyclic:
        machine = self.machine
        if not machine.n_states:  # the kernel's machines have a state
            nothing = np.zeros(2, dtype=np.int64)
            return acyclic.Acyclic(nothing, machine.target, machine.score, np.full(1, -np.inf))
        return acyclic.Acyclic(machine.row, machine.target, machine.score, machine.final)

    @cached_property
    def _lengths(self) -> tuple[Ints, Ints]:
        return acyclic.lengths(self._flat, self._label)

    @cached_property
    def _deterministic(self) -> bool:
        """A label sequence has at most one path."""
        source, label = self.machine.source, self._label
        twice = (np.diff(source) == 0) & (np.diff(label) == 0)
        return not twice.any() and bool((label >= 0).all())

    def _common_length(self, what: str) -> int:
        shortest, longest = self.lengths
        if shortest != longest:
            raise ShapeError(
                f"{what} needs paths of one length; these have {shortest} to {longest} labels"
            )
        return shortest

    def _places(self) -> tuple[Longs, Bools]:
        """Entry of [T, L] that each arc with a label adds to, and which arcs have one."""
        read = self._label >= 0
        token = self._lengths[0][self.machine.source[read]].astype(np.int64)
        return token * len(self.labels) + self._label[read], read

    def _labels_of(self, arcs: Ints) -> list[list[int]]:
        """Labels of paths that are rows of arcs."""
        if not arcs.size:
            return [[] for _ in arcs]
        label = np.where(arcs >= 0, self._label[arcs], -1)
        return [row[row >= 0].tolist() for row in label]

    def _path(
        self, label: Sequence[int], score: float, total: float | None = None
    ) -> Path[tuple[str, ...]]:
        chance = self._share(score if total is None else total)
        return Path(self._names(label), score, chance, exact=True, bound=score)

    def _names(self, label: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.labels[k] for k in label if k >= 0)

    def _sum_of(self, label: Sequence[int]) -> float:
        """Log of the sum over the paths with these labels."""
        return acyclic.log_partition(self._paths_reading(label))

    def _share(self, score: float) -> float:
        return share(score, self.log_partition())

    def _paths_with(self, labels: Sequence[str]) -> acyclic.Acyclic:
        index = {label: k for k, label in enumerate(self.labels)}
        unknown = next((label for label in labels if label not in index), None)
        if unknown is not None:
            known = ", ".join(self.labels[:12]) + (", …" if len(self.labels) > 12 else "")
            raise LabelError(f"unknown label {unknown!r}; the labels are {known}")
        return self._paths_reading([index[label] for label in labels])

    def _paths_reading(self, labels: Sequence[int]) -> acyclic.Acyclic:
        """Pairs (state, labels read): state s with t labels is number s * (T + 1) + t."""
        flat, free, width = self._flat, np.flatnonzero(self._label < 0), len(labels) + 1
        reading = [np.flatnonzero(self._label == label) for label in labels]
        arcs = np.concatenate([*reading, *[free] * width])
        ahead = Ragged.from_lengths(map(len, reading)).rows()
        read = np.concatenate([ahead, np.repeat(np.arange(width), len(free))])
        source = self.machine.source[arcs] * np.int64(width) + read
        target = self.machine.target[arcs] * np.int64(width) + read + (self._label[arcs] >= 0)
        by_source = np.argsort(source, kind="stable")
        final = np.full((len(flat.final), width), -np.inf)
        final[:, -1] = flat.final
        return acyclic.Acyclic(
            Ragged.from_rows(source, final.size).offsets,
            target[by_source].astype(np.int32),
            flat.score[arcs][by_source],
            final.reshape(-1),
        )

    def _with_symbols(self) -> Machine:
        table = (openfst.EPSILON, *self.labels)
        return replace(self.machine, isymbols=table, osymbols=table)

    def _first_dead(self, machine: Machine) -> int:
        """First token that no path from the start passes."""
        taken = machine.score > -np.inf
        row = Ragged.from_rows(machine.source[taken], machine.n_states).offsets
        everywhere = np.ones(machine.n_states, dtype=bool)
        reached = acyclic.connected(row, machine.target[taken], machine.start, everywhere)
        return int(self._lengths[0][reached].max(initial=0))

    def _no_path(self) -> NoPathError:
        if self._dead is None:
            return NoPathError("the lattice has no path")
        return NoPathError("every label sequence is forbidden from here on", position=self._dead)
