"""Whether a grammar over several tapes leaves any labelling: the Boolean product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import TooLargeError
from fstcrf.grammar import Acceptor
from fstcrf.joint.given import bare_chain
from fstcrf.model import CRF
from fstcrf.plans import Program

__all__ = ["possible_lengths", "skeleton"]


def skeleton(taggers: Sequence[CRF], conjuncts: Sequence[Acceptor]) -> Program | None:
    """Return the tapes that a grammar connects, without potentials; None where it connects none.

    What it says of a single other tape is left to the tagger of that tape.
    """
    joint = {t for acceptor in conjuncts if len(acceptor.tapes) > 1 for t in acceptor.tapes}
    if not joint:
        return None
    chains = [bare_chain(t.tape, t.topology) for t in taggers if t.tape in joint]
    return Program(chains, (), [a for a in conjuncts if joint.issuperset(a.tapes)], "expanded")


def possible_lengths(program: Program | None, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether there is a labelling of so many tokens at all, bool [B].

    Where the product is too large to look, there may be.
    """
    found = np.ones(len(lengths), dtype=bool)
    if program is None:
        return found
    try:
        machine = program.machine
    except TooLargeError:
        return found
    sizes, place = np.unique(lengths, return_inverse=True)
    for number, size in enumerate(sizes.tolist()):
        values = tuple(np.zeros((size, *shape)) for shape in program.input_shapes())
        bound = kernel.Bound(machine, np.asarray([0, size]), program.moving(values))
        found[place == number] = kernel.best_paths(bound)[1][0] > -np.inf
    return found
