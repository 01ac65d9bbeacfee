"""Counts of patterns: expected steps of an automaton that reads a chain's labels.

Scores are natural logs. The automaton sees the label of each token and the token's kind, one of C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, ShapeError
from fstcrf.kernel.graphs import Graph, first_invalid, graph_view
from fstcrf.kernel.machines import allocated
from fstcrf.kernel.native import array_in, array_out, check, ffi, lib
from fstcrf.kernel.rows import padded

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData, View


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

    def view(self, node: CData, kind: Ints) -> View:
        """Return the kernel's structure, and the memory it points into."""
        kinds, states, _ = self.target.shape
        target = np.ascontiguousarray(self.target.transpose(1, 0, 2)[..., self.label])
        step = np.ascontiguousarray(self.step.transpose(1, 0, 2)[..., self.label])
        step[target < 0] = -np.inf
        start = np.append(0.0, np.full(states - 1, -np.inf))
        score = self.arc.reshape(*self.arc.shape[:-2], -1)
        view, kept = graph_view(Graph(self.initial, self.final, score), node)
        fields: dict[str, Any] = {
            "reached": array_in(target, np.int32, target.shape, "target"),
            "value": array_in(step, np.float64, step.shape, "step"),
            "initial": array_in(start, np.float64, (states,), "start"),
            "final": array_in(self.end, np.float64, (states,), "end"),
            "kind": array_in(kind, np.int32, kind.shape, "kind"),
        }
        sizes = {"Q": states, "E": states, "rows": kinds, "width": len(self.label)}
        view.residual = residual = ffi.new("fc_residual *", {**sizes, **fields})
        return view, [kept, residual, fields]

    def by_labels(self, steps: Floats) -> Floats:
        """Add up steps by the states of the chain, [Q, C, S], over its labels: [C, Q, L]."""
        total = np.zeros(self.target.transpose(1, 0, 2).shape)
        for state, label in enumerate(self.label.tolist()):
            total[..., label] += steps[..., state]
        return total.transpose(1, 0, 2)


class Counts(NamedTuple):
    """log Z of sentences, −inf without a path, and the total expected counts."""

    log_z: Floats  # [B]
    read: Floats  # [C, Q, L] steps
    ended: Floats  # [Q] ends
    state: Floats | None = None  # [N, S] posteriors of the chain's states
    pair: Floats | None = None  # [S, S], summed over tokens, or [N, S, S], like arcs


def counting_bytes(longest: int, chain_states: int, states: int) -> int:
    """Return about how many bytes `expected_steps` takes for sentences up to `longest` tokens.

    `states` is the number of states of the automaton.
    """
    return 8 * padded(chain_states) * ((longest + 6) * states + longest + 2 * chain_states)


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
    if max(map(first_invalid, (node, counter.step, counter.end))) >= 0:
        raise NumericError("a potential or the score of a step is NaN, +inf or beyond 1e300")
    machine, _kept = counter.view(array_in(node, np.float64, (n, size), "node"), kind)
    log_z, state = np.empty(len(offsets) - 1), np.empty((n, size))
    pair = np.zeros(counter.arc.shape) if chain else None
    pairs = (ffi.NULL if pair is None else array_out(pair), ffi.NULL)
    read, last = np.zeros((2, states, len(counter.target), size))
    longest, where = Ragged(offsets).longest, ffi.new("int64_t *")
    room = lib.fc_machine_work(machine, 0, longest)
    work = allocated(room, f"{size} × {states:,} states, at {longest:,} tokens,", longest)
    status = lib.fc_counts(
        machine,
        len(offsets) - 1,
        array_in(offsets, np.int64, offsets.shape, "offsets"),
        array_out(log_z),
        array_out(state),
        *(pairs[::-1] if counter.arc.ndim == 3 else pairs),
        array_out(read),
        array_out(last),
        array_out(work),
        where,
    )
    if status == lib.FC_ENUMERIC:
        raise NumericError(f"log Z of sentence {where[0]} is not finite")
    check(status, "counts of patterns", where[0])
    steps, ended = map(counter.by_labels, (read, last))
    to = np.maximum(counter.target, 0)  # −1: a count of 0
    total = np.bincount(to.reshape(-1), weights=ended.reshape(-1), minlength=states)
    return Counts(log_z, steps, total.astype(np.float64), state if chain else None, pair)
