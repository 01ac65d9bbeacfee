"""Named arrays and metadata in one safetensors file, checked when it is read.

The metadata of the file has ``format`` (the kind of the file), ``version`` and ``crc32`` over all
arrays and all other metadata, which detects a damaged or half-copied file (ITU-T V.42, as in gzip:
every change within 32 bits, and all but one in 2³² of others). A file of an earlier version has
``sha256`` instead, which takes three to twenty times as long: a checksum protects from accidents,
not from forgers, who can write it as well. The header is read and written here rather than by the
safetensors package, which copies every array and gives other bytes for the same contents.
"""

from __future__ import annotations

import mmap
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import FstcrfError, ModelFileError
from fstcrf.files import atomic_write, path_name
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    import hashlib
else:  # only files of earlier versions need it
    hashlib = LazyModule("hashlib")

__all__ = [
    "HEAD",
    "PRODUCT",
    "SEGMENTS",
    "WORDS",
    "file_kind",
    "is_native",
    "read_arrays",
    "read_head",
    "write_arrays",
]

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MAX_HEADER = 100_000_000

VERSION = 1
"""Format name of tagger files."""
HEAD = 64
"""Number of bytes that identify a format."""
MAPPED_FROM = 64_000_000
"""Bytes from which a file is mapped rather than read, unless its reader chooses."""
PRODUCT = "fstcrf-product"
"""Format name of composed taggers of several kinds, like `SEGMENTS`."""
WORDS = "fstcrf-word-tagger"
"""Format name of lexicon words as a tagger of characters, like `SEGMENTS`."""
SEGMENTS = "fstcrf-segments"
"""Format name of segment taggers, recognised without importing their package."""


class _Tensor(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def write_arrays(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[np.generic]],
    metadata: Mapping[str, str],
    *,
    kind: str,
    version: int,
) -> None:
    """Write arrays and metadata; the file appears complete or not at all.

    Parameters
    ----------
    path : path
    arrays : mapping of str to array
        Of the types float64, float32, (u)int64, (u)int32, uint16 and uint8.
    metadata : mapping of str to str
    kind : str
        Kind of the file, checked by `read_arrays`.
    version : int
        Version of its format.

    Raises
    ------
    OSError
        The file cannot be written: disk full, no permission.
    """
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    fields = {**metadata, "format": kind, "version": str(version)}
    fields["crc32"] = _crc32(_covered(contiguous, fields))
    # Wide types first, so that every array is aligned to its item size.
    order = sorted(contiguous, key=lambda name: (-contiguous[name].itemsize, name))
    with atomic_write(path) as file:
        file.write(_encoded_header({name: contiguous[name] for name in order}, fields))
        for name in order:
            file.write(contiguous[name].data if contiguous[name].size else b"")


@contextmanager
def sound(name: str, what: str) -> Iterator[None]:
    """Turn decoding errors of the block into an error that the file is not a sound `what`."""
    try:
        yield
    except KeyError as error:
        raise ModelFileError(f"{name}: not a sound {what}: no {error}") from None
    except (msgspec.DecodeError, FstcrfError) as error:
        raise ModelFileError(f"{name}: not a sound {what}: {error}") from None


def group(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays with a prefix, by the rest of their names."""
    return {k.removeprefix(prefix): array for k, array in arrays.items() if k.startswith(prefix)}


def read_arrays(
    path: str | os.PathLike[str], *, kind: str, version: int, mapped: bool | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read or map a file that `write_arrays` wrote.

    Parameters
    ----------
    path : path
    kind, version : str, int
        Expected kind and version.
    mapped : bool, optional
        Map the file: processes share its pages, and it must not be changed in place while it is
        used (`write_arrays` never does that: it replaces the file). Otherwise it is read, and the
        checked bytes are the used bytes, even if the file changes. By default files are mapped from
        `MAPPED_FROM` bytes on.

    Returns
    -------
    arrays : dict of str to array
        Read-only.
    metadata : dict of str to str

    Raises
    ------
    ModelFileError
        The file has another format, a newer version, or is damaged.
    OSError
        The file cannot be opened.
    """
    name = path_name(path)
    data, tensors, metadata, start = _opened(name, mapped=mapped)
    if metadata.get("format") != kind:
        actual = metadata.get("format", "another program's file")
        raise ModelFileError(f"{name}: holds {actual!r}, expected {kind!r}")
    if metadata.get("version") != str(version):
        raise ModelFileError(
            f"{name}: format version {metadata.get('version')!r}, this fstcrf reads {version}"
        )
    _check_tiled(name, tensors, len(data) - start)
    arrays = {key: _array(name, key, tensor, data, start) for key, tensor in tensors.items()}
    if not _is_whole(arrays, metadata):
        raise ModelFileError(f"{name}: damaged: its contents do not match their checksum")
    return arrays, metadata


def is_native(head: bytes) -> bool:
    """Return whether a file with these first `HEAD` bytes has fstcrf's own format."""
    return head[8:10] == b'{"'


def file_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind of a file that `write_arrays` wrote.

    Raises
    ------
    ModelFileError
        The file has another format.
    OSError
        The file cannot be opened.
    """
    _, _, metadata, _ = _opened(path_name(path), mapped=True)
    return metadata.get("format", "another program's file")


def check_no_pipe(path: str | os.PathLike[str]) -> None:
    """Refuse a pipe: a file's beginning is read first, then the file is read or mapped."""
    name = path_name(path)
    if stat.S_ISFIFO(os.stat(name).st_mode):  # noqa: PTH116 (the path may be any str)
        raise ModelFileError(f"{name}: a pipe, expected a file: write it to one first")


def read_head(path: str | os.PathLike[str]) -> bytes:
    """Return the first `HEAD` bytes of a model's file, by which its format is known."""
    check_no_pipe(path)
    with open(path, "rb") as file:  # noqa: PTH123 (the path may be any str)
        return file.read(HEAD)


def _opened(
    name: str, *, mapped: bool | None
) -> tuple[memoryview, dict[str, _Tensor], dict[str, str], int]:
    """Read or map a file; return it, its arrays, its metadata, and the start of the arrays."""
    check_no_pipe(name)
    with open(name, "rb") as file:  # noqa: PTH123 (the path may be any str)
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise ModelFileError(f"{name}: not an fstcrf file: {size} bytes")
        if size >= MAPPED_FROM if mapped is None else mapped:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        else:
            buffer = np.empty(size, dtype=np.uint8)
            data = buffer.data[: file.readinto(buffer.data)].toreadonly()
    return data, *_header(name, data)


def _encoded_header(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return length and header. The safetensors package orders metadata anew in every run."""
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype = _NAMES[array.dtype]
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": (begin, end)}
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _header(name: str, data: memoryview) -> tuple[dict[str, _Tensor], dict[str, str], int]:
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(_MAX_HEADER, len(data) - 8):
        raise ModelFileError(f"{name}: not an fstcrf file, or cut short")
    try:
        raw = msgspec.json.decode(data[8 : 8 + length], type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(raw.pop("__metadata__", b"{}"), type=dict[str, str])
        tensors = {key: msgspec.json.decode(value, type=_Tensor) for key, value in raw.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelFileError(f"{name}: not an fstcrf file, or damaged: {error}") from None
    return tensors, metadata, 8 + length


def _check_tiled(name: str, tensors: Mapping[str, _Tensor], size: int) -> None:
    """Refuse arrays that share bytes (a small file could cause much work), and unused bytes."""
    places = sorted((tensor.data_offsets, key) for key, tensor in tensors.items())
    end = 0
    for (begin, after), key in places:
        if begin < end and begin < after:
            raise ModelFileError(f"{name}: array {key!r} shares bytes with another one: damaged")
        if begin > end:
            break
        end = max(end, after)
    if end < size:
        raise ModelFileError(f"{name}: holds bytes that belong to no array: damaged")


def _array(name: str, key: str, tensor: _Tensor, data: memoryview, start: int) -> NDArray[Any]:
    begin, end = tensor.data_offsets
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None or any(n < 0 for n in tensor.shape):
        raise ModelFileError(f"{name}: array {key!r} has an unknown type or shape")
    count = 1
    for n in tensor.shape:
        count *= n
    if not (0 <= begin <= end <= len(data) - start and end - begin == count * dtype.itemsize):
        raise ModelFileError(f"{name}: array {key!r} does not fit the file: cut short or damaged")
    flat = np.frombuffer(data, dtype=dtype, count=count, offset=start + begin)
    try:
        return flat.reshape(tensor.shape)
    except (ValueError, OverflowError):  # too many dimensions, or impossible sizes next to a zero
        raise ModelFileError(f"{name}: array {key!r} has an impossible shape") from None


def _is_whole(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bool:
    """Return whether arrays and metadata match the checksum in the metadata."""
    for name, checksum in _CHECKSUMS.items():
        if name in metadata:
            rest = {key: text for key, text in metadata.items() if key != name}
            return checksum(_covered(arrays, rest)) == metadata[name]
    return False


def _covered(
    arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """Yield the bytes that a checksum covers."""
    for key in sorted(metadata):
        yield f"{key}\0{metadata[key]}\0".encode()
    for key in sorted(arrays):
        array = arrays[key]
        yield f"{key}\0{array.dtype.str}\0{array.shape}\0".encode()
        yield array.data if array.size else b""


def _crc32(parts: Iterator[bytes | memoryview]) -> str:
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return f"{value:08x}"


def _sha256(parts: Iterator[bytes | memoryview]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


_CHECKSUMS: dict[str, Callable[[Iterator[bytes | memoryview]], str]] = {
    "crc32": _crc32,
    "sha256": _sha256,
}
