"""What a model of another program is read from.

===========  ============================================================
ModelSource  a path, bytes, or a binary file
read_source  its bytes, and its name for messages
unpacked     bytes that are no compressed file, or an error
BOM          the byte order mark that editors put before text
===========  ============================================================
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, TypeAlias

from fstcrf.errors import ModelFileError, OptionError

__all__ = ["BOM", "ModelSource", "read_source", "unpacked"]

ModelSource: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO"

BOM = b"\xef\xbb\xbf"
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}


def read_source(source: ModelSource, where: str | None = None) -> tuple[bytes, str]:
    """Return the bytes of a model and what messages call it.

    Parameters
    ----------
    source : path, bytes-like object or binary file
    where : str, optional
        What messages call it; its path, or ``"<bytes>"``, when absent.

    Raises
    ------
    ModelFileError
        It is compressed.
    OptionError
        It is none of these.
    OSError
        The file cannot be read.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        data, name = bytes(source), "<bytes>"
    elif isinstance(source, str | os.PathLike):
        data, name = Path(source).read_bytes(), os.fspath(source)
    elif hasattr(source, "read"):
        data, name = source.read(), str(getattr(source, "name", "<file>"))
    else:
        data, name = None, ""
    if not isinstance(data, bytes):
        expected = "a path, bytes, or a file opened with mode 'rb'"
        raise OptionError(f"the model is {type(source).__name__}, expected {expected}")
    return unpacked(data, where or name), where or name


def unpacked(data: bytes, where: str) -> bytes:
    """Return bytes that are no compressed file.

    Raises
    ------
    ModelFileError
        They are one: what is in it may be of any size.
    """
    for magic, kind in _COMPRESSED.items():
        if data.startswith(magic):
            raise ModelFileError(f"{where}: compressed by {kind}: decompress the model first")
    return data
