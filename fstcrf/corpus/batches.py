"""A file as blocks of whole sentences, so that files larger than memory can be read.

============= ================================================================
Block         bytes that end at a blank line, and where they stand in the file
blocks        cut a binary file at blank lines
============= ================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from fstcrf.kernel.strings import line_count

__all__ = ["Block", "blocks"]

_CHUNK_BYTES = 1 << 16
_BOM = b"\xef\xbb\xbf"
# Everything up to and with the last line that holds nothing but blanks.
_LAST_BLANK = re.compile(rb".*\n[ \t\r]*\n", re.DOTALL)


class Block(NamedTuple):
    r"""Bytes of whole sentences.

    Attributes
    ----------
    data : bytes
        Lines that end in ``\n`` alone; no byte order mark.
    first_line : int
        Number of its first line in the file, from 1.
    """

    data: bytes
    first_line: int


def blocks(file: BinaryIO, lines: int) -> Iterator[Block]:
    """Cut a file at blank lines into blocks of about `lines` lines.

    A block is longer where the next blank line is further away. Memory is bounded by the
    longest block.

    Parameters
    ----------
    file : binary file
        Read to its end.
    lines : int
        Number of lines that a block should have.
    """
    pieces: list[bytes] = []
    held, wanted, first_line = 0, lines, 1
    started = False
    while chunk := file.read(_CHUNK_BYTES):
        pieces.append(chunk)
        held += line_count(chunk)
        if held < wanted:
            continue
        data = b"".join(pieces)
        cut = _last_boundary(data)
        if cut in {0, len(data)}:
            # More blank lines may follow; or one endless sentence: then look again when twice
            # as much is there, to stay linear.
            wanted = held if cut else 2 * held
            pieces = [data]
            continue
        block = _cleaned(data[:cut], started=started)
        yield Block(block, first_line)
        started = True
        first_line += line_count(block)
        pieces = [data[cut:]]
        held, wanted = line_count(pieces[0]), lines
    rest = _cleaned(b"".join(pieces), started=started)
    if rest:
        yield Block(rest if rest.endswith(b"\n") else rest.removesuffix(b"\r") + b"\n", first_line)


def _last_boundary(data: bytes) -> int:
    unix, windows = data.rfind(b"\n\n"), data.rfind(b"\n\r\n")
    if max(unix, windows) >= 0:
        return max(unix + 2 if unix >= 0 else 0, windows + 3 if windows >= 0 else 0)
    match = _LAST_BLANK.match(data)
    return match.end() if match else 0


def _cleaned(data: bytes, *, started: bool) -> bytes:
    if not started:
        data = data.removeprefix(_BOM)
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data
