"""What a learner knows: proposals, events of the journal, draws, and the state they lead to.

A step leads along the direction that the proposal had when it was made: weights may have moved
since, and a proposal may be answered days later. So the direction is remembered, not the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats
from fstcrf.errors import ModelFileError, OptionError
from fstcrf.kernel import Aim, Controls, Descent, Parameters, Proposals, Rule, SparseRows
from fstcrf.storage import read_arrays, write_arrays

__all__ = [
    "Event",
    "Proposal",
    "Proposed",
    "Rewarded",
    "Settings",
    "State",
    "UniformDraws",
    "Withdrawn",
    "decoded",
    "encoded",
]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Labels on offer.

    Parameters
    ----------
    id : int
        Its number, from 0, unique in the life of a learner.
    labels : tuple of str
        A sample of the tagger's distribution.
    other : tuple of str
        Where pairs are compared: labels to compare with; else empty.
    probability : float
        Of the labels, under the tagger that proposed them.
    """

    id: int
    labels: tuple[str, ...]
    other: tuple[str, ...]
    probability: float


class Proposed(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """A proposal as it is remembered; arrays are bytes, little-endian."""

    id: int
    counts: bytes  # int32 [T] attributes of each token
    index: bytes  # int32 their rows
    value: bytes  # float32 their values, none where all are one
    path: bytes  # int32 [T]
    other: bytes  # int32 [T] or none
    node: bytes  # float64 [T, S]
    arc: bytes  # float64 [M]
    log_p: float

    @classmethod
    def of(cls, number: int, design: SparseRows, made: Proposals) -> Self:
        """Return what there is to remember of the only proposal of a batch."""
        return cls(
            number,
            _bytes(np.diff(design.indptr), "<i4"),
            _bytes(design.index, "<i4"),
            b"" if design.value is None else _bytes(design.value, "<f4"),
            _bytes(made.path, "<i4"),
            _bytes(made.other, "<i4"),
            _bytes(made.node, "<f8"),
            _bytes(made.arc, "<f8"),
            float(made.log_p[0]),
        )

    def design(self, rows: int) -> SparseRows:
        """Return the attributes of its tokens, over so many rows."""
        counts = np.frombuffer(self.counts, "<i4")
        indptr = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        value = np.frombuffer(self.value, "<f4") if self.value else None
        return SparseRows(indptr, np.frombuffer(self.index, "<i4"), value, rows)

    def proposals(self, states: int) -> Proposals:
        """Return it as the kernel knows it, the only sentence of a batch."""
        return Proposals(
            np.zeros(1, dtype=np.int64),
            np.frombuffer(self.path, "<i4"),
            np.frombuffer(self.other, "<i4"),
            np.frombuffer(self.node, "<f8").reshape(-1, states),
            np.frombuffer(self.arc, "<f8").reshape(1, -1),
            np.asarray([self.log_p]),
        )


def _bytes(array: NDArray[Any], dtype: str) -> bytes:
    return array.astype(dtype, copy=False).tobytes()


class Rewarded(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """What somebody said about a proposal."""

    id: int
    reward: float


class Withdrawn(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """Nobody will say anything about a proposal."""

    id: int


Event = Proposed | Rewarded | Withdrawn

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def encoded(event: Event) -> bytes:
    """Return an event as bytes."""
    return _ENCODER.encode(event)


def decoded(data: bytes) -> Event:
    """Return the event that bytes stand for.

    Raises
    ------
    msgspec.DecodeError
        They stand for none.
    """
    return _DECODER.decode(data)


# --- Draws ----------------------------------------------------------------------------------------

# They depend on the seed and the number of a proposal alone: whether a learner was closed in
# between, or restored from a copy, makes no difference.


class UniformDraws:
    """Numbers in [0, 1) by Philox, a generator that counts: proposal k has counters of its own.

    Parameters
    ----------
    seed : int
        The key, in [0, 2^128).

    Raises
    ------
    OptionError
        Another seed.
    """

    def __init__(self, seed: int) -> None:
        if not 0 <= seed < 1 << 128:
            raise OptionError(f"seed is {seed}, expected a whole number from 0, below 2^128")
        self._source = np.random.Philox(key=seed)
        self._state = self._source.state
        self._generator = np.random.Generator(self._source)

    def __call__(self, number: int, n: int) -> Floats:
        """Return the numbers of a proposal, float64 [n] in [0, 1)."""
        # A new generator would take ten times as long. The lowest word counts the blocks drawn.
        self._state["state"]["counter"][:] = 0, number, 0, 0
        self._source.state = self._state
        return self._generator.random(n)


# --- The state ------------------------------------------------------------------------------------

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
