"""Which label histories a model has: order, scheme and what the data shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.corpus import legal_transitions
from fstcrf.errors import OptionError
from fstcrf.lazy import LazyModule
from fstcrf.model.model import Model
from fstcrf.model.options import Options
from fstcrf.topology import Topology, chain_topology
from fstcrf.train import Problem
from fstcrf.train.problem import ParameterSpace

if TYPE_CHECKING:
    from fstcrf import grammar as grammars
    from fstcrf.features import FeatureIndex, LiteralIndex
    from fstcrf.grammar import Grammar
else:  # which most runs have none of
    grammars = LazyModule("fstcrf.grammar")


def structure(
    labels: Sequence[str],
    settings: Options,
    allowed: Bools,
    offsets: Longs,
    grammar: Grammar | None = None,
) -> Topology:
    """Return the topology that options and a grammar ask for.

    Parameters
    ----------
    labels : sequence of L str
    settings : Options
    allowed : bool [N, L]
        Labels that each token may have, for ``scheme="observed"``.
    offsets : int64 [B + 1]
    grammar : Grammar, optional
        Hard; intersected with the topology.

    Raises
    ------
    GrammarError
        A grammar that does not go with the labels, or has scores.
    """
    free = _chain(labels, settings, allowed, offsets)
    if grammar is None:
        return free
    return grammars.constrained_topology(free, grammar.bind(labels))


def _chain(
    labels: Sequence[str],
    settings: Options,
    allowed: Bools,
    offsets: Longs,
) -> Topology:
    """Return the topology of order and scheme."""
    start = settings.start_label
    if settings.order == 2 and start is None and "O" in labels:
        start = "O"
    if settings.scheme is None:
        return chain_topology(labels, settings.order, start_label=start)
    if settings.schemes is None:
        table = _observed(allowed, offsets)
    else:
        table = legal_transitions(labels, settings.schemes[1])
    number = {label: i for i, label in enumerate(labels)}
    if start in number:
        # The first label's history is the pair of the start label and itself: it must be there.
        table[number[start]] |= table[-1]

    def legal(before: str | None, after: str | None) -> bool:
        row = len(labels) if before is None else number[before]
        column = len(labels) if after is None else number[after]
        return bool(table[row, column])

    return chain_topology(labels, settings.order, allowed=legal, start_label=start)


def _observed(allowed: Bools, offsets: Longs) -> Bools:
    """Successions that some sentence allows, with start (last row) and end (last column)."""
    size = allowed.shape[1]
    table = np.zeros((size + 1, size + 1), dtype=bool)
    inner = np.ones(len(allowed), dtype=bool)
    inner[offsets[:-1]] = False
    into = np.flatnonzero(inner)
    counts = allowed[into - 1].T.astype(np.float32) @ allowed[into].astype(np.float32)
    table[:size, :size] = counts > 0
    table[size, :size] = allowed[offsets[:-1]].any(axis=0)
    table[:size, size] = allowed[offsets[1:] - 1].any(axis=0)
    return table


# --- Warm start -----------------------------------------------------------------------------------


def order_of(model: Model) -> int:
    """Return how many earlier labels a label depends on, as training was told or as it looks."""
    if model.record is not None:
        return model.record.order
    topology = model.topology
    if not topology.n_arc_slots:
        return 0
    return 1 if topology.node_slots.shape[1] == 1 else 2


def merged_labels(model: Model, labels: Sequence[str]) -> list[str]:
    """Return the labels of the model, then those that are new."""
    known = set(model.labels)
    return [*model.labels, *(label for label in labels if label not in known)]


def warm_theta(
    model: Model, index: FeatureIndex | LiteralIndex, space: ParameterSpace
) -> tuple[ParameterSpace, Floats]:
    """Extend a parameter space by the weights of a model, and return both.

    Parameters
    ----------
    model : CRF
    index : FeatureIndex or LiteralIndex
        Built with the model's index as its base: rows keep their numbers.
    space : ParameterSpace
        The weights that the new data asks for.

    Raises
    ------
    OptionError
        A model of another order.
    """
    old, new = model.space, space
    before, after = old.topology, new.topology
    if before.node_slots.shape[1] != after.node_slots.shape[1] or (
        (before.n_arc_slots == 0) != (after.n_arc_slots == 0)
    ):
        raise OptionError("warm_start is of another order")
    node_slot = _matching(before.node_slot_names, after.node_slot_names)
    arc_slot = _matching(before.arc_slot_names, after.arc_slot_names)
    state = _matching(before.state_names, after.state_names)
    moved = [
        _moved_cells(old.node_cells, old.width, node_slot, new.width),
        arc_slot[old.transitions],
        _moved_cells(old.arc_cells, old.arc_width, arc_slot, new.arc_width),
        state[old.initial],
        state[old.final],
    ]
    wanted: list[NDArray[Any]] = [
        new.node_cells,
        new.transitions,
        new.arc_cells,
        new.initial,
        new.final,
    ]
    parts, theta = [], []
    for cells, where, values in zip(wanted, moved, old.parts(model.theta), strict=True):
        kept = where >= 0
        union = np.union1d(cells, where[kept]).astype(cells.dtype)
        start = np.zeros(len(union))
        start[np.searchsorted(union, where[kept])] = values[kept]
        parts.append(union)
        theta.append(start)
    extended = replace(
        space,
        n_node_rows=index.n_node_rows,
        node_cells=parts[0],
        transitions=parts[1],
        arc_cells=parts[2],
        initial=parts[3],
        final=parts[4],
    )
    return extended, np.concatenate(theta)


def _matching(old: Sequence[str], new: Sequence[str]) -> Longs:
    """Return the number in `new` of each name in `old`, −1 where it is gone."""
    number = {name: i for i, name in enumerate(new)}
    return np.asarray([number.get(name, -1) for name in old], dtype=np.int64)


def _moved_cells(cells: Longs, width: int, slot: Longs, new_width: int) -> Longs:
    row, old_slot = np.divmod(cells, width)
    target = slot[old_slot] if len(slot) else old_slot
    return np.where(target >= 0, row * new_width + target, -1)


# --- Hashes ---------------------------------------------------------------------------------------


def fingerprint(model: Model) -> str:
    """Return a hash of a model's labels and weights."""
    digest = hashlib.sha256("\0".join(model.labels).encode())
    digest.update(np.ascontiguousarray(model.theta).data)
    return digest.hexdigest()


def run_fingerprint(
    settings: Options,
    problem: Problem,
    space: ParameterSpace,
    theta: Floats,
    gold: list[list[str]] | None,
) -> str:
    """Hash what decides the course of training."""
    decisive = settings.named()
    del decisive["max_iterations"]
    digest = hashlib.sha256(msgspec.json.encode((decisive, problem.topology.labels, gold)))
    arrays: list[NDArray[Any]] = [problem.offsets, problem.weight, theta]
    arrays += [np.packbits(problem.allowed), space.node_cells, space.transitions]
    arrays.append(space.arc_cells)
    for rows in (problem.node, problem.arc):
        if rows is not None:
            arrays += [rows.indptr, rows.index]
            arrays += [] if rows.value is None else [rows.value]
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
