"""Consistency models as JSON that can be read and written by hand.

====  ==================
save  write a model
load  read a model
====  ==================
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec

from fstcrf.corpus import atomic_write
from fstcrf.documents.consistency import Consistency, Relation, Violation
from fstcrf.errors import FstcrfError, ModelFileError

__all__ = ["load", "save"]

_FORMAT, _VERSION = "fstcrf consistency", 1


class _Violation(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    relation: Relation
    types: tuple[str, str]
    penalty: float
    count: int | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    format: str
    version: int
    violations: list[_Violation]
    column: str = "word"
    tape: str | None = None


def save(model: Consistency, path: str | os.PathLike[str]) -> None:
    """Write a model: one line a violation."""
    head = {"format": _FORMAT, "version": _VERSION, "column": model.column}
    if model.tape is not None:
        head["tape"] = model.tape
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = [
        json.dumps(
            msgspec.to_builtins(_Violation(v.relation, v.types, v.penalty, v.count)),
            ensure_ascii=False,
        )
        for v in model.violations
    ]
    text = "{\n" + "\n".join(lines) + '\n "violations": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"
    with atomic_write(path) as file:
        file.write(text.encode())


def load(path: str | os.PathLike[str]) -> Consistency:
    """Read a model.

    Raises
    ------
    ModelFileError
        It is no such file, or is wrong.
    OSError
        It cannot be read.
    """
    try:
        found = msgspec.json.decode(Path(path).read_bytes(), type=_File)
    except msgspec.DecodeError as error:
        raise ModelFileError(f"{os.fspath(path)}: no consistency model: {error}") from None
    if (found.format, found.version) != (_FORMAT, _VERSION):
        raise ModelFileError(
            f"{os.fspath(path)}: {found.format!r}, version {found.version}, expected "
            f"{_FORMAT!r}, version {_VERSION}"
        )
    try:
        violations = [Violation(v.relation, v.types, v.penalty, v.count) for v in found.violations]
        return Consistency(violations, found.column, found.tape)
    except FstcrfError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
