"""The data set of a trainer.

=======  ====================================================
Data     sequences with labels, in groups
Part     some of them, as arrays
=======  ====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.compat.pycrfsuite.items import ItemSequence, labels_of
from fstcrf.compat.pycrfsuite.lookup import Attributes, Growing, joined
from fstcrf.errors import DataError
from fstcrf.kernel import SparseRows

__all__ = ["Data", "Part"]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some sequences that are not empty.

    Parameters
    ----------
    node : SparseRows [N, A]
        Attributes of tokens.
    labels : int32 [N]
    offsets : int64 [B + 1]
    """

    node: SparseRows
    labels: NDArray[np.int32]
    offsets: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    rows: Attributes
    labels: NDArray[np.int32]
    group: int


class Data:
    """Sequences with labels, in groups; attributes and labels are numbered as they come."""

    def __init__(self) -> None:
        self._lookup = Growing()
        self._labels: dict[str, int] = {}
        self._instances: list[_Instance] = []

    @property
    def attributes(self) -> list[str]:
        """All attributes."""
        return self._lookup.attributes

    @property
    def labels(self) -> list[str]:
        """All labels."""
        return list(self._labels)

    def append(
        self, items: Iterable[Any] | ItemSequence, labels: Iterable[Any], group: int
    ) -> None:
        """Append a sequence.

        Raises
        ------
        ItemError
            An item or a label that is not what it must be.
        DataError
            Another number of labels than of items.
        """
        names = labels_of(labels)
        rows = self._lookup.rows(items)
        if rows.n_tokens != len(names):
            raise DataError(
                f"{rows.n_tokens} items and {len(names)} labels: a label for each item is expected"
            )
        known = self._labels
        numbers = [known.setdefault(name, len(known)) for name in names]
        self._instances.append(_Instance(rows, np.array(numbers, dtype=np.int32), group))

    def part(self, wanted: Callable[[int], bool]) -> Part | None:
        """Return the sequences of some groups; None where there is no token.

        Parameters
        ----------
        wanted : callable
            Group → whether its sequences are.
        """
        chosen = [i for i in self._instances if wanted(i.group) and len(i.labels)]
        if not chosen:
            return None
        rows = joined([instance.rows for instance in chosen])
        offsets = np.cumsum([0, *(len(instance.labels) for instance in chosen)])
        return Part(
            _counting(rows, len(self._lookup.attributes)),
            np.concatenate([instance.labels for instance in chosen]),
            offsets.astype(np.int64),
        )


def _counting(rows: Attributes, n_attributes: int) -> SparseRows:
    """Return rows from 0 on, without those that count for nothing."""
    kept = rows.rows > 0
    bounds = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[rows.indptr]
    value = None if rows.values is None else rows.values[kept]
    return SparseRows(bounds, rows.rows[kept] - np.int32(1), value, n_attributes)
