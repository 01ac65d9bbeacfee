"""What a tagger reads of a tape that is decided together with its own.

===========  ==================================================================
Reading      the tape behind a name that a tagger reads, and its labels
Relabelling  one of a composition: a tagger reads a tape by other labels
as_read      labels of earlier tapes as a tagger reads them, when they are given
===========  ==================================================================

Without a relabelling a tagger reads the tape of that name, label by label. With one, it reads
another tape or a coarser label set: the label that it sees is a function of the tape's label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Column, Corpus
from fstcrf.errors import ShapeError
from fstcrf.features.template import tape_column

__all__ = ["Reading", "Relabelling", "as_read"]

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class Reading:
    """What is behind a name that a tagger reads.

    Parameters
    ----------
    tape : str
        A tape of the composition.
    labels : tuple of str
        The labels that the tagger sees.
    place : int32 [labels of the tape], optional
        Which of them it sees for each label of the tape; None: the labels are those of the tape.
    """

    tape: str
    labels: tuple[str, ...]
    place: Ints | None = None

    def seen(self, label: Ints) -> Ints:
        """Return the labels that the tagger sees for labels of the tape, int32."""
        return label if self.place is None else self.place[label]


@dataclass(frozen=True, eq=False, slots=True)
class Relabelling:
    """A tagger of a composition reads a tape by other labels.

    Parameters
    ----------
    reader : str
        Tape of the tagger that reads.
    read : str
        The name by which it reads.
    tape : str
        The tape that it gets.
    labels : tuple of str
        The labels that it sees.
    place : int32 [labels of the tape]
        Which of them it sees for each label of the tape.

    Raises
    ------
    ShapeError
        Places that are no numbers of labels.
    """

    reader: str
    read: str
    tape: str
    labels: tuple[str, ...]
    place: Ints

    def __post_init__(self) -> None:
        place = self.place
        sound = place.dtype == np.int32 and place.ndim == 1 and len(self.labels) > 0
        if not sound or (place.size and not 0 <= place.min() <= place.max() < len(self.labels)):
            raise ShapeError(
                f"the relabelling of {self.tape!r} for {self.reader!r} needs int32 [L] numbers "
                f"below {len(self.labels)}"
            )

    @property
    def reading(self) -> Reading:
        """The same without the names of the reader."""
        return Reading(self.tape, self.labels, self.place)


def as_read(corpus: Corpus, readings: Mapping[str, Reading]) -> Corpus:
    """Return a corpus in which a tagger finds what it reads.

    Parameters
    ----------
    corpus : Corpus
        Labels of earlier tapes as the columns that `tape_column` names, interned by label.
    readings : mapping of str to Reading
        By the name that the tagger reads.
    """
    found = corpus
    for read, reading in readings.items():
        if reading.place is not None:
            ids = reading.place[corpus.columns[tape_column(reading.tape)].ids]
            found = found.with_interned(tape_column(read), Column(ids, reading.labels))
    return found
