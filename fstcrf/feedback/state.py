"""What a learner knows.

========  =================================================================
Settings  what does not change in the life of a learner
State     what does: parameters, controls, numbers, open proposals
========  =================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError
from fstcrf.feedback.proposal import Proposed
from fstcrf.kernel import Aim, Controls, Descent, Parameters, Rule
from fstcrf.storage import read_arrays, write_arrays

__all__ = ["Settings", "State"]

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
