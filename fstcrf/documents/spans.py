"""Spans as neighbouring labels say them, whatever their scheme: conlleval's reading as tables.

==========  ==========================================================
SpanTables  whether a span starts at, or goes on to, a label
span_tables the tables of a set of labels
span_types  the types of a set of labels
==========  ==========================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.schemes import OUTSIDE, named_scheme, split_label, tables
from fstcrf.errors import LabelError

__all__ = ["SpanTables", "span_tables", "span_types"]


class SpanTables(NamedTuple):
    """Whether a span starts at, or goes on to, a label, by the label before it.

    Attributes
    ----------
    starts, inside : uint8 [L + 1, L]
        Row L begins a sentence.
    type : int32 [L]
        Index into `types`, −1 for labels outside of spans.
    types : tuple of str
    """

    starts: NDArray[np.uint8]
    inside: NDArray[np.uint8]
    type: NDArray[np.int32]
    types: tuple[str, ...]

    def spans(self, labels: Sequence[int], before: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and type of the spans of label numbers behind the label `before`."""
        start, kind = -1, -1
        for t, label in enumerate(labels):
            if start >= 0 and not self.inside[before, label]:
                yield start, t, kind
                start = -1
            if start < 0 and self.starts[before, label]:
                start, kind = t, int(self.type[label])
            before = label
        if start >= 0:
            yield start, len(labels), kind


def span_types(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the types of spans that labels are of, sorted.

    Examples
    --------
    >>> span_types(["O", "B-PER", "I-PER", "S-LOC"])
    ('LOC', 'PER')
    """
    scheme = named_scheme("conlleval")
    parts = (split_label(label, scheme) for label in labels)
    return tuple(sorted({name for letter, name in parts if letter in scheme.letters and name}))


def span_tables(labels: Sequence[str], types: Sequence[str], *, strict: bool = True) -> SpanTables:
    """Return the tables of a set of labels, for spans of some types.

    Parameters
    ----------
    labels : sequence of L str
    types : sequence of str
        Spans of other types are none.
    strict : bool
        Some label must be of one of them.

    Raises
    ------
    LabelError
        No label is of any of the types.
    """
    scheme = named_scheme("conlleval")
    starts, inside, _ = tables(scheme)
    letters = scheme.letters + "?"
    parts = [split_label(label, scheme) for label in labels]
    number = {name: k for k, name in enumerate(types)}
    kind = np.asarray(
        [-1 if letter == OUTSIDE else number.get(name, -1) for letter, name in parts],
        dtype=np.int32,
    )
    if strict and (kind < 0).all():
        raise LabelError(
            f"no label is of the types {', '.join(types)}; the labels are {', '.join(labels[:12])}"
        )
    first = [*parts, (OUTSIDE, "")]
    a = np.asarray([letters.index(letter) for letter, _ in first])
    same = np.asarray([[x[1] == y[1] for y in parts] for x in first], dtype=np.int64)
    found = [
        (table[a[:, None], a[None, :-1], same] & (kind >= 0)).astype(np.uint8)
        for table in (starts, inside)
    ]
    return SpanTables(found[0], found[1], kind, tuple(types))
