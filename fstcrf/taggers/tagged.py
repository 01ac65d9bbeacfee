"""`TaggedLattices`: the lattices of sentences under a tagger of tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np

from fstcrf.arrays import RUN_TOKENS, Floats, Ragged
from fstcrf.kernel import Budget
from fstcrf.lattices.batch import Lattices
from fstcrf.lattices.batching import Group
from fstcrf.lattices.chainrow import ChainRow
from fstcrf.lattices.chains import ChainEngine, program_tapes
from fstcrf.lattices.engine import PLAIN, EngineRequest, Tape
from fstcrf.lattices.lattice import Lattice, TapeLattice
from fstcrf.lazy import made_once
from fstcrf.machines.plans import Program
from fstcrf.text.sentences import Run, runs_of

if TYPE_CHECKING:
    from fstcrf.lattices.distributions import Distributions

Values = tuple[Floats, ...]

_FEW_TOKENS, _RUN_NUMBERS, _MOST_NUMBERS = 1_000, 220_000, 2_000_000
"""Limits of a run of sentences: its tokens, and the numbers in its potentials. Blocks of this size
are reused by the next run, and stay in the processor's cache; larger ones go back to the system."""


class TaggedLattices(Lattices[TapeLattice]):
    """The lattices of sentences under a tagger of tokens.

    Rows of a run share arrays of potentials, which are computed at the first question.

    Parameters
    ----------
    program : Program
        The compiled tagger.
    lengths : sequence of int
        Number of tokens of each sentence.
    make : callable
        Maps a run of sentences to their potentials, one array for each of ``program.inputs``.
    checked : bool
        Whether all potentials are surely finite and below 1e300: the kernel then skips its check.
    streamed : bool
        Whether potentials are computed anew for each question, to save memory.
    """

    def __init__(
        self,
        program: Program,
        lengths: Sequence[int],
        make: Callable[[Run], Values],
        *,
        checked: bool = False,
        streamed: bool = False,
    ) -> None:
        self.program, self._rows = program, Ragged.from_lengths(lengths)
        self._runs = [
            TaggedRun(program, run, make, checked=checked, streamed=streamed)
            for run in runs_of(self._rows, _tokens_of_runs(program))
        ]
        self._cached: dict[int, TapeLattice] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return Lattices, (list(self),)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Ragged:
        """The tokens of each lattice."""
        return self._rows

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes of taggers and maps, and the columns that the grammar reads."""
        return program_tapes(self.program)

    def _row(self, k: int) -> TapeLattice:
        if k in self._cached:
            return self._cached[k]
        run = self._runs[bisect_right(self._runs, k, key=lambda run: run.numbers[0]) - 1]
        values = run.part(k - run.numbers[0])
        lattice = cast("type[TapeLattice]", Lattice)(ChainRow(self.program, values))
        return lattice if run.streamed else self._cached.setdefault(k, lattice)

    def _groups(self, request: EngineRequest = PLAIN, threads: int = 1) -> list[Group]:
        """Return the runs of the lattices, as groups with one engine each."""
        if request.search is not None:
            return super()._groups(request, threads)
        return [Group(run.numbers, self, run) for run in self._runs]

    def posterior(self, budget: Budget | None, threads: int) -> Distributions:
        """Return the distribution over the labellings of each sentence; keeps potentials."""
        for run in self._runs:
            run.streamed = False
        return super().posterior(budget, threads)


class TaggedRun(ChainEngine):
    """Successive rows of `TaggedLattices`."""

    numbers: range

    def __init__(
        self,
        program: Program,
        run: Run,
        make: Callable[[Run], Values],
        *,
        checked: bool = False,
        streamed: bool = False,
    ) -> None:
        self.composition, self.checked, self.streamed = program, checked, streamed
        self.program, self._pairs = program.pairs or (program, None)
        self.rows, self.numbers = Ragged(run.offsets), range(run.first, run.end)
        self._run, self._make = run, make

    @made_once
    def joined(self) -> Values:
        """Potentials of all rows, one array for each input of the program."""
        return self._make(self._run)

    def with_potentials(self, program: Program, joined: Values) -> TaggedRun:
        """Return the same rows under another program, with other potentials."""
        return TaggedRun(program, self._run, lambda _: joined)

    def forget(self) -> None:
        """Drop arrays as large as the rows; potentials are kept unless they are streamed."""
        kept = None if self.streamed else self.__dict__.get("joined")
        super().forget()
        if kept is not None:
            self.__dict__["joined"] = kept


@lru_cache(maxsize=64)
def _tokens_of_runs(program: Program) -> int:
    """Return the number of tokens in a run, from the size of a token's potentials."""
    size = sum(int(np.prod(shape)) for shape in program.input_shapes())
    few = min(_FEW_TOKENS, _MOST_NUMBERS // size)
    return min(RUN_TOKENS // 2, max(1, few, _RUN_NUMBERS // size))
