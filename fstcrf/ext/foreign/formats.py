"""The description of a file format for taggers, and the sources of such files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from fstcrf.errors import ModelFileError, OptionError
from fstcrf.files import path_name

if TYPE_CHECKING:
    from fstcrf.taggers import CRF

ModelSource: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO"

_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}


def read_source(source: ModelSource, where: str | None = None) -> tuple[bytes, str]:
    """Return the bytes of a model and its name in messages."""
    if isinstance(source, bytes | bytearray | memoryview):
        data, name = bytes(source), "<bytes>"
    elif isinstance(source, str | os.PathLike):
        name = path_name(source)
        data = Path(name).read_bytes()
    elif hasattr(source, "read"):
        data, name = source.read(), str(getattr(source, "name", "<file>"))
    else:
        data, name = None, ""
    if not isinstance(data, bytes):
        expected = "a path, bytes, or a file opened with mode 'rb'"
        raise OptionError(f"the model is {type(source).__name__}, expected {expected}")
    return unpacked(data, where or name), where or name


def unpacked(data: bytes, where: str) -> bytes:
    """Return bytes unchanged; ModelFileError for a compressed file."""
    for magic, kind in _COMPRESSED.items():
        if data.startswith(magic):
            raise ModelFileError(f"{where}: compressed by {kind}: decompress the model first")
    return data


TAPE = "label"
"""Name of the tape of a tagger that was read from a file without names."""


def check_tape(tape: str) -> None:
    """Check the name of a tape."""
    if not tape:
        raise OptionError("the name of the tape is empty, expected one such as 'label'")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Properties of a tagger that its file omits."""

    where: str  # name of the file, for messages; if empty, the name of the source
    tape: str = TAPE  # output tape of the tagger
    # Names of the columns that it reads, if it reads columns.
    columns: Sequence[str] | None = None
    encoding: str | None = None  # of the texts in the file, if the format does not define it


def text_encoding(options: ReadOptions) -> str:
    """Return the encoding of the texts in a file; UTF-8 by default."""
    encoding = options.encoding or "utf-8"
    try:
        "".encode(encoding)
    except LookupError:
        raise OptionError(f"encoding is {encoding!r}, expected one such as 'utf-8'") from None
    return encoding


def load_from(
    source: ModelSource, read: Callable[[bytes, ReadOptions], CRF], options: ReadOptions
) -> CRF:
    """Return the tagger that `read` makes of the bytes of a source; errors as for `read_source`."""
    data, where = read_source(source, options.where)
    return read(data, replace(options, where=where))


@dataclass(frozen=True, slots=True)
class Format:
    """A file format that holds a tagger.

    Parameters
    ----------
    name : str
        As ``fstcrf convert --to`` has it.
    title : str
        For messages: ``"a CRFsuite model"``.
    recognises : callable
        The first `HEAD` bytes of a file (or all, if it is shorter) → whether it has this format.
    read : callable
        (all bytes of a file, `ReadOptions`) → tagger; raises `ModelFileError` on damage.
    suffix : str, optional
        Suffix of file names, from which ``fstcrf convert`` infers the format.
    write : callable, optional
        Tagger → all bytes of a file; raises `OptionError` if the format cannot represent it.
        `None` if the format can only be read.
    """

    name: str
    title: str
    recognises: Callable[[bytes], bool]
    read: Callable[[bytes, ReadOptions], CRF]
    suffix: str | None = None
    write: Callable[[CRF], bytes] | None = None
