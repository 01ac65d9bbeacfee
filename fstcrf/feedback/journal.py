"""An append-only file of records that survives the death of its writer.

Each record is its length and CRC-32, four bytes each, little-endian, then its bytes. A record that
was being written when the process died is incomplete and at the end: it is cut off on opening.
Anything else that is wrong is damage, and refused.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, Self, get_args

from fstcrf.errors import ModelFileError, OptionError

__all__ = ["Journal", "Sync", "check_sync", "is_empty"]

Sync = Literal["always", "process"]

_HEAD = b"fstcrf-feedback-journal 1\n"
_FRAME = struct.Struct("<II")


def check_sync(sync: str) -> None:
    """Refuse what is no way of writing.

    Raises
    ------
    OptionError
        Another name.
    """
    if sync not in get_args(Sync):
        raise OptionError(f"sync is {sync!r}, expected one of {', '.join(get_args(Sync))}")


def is_empty(path: Path) -> bool:
    """Is there a journal without any record, whole or not."""
    return path.is_file() and path.stat().st_size <= len(_HEAD)


class Journal:
    """A file of records, open for appending.

    Parameters
    ----------
    path : Path
    sync : {"always", "process"}
        When a call returns, its records are on the disk, or with the operating system: they then
        survive the death of this process, but not that of the machine.
    new : bool
        Begin a file without records, on the disk; one of that name is lost.

    Raises
    ------
    OptionError
        Another `sync`.
    ModelFileError
        Another kind of file, or a damaged one.
    OSError
        The file cannot be opened or written.
    """

    def __init__(self, path: Path, sync: Sync = "always", *, new: bool = False) -> None:
        check_sync(sync)
        self.path, self.sync, self._size = path, sync, 0
        how = os.O_CREAT | os.O_TRUNC if new else 0
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | how, 0o644)
        try:
            if new:
                self._begin()
            else:
                self._recover()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing is lost by not doing so."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def records(self) -> Iterator[bytes]:
        """Yield the records that are there."""
        data = self.path.read_bytes()[: self._size]
        for start, end in _frames(data):
            yield data[start:end]

    def append(self, records: Sequence[bytes]) -> None:
        """Append records, all or none of them.

        Raises
        ------
        OSError
            They cannot be written: the disk is full. The file is as it was.
        """
        self._write(
            b"".join(_FRAME.pack(len(r), zlib.crc32(r)) + r for r in records),
            sync=self.sync == "always",
        )

    def _write(self, data: bytes, *, sync: bool) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            if sync:
                os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            error.filename = os.fspath(self.path)
            raise
        self._size += len(data)

    def _begin(self) -> None:
        self._write(_HEAD, sync=True)
        _sync_folder(self.path.parent)

    def _recover(self) -> None:
        """Find the end of the last whole record and cut off what is behind it."""
        data = self.path.read_bytes()
        if not data.startswith(_HEAD):
            raise ModelFileError(f"{self.path}: not a journal of feedback")
        self._size = len(_HEAD)
        for _, end in _frames(data):
            self._size = end
        if self._size < len(data):
            _check_torn(self.path, data, self._size)
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)


def _frames(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each record begins and ends, up to the first that is not whole."""
    start = len(_HEAD) + _FRAME.size
    while start <= len(data):
        length, checksum = _FRAME.unpack_from(data, start - _FRAME.size)
        end = start + length
        if not length or end > len(data) or zlib.crc32(data[start:end]) != checksum:
            return
        yield start, end
        start = end + _FRAME.size


def _check_torn(path: Path, data: bytes, at: int) -> None:
    """Refuse a file that goes on behind a record that is not whole.

    A record cut short reaches the end of the file; where a machine died, the file may have grown
    without its bytes, which are zeros then.
    """
    rest = data[at:]
    whole = _FRAME.unpack_from(rest)[0] + _FRAME.size if len(rest) >= _FRAME.size else len(rest)
    if whole < len(rest) and rest.strip(b"\0"):
        raise ModelFileError(
            f"{path}: damaged at byte {at}: a record does not match its checksum, and more follow; "
            "restore the file from a copy"
        )


def _sync_folder(folder: Path) -> None:
    # The name of a new file lives in its folder.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
