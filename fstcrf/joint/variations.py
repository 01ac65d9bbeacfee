"""The last tagger of a chain, asked about labellings of an earlier tape that differ in few tokens.

Its potentials change at those tokens alone, so its best score and its log Z are found by taking the
recursion up where the first of them lies and joining it to the known rest behind the last
(`kernel.rescored`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.corpus import Corpus
from fstcrf.joint.stages import AtLabels, Given, Stage, bounds_of, repeated
from fstcrf.plans import scaled

__all__ = ["Variations", "varies"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def varies(stage: Stage, tape: str) -> bool:
    """Whether only node potentials of a stage depend on a tape, and its grammar does not."""
    return stage.reads(tape) and not stage.fixed and stage.free.chains[0].arc is not None


class Variations:
    """A tagger's totals around one labelling of an earlier tape.

    Parameters
    ----------
    stage : Stage
    tape : str
        The earlier tape.
    corpus : Corpus
        N tokens, the earlier tapes as columns.
    around : int32 [N]
        Labels of that tape there.

    Attributes
    ----------
    labels : int32 [N]
        The tagger's best labels around them.
    total : float64 [B]
        Their weighted log probabilities.
    """

    def __init__(self, stage: Stage, tape: str, corpus: Corpus, around: Ints) -> None:
        self.stage, self.around = stage, around.copy()
        self.given = stage.given(corpus)
        path, score = kernel.best_paths(stage.legal_bound(self.given))
        self.labels = stage.labels(path)
        self.total = score - stage.weight * stage.log_z(self.given)
        self._tape, self._corpus = tape, corpus

    @cached_property
    def at_labels(self) -> AtLabels:
        """Node potentials of tokens at other labels of the tape."""
        return self.stage.at_labels(self._tape, self._corpus)

    def totals(self, sentences: NDArray[np.int64], ids: Ints) -> Floats:
        """Return the best weighted log probabilities, float64 [C].

        Parameters
        ----------
        sentences : int64 [C]
            Not falling.
        ids : int32
            Labels of the earlier tape, one sentence after the other.
        """
        offsets = self.given.offsets
        tokens = repeated(offsets, sentences)
        changed = np.flatnonzero(ids != self.around[tokens])
        where = tokens[changed]
        labels = np.concatenate([ids[changed], self.around[where]])
        new, old = np.split(self.at_labels(np.concatenate([where, where]), labels), 2)
        node = self.given.node[where] - old + new
        bounds = bounds_of(offsets, sentences)
        variant = np.searchsorted(bounds, changed, side="right") - 1
        kept, place = np.unique(sentences, return_inverse=True)
        variants = kernel.Variants(
            place.astype(np.int64),
            np.searchsorted(changed, bounds).astype(np.int64),
            (where - offsets[sentences[variant]]).astype(np.int32),
            node,
        )
        base = Given(bounds_of(offsets, kept), self.given.node[repeated(offsets, kept)], None, ())
        log_z = kernel.rescored(self.stage.free_bound(base), variants, best=False)
        weight = self.stage.weight
        if weight != 1.0:
            variants = variants._replace(node=scaled(node, weight))
        best = kernel.rescored(self.stage.legal_bound(base), variants, best=True)
        return best - weight * log_z
