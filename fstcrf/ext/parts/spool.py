"""Arrays in files that are mapped into memory: the system keeps as many pages as memory allows.

Files lose their name once they are mapped, so that no file remains after any end of the process.
Before arrays are used, a thread tells the system to read their file from its beginning, so that
disk and processor work in parallel: if memory is short, each page that is requested separately
costs one disk access.
"""

from __future__ import annotations

import math
import mmap
import os
import socket
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import DataError
from fstcrf.kernel import ShardAttributes, SparseRows
from fstcrf.training.problem import Problem

_ALIGNED = 64
_AHEAD = 1 << 17  # minimum bytes that a system reads at once on request


class Place(NamedTuple):
    """The place of an array in a file."""

    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def of(self, held: mmap.mmap | None) -> NDArray[Any]:
        """Return the array in the mapped file; `None` is for an empty file."""
        count = math.prod(self.shape)
        if held is None or not count:
            return np.empty(self.shape, self.dtype)
        return np.frombuffer(held, self.dtype, count, self.start).reshape(self.shape)


class ArrayFile:
    """A file without a name that arrays are written to, one after the other.

    Parameters
    ----------
    folder : str

    Raises
    ------
    DataError
        It cannot be written: the disk is full, the folder not there. Names the folder and the host.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        with self._blamed():
            self._file = tempfile.TemporaryFile(dir=folder, prefix="fstcrf-")  # noqa: SIM115
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, array: NDArray[Any]) -> Place:
        """Write an array; return its place."""
        start = self.size + -self.size % _ALIGNED
        self.append(np.zeros(start - self.size, dtype=np.uint8))
        self.append(array)
        return Place(start, array.dtype, array.shape)

    def append(self, array: NDArray[Any]) -> None:
        """Write an array directly after the last one."""
        with self._blamed():
            self._file.write(np.ascontiguousarray(array).data if array.size else b"")
        self.size += array.nbytes

    def mapped(self) -> mmap.mmap | None:
        """Return the written bytes, mapped; `None` if there are no bytes."""
        with self._blamed():
            self._file.flush()
            if not self.size:
                return None
            return mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)

    def again(self) -> int:
        """Return another descriptor of the file."""
        with self._blamed():
            return os.dup(self._file.fileno())

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"arrays cannot be kept there on {socket.gethostname()}: {error.strerror or error}",
                path=self._folder,
            ) from None


class _Mapped(NamedTuple):
    """A file in memory, and its descriptor, which is closed with the pages."""

    pages: mmap.mmap
    file: int


class Spool:
    """The mapped arrays of one part.

    Parameters
    ----------
    folder : str
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._files: list[_Mapped] = []
        self._reader: threading.Thread | None = None
        self._enough = threading.Event()

    def fresh(self) -> Spool:
        """Return an empty spool in the same folder."""
        return Spool(self.folder)

    def put(self, *arrays: NDArray[Any] | None) -> list[Any]:
        """Return copies of arrays, mapped; `None` stays `None`."""
        with ArrayFile(self.folder) as file:
            places = [None if array is None else file.add(array) for array in arrays]
            return self.mapped(file, *places)

    def mapped(self, file: ArrayFile, *places: Place | None) -> list[Any]:
        """Return arrays of a file that is complete."""
        pages = file.mapped()
        if pages is not None:
            mapping = _Mapped(pages, file.again())
            weakref.finalize(pages, os.close, mapping.file)
            self._files.append(mapping)
        return [None if place is None else place.of(pages) for place in places]

    def whole(self, file: ArrayFile, dtype: type[np.generic]) -> NDArray[Any]:
        """Return all of a file that is complete as one array."""
        kind = np.dtype(dtype)
        (array,) = self.mapped(file, Place(0, kind, (file.size // kind.itemsize,)))
        return np.asarray(array)

    def kept(self, problem: Problem) -> StoredProblem:
        """Return a problem whose arrays are mapped."""
        allowed, offsets = self.put(problem.allowed, problem.offsets)
        arc = None if problem.arc is None else self._rows(problem.arc)
        given = {field.name: getattr(problem, field.name) for field in fields(Problem)}
        given |= {"node": self._rows(problem.node), "arc": arc}
        given |= {"allowed": allowed, "offsets": offsets}
        return StoredProblem(**given, store=self)

    def _rows(self, rows: SparseRows) -> SparseRows:
        indptr, index, value = self.put(rows.indptr, rows.index, rows.value)
        return SparseRows(indptr, index, value, rows.n_columns)

    def attributes(self, shards: Iterable[ShardAttributes]) -> list[ShardAttributes]:
        """Return the attributes of shards in one file, in the order in which they are swept."""
        names = [field.name for field in fields(ShardAttributes)]
        with ArrayFile(self.folder) as file:
            places: list[Place | None] = []
            for own in shards:
                arrays = (getattr(own, name) for name in names)
                places += [None if array is None else file.add(array) for array in arrays]
            stored = self.mapped(file, *places)
        return [
            ShardAttributes(*stored[k : k + len(names)]) for k in range(0, len(stored), len(names))
        ]

    def ready(self) -> None:
        """Let the system read the files, in the order in which they were written."""
        if self._files and hasattr(os, "posix_fadvise"):
            self._enough.clear()
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()

    def _read(self) -> None:
        for pages, file in self._files:
            # In small steps: the system reads only the beginning of a larger one.
            for start in range(0, len(pages), _AHEAD):
                if self._enough.is_set():
                    return
                os.posix_fadvise(file, start, _AHEAD, os.POSIX_FADV_WILLNEED)

    def rest(self) -> None:
        """Give pages back: the next use reads them again, from the system's cache or the disk."""
        if self._reader is not None:
            self._enough.set()
            self._reader.join()
            self._reader = None
        for pages, _ in self._files:
            pages.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class StoredProblem(Problem):
    """A problem whose arrays are in the files of a spool."""

    store: Spool | None = None

    def ready(self) -> None:
        """Begin to read the arrays."""
        if self.store is not None:
            self.store.ready()

    def rest(self) -> None:
        """Give memory back until the next use."""
        if self.store is not None:
            self.store.rest()
            self.__dict__.pop("states", None)  # it is computed when it is asked for
