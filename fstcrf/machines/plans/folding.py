"""Folds grammars about neighbouring labels into a chain; the rest stays an automaton.

==========  =====================================================================
Folded scores that grammars add to a chain's states and arcs fold sort conjuncts: into chains, into
couplings, and the rest
==========  =====================================================================

A conjunct over one tape in which each label leads to one state (`two_local`) is a table of
neighbouring labels: it is added to the arcs, at no cost. A conjunct with a single state over
several tapes is a table of the labels at one token: a coupling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Literal

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import LabelError, TooLargeError
from fstcrf.machines import grammar as grammars
from fstcrf.machines.plans.chain import Axes, Coupling, Input, TapeChain
from fstcrf.machines.topology import Rest, Topology, rest_of

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Acceptor


@dataclass(frozen=True, eq=False)
class Folded:
    """Scores that grammars add to the potentials of a chain; natural logs, −inf forbids.

    Parameters
    ----------
    initial, final : float64 [S]
    arc : float64 [kernel arcs]
    """

    initial: Floats
    final: Floats
    arc: Floats


@dataclass(frozen=True, eq=False)
class Folding:
    """The result of folding the conjuncts of a grammar.

    Parameters
    ----------
    chains : mapping of str to Folded
        By tape.
    couplings : tuple of Coupling
    rest : tuple of Acceptor
        Conjuncts that need states, as small as the rest of the composition allows.
    full : tuple of Acceptor
        The same conjuncts before simplification.
    names : tuple of (str, str)
        Name and destination of every conjunct, for `Plan`.
    """

    chains: Mapping[str, Folded]
    couplings: tuple[Coupling, ...]
    rest: tuple[Acceptor, ...]
    full: tuple[Acceptor, ...]
    names: tuple[tuple[str, str], ...]


def fold(chains: Sequence[TapeChain], conjuncts: Sequence[Acceptor]) -> Folding:
    """Sort conjuncts by their cost.

    Raises
    ------
    LabelError
        A conjunct reads a tape that does not exist, or has other labels.
    """
    by_name = {chain.name: chain for chain in chains}
    folder = _GrammarFolder(by_name)
    waiting = []
    for acceptor in conjuncts:
        _check_tapes(acceptor, by_name)
        if not folder.fold(acceptor):
            waiting.append(acceptor)
    rest, full = [], []
    for acceptor in waiting:
        # Given the folded conjuncts, fewer states may suffice.
        small = grammars.minimise(grammars.trim(acceptor))
        if len(small.tapes) == 1:
            small = grammars.simplified(small, folder.legal(small.tapes[0]))
        if not folder.fold(small):
            rest.append(small)
            full.append(acceptor)
            folder.names[acceptor.name] = f"kept as an automaton of {small.n_states} states"
    names = tuple((a.name, folder.names[a.name]) for a in conjuncts)
    return Folding(folder.folded, tuple(folder.couplings), tuple(rest), tuple(full), names)


class _GrammarFolder:
    """Folds conjuncts into chains and couplings."""

    def __init__(self, chains: Mapping[str, TapeChain]) -> None:
        self.chains = chains
        self.folded: dict[str, Folded] = {}
        self.couplings: list[Coupling] = []
        self.names: dict[str, str] = {}

    def fold(self, acceptor: Acceptor) -> bool:
        """Fold a conjunct if possible; return whether it was."""
        tape = acceptor.tapes[0]
        local = grammars.two_local(acceptor)
        if local is not None:
            topology = self.chains[tape].topology
            first, last = local.initial[topology.state_label], local.final[topology.state_label]
            self._add(tape, Folded(first, last, _on_arcs(topology, local.transition)))
            self.names[acceptor.name] = f"folded into the arcs of {tape}"
            return True
        small = grammars.minimise(grammars.trim(acceptor))
        if small.n_states > 1 or small.final[0] == -np.inf:
            return False
        self.couplings.append(_coupling(small))
        if small.final[0] != 0.0:
            self._add(tape, _at_the_end(self.chains[tape], float(small.final[0])))
        self.names[acceptor.name] = "added to the potentials of tokens"
        return True

    def legal(self, tape: str) -> Bools:
        """Return the legal neighbours so far, including start (last row) and end."""
        chain = self.chains[tape]
        topology, size = chain.topology, len(chain.labels)
        folded = self.folded.get(tape, _at_the_end(chain, 0.0))
        there = np.zeros(chain.n_kernel_arcs, dtype=bool)
        there[topology.kernel_arcs()] = True
        source, target = (ends[there & (folded.arc > -np.inf)] for ends in arc_ends(topology))
        label = topology.state_label
        table = np.zeros((size + 1, size + 1), dtype=bool)
        table[label[source], label[target]] = True
        table[size, label[topology.initial & (folded.initial > -np.inf)]] = True
        table[label[topology.final & (folded.final > -np.inf)], size] = True
        return table

    def _add(self, tape: str, more: Folded) -> None:
        self.folded[tape] = _sum(self.folded[tape], more) if tape in self.folded else more


def _check_tapes(acceptor: Acceptor, chains: Mapping[str, TapeChain]) -> None:
    for tape, labels in zip(acceptor.tapes, acceptor.labels, strict=True):
        if tape not in chains:
            raise LabelError(
                f"the grammar {acceptor.name} reads the tape {tape!r}; the tapes are "
                f"{', '.join(map(repr, chains))}"
            )
        if labels != chains[tape].labels:
            other = sorted(set(labels) ^ set(chains[tape].labels))[:5]
            raise LabelError(
                f"the grammar {acceptor.name} was bound to other labels than the tape "
                f"{tape!r} has: {', '.join(other) or 'in another order'}"
            )


def _coupling(acceptor: Acceptor) -> Coupling:
    score = np.zeros(acceptor.target.shape[1:]) if acceptor.score is None else acceptor.score[0]
    return Coupling(acceptor.tapes, np.where(acceptor.target[0] >= 0, score, -np.inf))


def _at_the_end(chain: TapeChain, score: float) -> Folded:
    """Return a score that is added once to every labelling."""
    states = chain.topology.n_states
    return Folded(np.zeros(states), np.full(states, score), np.zeros(chain.n_kernel_arcs))


def _on_arcs(topology: Topology, transition: Floats) -> Floats:
    label = topology.state_label
    if topology.dense:
        return np.ascontiguousarray(transition[label][:, label]).ravel()
    source, target = arc_ends(topology)
    return np.ascontiguousarray(transition[label[source], label[target]])


def arc_ends(topology: Topology) -> tuple[Longs, Longs]:
    """Return source and target of the arcs in the kernel's order."""
    if not topology.dense:
        return topology.source.astype(np.int64), topology.target.astype(np.int64)
    n = topology.n_states
    return np.repeat(np.arange(n), n), np.tile(np.arange(n), n)


def _sum(a: Folded, b: Folded) -> Folded:
    return replace(a, initial=a.initial + b.initial, final=a.final + b.final, arc=a.arc + b.arc)


# --- What is left of a grammar when all that looks at ---------------------------------------------

MAX_RESIDUAL = 4096
"""Largest number of states of an expanded residual automaton."""

_MAX_ENTRIES = 50_000_000


def multiplied(
    conjuncts: Sequence[Acceptor], order: Sequence[str], limit: int = MAX_RESIDUAL
) -> Acceptor:
    """Return one minimal acceptor for the conjunction of several.

    Parameters
    ----------
    conjuncts : sequence of Acceptor
        At least one.
    order : sequence of str
        All tapes; the result reads the needed ones in this order.
    limit : int
        Largest number of states.

    Raises
    ------
    TooLargeError
        More than `limit` states.
    ContradictionError
        They contradict each other: no labelling satisfies all.
    """

    def product(a: Acceptor, b: Acceptor) -> Acceptor:
        return grammars.minimise(grammars.intersect(a, b, limit=limit))

    try:
        acceptor = reduce(product, conjuncts)
    except TooLargeError:
        raise TooLargeError(
            f"the grammar has more than {limit:,} states when its {len(conjuncts)} "
            "conjuncts are multiplied out, which is too many for log Z, marginals, "
            "samples, normalize='chain' and search='expanded'; best and n-best paths "
            "of a product still work, and confidence() bounds their probabilities"
        ) from None
    meant = acceptor.final[0] > -np.inf and any(map(grammars.acceptor.only_empty, conjuncts))
    if grammars.is_empty(acceptor) and not meant:
        raise grammars.contradiction_error(conjuncts)
    labels = dict(zip(acceptor.tapes, acceptor.labels, strict=True))
    tapes = tuple(t for t in order if t in labels)
    return grammars.on_tapes(acceptor, tapes, tuple(labels[t] for t in tapes))


def kernel_residual(
    acceptor: Acceptor, axes: Sequence[str], places: Mapping[str, Ints], last_label: Ints
) -> kernel.Residual:
    """Return an acceptor in the form of the kernel: an edge for each pair of states.

    Parameters
    ----------
    acceptor : Acceptor
        Its tapes in the order of the axes.
    axes : sequence of str
        Tapes of the axes.
    places : mapping of str to int32 [outer]
        Label of each tape but the last at each outer index.
    last_label : int32 [S]
        Label of each state of the last axis.
    """
    with_last = acceptor.tapes[-1] == axes[-1]
    outer = acceptor.tapes[:-1] if with_last else acceptor.tapes
    sizes = tuple(len(ls) for ls in acceptor.labels[: len(outer)])
    rows = int(np.prod(sizes, dtype=np.int64))
    last = last_label if with_last else np.zeros(1, dtype=np.int32)
    target = acceptor.target.reshape(acceptor.n_states, rows, -1)[:, :, last]
    score = np.zeros(()) if acceptor.score is None else acceptor.score
    score = np.broadcast_to(score, acceptor.target.shape).reshape(acceptor.n_states, rows, -1)
    score = score[:, :, last]
    cells = target[0].size
    code = np.arange(acceptor.n_states)[:, None] * acceptor.n_states + target.reshape(-1, cells)
    legal = target.reshape(-1, cells) >= 0
    edges, edge = np.unique(code[legal], return_inverse=True)
    if len(edges) * cells > _MAX_ENTRIES:
        raise TooLargeError(
            f"the grammar {acceptor.name} has {len(edges):,} edges over {cells:,} "
            "combinations of labels: too many to run: make it read fewer tapes"
        )
    value = np.full((len(edges), cells), -np.inf)
    value[edge, np.nonzero(legal)[1]] = score.reshape(-1, cells)[legal]
    initial = np.full(acceptor.n_states, -np.inf)
    initial[0] = 0.0
    source, arrived = np.divmod(edges, acceptor.n_states)
    place = None
    if outer:
        place = np.ravel_multi_index([places[t] for t in outer], sizes).astype(np.int32)
    return kernel.Residual(
        n_states=acceptor.n_states,
        source=source.astype(np.int32),
        target=arrived.astype(np.int32),
        rows=rows,
        width=len(last) if with_last else 1,
        value=value.reshape(len(edges), rows, -1),
        initial=initial,
        final=np.ascontiguousarray(acceptor.final),
        place=place,
    )


# --- Arcs and ends of the axes --------------------------------------------------------------------

# A dense step handles several arcs in the time of one sparse arc (measured: 4 to 9).
_DENSE_ADVANTAGE = 5


def kernel_axis(
    axes: Axes, k: int, folded: Folded | None, *, residual: bool = False
) -> kernel.Axis:
    """Return axis k for the kernel.

    Parameters
    ----------
    axes : Axes
    k : int
    folded : Folded, optional
        Scores that grammars add to its chain.
    residual : bool
        Whether an automaton also reads the labels.
    """
    chain = axes.chain[axes.order[k]]
    contexts = int(np.prod(axes.sizes(chain.arc_context), dtype=np.int64))
    place = axes.label_place(chain.arc_context, k)
    score = None
    if chain.arc is not None:
        score = _with_folded(chain.arc.reshape(contexts, -1), folded)
    source = target = None
    kept = _kept_arcs(chain, folded)
    if kept is not None:
        source, target = (e[kept].astype(np.int32) for e in arc_ends(chain.topology))
        score = None if score is None else np.ascontiguousarray(score[:, kept])
    states = chain.topology.n_states
    rest = None
    if kept is None and score is not None and contexts == 1 and chain.topology.dense:
        rest = _axis_rest(axes.shape, k, score[0], residual=residual)
    if rest is not None:
        return kernel.Axis(states, score=score, place=place, rest=rest.score, others=rest.others)
    return kernel.Axis(states, source, target, score, place, contexts)


def _axis_rest(shape: tuple[int, ...], k: int, score: Floats, *, residual: bool) -> Rest | None:
    """Return the score of most arcs of axis k, if visiting only the others is cheaper."""
    if len(shape) == 1 and not residual:
        return rest_of(score, shape[0])
    if k < len(shape) - 1:  # cells of later axes are processed together, at least eight
        later = int(np.prod(shape[k + 1 : -1], dtype=np.int64)) * -(-shape[-1] // 8) * 8
        return rest_of(score, shape[k], later)
    rows = int(np.prod(shape[:k], dtype=np.int64)) * (2 if residual else 1)
    return rest_of(score, shape[k], rows, turned=True)


def arc_values(chain: TapeChain, folded: Folded | None, values: Floats) -> Floats:
    """Return arc potentials from sentences, float64 [N, contexts, arcs of the axis].

    Parameters
    ----------
    chain : TapeChain
        TapeChain of the arcs.
    folded : Folded, optional
        Scores that grammars add to it.
    values : float64 [N, L of the arc context, ..., kernel arcs]
    """
    contexts = int(np.prod(values.shape[1:-1], dtype=np.int64))
    flat = _with_folded(values.reshape(len(values), contexts, chain.n_kernel_arcs), folded)
    kept = _kept_arcs(chain, folded)
    return np.ascontiguousarray(flat if kept is None else flat[:, :, kept])


def end_potentials(
    axes: Axes, folded: Mapping[str, Folded], end: Literal["initial", "final"]
) -> Floats:
    """Return the potentials of beginning (or ending) in every joint state, float64 [outer, S]."""
    total = np.zeros(axes.shape)
    for k, tape in enumerate(axes.order):
        value = getattr(axes.chain[tape], end)
        if tape in folded:
            value = value + getattr(folded[tape], end)
        total = total + value.reshape([-1 if a == k else 1 for a in range(len(axes.shape))])
    return np.ascontiguousarray(total.reshape(-1, axes.shape[-1]))


def _kept_arcs(chain: TapeChain, folded: Folded | None) -> Longs | None:
    """Return the arcs of a sparse axis; `None` if a full matrix is faster."""
    topology = chain.topology
    legal = np.ones(chain.n_kernel_arcs, dtype=bool)
    if topology.dense:
        legal[:] = False
        legal[topology.kernel_arcs()] = True
    if folded is not None:
        legal &= folded.arc > -np.inf
    if not legal.any():
        return None if topology.dense else np.arange(1)
    if topology.dense and topology.n_states**2 <= _DENSE_ADVANTAGE * legal.sum():
        return None
    return np.flatnonzero(legal)


def _with_folded(arcs: Floats, folded: Folded | None) -> Floats:
    return np.ascontiguousarray(arcs) if folded is None else arcs + folded.arc


# --- Potentials of tokens as factors of a machine -------------------------------------------------


def table_factor(
    axes: Axes, context: tuple[str, ...], owner: str, value: Floats | None
) -> kernel.Factor:
    """Return a factor of node potentials, float64 [L of the context, ..., S of the owner].

    `value` is None if sentences bring the potentials.
    """
    sizes = axes.sizes(context)
    states = axes.chain[owner].topology.n_states
    rows = int(np.prod(sizes, dtype=np.int64))
    last = len(axes.order) - 1
    if owner == axes.order[-1]:
        place = axes.label_place(context, last)
        table = None if value is None else value.reshape(rows, states)
        return kernel.Factor(rows, states, place, _contiguous(table))
    owner_state = axes.states_before(last)[axes.order.index(owner)]
    labels = [axes.outer_labels[t] for t in context]
    place = np.ravel_multi_index([*labels, owner_state], [*sizes, states]).astype(np.int32)
    table = None if value is None else value.reshape(rows * states, 1)
    return kernel.Factor(rows * states, 1, place, _contiguous(table))


def input_factor(axes: Axes, what: Input) -> kernel.Factor:
    """Return the per-token factor of potentials from sentences; not for arcs."""
    context, owner, _ = _arranged(axes, what)
    return table_factor(axes, context, owner, None)


def coupling_factor(axes: Axes, coupling: Coupling) -> kernel.Factor | None:
    """Return the factor of a coupling; `None` if sentences bring its potentials."""
    if coupling.value is None:
        return None
    what = Input("coupling", coupling.tapes[0], coupling.tapes[1:])
    context, owner, order = _arranged(axes, what)
    value = coupling.value.transpose(order)[..., axes.chain[owner].topology.state_label]
    return table_factor(axes, context, owner, value)


def factor_values(axes: Axes, what: Input, values: Floats) -> Floats:
    """Return potentials from sentences, float64 [N, rows, width] of their factor."""
    _, owner, order = _arranged(axes, what)
    topology = axes.chain[owner].topology
    if what.kind == "coupling":
        values = values.transpose(0, *(a + 1 for a in order))
        values = values[..., topology.state_label]
    rows = int(np.prod(values.shape[1:-1], dtype=np.int64))  # with 0 tokens, -1 would be ambiguous
    flat = values.reshape(len(values), rows, topology.n_states)
    if owner != axes.order[-1]:
        flat = flat.reshape(len(values), rows * topology.n_states, 1)
    return np.ascontiguousarray(flat)


def _arranged(axes: Axes, what: Input) -> tuple[tuple[str, ...], str, tuple[int, ...]]:
    """Return context, owner and the order of the array's axes (after the first)."""
    if what.kind == "node":
        return what.context, what.tape, tuple(range(len(what.context) + 1))
    tapes = (what.tape, *what.context)
    owner = axes.owner(tapes)
    context = tuple(t for t in tapes if t != owner)
    return context, owner, tuple(tapes.index(t) for t in (*context, owner))


def _contiguous(values: Floats | None) -> Floats | None:
    return None if values is None else np.ascontiguousarray(values)
