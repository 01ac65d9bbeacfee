"""A document, and the models of violations in it: their view of it, interface and files.

The score of a document is the score of the tagger plus the scores of the models, in natural logs; n
violations of penalty theta contribute n log theta (Finkel et al. 2005, equation 5). A model that
computes the change of its score after a change of few labels can be sampled; it need not be
normalised.
"""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import msgspec
import numpy as np

from fstcrf.arguments import string_list
from fstcrf.arrays import Bytes, Ints, Longs, Ragged
from fstcrf.errors import (
    FstcrfError,
    LabelError,
    ModelFileError,
    NumericError,
    OptionError,
    ShapeError,
)
from fstcrf.files import atomic_write, path_name
from fstcrf.lazy import made_once
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.schemes import OUTSIDE, named_scheme, split_label, succession_tables


@dataclass(frozen=True, eq=False)
class Document:
    """The tokens of a document; sentences without tokens are left out.

    Parameters
    ----------
    corpus : Corpus
        Its sentences.
    number : int
        Among the documents, from 0, for messages.
    """

    corpus: Corpus
    number: int = 0

    def __len__(self) -> int:
        return self.corpus.n_tokens

    @made_once
    def offsets(self) -> Longs:
        """Bounds of the nonempty sentences, int64 [B + 1]."""
        bounds = self.corpus.offsets
        return np.concatenate([bounds[:1], bounds[1:][Ragged(bounds).lengths > 0]])

    def compared(self, name: str, *, ignore_case: bool = False) -> Longs:
        """Return numbers that are equal for equal strings of a column, int64 [N].

        Raises
        ------
        DataError
            There is no such column.
        """
        column = self.corpus.column(name)
        if not ignore_case:
            return column.ids.astype(np.int64)
        number: dict[str, int] = {}
        strings = column.strings()
        return np.asarray([number.setdefault(s.lower(), len(number)) for s in strings], np.int64)

    def column(self, name: str) -> list[str]:
        """Return a column as one string for each token.

        Raises
        ------
        DataError
            There is no such column.
        """
        return self.corpus.column(name).strings()


def documents(corpus: Corpus, first: int = 0) -> Iterator[Document]:
    """Yield the documents of a corpus, numbered from `first`; without any it is one document."""
    for number, part in enumerate(corpus.document_slices(), first):
        yield Document(corpus[part], number)


# --- Sequences ------------------------------------------------------------------------------------

# Models of consistency ask whether two spans have the same tokens, or whether one is a part of
# another. A span with unrepeated tokens agrees with everything; only repeated sequences need a
# number.


class RepeatedSequences(NamedTuple):
    """Numbers of the token sequences that occur at least twice, within sentences."""

    first: Longs  # [N + 1]: first places of the sequences from each token in
    number: Ints  # numbers for 1, 2, ... tokens; longer sequences occur once

    def of(self, start: int, end: int) -> int:
        """Return the number of a token sequence, −1 if it occurs once."""
        room = int(self.first[start + 1] - self.first[start])
        length = end - start
        return int(self.number[self.first[start] + length - 1]) if length <= room else -1

    def inside(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield number and length of the sequences among some tokens, but for all of them."""
        for first in range(start, end):
            for stop in range(first + 1, end + 1):
                number = self.of(first, stop)
                if number < 0:
                    break
                if stop - first < end - start:
                    yield number, stop - first

    def around(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield number and length of the longer sequences that hold some tokens in their place."""
        first = start
        while first > 0 and self.of(first - 1, end) >= 0:
            first -= 1
        for begin in range(first, start + 1):
            room = int(self.first[begin + 1] - self.first[begin])
            for length in range(end - begin, room + 1):
                if length > end - start:
                    yield self.of(begin, begin + length), length


def repeated_sequences(tokens: Longs, offsets: Longs) -> RepeatedSequences:
    """Find and number, shorter ones first, all repeated sequences of a document.

    The numbers `tokens` [N] are equal for equal tokens; `offsets` [B + 1] are the bounds of
    sentences.
    """
    n, known = len(tokens), 0
    last = Ragged(offsets).repeat(offsets[1:])  # end of each token's sentence
    number = np.full(n + 1, -1, dtype=np.int64)  # of the sequence of this length from each token
    number[:n] = _numbered(np.asarray(tokens, dtype=np.int64))
    found: list[tuple[Longs, Longs]] = []
    length = 1
    while True:
        at = np.flatnonzero(number >= 0)
        if not len(at):
            break
        found.append((at, number[at] + known))
        count = int(number.max()) + 1
        known += count
        length += 1
        # It can repeat only where both sequences that are a token shorter do.
        at = at[(at + length <= last[at]) & (number[np.minimum(at + 1, n)] >= 0)]
        key = number[at] * count + number[at + 1]
        number = np.full(n + 1, -1, dtype=np.int64)
        number[at] = _numbered(key)
    place = np.concatenate([at for at, _ in found]) if found else np.zeros(0, dtype=np.int64)
    numbers = np.concatenate([k for _, k in found]) if found else place
    first = Ragged.from_rows(place, n).offsets
    order = np.argsort(place, kind="stable")  # by token, and by length for each
    return RepeatedSequences(first, numbers[order].astype(np.int32))


def _numbered(keys: Longs) -> Longs:
    """Return numbers for the keys that are there twice or more, −1 for others."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    group = np.cumsum(new) - 1
    repeated = np.bincount(group, minlength=1) > 1
    name = np.cumsum(repeated) - 1
    out = np.empty(len(keys), dtype=np.int64)
    out[order] = np.where(repeated[group], name[group], -1)
    return out


# --- Spans: as neighbouring labels say them, whatever their scheme, by the rules of conlleval -----


class SpanTables(NamedTuple):
    """Whether a label starts or continues a span, given the previous label."""

    starts: Bytes  # [L + 1, L]; row L begins a sentence
    inside: Bytes  # [L + 1, L]
    type: Ints  # [L]: index into `types`, −1 outside of spans
    types: tuple[str, ...]

    def spans(self, labels: Sequence[int], before: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and type of the spans of label numbers after the label `before`."""
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

    >>> span_types(["O", "B-PER", "I-PER", "S-LOC"])
    ('LOC', 'PER')
    """
    scheme = named_scheme("conlleval")
    parts = (split_label(label, scheme) for label in labels)
    return tuple(sorted({name for letter, name in parts if letter in scheme.letters and name}))


def span_tables(labels: Sequence[str], types: Sequence[str], *, strict: bool = True) -> SpanTables:
    """Return the tables of a label set for spans of the given types; other types are ignored."""
    scheme = named_scheme("conlleval")
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
    starts, inside = (
        (table[:, :-1] & (kind >= 0)).astype(np.uint8) for table in succession_tables(parts, scheme)
    )
    return SpanTables(starts, inside, kind, tuple(types))


# --- Options, checked before anything is sampled --------------------------------------------------


def whole_number(name: str, given: object, least: int) -> None:
    """Check a whole number."""
    if not isinstance(given, Integral) or int(given) < least:
        raise OptionError(f"{name} is {given!r}, expected a whole number, at least {least}")


def number(name: str, given: object) -> None:
    """Check a number."""
    if not isinstance(given, Real):
        raise OptionError(f"{name} is {given!r}, expected a number")


def finite(name: str, given: object) -> float:
    """Return a number as a float."""
    number(name, given)
    try:
        found = float(given)  # type: ignore[arg-type]  # checked
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise NumericError(f"{name} is {found}, expected a finite number")
    return found


def each_a(name: str, given: Iterable[object], *kinds: type) -> None:
    """Check the types of several things."""
    expected = " or ".join(kind.__name__ for kind in kinds)
    if isinstance(given, kinds) or not isinstance(given, Iterable):
        raise OptionError(f"{name} is a {type(given).__name__}, expected a list of {expected}")
    for one in given:
        if not isinstance(one, kinds):
            raise OptionError(f"{name} has {one!r}, expected {expected}")


def check_labels(document: Document, labels: Sequence[str]) -> Sequence[str]:
    """Return labels, checked: there is one for each token of a document."""
    if not isinstance(document, Document):
        raise OptionError(
            f"document is a {type(document).__name__}, expected a Document: documents(corpus) "
            "yields them"
        )
    labels = string_list(labels, "label")
    if len(labels) != document.offsets[-1]:
        raise ShapeError(f"{len(labels)} labels for a document of {document.offsets[-1]} tokens")
    return labels


# --- Models of violations -------------------------------------------------------------------------


def log_score(score: object, model: str) -> float:
    """Return the result of a model as a number."""
    try:
        return float(score)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        kind = type(score).__name__
        raise OptionError(
            f"the violation model {model} returned a {kind}, expected a log score: a number or −inf"
        ) from None


class Violations(Protocol):
    """A model's scores of one document, as its labels change."""

    def start(self, labels: Sequence[str]) -> float:
        """Return the score of labels, one for each token of the document, and remember them.

        −inf forbids them: sampling then tries other labels, and never keeps forbidden ones.
        """

    def change(self, first: int, labels: Sequence[str]) -> float:
        """Return by how much the score changes if tokens from `first` on had these labels.

        −inf forbids them.
        """

    def keep(self) -> None:
        """Remember the labels of the last `change`: they are the document's now."""


class ViolationModel(Protocol):
    """A model of violations."""

    def bind(self, document: Document) -> Violations:
        """Return the scores of a document."""


def bound_to(model: ViolationModel, document: Document) -> Violations:
    """Return the result of a model's `bind`, checked."""
    found = model.bind(document)
    for method in ("start", "change", "keep"):
        if not callable(getattr(found, method, None)):
            raise OptionError(
                f"the violation model {type(model).__name__}: bind returned a "
                f"{type(found).__name__} without a method {method}; it needs start, change, keep"
            )
    return found


@dataclass(frozen=True, slots=True)
class Recounted:
    """A model of violations from one function, which is asked anew for every change.

    Parameters
    ----------
    score : callable
        ``score(document, labels)`` returns the log score of the labels of all tokens.

    Examples
    --------
    At most two persons in a document, softly:

    >>> Recounted(lambda document, labels: -4.0 * max(0, labels.count("B-PER") - 2))
    ... # doctest: +ELLIPSIS
    Recounted(score=...)
    """

    score: Callable[[Document, Sequence[str]], float]

    def bind(self, document: Document) -> Violations:
        """Return the scores of a document."""
        return _Recount(self.score, document)


class _Recount:
    def __init__(
        self, score: Callable[[Document, Sequence[str]], float], document: Document
    ) -> None:
        self._score, self._document = score, document
        self._labels: list[str] = []
        self._changed: list[str] = []
        self._value = self._new = 0.0

    def start(self, labels: Sequence[str]) -> float:
        self._labels = list(labels)
        self._value = self._asked(self._labels)
        return self._value

    def change(self, first: int, labels: Sequence[str]) -> float:
        self._changed = self._labels.copy()
        self._changed[first : first + len(labels)] = labels
        self._new = self._asked(self._changed)
        return self._new - self._value

    def _asked(self, labels: Sequence[str]) -> float:
        return log_score(self._score(self._document, labels), "Recounted")

    def keep(self) -> None:
        self._labels, self._value = self._changed, self._new


# --- Files ----------------------------------------------------------------------------------------

_FORMATS = {"Consistency": "fstcrf consistency", "Fields": "fstcrf fields"}
_VERSION = 1


class _Head(msgspec.Struct):
    format: str
    version: int


class _File(_Head, forbid_unknown_fields=True):
    violations: list[Any]
    column: str = "word"
    tape: str | None = None
    ignore_case: bool = False


@dataclass(frozen=True)
class DeclaredModel(ABC):
    """A model of declared violations: JSON on disk that can be read and written by hand."""

    violations: Sequence[Any]
    column: str = "word"  # that it reads
    tape: str | None = None  # the tape with its labels, if a tagger has several

    @abstractmethod
    def rows(self) -> list[msgspec.Struct]:
        """Return the violations as a file has them."""

    def ignoring_case(self) -> Self:
        """Return the model with strings compared in lower case; OptionError without strings."""
        raise OptionError("ignore_case is for models of consistency")

    def options(self) -> dict[str, bool]:
        """Return the fields of a file other than violations, if they differ from the defaults."""
        return {}

    @staticmethod
    @abstractmethod
    def parsed(rows: list[Any]) -> list[Any]:
        """Return the violations of a file."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote, or that was written by hand.

        Raises
        ------
        ModelFileError
            It is no such file, or is wrong.
        OSError
            It cannot be read.
        """
        return read_model(path, cls)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON, one line a violation.

        Raises
        ------
        OptionError
            A value that is a function has no name that could be written.
        """
        kind = _FORMATS[type(self).__name__]
        head = {"format": kind, "version": _VERSION, "column": self.column}
        if self.tape is not None:
            head["tape"] = self.tape
        head |= self.options()
        lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
        rows = [json.dumps(msgspec.to_builtins(row), ensure_ascii=False) for row in self.rows()]
        table = ' "violations": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"
        with atomic_write(path) as file:
            file.write(("{\n" + "\n".join(lines) + "\n" + table).encode())


_Kind = TypeVar("_Kind", bound=DeclaredModel)


def read_model(path: str | os.PathLike[str], *kinds: type[_Kind]) -> _Kind:
    """Read a model of one of several classes; errors as for `DeclaredModel.load`."""
    name = path_name(path)
    data = Path(name).read_bytes()
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format not in _FORMATS.values() or head.version != _VERSION:
            raise ModelFileError(
                f"{head.format!r}, version {head.version}, expected "
                f"{' or '.join(map(repr, _FORMATS.values()))}, version {_VERSION}"
            )
        found = msgspec.json.decode(data, type=_File)
        for kind in kinds:
            if _FORMATS[kind.__name__] == head.format:
                made = kind(kind.parsed(found.violations), found.column, found.tape)
                return made.ignoring_case() if found.ignore_case else made
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, FstcrfError) as error:
        raise ModelFileError(f"{name}: no model of violations: {error}") from None
    other = next(known for known, text in _FORMATS.items() if text == head.format)
    expected = " or ".join(kind.__name__ for kind in kinds)
    raise ModelFileError(f"{name}: a model of type {other}, expected {expected}")
