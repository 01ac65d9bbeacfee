"""The folder of a learner: a model, the state it has reached, and what it was told since.

======  =====================================================
Folder  files of which there is always one whole state
======  =====================================================

``model.fstcrf`` is the tagger at the beginning, ``state-N`` a state, ``journal-N`` what happened
since then. A journal is begun before its state is written, so that no state is without one, and
older files are removed last.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from fstcrf.errors import ModelFileError, OptionError
from fstcrf.feedback.journal import Journal, Sync, check_sync, is_empty
from fstcrf.feedback.state import Settings, State

__all__ = ["Folder"]

_LOCK, _MODEL = "lock", "model.fstcrf"


class Folder:
    """The folder of a learner, held by one process at a time; made by `new` and `existing`.

    Parameters
    ----------
    path : Path
        It exists.
    sync : {"always", "process"}
        As for `Journal`.

    Raises
    ------
    OptionError
        Another `sync`; another process has the folder.
    OSError
        It cannot be written.
    """

    def __init__(self, path: Path, sync: Sync) -> None:
        check_sync(sync)
        self.path, self.sync = path, sync
        self._lock, self._owner = _locked(path), os.getpid()
        self._journal: Journal | None = None
        self.number = max(_numbers(path, "state"), default=-1)

    @classmethod
    def new(cls, path: str | os.PathLike[str], sync: Sync) -> Self:
        """Return a folder to begin in: there is nothing, or what a death in the same act left.

        Raises
        ------
        OptionError
            It is not empty; another process has it.
        OSError
            It cannot be written.
        """
        place = Path(path)
        place.mkdir(parents=True, exist_ok=True)
        _check_new(place)
        folder = cls(place, sync)
        try:
            _check_new(place)  # nobody was quicker
        except BaseException:
            folder.close()
            raise
        return folder

    @classmethod
    def existing(cls, path: str | os.PathLike[str], sync: Sync) -> Self:
        """Return a folder in which a learner is.

        Raises
        ------
        ModelFileError
            There is none, or one of its files is missing.
        OptionError
            Another process has it.
        OSError
            It does not exist, or cannot be written.
        """
        place = Path(path)
        _check_complete(place)  # before a lock is left among files of other things
        folder = cls(place, sync)
        try:
            _check_complete(place)
        except BaseException:
            folder.close()
            raise
        return folder

    @property
    def model(self) -> Path:
        """The tagger at the beginning."""
        return self.path / _MODEL

    @property
    def state(self) -> Path:
        """The latest state."""
        return _state(self.path, self.number)

    @property
    def journal(self) -> Journal:
        """What happened since the latest state."""
        self.check_held()
        if self._journal is None:
            self._journal = Journal(_journal(self.path, self.number), self.sync)
        return self._journal

    def check_held(self) -> None:
        """Refuse to go on where another process may have the folder by now.

        Raises
        ------
        OptionError
            It was closed, or opened by another process that this one came from.
        """
        if self._lock < 0:
            raise OptionError(f"{self.path}: the learner is closed; FeedbackLearner.open goes on")
        if self._owner != os.getpid():
            raise OptionError(f"{self.path}: another process learns there: this one is its child")

    @contextmanager
    def told(self, records: Sequence[bytes]) -> Iterator[None]:
        """Append to the journal, then let the caller do the same to the state.

        Where that is cut short (Ctrl-C), the state lags behind the journal: the folder is closed,
        and opening it again puts things right.

        Raises
        ------
        OSError
            The journal cannot be written; nothing has changed.
        """
        try:
            self.journal.append(records)
            yield
        except OSError:
            raise
        except BaseException:
            self.close()
            raise

    def renew(self, state: State, settings: Settings) -> None:
        """Write a new state, and begin a new journal.

        Raises
        ------
        OptionError
            The folder is closed.
        OSError
            It cannot be written; the old ones are still there.
        """
        self.check_held()
        number = self.number + 1
        path = _state(self.path, number)
        fresh = Journal(_journal(self.path, number), self.sync, new=True)
        try:
            state.save(path, settings)
        finally:
            if path.exists():  # whole, even if something happened after that
                old, self._journal, self.number = self._journal, fresh, number
            else:
                old = fresh
            if old is not None:
                old.close()
        self._sweep()

    def close(self) -> None:
        """Let go of the folder."""
        if self._journal is not None:
            self._journal.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._journal, self._lock = None, -1

    def _sweep(self) -> None:
        """Remove what was before the latest state, and what deaths left half written."""
        for number in _numbers(self.path, "state"):
            if number < self.number:
                _journal(self.path, number).unlink(missing_ok=True)
                _state(self.path, number).unlink()
        for path in self.path.glob(".*.tmp"):
            path.unlink()


def _state(path: Path, number: int) -> Path:
    return path / f"state-{number}"


def _journal(path: Path, number: int) -> Path:
    return path / f"journal-{number}"


def _numbers(path: Path, kind: str) -> list[int]:
    parts = [file.name.partition("-") for file in path.iterdir()]
    return [int(number) for head, _, number in parts if head == kind and number.isdecimal()]


def _locked(path: Path) -> int:
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise OptionError(f"{path}: another process learns there; stop it first") from None
    return lock


def _check_new(path: Path) -> None:
    """Refuse a folder in which something is that `FeedbackLearner.create` did not leave."""
    names = {file.name for file in path.iterdir()}
    if _numbers(path, "state"):
        raise OptionError(f"{path}: is not empty; FeedbackLearner.open goes on from there")
    # A learner locks first, and appends to its journal only when there is a state.
    left = {_LOCK, _MODEL} if _LOCK in names else set()
    if is_empty(_journal(path, 0)):
        left.add(_journal(path, 0).name)
    odd = sorted(n for n in names - left if not (n.startswith(".") and n.endswith(".tmp")))
    if odd:
        raise OptionError(f"{path}: is not empty: there is {odd[0]}; choose another folder")


def _check_complete(path: Path) -> None:
    """Refuse a folder without a learner, or without one of its files."""
    told = [n for n in _numbers(path, "journal") if not is_empty(_journal(path, n))]
    number = max([*_numbers(path, "state"), *told], default=-1)
    if number < 0:
        raise ModelFileError(f"{path}: no learner here; FeedbackLearner.create one")
    for file in (path / _MODEL, _state(path, number), _journal(path, number)):
        if not file.is_file():
            raise ModelFileError(f"{file}: is missing from the learner; restore it from a copy")
