"""Sausages: arcs of one token each, at most one for each label, as a chain of tokens.

The engine of chains answers questions about such arcs faster: it costs L² for each token, and has
no bookkeeping of arcs. Chains are joined with chains only. So each row has one form, and its
answers have the same bits in every batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Ragged
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.chains import ChainEngine
from fstcrf.lattices.engine import PathBatch
from fstcrf.lattices.inputs import chain_program
from fstcrf.lazy import made_once, memoised
from fstcrf.machines.plans import Program

if TYPE_CHECKING:
    from fstcrf.lattices.arcs import ArcEngine

_LEAST = 0.5
"""Smallest number of arcs, relative to tokens times labels, for which a chain is faster."""


@dataclass(frozen=True, eq=False)
class ArcChain:
    """A batch of rows of arcs in the form of chains.

    Parameters
    ----------
    program : Program
    nodes : sequence of float64 [T, L]
        Scores of the labels at the tokens of each row; −inf without an arc.
    arc : int32 [N, L]
        Arc of each label at each token of all rows, or −1.
    """

    program: Program
    nodes: Sequence[Floats]
    arc: Ints

    @classmethod
    def of(cls, arcs: ArcEngine) -> ArcChain | None:
        """Return the chain form of an engine of one row, or None if there is no such form."""
        if arcs.pairs is None or len(arcs.begins) != 1 or arcs.under.shape[1] != 1:
            return None
        length, count = len(arcs.final) - 1, len(arcs.source)
        tables, right, labels = arcs.pairs.pair.shape
        if not (length and _LEAST * length * labels <= count <= length * labels):
            return None
        if (tables, right) != (1, labels + 1) or not _is_sausage(arcs):
            return None
        under = arcs.under[:, 0]
        if ((arcs.source[1:] == arcs.source[:-1]) & (under[1:] <= under[:-1])).any():
            return None  # a label twice at a token
        node, arc = arcs.score, np.arange(count, dtype=np.int32)
        if count < length * labels:
            cell = arcs.source * np.int64(labels) + under
            node = np.full(length * labels, -np.inf)
            arc = np.full(length * labels, -1, np.int32)
            node[cell], arc[cell] = arcs.score, np.arange(count, dtype=np.int32)
        program = _program(arcs.pairs, arcs.class_final.tobytes(), float(arcs.final[-1]))
        return cls(program, [node.reshape(length, labels)], arc.reshape(length, labels))

    @staticmethod
    def joined(chains: Sequence[ArcChain | None], counts: Sequence[int]) -> ArcChain | None:
        """Return one form for the rows of several chains of one program.

        Parameters
        ----------
        chains : sequence of (ArcChain or None)
            The result is None if one of them is None.
        counts : sequence of int
            Number of arcs of each chain.
        """
        parts = [part for part in chains if part is not None]
        if len(parts) < len(chains):
            return None
        shift = np.repeat(Ragged.from_lengths(counts).offsets[:-1], [len(p.arc) for p in parts])
        arc = np.concatenate([part.arc for part in parts])
        moved = np.where(arc >= 0, arc + shift[:, None], -1).astype(np.int32)
        return ArcChain(parts[0].program, [node for part in parts for node in part.nodes], moved)

    @made_once
    def _chain(self) -> ChainEngine:
        return ChainEngine(self.program, [(node,) for node in self.nodes])

    @property
    def log_z(self) -> Floats:
        """Log Z of each row, float64 [B]; −inf for a row without a path."""
        return self._chain.log_z

    @made_once
    def posterior(self) -> Floats:
        """Probability of each arc, float64 [A]; 0 in a row without a path."""
        return self.marginals[self.arc >= 0]

    @made_once
    def marginals(self) -> Floats:
        """Probability of each label at each token, float64 [N, L]; 0 in a row without a path."""
        sums = kernel.axis_posterior(self._chain.bound)
        alive = np.repeat(sums.log_z > -np.inf, self._chain.rows.lengths)
        return np.where(alive[:, None], np.minimum(sums.node[0], 1.0), 0.0)

    @property
    def successions(self) -> Floats:
        """Probability of each pair of labels at tokens t − 1 and t, [N, L, L]."""
        return self._chain.successions([0])[0]

    @property
    def best_scores(self) -> Floats:
        """Score of the best path of each row, float64 [B]; −inf for a row without a path."""
        return self._chain.best_scores

    def nbest(self, n: int) -> PathBatch:
        """Return the n best paths of each row."""
        return self._of_arcs(self._chain.nbest(n))

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> PathBatch:
        """Return n samples of each row, without scores; each row must have a path."""
        return self._of_arcs(self._chain.sample(n, generators))

    def _of_arcs(self, paths: PathBatch) -> PathBatch:
        """Return paths of labels as paths of arcs."""
        first = np.repeat(self._chain.rows.offsets[:-1], paths.counts)
        arcs = self.arc[Ragged(paths.bounds).ranges(first), paths.elements]
        return PathBatch(paths.counts, paths.score, paths.bounds, arcs)


def _is_sausage(arcs: ArcEngine) -> bool:
    """Return whether each arc is a segment of one token whose label is also its class."""
    under, classes = arcs.under[:, 0], (arcs.left, arcs.right, arcs.label[:, 0])
    return not (
        (arcs.target - arcs.source != 1).any()
        or (arcs.position != np.arange(len(arcs.position))).any()
        or any((part != under).any() for part in classes)
        or arcs.carries.any()
        or (arcs.final[:-1] > -np.inf).any()
        or not np.isfinite(arcs.final[-1])
    )


@memoised(64)
def _program(pairs: PairScores, class_final: bytes, final: float) -> Program:
    """Return the program of pair scores; the same `pairs` object has the same program."""
    pair, size = pairs.pair[0], pairs.pair.shape[2]
    ends = np.frombuffer(class_final)[:size] + final
    names = tuple(map(str, range(size)))
    parts = np.ascontiguousarray(pair[:-1]), np.ascontiguousarray(pair[-1]), ends
    return chain_program(names, "label", *(part.tobytes() for part in parts))
