"""Attributes given by the caller: for each token a list of strings or a dict.

A dict becomes attributes as in python-crfsuite::

    {"word": "the"}        word:the   1
    {"title": True}        title      1       False gives 0
    {"length": 3.5}        length     3.5
    {"in": ["a", "b"]}     in:a  in:b 1       a list, a set, or nested dicts
    {"prev": {"w": "x"}}   prev:w:x   1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bytes, Ints, Longs, Ragged, Singles, distinct
from fstcrf.errors import DataError, ModelFileError, OptionError
from fstcrf.kernel import SparseRows
from fstcrf.kernel.rows import SentenceRows
from fstcrf.kernel.strings import pack_strings
from fstcrf.text.corpus.corpus import Sentence
from fstcrf.text.features.design import Design, check_order
from fstcrf.text.features.hashed import Collisions, check_bits, hashed_rows, string_hashes
from fstcrf.text.features.keys import (
    IndexArrays,
    Metadata,
    Vocabulary,
    check_blob,
    check_kind,
    checked_array,
)

LiteralSentence = Sequence[Sequence[str] | set[str] | frozenset[str] | Mapping[str, Any]]
"""The attributes of one token: strings, or a dict."""

KIND = "literal"
VERSION = 1

_Key: TypeAlias = "str | tuple[str, object]"
"""An attribute: a string, or a pair of a dict."""

_ROW = 4  # bytes
_REMEMBERED = 100_000
"""Attributes whose rows are remembered for sentences that come one at a time."""

_TEXT, _PLAIN = frozenset({str}), frozenset({str, bool, int, float})
_ORDINARY, _ZERO = frozenset({0.0, 1.0}), frozenset({0.0})


def is_literal(sentence: object) -> TypeGuard[LiteralSentence]:
    """Return whether a sentence is given as attributes.

    The first token decides: a list, a set or a dict holds attributes; a *tuple* is a row of
    columns. A mapping of columns, a `Sentence` and an empty sentence are not literal.

    Examples
    --------
    >>> is_literal([["w=the", "first"], ["w=cat"]])
    True
    >>> is_literal([("the", "DT"), ("cat", "NN")])
    False
    """
    if isinstance(sentence, (Sentence, Mapping, str)) or not isinstance(sentence, Sequence):
        return False
    return bool(sentence) and isinstance(sentence[0], (list, set, frozenset, Mapping))


class LiteralIndex:
    """The attributes of sentences given as attribute strings; created by `build`.

    Parameters
    ----------
    attributes : sequence of str
        The attributes, in the order of their rows.
    hash_bits : int, optional
        Hash attributes into 2^hash_bits rows; then `attributes` is empty.

    Raises
    ------
    DataError
        An attribute that occurs twice.
    OptionError
        `hash_bits` outside 1 to 30.
    """

    def __init__(self, attributes: Sequence[str] = (), *, hash_bits: int | None = None) -> None:
        self._vocabulary = Vocabulary(attributes)
        self._bits = check_bits(hash_bits)
        # The rows, int32, of strings, and of pairs of a dict; empty without an effect.
        self._known: dict[object, bytes] = {}
        if len(self._vocabulary) != len(attributes):
            raise DataError("an attribute is there twice")

    @classmethod
    def build(
        cls,
        sentences: Sequence[LiteralSentence],
        *,
        min_count: int = 1,
        hash_bits: int | None = None,
        base: LiteralIndex | None = None,
    ) -> tuple[LiteralIndex, Design]:
        """Return the index of the attributes of sentences, and their design.

        Parameters
        ----------
        sentences : sequence of sentence
            Per token, a list of strings or a dict.
        min_count : int, default 1
            Drop attributes that occur less often.
        hash_bits : int, optional
            Hash attributes into 2^hash_bits rows instead of keeping them by name.
        base : LiteralIndex, optional
            An index whose attributes keep their rows; new ones follow.

        Raises
        ------
        DataError
            A token that is neither list nor dict, or a value that is not a finite number.
        OptionError
            Options out of range, or other than the options of `base`.
        """
        if min_count < 1 or (hash_bits is not None and min_count > 1):
            raise OptionError(f"min_count is {min_count}, expected at least 1; 1 with hash_bits")
        if base is not None and base.hash_bits != hash_bits:
            raise OptionError(f"the index to start from has hash_bits {base.hash_bits}")
        tokens = _Tokens(sentences)
        if hash_bits is not None:
            index = cls(hash_bits=hash_bits)
            return index, index._rows(tokens)
        earlier = () if base is None else base.attribute_strings
        vocabulary = Vocabulary(tokens.names)
        counts = np.bincount(vocabulary.numbers(tokens.names), minlength=len(vocabulary))
        frequent = [vocabulary.strings[i] for i in np.flatnonzero(counts >= min_count).tolist()]
        index = cls(tuple(dict.fromkeys([*earlier, *frequent])))
        pack_strings(index.attribute_strings)  # refuses strings that no file can store
        return index, index._rows(tokens)

    def design(self, data: Sequence[LiteralSentence], /) -> Design:
        """Return the attributes of every token; unknown attributes are absent.

        Raises
        ------
        DataError
            A token that is neither list nor dict, or a value that is not a finite number.
        """
        return self._rows(_Tokens(data))

    def of_one(self, sentence: LiteralSentence) -> SentenceRows:
        """Return the rows of `design` of one sentence, in less time; errors as of `design`.

        Attributes with the value 0 are absent.
        """
        new: list[_Key] = []
        token_rows = self._recalled(sentence, new)
        if new and self._learned(new):
            token_rows = self._recalled(sentence, [])
        if token_rows is None:
            node = self.design([sentence]).node
            token_rows = node.indptr, node.index, node.value
        return token_rows

    def _recalled(self, sentence: LiteralSentence, new: list[_Key]) -> SentenceRows | None:
        """Return the rows of a sentence if all are remembered, or append those that are not.

        Sentences with a token that is neither a list of strings nor a flat dict have neither.
        """
        remembered, parts, bounds, size = self._known.get, list[bytes](), [0], 0
        keys: Iterable[_Key]
        for token in sentence:
            if type(token) is list and _TEXT.issuperset(map(type, token)):
                keys = token
            elif type(token) is dict and _is_flat(token):
                keys = token.items()
            else:
                new.clear()
                return None
            rows = [*map(remembered, keys)]
            if None in rows:
                new += [key for key, row in zip(keys, rows, strict=True) if row is None]
                continue
            parts.append(b"".join(rows))  # type: ignore[arg-type]
            size += len(parts[-1])
            bounds.append(size // _ROW)
        return None if new else (bounds, b"".join(parts), None)

    def _learned(self, new: Sequence[_Key]) -> bool:
        """Remember the rows of strings and pairs; not if a pair has a value besides 0 and 1."""
        names: list[str] = []
        for key in new:
            if type(key) is str:
                names.append(key)
            elif type(key[1]) is str:
                names.append(f"{key[0]}:{key[1]}")
            elif key[1] in _ORDINARY:
                names.append(key[0])
            else:
                return False
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        rows = self._numbers(names)
        for key, row in zip(new, rows, strict=True):
            absent = row < 0 or (type(key) is tuple and key[1] in _ZERO)
            self._known[key] = b"" if absent else row.tobytes()
        return True

    @property
    def n_node_rows(self) -> int:
        """Number of attributes."""
        return len(self._vocabulary) if self._bits is None else 1 << self._bits

    @property
    def n_arc_rows(self) -> int:
        """Number of attributes of label pairs: always 0."""
        return 0

    @property
    def hash_bits(self) -> int | None:
        """The k of 2^k hashed rows; `None` if attributes are kept by name."""
        return self._bits

    @property
    def attribute_strings(self) -> tuple[str, ...]:
        """All attributes, in the order of their rows; empty if they are hashed."""
        return self._vocabulary.strings

    def attribute(self, row: int, *, arc: bool = False) -> str:
        """Return the text of an attribute, or ``#row`` if it is hashed.

        Raises
        ------
        OptionError
            There is no such row.
        """
        n_rows = 0 if arc else self.n_node_rows
        if not 0 <= row < n_rows:
            raise OptionError(f"row {row} of an index with {n_rows} rows")
        return self._vocabulary.strings[row] if self._bits is None else f"#{row}"

    def row(self, attribute: str, *, arc: bool = False) -> int | None:
        """Return the row of an attribute; `None` if it is unknown."""
        if arc:
            return None
        if self._bits is None:
            return self._vocabulary.number(attribute)
        return int(hashed_rows(string_hashes([attribute]), self._bits)[0])

    def collisions(self, sentences: Sequence[LiteralSentence]) -> Collisions:
        """Return the number of attributes that share a hashed row.

        Raises
        ------
        OptionError
            The index is not hashed.
        """
        if self._bits is None:
            raise OptionError("only a hashed index has collisions: build it with hash_bits=")
        names = tuple(dict.fromkeys(_Tokens(sentences).names))
        return Collisions.of(distinct(string_hashes(names)), self._bits)

    def renumbered(self, order: Ints) -> LiteralIndex:
        """Return the index under other rows: row ``r`` becomes ``order[r]``.

        Raises
        ------
        ShapeError
            `order` is no permutation of the rows.
        OptionError
            The index is hashed.
        """
        if self._bits is not None:
            raise OptionError("hashed rows cannot be renumbered")
        places = np.argsort(check_order(order, self.n_node_rows)).tolist()
        return LiteralIndex([self._vocabulary.strings[place] for place in places])

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the attributes as one UTF-8 blob with offsets, in the order of their rows."""
        blob, offsets = pack_strings(self._vocabulary.strings)
        return {"strings.blob": blob, "strings.offsets": offsets}

    def metadata(self) -> dict[str, str | int | list[str] | None]:
        """Return the rest of the index as JSON values."""
        return {"kind": KIND, "version": VERSION, "hash_bits": self._bits}

    @classmethod
    def from_arrays(cls, arrays: IndexArrays, metadata: Metadata) -> LiteralIndex:
        """Return the index that `arrays` and `metadata` describe.

        Raises
        ------
        ModelFileError
            An array or entry is missing or damaged.
        """
        check_kind(metadata, KIND, VERSION)
        blob = checked_array(arrays, "strings.blob", np.uint8)
        offsets = checked_array(arrays, "strings.offsets", np.int64)
        check_blob(blob, offsets, "attributes")
        try:
            return cls.from_text(blob, offsets, hash_bits=check_bits(metadata.get("hash_bits")))
        except (OptionError, TypeError) as error:
            raise ModelFileError(f"the index is damaged: {error}") from None

    @classmethod
    def from_text(
        cls, text: Bytes, offsets: Longs, *, hash_bits: int | None = None
    ) -> LiteralIndex:
        """Return the index of attributes in UTF-8, which are decoded on demand.

        Parameters
        ----------
        text : uint8 [B]
            The attributes, concatenated, UTF-8.
        offsets : int64 [A + 1]
            Start of each attribute.
        hash_bits : int, optional
            As for the class.

        Raises
        ------
        ModelFileError
            An attribute that occurs twice.
        """
        new = cls(hash_bits=hash_bits)
        new._vocabulary = Vocabulary.from_blob(text, offsets, "attributes")
        return new

    def __getstate__(self) -> dict[str, object]:
        """Return the attributes of the object without remembered rows."""
        return {**vars(self), "_known": {}}

    def _numbers(self, names: Sequence[str]) -> Ints:
        """Return the rows of attributes, −1 for unknown ones."""
        if self._bits is None:
            return self._vocabulary.numbers(names).astype(np.int32)
        vocabulary = Vocabulary(names)
        hashes = string_hashes(vocabulary.strings)[vocabulary.numbers(names)]
        return hashed_rows(hashes, self._bits)

    def _rows(self, tokens: _Tokens) -> Design:
        n_rows = self.n_node_rows
        rows, indptr = self._numbers(tokens.names), np.array(tokens.bounds, dtype=np.int64)
        keep = rows >= 0
        if keep.all():
            return Design(SparseRows(indptr, rows, tokens.values, n_rows))
        indptr = Ragged(indptr).filtered(keep).offsets
        values = None if tokens.values is None else tokens.values[keep]
        return Design(SparseRows(indptr, rows[keep], values, n_rows))


class _Tokens:
    """The attributes of all tokens of some sentences; per token, a list of strings or a dict."""

    def __init__(self, sentences: Sequence[LiteralSentence]) -> None:
        self.names: list[str] = []
        self.bounds = [0]
        self.numbers: list[float] = []
        for number, sentence in enumerate(sentences):
            if isinstance(sentence, (Sentence, Mapping, str)):
                raise DataError("expected attribute lists or dicts, got columns", sentence=number)
            for position, token in enumerate(sentence):
                try:
                    _append(token, self.names, self.numbers)
                except (TypeError, OverflowError) as error:
                    raise DataError(str(error), sentence=number, token=position) from None
                self.bounds.append(len(self.names))
        self.values = self._checked(self.numbers, [len(sentence) for sentence in sentences])

    def _checked(self, numbers: list[float], lengths: Sequence[int]) -> Singles | None:
        if numbers.count(1.0) == len(numbers):
            return None
        with np.errstate(over="ignore"):
            values = np.array(numbers, dtype=np.float64).astype(np.float32)
        if not np.isfinite(values).all():
            entry = int(np.flatnonzero(~np.isfinite(values))[0])
            token = int(np.searchsorted(self.bounds, entry, side="right")) - 1
            offsets = Ragged.from_lengths(lengths).offsets
            sentence = int(np.searchsorted(offsets, token, side="right")) - 1
            raise DataError(
                f"attribute {self.names[entry]!r} is {numbers[entry]}, expected a number of at "
                "most 3.4e38 in size (float32)",
                sentence=sentence,
                token=token - int(offsets[sentence]),
            )
        return None if np.all(values == 1) else values


def _is_flat(token: Mapping[str, object]) -> bool:
    """Return whether each pair of a dict is one attribute, which equal pairs have, too.

    Equal strings of other types may be formatted in another way.
    """
    return _TEXT.issuperset(map(type, token)) and _PLAIN.issuperset(map(type, token.values()))


def _append(token: object, names: list[str], numbers: list[float]) -> None:
    if type(token) is dict or isinstance(token, Mapping):  # the usual type first
        _append_attributes(token, "", names, numbers)
        return
    if isinstance(token, tuple):
        raise TypeError(f"{token!r} is a row of columns; attributes are a list, a set or a dict")
    if not isinstance(token, (list, set, frozenset)):
        raise TypeError(f"{token!r} is neither a list of attributes nor a dict")
    try:
        "".join(token)  # faster than checking each type
    except TypeError:
        several = any(isinstance(one, list | tuple | Mapping) for one in token)
        advice = "; tag_all, decode and lattices take a list of sentences" if several else ""
        raise TypeError(f"{token!r} holds something that is not a string{advice}") from None
    strings = token if isinstance(token, list) else sorted(token)
    names += strings
    numbers += [1.0] * len(strings)


def _append_attributes(
    features: Mapping[Any, Any], prefix: str, names: list[str], numbers: list[float]
) -> None:
    """Append the attributes of a dict, with the rules of python-crfsuite's ItemSequence."""
    try:
        "".join(features)
    except TypeError:
        odd = next(key for key in features if not isinstance(key, str))
        raise TypeError(f"the key {odd!r} is not a string") from None
    add, count = names.append, numbers.append
    for key, value in features.items():
        kind = type(value)  # the usual types first
        if kind is str:
            add(f"{prefix}{key}:{value}")
            count(1.0)
        elif kind is bool or kind is float:
            add(prefix + key)
            count(value)
        elif isinstance(value, str):
            add(f"{prefix}{key}:{value}")
            count(1.0)
        elif isinstance(value, Mapping):
            _append_attributes(value, f"{prefix}{key}:", names, numbers)
        elif isinstance(value, (list, tuple, set, frozenset)):
            for item in sorted(value) if isinstance(value, (set, frozenset)) else value:
                if not isinstance(item, str):
                    raise TypeError(f"{key!r} holds {item!r}, expected strings")
                add(f"{prefix}{key}:{item}")
                count(1.0)
        else:
            add(prefix + key)
            count(_number(key, value))


def _number(key: str, value: Any) -> float:
    try:
        if not isinstance(value, np.complexfloating):  # float() would drop its imaginary part
            return float(value)
    except (TypeError, ValueError):
        pass
    expected = "a string, a number, strings or a dict"
    raise TypeError(f"attribute {key!r} is {value!r}, expected {expected}")
