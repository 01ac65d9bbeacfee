"""Frames that collapse to strings: connectionist temporal classification as a lattice.

States / Start / Final / Arcs
    A node between frames; the class of an arc is the symbol it reads, a blank among them. A symbol
    behind another one, or behind a blank, begins a segment; the same symbol again carries it on.
    All of this is who may follow whom: T frames and V symbols have T (2 V − 1) arcs.

A path is a symbol for each frame; its string is what is left without repetitions and blanks. The
best path and the best string differ: a string has many paths, whose probabilities add up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import AS_GRAMMAR, LabelSet, label_tuple, refuse_fst
from fstcrf.arrays import Floats, Ints
from fstcrf.errors import LabelError, OptionError, TooLargeError
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.answer import Path, share
from fstcrf.lattices.arcs import MOST_ARCS, Over, SegmentArcs, accepted
from fstcrf.lattices.candidates import Candidates
from fstcrf.lattices.segments import SegmentLattice
from fstcrf.lattices.tapes import potentials
from fstcrf.lattices.tilings import SEGMENT
from fstcrf.lazy import memoised
from fstcrf.machines.grammar import Acceptor, Grammar, intersect

_PREFIXES = 10_000
BLANK = "<blank>"


class _Frames(NamedTuple):
    """What the search for strings reads: scores of frames, and what strings are legal."""

    score: Floats  # [T, V]
    blank: int
    acceptor: Acceptor | None


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A string that may go on: its labels, its state, and the log of what each frame has of it."""

    labels: tuple[int, ...]
    state: int
    symbol: Floats  # [T + 1] paths whose last frame has its last label
    blank: Floats  # [T + 1] paths whose last frame is blank


class CTCLattice(SegmentLattice):
    """The paths of frames that collapse to strings; made by `from_ctc`.

    Segments are the runs of frames of each label of the string. `best` and `nbest` are of paths,
    `strings` of strings.
    """

    frames: _Frames | None = None

    @classmethod
    def from_ctc(
        cls, scores: ArrayLike, blank: int | str = 0, *, labels: LabelSet | None = None
    ) -> CTCLattice:
        """Return the lattice of frames that collapse to strings; see `Lattice.from_ctc`."""
        value = potentials(scores, "scores", [(None, None)])
        size = value.shape[1]
        names = _names(size, blank, labels)
        column = names.index(blank) if isinstance(blank, str) and blank in names else blank
        if isinstance(column, bool) or not isinstance(column, int | np.integer):
            raise OptionError(f"blank is {blank!r}, expected a label or a column")
        if not 0 <= column < size:
            raise OptionError(f"blank is {blank!r}, expected 0 to {size - 1}")
        if (size + 1) * 2 * size > MOST_ARCS:
            raise TooLargeError(f"{size:,} symbols: their pairs are too many to write out")
        arcs = _frame_arcs(value, int(column))
        nothing = np.zeros(0, dtype=np.int32)
        lattice = cls(arcs, names, len(value), Candidates(nothing, nothing, nothing))
        lattice.frames = _Frames(value, int(column), None)
        return lattice

    # --- Strings ------------------------------------------------------------------------------

    def strings(self, n: int = 1, *, budget: int = _PREFIXES) -> list[Path[tuple[str, ...]]]:
        """Return the n most probable strings, best first, the sum over all paths of each.

        By best-first search over prefixes; what bounds a prefix is the exact sum over all strings
        that begin with it.

        Parameters
        ----------
        n : int
        budget : int
            Prefixes to look at. Where they do not suffice, what is found is not proven to be the
            best: ``exact`` is False, and no string that is not returned scores more than ``bound``.

        Returns
        -------
        list of Path
            ``score`` is the log of the sum over the string's paths.

        Raises
        ------
        OptionError
            n or a budget below 1; a lattice restricted in other ways than by labels of frames.
        """
        if n < 1 or budget < 1:
            raise OptionError(f"n is {n} and budget {budget}, expected 1 or more")
        if self.frames is None:
            raise OptionError("strings are searched before boundaries and grammars over frames")
        log_z = self.log_partition()
        if log_z == -np.inf:
            return []
        likely = self.best().labels  # what is known where the search gives up
        first = tuple(self.labels.index(label) for label in likely)
        found: list[Path[tuple[str, ...]]] = []
        for labels, score, bound, exact in _search(self.frames, budget, n, first):
            names = tuple(self.labels[k] for k in labels)
            found.append(Path(names, score, share(score, log_z), exact=exact, bound=bound))
            if len(found) == n:
                break
        return found

    def string_log_partition(self, labels: Sequence[str]) -> float:
        """Return the log of the sum over all paths with one string; −inf where there is none.

        Raises
        ------
        LabelError
            A label that the lattice does not have, or the blank.
        """
        index = {label: k for k, label in enumerate(self.labels)}
        unknown = next((label for label in labels if label not in index), None)
        blank = self.labels[self.frames.blank] if self.frames is not None else None
        if unknown is not None or blank in labels:
            raise LabelError(
                f"{unknown if unknown is not None else blank!r} is no label of strings"
            )
        if self.frames is not None:
            return _string_sum(self.frames, tuple(index[label] for label in labels))
        target = np.full((len(labels) + 1, len(self.labels)), -1, dtype=np.int32)
        target[np.arange(len(labels)), [index[label] for label in labels]] = np.arange(
            1, len(labels) + 1
        )
        final = np.full(len(labels) + 1, -np.inf)
        final[-1] = 0.0
        acceptor = Acceptor((SEGMENT,), (self.labels,), target, None, final, "a string")
        arcs = accepted(self.arcs, acceptor, self.arcs.label.astype(np.int64), None)
        return float(arcs.machine.log_partitions()[0])

    def string_probability(self, labels: Sequence[str]) -> float:
        """Return the probability of a string, that of all its paths; raises as its log Z."""
        return share(self.string_log_partition(labels), self.log_partition())

    # --- Other lattices -----------------------------------------------------------------------

    def constrained(self, grammar: Grammar, *, over: Over = "segments") -> CTCLattice:
        """Return the lattice under a grammar over the string, or over the symbols of frames.

        Parameters and errors as for `SegmentLattice.constrained`.
        """
        lattice = cast("CTCLattice", super().constrained(grammar, over=over))
        if self.frames is not None and over == "segments":
            acceptor = self.frames.acceptor
            for part in grammar.bind({SEGMENT: self.labels}):
                one = replace(part, tapes=(SEGMENT,))
                acceptor = one if acceptor is None else intersect(acceptor, one)
            lattice.frames = self.frames._replace(acceptor=acceptor)
        return lattice

    def __and__(self, grammar: Grammar) -> CTCLattice:
        """Return the lattice under a grammar over the string."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, Grammar):
            return NotImplemented
        return self.constrained(grammar)

    def restrict(
        self, mask: ArrayLike | None = None, *, boundaries: ArrayLike | None = None
    ) -> CTCLattice:
        """Return the lattice of the paths that are allowed; see `SegmentLattice.restrict`.

        ``mask`` is bool [T, V].
        """
        lattice = cast("CTCLattice", super().restrict(mask, boundaries=boundaries))
        if self.frames is not None and boundaries is None and mask is not None:
            score = np.where(np.asarray(mask, dtype=bool), self.frames.score, -np.inf)
            lattice.frames = self.frames._replace(score=score)
        return lattice

    def scale(self, factor: float) -> CTCLattice:
        """Return the lattice with every score times a factor."""
        lattice = cast("CTCLattice", super().scale(factor))
        if self.frames is not None:
            acceptor = self.frames.acceptor
            lattice.frames = self.frames._replace(
                score=_times(self.frames.score, factor),
                acceptor=None
                if acceptor is None
                else replace(
                    acceptor,
                    score=None if acceptor.score is None else acceptor.score * factor,
                    final=_times(acceptor.final, factor),
                ),
            )
        return lattice


def _times(values: Floats, factor: float) -> Floats:
    alive = values > -np.inf
    return np.where(alive, factor * np.where(alive, values, 0.0), -np.inf)


def _names(size: int, blank: int | str, labels: LabelSet | None) -> tuple[str, ...]:
    if labels is not None:
        names = label_tuple(labels)
        if len(names) != size or len(set(names)) < size:
            raise OptionError(f"{len(names)} labels for {size} columns: expected one each")
        return names
    if isinstance(blank, str):
        raise OptionError(f"blank is {blank!r}: pass labels, or the column of the blank")
    return tuple(BLANK if k == blank else str(k) for k in range(size))


def _frame_arcs(score: Floats, blank: int) -> SegmentArcs:
    """For each frame, symbols that begin or the blank, and then symbols that are repeated."""
    length, size = score.shape
    symbol = np.arange(size, dtype=np.int32)
    again = symbol[symbol != blank]
    read = np.concatenate([symbol, again])
    begins = np.arange(len(read)) < size
    count = len(read)
    source = np.repeat(np.arange(length, dtype=np.int32), count)
    final = np.full(length + 1, -np.inf)
    final[length] = 0.0

    def each(row: Ints) -> Ints:
        return np.tile(row.astype(np.int32), length)

    pairs, ending = _ctc_pairs(size, blank)
    return SegmentArcs(
        position=np.arange(length + 1),
        source=source,
        target=source + np.int32(1),
        label=each(np.where(begins & (read != blank), read, -1)),
        under=each(read),
        carries=np.tile(~begins, length),
        left=each(np.where(begins, read, read + size)),
        right=each(read),
        score=score[:, read].reshape(-1),
        origin=np.full(len(source), -1, dtype=np.int64),
        state=np.full(len(source), -1, dtype=np.int32),
        final=final,
        class_final=ending,
        pairs=pairs,
    )


@memoised(16)
def _ctc_pairs(size: int, blank: int) -> tuple[PairScores, Floats]:
    """Who may follow whom: a symbol begins behind any other one, is repeated behind itself."""
    pair = np.full((1, size + 1, 2 * size), -np.inf)
    pair[0, :, :size] = 0.0
    same = np.arange(size) != blank
    number = np.flatnonzero(same)
    pair[0, number, number] = -np.inf
    pair[0, number, size + number] = 0.0
    return PairScores(pair), np.zeros(size + 1)


# --- The search for strings -----------------------------------------------------------------------


def _others(values: Floats) -> Floats:
    """Log of the sum over all other columns, [..., V], without a subtraction."""
    left, right = np.full_like(values, -np.inf), np.full_like(values, -np.inf)
    left[..., 1:] = np.logaddexp.accumulate(values, axis=-1)[..., :-1]
    right[..., :-1] = np.logaddexp.accumulate(values[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    return np.logaddexp(left, right)


class _Strings:
    """Suffix sums of frames under an acceptor of strings, and the steps that lead to prefixes."""

    def __init__(self, frames: _Frames) -> None:
        self.score, self.blank = frames.score, frames.blank
        size = self.score.shape[1]
        acceptor = frames.acceptor
        if acceptor is None:
            self.target = np.zeros((1, size), dtype=np.int64)
            self.gain, self.final = np.zeros((1, size)), np.zeros(1)
        else:
            self.target = acceptor.target.astype(np.int64)
            gain = np.zeros(self.target.shape) if acceptor.score is None else acceptor.score
            self.gain, self.final = gain, acceptor.final
        dead = self.target < 0
        dead[:, self.blank] = True
        self.gain = np.where(dead, -np.inf, self.gain)
        self.target = np.maximum(self.target, 0)

    @cached_property
    def suffix(self) -> tuple[Floats, Floats]:
        """Logs of sums of all ways on: [T + 1, Q] behind a blank, [T + 1, Q, V] behind symbols."""
        length, size = self.score.shape
        states = len(self.final)
        if (length + 1) * states * size > MOST_ARCS:
            raise TooLargeError(
                f"{length:,} frames, {states:,} states of the grammar, {size:,} symbols: too many"
            )
        behind_blank = np.empty((length + 1, states))
        behind = np.empty((length + 1, states, size))
        behind_blank[-1], behind[-1] = self.final, self.final[:, None]
        columns = np.arange(size)
        for t in range(length - 1, -1, -1):
            row = self.score[t]
            new = row + self.gain + behind[t + 1, self.target, columns]
            skip = row[self.blank] + behind_blank[t + 1]
            behind_blank[t] = np.logaddexp(skip, np.logaddexp.reduce(new, axis=1))
            again = np.logaddexp(skip[:, None], row + behind[t + 1])
            behind[t] = np.logaddexp(again, _others(new))
        return behind_blank, behind

    def root(self) -> _Prefix:
        """Return the empty string."""
        length = len(self.score)
        blank = np.append(0.0, np.cumsum(self.score[:, self.blank]))
        return _Prefix((), 0, np.full(length + 1, -np.inf), blank)

    def begun(self, prefix: _Prefix) -> Floats:
        """Log of the sum of the paths on which another label has just begun, [T, V]."""
        mass = np.logaddexp(prefix.symbol, prefix.blank)[:-1, None]
        mass = np.repeat(mass, self.score.shape[1], axis=1)
        if prefix.labels:
            mass[:, prefix.labels[-1]] = prefix.blank[:-1]
        return np.asarray(mass + self.score + self.gain[prefix.state])

    def bounds(self, prefix: _Prefix, begun: Floats) -> Floats:
        """Log of the sum over all strings that begin with the prefix and a label, [V]."""
        behind = self.suffix[1][1:, self.target[prefix.state], np.arange(begun.shape[1])]
        return np.asarray(np.logaddexp.reduce(begun + behind, axis=0, initial=-np.inf))

    def grown(self, prefix: _Prefix, label: int, begun: Floats) -> _Prefix:
        """Return the prefix with another label, of which `begun` [T] has begun at each frame."""
        symbol, blank = [-math.inf], [-math.inf]
        again, empty = self.score[:, label].tolist(), self.score[:, self.blank].tolist()
        for t, new in enumerate(begun.tolist()):
            on, over = symbol[t] + again[t], np.logaddexp(symbol[t], blank[t]) + empty[t]
            symbol.append(float(np.logaddexp(new, on)))
            blank.append(float(over))
        state = int(self.target[prefix.state, label])
        return _Prefix((*prefix.labels, label), state, np.asarray(symbol), np.asarray(blank))

    def ended(self, prefix: _Prefix) -> float:
        """Log of the sum over the paths of exactly this string."""
        mass = np.logaddexp(prefix.symbol[-1], prefix.blank[-1])
        return float(mass + self.final[prefix.state])


def _string_sum(frames: _Frames, labels: tuple[int, ...]) -> float:
    """Log of the sum over all paths of a string.

    By the recursion over its labels with a blank before, between and behind them: a place is
    reached from itself, from the one before it, and, at a label other than the last one, from the
    label before.
    """
    places = np.full(2 * len(labels) + 1, frames.blank)
    places[1::2] = labels
    skips = np.zeros(len(places), dtype=bool)
    skips[3::2] = places[3::2] != places[1:-2:2]
    mass = np.full(len(places), -np.inf)
    mass[0] = 0.0  # before the first frame, behind nothing
    for t, row in enumerate(frames.score[:, places]):
        before = mass.copy()
        before[1:] = np.logaddexp(mass[1:], mass[:-1])
        if t:
            skipped = np.where(skips[2:], mass[:-2], -np.inf)
            before[2:] = np.logaddexp(before[2:], skipped)
        mass = before + row
    total = float(np.logaddexp.reduce(mass[-2:]))
    if frames.acceptor is None:
        return total
    known = frames.acceptor.labels[0]
    return total + frames.acceptor.walk([known[k] for k in labels])


def _search(
    frames: _Frames, budget: int, n: int, likely: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], float, float, bool]]:
    """Yield strings, best first: labels, score, bound, whether it is proven."""
    strings = _Strings(frames)
    # (−bound, labels, 0: it ends here or 1: it may go on, what it grows from)
    queue: list[tuple[float, tuple[int, ...], int, tuple[_Prefix, Floats] | None]] = []

    def look(prefix: _Prefix) -> None:
        end = strings.ended(prefix)
        if end > -np.inf:
            heapq.heappush(queue, (-end, prefix.labels, 0, None))
        if not len(frames.score):
            return
        begun = strings.begun(prefix)
        for label, bound in enumerate(strings.bounds(prefix, begun).tolist()):
            if bound > -np.inf:
                grown = prefix, begun[:, label]
                heapq.heappush(queue, (-bound, (*prefix.labels, label), 1, grown))

    look(strings.root())
    looked, told = 1, set[tuple[int, ...]]()
    while queue:
        cost, labels, _, source = heapq.heappop(queue)
        if source is None:
            told.add(labels)
            yield labels, -cost, -cost, True
        elif looked < budget:
            looked += 1
            look(strings.grown(source[0], labels[-1], source[1]))
        else:
            yield from _given_up(frames, queue, told, likely, n, -cost)
            return


def _given_up(
    frames: _Frames,
    queue: Sequence[tuple[float, tuple[int, ...], int, object]],
    told: set[tuple[int, ...]],
    likely: tuple[int, ...],
    n: int,
    bound: float,
) -> Iterator[tuple[tuple[int, ...], float, float, bool]]:
    """Yield the best strings that are known: those that were met, and that of the best path."""
    known = {entry[1]: -entry[0] for entry in queue if entry[3] is None}
    if likely not in told:
        known[likely] = _string_sum(frames, likely)
    for labels, score in heapq.nlargest(n, known.items(), key=lambda item: (item[1], item[0])):
        yield labels, score, max(bound, score), False
