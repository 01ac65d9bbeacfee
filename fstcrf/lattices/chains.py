"""The engine of lattices with a label for each token.

All rows of a `ChainEngine` have one program. The kernel answers a question about all of them in one
call. The answer of a row depends neither on the other rows nor on the number of threads. A path is
a sequence of joint states, one for each token of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import RUN_TOKENS, Floats, Ints, Longs, Ragged
from fstcrf.errors import NoPathError
from fstcrf.kernel import Budget
from fstcrf.lattices.engine import Engine, PathBatch, Tape, TapeLabels
from fstcrf.lazy import made_once
from fstcrf.machines import plans
from fstcrf.machines.plans import Program, TapeChain
from fstcrf.machines.topology import Topology

_RUN_BYTES = 64_000_000
"""Size of the potentials of an engine."""


class FlatPaths:
    """Concatenates the joint states of the paths of several rows when it is called.

    Parameters
    ----------
    path : int32 [n, N]
    sizes : Ragged
        Tokens of each path.
    first : int64 [R]
        Index in the flattened `path` at which each path begins.
    """

    def __init__(self, path: Ints, sizes: Ragged, first: Longs) -> None:
        self._path, self._sizes, self._first = path, sizes, first

    def __call__(self) -> Ints:
        """Return the joint states, int32."""
        return self._elements

    @made_once
    def _elements(self) -> Ints:
        return self._path.ravel()[self._sizes.ranges(self._first)]


class ChainEngine(Engine):
    """A batch of B rows of one program.

    Parameters
    ----------
    program : Program
        The composition: tapes, topologies, couplings, grammar.
    parts : sequence of B tuples of float64 arrays
        Potentials of each row, one array for each of ``program.inputs``.
    numbers : sequence of B int, optional
        Numbers of the rows in error messages. If absent, there is only one row.
    """

    checked = False
    """Whether all potentials are known to be numbers below 1e300."""
    _pairs: Longs | None

    def __init__(
        self,
        program: Program,
        parts: Sequence[tuple[Floats, ...]],
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.composition, self.numbers, self._parts = program, numbers, parts
        self.program, self._pairs = program.pairs or (program, None)
        if len(parts) == 1:
            self.rows = Ragged(np.array([0, len(parts[0][0])]))
        else:
            self.rows = Ragged.from_lengths(len(values[0]) for values in parts)

    @property
    def on(self) -> tuple[Tape, ...]:
        return program_tapes(self.program)

    @property
    def as_chain(self) -> ChainEngine:
        return self

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
        """Potentials of all rows in the form that the kernel reads."""
        joined = self.joined
        if self._pairs is not None:  # each pair has the potentials of its state
            joined = (joined[0].take(self._pairs, axis=1),)
        return self.program.per_token(joined)

    @made_once
    def searched(self) -> kernel.Bound:
        """The machine of best paths, with the potentials of all rows."""
        return self._bound(self.program.decoder.machine)

    @made_once
    def bound(self) -> kernel.Bound:
        """The machine of sums: the whole product, with the potentials of all rows."""
        if not self.program.decoder.lazy or not self.rows.total:  # the two machines are the same
            return self.searched
        return self._bound(self.program.machine)

    def _bound(self, machine: kernel.JointChain) -> kernel.Bound:
        return kernel.Bound(machine, self.rows.offsets, self.values, checked=self.checked)

    @property
    def time_aligned(self) -> ChainEngine:
        return self

    def forget(self) -> None:
        for name in ("joined", "values", "searched", "bound"):
            self.__dict__.pop(name, None)

    def check(self, scores: Floats) -> None:
        """Raise NoPathError, with the first dead token, if the score of a row is −inf."""
        dead = scores == -np.inf
        if dead.any():
            raise self.no_path(int(dead.argmax()))

    def check_alive(self, error: Callable[[int], NoPathError]) -> None:
        """Do not raise: `marginals`, `sample` and the other sums do."""

    def no_path(self, k: int, paths: PathBatch | kernel.SearchResult | None = None) -> NoPathError:
        """Return the error about the k-th row, with the first dead token.

        `paths` is the result of a search, which may have ended before it found a path.
        """
        values, number = self.part(k), None if self.numbers is None else self.numbers[k]
        if paths is not None and paths.bound is not None and paths.bound[k] > -np.inf:
            given_up = 0 if paths.states_expanded is None else int(paths.states_expanded[k])
            return plans.no_path_error(self.composition, values, sentence=number, given_up=given_up)
        position = None
        if len(values[0]):
            machine = self.bound if self.program.summable else self.searched
            position = int(kernel.dead_tokens(machine)[k])
        return plans.no_path_error(self.composition, values, position=position, sentence=number)

    # --- Paths --------------------------------------------------------------------------------

    def search(self, n: int, budget: Budget | None = None) -> kernel.SearchResult:
        """Return the n best paths of each row, as far as a search finds them within the budget."""
        return self.program.decoder.paths(self.searched, n, budget)

    def decode(
        self, n: int, on: tuple[Tape, ...], budget: Budget | None, *, strict: bool = False
    ) -> tuple[kernel.SearchResult, list[Ints]]:
        if self.on[: len(on)] != on:
            return super().decode(n, on, budget)
        result = self.search(n, budget)
        missing = result.n_paths < 1
        if strict and missing.any():
            raise self.no_path(int(missing.argmax()), result)
        return result, self.labels_found(result, len(on))

    @property
    def _is_short_sentence(self) -> bool:
        """Whether the batch is one short sentence with one array of node potentials."""
        program, cells = self.program, self.rows.total * int(np.prod(self.program.shape))
        plain = len(self.rows) == 1 and [one.kind for one in program.inputs] == ["node"]
        return plain and 0 < cells < kernel.MOST_ALONE and not program.decoder.lazy

    def nbest(self, n: int, budget: Budget | None = None) -> PathBatch:
        if n == 1 and self._is_short_sentence:
            best = self.program.decoder.sentence_machine().best(self.values[0])
            score = np.array([best.score])[: len(best.path)]
            path = np.array(best.path, dtype=np.int32)
            alive = np.array([len(score)])
            some = alive, np.array([-np.inf]), np.zeros(1, dtype=np.int64)
            return PathBatch(alive, score, np.array([0, len(path)])[: len(score) + 1], path, *some)
        result = self.search(n, budget)
        some = result.proven, result.bound, result.states_expanded
        if len(self.rows) == 1:
            count = int(result.n_paths[0])
            bounds = np.arange(count + 1) * self.rows.total
            return PathBatch(
                result.n_paths, result.score[0, :count], bounds, result.path[:count].ravel(), *some
            )
        if n == 1:
            alive = result.n_paths > 0
            bounds = Ragged.from_lengths(self.rows.lengths[alive]).offsets
            path = result.path[0] if alive.all() else result.path[0][result.path[0] >= 0]
            return PathBatch(result.n_paths, result.score[alive, 0], bounds, path, *some)
        columns = result.score.shape[1]
        sizes = Ragged.from_lengths(np.repeat(self.rows.lengths, result.n_paths))
        first = np.add.outer(self.rows.offsets[:-1], np.arange(columns) * result.path.shape[1])
        if (result.n_paths == columns).all():
            score, first = result.score.ravel(), first.ravel()
        else:
            there = np.arange(columns) < result.n_paths[:, None]
            score, first = result.score[there], first[there]
        return PathBatch(
            result.n_paths, score, sizes.offsets, FlatPaths(result.path, sizes, first), *some
        )

    @property
    def best_scores(self) -> Floats:
        return self.search(1).score[:, 0]

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> PathBatch:
        lengths = self.rows.lengths
        draws = [g.random((n, size)) for g, size in zip(generators, lengths.tolist(), strict=True)]
        paths = kernel.sample_paths(self.bound, np.concatenate(draws, axis=1))
        sizes = Ragged.from_lengths(np.repeat(lengths, n))
        first = np.arange(n) * paths.shape[1] + self.rows.offsets[:-1, None]
        elements = paths.ravel()[sizes.ranges(first.ravel())]
        if n:
            dead = np.full(len(lengths), np.isneginf(self.program.empty_score))
            dead[lengths > 0] = paths[0, self.rows.offsets[:-1][lengths > 0]] < 0
            self.check(np.where(dead, -np.inf, 0.0))
        counts = np.full(len(lengths), n)
        return PathBatch(counts, np.zeros(len(sizes)), sizes.offsets, elements)

    def labels_along(self, path: Ints, tape: int) -> TapeLabels:
        ((chain, k),) = self._axes([tape])
        machine = self.program.decoder.machine
        states = path if len(machine.axes) == 1 else machine.axis_states(path)[k]
        topology = chain.topology
        return TapeLabels(states if topology.direct else topology.state_label[states])

    def labels_found(self, result: kernel.SearchResult, tapes: int) -> list[Ints]:
        """Return the labels of the first tapes on the paths of `search`, [n, N]; −1: no path."""
        path = result.path
        each = [
            self.labels_along(path.reshape(-1), k).label.reshape(path.shape) for k in range(tapes)
        ]
        if (result.n_paths == len(path)).all():
            return each
        return [np.where(path < 0, np.int32(-1), labels) for labels in each]

    # --- Sums ---------------------------------------------------------------------------------

    @made_once
    def log_z(self) -> Floats:
        return kernel.log_partitions(self.bound)

    @made_once
    def usual_log_z(self) -> Floats:
        if self.program.summable:
            return self.log_z
        return np.where(self.rows.lengths > 0, np.nan, self.program.empty_score)

    def marginals(self, tapes: Sequence[int]) -> list[Floats]:
        sums = kernel.axis_posterior(self.bound)
        self.check(sums.log_z)
        return [chain.topology.label_sums(sums.node[k]) for chain, k in self._axes(tapes)]

    def highest(self, tapes: Sequence[int]) -> list[Floats]:
        scores = kernel.axis_max_marginals(self.bound)
        return [chain.topology.label_max(scores[k]) for chain, k in self._axes(tapes)]

    def successions(self, tapes: Sequence[int]) -> list[Floats]:
        axes = self.bound.machine.axes
        sums = kernel.axis_posterior(self.bound, arcs=tuple(range(len(axes))))
        self.check(sums.log_z)
        return [
            _label_pairs(chain.topology, axes[k], cast("Floats", sums.arc[k]))
            for chain, k in self._axes(tapes)
        ]

    def label_counts(self, tape: int) -> tuple[Floats, Floats]:
        ((chain, k),) = self._axes([tape])
        sums = kernel.axis_posterior(self.bound, arcs=(k,), summed=True)
        self.check(sums.log_z)
        arc, topology = cast("Floats", sums.arc[k]), chain.topology
        pairs = _label_pairs(topology, self.bound.machine.axes[k], arc[None])
        return topology.label_sums(sums.node[k]), pairs[0]

    def entropies(self) -> Floats:
        posterior = kernel.axis_posterior(self.bound, entropy=True)
        self.check(posterior.log_z)
        return cast("Floats", posterior.entropy)

    def _axes(self, tapes: Sequence[int]) -> Iterator[tuple[TapeChain, int]]:
        """Yield the chain of each tape and its axis."""
        program = self.program
        for tape in tapes:
            name = program.tapes[tape]
            yield program.chain[name], program.order.index(name)


def runs_of(program: Program, rows: Ragged) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, end) of rows of a program, each for one engine of bounded size."""
    cells = int(np.prod(program.shape)) * program.decoder.machine.n_residual
    return rows.runs(max(1, min(RUN_TOKENS, _RUN_BYTES // (8 * cells))))


@lru_cache(maxsize=64)
def program_tapes(program: Program) -> tuple[Tape, ...]:
    """Return the tapes of a program, which have a label for each token."""
    return tuple(Tape(tape, program.labels(tape), segments=False) for tape in program.tapes)


def _label_pairs(topology: Topology, axis: kernel.Axis, rows: Floats) -> Floats:
    """Return the sum of the arcs between each two labels, float64 [N, L, L]."""
    size, label = topology.n_labels, topology.state_label
    source, target = axis_ends(axis)
    pair = label[source].astype(np.int64) * size + label[target]
    if np.array_equal(pair, np.arange(size**2)):
        return rows.reshape(-1, size, size)
    cell = pair + np.arange(len(rows))[:, None] * size**2
    sums = np.bincount(cell.ravel(), rows.ravel(), len(rows) * size**2)
    return sums.astype(np.float64).reshape(-1, size, size)


def axis_ends(axis: kernel.Axis) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the source state and the target state of each arc of an axis."""
    if axis.source is not None and axis.target is not None:
        return axis.source, axis.target
    n = axis.n_states
    return np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
