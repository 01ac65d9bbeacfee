"""A topology as a position-independent transducer from classes of arcs to labels."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.arrays import Floats, Ints
from fstcrf.lazy import LazyModule
from fstcrf.machines.topology.topology import Topology, given_potentials

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
