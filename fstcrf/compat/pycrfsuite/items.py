"""The attributes of sequences, in all the forms that python-crfsuite takes.

=============  ================================================================
ItemSequence   the attributes of a sequence, read once
Item           those of one token: names and values
read_item      a token in any form → `Item`
labels_of      a label sequence as strings
=============  ================================================================

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

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fstcrf.compat.pycrfsuite.errors import ItemError

__all__ = ["Item", "ItemSequence", "as_text", "labels_of", "number_of", "read_item", "tokens_of"]

_LARGEST = 3.4e38  # values are 32-bit numbers in the kernel
_NESTED = (list, tuple, set, frozenset)


class Item(NamedTuple):
    """The attributes of a token.

    Parameters
    ----------
    names : list of str
    values : list of float or None
        One for each name; all are 1 when None.
    """

    names: list[str]
    values: list[float] | None


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

    def __init__(self, pyseq: Iterable[Any] | ItemSequence) -> None:
        self.tokens: tuple[Item, ...]
        if isinstance(pyseq, ItemSequence):
            self.tokens = pyseq.tokens
            return
        self.tokens = tuple([read_item(item, t) for t, item in enumerate(tokens_of(pyseq))])

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


def tokens_of(sequence: Iterable[Any]) -> Iterable[Any]:
    """Return a sequence of items after a look at its type.

    Raises
    ------
    ItemError
        A string, or nothing that has elements.
    """
    if isinstance(sequence, (str, bytes, Mapping)) or not isinstance(sequence, Iterable):
        raise ItemError(
            f"a sequence of items (dicts or lists of strings) is expected: {sequence!r}"
        )
    return sequence


def read_item(item: Any, token: int | None = None) -> Item:
    """Return the attributes of one token.

    Parameters
    ----------
    item : dict or iterable of str
    token : int, optional
        Its place in the sequence, for messages.

    Raises
    ------
    ItemError
        As for `ItemSequence`.
    """
    try:
        if isinstance(item, Mapping):
            names: list[str] = []
            values: list[float] = []
            _flatten("", item, names, values)
            return Item(_checked(names), None if values.count(1.0) == len(values) else values)
        return Item(_checked(_listed(item)), None)
    except (TypeError, ValueError, OverflowError) as error:
        raise ItemError(str(error), token=token) from None


def as_text(name: Any) -> str:
    """Return a string or UTF-8 bytes as a string of CRFsuite.

    Raises
    ------
    TypeError
        It is neither.
    ValueError
        It is not Unicode.
    """
    return _checked([_text(name)])[0]


def number_of(name: str, value: Any) -> float:
    """Return the value of an attribute.

    Raises
    ------
    TypeError, ValueError
        It is no finite number.
    """
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
            values.append(number_of(name, value))
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
            values.append(number_of(name, value))


def _listed(item: Any) -> list[str]:
    """Return the strings of what is no dict; TypeError where it holds others, or nothing."""
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
    """Return strings as CRFsuite has them; ValueError where they are not Unicode."""
    every = "".join(names)
    if not every.isascii():
        every.encode()  # lone surrogates cannot be
    return [name.partition("\0")[0] for name in names] if "\0" in every else names


def labels_of(sequence: Any) -> list[str]:
    """Return the labels of a sequence.

    Raises
    ------
    ItemError
        One that is no string.
    """
    if not isinstance(sequence, Iterable) or isinstance(sequence, bytes):
        raise ItemError(f"a sequence of labels is expected, not {sequence!r}")
    labels = []
    for t, label in enumerate(sequence):
        try:
            labels.append(as_text(label))
        except (TypeError, ValueError) as error:
            raise ItemError(f"labels are strings: {error}", token=t) from None
    return labels
