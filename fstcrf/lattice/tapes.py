"""The potentials of one sentence, tape by tape.

=====  =========================================================
Taped  a program and what one sentence brings; what its tapes are
=====  =========================================================

What is said of labels is said of each tape: of one tape it is an array or a tuple, of several a
tuple of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.lattice.path import Labels
from fstcrf.plans import Program

__all__ = ["Taped"]

Floats = NDArray[np.float64]


class Taped:
    """What one sentence brings to a program.

    Parameters
    ----------
    program : Program
        The composition: tapes, topologies, couplings, grammar.
    values : tuple of float64 arrays
        One array for each of ``program.inputs``.
    """

    def __init__(self, program: Program, values: tuple[Floats, ...]) -> None:
        self.program, self.values = program, values

    def __len__(self) -> int:
        return len(self.values[0])

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return self.program.tapes

    @property
    def labels(self) -> Labels:
        """The labels; axis of `marginals` and of masks."""
        return self.per_tape(self.program.labels)  # type: ignore[no-any-return]

    def per_tape(self, make: Callable[[str], Any]) -> Any:
        """Return what a function makes of the only tape, or a tuple of what it makes of each."""
        if len(self.tapes) == 1:
            return make(self.tapes[0])
        return tuple(make(tape) for tape in self.tapes)

    def of_tape(self, answer: Any, tape: str) -> Any:
        """Return what an answer about all tapes says of one."""
        name = self.tape_named(tape)
        return answer if len(self.tapes) == 1 else answer[self.tapes.index(name)]

    def tape_named(self, tape: str | None) -> str:
        """Return a tape by name, or the only one.

        Raises
        ------
        OptionError
            There are several, or none of that name.
        """
        if tape is None and len(self.tapes) == 1:
            return self.tapes[0]
        if tape not in self.tapes:
            wanted = "say which tape" if tape is None else f"no tape {tape!r}"
            raise OptionError(f"{wanted}: there is {', '.join(self.tapes)}")
        return str(tape)

    def path_labels(self, path: NDArray[np.int32]) -> Labels:
        """Return the labels along joint states."""
        axes = self.program.decoder.machine.axis_states(path)
        states = dict(zip(self.program.order, axes, strict=True))

        def names(tape: str) -> tuple[str, ...]:
            topology = self.program.chain[tape].topology
            return tuple([topology.labels[i] for i in topology.state_label[states[tape]].tolist()])

        return self.per_tape(names)  # type: ignore[no-any-return]

    def state_potentials(self, tape: str) -> int:
        """Return which of the values holds a tape's own node potentials."""
        return next(
            k
            for k, what in enumerate(self.program.inputs)
            if what.kind == "node" and what.tape == tape and not what.context
        )

    def with_values(self, changed: Mapping[int, Floats]) -> Self:
        """Return the same with other values at some places."""
        values = tuple(changed.get(k, value) for k, value in enumerate(self.values))
        return type(self)(self.program, values)
