"""What is fuzzed: a file format, files of it, and its reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A file format.

    Parameters
    ----------
    name : str
    seeds : callable
        () → sound files, made by a writer of ours or written out.
    read : callable
        Bytes of a file → what it holds; raises `ModelFileError` on damage, never anything else.
    use : callable
        What was read → anything: it must be usable. May raise any `FstcrfError`.
    repair : callable, optional
        Makes what a reader checks first (sizes, sums) fit again, so that mutations get further;
        half of the files are repaired.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes], Any]
    use: Callable[[Any], Any]
    repair: Callable[[bytes], bytes] | None = None
