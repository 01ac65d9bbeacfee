"""The misclassification measure by best competitors: of segments, and of whole sentences.

A segment is a run of tokens with its gold labels. What speaks for it is the score of the best path
that has these labels there, what speaks against it that of the best path that has not:

    d = max over y with y_S ≠ y*_S of g(y)  −  max over y with y_S = y*_S of g(y)

The best path that differs from the gold labels somewhere in S has the largest max-marginal of
another label at a token of S. One of the two paths is always the best path of all: only the other
one has to be traced. The whole sentence is a segment, too; the second path is then the gold one.
Source: Suzuki, McDermott and Isozaki (2006), sections 3 and 4, psi = infinity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.train.differences import Mass, Starts, traced
from fstcrf.train.forced import forced
from fstcrf.train.maxima import Maxima
from fstcrf.train.segments import Segments

__all__ = ["Rivalry"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

_NEGLIGIBLE = 1e-12  # of the largest slope: those paths are not looked for


class Rivalry:
    """The measure of each segment, and the paths behind it.

    Parameters
    ----------
    maxima : Maxima
    segments : Segments
    whole : bool
        The segments are whole sentences.

    Attributes
    ----------
    measure : float64 [M]
        d: negative where the gold labels win. −inf where nothing else is possible.
    right : bool [M]
        Whether the best path has the gold labels.
    """

    def __init__(self, maxima: Maxima, segments: Segments, *, whole: bool = False) -> None:
        self.maxima, self.segments = maxima, segments
        batch = maxima.batch
        self._sentence = batch.sentence_of[segments.start]
        self._score = maxima.score[self._sentence]
        wrong = np.concatenate([[0], np.cumsum(_state_label(maxima)[maxima.best] != batch.label)])
        self.right = wrong[segments.end] == wrong[segments.start]
        self.measure = np.empty(len(segments))
        self._token, self._state = self._rival()
        self.measure[self.right] -= self._score[self.right]
        self._forced = forced(maxima, segments.chosen(~self.right), whole=whole)
        self.measure[~self.right] = self._score[~self.right] - self._forced.score

    def _rival(self) -> tuple[Longs, Longs]:
        """Return where the competitor of each right segment differs, and write its score."""
        maxima, segments = self.maxima, self.segments.chosen(self.right)
        state, best = maxima.rival
        score = np.append(best, -np.inf)
        if not len(segments):
            none = np.empty(0, dtype=np.int64)
            return none, none
        bounds = np.stack([segments.start, segments.end], axis=1).ravel()
        top = np.maximum.reduceat(score, bounds)[::2]
        self.measure[self.right] = top
        # The first token of each segment that reaches the maximum.
        length = segments.end - segments.start
        owner = np.repeat(np.arange(len(segments)), length)
        token = np.arange(len(owner)) + np.repeat(
            segments.start - np.cumsum(length) + length, length
        )
        hit = np.flatnonzero(score[token] == top[owner])
        token = token[hit[np.searchsorted(owner[hit], np.arange(len(segments)))]]
        return token, state[token]

    def add_mass(self, slope: Floats, mass: Mass) -> None:
        """Add the derivative of sum of slope x d.

        Parameters
        ----------
        slope : float64 [M]
        mass : Mass
        """
        weight = np.where(self.right, slope, -slope)
        competes = np.isfinite(self.measure) & (
            np.abs(slope) > _NEGLIGIBLE * np.abs(slope).max(initial=0.0)
        )
        self._trace(weight[self.right], competes[self.right], mass)
        self._forced.add_mass(weight[~self.right], mass)

    def rivals(self) -> NDArray[np.int32]:
        """Return the best competitor of each sentence; the segments must be whole sentences.

        Returns
        -------
        int32 [n]
            States: those of the best path of all where that is not the gold one. The gold states
            where there is no other path.
        """
        states = self.maxima.best.copy()
        possible = np.isfinite(self.measure[self.right])
        nothing = Mass.empty(*self.maxima.marginal.shape)
        _, token, state = self._trace(np.zeros(len(possible)), possible, nothing)
        states[token] = state
        states[self._token[possible]] = self._state[possible]
        return states

    def _trace(
        self, weight: Floats, chosen: NDArray[np.bool_], mass: Mass
    ) -> tuple[Longs, Longs, Longs]:
        """Trace the competitors of the chosen ones of the right segments."""
        kept = np.flatnonzero(chosen)
        starts = Starts(self._token[kept], self._state[kept], weight[kept])
        best = self.maxima.best[starts.token].astype(np.int64)
        mass.add_states(starts.token, starts.state, starts.mass)
        mass.add_states(starts.token, best, -starts.mass)
        return traced(self.maxima, starts, starts, mass)


def _state_label(maxima: Maxima) -> NDArray[np.int32]:
    return maxima.batch.problem.topology.state_label
