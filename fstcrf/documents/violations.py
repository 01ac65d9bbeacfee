"""Models of violations: what they must offer, models from one function, models in files.

The score of a document is that of the tagger plus those of the models, in natural logs; a violation
of penalty theta that occurs n times brings n log theta (Finkel et al. 2005, equation 5). A model
that says by how much a change of few labels changes its score can be sampled; it need not be
normalised.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import msgspec

from fstcrf.corpus import atomic_write
from fstcrf.documents.document import Document
from fstcrf.errors import FstcrfError, ModelFileError, OptionError

__all__ = [
    "DeclaredModel",
    "Recounted",
    "ViolationModel",
    "Violations",
    "bound_to",
    "log_score",
    "read_model",
]


def log_score(score: object, model: str) -> float:
    """Return what a model returned as a number.

    Raises
    ------
    OptionError
        It is none.
    """
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

        −inf forbids them: sampling then asks again with others, and never stays where it is −inf.
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
    """Return what a model's `bind` returns.

    Raises
    ------
    OptionError
        It lacks a method.
    """
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


@dataclass(frozen=True)
class DeclaredModel:
    """A model of declared violations: JSON on disk that can be read and written by hand.

    Parameters
    ----------
    violations : sequence
    column : str
        The column that it reads.
    tape : str, optional
        The tape whose labels it reads, where a tagger has several.
    """

    violations: Sequence[Any]
    column: str = "word"
    tape: str | None = None

    def rows(self) -> list[msgspec.Struct]:
        """Return the violations as a file has them."""
        raise NotImplementedError

    @staticmethod
    def parsed(rows: list[Any]) -> list[Any]:
        """Return the violations of a file."""
        raise NotImplementedError

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
        lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
        rows = [json.dumps(msgspec.to_builtins(row), ensure_ascii=False) for row in self.rows()]
        table = ' "violations": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"
        with atomic_write(path) as file:
            file.write(("{\n" + "\n".join(lines) + "\n" + table).encode())


_Kind = TypeVar("_Kind", bound=DeclaredModel)


def read_model(path: str | os.PathLike[str], *kinds: type[_Kind]) -> _Kind:
    """Read a model of one of some kinds; errors as for `DeclaredModel.load`."""
    data, name = Path(path).read_bytes(), os.fspath(path)
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
                return kind(kind.parsed(found.violations), found.column, found.tape)
    except (msgspec.DecodeError, FstcrfError) as error:
        raise ModelFileError(f"{name}: no model of violations: {error}") from None
    other = next(known for known, text in _FORMATS.items() if text == head.format)
    expected = " or ".join(kind.__name__ for kind in kinds)
    raise ModelFileError(f"{name}: a model of type {other}, expected {expected}")
