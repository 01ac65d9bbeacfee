"""The tapes of a composition as axes of a machine: their order, and where their labels are.

==============  =========================================
reading_order   names, each after those that it reads
Axes            the tapes in that order, and their states
==============  =========================================

An outer index of axis k is a joint state of the axes before it, the first axis slowest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.plans.chain import Chain

__all__ = ["Axes", "reading_order"]

Ints = NDArray[np.int32]


def reading_order(reads: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return tapes in their order, but each after those it reads.

    Parameters
    ----------
    reads : mapping of str to names
        What each tape reads.

    Raises
    ------
    OptionError
        Tapes that read each other in a circle, or what is not there.
    """
    order: list[str] = []
    while len(order) < len(reads):
        waiting = [tape for tape in reads if tape not in order]
        ready = next((tape for tape in waiting if set(reads[tape]) <= set(order)), None)
        if ready is None:
            raise OptionError(f"tapes read each other in a circle: {', '.join(waiting)}")
        order.append(ready)
    return tuple(order)


class Axes:
    """The tapes of a composition, in the order in which a machine has them.

    Parameters
    ----------
    chain : mapping of str to Chain
        By tape; every tape comes after those it reads, else the order is that of the mapping.

    Raises
    ------
    OptionError
        A tape that is read but not there; tapes that read each other in a circle.
    """

    def __init__(self, chain: Mapping[str, Chain]) -> None:
        self.chain = chain
        for name, one in chain.items():
            missing = set(one.reads) - chain.keys()
            if missing:
                raise OptionError(
                    f"the tape {name!r} reads {', '.join(map(repr, sorted(missing)))}, which is "
                    "not part of the composition"
                )
        self.order = reading_order({name: one.reads for name, one in chain.items()})

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """States of each axis."""
        return tuple(self.chain[tape].topology.n_states for tape in self.order)

    @property
    def last(self) -> Chain:
        """The chain of the last axis."""
        return self.chain[self.order[-1]]

    def owner(self, tapes: Sequence[str]) -> str:
        """Return the tape that comes last among the axes."""
        return max(tapes, key=self.order.index)

    def sizes(self, context: Sequence[str]) -> tuple[int, ...]:
        """Return how many labels tapes have."""
        return tuple(len(self.chain[tape].labels) for tape in context)

    def states_before(self, k: int) -> list[NDArray[np.int64]]:
        """Return the states of the first k axes at every outer index of axis k."""
        return [s.reshape(-1) for s in np.indices(self.shape[:k])] if k else []

    @cached_property
    def outer_labels(self) -> dict[str, Ints]:
        """Label of every tape but the last at every outer index of the last."""
        states = self.states_before(len(self.order) - 1)
        return {
            tape: self.chain[tape].topology.state_label[s]
            for tape, s in zip(self.order, states, strict=False)
        }

    def joint_labels(self) -> dict[str, NDArray[np.int64]]:
        """Return the label of every tape in every joint state."""
        states = np.indices(self.shape).reshape(len(self.order), -1)
        return {
            tape: self.chain[tape].topology.state_label[s].astype(np.int64)
            for tape, s in zip(self.order, states, strict=True)
        }

    def label_place(self, context: Sequence[str], k: int) -> Ints | None:
        """Return which combination of labels an outer index of axis k has; None without any."""
        if not context:
            return None
        states = dict(zip(self.order, self.states_before(k), strict=False))
        labels = [self.chain[t].topology.state_label[states[t]] for t in context]
        return np.ravel_multi_index(labels, self.sizes(context)).astype(np.int32)
