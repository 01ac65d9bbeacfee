"""Relabelling between tag sets as a tape of its own: one label of a tagger may become several."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.corpus import Column, Corpus
from fstcrf.errors import NoPathError
from fstcrf.features.template import tape_column
from fstcrf.grammar import Acceptor
from fstcrf.joint.given import bare_chain, pinned
from fstcrf.once import made_once
from fstcrf.plans import Chain, Program
from fstcrf.topology import chain_topology

__all__ = ["TapeMap"]

Floats = NDArray[np.float64]


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
        Which labels of the two tapes go together, and at what score; the tape that it reads comes
        first.
    """

    tape: str
    labels: tuple[str, ...]
    acceptor: Acceptor

    @property
    def source(self) -> str:
        """Name of the tape that it reads."""
        return self.acceptor.tapes[0]

    @cached_property
    def chain(self) -> Chain:
        """The tape that it writes: no potentials of its own."""
        return bare_chain(self.tape, chain_topology(self.labels, 1))

    def values(self, n_tokens: int) -> Floats:
        """Return its node potentials, float64 [N, L]: zero."""
        return np.zeros((n_tokens, len(self.labels)))

    def decide(self, corpus: Corpus) -> Column:
        """Return the best labels where those of the tape that it reads are given.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences; the tape that it reads as a column, interned by label.

        Raises
        ------
        NoPathError
            It has no labels for those of a sentence.
        """
        given = corpus.columns[tape_column(self.source)].ids
        values = (pinned(given, len(self.acceptor.labels[0])), self.values(len(given)))
        program = self._decider
        bound = kernel.Bound(program.machine, corpus.offsets, program.moving(values))
        path, score = kernel.best_paths(bound)
        dead = np.flatnonzero(np.isneginf(score))
        if len(dead):
            raise NoPathError(
                f"the map to {self.tape!r} has no labels for those of {self.source!r}",
                sentence=int(dead[0]),
            )
        ids = program.machine.axis_states(path)[program.order.index(self.tape)]
        return Column(ids.astype(np.int32), self.labels)

    @made_once
    def _decider(self) -> Program:
        source = bare_chain(self.source, chain_topology(self.acceptor.labels[0], 1))
        return Program([source, self.chain], (), (self.acceptor,), "expanded")
