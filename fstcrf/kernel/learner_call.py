"""What the kernel is told of an online learner, checked.

===============  =====================================================
Parameters       tables of weights: attributes, arcs, ends
LearnerCall      the C structures of one call
check_learner    refuse what would lead the kernel outside its tables
parameters       parameters as the kernel takes them
===============  =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError, ShapeError
from fstcrf.kernel.graphs import _graph
from fstcrf.kernel.native import array_in, ffi, lib
from fstcrf.kernel.rows import padded

if TYPE_CHECKING:
    from fstcrf.kernel.online import Learner

__all__ = ["LearnerCall", "Parameters", "check_learner", "parameters"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Weights by where they live.

    Parameters
    ----------
    table : float64 [R, W]
        Weight of each (attribute, slot); columns from the number of slots on are padding.
    arc : float64 [M]
        Potential of each arc slot; −inf forbids.
    initial, final : float64 [S]
        Potentials of starting and ending in a state; −inf forbids.
    """

    table: Floats
    arc: Floats
    initial: Floats
    final: Floats

    def zeros(self) -> Parameters:
        """Return zeros of the same shape."""
        return Parameters(*(np.zeros_like(a) for a in self.arrays()))

    def arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the four arrays."""
        return self.table, self.arc, self.initial, self.final


def check_learner(learner: Learner) -> None:
    """Refuse what would lead the kernel outside its tables."""
    slots, mask = learner.slots, learner.mask
    if learner.graph.moving:
        raise ShapeError("a learner's graph does not move, but its score has a row for each token")
    if not learner.offsets.size:
        raise ShapeError("offsets is empty, expected [B + 1] numbers from 0")
    if learner.offsets.flat[0] != 0 or (np.diff(learner.offsets) < 1).any():
        raise ShapeError("offsets must begin with 0 and rise: sentences are not empty")
    if mask.ndim != 2 or mask.shape[1] != padded(mask.shape[1]):
        raise ShapeError(f"mask is {list(mask.shape)}, expected [R, a multiple of {padded(1)}]")
    if slots.ndim != 2 or not slots.size:
        raise ShapeError(f"slots is {list(slots.shape)}, expected [S, at least 1]")
    if slots.min() < 0 or slots.max() >= mask.shape[1]:
        raise ShapeError(f"slots holds numbers outside [0, {mask.shape[1]})")

    trained, arcs, arc_slot = len(learner.arc_mask), learner.graph.n_arcs, learner.arc_slots
    if learner.arc_slot is None and trained != arcs:
        raise ShapeError(f"arc_mask is {[trained]}, expected {[arcs]}")
    if arc_slot.size and not 0 <= arc_slot.min() <= arc_slot.max() < trained:
        raise ShapeError(f"arc_slot holds numbers outside [0, {trained})")


def parameters(p: Parameters, learner: Learner) -> tuple[Any, list[Any]]:
    """Return the C structure of parameters, and what keeps its memory alive."""
    states = (learner.graph.n_states,)
    shapes = {
        "table": learner.mask.shape,
        "arc": learner.arc_mask.shape,
        "initial": states,
        "final": states,
    }
    pointers = {
        name: array_in(getattr(p, name), np.float64, shape, name, writable=True)
        for name, shape in shapes.items()
    }
    return ffi.new("fc_parameters *", pointers), list(pointers.values())


class LearnerCall:
    """The C structures of one call, and what keeps their memory alive."""

    def __init__(self, learner: Learner) -> None:
        graph, design, rows = learner.graph, learner.design, learner.mask.shape
        bounds = array_in(learner.offsets, np.int64, (learner.offsets.size,), "offsets")
        n, sentences = int(learner.offsets[-1]), len(learner.offsets) - 1
        self.graph, self._graph_memory = _graph(graph)
        value = design.value
        fields = {
            "slot": array_in(
                learner.slots, np.int32, (graph.n_states, learner.slots.shape[1]), "slots"
            ),
            "indptr": array_in(design.indptr, np.int64, (n + 1,), "indptr"),
            "index": array_in(design.index, np.int32, design.index.shape, "index"),
            "mask": array_in(learner.mask, np.uint8, (design.n_columns, rows[1]), "mask"),
            "arc_slot": array_in(learner.arc_slots, np.int32, (graph.n_arcs,), "arc_slot"),
            "arc_mask": array_in(learner.arc_mask, np.uint8, learner.arc_mask.shape, "arc_mask"),
            "label": array_in(learner.state_labels, np.int32, (graph.n_states,), "label"),
        }
        if value is not None:
            fields["value"] = array_in(value, np.float32, value.shape, "value")
        self._memory = list(fields.values())
        scalars = {
            "R": rows[0],
            "W": rows[1],
            "K": learner.slots.shape[1],
            "M": len(learner.arc_mask),
            "ends": int(learner.ends),
        }
        self.learner = ffi.new("fc_learner *", {**scalars, **fields})
        self._memory.append(bounds)
        self.batch = ffi.new("fc_batch *", {"B": sentences, "offsets": bounds})
        self.gold = array_in(learner.gold, np.int32, (n,), "gold")
        self.weight = array_in(learner.weight, np.float64, (sentences,), "weight")
        self.where = ffi.new("int64_t *")
        self._longest = int(np.diff(learner.offsets).max(initial=0))

    def inputs(self, order: NDArray[np.int64]) -> tuple[Any, ...]:
        """Return what all epochs begin with: structures, order of sentences, targets.

        Raises
        ------
        ShapeError, OptionError
            An array of another kind; a number that is no sentence.
        """
        sentences = self.batch.B
        if order.size and not 0 <= order.min() <= order.max() < sentences:
            raise OptionError(f"order names a sentence that is none of the {sentences}")
        turns = array_in(order, np.int64, (len(order),), "order")
        return self.graph, self.batch, self.learner, len(order), turns, self.gold, self.weight

    def work(self) -> Any:
        """Return the scratch of an epoch."""
        size = lib.fc_learner_work(self.graph, self.learner, self._longest)
        return ffi.from_buffer("double[]", np.empty(size))

    def difference_work(self) -> Any:
        """Return the scratch of an epoch that needs differences of features."""
        size = lib.fc_difference_work(self.graph, self.batch, self.learner)
        return ffi.from_buffer("double[]", np.empty(size))
