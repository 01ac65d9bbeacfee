"""What is fuzzed: a format or a part of the kernel, sound inputs of it, and what reads them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fstcrf.errors import FstcrfError, ModelFileError

__all__ = ["Target", "folder", "in_file", "nothing"]


@dataclass(frozen=True, slots=True)
class Target:
    """A format, or a part of the kernel.

    Parameters
    ----------
    name : str
    seeds : callable
        () → sound inputs, made by a writer of ours or written out.
    read : callable
        Bytes of a file → what it holds; raises `refuses` on damage, never anything else.
    use : callable
        What was read → anything: it must be usable. May raise any `FstcrfError`.
    repair : callable, optional
        Makes what a reader checks first (sizes, sums) fit again, so that mutations get further;
        half of the files are repaired.
    change : callable, optional
        (input, random) → one that is changed as only somebody who knows the format would.
    refuses : type of exception
        What `read` may raise.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes], Any]
    use: Callable[[Any], Any]
    repair: Callable[[bytes], bytes] | None = None
    change: Callable[[bytes, Random], bytes] | None = None
    refuses: type[FstcrfError] = ModelFileError


@cache
def folder() -> Path:
    """Return a folder in memory, where there is one, that goes with the process."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="fstcrf-fuzz-", dir=memory))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def in_file(read: Callable[[Path], Any], name: str = "input") -> Callable[[bytes], Any]:
    """Return a reader of bytes: they are a file first."""

    def found(data: bytes) -> Any:
        path = folder() / name
        path.write_bytes(data)
        return read(path)

    return found


def nothing(_: object) -> None:
    """Use what was read no further."""
