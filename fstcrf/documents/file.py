"""Models of violations as JSON that can be read and written by hand.

=========  ========================
save       write a model
load       read a model
load_kind  read a model of one type
=========  ========================
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from fstcrf.corpus import atomic_write
from fstcrf.documents.consistency import Consistency, Relation, Violation
from fstcrf.documents.fields import Differing, Fields, Unlabelled
from fstcrf.documents.written import Written
from fstcrf.errors import FstcrfError, ModelFileError, OptionError

__all__ = ["load", "load_kind", "save"]

_Kind = TypeVar("_Kind", bound=Written)
_CONSISTENCY, _FIELDS, _VERSION = "fstcrf consistency", "fstcrf fields", 1


class _Violation(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    relation: Relation
    types: tuple[str, str]
    penalty: float
    count: int | None = None


class _Field(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    violation: Literal["differing", "unlabelled"]
    type: str
    penalty: float
    value: str | None = None


class _Head(msgspec.Struct):
    format: str
    version: int


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    violations: list[Any]
    column: str = "word"
    tape: str | None = None


def save(model: Written, path: str | os.PathLike[str]) -> None:
    """Write a model: one line a violation.

    Raises
    ------
    OptionError
        A value that is a function has no name that could be written.
    """
    kind = _FIELDS if isinstance(model, Fields) else _CONSISTENCY
    head = {"format": kind, "version": _VERSION, "column": model.column}
    if model.tape is not None:
        head["tape"] = model.tape
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = [json.dumps(msgspec.to_builtins(_row(v)), ensure_ascii=False) for v in model.violations]
    text = "{\n" + "\n".join(lines) + '\n "violations": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"
    with atomic_write(path) as file:
        file.write(text.encode())


def _row(violation: Violation | Differing | Unlabelled) -> _Violation | _Field:
    if isinstance(violation, Violation):
        return _Violation(violation.relation, violation.types, violation.penalty, violation.count)
    if isinstance(violation, Unlabelled):
        return _Field("unlabelled", violation.type, violation.penalty)
    if not isinstance(violation.value, str):
        raise OptionError(
            f"the value of {violation.type!r} is a function, expected a name: it cannot be saved"
        )
    return _Field("differing", violation.type, violation.penalty, violation.value)


def load(path: str | os.PathLike[str]) -> Consistency | Fields:
    """Read a model.

    Raises
    ------
    ModelFileError
        It is no such file, or is wrong.
    OSError
        It cannot be read.
    """
    data = Path(path).read_bytes()
    try:
        return _model(data)
    except (msgspec.DecodeError, FstcrfError) as error:
        raise ModelFileError(f"{os.fspath(path)}: no model of violations: {error}") from None


def load_kind(path: str | os.PathLike[str], kind: type[_Kind]) -> _Kind:
    """Read a model that must be of a kind; errors as for `load`."""
    found = load(path)
    if not isinstance(found, kind):
        raise ModelFileError(
            f"{os.fspath(path)}: a model of type {type(found).__name__}, expected {kind.__name__}"
        )
    return found


def _model(data: bytes) -> Consistency | Fields:
    head = msgspec.json.decode(data, type=_Head)
    if head.format not in {_CONSISTENCY, _FIELDS} or head.version != _VERSION:
        raise ModelFileError(
            f"{head.format!r}, version {head.version}, expected {_CONSISTENCY!r} or {_FIELDS!r}, "
            f"version {_VERSION}"
        )
    found = msgspec.json.decode(data, type=_File)
    if head.format == _FIELDS:
        fields = [_field(v) for v in msgspec.convert(found.violations, list[_Field])]
        return Fields(fields, found.column, found.tape)
    rows = msgspec.convert(found.violations, list[_Violation])
    violations = [Violation(v.relation, v.types, v.penalty, v.count) for v in rows]
    return Consistency(violations, found.column, found.tape)


def _field(row: _Field) -> Differing | Unlabelled:
    if row.violation == "unlabelled":
        return Unlabelled(row.type, row.penalty)
    return Differing(row.type, "text" if row.value is None else row.value, row.penalty)
