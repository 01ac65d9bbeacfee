"""The chain rule, decoded exactly: p(first tape | x) · p(second tape | first, x) · ...

The normaliser of a later tagger depends on what the earlier ones said, so this is no product of
transducers. But every factor is at most one. Enumerate the first tape's labellings best first; the
best completion of each is known by decoding the other taggers with the first tape given; as soon as

    w log p(next labelling) + (the most that grammars can add)  <=  best total found

no later one can win, and the best found is proven (`labellings`). The same idea recurses over more
than two taggers. A budget is for the whole sentence: a tape whose search has come to its w-th
labelling gives every one of them 1/w of the budget for later tapes, so that rounds cost alike
however many tapes there are.

A hard grammar takes labellings away and leaves probabilities as they are: they are normalised
without it. A grammar over several tapes may leave none of the labellings that the budget allows
to look at; then something legal is taken, the best of the product.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.corpus import Corpus
from fstcrf.errors import TooLargeError
from fstcrf.joint.batches import best_paths
from fstcrf.joint.composition import BUDGET, Composition
from fstcrf.joint.labellings import Search
from fstcrf.joint.legality import possible_lengths
from fstcrf.joint.solved import Solved
from fstcrf.joint.stages import Given, Stage, largest_gains, with_tape
from fstcrf.kernel import Budget

__all__ = ["Solver"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class Solver:
    """Decodes the stages of a composition; made for one call, whose time begins with it.

    Parameters
    ----------
    composition : Composition
    budget : Budget, optional
        Its states are labellings of a tape to look at, `BUDGET` where they are the usual ones.
    """

    def __init__(self, composition: Composition, budget: Budget | None = None) -> None:
        limit = budget or Budget()
        self.composition = composition
        self.budget = BUDGET if limit.usual else limit.states
        self._end = None if limit.seconds is None else time.monotonic() + limit.seconds
        self.stages = composition.stages
        self.order = [stage.tagger.tape for stage in self.stages]
        self._gains: dict[int, Floats] = {}  # by stage, for each length

    @property
    def timed(self) -> bool:
        """Whether there is an end to the time."""
        return self._end is not None

    @property
    def late(self) -> bool:
        """Whether the time is over: the best found so far is the answer."""
        return self._end is not None and time.monotonic() > self._end

    def best(self, corpus: Corpus) -> Solved:
        """Return the best labels of all tapes; what is legal where there is anything legal.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences.
        """
        lengths = np.diff(corpus.offsets)
        possible = possible_lengths(self.composition.skeleton, lengths)
        if possible.all():
            found = self.solve(corpus)
        else:
            found = self._solved_part(corpus, possible, 0, self.budget)
        lost = np.flatnonzero(np.isneginf(found.total) & (found.bound > -np.inf))
        if len(lost):
            found.put(corpus.offsets, lost, self._legal(corpus.select(lost), found.bound[lost]))
        return found

    def _solved_part(self, corpus: Corpus, alive: NDArray[np.bool_], k: int, budget: int) -> Solved:
        """Solve some of the sentences; the others have no legal labelling."""
        nothing = np.full(len(corpus), -np.inf)
        blank = [np.full(corpus.n_tokens, -1, dtype=np.int32) for _ in self.stages[k:]]
        found, where = Solved(blank, nothing, nothing.copy()), np.flatnonzero(alive)
        if len(where):
            found.put(corpus.offsets, where, self.solve(corpus.select(where), k, budget))
        return found

    def _legal(self, corpus: Corpus, bound: Floats) -> Solved:
        """Return the best labels of the product: they are legal, and seldom far off."""
        tapes = [stage.tagger for stage in self.stages]
        labels = [np.full(corpus.n_tokens, -1, dtype=np.int32) for _ in tapes]
        found = Solved(labels, np.full(len(corpus), -np.inf), bound.copy())
        try:
            paths = best_paths(replace(self.composition, normalize="product"), corpus, 1)
        except TooLargeError:
            return found
        places = [self.composition.tapes.index(tagger.tape) for tagger in tapes]
        legal = np.asarray([i for i, path in enumerate(paths) if path is not None], dtype=np.int64)
        found.bound[[i for i, path in enumerate(paths) if path is None]] = -np.inf
        if len(legal):
            strings = [
                [label for path in paths if path is not None for label in path.labels[place]]
                for place in places
            ]
            ids = [t.topology.label_ids(s) for t, s in zip(tapes, strings, strict=True)]
            total = self.score(corpus.select(legal), dict(zip(self.order, ids, strict=True)))
            best = Solved(ids, total, np.maximum(bound[legal], total))
            found.put(corpus.offsets, legal, best)
        return found

    def score(self, corpus: Corpus, ids: Mapping[str, Ints], *, plain: bool = False) -> Floats:
        """Return the score of a labelling of each sentence, float64 [B]; −inf where illegal.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences.
        ids : mapping of str to int32 [N]
            Labels of each tape, or of the first ones alone, which have a probability of their own.
        plain : bool
            The log probability, without weights and grammar.
        """
        total = np.zeros(len(corpus))
        for stage in self.stages:
            if stage.tagger.tape not in ids:
                break
            mine = ids[stage.tagger.tape]
            total += _score(stage, stage.given(corpus), mine, plain=plain)
            corpus = with_tape(corpus, stage.tagger, mine)
        return total

    def solve(self, corpus: Corpus, k: int = 0, budget: int | None = None) -> Solved:
        """Return the best labels of the tapes from stage k on.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences; the tapes before stage k as columns.
        k : int
        budget : int, optional
            Labellings of a tape to look at: the whole budget when absent.
        """
        budget = self.budget if budget is None else budget
        stage = self.stages[k]
        given = stage.given(corpus)
        normaliser = stage.weight * stage.log_z(given)
        bound = stage.legal_bound(given)
        if k == len(self.stages) - 1:
            path, score = kernel.best_paths(bound)
            total = score - normaliser
            return Solved([stage.labels(path)], total, total)
        if any(later.conjuncts for later in self.stages[k:]):
            alive = kernel.best_paths(bound)[1] + self.gain(k, np.diff(corpus.offsets)) > -np.inf
            if not alive.all():  # those that stay are answered as they would be alone
                return self._solved_part(corpus, alive, k, budget)
        return Search(self, k, corpus, given, normaliser, budget).run()

    def gain(self, k: int, lengths: NDArray[np.int64]) -> Floats:
        """Return the most that the grammars of the stages behind k can add, for each length."""
        later = [a for stage in self.stages[k + 1 :] for a in stage.conjuncts]
        longest = int(lengths.max(initial=0))
        known = self._gains.get(k)
        if known is None or len(known) <= longest:
            known = self._gains[k] = largest_gains(later, longest)
        return known[lengths]


def _score(stage: Stage, given: Given, mine: Ints, *, plain: bool) -> Floats:
    """Return the score that labels of its tape have at one stage, float64 [B]."""
    node = np.where(stage.tagger.topology.state_label == mine[:, None], given.node, -np.inf)
    forced = replace(given, node=node)
    bound = stage.free_bound(forced) if plain else stage.legal_bound(forced)
    weight = 1.0 if plain else stage.weight
    return kernel.best_paths(bound)[1] - weight * stage.log_z(given)
