"""Lines of text files: one reader for all formats of the package.

Line feed, CR LF and CR end a line; tabs and blanks separate fields. A byte order mark is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from fstcrf.errors import DataError
from fstcrf.files import BOM, open_path, path_name

if TYPE_CHECKING:
    import io

LINE_BYTES = 1 << 26
"""Longest line: real ones are far shorter, but a small compressed file may unpack to gigabytes."""

CHUNK_BYTES = 1 << 16
"""Bytes of one read."""

_Text = TypeVar("_Text", str, bytes)


def too_long(path: str, line: int | None) -> DataError:
    """Return the error for a line that is too long."""
    return DataError(
        f"more than {LINE_BYTES >> 20} MB without the end of a line, expected text",
        path=path,
        line=line,
    )


def text_chunks(read: Callable[[int], bytes], path: str = "<input>") -> Iterator[bytes]:
    r"""Yield a text in pieces, without byte order mark, with lines that end in a line feed.

    A line feed, CR LF, or CR ends a line, in every text format of the package; no other character
    does.

    Parameters
    ----------
    read : function
        `read` or `read1` of a binary file.
    path : str
        Name of the file in messages.

    Raises
    ------
    DataError
        A line that is too long.

    Examples
    --------
    >>> import io
    >>> list(text_chunks(io.BytesIO(b"\xef\xbb\xbfa\r\nb\rc").read))
    [b'a\nb\nc']
    """
    started, line, length = False, 1, 0
    while chunk := read(CHUNK_BYTES):
        while not started and len(chunk) < len(BOM) and BOM.startswith(chunk):
            if not (more := read(len(BOM) - len(chunk))):
                break
            chunk += more
        while chunk.endswith(b"\r") and (more := read(1)):  # perhaps followed by LF
            chunk += more
        data = chunk if started else chunk.removeprefix(BOM)
        started = True
        data = unix_lines(data) if b"\r" in data else data
        line += data.count(b"\n")
        length = len(data) - data.rfind(b"\n") - 1 + (0 if b"\n" in data else length)
        if length > LINE_BYTES:
            raise too_long(path, line)
        yield data


def unix_lines(text: _Text) -> _Text:
    """Return a text whose lines end in line feeds."""
    if isinstance(text, bytes):
        return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_lines(file: BinaryIO, path: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without their ends; see `text_chunks`.

    Parameters
    ----------
    file : binary file
        The file, from `open_binary`.
    path : str
        Name of the file in messages.

    Raises
    ------
    DataError
        A line that is too long, or a byte that is not UTF-8; names the line.
    """
    for number, line in enumerate(_byte_lines(file, path), 1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            yield decoded(line, path, first_line=number)  # raises the error with its position


def _byte_lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    held: list[bytes] = []
    for chunk in text_chunks(cast("io.BufferedReader", file).read1, path):
        first, *others = chunk.split(b"\n")
        held.append(first)
        if others:
            yield b"".join(held)
            yield from others[:-1]
            held = [others[-1]]
    if last := b"".join(held):
        yield last


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a UTF-8 file, with line feeds as line ends, without byte order mark.

    Gzip is unpacked.

    Raises
    ------
    DataError
        As `open_binary` and `read_lines`.
    OSError
        The file cannot be read.
    """
    name = path_name(path)
    with open_path(path) as file:
        return decoded(b"".join(text_chunks(file.read, name)), name)


def text_lines(text: str) -> list[str]:
    r"""Return the lines of a text without their ends; see `text_chunks`.

    >>> text_lines("\ufeffa\r\nb\x85\u2028\rc\n")
    ['a', 'b\x85\u2028', 'c']
    """
    lines = unix_lines(text.removeprefix("\ufeff")).split("\n")
    return lines if lines[-1] else lines[:-1]


def text_fields(line: str) -> list[str]:
    r"""Return the fields of a line, which tabs and blanks separate.

    >>> text_fields("New\xa0York  \tB\u3000")
    ['New\xa0York', 'B\u3000']
    """
    return [field for field in line.replace("\t", " ").split(" ") if field]


def decoded(data: bytes, path: str, *, first_line: int = 1) -> str:
    """Decode UTF-8 without its byte order mark; `first_line` numbers the first line of `data`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from the end of the mark.
        start = error.start + (len(BOM) if data.startswith(BOM) else 0)
        raise DataError(
            f"byte 0x{data[start]:02x} is not UTF-8; convert the file to UTF-8",
            path=path,
            line=first_line + data.count(b"\n", 0, start),
        ) from None
