"""Relabelling between tag sets as a tape of its own: one label of a tagger may become several."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf.grammar import Acceptor
from fstcrf.plans import Chain
from fstcrf.topology import chain_topology

__all__ = ["TapeMap"]


@dataclass(frozen=True, eq=False)
class TapeMap:
    """A map from the labels of one tape to those of another, which is decided, too.

    Parameters
    ----------
    tape : str
        Name of the tape that it writes.
    labels : tuple of str
        Its labels.
    acceptor : Acceptor
        Which labels of the two tapes go together, and at what score.
    """

    tape: str
    labels: tuple[str, ...]
    acceptor: Acceptor

    @cached_property
    def chain(self) -> Chain:
        """The tape that it writes: no potentials of its own."""
        topology = chain_topology(self.labels, 1)
        nothing = np.zeros(len(self.labels))
        return Chain(self.tape, topology, nothing, nothing, np.zeros(len(self.labels) ** 2))

    def values(self, n_tokens: int) -> NDArray[np.float64]:
        """Return its node potentials, float64 [N, L]: zero."""
        return np.zeros((n_tokens, len(self.labels)))
