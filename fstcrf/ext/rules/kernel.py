"""Counts of patterns: expected steps of an automaton that reads a chain's labels.

Scores are natural logs. The automaton sees the label of each token and the token's kind, one of C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, ShapeError, TooLargeError
from fstcrf.kernel.native import array_in, array_out, check, ffi, lib
from fstcrf.lazy import made_once


@dataclass(frozen=True, eq=False)
class Counter:
    """A chain combined with an automaton, without the potentials of sentences.

    Parameters
    ----------
    label : int32 [S]
        Label of each state of the chain.
    arc : float64 [S, S] or [N, S, S]
        Potential of a state (row) and the next (column), −inf without an arc; for all tokens, or
        row n for the arcs into token n.
    initial, final : float64 [S]
    target : int32 [C, Q, L]
        State of the automaton after a label at a token of a kind; −1: rejected. 0 is the start.
    step : float64 [C, Q, L]
        Score of each step.
    end : float64 [Q]
        Score of ending in a state.

    Raises
    ------
    ShapeError
        Sizes or numbers that disagree.
    """

    label: Ints
    arc: Floats
    initial: Floats
    final: Floats
    target: Ints
    step: Floats
    end: Floats

    def __post_init__(self) -> None:
        kinds, states, labels = self.target.shape
        size = len(self.label)
        if self.step.shape != self.target.shape or self.end.shape != (states,):
            raise ShapeError(f"scores of other steps than the automaton's {kinds, states, labels}")
        if self.arc.shape[-2:] != (size, size) or not 2 <= self.arc.ndim <= 3:
            raise ShapeError(f"arcs are {list(self.arc.shape)}, expected {size} by {size}")
        if self.initial.shape != (size,) or self.final.shape != (size,):
            raise ShapeError(f"ends of other states than the chain's {size}")
        if size and not 0 <= self.label.min() <= self.label.max() < labels:
            raise ShapeError(f"a state has an unknown label, expected 0 to {labels - 1}")
        if self.target.size and not -1 <= self.target.min() <= self.target.max() < states:
            raise ShapeError(f"a step leads to an unknown state, expected 0 to {states - 1}")

    @made_once
    def handle(self) -> Any:
        """The kernel's structure."""
        kinds, states, labels = self.target.shape
        names = ("arc", "initial", "final", "step", "end")
        fields: dict[str, Any] = {
            name: array_in(getattr(self, name), np.float64, getattr(self, name).shape, name)
            for name in names
        }
        fields["label"] = array_in(self.label, np.int32, self.label.shape, "label")
        fields["target"] = array_in(self.target, np.int32, self.target.shape, "target")
        sizes = {"S": len(self.label), "L": labels, "Q": states, "C": kinds}
        return ffi.new("fc_counter *", {**sizes, **fields, "moving": self.arc.ndim == 3})


class Counts(NamedTuple):
    """log Z of sentences, −inf without a path, and the total expected counts."""

    log_z: Floats  # [B]
    read: Floats  # [C, Q, L] steps
    ended: Floats  # [Q] ends
    state: Floats | None = None  # [N, S] posteriors of the chain's states
    pair: Floats | None = None  # [S, S], summed over tokens, or [N, S, S], like arcs


def counting_bytes(longest: int, chain_states: int, states: int) -> int | None:
    """Return the bytes that `expected_steps` takes for sentences up to `longest` tokens.

    Parameters
    ----------
    longest : int
        Tokens.
    chain_states, states : int
        Of the chain, and of the automaton.

    Returns
    -------
    int or None
        `None` if it is more than addressable.
    """
    room = int(lib.fc_counter_room(longest, chain_states, states))
    return None if room < 0 else 8 * room


def expected_steps(
    counter: Counter, offsets: Longs, node: Floats, kind: Ints, *, chain: bool = False
) -> Counts:
    """Return log Z of each sentence, and expected steps of the automaton.

    Parameters
    ----------
    counter : Counter
    offsets : int64 [B + 1]
        Bounds of the sentences, which have at least one token.
    node : float64 [N, S]
    kind : int32 [N]
    chain : bool
        Also compute posteriors of the chain's states and arcs.

    Raises
    ------
    ShapeError
        Sizes that disagree.
    NumericError
        A sentence whose log Z is not finite.
    TooLargeError
        A sentence too long for memory.
    """
    n, size, states = int(offsets[-1]), len(counter.label), counter.target.shape[1]
    if counter.arc.ndim == 3 and len(counter.arc) != n:
        raise ShapeError(f"arcs of {len(counter.arc)} tokens, there are {n}")
    if (np.diff(offsets) < 1).any():
        raise ShapeError("a sentence is empty")
    longest = Ragged(offsets).longest
    room = lib.fc_counter_room(longest, size, states)
    if room < 0:
        raise TooLargeError(
            f"a sentence of {longest:,} tokens with {size} × {states:,} states does not "
            "fit into memory: cut the sentence, or count fewer patterns at once",
            tokens=longest,
        )
    counts = Counts(
        np.empty(len(offsets) - 1),
        np.zeros(counter.target.shape),
        np.zeros(states),
        np.empty((n, size)) if chain else None,
        np.zeros(counter.arc.shape) if chain else None,
    )
    where, work = ffi.new("int64_t *"), np.empty(room)
    status = lib.fc_counter_sums(
        counter.handle,
        len(offsets) - 1,
        array_in(offsets, np.int64, offsets.shape, "offsets"),
        array_in(node, np.float64, (n, size), "node"),
        array_in(kind, np.int32, (n,), "kind"),
        array_out(counts.log_z),
        array_out(counts.read),
        array_out(counts.ended),
        ffi.NULL if counts.state is None else array_out(counts.state),
        ffi.NULL if counts.pair is None else array_out(counts.pair),
        room,
        array_out(work),
        where,
    )
    if status == lib.FC_ENUMERIC:
        raise NumericError(f"log Z of sentence {where[0]} is not finite")
    check(status, "counts of patterns", where[0])
    return counts
