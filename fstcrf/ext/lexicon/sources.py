"""A lexicon as text, in the files that MeCab compiles: ``*.csv char.def unk.def matrix.def``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import DataError
from fstcrf.ext.lexicon.characters import Characters, Kind
from fstcrf.ext.lexicon.dictionary import Entry
from fstcrf.files import atomic_write, open_path
from fstcrf.text.lines import read_lines, text_fields, text_lines


def _lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Lines with something on them, numbered from 1."""
    try:
        with open_path(path) as file:
            text = file.read().decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not {encoding}: {error.reason}; name its encoding") from None
    for number, line in enumerate(text_lines(text), start=1):
        if line.strip(" \t"):
            yield number, line


def _numbers(path: Path, number: int, fields: Sequence[str], what: str) -> list[int]:
    try:
        return [int(field, 0) for field in fields]
    except ValueError:
        found = " ".join(fields)
        raise DataError(f"{path}, line {number}: {found!r}, expected {what}") from None


def read_entries(path: Path, encoding: str = "utf-8") -> list[Entry]:
    """Return the words of a file of lines ``surface,left,right,cost,feature``."""
    found = []
    for number, line in _lines(path, encoding):
        surface, rest = _surface(line)
        fields = rest.split(",", 3)
        if not surface or len(fields) < 3:
            raise DataError(
                f"{path}, line {number}: {line[:40]!r}, expected surface,left,right,cost,feature"
            )
        left, right, cost = _numbers(path, number, fields[:3], "numbers of contexts and a cost")
        if min(left, right) < 0:
            raise DataError(
                f"{path}, line {number}: {surface!r} has no contexts: write the numbers "
                "of left-id.def and right-id.def"
            )
        found.append(Entry(surface, left, right, cost, fields[3] if len(fields) > 3 else ""))
    return found


def _surface(line: str) -> tuple[str, str]:
    """Return the first field, quoted or not, and the text after its comma."""
    if not line.startswith('"'):
        surface, _, rest = line.partition(",")
        return surface, rest
    surface = next(csv.reader([line]))[0]
    return surface, line[len(surface) + surface.count('"') + 3 :]


def write_entries(path: Path, entries: Iterable[Entry]) -> None:
    """Write words as `read_entries` reads them."""
    with atomic_write(path) as file:
        for one in entries:
            surface = one.surface
            if set(surface) & {",", '"'} or surface != surface.strip():
                surface = '"' + surface.replace('"', '""') + '"'
            line = f"{surface},{one.left},{one.right},{one.cost},{one.feature}\n"
            file.write(line.encode())


def read_matrix(path: Path) -> NDArray[np.int16]:
    """Return the costs of neighbours, int16 [left contexts, right contexts].

    The first line has the numbers of right contexts (of the previous word) and left contexts (of
    the next word); each other line has one context of each kind and their cost.
    """
    with open_path(path) as file:
        lines = read_lines(file, str(path))
        sizes = _numbers(path, 1, text_fields(next(lines, "")), "two sizes")
        if len(sizes) != 2 or not all(0 < n <= 1 << 16 for n in sizes):
            raise DataError(f"{path}, line 1: expected two sizes from 1 to 65536")
        try:
            rows = np.loadtxt(lines, dtype=np.int64, ndmin=2, comments=None)
        except ValueError as error:
            raise DataError(f"{path}: expected lines of three numbers: {error}") from None
    rights, lefts = sizes
    if rows.size and (rows.shape[1] != 3 or (rows[:, :2] < 0).any()):
        raise DataError(f"{path}: expected lines of two contexts and a cost")
    if not rows.size:
        return np.zeros((lefts, rights), dtype=np.int16)
    outside = np.flatnonzero((rows[:, 0] >= rights) | (rows[:, 1] >= lefts))
    if len(outside):
        right, left = rows[outside[0], :2].tolist()
        raise DataError(
            f"{path}, line {outside[0] + 2}: the contexts {right} and {left} are out of "
            f"range: the first line announces {rights} and {lefts} contexts"
        )
    if np.abs(rows[:, 2] + 0.5).max() > 2**15:
        raise DataError(f"{path}: a cost beyond -32768 to 32767")
    matrix = np.zeros((lefts, rights), dtype=np.int16)
    matrix[rows[:, 1], rows[:, 0]] = rows[:, 2]
    return matrix


def write_matrix(path: Path, matrix: NDArray[np.int16]) -> None:
    """Write the costs of neighbours as `read_matrix` reads them."""
    lefts, rights = matrix.shape
    with atomic_write(path) as file:
        file.write(f"{rights} {lefts}\n".encode())
        left = np.arange(lefts)
        for right in range(rights):
            rows = np.stack([np.full(lefts, right), left, matrix[:, right]], axis=1)
            text = io.StringIO()
            np.savetxt(text, rows, fmt="%d")
            file.write(text.getvalue().encode())


def read_characters(path: Path, encoding: str = "utf-8") -> Characters:
    """Return kinds of characters: lines ``NAME always runs length``, ``0x30A1..0x30FF NAME``."""
    kinds: dict[str, Kind] = {}
    ranges: list[tuple[int, int, list[str]]] = []
    for number, line in _lines(path, encoding):
        fields = text_fields(line.split("#", 1)[0])
        if not fields:
            continue
        if fields[0].lower().startswith("0x"):
            first, _, last = fields[0].partition("..")
            codes = _numbers(path, number, [first, last or first], "a range of code points")
            ranges.append((codes[0], codes[1], fields[1:]))
        elif len(fields) == 4:
            always, runs, length = _numbers(path, number, fields[1:], "three numbers")
            kinds[fields[0]] = Kind(bool(always), bool(runs), length)
        else:
            raise DataError(f"{path}, line {number}: {line!r}, expected NAME always runs length")
    return Characters.of_kinds(kinds, ranges)


def write_characters(path: Path, characters: Characters) -> None:
    """Write kinds of characters as `read_characters` reads them."""
    with atomic_write(path) as file:
        for name, kind in characters.kinds.items():
            file.write(f"{name} {kind.always:d} {kind.runs:d} {kind.length}\n".encode())
        for first, last, names in characters.ranges():
            file.write(f"{first:#06x}..{last:#06x} {' '.join(names)}\n".encode())
