"""Compositions written down label sequence by label sequence: the oracle of product lattices.

Nothing here asks plans or kernel: a tape is its potentials, a grammar is walked state by state, and
every joint labelling is scored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fstcrf.arrays import Floats, Longs
from fstcrf.lattices import ChainRow, Lattice, product
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor, Grammar, is_empty
from fstcrf.machines.plans import Program, TapeChain, arc_ends
from fstcrf.machines.topology import Topology, chain_topology
from tests.support.oracles import log_sum

Labelling = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Tape:
    """A tape as its potentials: of label sequences through a topology."""

    name: str
    topology: Topology
    node: Floats  # [T, S]
    arc: Floats  # [kernel arcs] or [T, kernel arcs]
    initial: Floats  # [S]
    final: Floats

    @property
    def labels(self) -> tuple[str, ...]:
        return self.topology.labels

    @property
    def tokens(self) -> int:
        return len(self.node)

    @made_once
    def sequences(self) -> Longs:
        """Every label sequence, in order, [L ** T, T]."""
        every = itertools.product(range(len(self.labels)), repeat=self.tokens)
        return np.asarray(list(every), dtype=np.int64).reshape(-1, self.tokens)

    @made_once
    def scores(self) -> Floats:
        """Score of every label sequence; −inf where it leaves the topology."""
        return np.asarray([self._score(row) for row in self.sequences.tolist()])

    @made_once
    def steps(self) -> dict[tuple[int | None, int], tuple[int, int]]:
        """Where a label leads from a state (None: the start), and by which arc."""
        t = self.topology
        ends = list(zip(t.source.tolist(), t.target.tolist(), strict=True))
        number = {(i, j): i * t.n_states + j if t.dense else k for k, (i, j) in enumerate(ends)}
        steps: dict[tuple[int | None, int], tuple[int, int]] = {
            (i, int(t.state_label[j])): (j, number[i, j]) for i, j in ends
        }
        for j in np.flatnonzero(t.initial).tolist():
            steps[None, int(t.state_label[j])] = (j, -1)
        return steps

    def _score(self, labels: Sequence[int]) -> float:
        total, state = 0.0, None
        for t, label in enumerate(labels):
            if (state, label) not in self.steps:
                return -np.inf
            state, arc = self.steps[state, label]
            total += self.node[t, state]
            if t == 0:
                total += self.initial[state]
            else:
                total += self.arc[t, arc] if self.arc.ndim == 2 else self.arc[arc]
        return float(total + self.final[state]) if state is not None else 0.0

    def lattice(self) -> Lattice:
        still = self.arc.ndim == 1
        chain = TapeChain(
            self.name,
            self.topology,
            np.where(self.topology.initial, self.initial, -np.inf),
            np.where(self.topology.final, self.final, -np.inf),
            self.arc if still else None,
        )
        return Lattice(ChainRow(Program([chain]), (self.node,) if still else (self.node, self.arc)))


@dataclass(frozen=True, eq=False)
class World:
    """Every joint labelling of a composition with its score."""

    tapes: tuple[Tape, ...]
    couplings: Mapping[tuple[int, int], Floats]
    conjuncts: tuple[Acceptor, ...] = ()
    weights: tuple[float, ...] | None = None

    @property
    def tokens(self) -> int:
        return self.tapes[0].tokens

    @made_once
    def scores(self) -> Floats:
        """float64 [L1 ** T, L2 ** T, ...]: a labelling is a sequence of each tape."""
        weights = self.weights or (1.0,) * len(self.tapes)
        total = np.zeros([len(t.sequences) for t in self.tapes])
        for k, (tape, weight) in enumerate(zip(self.tapes, weights, strict=True)):
            total = total + self._spread(_times(tape.scores, weight), (k,))
        for (a, b), table in self.couplings.items():
            total = total + self._spread(self._coupled(a, b, table), (a, b))
        names = [tape.name for tape in self.tapes]
        for acceptor in self.conjuncts:
            places = tuple(names.index(t) for t in acceptor.tapes)
            total = total + self._spread(self._walked(acceptor, places), places)
        return total

    def _spread(self, values: Floats, places: tuple[int, ...]) -> Floats:
        """Give an array over some tapes axes of length 1 for the others."""
        order = np.argsort(places)
        shape = [len(t.sequences) if k in places else 1 for k, t in enumerate(self.tapes)]
        return values.transpose(order).reshape(shape)

    def _coupled(self, a: int, b: int, table: Floats) -> Floats:
        first, second = self.tapes[a].sequences, self.tapes[b].sequences
        whole = np.broadcast_to(table, (self.tokens, *table.shape[-2:]))
        total = np.zeros((len(first), len(second)))
        for t in range(self.tokens):
            total += whole[t][first[:, t, None], second[None, :, t]]
        return total

    def _walked(self, acceptor: Acceptor, places: tuple[int, ...]) -> Floats:
        """Score of every joint labelling of some tapes under an acceptor."""
        sizes = [len(self.tapes[k].sequences) for k in places]
        grid = np.indices(sizes).reshape(len(sizes), -1)
        state, total = np.zeros(grid.shape[1], dtype=np.int64), np.zeros(grid.shape[1])
        for t in range(self.tokens):
            read = [self.tapes[k].sequences[g, t] for k, g in zip(places, grid, strict=True)]
            where = (np.maximum(state, 0), *read)
            if acceptor.score is not None:
                total += acceptor.score[where]
            state = np.where(state < 0, -1, acceptor.target[where])
        ended = np.where(state < 0, -np.inf, acceptor.final[np.maximum(state, 0)])
        return (total + ended).reshape(sizes)

    # --- What it says ---------------------------------------------------------------------------

    @made_once
    def log_z(self) -> float:
        return log_sum(self.scores.reshape(-1))

    @made_once
    def share(self) -> Floats:
        return np.exp(self.scores - self.log_z)

    @made_once
    def ranking(self) -> list[tuple[float, Labelling]]:
        """Labellings that are not forbidden, best first; equals in the order of labels."""
        flat = self.scores.reshape(-1)
        order = np.argsort(-flat, kind="stable")
        legal = order[flat[order] > -np.inf]
        return [(float(flat[k]), self.labelling(int(k))) for k in legal]

    def labelling(self, number: int) -> Labelling:
        where = np.unravel_index(number, self.scores.shape)
        return tuple(
            tuple(tape.labels[i] for i in tape.sequences[w])
            for tape, w in zip(self.tapes, where, strict=True)
        )

    def of_tape(self, k: int, what: Floats, reduce: Callable[..., Floats]) -> Floats:
        """Reduce joint values to one value for each sequence of a tape."""
        return reduce(what, axis=tuple(a for a in range(what.ndim) if a != k))

    def marginals(self, k: int) -> Floats:
        tape, share = self.tapes[k], self.of_tape(k, self.share, np.sum)
        out = np.zeros((self.tokens, len(tape.labels)))
        for t in range(self.tokens):
            np.add.at(out[t], tape.sequences[:, t], share)
        return out

    def arc_marginals(self, k: int) -> Floats:
        tape, share = self.tapes[k], self.of_tape(k, self.share, np.sum)
        size = len(tape.labels)
        out = np.zeros((max(self.tokens - 1, 0), size, size))
        for t in range(self.tokens - 1):
            np.add.at(out[t], (tape.sequences[:, t], tape.sequences[:, t + 1]), share)
        return out

    def max_marginals(self, k: int) -> Floats:
        tape, best = self.tapes[k], self.of_tape(k, self.scores, np.max)
        out = np.full((self.tokens, len(tape.labels)), -np.inf)
        for t in range(self.tokens):
            np.maximum.at(out[t], tape.sequences[:, t], best)
        return out

    def entropy(self) -> float:
        share = self.share[self.share > 0]
        return float(-(share * np.log(share)).sum())

    def lattice(self) -> Lattice:
        """The same composition, made as a user would make it."""
        one = product(
            [t.lattice() for t in self.tapes], coupling=self.couplings, weights=self.weights
        )
        for acceptor in self.conjuncts:
            one = one & Grammar.from_acceptor(acceptor)
        return one


def first_dead_token(world: World) -> int:
    """The first token behind which no beginning of a labelling can go on; one conjunct at most.

    A beginning is alive if no potential forbids it so far and the grammar accepts some
    continuation, of whatever length; the last token where only the end is shut.
    """
    open_ended = [replace(a, final=_productive(a)) for a in world.conjuncts]
    for t in range(world.tokens):
        tapes = [
            replace(
                tape,
                node=tape.node[: t + 1],
                arc=tape.arc[: t + 1] if tape.arc.ndim == 2 else tape.arc,
                final=np.zeros_like(tape.final),
            )
            for tape in world.tapes
        ]
        couplings = {
            key: table[: t + 1] if table.ndim == 3 else table
            for key, table in world.couplings.items()
        }
        begun = World(tuple(tapes), couplings, tuple(open_ended), world.weights)
        if begun.log_z == -np.inf:
            return t
    return world.tokens - 1


def _productive(acceptor: Acceptor) -> Floats:
    """0 for states from which an end can be reached, −inf for others."""
    alive = acceptor.final > -np.inf
    for _ in range(acceptor.n_states):
        leads = (acceptor.target >= 0) & alive[acceptor.target]
        alive = alive | leads.reshape(acceptor.n_states, -1).any(axis=1)
    return np.where(alive, 0.0, -np.inf)


def _times(scores: Floats, weight: float) -> Floats:
    legal = scores > -np.inf
    return np.where(legal, weight * np.where(legal, scores, 0.0), -np.inf)


# --- Random ones --------------------------------------------------------------------------------


def numbers(
    rng: np.random.Generator, shape: tuple[int, ...], forbid: float = 0.08, scale: float = 1.0
) -> Floats:
    """Potentials, some of them −inf."""
    return np.where(rng.random(shape) < forbid, -np.inf, rng.normal(size=shape) * scale)


def random_topology(rng: np.random.Generator, labels: Sequence[str]) -> Topology:
    """A chain of order 0 to 2; now and then with few successions, so that it is sparse."""
    order = int(rng.choice([0, 1, 1, 1, 2]))
    if rng.random() < 0.5:
        return chain_topology(labels, order)
    forbidden = {(a, b) for a in (None, *labels) for b in labels if rng.random() < 0.4}
    for a in labels:  # something is left
        forbidden.discard((a, labels[0]))
    forbidden.discard((None, labels[0]))
    return chain_topology(labels, order, allowed=lambda a, b: (a, b) not in forbidden)


def random_tape(
    rng: np.random.Generator,
    name: str,
    labels: Sequence[str],
    tokens: int,
    *,
    forbid: float = 0.08,
    scale: float = 1.0,
) -> Tape:
    topology = random_topology(rng, labels)
    per_token, arcs = rng.random() < 0.4, len(arc_ends(topology)[0])
    arc = numbers(rng, (tokens, arcs) if per_token else (arcs,), forbid, scale)
    if topology.dense:
        missing = np.ones(arcs, dtype=bool)
        missing[topology.kernel_arcs()] = False
        arc[..., missing] = -np.inf
    states = topology.n_states
    ends = [numbers(rng, (states,), forbid / 2, scale) for _ in range(2)]
    return Tape(name, topology, numbers(rng, (tokens, states), forbid, scale), arc, *ends)


def random_acceptor(
    rng: np.random.Generator,
    tapes: Sequence[tuple[str, tuple[str, ...]]],
    *,
    states: int | None = None,
    hard: bool | None = None,
) -> Acceptor:
    """A random deterministic automaton that accepts something."""
    shape = tuple(len(labels) for _, labels in tapes)
    while True:
        q = int(rng.integers(1, 5)) if states is None else states
        target = rng.integers(0, q, (q, *shape)).astype(np.int32)
        target[rng.random(target.shape) < rng.choice([0.0, 0.15, 0.4])] = -1
        if rng.random() < 0.3:  # one state a label: it folds into the arcs of a tape
            target = np.where(target < 0, -1, rng.integers(0, q, shape)[None]).astype(np.int32)
        soft = rng.random() < 0.5 if hard is None else not hard
        score = rng.normal(size=target.shape) if soft and rng.random() < 0.8 else None
        final = rng.normal(size=q) if soft else np.zeros(q)
        final[rng.random(q) < 0.3] = -np.inf
        names, labels = zip(*tapes, strict=True)
        found = Acceptor(tuple(names), tuple(labels), target, score, final, f"random({q})")
        if not is_empty(found):
            return found


def random_world(
    seed: int,
    *,
    tapes: int | None = None,
    tokens: int | None = None,
    labels: int | None = None,
    conjuncts: int | None = None,
    limit: int = 20_000,
) -> World:
    """A random composition of 1 to 3 tapes that can be written down."""
    rng = np.random.default_rng(seed)
    while True:
        n = int(rng.integers(1, 4)) if tapes is None else tapes
        length = int(rng.integers(1, 7)) if tokens is None else tokens
        sizes = [int(rng.integers(1, 6)) if labels is None else labels for _ in range(n)]
        if float(np.prod(sizes)) ** length <= limit:
            break
    scale = float(rng.choice([1.0, 1.0, 1.0, 30.0]))
    forbid = float(rng.choice([0.0, 0.05, 0.1]))
    parts = [
        random_tape(
            rng,
            f"t{k}",
            tuple(f"{'abc'[k]}{i}" for i in range(size)),
            length,
            forbid=forbid,
            scale=scale,
        )
        for k, size in enumerate(sizes)
    ]
    couplings: dict[tuple[int, int], Floats] = {}
    pairs = list(itertools.permutations(range(n), 2))
    for place in rng.permutation(len(pairs))[: int(rng.integers(0, 4))].tolist():
        a, b = pairs[place]
        lead = (length,) if rng.random() < 0.5 else ()
        couplings[a, b] = numbers(rng, (*lead, sizes[a], sizes[b]), forbid / 2, scale)
    found = []
    for _ in range(int(rng.integers(0, 4)) if conjuncts is None else conjuncts):
        read = rng.permutation(n)[: int(rng.integers(1, n + 1))].tolist()
        found.append(random_acceptor(rng, [(parts[k].name, parts[k].labels) for k in read]))
    weights = tuple(rng.choice([0.0, 0.5, 1.0, 2.0], n).tolist()) if rng.random() < 0.4 else None
    return World(tuple(parts), couplings, tuple(found), weights)
