"""Proposals, and what a journal says about them.

==========  ================================================================
Proposal    labels on offer, with a number
Proposed    a proposal as it is remembered: attributes, samples, direction
Rewarded    what somebody said about it
Withdrawn   nobody will say anything about it
Event       any of the last three
encoded     an event as bytes, ...
decoded     ... and back
==========  ================================================================

A step leads along the direction that the proposal had when it was made: weights may have moved
since, and a proposal may be answered days later. So the direction is remembered, not the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from fstcrf.kernel import Proposals, SparseRows

__all__ = [
    "Event",
    "Proposal",
    "Proposed",
    "Rewarded",
    "Withdrawn",
    "decoded",
    "encoded",
    "remembered",
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


def remembered(number: int, design: SparseRows, made: Proposals) -> Proposed:
    """Return what there is to remember of the only proposal of a batch."""
    return Proposed(
        number,
        np.diff(design.indptr).astype("<i4").tobytes(),
        design.index.astype("<i4", copy=False).tobytes(),
        b"" if design.value is None else design.value.astype("<f4", copy=False).tobytes(),
        made.path.astype("<i4", copy=False).tobytes(),
        made.other.astype("<i4", copy=False).tobytes(),
        made.node.astype("<f8", copy=False).tobytes(),
        made.arc.astype("<f8", copy=False).tobytes(),
        float(made.log_p[0]),
    )


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
