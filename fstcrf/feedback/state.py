"""The folder of a learner: a model, the state it has reached, and what it was told since.

========  =================================================================
Settings  what does not change in the life of a learner
State     what does: parameters, controls, numbers, open proposals
Folder    where they are, so that there is always one whole state
========  =================================================================

``model.fstcrf`` is the tagger at the beginning, ``state-N`` a state, ``journal-N`` what happened
since then. A new state is written whole before the old one is removed.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError, OptionError
from fstcrf.feedback.journal import Journal, Sync, check_sync
from fstcrf.feedback.proposal import Proposed
from fstcrf.kernel import Aim, Controls, Descent, Parameters, Rule
from fstcrf.storage import read_arrays, write_arrays

__all__ = ["Folder", "Settings", "State"]

KIND, VERSION = "fstcrf-feedback", 1

_OPEN = msgspec.msgpack.Decoder(list[Proposed])


class Settings(msgspec.Struct, frozen=True):
    """What does not change in the life of a learner."""

    aim: Aim
    rule: Rule
    seed: int


class _Numbers(msgspec.Struct, frozen=True):
    made: int
    rewards: int
    reward_sum: float
    refused: int
    step: int
    scale: float


class State:
    """What changes when a learner is told something.

    Parameters
    ----------
    descent : Descent
        Parameters, and what the rule remembers.

    Attributes
    ----------
    controls : Controls
    pending : dict of int to Proposed
        Proposals that nobody has answered.
    made : int
        Proposals so far: the number of the next one.
    rewards : int
        Rewards so far, and
    reward_sum : float
        their sum.
    refused : int
        Steps that would have left the finite numbers.
    """

    def __init__(self, descent: Descent) -> None:
        self.descent, self.controls = descent, Controls.of(1)
        self.pending: dict[int, Proposed] = {}
        self.made = self.rewards = self.refused = 0
        self.reward_sum = 0.0

    def save(self, path: Path, settings: Settings) -> None:
        """Write it to a file, whole or not at all."""
        one = self.descent
        arrays: dict[str, NDArray[Any]] = {
            "control.mean": self.controls.mean,
            "control.count": self.controls.count,
            "pending": np.frombuffer(msgspec.msgpack.encode(list(self.pending.values())), np.uint8),
        }
        for name in ("theta", "first", "second"):
            part: Parameters | None = getattr(one, name)
            if part is not None:
                arrays |= {f"{name}.{i}": a for i, a in enumerate(part.arrays())}
        if one.touched is not None:
            arrays["touched"] = one.touched
        numbers = _Numbers(
            self.made, self.rewards, self.reward_sum, self.refused, one.step, one.scale
        )
        metadata = {
            "settings": msgspec.json.encode(settings).decode(),
            "numbers": msgspec.json.encode(numbers).decode(),
        }
        write_arrays(path, arrays, metadata, kind=KIND, version=VERSION)

    def load(self, path: Path) -> Settings:
        """Take the place of what a file holds.

        Raises
        ------
        ModelFileError
            Not such a file, a damaged one, or one of another model.
        """
        arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
        try:
            settings = msgspec.json.decode(metadata["settings"], type=Settings)
            numbers = msgspec.json.decode(metadata["numbers"], type=_Numbers)
            self.pending = {p.id: p for p in _OPEN.decode(arrays["pending"].tobytes())}
            one, shapes = self.descent, [a.shape for a in self.descent.theta.arrays()]
            for name in ("theta", "first", "second"):
                if f"{name}.0" not in arrays:
                    continue
                part = [arrays[f"{name}.{i}"].copy() for i in range(4)]
                if [a.shape for a in part] != shapes:
                    raise ModelFileError(f"{path}: is of another model than model.fstcrf beside it")
                setattr(one, name, Parameters(*part))
            one.touched = arrays["touched"].copy() if "touched" in arrays else None
            self.controls = Controls(arrays["control.mean"].copy(), arrays["control.count"].copy())
        except (KeyError, msgspec.DecodeError) as error:
            raise ModelFileError(f"{path}: not a sound state of a learner: {error}") from None
        one.step, one.scale = numbers.step, numbers.scale
        self.made, self.rewards = numbers.made, numbers.rewards
        self.reward_sum, self.refused = numbers.reward_sum, numbers.refused
        return settings


class Folder:
    """The folder of a learner, held by one process at a time.

    Parameters
    ----------
    path : path
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

    def __init__(self, path: str | os.PathLike[str], sync: Sync) -> None:
        check_sync(sync)
        self.path, self.sync = Path(path), sync
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise OptionError(f"{self.path}: another process learns there; stop it first") from None
        self.number = max(self._numbers(), default=-1)
        self._journal: Journal | None = None

    def check(self) -> None:
        """Refuse a folder without a learner.

        Raises
        ------
        ModelFileError
            There is no state.
        """
        if self.number < 0:
            raise ModelFileError(f"{self.path}: no learner here; FeedbackLearner.create one")

    @property
    def model(self) -> Path:
        """The tagger at the beginning."""
        return self.path / "model.fstcrf"

    @property
    def state(self) -> Path:
        """The latest state."""
        return self._state(self.number)

    @property
    def journal(self) -> Journal:
        """What happened since the latest state."""
        if self._journal is None:
            self._journal = Journal(self.path / f"journal-{self.number}", self.sync)
        return self._journal

    def renew(self, state: State, settings: Settings) -> None:
        """Write a new state, and begin a new journal.

        Raises
        ------
        OSError
            It cannot be written; the old ones are still there.
        """
        state.save(self._state(self.number + 1), settings)
        if self._journal is not None:
            self._journal.close()
        self._journal, self.number = None, self.number + 1
        self.journal.append([])
        for number in self._numbers():
            if number < self.number:
                (self.path / f"journal-{number}").unlink(missing_ok=True)
                self._state(number).unlink()

    def close(self) -> None:
        """Let go of the folder."""
        if self._journal is not None:
            self._journal.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._journal, self._lock = None, -1

    def _state(self, number: int) -> Path:
        return self.path / f"state-{number}"

    def _numbers(self) -> list[int]:
        names = [p.name.removeprefix("state-") for p in self.path.glob("state-*")]
        return [int(name) for name in names if name.isdecimal()]
