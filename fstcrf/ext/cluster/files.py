"""Inputs to outputs of the same names in a folder, and the record of finished outputs.

The record is a file of JSON lines in the folder: the settings of the run first, then a line for
each output that is finished. Lines are only added; whenever a run ends, the next one therefore
continues from its record.

The record is in the folder of outputs; only the client adds lines, after the output is in its
place. A crash between the two costs a file that is tagged twice, to the same bytes. If the size and
time of a file are unchanged, it is not read; otherwise, its SHA-256 decides. The first line are the
settings: version, hash of the model, options that are not defaults, files that these name by their
content. A lock on the file keeps a second run out.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from fstcrf.errors import DataError, OptionError
from fstcrf.files import check_regular, sweep, sync_folder, taken, whole_lines

RECORD = ".fstcrf-tagged.jsonl"
FORMAT, VERSION = "fstcrf-tagged", 1
_BEGINNING = b'{"format":'
_MAGIC = re.compile(r"[*?\[]")


def digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    check_regular(path)
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Stamp(msgspec.Struct, frozen=True):
    """The state of a file: bytes, time of the last change in nanoseconds, SHA-256 of the bytes."""

    size: int
    changed: int
    sha256: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Stamp:
        """Return the stamp of a file as it is now; OSError if it cannot be read."""
        known = Path(path).stat()
        return cls(known.st_size, known.st_mtime_ns, digest(path))

    def touched(self, path: str | os.PathLike[str]) -> bool:
        """Return whether size or time of a file have changed."""
        known = Path(path).stat()
        return (known.st_size, known.st_mtime_ns) != (self.size, self.changed)

    def fits(self, path: str | os.PathLike[str]) -> bool:
        """Return whether a file still has this content; it is read only if its time differs."""
        try:
            if not self.touched(path):
                return True
            return Path(path).stat().st_size == self.size and digest(path) == self.sha256
        except FileNotFoundError:
            return False


@dataclass(frozen=True, slots=True)
class TextFile:
    """An input, the path of its output, its name in the folder, and its size in bytes.

    The size of a file that is not there is 0.
    """

    source: str
    target: str
    name: str
    size: int


class FinishedFile(msgspec.Struct, frozen=True):
    """An output that is finished, by its name in the folder."""

    name: str
    input: Stamp
    output: Stamp


class _Head(msgspec.Struct, frozen=True):
    format: str
    version: int
    settings: dict[str, Any]


# --- Inputs ---------------------------------------------------------------------------------------


def parts_of(inputs: Sequence[str], folder: str) -> list[TextFile]:
    """Return the files that inputs are, each with its place in a folder.

    Parameters
    ----------
    inputs : sequence of str
        Files; patterns with ``*``, ``?``, ``[`` and ``**``; folders with all their files, at any
        depth, except names that begin with ``.`` or ``_``. Names keep their path below a folder, or
        below the part of a pattern before its first ``*``.
    folder : str
        Where the outputs go.

    Raises
    ------
    DataError
        A folder without files, a pattern that no file has.
    OptionError
        Two outputs of one name; an output that is an input; outputs within an input folder.
    """
    out, found = Path(folder).resolve(), dict[Path, TextFile]()
    for given in inputs:
        for source, name in _named(given, out):
            target = out / name
            size = source.stat().st_size if source.is_file() else 0
            part = TextFile(str(source), str(Path(folder) / name), name.as_posix(), size)
            other = found.setdefault(target, part)
            if other is not part and Path(other.source).resolve() != source.resolve():
                raise OptionError(
                    f"{other.source} and {part.source} would both be written to {part.target}"
                )
    here = {Path(part.source).resolve(): part for part in found.values()}
    for target, part in found.items():
        if target.resolve() in here:
            raise OptionError(
                f"{part.target} is an input: write the outputs to another folder, -o FOLDER"
            )
    return list(found.values())


def _named(given: str, out: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the files of an input with their names in the folder of outputs."""
    path = Path(given)
    if path.is_dir():
        yield from _inside(path, sorted(p for p in path.rglob("*") if p.is_file()), out)
    elif path.exists() or not _MAGIC.search(given):
        yield path, Path(path.name)
    else:
        fixed = Path(os.path.dirname(given[: _magic(given)]) or ".")  # noqa: PTH120 (of a text)
        files = (Path(p) for p in glob.glob(given, recursive=True))  # noqa: PTH207 (``**``)
        yield from _inside(fixed, sorted(p for p in files if p.is_file()), out, given)


def _magic(pattern: str) -> int:
    match = _MAGIC.search(pattern)
    return match.start() if match else len(pattern)


def _inside(
    folder: Path, files: Iterable[Path], out: Path, given: str = ""
) -> Iterator[tuple[Path, Path]]:
    """Yield files with their names below a folder; hidden ones are left out."""
    names = [(path, path.relative_to(folder)) for path in files]
    names = [(p, name) for p, name in names if not any(one[0] in "._" for one in name.parts)]
    if not names:
        raise DataError("no file is called like this" if given else "a folder without files",
                        path=given or str(folder))  # fmt: skip
    inside = out.is_relative_to(folder.resolve())
    if inside and (not given or any(p.resolve().is_relative_to(out) for p, _ in names)):
        raise OptionError(f"{out} is within the input {given or folder}: give a folder elsewhere")
    yield from names


# --- What is done ---------------------------------------------------------------------------------


class Record:
    """The finished files in a folder of outputs; `Record.opened` makes one.

    Parameters
    ----------
    path : Path
    file : binary file
        The same, open at its end.
    done : mapping of str to FinishedFile
        The entries of the record, by names.
    """

    def __init__(self, path: Path, file: BinaryIO, done: Mapping[str, FinishedFile]) -> None:
        self.path, self._file, self._done = path, file, dict(done)

    @classmethod
    @contextmanager
    def opened(
        cls, folder: str, parts: Sequence[TextFile], settings: Mapping[str, Any], *, overwrite: bool
    ) -> Iterator[Record]:
        """Open the record of a folder, which is created if missing, for one run at a time.

        Parameters
        ----------
        folder : str
        parts : sequence of TextFile
            Whose outputs go there.
        settings : mapping of str to value
            The settings that outputs depend on besides their inputs, as JSON values.
        overwrite : bool
            Ignore an existing record.

        Raises
        ------
        OptionError
            Another run is writing there; outputs of other settings; files that no run has made.
        DataError
            The record is damaged.
        OSError
            The folder cannot be written.
        """
        home = Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        path = home / RECORD
        with path.open("ab+") as file:
            if not taken(file.fileno()):
                raise OptionError(f"{folder}: another run is writing there")
            file.seek(0)
            data = file.read()
            began = data.startswith((b"\0", _BEGINNING[: len(data)]))
            size = whole_lines(data, path, _is_line) if began and not overwrite else len(data)
            done = None if overwrite else _read(data[:size], path, folder, settings)
            if done is None:
                _check_free(parts, overwrite=overwrite)
                file.truncate(0)
                _append(file, _Head(FORMAT, VERSION, dict(settings)))
            elif size < len(data):
                file.truncate(size)
            sync_folder(home)
            record = cls(path, file, done or {})
            record.sweep(parts)
            yield record

    def has(self, part: TextFile) -> bool:
        """Return whether the output of a part is finished, and was made from the current input."""
        known = self._done.get(part.name)
        return (
            known is not None and known.output.fits(part.target) and known.input.fits(part.source)
        )

    def add(self, entry: FinishedFile) -> None:
        """Write down an output that is finished."""
        _append(self._file, entry)
        self._done[entry.name] = entry

    def sweep(self, parts: Sequence[TextFile]) -> None:
        """Remove partial outputs of workers that were killed."""
        names: dict[Path, set[str]] = {}
        for part in parts:
            target = Path(part.target)
            names.setdefault(target.parent, set()).add(target.name)
        for folder, known in names.items():
            sweep(folder, known)


def head_of(path: str | os.PathLike[str]) -> bytes:
    """Return the first line of a record, with its settings; b"" without a record."""
    try:
        with Path(path).open("rb") as file:
            return file.readline()
    except FileNotFoundError:
        return b""


def _append(file: BinaryIO, line: msgspec.Struct) -> None:
    try:
        file.write(msgspec.json.encode(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or file.name
        raise


def _is_line(line: bytes) -> bool:
    """Return whether a line was written completely."""
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _read(
    data: bytes, path: Path, folder: str, settings: Mapping[str, Any]
) -> dict[str, FinishedFile] | None:
    """Return the finished files; `None` if even the first line is missing."""
    if not data:
        return None
    lines = data.splitlines()
    try:
        head = msgspec.json.decode(lines[0], type=_Head)
        if (head.format, head.version) != (FORMAT, VERSION):
            raise msgspec.ValidationError(f"{head.format} {head.version}")
        entries = [msgspec.json.decode(line, type=FinishedFile) for line in lines[1:]]
    except msgspec.MsgspecError as error:
        raise DataError(
            f"the record of tagged files is damaged ({error}): give --set overwrite=true",
            path=str(path),
        ) from None
    same = msgspec.to_builtins(dict(settings))
    odd = [k for k in {**head.settings, **same} if head.settings.get(k) != same.get(k)]
    if not odd:
        return {entry.name: entry for entry in entries}
    raise OptionError(
        f"{folder}: holds files tagged with another {', '.join(odd)}: give another folder, or "
        "--set overwrite=true"
    )


def _check_free(parts: Sequence[TextFile], *, overwrite: bool) -> None:
    """Refuse to replace files that no run of these settings has made."""
    there = next((part for part in parts if Path(part.target).exists()), None)
    if there is not None and not overwrite:
        raise OptionError(
            f"{there.target} exists already, and no record shows which options produced "
            "it: give another folder, or --set overwrite=true"
        )
