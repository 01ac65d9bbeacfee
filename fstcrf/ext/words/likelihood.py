"""The likelihood of annotations of words: the set of weights, the value and the gradient.

For each text: log Z of all paths minus log Z of the paths that agree with its annotation. The
vector theta lists by how much the scale of the lexicon's costs differs from 1, if it is learnt;
weights of words; weights of neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged, Singles
from fstcrf.ext.words.candidates import TrainingLattice
from fstcrf.ext.words.machines import Shape, chained
from fstcrf.kernel import dot
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.kernel.native import Workers
from fstcrf.training.likelihood import LOG_ROUNDING, SummedLikelihood
from fstcrf.training.problem import Blocks
from fstcrf.training.shards import N_SHARDS

_MOST = 500  # texts in one chain of lattices


@dataclass(frozen=True, eq=False)
class WordSpace(Blocks):
    """Which weights classes of words and pairs of contexts have.

    Parameters
    ----------
    scaled : bool
        The scale of the lexicon's costs is learnt.
    unigrams, bigrams : int
        Weights of each.
    own : int32 [classes, templates]
        Weights of each class; the number `unigrams` represents no weight.
    pair : int32 [pairs, templates]
        Weights of each pair of neighbours; the number `bigrams` represents no weight.
    """

    scaled: bool
    unigrams: int
    bigrams: int
    own: Ints
    pair: Ints

    @property
    def blocks(self) -> tuple[int, ...]:
        """Number of weights of the scale, of words and of neighbours."""
        return int(self.scaled), self.unigrams, self.bigrams

    def scale(self, theta: Floats) -> float:
        """Return the scale of costs."""
        return 1.0 + float(theta[0]) if self.scaled else 1.0

    def values(self, theta: Floats) -> tuple[float, Floats]:
        """Return the scale, and scores of classes and of pairs, float64 [classes + pairs + 1]."""
        _, words, pairs = self.parts(theta)
        own = np.append(words, 0.0)[self.own].sum(axis=1)
        between = np.append(pairs, 0.0)[self.pair].sum(axis=1)
        return self.scale(theta), np.concatenate([own, between, [0.0]])

    def collected(self, scale: float, mass: Floats) -> Floats:
        """Return the counts of weights, from the counts `mass` of classes and pairs."""
        classes = len(self.own)
        return np.concatenate(
            [
                [scale] if self.scaled else [],
                _summed(self.own, mass[:classes], self.unigrams),
                _summed(self.pair, mass[classes:-1], self.bigrams),
            ]
        )


def _summed(rows: Ints, mass: Floats, size: int) -> Floats:
    spread = np.repeat(mass, rows.shape[1])
    found = np.bincount(rows.reshape(-1), weights=spread, minlength=size + 1)[:size]
    return found.astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class _Chain:
    """Consecutive lattices: the place of each arc's score, and its fixed part."""

    shape: Shape
    slot: Longs
    base: Floats
    offset: Floats

    @classmethod
    def of(
        cls,
        texts: Sequence[TrainingLattice],
        shapes: Sequence[Shape],
        pairs: Longs,
        base: Floats,
        own: int,
    ) -> _Chain:
        """`pairs`: codes of all pairs, ascending, with the lexicon's scores `base`."""
        shape = chained(shapes)
        slots, fixed, offsets = [], [], []
        for text, one in zip(texts, shapes, strict=True):
            pair = np.searchsorted(pairs, one.pair)
            there, word = one.pair >= 0, one.word >= 0
            slot = np.full(len(one.word), own + len(pairs), dtype=np.int64)
            slot[there] = own + pair[there]
            slot[word] = text.own[one.word[word]]
            mine, offset = np.zeros(len(slot)), np.zeros(len(slot))
            mine[there] = base[pair[there]]
            mine[word] = text.base[one.word[word]]
            offset[word] = text.offset[one.word[word]]
            slots.append(slot)
            fixed.append(mine)
            offsets.append(offset)
        return cls(shape, np.concatenate(slots), np.concatenate(fixed), np.concatenate(offsets))

    def sums(self, scale: float, values: Floats) -> tuple[float, float, Floats]:
        """Return log Z, and the expected counts of the scale and of the values."""
        score = values[self.slot] + scale * self.base + self.offset
        final = np.full(self.shape.states, -np.inf)
        final[-1] = 0.0
        machine = Acyclic(self.shape.row, self.shape.target, score, final)
        share = machine.marginals()[1]
        count = np.bincount(self.slot, weights=share, minlength=len(values))
        mass: Floats = np.asarray(count, dtype=np.float64)
        return float(machine.log_partitions()[0]), dot(share, self.base), mass


@dataclass(frozen=True, eq=False)
class LatticeProblem:
    """Texts to learn from.

    Parameters
    ----------
    texts : sequence of TrainingLattice
    pairs : int64 [pairs]
        Codes of the pairs of contexts that there are, ascending.
    base : float64 [pairs]
        The lexicon's score of each.
    """

    texts: Sequence[TrainingLattice]
    pairs: Longs
    base: Floats

    def chains(self, classes: int) -> list[tuple[_Chain, _Chain]]:
        """Return chains of all paths and of the agreeing paths."""
        arcs = Ragged.from_lengths(len(text.whole.target) for text in self.texts)
        found = []
        for first, end in pairwise(arcs.cut(max(N_SHARDS, -(-len(self.texts) // _MOST)))):
            texts = self.texts[first:end]
            whole, agreeing = [t.whole for t in texts], [t.agreeing for t in texts]
            made = [
                _Chain.of(texts, shapes, self.pairs, self.base, classes)
                for shapes in (whole, agreeing)
            ]
            found.append((made[0], made[1]))
        return found


class WordExpectation:
    """Sums over texts: log Z of all paths minus log Z of the paths that agree, and their counts.

    Parameters
    ----------
    problem : LatticeProblem
    space : WordSpace
    workers : Workers
        The result has the same bits for any number of threads.

    Attributes
    ----------
    subtracted : float
        Sum of log Z of the paths that agree, at the last call.
    """

    def __init__(self, problem: LatticeProblem, space: WordSpace, *, workers: Workers) -> None:
        self._space, self._workers, self.subtracted = space, workers, 0.0
        self._chains = problem.chains(len(space.own))

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return the difference of log Z, and of expected counts, at theta."""
        scale, values = self._space.values(theta.astype(np.float64, copy=False))

        def swept(pair: tuple[_Chain, _Chain]) -> tuple[float, float, float, Floats]:
            full, agreeing = (chain.sums(scale, values) for chain in pair)
            return full[0] - agreeing[0], agreeing[0], full[1] - agreeing[1], full[2] - agreeing[2]

        loss, costs, mass, self.subtracted = 0.0, 0.0, np.zeros(len(values)), 0.0
        for part in self._workers.map(swept, self._chains):
            loss += part[0]
            self.subtracted += part[1]
            costs += part[2]
            mass += part[3]
        return loss, self._space.collected(costs, mass)

    def curvature(self, theta: Singles | Floats) -> None:
        """Return `None`: there is no curvature."""
        del theta


def word_likelihood(
    problem: LatticeProblem, space: WordSpace, *, l2: float, threads: int = 1
) -> SummedLikelihood:
    """Return the penalised likelihood of annotations of words."""
    workers = Workers(threads)
    return SummedLikelihood(
        WordExpectation(problem, space, workers=workers),
        np.zeros(space.size),
        l2=l2,
        threads=workers,
        rounding=LOG_ROUNDING,
    )
