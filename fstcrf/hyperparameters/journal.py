"""Journals of searches: files of optuna, with finished trials only.

======  ==============================================
opened  the study of a journal, checked
======  ==============================================
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fstcrf.errors import DataError, OptionError

if TYPE_CHECKING:
    import optuna

__all__ = ["opened"]

_NAME = "fstcrf"
_SEARCH = "search"  # what the journal is of


def opened(package: Any, path: Path, *, resume: bool, search: Mapping[str, str]) -> optuna.Study:
    """Return the study of a journal, a new one where there is none.

    Parameters
    ----------
    package : module
        optuna.
    path : Path
    resume : bool
        The file may exist.
    search : mapping of str to str
        What decides the course of the search; that of the journal must be the same.

    Raises
    ------
    OptionError
        The file exists, without `resume`, or is the journal of another search.
    DataError
        It is no journal.
    OSError
        It cannot be read or written.
    """
    exists = path.exists() and path.stat().st_size > 0
    if exists and not resume:
        raise OptionError(f"{path} exists: resume goes on from it; else give another journal")
    if exists:
        _check_lines(path)
    else:
        path.touch()  # what cannot be written should be known before the work
    foreign = DataError("is no journal of a search", path=str(path))
    backend = package.storages.journal.JournalFileBackend(str(path))
    try:
        study: optuna.Study = package.create_study(
            study_name=_NAME,
            storage=package.storages.JournalStorage(backend),
            direction="maximize",
            load_if_exists=True,
        )
    except (AssertionError, KeyError, TypeError, ValueError):  # what optuna raises of its lines
        raise foreign from None
    known = study.user_attrs.get(_SEARCH)
    if known is None and study.get_trials():
        raise foreign
    if known is None:
        study.set_user_attr(_SEARCH, dict(search))
    for name in itertools.chain(search, known or ()):
        before, now = (known or search).get(name), search.get(name)
        if before != now:
            raise OptionError(
                f"{path} is the journal of another search: {name} was {before}, is {now}"
            )
    return study


def _check_lines(path: Path) -> None:
    """Check a journal; cut off the last line where a crash has left a part of one."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    for number, line in enumerate(data[:end].splitlines(), 1):
        try:
            if not isinstance(json.loads(line), dict):
                raise DataError("is no journal of a search", path=str(path), line=number)
        except ValueError:
            raise DataError("is no journal of a search", path=str(path), line=number) from None
    if not end:
        raise DataError("is no journal of a search", path=str(path))
    if end < len(data):
        with path.open("r+b") as file:
            file.truncate(end)
