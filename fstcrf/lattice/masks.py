"""Masks: which labels each token may have.

================  ==================================================
checked_masks     masks as users give them, one of each tape
labelling_masks   those that a labelling alone passes
restricted        the same potentials, −inf where a mask forbids
================  ==================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ShapeError
from fstcrf.lattice.tapes import Taped

__all__ = ["checked_masks", "labelling_masks", "restricted"]

Mask = NDArray[np.bool_]
Potentials = TypeVar("Potentials", bound=Taped)


def checked_masks(taped: Taped, mask: Any) -> list[Mask]:
    """Return a mask bool [T, L] of each tape.

    Raises
    ------
    ShapeError
        Another shape, or another number of tapes.
    """
    parts = (mask,) if len(taped.tapes) == 1 else tuple(mask)
    if len(parts) != len(taped.tapes):
        raise ShapeError(f"{len(parts)} masks for the {len(taped.tapes)} tapes")
    masks = []
    for tape, part in zip(taped.tapes, parts, strict=True):
        allowed = np.asarray(part, dtype=bool)
        wanted = (len(taped), len(taped.program.labels(tape)))
        if allowed.shape != wanted:
            raise ShapeError(
                f"mask is {list(allowed.shape)}, expected {list(wanted)} (tokens, labels)"
            )
        masks.append(allowed)
    return masks


def labelling_masks(taped: Taped, labels: Sequence[Any]) -> list[Mask]:
    """Return the masks that allow one label sequence of each tape.

    Raises
    ------
    LabelError
        A label that a tape does not have.
    ShapeError
        Another number of labels than tokens, or of tapes.
    """
    tapes = taped.tapes
    parts = (labels,) if len(tapes) == 1 else tuple(labels)
    if len(parts) != len(tapes):
        raise ShapeError(f"labels of {len(parts)} tapes for the tapes {', '.join(tapes)}")
    return [_one_label(taped, tape, part) for tape, part in zip(tapes, parts, strict=True)]


def _one_label(taped: Taped, tape: str, labels: Sequence[str]) -> Mask:
    if len(labels) != len(taped):
        raise ShapeError(f"{len(labels)} labels for {len(taped)} tokens")
    topology = taped.program.chain[tape].topology
    mask = np.zeros((len(taped), topology.n_labels), dtype=bool)
    mask[np.arange(len(taped)), topology.label_ids(labels)] = True
    return mask


def restricted(taped: Potentials, masks: Sequence[Mask]) -> Potentials:
    """Return the potentials of the paths that pass the masks of all tapes."""
    changed = {}
    for tape, mask in zip(taped.tapes, masks, strict=True):
        k = taped.state_potentials(tape)
        states = mask[:, taped.program.chain[tape].topology.state_label]
        changed[k] = np.where(states, taped.values[k], -np.inf)
    return taped.with_values(changed)
