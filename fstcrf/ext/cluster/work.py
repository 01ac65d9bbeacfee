"""One file of a run, independent of the place of work, and its outcome."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

import fstcrf
from fstcrf.errors import DataError, FstcrfError
from fstcrf.ext.cluster.files import FinishedFile, Stamp, TextFile
from fstcrf.lazy import memoised

Counts: TypeAlias = Mapping[str, int]
"""Counts of a file, by names: the counts of a run are their sums."""
FileWork: TypeAlias = Callable[[str, str], Counts]
"""Reads the file of the first path and writes the file of the second, completely or not at all."""


@dataclass(frozen=True, slots=True)
class FileShare:
    """The progress of a file.

    Parameters
    ----------
    name : str
        In the folder of outputs.
    sentences : int
    share : float, optional
        Share of the file, 0 to 1; `None` if unknown.
    """

    name: str
    sentences: int
    share: float | None


Heard: TypeAlias = Callable[[FileShare], None]
"""Hears how far files are."""
_HEARD: ContextVar[Callable[[int, float | None], None] | None] = ContextVar("heard", default=None)

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Job(Protocol):
    """The work on every file: hashable, and sent to other processes by pickle."""

    def prepared(self) -> FileWork:
        """Load the requirements of the work; each process does it once."""


@dataclass(frozen=True, slots=True)
class FileTask:
    """A file of a job, the version of fstcrf that asks, and whether it asks how far the file is."""

    job: Job
    part: TextFile
    version: str = field(default_factory=lambda: fstcrf.__version__)
    told: bool = False


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The outcome of a file.

    Parameters
    ----------
    part : TextFile
    entry : FinishedFile, optional
        The record of the output; `None` after a failure.
    counts : mapping of str to int
    error : str
        Why it failed.
    ends : bool
        Other files would fail, too: for example because of a full disk.
    where : str
        The worker.
    """

    part: TextFile
    entry: FinishedFile | None = None
    counts: Counts = field(default_factory=dict)
    error: str = ""
    ends: bool = False
    where: str = ""


def heard() -> Callable[[int, float | None], None] | None:
    """Return the receiver of the current file's progress: sentences, and share of the file.

    `None` if there is no receiver.
    """
    return _HEARD.get()


def perform(task: FileTask, hears: Heard | None = None) -> FileOutcome:
    """Do a task; errors are part of the outcome and are not raised."""
    if hears is None or not task.told:
        return _performed(task)
    name, hear = task.part.name, hears
    before = _HEARD.set(lambda sentences, share: hear(FileShare(name, sentences, share)))
    try:
        return _performed(task)
    finally:
        _HEARD.reset(before)


def _performed(task: FileTask) -> FileOutcome:
    part, here = task.part, fstcrf.__version__
    if here != task.version:
        text = f"it has fstcrf {here}, the run was started by {task.version}: install the same"
        return FileOutcome(part, error=text, ends=True)
    try:
        work = _prepared(task.job)
    except Exception as error:  # noqa: BLE001 (it goes to whoever started the run)
        return FileOutcome(part, error=said(error), ends=True)
    try:
        return _done(work, part)
    except Exception as error:  # noqa: BLE001 (as above)
        full = isinstance(error, OSError) and error.errno in _FULL
        return FileOutcome(part, error=said(error), ends=full)


def _done(work: FileWork, part: TextFile) -> FileOutcome:
    before = Stamp.of(part.source)
    Path(part.target).parent.mkdir(parents=True, exist_ok=True)
    counts = work(part.source, part.target)
    if before.touched(part.source):
        raise DataError("was changed while it was read", path=part.source)
    return FileOutcome(part, FinishedFile(part.name, before, Stamp.of(part.target)), counts)


def said(error: BaseException) -> str:
    """Return an error in one line."""
    if isinstance(error, OSError) and not isinstance(error, FstcrfError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}"
    if isinstance(error, MemoryError):
        return "out of memory"
    text = " ".join(str(error).split())
    return text if isinstance(error, FstcrfError) else f"{type(error).__name__}: {text}"


@memoised(2)
def _prepared(job: Job) -> FileWork:
    return job.prepared()
