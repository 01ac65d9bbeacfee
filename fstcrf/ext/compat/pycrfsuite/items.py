"""The attributes of sequences, in all the forms that python-crfsuite takes, and their rows.

A token (an *item*) is a dict, or a list, set or other iterable of strings::

    ["first", "w=the"]           first, w=the          1 each
    {"w": "the"}                 w:the                 1
    {"first": True, "n": 0.5}    first 1, n 0.5        False is 0
    {"next": {"w": "cat"}}       next:w:cat            1; dicts nest
    {"in": ["a", "b"]}           in:a, in:b            1; a set or a tuple, too

Bytes count as the string that they encode in UTF-8. An attribute ends at its first NUL, as a string
of CRFsuite does.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Ints, Longs, Ragged, Singles
from fstcrf.errors import DataError
from fstcrf.kernel.rows import SentenceRows

_LARGEST = 3.4e38  # values are 32-bit numbers in the kernel
_NESTED = (list, tuple, set, frozenset)

Items: TypeAlias = (
    "Iterable[Mapping[str, object] | Mapping[bytes, object] | Iterable[str | bytes]] | ItemSequence"
)
"""The accepted forms of a sequence."""


class ItemError(DataError, TypeError):
    """An invalid item: an item holds the attributes of a token."""


class Item(NamedTuple):
    """The attributes of a token."""

    names: list[str]
    values: list[float] | None  # one for each name, or `None` if all are 1


class ItemSequence:
    """The attributes of a sequence, read once for any number of uses.

    Parameters
    ----------
    pyseq : iterable of items, or ItemSequence
        Each item a dict or an iterable of strings.

    Attributes
    ----------
    tokens : tuple of Item

    Raises
    ------
    ItemError
        An item of another kind, a key that is no string, a value that is no finite number.

    Examples
    --------
    >>> ItemSequence([["a"], {"b": {"c": 2}}]).items()
    [{'a': 1.0}, {'b:c': 2.0}]
    """

    __slots__ = ("tokens",)

    def __init__(self, pyseq: Items) -> None:
        self.tokens: tuple[Item, ...]
        if isinstance(pyseq, ItemSequence):
            self.tokens = pyseq.tokens
            return
        self.tokens = tuple([_read_item(item, t) for t, item in enumerate(_tokens_of(pyseq))])

    def items(self) -> list[dict[str, float]]:
        """Return the attributes of each item and their values."""
        return [
            dict.fromkeys(names, 1.0) if values is None else dict(zip(names, values, strict=True))
            for names, values in self.tokens
        ]

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


def _tokens_of(sequence: object) -> Iterable[Any]:
    """Return a sequence of items after a look at its type."""
    if isinstance(sequence, (str, bytes, Mapping)) or not isinstance(sequence, Iterable):
        raise ItemError(
            f"a sequence of items (dicts or lists of strings) is expected: {sequence!r}"
        )
    return sequence


def _read_item(item: Any, token: int | None = None) -> Item:
    """Return the attributes of one token."""
    try:
        if isinstance(item, Mapping):
            names: list[str] = []
            values: list[float] = []
            _flatten("", item, names, values)
            return Item(_checked(names), None if values.count(1.0) == len(values) else values)
        return Item(_checked(_listed(item)), None)
    except (TypeError, ValueError, OverflowError) as error:
        raise ItemError(str(error), token=token) from None


def _as_text(name: Any) -> str:
    """Return a string or UTF-8 bytes as a string of CRFsuite."""
    return _checked([_text(name)])[0]


def _number_of(name: str, value: Any) -> float:
    """Return the value of an attribute."""
    try:
        number = float(value)
    except TypeError:
        raise TypeError(
            f"attribute {name!r} is {value!r}: no number, string, dict or list"
        ) from None
    if not abs(number) <= _LARGEST:
        raise ValueError(
            f"attribute {name!r} is {number}, expected a number of at most 3.4e38 in size (float32)"
        )
    return number


def _flatten(prefix: str, item: Mapping[Any, Any], names: list[str], values: list[float]) -> None:
    """Append the attributes of a dict, unchecked."""
    for key, value in item.items():
        name = prefix + (key if type(key) is str else _text(key))
        kind = type(value)
        if kind is str:
            names.append(f"{name}:{value}")
            values.append(1.0)
        elif kind is bool or kind is float or kind is int:
            names.append(name)
            values.append(_number_of(name, value))
        elif isinstance(value, Mapping):
            _flatten(f"{name}:", value, names, values)
        elif isinstance(value, (str, bytes)):
            names.append(f"{name}:{_text(value)}")
            values.append(1.0)
        elif isinstance(value, _NESTED):
            names += [f"{name}:{_text(part)}" for part in value]
            values += [1.0] * len(value)
        else:
            names.append(name)
            values.append(_number_of(name, value))


def _listed(item: Any) -> list[str]:
    """Return the strings of an item that is not a dict; TypeError for other contents or types."""
    if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
        raise TypeError(f"an item is a dict or a list of strings, not {item!r}")
    return [_text(name) for name in item]


def _text(name: Any) -> str:
    """Return a string or UTF-8 bytes as a string; TypeError for anything else."""
    if isinstance(name, bytes):
        return name.decode()
    if isinstance(name, str):
        return str(name)
    raise TypeError(f"expected a string, got {name!r}")


def _checked(names: list[str]) -> list[str]:
    """Return strings as CRFsuite has them; ValueError if they are not Unicode."""
    every = "".join(names)
    if not every.isascii():
        every.encode()  # lone surrogates cannot be
    return [name.partition("\0")[0] for name in names] if "\0" in every else names


def labels_of(sequence: object) -> list[str]:
    """Return the labels of a sequence."""
    if not isinstance(sequence, Iterable) or isinstance(sequence, bytes):
        raise ItemError(f"a sequence of labels is expected, not {sequence!r}")
    labels = []
    for t, label in enumerate(sequence):
        try:
            labels.append(_as_text(label))
        except (TypeError, ValueError) as error:
            raise ItemError(f"labels are strings: {error}", token=t) from None
    return labels


# --- Rows -----------------------------------------------------------------------------------------

# Features are dicts, possibly nested, and usually all tokens have the same keys. The cache
# therefore stores the row of a (key, value) below its outer keys; the text of the attribute is only
# made for a new pair. Attributes without effect in tagging (unknown or False ones) have an extra
# last row without weights, because this is cheaper than a test. In training, an attribute with
# value 0 makes features, as in CRFsuite; their weights count for tokens with another value. Its row
# has a minus sign here.

_ROW = Struct("i")  # joining bytes takes less time than an array of numbers
_ORDINARY = frozenset({0.0, 1.0})
_REMEMBERED_TYPES = frozenset({str, bool, float, int})
_REMEMBERED = 200_000
"""Pairs that are remembered at most; those met later are looked up by their text."""


class _Prefix:
    """The cached entries of dicts below some keys; `text` has these keys, each with a colon."""

    __slots__ = ("below", "flat", "known", "recalled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.flat = True  # all values so far could be remembered
        self.known: dict[tuple[Any, Any], bytes] = {}
        self.recalled = self.known.__getitem__
        self.below: dict[Any, _Prefix] = {}


class AttributeRows(NamedTuple):
    """The attributes of tokens, as `fstcrf.kernel.SparseRows` has them but not checked."""

    indptr: Longs  # int64 [T + 1]
    rows: Ints  # int32 [nnz]
    values: Singles | None = None  # float32 [nnz]; `None` if all are 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens, T."""
        return len(self.indptr) - 1


class Found:
    """The rows of the attributes of tokens found so far, as `_ROW`, and the values that are not 1.

    A tagger keeps the probabilities of their labels here.
    """

    sentence: SentenceRows  # all of it, once it has been read
    posterior: tuple[float, list[list[float]]] | None = None
    values: dict[int, float] | None = None  # by the place of the row

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.bounds = [0]

    def add(self, row: bytes, value: float) -> None:
        """Append a row of the present token."""
        if value != 1:
            self.values = self.values or {}
            self.values[len(self.rows)] = value
        self.rows.append(row)

    @property
    def weights(self) -> Singles | None:
        """The value of each row, float32 [nnz]; `None` if all are 1."""
        if not self.values:
            return None
        weights = np.ones(len(self.rows), dtype=np.float32)
        weights[list(self.values)] = list(self.values.values())
        return weights

    def arrays(self) -> AttributeRows:
        """Return the rows as arrays."""
        bounds, rows, weights = self.sentence
        indptr = np.frombuffer(array("q", bounds), dtype=np.int64)
        return AttributeRows(indptr, np.frombuffer(rows, dtype=np.int32), weights)


class Lookup:
    """The attributes of a model, in the order of their rows, 0 to A − 1."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self._row = {name: _ROW.pack(row) for row, name in enumerate(attributes)}
        self._absent = _ROW.pack(len(attributes))
        self._root = _Prefix("")
        self._remembered = 0

    def rows(self, sequence: Items) -> AttributeRows:
        """Return the rows of the attributes of each token as arrays; see `found`."""
        return self.found(sequence).arrays()

    def found(self, sequence: Items) -> Found:
        """Return the rows of the attributes of each token: row A, or no row, for unknown ones."""
        found = Found()
        rows, bounds, root, tokens = found.rows, found.bounds, self._root, sequence
        if isinstance(tokens, ItemSequence):
            for names, values in tokens.tokens:
                self._names(names, values, found)
                bounds.append(len(rows))
            tokens = ()
        for item in tokens if type(tokens) is list else _tokens_of(tokens):
            try:  # the usual case, without a call
                remembered = (
                    root.flat and type(item) is dict and [*map(root.recalled, item.items())]
                )
            except (KeyError, TypeError):  # a new pair, or a value that is not remembered
                remembered = False
            if remembered:
                rows += remembered
            else:
                self._item(item, found)
            bounds.append(len(rows))
        found.sentence = bounds, b"".join(rows), found.weights if found.values else None
        return found

    def _item(self, item: Any, found: Found) -> None:
        """Add the attributes of a token."""
        try:
            if isinstance(item, dict):
                self._dict(item, self._root, found)
            else:
                self._other(item, found)
        except (TypeError, ValueError, OverflowError) as error:
            raise ItemError(str(error), token=len(found.bounds) - 1) from None

    def _names(self, names: list[str], values: list[float] | None, found: Found) -> None:
        if values is None:
            found.rows += self._numbers(names)
            return
        if _ORDINARY.issuperset(values):
            self._ones(names, values, found)
            return
        for name, value in zip(names, values, strict=True):
            if value:
                found.add(self._number(name), value)
            else:
                found.rows.append(self._zero(name))

    def _ones(self, names: list[str], values: list[float], found: Found) -> None:
        """Add attributes whose values are 0 and 1."""
        found.rows += self._numbers([*itertools.compress(names, values)])

    def _numbers(self, names: list[str]) -> list[bytes]:
        """Return the rows of attributes."""
        row, absent = self._row.get, self._absent
        return [row(name, absent) for name in names]

    def _number(self, name: str) -> bytes:
        """Return the row of an attribute."""
        return self._row.get(name, self._absent)

    def _zero(self, name: str) -> bytes:  # noqa: ARG002 (`Growing` reads it)
        """Return the row of an attribute with value 0."""
        return self._absent

    def _other(self, item: Any, found: Found) -> None:
        """Add the attributes of an item that is not a dict."""
        if isinstance(item, list):
            rows = list(map(self._row.get, item))
            if None not in rows:
                found.rows += rows  # type: ignore[arg-type]
                return
        names, values = _read_item(item)
        self._names(names, values, found)

    def _dict(self, item: dict[Any, Any], prefix: _Prefix, found: Found) -> None:
        """Add the attributes of a dict in its order, whether they are in the cache or not."""
        if prefix.flat:
            try:
                found.rows += [*map(prefix.recalled, item.items())]
            except KeyError:  # a new pair
                pass
            except TypeError:  # a dict or a list among the values
                prefix.flat = False
            else:
                return
        self._pairs(item.items(), prefix, found)

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], prefix: _Prefix, found: Found) -> None:
        """Add the attributes of pairs, some of which may be new."""
        for key, value in pairs:
            number = prefix.known.get((key, value)) if type(value) in _REMEMBERED_TYPES else None
            if number is None:
                self._pair(key, value, prefix, found)
            else:
                found.rows.append(number)

    def _pair(self, key: Any, value: Any, prefix: _Prefix, found: Found) -> None:
        """Add the attributes of a pair that is not remembered."""
        kind = type(value)
        if kind is dict:
            self._dict(value, prefix.below.get(key) or self._nested(prefix, key), found)
        elif kind is str or kind is bool:
            found.rows.append(self._learned(prefix, key, value))
        elif (kind is float or kind is int) and value in _ORDINARY:  # as True and False
            found.rows.append(self._learned(prefix, key, bool(value)))
        else:
            self._value(prefix.text + _as_text(key), value, found)

    def _learned(self, prefix: _Prefix, key: Any, value: str | bool) -> bytes:  # noqa: FBT001
        """Look a pair up by its text, and remember it."""
        text = prefix.text + (key if type(key) is str else _as_text(key))
        if value is not True and value is not False:
            text = f"{text}:{value}"
        if "\0" in text or not text.isascii():
            text = _as_text(text)
        row = self._zero(text) if value is False else self._number(text)
        if self._remembered < _REMEMBERED:
            self._remembered += 1
            prefix.known[key, value] = row
        return row

    def _nested(self, prefix: _Prefix, key: Any) -> _Prefix:
        child = _Prefix(f"{prefix.text}{_as_text(key)}:")
        if self._remembered < _REMEMBERED:
            self._remembered += 1
            prefix.below[key] = child
        return child

    def _value(self, name: str, value: Any, found: Found) -> None:
        """Add the attributes of an entry that is neither string, bool nor plain dict."""
        if isinstance(value, (bytes, str, Mapping, list, tuple, set, frozenset)):
            names, values = _read_item({name: value})
            self._names(names, values, found)
            return
        number = _number_of(name, value)
        if number:
            found.add(self._number(name), number)
        else:
            found.rows.append(self._zero(name))


class Growing(Lookup):
    """The attributes of training data, numbered from 1; −k is attribute k with the value 0."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def attributes(self) -> list[str]:
        """The attributes, in the order in which they came."""
        return list(self._row)

    def _numbers(self, names: list[str]) -> list[bytes]:
        return [self._number(name) for name in names]

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], prefix: _Prefix, found: Found) -> None:
        if prefix.flat:  # the last bits of trained weights depend on the order: new pairs are last
            try:
                pairs = sorted(pairs, key=lambda pair: pair not in prefix.known)
            except TypeError:  # a dict or a list among the values
                prefix.flat = False
        super()._pairs(pairs, prefix, found)

    def _ones(self, names: list[str], values: list[float], found: Found) -> None:
        pairs = zip(names, values, strict=True)
        found.rows += [self._number(name) if value else self._zero(name) for name, value in pairs]

    def _zero(self, name: str) -> bytes:
        return _ROW.pack(-_ROW.unpack(self._number(name))[0])

    def _number(self, name: str) -> bytes:
        return self._row.get(name) or self._row.setdefault(name, _ROW.pack(len(self._row) + 1))


def joined(parts: Sequence[AttributeRows]) -> AttributeRows:
    """Return the tokens of several sequences one after the other."""
    shifts = Ragged.from_lengths(len(part.rows) for part in parts).offsets
    bounds = [part.indptr[1:] + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
    values = None
    if any(part.values is not None for part in parts):
        values = np.concatenate(
            [
                np.ones(len(part.rows), dtype=np.float32) if part.values is None else part.values
                for part in parts
            ]
        )
    return AttributeRows(
        np.concatenate([np.zeros(1, dtype=np.int64), *bounds]),
        np.concatenate([np.zeros(0, dtype=np.int32), *(part.rows for part in parts)]),
        values,
    )
