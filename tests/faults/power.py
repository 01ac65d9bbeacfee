"""What a disk may hold after the power failed: what was synced, and any part of the rest.

Told from the steps that `disk.c` wrote down. After a sync of a file its bytes are there; after that
of a folder, so are the names in it. Of what came later any pages of 4,096 bytes may be there, and a
size between; so may any of the names. A rename is whole or did not happen. A new folder is there as
soon as something in it was synced, as on all file systems with a journal.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

PAGE = 4096
_RECORD = struct.Struct("<IIIIQq")


@dataclass(frozen=True, slots=True)
class Step:
    """A call that changes what a disk holds.

    `kind` is w (write), t (truncate), s (sync), c (create), r (rename), u (unlink), m (mkdir), or !
    for a note of whoever tests.
    """

    kind: str
    file: int
    at: int
    path: str
    other: str
    data: bytes


def read_steps(log: bytes) -> Iterator[Step]:
    """Yield the steps of a log, whose end may be cut short where its writer was killed."""
    place = 0
    while place + _RECORD.size <= len(log):
        kind, first, second, size, file, at = _RECORD.unpack_from(log, place)
        place += _RECORD.size
        texts = []
        for length in (first, second, size):
            texts.append(log[place : place + length])
            place += length
        if place > len(log):
            return
        yield Step(chr(kind), file, at, os.fsdecode(texts[0]), os.fsdecode(texts[1]), texts[2])


@dataclass
class _Content:
    """Bytes of a file that are on the disk, and changes since."""

    sound: bytes = b""
    late: list[tuple[int, bytes | None]] = field(default_factory=list)

    def now(self) -> bytes:
        """Return the content as programs see it."""
        content = bytearray(self.sound)
        for at, data in self.late:
            _change(content, at, data)
        return bytes(content)

    def settle(self) -> None:
        """Put all on the disk."""
        self.sound, self.late = self.now(), []

    def drawn(self, rnd: Random, share: float) -> bytes:
        """Return what may be left of it: each late page with a probability."""
        content = bytearray(self.sound)
        sizes = [len(content)]
        for at, data in self.late:
            if data is None:
                if rnd.random() < share:
                    _change(content, at, None)
                sizes.append(at)
                continue
            sizes.append(at + len(data))
            begin = at
            while begin < at + len(data):
                end = min(begin - begin % PAGE + PAGE, at + len(data))
                if rnd.random() < share:
                    _change(content, begin, data[begin - at : end - at])
                begin = end
        if share < 1:
            size = rnd.choice(sizes)
            content = content[:size] + bytes(max(size - len(content), 0))
        return bytes(content)


def _change(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del content[at:]
        content.extend(bytes(at - len(content)))
    else:
        content.extend(bytes(max(at - len(content), 0)))
        content[at : at + len(data)] = data


class Disk:
    """A folder, as a machine sees it and as its disk does.

    Parameters
    ----------
    folder : Path
        As it is before the first step, all of which counts as synced.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = os.fspath(folder)
        self.files: dict[int, _Content] = {}
        self.names: dict[str, _Content] = {}
        self.folders: set[str] = set()
        self.late: list[tuple[Step, _Content | None]] = []
        self.notes: list[str] = []
        for path in sorted(folder.rglob("*")):
            if path.is_dir():
                self.folders.add(os.fspath(path))
            elif path.is_file():
                content = _Content(path.read_bytes())
                self.files[path.stat().st_ino] = self.names[os.fspath(path)] = content

    def follow(self, step: Step) -> None:
        """Do a step."""
        if step.kind == "!":
            self.notes.append(step.path)
        elif step.kind in "wt":
            found = self.files.setdefault(step.file, _Content())
            found.late.append((step.at, step.data if step.kind == "w" else None))
        elif step.kind == "s" and step.file in self.files:
            self.files[step.file].settle()
            self._kept(os.path.dirname(step.path))  # noqa: PTH120 (of a text)
        elif step.kind == "s":
            self._settle(step.path)
            self._kept(step.path)
        else:
            if step.kind == "c":  # numbers of files that are gone come again
                self.files[step.file] = _Content()
            self.late.append((step, self.files.get(step.file)))

    def _kept(self, folder: str) -> None:
        """Let a folder be there for good, with those that it is in."""
        for step, content in self.late:
            if step.kind == "m" and f"{folder}/".startswith(f"{step.path}/"):
                self._name(self.names, self.folders, step, content)
        self.late = [
            one for one in self.late if one[0].kind != "m" or one[0].path not in self.folders
        ]

    def _settle(self, folder: str) -> None:
        """Put the names of a folder on the disk."""
        still = []
        for step, content in self.late:
            if os.path.dirname(step.other or step.path) == folder:  # noqa: PTH120 (of a text)
                self._name(self.names, self.folders, step, content)
            else:
                still.append((step, content))
        self.late = still

    @staticmethod
    def _name(
        names: dict[str, _Content], folders: set[str], step: Step, content: _Content | None
    ) -> None:
        if step.kind == "m":
            folders.add(step.path)
            return
        names.pop(step.path, None)
        folders.discard(step.path)
        if content is not None and step.kind != "u":
            names[step.other or step.path] = content

    def fail(self, target: Path, rnd: Random, share: float) -> None:
        """Write into a folder what may be left; `share` of 0 is nothing but what was synced."""
        names, folders = dict(self.names), set(self.folders)
        for step, content in self.late:
            if rnd.random() < share:
                self._name(names, folders, step, content)
        for folder in sorted(folders):
            (target / os.path.relpath(folder, self.folder)).mkdir(parents=True, exist_ok=True)
        for name, content in names.items():
            path = target / os.path.relpath(name, self.folder)
            if path.parent.is_dir():  # else its folder is gone, and so is it
                path.write_bytes(content.drawn(rnd, share))
