"""From the attributes of a sequence to the rows of a model, fast for one sequence at a time.

========  ==================================================
Lookup    the attributes of a model
Growing   attributes of training data: new ones get a row
joined    the rows of several sequences, one after the other
========  ==================================================

Features come as dicts, nested or not, whose keys are the same for all tokens. So what is
remembered is the row of a (key, value) under the keys above it; the attribute's text is only made
when such a pair is met for the first time. What counts for nothing, an attribute that the model
lacks or one that is False, has the row behind the last one, without weights: cheaper than a test.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.compat.pycrfsuite.errors import ItemError
from fstcrf.compat.pycrfsuite.items import (
    ItemSequence,
    as_text,
    number_of,
    read_item,
    tokens_of,
)

__all__ = ["Growing", "Lookup", "joined"]

_ORDINARY = frozenset({0.0, 1.0})
_REMEMBERED = 200_000
"""Pairs that are remembered at most; those met later are looked up by their text."""


class _Prefix:
    """What is known of the dicts under some keys.

    Parameters
    ----------
    text : str
        The keys, each with a colon behind it.
    """

    __slots__ = ("below", "flat", "known", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.flat = True  # no value that cannot be remembered has been met
        self.known: dict[tuple[Any, Any], int] = {}
        self.below: dict[Any, _Prefix] = {}


class Attributes(NamedTuple):
    """The attributes of tokens, as `fstcrf.kernel.SparseRows` has them but not checked.

    Parameters
    ----------
    indptr : int64 [T + 1]
    rows : int32 [nnz]
    values : float32 [nnz] or None
        Ones when absent.
    """

    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: NDArray[np.float32] | None = None

    @property
    def n_tokens(self) -> int:
        """Number of tokens, T."""
        return len(self.indptr) - 1


class _Found:
    """The rows found so far, and the values that are not 1."""

    __slots__ = ("bounds", "rows", "values")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.values: dict[int, float] = {}
        self.bounds = [0]

    def add(self, row: int, value: float) -> None:
        if value != 1:
            self.values[len(self.rows)] = value
        self.rows.append(row)

    def arrays(self) -> Attributes:
        values = None
        if self.values:
            values = np.ones(len(self.rows), dtype=np.float32)
            values[list(self.values)] = list(self.values.values())
        rows = np.frombuffer(array("i", self.rows), dtype=np.int32)
        return Attributes(np.frombuffer(array("q", self.bounds), dtype=np.int64), rows, values)


class Lookup:
    """The attributes of a model.

    Parameters
    ----------
    attributes : sequence of str
        In the order of their rows, 0 to A − 1.
    """

    def __init__(self, attributes: Sequence[str]) -> None:
        self._row = {name: row for row, name in enumerate(attributes)}
        self._absent = len(attributes)
        self._root = _Prefix("")
        self._remembered = 0

    def rows(self, sequence: Iterable[Any] | ItemSequence) -> Attributes:
        """Return the rows of the attributes of each token: A or none for those the model lacks.

        Parameters
        ----------
        sequence : ItemSequence or iterable of items

        Raises
        ------
        ItemError
            An item that is not what it must be.
        """
        found = _Found()
        if isinstance(sequence, ItemSequence):
            for names, values in sequence.tokens:
                self._names(names, values, found)
                found.bounds.append(len(found.rows))
            return found.arrays()
        for t, item in enumerate(tokens_of(sequence)):
            try:
                if isinstance(item, dict):
                    self._dict(item, self._root, found)
                else:
                    self._other(item, found)
            except (TypeError, ValueError, OverflowError) as error:
                raise ItemError(str(error), token=t) from None
            found.bounds.append(len(found.rows))
        return found.arrays()

    def _names(self, names: list[str], values: list[float] | None, found: _Found) -> None:
        if values is None:
            found.rows += self._numbers(names)
            return
        if _ORDINARY.issuperset(values):
            found.rows += self._numbers([*itertools.compress(names, values)])
            return
        for name, value in zip(names, values, strict=True):
            if value:
                found.add(self._number(name), value)

    def _numbers(self, names: list[str]) -> list[int]:
        """Return the rows of attributes."""
        row, absent = self._row.get, self._absent
        return [row(name, absent) for name in names]

    def _number(self, name: str) -> int:
        """Return the row of an attribute."""
        return self._row.get(name, self._absent)

    def _other(self, item: Any, found: _Found) -> None:
        """Add the attributes of what is no dict."""
        if isinstance(item, list):
            rows = list(map(self._row.get, item))
            if None not in rows:
                found.rows += rows  # type: ignore[arg-type]
                return
        names, values = read_item(item)
        self._names(names, values, found)

    def _dict(self, item: dict[Any, Any], prefix: _Prefix, found: _Found) -> None:
        """Add the attributes of a dict; those that are not remembered come last."""
        known, rows = prefix.known.get, found.rows
        if prefix.flat:
            try:
                numbers = list(map(known, item.items()))
            except TypeError:  # a dict or a list among the values
                prefix.flat = False
            else:
                if None not in numbers:
                    rows += numbers  # type: ignore[arg-type]
                    return
                rows += [number for number in numbers if number is not None]
                for (key, value), number in zip(item.items(), numbers, strict=True):
                    if number is None:
                        self._pair(key, value, prefix, found)
                return
        for key, value in item.items():
            kind = type(value)
            if kind is str or kind is bool:
                number = known((key, value))
                rows.append(self._learned(prefix, key, value) if number is None else number)
            else:
                self._pair(key, value, prefix, found)

    def _pair(self, key: Any, value: Any, prefix: _Prefix, found: _Found) -> None:
        """Add the attributes of a pair that is not remembered."""
        kind = type(value)
        if kind is dict:
            self._dict(value, prefix.below.get(key) or self._nested(prefix, key), found)
        elif kind is str or kind is bool:
            found.rows.append(self._learned(prefix, key, value))
        else:
            self._value(prefix.text + as_text(key), value, found)

    def _learned(self, prefix: _Prefix, key: Any, value: str | bool) -> int:  # noqa: FBT001
        """Look a pair up by its text, and remember it; False never counts."""
        text = prefix.text + (key if type(key) is str else as_text(key))
        if value is not True and value is not False:
            text = f"{text}:{value}"
        if "\0" in text or not text.isascii():
            text = as_text(text)
        row = self._absent if value is False else self._number(text)
        if self._remembered < _REMEMBERED:
            self._remembered += 1
            prefix.known[key, value] = row
        return row

    def _nested(self, prefix: _Prefix, key: Any) -> _Prefix:
        child = _Prefix(f"{prefix.text}{as_text(key)}:")
        if self._remembered < _REMEMBERED:
            self._remembered += 1
            prefix.below[key] = child
        return child

    def _value(self, name: str, value: Any, found: _Found) -> None:
        """Add the attributes of an entry that is neither string, bool nor plain dict."""
        if isinstance(value, (bytes, str, Mapping, list, tuple, set, frozenset)):
            names, values = read_item({name: value})
            self._names(names, values, found)
            return
        number = number_of(name, value)
        if number:
            found.add(self._number(name), number)


class Growing(Lookup):
    """The attributes of training data, numbered from 1; row 0 counts for nothing."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def attributes(self) -> list[str]:
        """The attributes, in the order in which they came."""
        return list(self._row)

    def _numbers(self, names: list[str]) -> list[int]:
        return [self._number(name) for name in names]

    def _number(self, name: str) -> int:
        return self._row.setdefault(name, len(self._row) + 1)


def joined(parts: Sequence[Attributes]) -> Attributes:
    """Return the tokens of several sequences one after the other."""
    shifts = np.cumsum([0, *(len(part.rows) for part in parts)])
    bounds = [part.indptr[1:] + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
    values = None
    if any(part.values is not None for part in parts):
        values = np.concatenate(
            [
                np.ones(len(part.rows), dtype=np.float32) if part.values is None else part.values
                for part in parts
            ]
        )
    return Attributes(
        np.concatenate([np.zeros(1, dtype=np.int64), *bounds]),
        np.concatenate([np.zeros(0, dtype=np.int32), *(part.rows for part in parts)]),
        values,
    )
