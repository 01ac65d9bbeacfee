"""Text models of CRF++.

=========  ===================================================================
is_text    whether a file may be one
read_text  what it holds
=========  ===================================================================

Parts with a blank line between: ``name: value`` lines, labels, templates, attributes (the number of
the first weight, a blank, the text), and last the weights, each on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError
from fstcrf.interop.crfpp.contents import Contents
from fstcrf.interop.patterns import shown
from fstcrf.interop.sources import BOM

__all__ = ["is_text", "read_text"]

_MOST_COLUMNS = 1000
_PARTS = ("header", "labels", "templates", "attributes")
_COUNT = re.compile(rb"[0-9]{1,18}")
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def is_text(head: bytes) -> bool:
    """Tell whether a file that begins like this is a text model."""
    return head.removeprefix(BOM).startswith(b"version: ")


def read_text(data: bytes, where: str) -> Contents:
    """Read a text model.

    Parameters
    ----------
    data : bytes
        The whole file.
    where : str
        Its name, for messages.

    Raises
    ------
    ModelFileError
        Something is missing, or not what it must be; names the line.
    """
    lines = data.removeprefix(BOM).split(b"\n")
    if lines[0].endswith(b"\r"):
        lines = [line.removesuffix(b"\r") for line in lines]
    header, labels, templates, attributes, weights = _parts(lines, where)
    fields = _fields(lines[header], where)
    version = _count(fields, "version", where)
    if version // 100 != 1:
        raise ModelFileError(f"{where}:1: a model of version {version}, expected 100")
    factor = fields.get("cost-factor", b"1")
    if not _NUMBER.fullmatch(factor):
        raise ModelFileError(f"{where}: cost-factor is {shown(factor)}, expected a number")
    texts, first = _attributes(lines, attributes, where)
    values = _weights(lines, weights, where)
    if len(values) != _count(fields, "maxid", where):
        raise ModelFileError(
            f"{where}: {len(values)} weights, maxid is {_count(fields, 'maxid', where)}"
        )
    return Contents(
        labels=lines[labels],
        templates=lines[templates],
        attributes=texts,
        first=first,
        weights=values,
        cost_factor=float(factor),
        n_columns=_columns(fields, where),
        size=len(data),
    )


def _parts(lines: Sequence[bytes], where: str) -> list[slice]:
    """Return where the parts are."""
    parts: list[slice] = []
    begin = 0
    for name in _PARTS:
        try:
            end = lines.index(b"", begin)
        except ValueError:
            end = len(lines)
        if end >= len(lines) - 1:
            raise ModelFileError(f"{where}:{end}: the file ends in its {name}")
        parts.append(slice(begin, end))
        begin = end + 1
    if lines[-1]:  # half a number may be one, too
        raise ModelFileError(f"{where}:{len(lines)}: cut short: the last line has no end")
    return [*parts, slice(begin, len(lines) - 1)]


def _fields(lines: Sequence[bytes], where: str) -> dict[str, bytes]:
    fields: dict[str, bytes] = {}
    for number, line in enumerate(lines, start=1):
        name, colon, value = line.partition(b": ")
        if not colon:
            raise ModelFileError(f"{where}:{number}: {shown(line)}, expected 'name: value'")
        fields[name.decode("latin-1")] = value.strip()
    return fields


def _count(fields: dict[str, bytes], name: str, where: str) -> int:
    value = fields.get(name, b"")
    if not _COUNT.fullmatch(value):
        raise ModelFileError(f"{where}: {name} is {shown(value)}, expected a number")
    return int(value)


def _columns(fields: dict[str, bytes], where: str) -> int:
    count = _count(fields, "xsize", where)
    if count > _MOST_COLUMNS:
        raise ModelFileError(f"{where}: {count} columns, expected at most {_MOST_COLUMNS}")
    return count


def _attributes(
    lines: Sequence[bytes], part: slice, where: str
) -> tuple[list[bytes], NDArray[np.int64]]:
    texts: list[bytes] = []
    first: list[int] = []
    for number, line in enumerate(lines[part], start=part.start + 1):
        digits, blank, text = line.partition(b" ")
        if not (blank and text and _COUNT.fullmatch(digits)):
            raise ModelFileError(f"{where}:{number}: {shown(line)}, expected a number and a text")
        texts.append(text)
        first.append(int(digits))
    return texts, np.array(first, dtype=np.int64)


def _weights(lines: Sequence[bytes], part: slice, where: str) -> NDArray[np.float64]:
    try:
        return np.array(list(map(float, lines[part])), dtype=np.float64)
    except ValueError:
        for number, line in enumerate(lines[part], start=part.start + 1):
            if not _NUMBER.fullmatch(line):
                raise ModelFileError(
                    f"{where}:{number}: {shown(line)}, expected a weight"
                ) from None
        raise
