"""The whole product in place of a lazy search that does not end soon, where that is affordable.

=========  ===============================================================
TRIAL      states after which a lazy search has not ended soon
Expansion  the product of a program, expanded when it is first needed
=========  ===============================================================

A search that has to look around costs a thousand times what a step of the product does, and where
its budget ends it, it returns labels that may be far from the best. Whether a sentence is answered
by the product depends on its length, on the sizes of the machine and on the budget alone: never on
time, threads or the sentences beside it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from fstcrf import kernel
from fstcrf.errors import TooLargeError
from fstcrf.kernel import Bound, Budget, Machine, Ranked

if TYPE_CHECKING:
    from fstcrf.plans.program import Program

__all__ = ["TRIAL", "Expansion"]

TRIAL = 2_048
"""States that a search may look at before the product is thought of: 5 to 10 ms.

Sentences whose own best labels are legal, or nearly so, take a state or two a token."""

CELLS = 64
"""Joint states of the product, at a token, that count as one state of a search.

In memory: a state takes up to a kilobyte, a cell of the product 16 bytes. In time a cell is cheaper
still, 15 to 40 ns against 5 to 10 µs. The usual budget of 250,000 states affords 16 million cells:
256 MB and half a second at most."""


class Expansion:
    """The product of a program, expanded when it is first needed.

    Parameters
    ----------
    program : Program
        Whose grammar is searched lazily.
    """

    def __init__(self, program: Program) -> None:
        self._program, self._lock = program, threading.Lock()
        self._machine: Machine | None = None
        self._made = False

    @property
    def machine(self) -> Machine | None:
        """The product; None where it is too large for a sentence of one token."""
        with self._lock:
            if not self._made:
                self._machine, self._made = self._expanded(), True
            return self._machine

    def _expanded(self) -> Machine | None:
        program = self._program
        with suppress(TooLargeError):
            automaton = program.automaton
            if automaton is not None and automaton.target.size <= _most(Budget()):
                return program.machine
        return None

    def paths(self, bound: Bound, sentence: int, n: int, budget: Budget) -> Ranked | None:
        """Return the n best paths of a sentence; None where the product is not affordable.

        Parameters
        ----------
        bound : Bound
            The batch that it is in, under the machine without the grammar.
        sentence, n : int
        budget : Budget
            Of the search that the product is to replace.
        """
        machine = self.machine
        if machine is None or _cost(machine, len(bound.tokens([sentence])), n) > _most(budget):
            return None
        alone = bound.select([sentence], machine)
        if n > 1:
            return kernel.nbest_paths(alone, n)
        path, score = kernel.best_paths(alone)
        return Ranked((score > -np.inf).astype(np.int64), score[:, None], path[None])


def _cost(machine: Machine, tokens: int, n: int) -> int:
    """Return the cells that are looked at: of the product once, then along each path again."""
    return tokens * int(np.prod(machine.shape)) * (machine.n_residual + n - 1)


def _most(budget: Budget) -> int:
    """Return the cells that a budget affords; a larger budget than the usual affords no more."""
    return CELLS * min(budget.states, Budget().states)
