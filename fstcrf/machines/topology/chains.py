"""Chains of order 0, 1 and 2 as topologies.

Order 1
    A state is a label; an arc y' → y has the slot (y', y).
Order 2
    The label-pair encoding of Sha and Pereira (2003): a state is a pair y = (c', c), with the node
    slots c and y; an arc y' → y has the slot (y', y). Forbidden histories and arcs do not exist.
"""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.arguments import LabelSet, label_tuple
from fstcrf.arrays import Ints
from fstcrf.errors import OptionError
from fstcrf.machines.topology.topology import START, Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    table = np.ones((len(names), len(names)), dtype=bool)
    if allowed is not None:
        table[:] = [[legal(a, b) for b in names] for a in names]
    source, target = np.nonzero(table)
    slots = np.arange(len(source), dtype=np.int32)
    return Topology(
        labels=names,
        state_names=names,
        state_label=np.arange(len(names), dtype=np.int32),
        node_slots=np.arange(len(names), dtype=np.int32)[:, None],
        node_slot_names=names,
        source=source.astype(np.int32),
        target=target.astype(np.int32),
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
