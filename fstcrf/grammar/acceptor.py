"""A small deterministic acceptor over the labels of one tape or several: one part of a grammar.

It reads one label of each of its tapes at every token. State 0 is the start; a state without a
successor for some labels rejects them there. With scores it is weighted: the score of a labelling
is the sum of its steps and of its last state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import LabelError, NumericError, ShapeError

__all__ = ["Acceptor", "Floats", "Ints"]

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Acceptor:
    """A deterministic acceptor, bound to label sets.

    Parameters
    ----------
    tapes : tuple of str
        Names of the tapes that it reads; ``""`` for the only tape of a tagger.
    labels : tuple of tuple of str
        The label set of each tape.
    target : int32 [Q, L1, ...]
        State after (state, a label of each tape); −1 where there is none.
    score : float64 [Q, L1, ...] or None
        Natural-log score of the step, 0 where there is none; None when all are 0.
    final : float64 [Q]
        Natural-log score of ending in the state; −inf where a sentence may not end.
    name : str
        What it stands for, for messages.

    Raises
    ------
    ShapeError
        Arrays that disagree with each other or with the label sets; no state; no tape.
    NumericError
        A score that is no number, +inf, or −inf on a step.
    """

    tapes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    target: Ints
    score: Floats | None
    final: Floats
    name: str = ""

    def __post_init__(self) -> None:
        where = f"acceptor {self.name}" if self.name else "acceptor"
        if not self.tapes or len(set(self.tapes)) != len(self.tapes):
            raise ShapeError(f"{where}: tapes {self.tapes} must be distinct, and at least one")
        shape = (len(self.final), *map(len, self.labels))
        if len(self.labels) != len(self.tapes) or self.target.shape != shape or not shape[0]:
            raise ShapeError(
                f"{where}: target is {list(self.target.shape)}, expected {list(shape)}"
            )
        if self.target.dtype != np.int32:
            raise ShapeError(f"{where}: target is {self.target.dtype}, expected int32")
        if self.target.size and (self.target.min() < -1 or self.target.max() >= shape[0]):
            raise ShapeError(f"{where}: target holds numbers outside [-1, {shape[0]})")
        if np.isnan(self.final).any() or (self.final == np.inf).any():
            raise NumericError(f"{where}: a final score is NaN or +inf")
        if self.score is None:
            return
        if self.score.shape != shape:
            raise ShapeError(f"{where}: score is {list(self.score.shape)}, expected {list(shape)}")
        if not np.isfinite(self.score).all():
            raise NumericError(f"{where}: the score of a step is not finite; leave the step out")

    @property
    def n_states(self) -> int:
        """Number of states, Q."""
        return len(self.final)

    @property
    def weighted(self) -> bool:
        """Some legal labellings score other than 0."""
        return self.score is not None or bool((self.final[self.final > -np.inf] != 0.0).any())

    def walk(self, *sequences: Sequence[str]) -> float:
        """Return the natural-log score of a labelling, −inf where it is rejected.

        Parameters
        ----------
        *sequences : sequence of str
            The labels of each tape, in the order of ``tapes``.

        Raises
        ------
        ShapeError
            Another number of tapes, or tapes of different lengths.
        LabelError
            A label that a tape does not have.
        """
        if len(sequences) != len(self.tapes) or len({len(s) for s in sequences}) != 1:
            raise ShapeError(
                f"{self.name}: got sequences of {[len(s) for s in sequences]} labels, "
                f"expected {len(self.tapes)} of one length"
            )
        columns = [
            _label_ids(sequence, known, tape)
            for sequence, known, tape in zip(sequences, self.labels, self.tapes, strict=True)
        ]
        state, total = 0, 0.0
        for token in zip(*columns, strict=True):
            step = (state, *token)
            if self.target[step] < 0:
                return -np.inf
            total += 0.0 if self.score is None else float(self.score[step])
            state = int(self.target[step])
        return total + float(self.final[state])


def _label_ids(sequence: Sequence[str], known: tuple[str, ...], tape: str) -> list[int]:
    index = {label: i for i, label in enumerate(known)}
    try:
        return [index[label] for label in sequence]
    except KeyError as error:
        on = f" of tape {tape!r}" if tape else ""
        raise LabelError(f"unknown label {error.args[0]!r}{on}") from None
