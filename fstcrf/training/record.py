"""The record of a training, which a model file keeps."""

from __future__ import annotations

import msgspec


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Data, options and result of a training; a model file keeps it.

    Together with the templates, which the index keeps, it describes how to train the model again.
    `options` are the options that the training read, by name. `target` is the column of the gold
    labels, or None if the caller passed lists of labels. `class_weights` are weights of sentences
    by label. `run` is a fingerprint of data and options: it is the same if one training continued
    the other.
    """

    options: dict[str, bool | int | float | str | None]
    sentences: int
    tokens: int
    attributes: int
    parameters: int
    iterations: int
    best_iteration: int
    objective: float
    dev_score: float | None
    reason: str
    interrupted: bool = False
    target: str | None = None
    class_weights: dict[str, float] = {}
    grammar: str | None = None
    run: str | None = None

    @property
    def order(self) -> int:
        """Number of earlier labels that a label depends on."""
        return int(self.options.get("order") or 0)
