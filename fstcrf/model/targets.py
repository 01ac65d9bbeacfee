"""Label columns as sets of allowed labels: known, unknown, or one of several.

``_``
    The label is not known.
``B-NP|B-PP``
    One of these. A string with ``|`` is read so when each of its parts is a label in its own
    right; otherwise it is one label (``NOUN|Number=Sing`` among UPOS+FEATS labels).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fstcrf.arrays import Bools
from fstcrf.corpus import Column
from fstcrf.errors import DataError, LabelError

__all__ = ["UNKNOWN", "allowed_labels", "column_labels", "label_masks", "label_set"]

UNKNOWN = "_"


def label_set(
    values: Iterable[str], *, partial: bool = True, known: Iterable[str] = ()
) -> list[str]:
    """Return the labels of a column, sorted.

    Parameters
    ----------
    values : iterable of str
        Distinct strings of the column.
    partial : bool
        Read ``_`` and ``a|b`` as above; otherwise every string is a label.
    known : iterable of str
        Labels of an earlier model, which need not be repeated: ``a|b`` may name them.

    Raises
    ------
    DataError
        There is no label, here or known; or one that is no string.
    """
    given: set[Any] = set(values)  # callers have numbers, too
    if odd := [value for value in given if not isinstance(value, str)]:
        raise DataError(f"labels are strings, got {odd[0]!r}")
    strings, earlier = given, set(known)
    if partial:
        strings.discard(UNKNOWN)
        strings -= {s for s in strings - earlier if _alternatives(s, strings | earlier)}
    if not strings and not earlier:
        raise DataError("the target column holds no label")
    return sorted(strings)


def column_labels(column: Column, *, partial: bool = True) -> list[str]:
    """Return the labels that occur in a column, sorted; arguments and errors as of `label_set`."""
    values = [column.values[i] for i in np.unique(column.ids).tolist()]
    return label_set(values, partial=partial)


def allowed_labels(column: Column, labels: Sequence[str], *, partial: bool = True) -> Bools:
    """Return which labels each token may have.

    Parameters
    ----------
    column : Column
        N strings.
    labels : sequence of L str
    partial : bool
        As for `label_set`.

    Returns
    -------
    bool [N, L]

    Raises
    ------
    LabelError
        A string that is no label; names it and its first token.
    """
    masks = label_masks(column.values, labels, partial=partial)
    unknown = ~np.asarray(masks.any(axis=1))[column.ids]
    if unknown.any():
        token = int(np.flatnonzero(unknown)[0])
        string = column.values[column.ids[token]]
        raise LabelError(f"token {token}: {string!r} is not one of the {len(labels)} labels")
    return masks[column.ids]


def label_masks(values: Sequence[str], labels: Sequence[str], *, partial: bool = True) -> Bools:
    """Return which labels each of V strings stands for, bool [V, L]; none where it is no label."""
    index = {label: i for i, label in enumerate(labels)}
    masks = np.zeros((len(values), len(labels)), dtype=bool)
    for number, string in enumerate(values):
        if string in index:
            masks[number, index[string]] = True
        elif partial and string == UNKNOWN:
            masks[number] = True
        elif partial and (parts := _alternatives(string, index)):
            masks[number, [index[part] for part in parts]] = True
    return masks


def _alternatives(string: str, known: Iterable[str]) -> list[str]:
    parts = string.split("|")
    inside = set(parts) - set(known)
    return parts if len(parts) > 1 and not inside else []
