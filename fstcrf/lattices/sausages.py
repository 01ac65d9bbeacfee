"""Lattices of segments that are sausages: arcs of one token each, at most one for each label.

They are chains, which the dense engine answers: it costs labels squared a token whatever the
number of arcs, and nothing for bookkeeping of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.kernel.decoding import AxisPosterior
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.arcs import SegmentArcs
from fstcrf.lattices.batch import Group
from fstcrf.lattices.tapes import Taped, chain_program
from fstcrf.lazy import memoised
from fstcrf.machines.plans import Program

_LEAST = 0.5  # of all labels at all tokens: where fewer have an arc, arcs cost less


@dataclass(frozen=True, eq=False)
class Sausage:
    """A lattice of segments as a chain.

    Parameters
    ----------
    group : Group
        The chain.
    arc : int32 [T, L]
        Arc of each label at each token; −1: there is none.
    arcs : SegmentArcs
    """

    group: Group
    arc: Ints
    arcs: SegmentArcs

    @classmethod
    def of(cls, arcs: SegmentArcs, labels: int) -> Sausage | None:
        """Return the chain of so many labels that arcs are; None: they are none, or too few."""
        length, count = len(arcs.position) - 1, len(arcs.source)
        if not (length and _LEAST * length * labels <= count <= length * labels):
            return None
        if arcs.pairs.pair.shape != (1, labels + 1, labels) or not _single(arcs):
            return None
        if ((arcs.source[1:] == arcs.source[:-1]) & (arcs.under[1:] <= arcs.under[:-1])).any():
            return None  # a label twice at a token
        node, arc = arcs.score, np.arange(count, dtype=np.int32)
        if count < length * labels:
            cell = arcs.source * np.int64(labels) + arcs.under
            node = np.full(length * labels, -np.inf)
            arc = np.full(length * labels, -1, np.int32)
            node[cell], arc[cell] = arcs.score, np.arange(count, dtype=np.int32)
        program = _program(arcs.pairs, arcs.class_final.tobytes(), float(arcs.final[-1]))
        chain = Taped(program, (node.reshape(length, labels),))
        return cls(Group.single(chain), arc.reshape(length, labels), arcs)

    @cached_property
    def _tokens(self) -> Longs:
        return np.arange(len(self.arc))

    @cached_property
    def log_z(self) -> float:
        """Log Z; −inf where there is no path."""
        return float(self.group.log_z[0])

    @cached_property
    def posterior(self) -> AxisPosterior:
        """Probabilities of labels, and log Z."""
        return kernel.axis_posterior(self.group.bound)

    def arcs_of(self, labels: Ints) -> Ints:
        """Return the arcs of paths, by their labels, int [n, T]."""
        return self.arc[self._tokens, labels]

    @cached_property
    def _best(self) -> tuple[Ints, Floats]:
        return kernel.best_paths(self.group.bound)

    @property
    def best_score(self) -> float:
        """Score of the best path; −inf where there is none."""
        return float(self._best[1][0])

    def best(self) -> tuple[Ints, Floats]:
        """Return labels and score of the best path, which there must be, int [1, T] and [1]."""
        return self._best[0][None], self._best[1]

    def nbest(self, n: int) -> tuple[Ints, Floats]:
        """Return labels and scores of the n best paths, best first, int [k, T] and [k]."""
        for some in kernel.growing(n):
            found = kernel.nbest_paths(self.group.bound, some)
            count = int(found.found[0])
            if count < some:
                break
        return found.path[:count], found.score[0, :count]

    def sample(self, n: int, seed: int) -> tuple[Ints, Floats]:
        """Return labels and scores of n samples; there must be a path."""
        uniform = np.random.default_rng(seed).random((n, len(self.arc)))
        drawn = kernel.sample_paths(self.group.bound, uniform)
        return drawn, self._scores(drawn)

    def _scores(self, labels: Ints) -> Floats:
        """Return the scores of paths, int [n, T]."""
        pair = self.arcs.pairs.pair[0]
        ends = pair[-1, labels[:, 0]] + self.arcs.class_final[labels[:, -1]] + self.arcs.final[-1]
        links = pair[labels[:, :-1], labels[:, 1:]].sum(axis=1)
        found: Floats = ends + links + self.arcs.score[self.arc[self._tokens, labels]].sum(axis=1)
        return found

    @property
    def share(self) -> Floats:
        """Probability of each label at each token, float64 [T, L]."""
        return self.posterior.node[0]

    def by_arc(self, value: Floats) -> Floats:
        """Return what each arc has of a value of labels at tokens, [T, L]."""
        return value[self.arc >= 0]


def _single(arcs: SegmentArcs) -> bool:
    """Tell whether all arcs are segments of one token, and their classes are their labels."""
    length, classes = len(arcs.position) - 1, (arcs.left, arcs.right, arcs.label)
    return not (
        (arcs.target - arcs.source != 1).any()
        or (arcs.position != np.arange(length + 1)).any()
        or any(part is not arcs.under and (part != arcs.under).any() for part in classes)
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
