"""Files of arrays: exact, mapped, whole or not at all, and never trusted."""

from __future__ import annotations

import gzip
import hashlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from fstcrf.errors import ModelFileError
from fstcrf.storage import read_arrays, write_arrays

ARRAYS: dict[str, NDArray[Any]] = {
    "f64": np.asarray([0.1, -np.inf, np.nan, 5e-324]),
    "f32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "i64": np.asarray([-(2**63), 2**63 - 1]),
    "i32": np.asarray([[1], [-1]], dtype=np.int32),
    "u64": np.asarray([2**64 - 1], dtype=np.uint64),
    "u32": np.asarray([2**32 - 1], dtype=np.uint32),
    "u16": np.asarray([1, 2, 65535], dtype=np.uint16),
    "u8": np.asarray([7], dtype=np.uint8),
    "none": np.empty(0),
    "flat": np.empty((0, 3), dtype=np.int32),
}
NAME = r"arrays\.fstcrf"
METADATA = {"title": 'Bäume → \u0000 "quoted" \\', "empty": ""}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "arrays.fstcrf"
    write_arrays(file, ARRAYS, METADATA, kind="test", version=3)
    return file


def read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    return read_arrays(path, kind="test", version=3)


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and arrays of a file."""
    length = int.from_bytes(data[:8], "little")
    return msgspec.json.decode(data[8 : 8 + length]), data[8 + length :]


def joined(header: Any, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else msgspec.json.encode(header)
    return len(text).to_bytes(8, "little") + text + body


def test_what_is_written_is_read(path: Path) -> None:
    arrays, metadata = read(path)
    assert arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        assert array.dtype == ARRAYS[name].dtype
        assert array.shape == ARRAYS[name].shape
        assert array.tobytes() == ARRAYS[name].tobytes()
    assert {name: metadata[name] for name in METADATA} == METADATA


def test_arrays_are_mapped_read_only_and_aligned(path: Path) -> None:
    arrays, _ = read(path)
    for array in arrays.values():
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert array.ctypes.data % array.itemsize == 0 or not array.size
    with pytest.raises(ValueError, match="read-only"):
        arrays["f64"][0] = 1.0


def test_the_safetensors_package_reads_and_writes_the_same(path: Path, tmp_path: Path) -> None:
    arrays = load_file(path)
    assert arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        assert array.tobytes() == ARRAYS[name].tobytes()
    again = tmp_path / "again"
    save_file(arrays, again, metadata=read(path)[1])
    assert read(again)[0]["f32"].tolist() == ARRAYS["f32"].tolist()


def test_equal_contents_give_equal_bytes(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    turned = {name: ARRAYS[name] for name in reversed(ARRAYS)}
    metadata = {name: METADATA[name] for name in reversed(METADATA)}
    write_arrays(other, turned, metadata, kind="test", version=3)
    assert other.read_bytes() == path.read_bytes()


def test_arrays_need_not_be_contiguous(tmp_path: Path) -> None:
    array = np.arange(12.0).reshape(3, 4)
    write_arrays(tmp_path / "a", {"t": array.T, "s": array[:, ::2]}, {}, kind="test", version=3)
    arrays, _ = read(tmp_path / "a")
    assert np.array_equal(arrays["t"], array.T)
    assert np.array_equal(arrays["s"], array[:, ::2])


def test_a_file_that_was_read_may_be_changed_in_place(path: Path) -> None:
    """What was checked is what is used; a mapped file would end the process or change its mind."""
    arrays, _ = read(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\x7f" * size)
        file.truncate(8)
    assert arrays["f32"].tolist() == ARRAYS["f32"].tolist()
    assert not arrays["f32"].flags.writeable


def test_large_files_are_mapped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mapped(chosen: bool | None) -> bool:
        arrays, _ = read_arrays(path, kind="test", version=3, mapped=chosen)
        base: Any = arrays["f32"]
        while not isinstance(base, mmap.mmap | memoryview):
            base = base.base
        return isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)

    assert [mapped(None), mapped(True), mapped(False)] == [False, True, False]
    monkeypatch.setattr("fstcrf.storage.MAPPED_FROM", path.stat().st_size)
    assert [mapped(None), mapped(True), mapped(False)] == [True, True, False]


def test_arrays_do_not_share_bytes(path: Path) -> None:
    """A hundred arrays over the same bytes would take a hundred times as long to check."""
    header, body = split(path.read_bytes())
    for k in range(100):
        header[f"more{k}"] = header["f32"]
    path.write_bytes(joined(header, body))
    with pytest.raises(ModelFileError, match=r"array '\w+' shares bytes with another one"):
        read(path)


def test_a_file_may_be_replaced_while_it_is_mapped(path: Path) -> None:
    arrays, _ = read_arrays(path, kind="test", version=3, mapped=True)
    write_arrays(path, {"f32": np.zeros(3)}, {}, kind="test", version=3)
    assert arrays["f32"].tolist() == ARRAYS["f32"].tolist()
    assert read(path)[0]["f32"].tolist() == [0.0, 0.0, 0.0]


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        b"not a model at all, but a text",
        b"\x00" * 100,
        b"\xff" * 100,
        b"PK\x03\x04" + b"\x00" * 60,
        (2).to_bytes(8, "little") + b"{}",
        (2**63).to_bytes(8, "little") + b"{}" * 50,
        joined(b"[]", b""),
        joined(b'{"a":1}', b""),
        joined(b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}', b"12345678"),
        joined(b"\xff\xfe{}", b""),
        joined(b'{"__metadata__":[1]}', b""),
        joined(b'{"__metadata__":{"format":1}}', b""),
        joined(b'{"__metadata__":{"format":"test","version":"3","sha256":"\\ud800"}}', b""),
        joined(b'{"__metadata__":{"format":"test","version":"3","x":"\\udfff"}}', b""),
        joined(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", b""),
    ],
)
def test_foreign_files(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=str(path)):
        read(path)


def test_another_kind_and_another_version(path: Path) -> None:
    with pytest.raises(ModelFileError, match="holds 'test', expected 'model'"):
        read_arrays(path, kind="model", version=3)
    for version in (2, 4):
        with pytest.raises(ModelFileError, match=f"version '3', this fstcrf reads {version}"):
            read_arrays(path, kind="test", version=version)


def test_every_cut(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match=NAME):
            read(path)


def test_every_byte_counts(path: Path) -> None:
    """A changed bit is noticed, unless it changes nothing that is read."""
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=NAME):
            read(path)


def earlier(data: bytes) -> bytes:
    """The same file as an earlier version wrote it: a SHA-256 in the place of the CRC-32."""
    header, body = split(data)
    metadata = header["__metadata__"]
    del metadata["crc32"]
    digest = hashlib.sha256()
    for key in sorted(metadata):
        digest.update(f"{key}\0{metadata[key]}\0".encode())
    for key in sorted(set(header) - {"__metadata__"}):
        begin, end = header[key]["data_offsets"]
        digest.update(f"{key}\0{ARRAYS[key].dtype.str}\0{ARRAYS[key].shape}\0".encode())
        digest.update(body[begin:end])
    metadata["sha256"] = digest.hexdigest()
    return joined(header, body)


def test_earlier_files_have_another_checksum(path: Path) -> None:
    metadata = read(path)[1]
    old = earlier(path.read_bytes())
    path.write_bytes(old)
    again, fields = read(path)
    assert fields.keys() ^ metadata.keys() == {"crc32", "sha256"}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(again[name], array)
    rng = np.random.default_rng(1)
    for position in range(0, len(old), 7):
        damaged = bytearray(old)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=NAME):
            read(path)


def test_the_checksum_is_that_of_gzip(path: Path) -> None:
    header, body = split(path.read_bytes())
    metadata = header["__metadata__"]
    parts = [f"{key}\0{metadata[key]}\0".encode() for key in sorted(set(metadata) - {"crc32"})]
    for key in sorted(ARRAYS):
        begin, end = header[key]["data_offsets"]
        parts += [f"{key}\0{ARRAYS[key].dtype.str}\0{ARRAYS[key].shape}\0".encode()]
        parts += [body[begin:end]]
    packed = gzip.compress(b"".join(parts))
    assert metadata["crc32"] == f"{int.from_bytes(packed[-8:-4], 'little'):08x}"


def test_bytes_of_no_array_are_refused(path: Path) -> None:
    whole = path.read_bytes()
    for data in (whole + b"\0", whole + b"more"):
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match="holds bytes that belong to no array: damaged"):
            read(path)
    write_arrays(path, {}, {}, kind="test", version=3)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ModelFileError, match="belong to no array"):
        read(path)


HUGE = (2**31, 2**62, 2**63, 2**64, 10**30)


@pytest.mark.parametrize("value", [-1, -8, *HUGE, 1.5, "8", None, [], {}])
def test_every_field_of_the_header(value: object, path: Path) -> None:
    header, body = split(path.read_bytes())
    for name, array in ARRAYS.items():
        for field, place in (("shape", 0), ("data_offsets", 0), ("data_offsets", 1)):
            changed = msgspec.json.decode(msgspec.json.encode(header))
            changed[name][field][place] = value
            path.write_bytes(joined(changed, body))
            with pytest.raises(ModelFileError, match=NAME):
                read(path)
        for field in ("shape", "data_offsets", "dtype"):
            changed = msgspec.json.decode(msgspec.json.encode(header))
            changed[name][field] = value
            path.write_bytes(joined(changed, body))
            if not (value == [] and field == "shape" and array.shape == ()):
                with pytest.raises(ModelFileError, match=NAME):
                    read(path)


@pytest.mark.parametrize(
    "shape", [[0, 2**62, 2**62], [2**62, 2**62, 0], [0, 2**70], [0] * 100, [1] * 100]
)
def test_shapes_that_numpy_cannot_have(shape: list[int], path: Path) -> None:
    header, body = split(path.read_bytes())
    name = "none" if 0 in shape else "u8"
    header[name]["shape"] = shape
    path.write_bytes(joined(header, body))
    with pytest.raises(ModelFileError, match=NAME):
        read(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.pop("f32"),
        lambda h: h.update(extra=h["f32"]),
        lambda h: h["__metadata__"].pop("title"),
        lambda h: h["__metadata__"].update(title="other"),
        lambda h: h["__metadata__"].update(extra=""),
        lambda h: h["__metadata__"].pop("crc32"),
        lambda h: h["__metadata__"].pop("version"),
        lambda h: h["__metadata__"].pop("format"),
        lambda h: h.pop("__metadata__"),
        lambda h: h["f64"].update(dtype="I64"),
        lambda h: h["f64"].update(dtype="F8"),
        lambda h: h["f32"].update(shape=[3, 2]),
        lambda h: h["i64"].update(data_offsets=h["f64"]["data_offsets"], shape=[4]),
    ],
)
def test_a_header_that_says_something_else(change: Callable[[Any], object], path: Path) -> None:
    header, body = split(path.read_bytes())
    change(header)
    path.write_bytes(joined(header, body))
    with pytest.raises(ModelFileError, match=NAME):
        read(path)


@given(st.binary(max_size=300))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    with pytest.raises(ModelFileError):
        read(path)


# --- Writing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), r"No space left on device: '.*arrays\.fstcrf'"),
        (KeyboardInterrupt(), None),
    ],
)
def test_what_fails_leaves_the_old_file(
    path: Path, error: BaseException, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_descriptor: int) -> None:
        raise error

    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(type(error), match=message):
            write_arrays(path, {"x": np.zeros(10)}, {}, kind="test", version=3)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_arrays(tmp_path / "nowhere" / "a", {}, {}, kind="test", version=3)
