"""The C structures of learning from rewards, and what keeps their memory alive.

==========  ========================================
Batch       sentences ready for a `Feedback`
controls    running means of signals
judge       rewards from gold labels
bandit      what a reward says
parameters  tables of weights
==========  ========================================
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.kernel.descent import CONTROLS, OBJECTIVES, Aim, Controls, Judge
from fstcrf.kernel.learner_call import Parameters
from fstcrf.kernel.native import array_in, check, ffi, lib
from fstcrf.kernel.rows import SparseRows

__all__ = ["Batch", "bandit", "controls", "finite", "judge", "out", "parameters"]

Order = NDArray[np.int64]


class Batch:
    """Sentences ready for a `Feedback`; made by its `batch`."""

    def __init__(
        self, shared: dict[str, Any], graph: Any, offsets: Order, design: SparseRows
    ) -> None:
        self.lengths = offsets[1:] - offsets[:-1]  # np.diff takes longer than all of one sentence
        if not len(offsets) or offsets[0] != 0 or self.lengths.min(initial=1) < 1:
            raise ShapeError("offsets must begin with 0 and rise: sentences are not empty")
        n = int(offsets[-1])
        if len(design) != n or design.n_columns != shared["R"]:
            raise ShapeError(
                f"design is {[len(design), design.n_columns]}, expected {[n, shared['R']]}"
            )
        self.offsets = offsets
        fields = {
            "indptr": array_in(design.indptr, np.int64, (n + 1,), "indptr"),
            "index": array_in(design.index, np.int32, design.index.shape, "index"),
        }
        if design.value is not None:
            fields["value"] = array_in(design.value, np.float32, design.value.shape, "value")
        starts = array_in(offsets, np.int64, (len(offsets),), "offsets")
        self.memory = [shared, *fields.values(), starts]
        self.learner = ffi.new("fc_learner *", {**shared, **fields})
        self.batch = ffi.new("fc_batch *", {"B": len(offsets) - 1, "offsets": starts})
        # Scratch for the longest sentence, and for the one with the most attributes.
        longest = int(self.lengths.max(initial=0))
        size = lib.fc_feedback_work(graph, self.learner, longest)
        self.work = ffi.from_buffer("double[]", np.empty(size))
        bounds = design.indptr[offsets]
        self.most = int((bounds[1:] - bounds[:-1]).max(initial=0))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def tokens(self, order: Order) -> int:
        """Return the number of tokens of some sentences.

        Raises
        ------
        OptionError
            A number that is no sentence.
        """
        one = order.size == 1
        least, most = (order[0], order[0]) if one else (order.min(initial=0), order.max(initial=0))
        if order.size and not 0 <= least <= most < len(self):
            raise OptionError(f"order names a sentence that is none of the {len(self)}")
        return int(self.lengths[order[0]] if one else self.lengths[order].sum())


def controls(means: Controls, sentences: int) -> tuple[Any, ...]:
    """Return the C structure of running means, and its memory."""
    pointers = {
        name: array_in(getattr(means, name), np.float64, (1 + sentences,), name, writable=True)
        for name in ("mean", "count")
    }
    return ffi.new("fc_baseline *", pointers), pointers


def judge(known: Judge, tokens: int) -> tuple[Any, ...]:
    """Return the C structure of a judge, and its memory."""
    fields: dict[str, Any] = {
        "L": known.n_labels,
        "gold": array_in(known.gold, np.int32, (tokens,), "gold"),
        "graded": int(known.graded),
    }
    if known.step is not None:
        fields["step"] = array_in(known.step, np.uint8, known.step.shape, "step")
        fields["type"] = array_in(known.type, np.int32, known.type.shape, "type")
    return ffi.new("fc_judge *", fields), fields


def out(array: NDArray[Any], dtype: type[np.generic]) -> Any:
    """Return the pointer to an array that is written to."""
    return array_in(array, dtype, array.shape, "out", writable=True)


def finite(status: int, what: str, order: Order, where: Any) -> None:
    """Turn a status into an exception; numbers that are not finite have one of their own."""
    if status == lib.FC_ENUMERIC:
        raise NumericError(
            f"{what}: the weights, or a step, left the finite numbers at sentence "
            f"{order[where[0]]}: lower the rate, or clip"
        )
    check(status, what, where[0])


@lru_cache(maxsize=8)
def bandit(aim: Aim) -> Any:
    """Return the C structure of an aim."""
    return ffi.new(
        "fc_bandit *",
        {
            "objective": OBJECTIVES[aim.objective],
            "control": CONTROLS[aim.control],
            "clip": aim.clip,
            "temperature": aim.temperature,
            "common_rate": aim.common_rate,
            "own_rate": aim.own_rate,
            "alike": int(aim.opponent == "same"),
        },
    )


def parameters(
    p: Parameters, shape: tuple[int, ...], slots: int, states: int
) -> tuple[Any, list[Any]]:
    """Return the C structure of parameters, and what keeps its memory alive."""
    shapes = (shape, (slots,), (states,), (states,))
    pointers = {
        name: array_in(array, np.float64, wanted, name, writable=True)
        for name, array, wanted in zip(
            ("table", "arc", "initial", "final"), p.arrays(), shapes, strict=True
        )
    }
    return ffi.new("fc_parameters *", pointers), list(pointers.values())
