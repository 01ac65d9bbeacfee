"""Which label histories a model has: order, scheme and what the data shows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Longs, distinct
from fstcrf.errors import OptionError
from fstcrf.lazy import LazyModule
from fstcrf.machines.topology import Topology, chain_topology
from fstcrf.taggers.model.options import Options
from fstcrf.text.corpus import legal_transitions
from fstcrf.training.memory import free_memory
from fstcrf.training.problem import ParameterSpace

if TYPE_CHECKING:
    from fstcrf.machines import grammar as grammars
    from fstcrf.machines.grammar import Grammar
    from fstcrf.taggers.model.crf import CRF
    from fstcrf.text.features import AttributeIndex, FeatureIndex
else:  # which most runs have none of
    grammars = LazyModule("fstcrf.machines.grammar")


def structure(
    labels: Sequence[str],
    settings: Options,
    observed: Callable[[], Bools],
    grammar: Grammar | None = None,
) -> Topology:
    """Return the topology that options and a hard grammar, intersected with it, ask for.

    `observed` gives the `successions` of the data, for ``scheme="observed"``.
    """
    free = _chain(labels, settings, observed)
    if grammar is None:
        return free
    if not isinstance(grammar, grammars.Grammar):
        raise OptionError(
            f"grammar is {grammar!r}, expected a Grammar: Grammar.from_file, .shipped"
        )
    return grammars.constrained_topology(free, grammar.bind(labels))


def check_pairs(index: FeatureIndex, topology: Topology, settings: Options) -> None:
    """Refuse attributes of label pairs whose weights cannot even be listed."""
    rows, slots, free = index.n_arc_rows, topology.n_arc_slots, free_memory()
    # All are numbers; of those that occur, each is a bit in words of 64.
    complete = settings.features == "complete"
    needed = 8 * rows * (slots if complete else -(-slots // 64))
    if free is None or needed <= free:
        return
    first = next(template for template in index.templates if template.kind == "arc")
    where = "" if first.line is None else f" of line {first.line}"
    raise OptionError(
        f"templates of label pairs, such as {str(first)!r}{where}, have {rows:,} attributes: with "
        f"{slots:,} pairs of {len(topology.labels):,} labels they take {needed / 1e9:,.1f} GB of "
        f"memory, {free / 1e9:,.1f} GB are free"
        + (": try features='supported'" if complete else ": leave these templates out")
    )


def _chain(labels: Sequence[str], settings: Options, observed: Callable[[], Bools]) -> Topology:
    """Return the topology of order and scheme."""
    if settings.scheme is None:
        table = None
    elif settings.schemes is None:
        table = observed()
    else:
        table = legal_transitions(labels, settings.schemes[1])
    return chain(labels, settings.order, table, settings.start_label)


def chain(
    labels: Sequence[str], order: int, table: Bools | None, start: str | None = None
) -> Topology:
    """Return the topology of an order; `table` [L + 1, L + 1] says what may follow what, if given.

    Its last row is the start of a sentence, its last column the end. The label `start` is taken to
    precede the first token: at order 2 ``O``, where there is one, unless another is given.
    """
    if order == 2 and start is None and "O" in labels:
        start = "O"
    if table is None:
        return chain_topology(labels, order, start_label=start)
    number = {label: i for i, label in enumerate(labels)}
    if start in number:
        # The first label's history is the pair of the start label and itself: it must be there.
        table[number[start]] |= table[-1]

    def legal(before: str | None, after: str | None) -> bool:
        row = len(labels) if before is None else number[before]
        column = len(labels) if after is None else number[after]
        return bool(table[row, column])

    return chain_topology(labels, order, allowed=legal, start_label=start)


def successions(allowed: Bools, offsets: Longs) -> Bools:
    """Return which label may follow which in some sentence, bool [L + 1, L + 1].

    The last row is the start of a sentence, the last column the end. `allowed`, bool [N, L], are
    the labels that each token may have.
    """
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


def order_of(model: CRF) -> int:
    """Return how many earlier labels a label depends on, as training was told or as it looks."""
    if model.record is not None:
        return model.record.order
    topology = model.topology
    if not topology.n_arc_slots:
        return 0
    return 1 if topology.node_slots.shape[1] == 1 else 2


def merged_labels(model: CRF, labels: Sequence[str]) -> list[str]:
    """Return the labels of the model, then those that are new."""
    known = set(model.labels)
    return [*model.labels, *(label for label in labels if label not in known)]


def warm_theta(
    model: CRF, index: AttributeIndex, space: ParameterSpace
) -> tuple[ParameterSpace, Floats]:
    """Extend a parameter space by the weights of a model, and return both.

    The index is built with the model's as its base: rows keep their numbers. The space has the
    weights that the new data asks for.
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
        union = distinct(cells, where[kept]).astype(cells.dtype)
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


def fingerprint(model: CRF) -> str:
    """Return a hash of a model's labels and weights."""
    digest = hashlib.sha256("\0".join(model.labels).encode())
    digest.update(np.ascontiguousarray(model.theta).data)
    return digest.hexdigest()


def run_fingerprint(
    settings: Options,
    parts: Sequence[bytes],
    space: ParameterSpace,
    theta: Floats,
    gold: list[list[str]] | None,
) -> str:
    """Hash what decides the course of training; `parts` are hashes of the parts of the data."""
    decisive = settings.named()
    del decisive["max_iterations"]
    digest = hashlib.sha256(msgspec.json.encode((decisive, space.topology.labels, gold)))
    for part in parts:
        digest.update(part)
    arrays: list[NDArray[Any]] = [theta, space.node_cells, space.transitions, space.arc_cells]
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
