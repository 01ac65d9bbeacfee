"""Topologies of chains, and topologies as transducers from classes of arcs to labels.

Order 1
    A state is a label; an arc y' → y has the slot (y', y).
Order 2
    The label-pair encoding of Sha and Pereira (2003): a state is a pair y = (c', c), with the node
    slots c and y; an arc y' → y has the slot (y', y). Forbidden histories and arcs do not exist.

The *rest* is a number that most pairs of states share. A step over listed exceptions takes less
time than one over all pairs if they are few.
"""

from __future__ import annotations

import os
from itertools import count, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import LabelSet, label_tuple
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import OptionError
from fstcrf.lazy import LazyModule
from fstcrf.machines.topology.topology import START, Topology, given_potentials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_NARROW, _NARROW_STATE = "base", 24.0  # the variant of narrow registers; see `best_alone_pays`
_NEAR = 4_096  # scores of pairs that stay in the first-level cache


def rest_cost(states: int, arcs: int, rows: int = 1, *, turned: bool = False) -> float:
    """Return the cost of a step over some arcs and one number for the rest; see `all_pairs_cost`.

    Parameters
    ----------
    states, arcs : int
    rows : int
        Number of vectors of states; eight are processed together.
    turned : bool
        Whether each vector is contiguous, so that vectors must be transposed first.
    """
    return -(-rows // 8) * (0.8 * arcs + (10.0 if turned else 6.0) * states)


def all_pairs_cost(states: int, rows: int = 1) -> float:
    """Return the cost of a step over all pairs of states, in nanoseconds of the fitted machine."""
    if rows == 1:
        return 0.083 * states * states
    far = 0.03 * -(-rows // 4) if states * states > _NEAR else 0.0
    return (0.03 * rows + far) * states * states


def sparse_pays(states: int, arcs: int, rows: int = 1, *, turned: bool = False) -> bool:
    """Return whether steps over some arcs, and a number for the rest, are faster than over all.

    The costs are for one sentence, which takes as long as eight of a batch.
    """
    return rest_cost(states, arcs, rows, turned=turned) < 0.95 * all_pairs_cost(states, rows)


def best_alone_pays(states: int, arcs: int) -> bool:
    """Return whether the best path of one sentence is faster over some arcs than over all pairs.

    A single sentence takes all lanes. A processor without AVX processes them in four parts, but
    maxima over all pairs as fast as others. Both methods find the same path.
    """
    state_cost = _NARROW_STATE * states if kernel.variant() == _NARROW else 0.0
    return max(state_cost + 0.8 * arcs, rest_cost(states, arcs)) < 0.95 * all_pairs_cost(states)


class Rest(NamedTuple):
    """The score of most pairs of states, and the others.

    Parameters
    ----------
    score : float
    others : int64 [E]
        Numbers ``i * S + j`` of the pairs with another score, ascending.
    """

    score: float
    others: Longs


def rest_of(scores: Floats, states: int, rows: int = 1, *, turned: bool = False) -> Rest | None:
    """Return the score of most pairs of states, float64 [S * S], if visiting only the others pays.

    `None` if more pairs have other scores, or −inf, than `sparse_pays` allows.
    """
    if not sparse_pays(states, 0, rows, turned=turned):
        return None
    middle = len(scores) // 2  # a value of more than half of them is the median
    score = float(np.partition(scores, middle)[middle])
    if not np.isfinite(score):
        return None
    others = np.flatnonzero(scores != score)
    pays = sparse_pays(states, len(others), rows, turned=turned)
    return Rest(score, others) if pays else None


_PAIR_BYTES = 29  # per pair of labels: legality, ends, slot
_FEW = 4_096  # labels whose pairs fit into any memory
MAX_ARCS = 4_000_000


def chain_topology(
    labels: LabelSet,
    order: int = 1,
    *,
    allowed: Callable[[str | None, str | None], bool] | None = None,
    start_label: str | None = None,
) -> Topology:
    """Return the topology of an order-k chain over labels.

    Parameters
    ----------
    labels : sequence of str, or mapping of id to str
        The labels; a string is a sequence of letters. Their order decides ties.
    order : {0, 1, 2}
        How many earlier labels a potential sees.
    allowed : callable, optional
        Returns whether a label may be followed by another; `None` is the start (as first argument)
        and the end (as second). Every succession is legal if absent.
    start_label : str, optional
        Order 2 only: the label that is assumed to precede the first token (Sha and Pereira: ``O``).
        Without it, the start is a separate history.

    Raises
    ------
    OptionError
        Another order, no or repeated labels, no legal pair, or more arcs than can be handled.
    """
    names = tuple(labels) if isinstance(labels, str) else label_tuple(labels)
    if not names or len(set(names)) != len(names):  # the letters of a text
        raise OptionError("labels must be distinct, and at least one")
    legal = allowed if allowed is not None else (lambda _a, _b: True)
    if order == 2:
        return _second_order(names, legal, start_label)
    if order not in (0, 1):
        raise OptionError(f"order is {order}, expected 0, 1 or 2")
    check_pairs(len(names))
    number = np.arange(len(names), dtype=np.int32)
    if allowed is None:
        source, target = np.repeat(number, len(names)), np.tile(number, len(names))
    else:
        table = np.asarray([[legal(a, b) for b in names] for a in names], dtype=np.bool)
        source, target = (ends.astype(np.int32) for ends in np.nonzero(table))
    slots = np.arange(len(source), dtype=np.int32)
    return Topology(
        labels=names,
        state_names=names,
        state_label=number,
        node_slots=number[:, None],
        node_slot_names=names,
        source=source,
        target=target,
        arc_slot=slots if order == 1 else np.full_like(slots, -1),
        n_arc_slots=len(slots) if order == 1 else 0,
        initial=np.asarray([legal(None, label) for label in names]),
        final=np.asarray([legal(label, None) for label in names]),
    )


def check_pairs(n_labels: int) -> None:
    """Raise an OptionError if the pairs of labels exceed the memory of the machine."""
    if n_labels <= _FEW:  # without a system call, because every lattice checks this
        return
    needed = _PAIR_BYTES * n_labels * n_labels
    if needed > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise OptionError(
            f"{n_labels:,} labels: their pairs take {needed / 1e9:,.0f} GB, more memory "
            "than this machine has; check that the column holds labels, not words"
        )


def _second_order(
    names: tuple[str, ...], legal: Callable[[str | None, str | None], bool], start_label: str | None
) -> Topology:
    rank = {name: i for i, name in enumerate((*names, START))}
    pairs = _histories(names, legal, start_label, rank)
    ends = _pair_arcs(pairs, len(names))
    shown = [f"{a} {b}" for a, b in pairs]
    begin = START if start_label is None else start_label
    return Topology(
        labels=names,
        state_names=tuple(shown),
        state_label=np.asarray([rank[b] for _, b in pairs], dtype=np.int32),
        node_slots=np.asarray(
            [(rank[b], len(names) + i) for i, (_, b) in enumerate(pairs)], dtype=np.int32
        ).reshape(-1, 2),
        node_slot_names=(*names, *shown),
        source=ends[:, 0].copy(),
        target=ends[:, 1].copy(),
        arc_slot=np.arange(len(ends), dtype=np.int32),
        n_arc_slots=len(ends),
        initial=np.asarray([a == begin and legal(None, b) for a, b in pairs]),
        final=np.asarray([legal(b, None) for _, b in pairs]),
    )


def _histories(
    names: tuple[str, ...],
    legal: Callable[[str | None, str | None], bool],
    start_label: str | None,
    rank: Mapping[str, int],
) -> list[tuple[str, str]]:
    """Return the legal pairs of a label and the one before it."""
    if start_label is not None and start_label not in names:
        raise OptionError(f"start label {start_label!r} is not a label")
    if START in names:
        raise OptionError(f"order 2 reserves the label {START!r} for the start of a sentence")
    pairs: list[tuple[str, str]] = []
    if start_label is None:
        pairs += [(START, c) for c in names if legal(None, c)]
    pairs += [(a, b) for a, b in product(names, repeat=2) if legal(a, b)]
    if not pairs:
        raise OptionError(
            "every label is forbidden at the start and after every other label, so no "
            "label sequence is left"
        )
    # Among states of one label ties go by state: sort by label first, then by history.
    return sorted(pairs, key=lambda pair: (rank[pair[1]], rank[pair[0]]))


def _pair_arcs(pairs: Sequence[tuple[str, str]], n_labels: int) -> Ints:
    """Return the ends of the arcs, int32 [A, 2]: (c'', c') → (c', c), by source, then target."""
    by_first: dict[str, list[int]] = {}
    for number, (a, _) in enumerate(pairs):
        by_first.setdefault(a, []).append(number)
    n_arcs = sum(len(by_first.get(b, ())) for _, b in pairs)
    if n_arcs > MAX_ARCS:
        raise OptionError(
            f"order 2 over {n_labels} labels has {n_arcs} arcs, more than {MAX_ARCS}; "
            "use order 1, or a scheme that forbids transitions"
        )
    arcs = [(s, t) for s, (_, b) in enumerate(pairs) for t in by_first.get(b, ())]
    return np.asarray(arcs, dtype=np.int32).reshape(-1, 2)


if TYPE_CHECKING:
    from fstcrf.machines import algebra, machine
else:  # rarely needed
    algebra = LazyModule("fstcrf.machines.algebra")
    machine = LazyModule("fstcrf.machines.machine")


def topology_machine(
    topology: Topology,
    arc_slots: Floats | None = None,
    initial: Floats | None = None,
    final: Floats | None = None,
) -> machine.Machine:
    """Return a topology as a transducer from arc classes to labels.

    Parameters
    ----------
    topology : Topology
    arc_slots : float64 [arc slots], optional
        Potential of each arc slot; zero if absent, like the others.
    initial, final : float64 [S], optional
        Potentials of beginning and ending in a state.

    Returns
    -------
    fstcrf.machines.machine.Machine
        Restricted to states and arcs on paths. Input symbol k is class k of `arc_classes`.

    Raises
    ------
    ShapeError
        Sizes that disagree.
    NumericError
        NaN or +inf.
    """
    states = topology.n_states
    slots = given_potentials(arc_slots, topology.n_arc_slots, "arc_slots")
    first, last = (
        np.where(allowed, given_potentials(values, states, name), -np.inf)
        for values, allowed, name in (
            (initial, topology.initial, "initial"),
            (final, topology.final, "final"),
        )
    )
    classes, begin, inner = _classes(topology)
    begins = np.flatnonzero(topology.initial).astype(np.int32)
    target = np.concatenate([begins, topology.target])
    made = machine.Machine(
        source=np.concatenate([np.zeros_like(begins), topology.source + np.int32(1)]),
        input=np.concatenate([begin[begins], inner]),
        output=topology.state_label[target],
        target=target + np.int32(1),
        score=np.concatenate([first[begins], np.append(slots, 0.0)[topology.arc_slot]]),
        final=np.concatenate([[-np.inf], last]),
        input_symbols=tuple(_names(topology, classes)),
        output_symbols=topology.labels,
    )
    return algebra.trimmed(made)


def arc_classes(topology: Topology) -> tuple[Ints, Ints]:
    """Return the slots whose potentials each arc class sums.

    Returns
    -------
    node : int32 [C, K]
        Node slots.
    arc : int32 [C]
        Arc slot, −1: no slot.
    """
    classes, _, _ = _classes(topology)
    return classes[:, :-1].astype(np.int32), classes[:, -1].astype(np.int32)


def _classes(topology: Topology) -> tuple[Ints, Ints, Ints]:
    """Distinct (node slots, arc slot), and the class of each beginning and of each arc."""
    nodes = topology.node_slots
    none = np.full((len(nodes), 1), -1, dtype=np.int32)
    begins = np.hstack([nodes, none])
    arcs = np.hstack([nodes[topology.target], topology.arc_slot[:, None]])
    # Beginnings precede arcs, in the order of the states; only existing ones.
    used = np.vstack([begins[topology.initial], arcs])
    classes, where, number = np.unique(used, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(where)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    of_used = rank[number.reshape(-1)]
    begin = np.full(len(nodes), -1, dtype=np.int32)
    n_begins = int(topology.initial.sum())
    begin[topology.initial] = of_used[:n_begins]
    return classes[order].astype(np.int32), begin, of_used[n_begins:]


def _names(topology: Topology, classes: Ints) -> list[str]:
    """One readable name for each class, without white space, as text formats require."""
    node = [_solid(name) for name in topology.node_slot_names]
    arc = [_solid(name.replace(" → ", "→")) for name in topology.arc_slot_names]
    names: list[str] = []
    for *slots, into in classes.tolist():
        parts = [node[slot] for slot in slots] + ([arc[into]] if into >= 0 else [])
        names.append(",".join(parts))
    taken: set[str] = set()
    for number, name in enumerate(names):
        copies = (f"{name}#{k}" for k in count(2))
        names[number] = name if name not in taken else next(n for n in copies if n not in taken)
        taken.add(names[number])
    return names


def _solid(name: str) -> str:
    return "_".join(name.split())
