"""Many lattices at once: those that share a program go to the kernel in one call.

The answers depend neither on the company of a lattice nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats, Longs
from fstcrf.errors import NoPathError, OptionError
from fstcrf.kernel import Budget
from fstcrf.kernel.native import mapped
from fstcrf.lattices.answer import Labels, LabelsT_co
from fstcrf.lattices.tapes import ArrayT_co, Taped
from fstcrf.lazy import made_once
from fstcrf.machines.plans import Program, Search, no_path_error
from fstcrf.machines.plans.program import searched
from fstcrf.machines.topology import Topology
from fstcrf.ragged import Ragged

AnswerT = TypeVar("AnswerT")

_RUN_TOKENS = 20_000
_RUN_BYTES = 64_000_000


@dataclass(frozen=True, eq=False)
class Group:
    """Lattices of one program; or one that has been asked."""

    program: Program
    numbers: list[int]  # where they stand among all lattices
    lattices: list[Taped]
    batch: bool = True  # errors name their numbers; else it is one lattice that has been asked

    @classmethod
    def single(cls, lattice: Taped) -> Group:
        """Return the group of one lattice that is asked by itself."""
        return cls(lattice.program, [0], [lattice], batch=False)

    @cached_property
    def offsets(self) -> Longs:
        """Bounds of the sentences, int64 [B + 1]."""
        return Ragged.from_lengths(map(len, self.lattices)).offsets

    @cached_property
    def values(self) -> tuple[Floats, ...]:
        """What all sentences bring, as the kernel wants it."""
        parts = zip(*(lattice.values for lattice in self.lattices), strict=True)
        return self.program.per_token([p[0] if len(p) == 1 else np.concatenate(p) for p in parts])

    @made_once
    def searched(self) -> kernel.Bound:
        """What best paths are searched in, with the potentials of all sentences."""
        return kernel.Bound(self.program.decoder.machine, self.offsets, self.values)

    @made_once
    def bound(self) -> kernel.Bound:
        """The whole product, with the potentials of all sentences: for sums."""
        if not self.program.decoder.lazy or not self.offsets[-1]:  # then there is nothing to expand
            return self.searched
        return kernel.Bound(self.program.machine, self.offsets, self.values)

    @made_once
    def log_z(self) -> Floats:
        """Log Z of each sentence, float64 [B]."""
        return kernel.log_partitions(self.bound)

    @cached_property
    def usual_log_z(self) -> Floats:
        """The same, NaN where that takes a product too large to expand for it."""
        if self.program.summable:
            return self.log_z
        return np.where(np.diff(self.offsets) > 0, np.nan, self.program.empty_score)

    def forget(self) -> None:
        """Let go of the joined potentials; they are joined again when somebody asks."""
        for name in ("values", "searched", "bound"):
            self.__dict__.pop(name, None)

    def paths(self, n: int, budget: Budget | None) -> kernel.SearchResult:
        """Return the n best paths of each sentence."""
        return self.program.decoder.paths(self.searched, n, budget)

    def check(self, scores: Floats) -> None:
        """Raise NoPathError, with the first dead token, where the score of a sentence is −inf."""
        for k in np.flatnonzero(np.isneginf(scores)).tolist()[:1]:
            raise self.no_path(k)

    def no_path(self, k: int) -> NoPathError:
        """Return the error of the k-th sentence, which has no path."""
        position = None
        if len(self.lattices[k]):
            whole = self.bound if self.program.summable else self.searched
            position = int(kernel.dead_tokens(whole)[k])
        number = self.numbers[k] if self.batch else None
        values = self.lattices[k].values
        return no_path_error(self.program, values, position=position, sentence=number)


def groups_of(lattices: Sequence[Taped], search: Search | None = None) -> list[Group]:
    """Sort lattices by program, in runs of bounded size."""
    wrong = next(
        (x for x in lattices if not (hasattr(x, "program") and hasattr(x, "values"))), None
    )
    if wrong is not None:
        raise OptionError(
            f"{wrong!r} is no Lattice: taggers make them by lattice(sentence); those of arcs are "
            "asked together, of normalize='chain' one by one"
        )
    by_program: dict[int, list[int]] = {}
    for number, lattice in enumerate(lattices):
        by_program.setdefault(id(lattice.program), []).append(number)
    found = []
    for numbers in by_program.values():
        program = lattices[numbers[0]].program
        program = program if search is None else searched(program, search)
        cells = int(np.prod(program.shape)) * program.decoder.machine.n_residual
        limit = max(1, min(_RUN_TOKENS, _RUN_BYTES // (8 * cells)))
        for first, end in Ragged.from_lengths(len(lattices[i]) for i in numbers).runs(limit):
            run = numbers[first:end]
            found.append(Group(program, run, [lattices[i] for i in run]))
    return found


def answered(
    lattices: Sequence[Taped],
    ask: Callable[[Group], AnswerT],
    threads: int,
    search: Search | None = None,
) -> list[tuple[Group, AnswerT]]:
    """Ask every group, on threads; the groups do not depend on them.

    A group that was asked holds no joined potentials: the next one finds their memory, warm, and
    answers that are kept are not twice as large as the lattices.
    """
    whole_number(threads, "threads", least=1)
    groups = groups_of(lattices, search)

    def once(group: Group) -> AnswerT:
        found = ask(group)
        group.forget()
        return found

    return list(zip(groups, mapped(once, groups, threads), strict=True))


def log_partition(lattices: Sequence[Taped], *, threads: int = 1) -> Floats:
    """Return log Z of each lattice, float64 [B]; −inf where there is no path."""
    found = answered(lattices, lambda group: group.log_z, threads)
    out = np.empty(len(lattices))
    for group, log_z in found:
        out[group.numbers] = log_z
    return out


def marginals(lattices: Sequence[Taped[Labels, ArrayT_co]], *, threads: int = 1) -> list[ArrayT_co]:
    """Return the probability of each label at each token of each lattice.

    Returns
    -------
    list of float64 [T, L]
        Of several tapes, a tuple of such arrays for each lattice.

    Raises
    ------
    NoPathError
        A lattice without a path.
    """
    found = answered(lattices, posteriors, threads)
    out: dict[int, ArrayT_co] = {}
    for group, tapes in found:
        for number, rows in zip(group.numbers, Ragged(group.offsets).slices(), strict=True):
            parts = {tape: states[rows] for tape, states in tapes.items()}
            out[number] = cast("ArrayT_co", lattices[number].per_tape(parts.__getitem__))
    return [out[number] for number in range(len(lattices))]


def sample(
    lattices: Sequence[Taped[LabelsT_co, object]], n: int, *, seed: int = 0, threads: int = 1
) -> list[list[LabelsT_co]]:
    """Return n independent samples from the distribution over each lattice's paths.

    Parameters
    ----------
    lattices : sequence of Lattice
    n : int
    seed : int
        Of numpy's default generator; a lattice's samples depend on nothing but the seed and its
        place.
    threads : int

    Returns
    -------
    list of list of labels
        As `Path.labels`.

    Raises
    ------
    NoPathError
        A lattice without a path.
    OptionError
        A negative n or seed.
    """
    n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
    found = answered(lattices, lambda group: drawings(group, n, seed), threads)
    out = [[lattice.no_labels] * n for lattice in lattices]
    for group, drawn in found:
        for number, labels in zip(group.numbers, drawn, strict=True):
            out[number] = cast("list[LabelsT_co]", labels)
    return out


# --- What the forward-backward recursion says of a group ------------------------------------------


def posteriors(group: Group) -> dict[str, Floats]:
    """Return the probability of each label of each tape, float64 [N, L]."""
    found = kernel.axis_posterior(group.bound)
    group.check(found.log_z)
    program = group.program
    return {
        tape: program.chain[tape].topology.label_sums(node)
        for tape, node in zip(program.order, found.node, strict=True)
    }


def drawings(group: Group, n: int, seed: int) -> list[list[Labels]]:
    """Return the labels of n samples of each lattice; errors as `sample`."""
    uniform = np.concatenate(
        [
            np.random.default_rng([seed, number]).random((n, len(lattice)))
            for number, lattice in zip(group.numbers, group.lattices, strict=True)
        ],
        axis=1,
    )
    paths = kernel.sample_paths(group.bound, uniform)
    if n:
        score = np.full(len(group.lattices), group.program.empty_score)
        full = np.diff(group.offsets) > 0
        score[full] = np.where(paths[0, group.offsets[:-1][full]] < 0, -np.inf, 0.0)
        group.check(score)
    tokens = Ragged(group.offsets).slices()
    return [
        [lattice.path_labels(row) for row in paths[:, part]]
        for lattice, part in zip(group.lattices, tokens, strict=True)
    ]


def successions(group: Group) -> dict[str, Floats]:
    """Return the probability of each succession of labels of each tape, float64 [N, L, L].

    Entry (n, i, j): label i at token n - 1 and label j at token n; the rows of first tokens mean
    nothing.
    """
    program, machine = group.program, group.bound.machine
    found = kernel.axis_posterior(group.bound, arcs=tuple(range(len(program.order))))
    group.check(found.log_z)
    out = {}
    for tape, axis, rows in zip(program.order, machine.axes, found.arc, strict=True):
        assert rows is not None  # noqa: S101 (asked for above)
        out[tape] = _label_pairs(program.chain[tape].topology, axis, rows)
    return out


def _label_pairs(topology: Topology, axis: kernel.Axis, rows: Floats) -> Floats:
    """Return the sums over the arcs between labels, float64 [N, L, L]."""
    size, label = topology.n_labels, topology.state_label
    source, target = _ends(axis)
    out = np.zeros((len(rows), size * size))
    for k, pair in enumerate((label[source] * size + label[target]).tolist()):
        out[:, pair] += rows[:, k]
    return out.reshape(-1, size, size)


def _ends(axis: kernel.Axis) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    if axis.source is not None and axis.target is not None:
        return axis.source, axis.target
    n = axis.n_states
    return np.repeat(np.arange(n), n), np.tile(np.arange(n), n)


def label_maxima(group: Group) -> dict[str, Floats]:
    """Return the score of the best path through each label, float64 [N, L]; −inf: none."""
    found = kernel.axis_max_marginals(group.bound)
    return {
        tape: group.program.chain[tape].topology.label_max(states)
        for tape, states in zip(group.program.order, found, strict=True)
    }


def entropies(group: Group) -> Floats:
    """Return the entropy of each lattice's distribution over paths, in nats, float64 [B]."""
    found = kernel.axis_posterior(group.bound, entropy=True)
    group.check(found.log_z)
    assert found.entropy is not None  # noqa: S101 (asked for above)
    return found.entropy
