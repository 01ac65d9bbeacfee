"""Chains of joint states side by side: the engine of lattices that have a label for each token.

Rows of one program go to the kernel in one call. What a row answers depends neither on its company
nor on the number of threads. A path is a run of joint states, one for each token of its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import NoPathError
from fstcrf.kernel import Budget
from fstcrf.lattices.engine import PathBatch, Tape, TapeLabels
from fstcrf.lazy import made_once
from fstcrf.machines import plans
from fstcrf.machines.plans import Chain, Program
from fstcrf.machines.topology import Topology
from fstcrf.ragged import Ragged


class FlatPaths:
    """Joint states of the paths of several rows, one path behind the other when they are asked for.

    Parameters
    ----------
    path : int32 [n, N]
    sizes : Ragged
        Tokens of each path.
    first : int64 [R]
        Where each begins in the flat `path`.
    """

    def __init__(self, path: Ints, sizes: Ragged, first: Longs) -> None:
        self._path, self._sizes, self._first = path, sizes, first

    def __call__(self) -> Ints:
        """Return them, int32."""
        return self._elements

    @made_once
    def _elements(self) -> Ints:
        return self._path.ravel()[self._sizes.ranges(self._first)]


class ChainEngine:
    """B rows of one program.

    Parameters
    ----------
    program : Program
        The composition: tapes, topologies, couplings, grammar.
    parts : sequence of B tuples of float64 arrays
        What each row brings, one array for each of ``program.inputs``.
    numbers : sequence of B int, optional
        What errors call the rows; None: there is one, which has been asked by itself.
    """

    checked = False
    """The potentials are known to be numbers below 1e300."""
    _pairs: Longs | None

    def __init__(
        self,
        program: Program,
        parts: Sequence[tuple[Floats, ...]],
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.whole, self.numbers, self._parts = program, numbers, parts
        self.program, self._pairs = program.pairs or (program, None)
        if len(parts) == 1:
            self.rows = Ragged(np.array([0, len(parts[0][0])]))
        else:
            self.rows = Ragged.from_lengths(len(values[0]) for values in parts)

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes."""
        return program_tapes(self.program)

    @made_once
    def joined(self) -> tuple[Floats, ...]:
        """Potentials of all rows, one array for each input of the composition."""
        parts = zip(*self._parts, strict=True)
        return tuple([p[0] if len(p) == 1 else np.concatenate(p) for p in parts])

    def part(self, k: int) -> tuple[Floats, ...]:
        """Return the potentials of the k-th row."""
        first, end = self.rows.offsets[k : k + 2].tolist()
        return tuple([values[first:end] for values in self.joined])

    @made_once
    def values(self) -> tuple[Floats, ...]:
        """Potentials of all rows as the kernel wants them, of pairs where these answer."""
        joined = self.joined
        if self._pairs is not None:  # each pair has the potentials of its state
            joined = (joined[0].take(self._pairs, axis=1),)
        return self.program.per_token(joined)

    @made_once
    def searched(self) -> kernel.Bound:
        """What best paths are searched in, with the potentials of all rows."""
        return self._bound(self.program.decoder.machine)

    @made_once
    def bound(self) -> kernel.Bound:
        """The whole product, with the potentials of all rows: for sums."""
        if not self.program.decoder.lazy or not self.rows.total:  # then there is nothing to expand
            return self.searched
        return self._bound(self.program.machine)

    def _bound(self, machine: kernel.JointChain) -> kernel.Bound:
        return kernel.Bound(machine, self.rows.offsets, self.values, checked=self.checked)

    @property
    def time_aligned(self) -> ChainEngine:
        """The same: a joint state is of one token."""
        return self

    def forget(self) -> None:
        """Let go of the joined potentials; they are joined again when somebody asks."""
        for name in ("joined", "values", "searched", "bound"):
            self.__dict__.pop(name, None)

    def check(self, scores: Floats) -> None:
        """Raise NoPathError, with the first dead token, where the score of a row is −inf."""
        dead = scores == -np.inf
        if dead.any():
            raise self.no_path(int(dead.argmax()))

    def check_found(self, found: kernel.SearchResult) -> None:
        """Raise NoPathError where a row has no path, or a search has found none."""
        missing = found.found < 1
        if missing.any():
            raise self.no_path(int(missing.argmax()), found)

    def no_path(self, k: int, found: PathBatch | kernel.SearchResult | None = None) -> NoPathError:
        """Return the error of the k-th row, which has no path, with the first dead token.

        Of a search that was given up, it says so.
        """
        values, number = self.part(k), None if self.numbers is None else self.numbers[k]
        if found is not None and found.bound is not None and found.bound[k] > -np.inf:
            given_up = 0 if found.states_expanded is None else int(found.states_expanded[k])
            return plans.no_path_error(self.whole, values, sentence=number, given_up=given_up)
        position = None
        if len(values[0]):
            whole = self.bound if self.program.summable else self.searched
            position = int(kernel.dead_tokens(whole)[k])
        return plans.no_path_error(self.whole, values, position=position, sentence=number)

    # --- Paths --------------------------------------------------------------------------------

    def decoded(self, n: int, budget: Budget | None = None) -> kernel.SearchResult:
        """Return the n best paths of each row, as far as a search within the budget finds them."""
        return self.program.decoder.paths(self.searched, n, budget)

    @property
    def _alone(self) -> bool:
        """There is one sentence, whose potentials are those of one array of states."""
        program, cells = self.program, self.rows.total * int(np.prod(self.program.shape))
        plain = len(self.rows) == 1 and [one.kind for one in program.inputs] == ["node"]
        return plain and 0 < cells < kernel.MOST_ALONE and not program.decoder.lazy

    def nbest(self, n: int, budget: Budget | None = None) -> PathBatch:
        """Return the same paths as runs."""
        if n == 1 and self._alone:
            single = self.program.decoder.sentence_machine().best(self.values[0])
            score = np.array([single.score])[: len(single.path)]
            path = np.array(single.path, dtype=np.int32)
            alive = np.array([len(score)])
            some = alive, np.array([-np.inf]), np.zeros(1, dtype=np.int64)
            return PathBatch(alive, score, np.array([0, len(path)])[: len(score) + 1], path, *some)
        found = self.decoded(n, budget)
        some = found.proven, found.bound, found.states_expanded
        if len(self.rows) == 1:
            count = int(found.found[0])
            bounds = np.arange(count + 1) * self.rows.total
            return PathBatch(
                found.found, found.score[0, :count], bounds, found.path[:count].ravel(), *some
            )
        if n == 1:
            alive = found.found > 0
            bounds = Ragged.from_lengths(self.rows.lengths[alive]).offsets
            path = found.path[0] if alive.all() else found.path[0][found.path[0] >= 0]
            return PathBatch(found.found, found.score[alive, 0], bounds, path, *some)
        columns = found.score.shape[1]
        sizes = Ragged.from_lengths(np.repeat(self.rows.lengths, found.found))
        first = np.add.outer(self.rows.offsets[:-1], np.arange(columns) * found.path.shape[1])
        if (found.found == columns).all():
            score, first = found.score.ravel(), first.ravel()
        else:
            there = np.arange(columns) < found.found[:, None]
            score, first = found.score[there], first[there]
        return PathBatch(
            found.found, score, sizes.offsets, FlatPaths(found.path, sizes, first), *some
        )

    @property
    def best_scores(self) -> Floats:
        """Score of the best path of each row, [B]; −inf: there is none."""
        return self.decoded(1).score[:, 0]

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> PathBatch:
        """Return n independent exact samples of each row; their scores are zeros."""
        lengths = self.rows.lengths
        drawn = [g.random((n, size)) for g, size in zip(generators, lengths.tolist(), strict=True)]
        paths = kernel.sample_paths(self.bound, np.concatenate(drawn, axis=1))
        sizes = Ragged.from_lengths(np.repeat(lengths, n))
        first = np.arange(n) * paths.shape[1] + self.rows.offsets[:-1, None]
        elements = paths.ravel()[sizes.ranges(first.ravel())]
        if n:
            dead = np.full(len(lengths), np.isneginf(self.program.empty_score))
            dead[lengths > 0] = paths[0, self.rows.offsets[:-1][lengths > 0]] < 0
            self.check(np.where(dead, -np.inf, 0.0))
        found = np.full(len(lengths), n)
        return PathBatch(found, np.zeros(len(sizes)), sizes.offsets, elements)

    def labels_along(self, path: Ints, tape: int, *, placed: bool = False) -> TapeLabels:  # noqa: ARG002
        """Return the labels of a tape along joint states."""
        ((chain, k),) = self._axes([tape])
        machine = self.program.decoder.machine
        states = path if len(machine.axes) == 1 else machine.axis_states(path)[k]
        topology = chain.topology
        return TapeLabels(states if topology.direct else topology.state_label[states])

    def labels_found(self, found: kernel.SearchResult, tapes: int) -> list[Ints]:
        """Return the labels of the first tapes on the paths of `decoded`, [n, N]; −1: no path."""
        path = found.path
        each = [
            self.labels_along(path.reshape(-1), k).label.reshape(path.shape) for k in range(tapes)
        ]
        if (found.found == len(path)).all():
            return each
        return [np.where(path < 0, np.int32(-1), labels) for labels in each]

    # --- Sums ---------------------------------------------------------------------------------

    @made_once
    def log_z(self) -> Floats:
        """Log Z of each row, [B]; −inf: there is no path."""
        return kernel.log_partitions(self.bound)

    @made_once
    def usual_log_z(self) -> Floats:
        """The same, NaN where that takes a product too large to expand for it."""
        if self.program.summable:
            return self.log_z
        return np.where(self.rows.lengths > 0, np.nan, self.program.empty_score)

    def marginals(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:  # noqa: ARG002
        """Return the probability of each label of some tapes at each token, [N, L] each."""
        found = kernel.axis_posterior(self.bound)
        self.check(found.log_z)
        return [chain.topology.label_sums(found.node[k]) for chain, k in self._axes(tapes)]

    def highest(
        self,
        tapes: Sequence[int],
        sizes: Sequence[int],  # noqa: ARG002
        tokens: int,  # noqa: ARG002
    ) -> list[Floats]:
        """Return the score of the best path through each label, [N, L]; −inf: there is none."""
        found = kernel.axis_max_marginals(self.bound)
        return [chain.topology.label_max(found[k]) for chain, k in self._axes(tapes)]

    def successions(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:  # noqa: ARG002
        """Return the probability of each succession of labels, [N, L, L].

        Entry (n, i, j): label i at token n - 1 and label j at token n; the entries of first tokens
        mean nothing.
        """
        axes = self.bound.machine.axes
        found = kernel.axis_posterior(self.bound, arcs=tuple(range(len(axes))))
        self.check(found.log_z)
        return [
            _label_pairs(chain.topology, axes[k], cast("Floats", found.arc[k]))
            for chain, k in self._axes(tapes)
        ]

    def entropies(self) -> Floats:
        """Return the entropy of each row in nats, [B]."""
        found = kernel.axis_posterior(self.bound, entropy=True)
        self.check(found.log_z)
        return cast("Floats", found.entropy)

    def _axes(self, tapes: Sequence[int]) -> Iterator[tuple[Chain, int]]:
        """Yield the chain of each tape and its axis."""
        program = self.program
        for tape in tapes:
            name = program.tapes[tape]
            yield program.chain[name], program.order.index(name)


@lru_cache(maxsize=64)
def program_tapes(program: Program) -> tuple[Tape, ...]:
    """Return the tapes of a program: a label for each token."""
    return tuple(Tape(tape, program.labels(tape), segments=False) for tape in program.tapes)


def _label_pairs(topology: Topology, axis: kernel.Axis, rows: Floats) -> Floats:
    """Return the sums over the arcs between labels, float64 [N, L, L]."""
    size, label = topology.n_labels, topology.state_label
    source, target = axis_ends(axis)
    out = np.zeros((len(rows), size * size))
    for k, pair in enumerate((label[source] * size + label[target]).tolist()):
        out[:, pair] += rows[:, k]
    return out.reshape(-1, size, size)


def axis_ends(axis: kernel.Axis) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the states that each arc of an axis leads between."""
    if axis.source is not None and axis.target is not None:
        return axis.source, axis.target
    n = axis.n_states
    return np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
