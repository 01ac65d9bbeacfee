"""Arcs of one token each, at most one for each label, as a chain: a sausage.

Such lattices are chains, which the dense engine answers: it costs labels squared a token whatever
the number of arcs, and nothing for bookkeeping of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints
from fstcrf.kernel.decoding import AxisPosterior
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.dense import Dense
from fstcrf.lattices.engine import Runs
from fstcrf.lattices.tapes import chain_program
from fstcrf.lazy import made_once, memoised
from fstcrf.machines.plans import Program

_LEAST = 0.5  # of all labels at all tokens: where fewer have an arc, arcs cost less


@dataclass(frozen=True, eq=False)
class ArcChain:
    """One row of arcs as a chain.

    Parameters
    ----------
    chain : Dense
    arc : int32 [T, L]
        Arc of each label at each token; −1: there is none.
    """

    chain: Dense
    arc: Ints

    @classmethod
    def of(cls, arcs: Any) -> ArcChain | None:
        """Return the chain that `Arcs` are; None: they are none, or too few."""
        if arcs.pairs is None or len(arcs.begins) != 1 or arcs.under.shape[1] != 1:
            return None
        length, count = len(arcs.final) - 1, len(arcs.source)
        tables, right, labels = arcs.pairs.pair.shape
        if not (length and _LEAST * length * labels <= count <= length * labels):
            return None
        if (tables, right) != (1, labels + 1) or not _single(arcs):
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
        return cls(Dense(program, [(node.reshape(length, labels),)]), arc.reshape(length, labels))

    @property
    def log_z(self) -> Floats:
        """Log Z, [1]; −inf where there is no path."""
        known: AxisPosterior | None = self.__dict__.get("_sums")
        return self.chain.log_z if known is None else known.log_z

    @made_once
    def _sums(self) -> AxisPosterior:
        return kernel.axis_posterior(self.chain.bound)

    @made_once
    def posterior(self) -> Floats:
        """Probability of each arc; 0 where there is no path."""
        return np.minimum(self.marginals[self.arc >= 0], 1.0)

    @made_once
    def marginals(self) -> Floats:
        """Probability of each label at each token, [T, L]; 0 where there is no path."""
        alive = self._sums.log_z[0] > -np.inf
        return self._sums.node[0] if alive else np.zeros(self.arc.shape)

    @made_once
    def _best(self) -> tuple[Ints, Floats]:
        return kernel.best_paths(self.chain.bound)

    @property
    def best_scores(self) -> Floats:
        """Score of the best path, [1]; −inf where there is none."""
        return self._best[1]

    def _runs(self, labels: Ints, scores: Floats) -> Runs:
        """Return paths by their labels, [n, T]."""
        size = len(self.arc)
        arcs = self.arc[np.arange(size), labels].reshape(-1)
        return Runs(np.array([len(labels)]), scores, np.arange(len(labels) + 1) * size, arcs)

    def nbest(self, n: int) -> Runs:
        """Return the n best paths."""
        if n == 1:
            label, score = self._best
            alive = int(score[0] > -np.inf)
            return self._runs(label[None][:alive], score[:alive])
        for some in kernel.growing(n):
            found = kernel.nbest_paths(self.chain.bound, some)
            count = int(found.found[0])
            if count < some:
                break
        return self._runs(found.path[:count], found.score[0, :count])

    def sample(self, n: int, generator: np.random.Generator) -> Runs:
        """Return n samples, without their scores; there must be a path."""
        uniform = generator.random((n, len(self.arc)))
        return self._runs(kernel.sample_paths(self.chain.bound, uniform), np.zeros(n))


def _single(arcs: Any) -> bool:
    """Tell whether all arcs are segments of one token, and their classes are their labels."""
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
    """Return the program of pair scores; the same one for the same object."""
    pair, size = pairs.pair[0], pairs.pair.shape[2]
    ends = np.frombuffer(class_final)[:size] + final
    names = tuple(map(str, range(size)))
    parts = np.ascontiguousarray(pair[:-1]), np.ascontiguousarray(pair[-1]), ends
    return chain_program(names, "label", *(part.tobytes() for part in parts))
