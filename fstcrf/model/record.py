"""The record of a training run: what was trained, on what, and how it went."""

from __future__ import annotations

import msgspec

__all__ = ["TrainingRecord"]


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was trained, on what, and how it went; it is stored in the model.

    With the templates, which the index keeps, it says how to train the model again: `options` are
    those that the run read, by name; `target` is the column of the labels (None where they were
    given as lists), `class_weights` the weights of sentences by label. `run` is the fingerprint of
    data and options: two models have the same where one run went further than the other.
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
        """How many earlier labels a label depends on."""
        return int(self.options.get("order") or 0)
