"""The record of a training, which a model file keeps, and the tagger that training needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import msgspec

from fstcrf.arrays import Floats

if TYPE_CHECKING:
    from fstcrf.lattices import Lattice
    from fstcrf.text.corpus import Column, Corpus
    from fstcrf.text.features import AttributeIndex
    from fstcrf.text.sentences import Data
    from fstcrf.training.loop import Progress

Report: TypeAlias = "Callable[[Progress], None]"

TapeProbabilities: TypeAlias = Mapping[str, tuple[tuple[str, ...], Floats]]
"""For tapes, their labels, and the probability of each label at each token, float64 [N, L]."""


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


class TrainedTagger(Protocol):
    """A tagger of one tape, as training uses it: to label text, and to be trained again."""

    @property
    def tape(self) -> str:
        """Name of the tape that it writes."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels."""

    @property
    def index(self) -> AttributeIndex:
        """Its attributes."""

    @property
    def record(self) -> TrainingRecord | None:
        """The record of its training."""

    def tag_all(self, sentences: Data, *, threads: int = 1) -> list[list[str]]:
        """Return the best labels of sentences."""

    def tag_column(self, corpus: Corpus, *, threads: int = 1) -> Column:
        """Return the best labels of a text."""

    def _averaged_lattices(self, corpus: Corpus, tapes: TapeProbabilities) -> list[Lattice]:
        """Return lattices whose potentials are averaged over the labels of earlier tapes."""

    def _retrained(
        self, corpus: Corpus, reads: Sequence[Self], *, threads: int, report: Report | None
    ) -> Self:
        """Train it again on another text, with the options of its record."""
