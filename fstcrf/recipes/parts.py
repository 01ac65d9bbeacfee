"""Finished parts of a run, kept in a folder: a run that ended early goes on from there.

===========  =====================================================
Parts        what is kept, each part a file that is whole or absent
fingerprint  what a run is of: recipe, options, data, version
===========  =====================================================
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from fstcrf.corpus import atomic_write

__all__ = ["Parts", "fingerprint"]

T = TypeVar("T")


class _File(msgspec.Struct, frozen=True):
    """What the file of a part holds."""

    part: str
    about: str
    date: str
    code: str
    value: msgspec.Raw


class Parts:
    """What is kept of a run, in files ``NAME-KEY.json`` of a folder.

    The key is made from the fingerprint of the run, the name of the part and what it depends on, so
    that parts of other runs lie beside those of this one and are never taken for them.

    Parameters
    ----------
    folder : Path, optional
        Made when the first part is kept. Without it nothing is kept.
    run : str
        Fingerprint of the run.
    code : str
        Version and commit of the code that runs.
    """

    def __init__(self, folder: Path | None = None, run: str = "", code: str = "") -> None:
        self.folder, self._run, self._code = folder, run, code
        self.count = 0
        self._earlier: list[_File] = []

    def get(self, name: str, kind: type[T], about: object = None) -> T:
        """Return a part that was kept.

        Parameters
        ----------
        name : str
        kind : type
            Of the value, as msgspec takes it: ``list[Row]``, ``dict[str, float]``, a dataclass.
        about : object
            What the part depends on, beside the recipe, its options and data: anything whose `repr`
            tells it from others.

        Raises
        ------
        KeyError
            There is none, or it does not hold what is expected.
        """
        path = self._path(name, about, "json")
        if path is None or not path.exists():
            raise KeyError(name)
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_File)
            value = msgspec.json.decode(kept.value, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise KeyError(name) from None
        self._earlier.append(kept)
        self.count += 1
        return value

    def put(self, name: str, value: object, about: object = None) -> None:
        """Keep a part.

        Raises
        ------
        TypeError
            A value that JSON has no form for.
        OSError
            It cannot be written.
        """
        encoded = msgspec.Raw(msgspec.json.encode(value, enc_hook=_plain))
        path = self._path(name, about, "json", made=True)
        if path is None:
            return
        date = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        kept = _File(name, repr(about), date, self._code, encoded)
        with atomic_write(path) as file:
            file.write(msgspec.json.encode(kept))
        self.count += 1

    def file(self, name: str, suffix: str, about: object = None) -> Path | None:
        """Return where a part goes that is a file of its own, such as a model; None for nowhere."""
        return self._path(name, about, suffix, made=True)

    def earlier(self) -> str:
        """Tell what was taken from earlier runs, and what code made it; empty for nothing."""
        if not self._earlier:
            return ""
        codes = ", ".join(sorted({kept.code for kept in self._earlier}))
        first = min(kept.date for kept in self._earlier)
        return f"{len(self._earlier)} parts, from {first}, by fstcrf {codes}"

    def _path(self, name: str, about: object, suffix: str, *, made: bool = False) -> Path | None:
        if self.folder is None:
            return None
        if made:
            self.folder.mkdir(parents=True, exist_ok=True)
        key = _digest([self._run, name, repr(about)])
        return self.folder / f"{_slug(name)}-{key}.{suffix}"


def fingerprint(files: Iterable[Path], options: Mapping[str, object]) -> str:
    """Return what a run is of, as a digest: contents of files, options.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    contents = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    return _digest([*contents, *(f"{name}={value!r}" for name, value in options.items())])


def _digest(strings: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for string in strings:
        digest.update(string.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:12]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:60]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a part of a run holds {type(value).__name__}, which JSON has no form for")
