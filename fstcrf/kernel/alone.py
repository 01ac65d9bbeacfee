"""Best paths of sentences that come one at a time: what does not change is laid out once.

=====  ======================================================
Alone  a machine, and a grammar beside it, for one sentence
=====  ======================================================

The same answers as those of `lazy_paths` and `best_paths`. For a sentence of six tokens the work
around the C code is most of the cost; here it is a fifth of what a batch of one takes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError, ShapeError
from fstcrf.kernel.lazy import BEAM, Arena, Budget, Conjunction
from fstcrf.kernel.machines import Machine, _machine_view
from fstcrf.kernel.native import array_in, check, ffi, lib

__all__ = ["Alone", "Found"]

_NO_END = 1 << 60


class Found(NamedTuple):
    """The best path of a sentence, as far as it was found.

    Parameters
    ----------
    path : list of int
        Joint states; empty where no path was found.
    score : float
        −inf where no path was found.
    proven : bool
        It is the best path, or there is none.
    bound : float
        No path scores more; −inf where the path is proven.
    popped : int
        States taken from the queue.
    """

    path: list[int]
    score: float
    proven: bool
    bound: float
    popped: int


class Alone:
    """A machine, and a grammar beside it, for sentences one at a time; one thread at a time.

    Parameters
    ----------
    machine : Machine
        With one moving factor, and axes that do not move.
    grammar : Conjunction, optional
        Over the same machine.

    Raises
    ------
    ShapeError
        Another kind of machine.
    """

    def __init__(self, machine: Machine, grammar: Conjunction | None = None) -> None:
        moving = [k for k, factor in enumerate(machine.factors) if factor.value is None]
        if len(moving) != 1 or any(axis.score is None for axis in machine.axes):
            raise ShapeError("the machine brings other potentials than those of one factor")
        self._machine, self._grammar = machine, grammar
        factor = machine.factors[moving[0]]
        self._shape = factor.rows, factor.width
        nothing = (np.zeros((1, *self._shape)),)
        self._view, self._keep = _machine_view(machine, nothing, machine._static)  # noqa: SLF001
        self._factor = self._view.factor[moving[0]]
        self._scores, self._counts = ffi.new("double[2]"), ffi.new("int64_t[3]")
        score, bound = (self._scores + k for k in range(2))
        count, proven, popped = (self._counts + k for k in range(3))
        self._addresses = score, count, proven, bound, popped
        self._offsets = ffi.new("int64_t[2]")
        self._arena = None if grammar is None else Arena(grammar.words)
        self._room = 0

    def best(self, values: NDArray[np.float64], budget: Budget | None = None) -> Found:
        """Return the best path.

        Parameters
        ----------
        values : float64 [T, rows, width]
            Of the moving factor; T at least 1.
        budget : Budget, optional
            Its states count; seconds do not.

        Raises
        ------
        ShapeError, NumericError
            As for `Bound`.
        """
        tokens = len(values)
        if not tokens:
            raise ShapeError("the sentence is empty")
        pointer = array_in(values, np.float64, (tokens, *self._shape), "potentials")
        place = lib.fc_first_invalid(values.size, pointer)
        if place >= 0:
            token, cell = divmod(int(place), values[0].size)
            raise NumericError(f"NaN, +inf or beyond 1e300 at token {token}, entry {cell}")
        if tokens > self._room:
            self._make_room(tokens)
        self._factor.value, self._offsets[1] = pointer, tokens
        return self._expanded(tokens) if self._arena is None else self._searched(tokens, budget)

    def _make_room(self, tokens: int) -> None:
        self._room = 1 << max(4, (tokens - 1).bit_length())
        self._work = ffi.new("double[]", int(lib.fc_machine_work(self._view, self._room)))
        self._path = ffi.new("int32_t[]", self._room)
        if self._grammar is not None:
            self._reader = self._grammar.view(self._room)

    def _expanded(self, tokens: int) -> Found:
        status = lib.fc_machine_best(
            self._view, 1, self._offsets, self._path, self._scores, self._work
        )
        check(status, "best path")
        score = self._scores[0]
        path = [] if score == -np.inf else ffi.unpack(self._path, tokens)
        return Found(path, score, proven=True, bound=-np.inf, popped=0)

    def _searched(self, tokens: int, budget: Budget | None) -> Found:
        arena = self._arena
        assert arena is not None  # noqa: S101 (the caller has looked)
        if not arena.reset(1):
            arena = self._arena = Arena(arena.words)
        limit, give_up = (budget or _USUAL).states, 0
        while True:
            status = lib.fc_lazy_nbest(
                *(self._view, self._reader, 1, self._offsets, 1, limit, BEAM, _NO_END, give_up),
                *(arena.view, self._path, *self._addresses, self._work),
            )
            if status == lib.FC_OK:
                break
            if status != lib.FC_EFULL:
                check(status, "lazy search")
            give_up = 0 if arena.grow(4 * limit) else 1
        score, bound = self._scores
        count, proven, popped = self._counts
        path = ffi.unpack(self._path, tokens) if count else []
        return Found(path, score, proven > 0 or bound == -np.inf, bound, popped)


_USUAL = Budget()
