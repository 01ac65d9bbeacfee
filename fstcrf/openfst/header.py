"""The beginning of a machine's bytes: a header, and the symbol tables that it announces.

Header: magic, type of machine, type of arcs, version, flags, properties, start, states, arcs.
Symbol table: magic, name, next free id, size, and each symbol with its id.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from fstcrf.errors import DataError

__all__ = ["ALIGNED", "Header", "Reader", "header_bytes", "table_bytes"]

ALIGNED = 4
_I_TABLE, _O_TABLE = 1, 2
_MAGIC, _TABLE_MAGIC = 2125659606, 2125658996
_NAME = "fstcrf"
_LONGEST_NAME = 256
_MOST_SYMBOLS = 1 << 21  # every character of Unicode is a symbol


class Header(NamedTuple):
    """What stands before the states.

    Parameters
    ----------
    fst_type : str
        ``"vector"`` or ``"const"``.
    arc_type : str
        ``"standard"``, ``"log"`` or ``"log64"``.
    version : int
    flags : int
        `ALIGNED`, and which symbol tables follow.
    properties : int
        Property bits.
    start : int
        −1: none.
    n_states, n_arcs : int
        −1: not known, up to the end (vector only).
    """

    fst_type: str
    arc_type: str
    version: int
    flags: int
    properties: int
    start: int
    n_states: int
    n_arcs: int


def header_bytes(
    header: Header, isymbols: tuple[str, ...] | None, osymbols: tuple[str, ...] | None
) -> bytes:
    """Return a header and the symbol tables behind it, which it announces."""
    flags = header.flags
    flags |= (_I_TABLE if isymbols is not None else 0) | (_O_TABLE if osymbols is not None else 0)
    parts = [struct.pack("<i", _MAGIC), _text(header.fst_type), _text(header.arc_type)]
    parts.append(struct.pack("<iiQqqq", header.version, flags, *header[4:]))
    parts += [table_bytes(table) for table in (isymbols, osymbols) if table is not None]
    return b"".join(parts)


def table_bytes(symbols: tuple[str, ...]) -> bytes:
    """Return a symbol table in which symbol k has the id k; an empty one is not there."""
    there = [(symbol, number) for number, symbol in enumerate(symbols) if symbol]
    head = struct.pack("<qq", len(symbols), len(there))
    parts = [struct.pack("<i", _TABLE_MAGIC), _text(_NAME), head]
    parts += [_text(symbol) + struct.pack("<q", number) for symbol, number in there]
    return b"".join(parts)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<i", len(encoded)) + encoded


class Reader:
    """Bytes of a machine, and how far they have been read.

    Parameters
    ----------
    data : bytes
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, size: int, what: str) -> bytes:
        """Return the next bytes.

        Raises
        ------
        DataError
            There are not as many.
        """
        end = self.place + size
        if size < 0 or end > len(self.data):
            raise DataError(
                f"OpenFst bytes end within {what}: {len(self.data)} bytes, {end} are needed"
            )
        piece, self.place = self.data[self.place : end], end
        return piece

    def numbers(self, form: str, what: str) -> tuple[int, ...]:
        """Return the next little-endian numbers; raises as `take`."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form), what))

    def text(self, what: str, longest: int | None = None) -> str:
        """Return the next string; raises as `take`, and where it is none."""
        (size,) = self.numbers("i", what)
        if size < 0 or (longest is not None and size > longest):
            raise DataError(f"OpenFst bytes: {what} has {size} bytes")
        try:
            return self.take(size, what).decode()
        except UnicodeDecodeError:
            raise DataError(f"OpenFst bytes: {what} is not UTF-8") from None

    def header(self) -> tuple[Header, tuple[str, ...] | None, tuple[str, ...] | None]:
        """Return the header and the symbols of both sides.

        Raises
        ------
        DataError
            Bytes of something else, or that end too early.
        """
        if self.numbers("i", "the header") != (_MAGIC,):
            raise DataError("not an OpenFst machine: it begins with other bytes")
        fst_type = self.text("the type of machine", _LONGEST_NAME)
        arc_type = self.text("the type of arcs", _LONGEST_NAME)
        header = Header(fst_type, arc_type, *self.numbers("iiQqqq", "the header"))
        isymbols, osymbols = (
            self._table() if header.flags & bit else None for bit in (_I_TABLE, _O_TABLE)
        )
        return header, isymbols, osymbols

    def _table(self) -> tuple[str, ...]:
        """Symbols of a table; ids that it does not have get an empty one."""
        if self.numbers("i", "a symbol table") != (_TABLE_MAGIC,):
            raise DataError("OpenFst bytes: a symbol table is announced but not there")
        self.text("the name of a symbol table")
        _, size = self.numbers("qq", "a symbol table")
        found: dict[int, str] = {}
        for _ in range(size):
            symbol = self.text("a symbol")
            (number,) = self.numbers("q", "a symbol table")
            if not 0 <= number < _MOST_SYMBOLS:
                raise DataError(
                    f"symbol {symbol!r} has the id {number}, expected 0 .. {_MOST_SYMBOLS - 1}"
                )
            found[number] = symbol
        return tuple(found.get(k, "") for k in range(max(found, default=-1) + 1))
