"""Sentences, tables and labels as users of scikit-learn have them, and as a CRF takes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby, pairwise
from numbers import Number
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Longs, Ragged
from fstcrf.errors import DataError
from fstcrf.lazy import optional
from fstcrf.text.corpus import Corpus, Sentence
from fstcrf.text.features import is_literal
from fstcrf.text.sentences import Data

ADVICE = "fstcrf.ext.sklearn needs scikit-learn 1.6 or later: pip install 'fstcrf[sklearn]'"
utils = optional("sklearn.utils", ADVICE)
validation = optional("sklearn.utils.validation", ADVICE)

T = TypeVar("T")
_INTERCEPT = "(intercept)"  # an attribute that every row of numbers has
_WORD = "word"  # the column of sentences that are lists of strings


@dataclass(frozen=True, slots=True)
class Read:
    """The input: B sentences with N tokens in total, or a table of them."""

    sentences: Data
    offsets: Longs  # [B + 1]
    table: bool  # answers are then flat

    def labels(self, y: Any) -> list[list[Any]]:
        """Return the labels of each sentence; DataError for another number of labels."""
        if self.table:
            flat = _flat_labels(y)
            if len(flat) != self.offsets[-1]:
                raise DataError(f"{len(flat)} labels for {self.offsets[-1]} rows")
            return cut(flat, self.offsets)
        rows = list(y)
        if len(rows) != len(self.offsets) - 1:
            raise DataError(
                f"labels of {len(rows)} sentences for {len(self.offsets) - 1} sentences: "
                "y has a list for each sentence"
            )
        for number, (row, size) in enumerate(zip(rows, Ragged(self.offsets).lengths, strict=True)):
            if isinstance(row, str | bytes | Mapping | AbstractSet) or not hasattr(row, "__len__"):
                raise DataError(f"its labels are {row!r}, expected a list", sentence=number)
            if len(row) != size:
                raise DataError(f"{len(row)} labels for {size} tokens", sentence=number)
            for token, label in enumerate(row):
                if isinstance(label, Sized) and not isinstance(label, str):
                    raise DataError(
                        f"its label is {label!r}, expected a string or a number",
                        sentence=number,
                        token=token,
                    )
            missing = next((t for t, label in enumerate(row) if _is_missing(label)), None)
            if missing is not None:
                raise DataError(
                    "the label is missing or NaN: use '_' for an unknown label",
                    sentence=number,
                    token=missing,
                )
        return [row.tolist() if hasattr(row, "tolist") else list(row) for row in rows]

    def weights(self, given: Floats) -> Floats:
        """Return the weight of each sentence, float64 [B]."""
        if self.table:
            first = given[self.offsets[:-1]]
            same = Ragged(self.offsets).repeat(first) == given
            if not same.all():
                where = int(np.flatnonzero(~same)[0])
                raise DataError(
                    f"row {where} has the sample weight {given[where]:g}, but the first row of "
                    "its sentence has another: give all rows of a sentence the same weight"
                )
            given = first
        if not given.any():
            raise DataError("sample_weight is zero everywhere: no sentence counts in training")
        return given


def is_frame(given: Any) -> bool:
    """Return whether an object is a DataFrame of any library."""
    return hasattr(given, "columns") and hasattr(given, "shape") and len(given.shape) == 2


def is_table(given: Any) -> bool:
    """Return whether an object has a row for each token, not a list for each sentence."""
    if isinstance(given, Corpus):
        return False
    if is_frame(given) or hasattr(given, "tocsr"):  # sparse: the check of arrays refuses it
        return True
    if not isinstance(given, Sequence) and hasattr(given, "__array__"):
        array = np.asarray(given)
        return array.ndim in {0, 2} or array.dtype != object
    first = next(iter(given), None) if isinstance(given, Sequence) else None
    return isinstance(first, Sequence) and bool(first) and isinstance(first[0], Number)


def values_of(frame: Any, name: Any) -> list[Any]:
    """Return the values of a column of a DataFrame."""
    column = frame[name]
    values: list[Any] = column.to_list() if hasattr(column, "to_list") else list(column)
    return values


def checked(name: Any, values: list[Any]) -> list[Any]:
    """Return the values of a column; DataError if one is missing."""
    for row, value in enumerate(values):
        if _is_missing(value):
            raise DataError(f"column {name!r}, row {row}: NaN; fill it, or leave the sentence out")
    return [v.item() if isinstance(v, np.generic) else v for v in values]


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def _shaped(sentence: Any) -> Any:
    """Return something as long as a sentence: of columns one of them."""
    if isinstance(sentence, Mapping):
        return next(iter(sentence.values()), ())
    return sentence


def _runs(keys: list[Any], name: Any) -> Longs:
    """Return the bounds of runs of equal keys, int64 [B + 1]."""
    runs = [(key, len(list(group))) for key, group in groupby(keys)]
    offsets = Ragged.from_lengths(n for _, n in runs).offsets
    seen: set[Any] = set()
    for (key, _), row in zip(runs, offsets.tolist(), strict=False):
        if key in seen:
            raise DataError(
                f"row {row}: sentence {key!r} of column {name!r} is interrupted by other "
                "sentences: sort by that column, so that the rows of a sentence are "
                "adjacent"
            )
        seen.add(key)
    return offsets.astype(np.int64)


def cut(flat: list[T], offsets: Longs) -> list[list[T]]:
    """Return the values between the bounds of sentences, list by list."""
    return [flat[a:b] for a, b in pairwise(offsets.tolist())]


def boxed(items: Sequence[Any]) -> NDArray[Any]:
    """Return an object array [n], also of items of equal length."""
    boxes = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # all at once, arrays of one shape would be one array
        boxes[i] = item
    return boxes


def read_table(columns: dict[Any, list[Any]], sentence: str | int | None, *, texts: bool) -> Read:
    """Return the sentences of a table.

    Parameters
    ----------
    columns : mapping of name to list
    sentence : str or int, optional
        The column that identifies sentences.
    texts : bool
        Each value is its text, for templates; else the values are features.
    """
    size = len(next(iter(columns.values()), []))
    offsets = np.arange(size + 1)
    if sentence is not None:
        if sentence not in columns:
            shown = ", ".join(map(repr, columns))
            raise DataError(
                f"no column {sentence!r} to separate sentences by; the columns are {shown}"
            )
        offsets = _runs(columns.pop(sentence), sentence)
    if texts:
        named = {str(name): list(map(str, values)) for name, values in columns.items()}
        bounds = list(pairwise(offsets.tolist()))
        given = [{name: v[a:b] for name, v in named.items()} for a, b in bounds]
        return Read(Corpus.from_sentences(given), offsets, table=True)
    names = [name if isinstance(name, str) else f"x{name}" for name in columns]
    rows = [
        {_INTERCEPT: 1.0, **dict(zip(names, row, strict=True))}
        for row in zip(*columns.values(), strict=True)
    ]
    return Read(cut(rows, offsets), offsets, table=True)


def read_sentences(X: Iterable[Any], names: Sequence[str] | None, *, texts: bool) -> Read:  # noqa: N803
    """Return sentences, of columns with these names; `texts` as for `read_table`."""
    try:
        sentences = list(X)
    except TypeError:
        raise DataError(f"X is {type(X).__name__}, expected sentences or a table") from None
    sentences = [_columns(s, texts=texts) if is_frame(s) else s for s in sentences]
    for number, one in enumerate(sentences):
        if isinstance(one, str) or not hasattr(one, "__len__"):
            raise DataError(
                f"{one!r} is not a sentence, expected a list with one item per token; "
                "Reshape your data: a table has a row for each token and two dimensions",
                sentence=number,
            )
    offsets = Ragged.from_lengths(len(_shaped(s)) for s in sentences).offsets
    first = next((s for s in sentences if len(s)), None)
    if first is None or is_literal(first):
        return Read(sentences, offsets, table=False)
    if not isinstance(first, Mapping | Sentence) and isinstance(first[0], str):
        name = _WORD if names is None else names[0]
        sentences = [{name: list(s)} for s in sentences]
    return Read(Corpus.from_sentences(sentences, names), offsets, table=False)


def _columns(frame: Any, *, texts: bool) -> Any:
    """Return a sentence that is a DataFrame as columns, or as dicts."""
    columns = {str(name): checked(name, values_of(frame, name)) for name in frame.columns}
    if texts:
        return {name: list(map(str, values)) for name, values in columns.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# --- Labels ---------------------------------------------------------------------------------------


def _flat_labels(y: Any) -> list[Any]:
    flat = validation.column_or_1d(y, warn=True)
    if flat.dtype.kind == "f":
        utils.assert_all_finite(flat, input_name="y")
    values: list[Any] = flat.tolist()
    return checked("y", values)


def named_labels(rows: Sequence[Sequence[Any]]) -> tuple[list[list[str]], dict[str, Any]]:
    """Return labels as strings, and the label that each string is."""
    values: dict[str, Any] = {}
    for label in {label: None for row in rows for label in row}:
        if values.setdefault(str(label), label) != label:
            raise DataError(f"labels {label!r} and {values[str(label)]!r} are the same string")
    kinds = {isinstance(value, str) for value in values.values()}
    if len(kinds) > 1:
        shown = ", ".join(repr(v) for v in list(values.values())[:4])
        raise DataError(f"labels are strings and other things ({shown}), expected one of both")
    return [list(map(str, row)) for row in rows], values
