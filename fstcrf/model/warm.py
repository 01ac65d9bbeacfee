"""Warm start: the weights of one model as the starting point of another.

Labels and attributes of the earlier model stay known, with their weights, whether or not the new
data shows them; what is new starts at zero. Slots are matched by what they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.train.problem import ParameterSpace

if TYPE_CHECKING:
    from fstcrf.features import FeatureIndex, LiteralIndex
    from fstcrf.model.crf import CRF

__all__ = ["merged_labels", "order_of", "warm_theta"]

Floats = NDArray[np.float64]


def order_of(model: CRF) -> int:
    """Return how many earlier labels a label depends on, as training was told or as it looks."""
    if model.record is not None:
        return model.record.options.order
    topology = model.topology
    if not topology.n_arc_slots:
        return 0
    return 1 if topology.node_slots.shape[1] == 1 else 2


def merged_labels(model: CRF, labels: Sequence[str]) -> list[str]:
    """Return the labels of the model, then those that are new."""
    known = set(model.labels)
    return [*model.labels, *(label for label in labels if label not in known)]


def warm_theta(
    model: CRF, index: FeatureIndex | LiteralIndex, space: ParameterSpace
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


def _matching(old: Sequence[str], new: Sequence[str]) -> NDArray[np.int64]:
    """Return the number in `new` of each name in `old`, −1 where it is gone."""
    number = {name: i for i, name in enumerate(new)}
    return np.asarray([number.get(name, -1) for name in old], dtype=np.int64)


def _moved_cells(
    cells: NDArray[np.int64], width: int, slot: NDArray[np.int64], new_width: int
) -> NDArray[np.int64]:
    row, old_slot = np.divmod(cells, width)
    target = slot[old_slot] if len(slot) else old_slot
    return np.where(target >= 0, row * new_width + target, -1)
