"""Lattices over an engine: every question once, whatever the kind.

A lattice is one row of an engine, the names of its tapes, and grammars, which are multiplied in
when something is first asked. All that is no call of `fstcrf.lattices.engine.Engine` is read off
here, through the engine's readings. Kinds are constructors, see
`fstcrf.lattices.constructors`: nothing below asks which one made a lattice, but whether a tape has
segments or a label for each token.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from fstcrf import display
from fstcrf.arguments import AS_GRAMMAR, TRANSDUCED, one_of, real_number, refuse_fst
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import (
    GrammarError,
    LabelError,
    NoPathError,
    OptionError,
    ShapeError,
    TooLargeError,
)
from fstcrf.files import write_picture
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.answer import Path, Places, share, shown_tapes
from fstcrf.lattices.arcs import Arcs, scaled
from fstcrf.lattices.confidence import Confidence, Interval
from fstcrf.lattices.engine import Over, Runs
from fstcrf.lattices.machines import joint_arrays
from fstcrf.lattices.sequences import Found, best_sequences, probable_sequences
from fstcrf.lattices.spans import MinimumRisk, ProbableSpans
from fstcrf.lattices.tapes import Taped, distinct_tapes, potentials, scaled_lattice
from fstcrf.machines import openfst, pictures
from fstcrf.machines.grammar import Acceptor, Grammar
from fstcrf.ragged import Ragged

if TYPE_CHECKING:
    import pynini

    from fstcrf.lattices.ctc import Frames

SEGMENT = "segment"
"""Name of the tape of segments."""

Loss = Literal["token", "span"]

_PREFIXES = 10_000


class Tape(NamedTuple):
    """A tape's name and labels; `segments`: they lie on stretches, not on each token."""

    name: str
    labels: tuple[str, ...]
    segments: bool


class Rule(NamedTuple):
    """A part of a grammar, the numbers of the tapes that it reads, and what of them."""

    acceptor: Acceptor
    tapes: tuple[int, ...]
    over: Over


class SegmentCounts(NamedTuple):
    """What is expected of a lattice: the gradient of its log Z by each score.

    Parameters
    ----------
    arcs : float64 [E]
        By the score of each given arc: its probability.
    transitions : float64 [L, L]
        By the scores of labels of the first tape that follow one another.
    initial, final : float64 [L]
        By the scores of the first and the last label.
    """

    arcs: Floats
    transitions: Floats
    initial: Floats
    final: Floats


@dataclass(frozen=True, eq=False)
class _Listed:
    """The distinct segments that begin with arcs, and what each has of their probabilities."""

    key: Longs  # ascending
    of: Longs  # which of them each fact is
    start: Longs
    end: Longs
    label: Longs
    share: Floats


def unknown_label(label: str, labels: Sequence[str]) -> str:
    """Return the message about a label that is not in the list."""
    known = ", ".join(labels[:12]) + (", …" if len(labels) > 12 else "")
    return f"unknown label {label!r}; the labels are {known}"


class ArcLattice:
    """A weighted set of paths: of segments, spans, frames, words, or of an acyclic machine.

    Made by the ``from_`` methods of `fstcrf.Lattice`, by taggers, and from others by
    ``lattice & grammar`` and ``lattice @ lattice``. What is said of labels is said of each tape: a
    lattice of one tape gives arrays and tuples, one of several gives a tuple of them.

    Parameters
    ----------
    free : Arcs
        One row, without the grammar.
    on : sequence of Tape
    given : int
        Arcs that were given, which `Arcs.origin` numbers.
    rules : sequence of Rule
        The grammar.
    frames : Frames, optional
        The frames of a CTC lattice, in which strings are searched.
    dead : int, optional
        First token that no path passes, where it is known why there is none.
    """

    def __init__(
        self,
        free: Arcs,
        on: Sequence[Tape],
        *,
        given: int = 0,
        rules: Sequence[Rule] = (),
        frames: Frames | None = None,
        dead: int | None = None,
    ) -> None:
        self.free, self.given, self.rules = free, given, tuple(rules)
        self.on, self._frames, self._dead = tuple(on), frames, dead
        if not rules:
            self.__dict__["engine"] = free

    def __reduce__(self) -> tuple[Any, ...]:
        options = {"given": self.given, "rules": self.rules, "frames": self._frames}
        return _made, (self.free, self.on, options | {"dead": self._dead})

    def _with(self, free: Arcs, **changed: Any) -> Self:
        parts: dict[str, Any] = {
            "given": self.given,
            "rules": self.rules,
            "frames": self._frames,
            "dead": self._dead,
        }
        return type(self)(free, self.on, **(parts | changed))

    @cached_property
    def engine(self) -> Arcs:
        """What answers: the paths under the grammar."""
        found = self.free
        for rule in self.rules:
            found = found.product(*rule)
        return found

    @property
    def clocked(self) -> Arcs:
        """The engine with each node at one token: what is asked of tokens is asked of it."""
        return self.engine.clocked

    @cached_property
    def _searched(self) -> Frames | None:
        """The frames in which strings are searched; None: the arcs, as of all other lattices."""
        if self._frames is None or any(rule.over != "segments" for rule in self.rules):
            return None
        return self._frames.under([rule.acceptor for rule in self.rules])

    @property
    def timed(self) -> bool:
        """Whether paths cover a text, and so the same tokens."""
        return any(tape.segments for tape in self.on)

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return tuple(tape.name for tape in self.on)

    @property
    def labels(self) -> Any:
        """The labels; axis of `marginals` and of masks."""
        return self._each(lambda k: self.on[k].labels)

    def _each(self, make: Callable[[int], Any]) -> Any:
        found = tuple(map(make, range(len(self.on))))
        return found if len(found) > 1 else found[0]

    def _number(self, tape: str | None) -> int:
        if tape is None:
            return 0
        if tape not in self.tapes:
            raise OptionError(f"no tape {tape!r}: there is {', '.join(self.tapes)}")
        return self.tapes.index(tape)

    @property
    def length(self) -> int:
        """Tokens of the text, or of the longest path where there is no text."""
        if self.timed:
            return int(self.free.rows.lengths[0])
        there = (self.engine.final > -np.inf).any()
        return int((self.clocked if there else self.free.clocked).rows.lengths[0])

    def __len__(self) -> int:
        """Tokens; raises ShapeError where paths differ."""
        shortest, longest = self.lengths
        if shortest != longest:
            raise ShapeError(
                f"len() needs paths of one length; these have {shortest} to {longest} labels"
            )
        return shortest

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of the shortest and of the longest path; zeros where there is none."""
        return (self.length, self.length) if self.timed else self._lengths

    @cached_property
    def _lengths(self) -> tuple[int, int]:
        return self.engine.lengths()

    def __repr__(self) -> str:
        arcs = f"{len(self.engine.source):,} arcs, {len(self.on[0].labels)} labels"
        size = f"{self.length} tokens" if self.timed else f"{self._states:,} states"
        behind = f", beside {', '.join(self.tapes[1:])}" if len(self.on) > 1 else ""
        return f"<ArcLattice: {size}, {arcs}{behind}>"

    @property
    def _states(self) -> int:
        return len(self.engine.final)

    def _repr_html_(self) -> str:
        """Return its best path for notebooks."""
        head = display.heading(repr(self))
        if self.log_partition() == -np.inf:
            forbidden = "no sequence of segments covers the text"
            return head + display.note(
                forbidden if self.timed else "every label sequence is forbidden"
            )
        if not self.timed:
            return display.picture(head, self.best()._repr_html_())
        rows = {"": tuple(f"{s.start}:{s.end} {s.type}" for s in self.best().segments)}
        return display.picture(head, display.sequences(rows))

    # --- Paths --------------------------------------------------------------------------------

    def best(self) -> Path:
        """Return the best path.

        Ties: ending comes before going on, then the smaller label, then the shorter segment, at the
        earliest token where the candidates differ.

        Raises
        ------
        NoPathError
            There is no path, with the first token that none passes where there is a text.
        """
        runs = self.engine.nbest(1)
        if not len(runs.score):
            raise self.no_path()
        return self._paths(runs)[0]

    def nbest(self, n: int, *, tapes: Sequence[str] | None = None) -> list[Path]:
        """Return the n best paths, or all where there are fewer; ties as for `best`.

        Parameters
        ----------
        n : int
        tapes : sequence of str, optional
            The n best rows of labels of these tapes, whatever the others say and wherever they lie.
            Each is there once, its score is that of its best path, its probability is summed over
            all of its paths. `strings` ranks those of the first tape by that sum.

        Raises
        ------
        OptionError
            n is negative, or tapes that there are not.
        """
        shown = None if tapes is None else shown_tapes(self.tapes, tapes)
        if n < 0:
            raise OptionError(f"n is {n}, expected 0 or more")
        if shown is None or (len(self.on) == 1 and self._deterministic):
            return self._paths(self.engine.nbest(n))
        numbers = [self.tapes.index(tape) for tape in shown]
        machine, code, known = self._sequences(numbers)
        found = islice(best_sequences(machine, code), n)
        return [self._summed(numbers, known[list(x)], score) for x, score in found]

    def strings(self, n: int = 1, *, budget: int = _PREFIXES) -> list[Path[tuple[str, ...]]]:
        """Return the n most probable label sequences, best first, the sum over all paths of each.

        By best-first search over prefixes; what bounds a prefix is the exact sum over all sequences
        that begin with it. Of the first tape, where there are several.

        Parameters
        ----------
        n : int
        budget : int
            Prefixes to look at. Where they do not suffice, what is found is not proven to be the
            best: ``exact`` is False, and no sequence that is not returned scores more than
            ``bound``.

        Returns
        -------
        list of Path
            ``score`` is the log of the sum over the paths of the labels.

        Raises
        ------
        OptionError
            n or a budget below 1.
        """
        if n < 1 or budget < 1:
            raise OptionError(f"n is {n} and budget {budget}, expected 1 or more")
        log_z = self.log_partition()
        if log_z == -np.inf:
            return []
        best = self.engine.told(self.engine.nbest(1).elements, 0).label.tolist()
        if self._searched is not None:
            found = self._searched.search(budget, n, tuple(best))
        else:
            machine, code, known = self._sequences([0])
            place = {label: k for k, (label,) in enumerate(known.tolist())}
            likely, score = tuple(place[k] for k in best), self._sum_of([0], [best])
            first = Found(likely, score, score, exact=False)
            every = probable_sequences(machine, code, budget, first)
            found = (one._replace(labels=tuple(known[list(one.labels), 0])) for one in every)
        names = self.on[0].labels
        return [
            Path(
                tuple(names[k] for k in one.labels),
                one.score,
                share(one.score, log_z),
                exact=one.exact,
                bound=one.bound,
            )
            for one in islice(found, n)
        ]

    def sample(self, n: int, *, seed: int = 0) -> list[Any]:
        """Return n independent exact samples: paths, or their labels where there is no text.

        Raises
        ------
        OptionError
            n is negative.
        NoPathError
            There is no path.
        """
        self._check_alive()
        paths = self._paths(self.engine.sample(n, [np.random.default_rng(seed)]))
        return paths if self.timed else [path.labels for path in paths]

    def _paths(self, runs: Runs) -> list[Path]:
        return self.paths(self.engine, runs, self.log_partition())

    def paths(self, arcs: Arcs, runs: Runs, log_z: float) -> list[Path]:
        """Return what paths through arcs say, log Z being known."""
        scores = runs.score.tolist()
        if len(self.on) == 1:
            labels, places = self._column(arcs, runs, 0, self.on[0])
        else:
            each = [self._column(arcs, runs, k, tape) for k, tape in enumerate(self.on)]
            labels, places = (list(zip(*parts, strict=True)) for parts in zip(*each, strict=True))
        return [
            Path(label, score, share(score, log_z), True, score, place)  # noqa: FBT003
            for label, place, score in zip(labels, places, scores, strict=True)
        ]

    def _column(
        self, arcs: Arcs, runs: Runs, number: int, tape: Tape
    ) -> tuple[list[Any], list[Any]]:
        """Return the labels of one tape on each path, and where they lie."""
        told, bounds = arcs.told(runs.elements, number), runs.bounds
        names, several = tape.labels, len(self.on) > 1
        label = tuple([names[k] for k in told.label.tolist()])
        cuts = (bounds if told.at is None else np.searchsorted(told.at, bounds)).tolist()
        pairs = [*pairwise(cuts)]
        labels = [label[a:b] for a, b in pairs]
        if not tape.segments:
            return labels, [None if several else ()] * len(labels)
        start, end = (tuple(place.tolist()) for place in arcs.places(told))
        origin = arcs.origin[told.first] if number == 0 else np.full(len(label), -1)
        places = [Places(start[a:b], end[a:b], origin[a:b]) for a, b in pairs]
        return labels, places if several else [(place,) for place in places]

    @property
    def _deterministic(self) -> bool:
        """A label sequence has at most one path."""
        arcs = self.engine
        if arcs.pairs is not None:
            return False
        label = arcs.label[:, 0]
        twice = (np.diff(arcs.source) == 0) & (np.diff(label) == 0)
        return not twice.any() and bool((label >= 0).all())

    def _sequences(self, tapes: Sequence[int]) -> tuple[Any, Ints, Ints]:
        """Return a machine, what each arc reads of some tapes, and the labels that that stands for.

        −1: nothing.
        """
        arcs = self.engine
        machine, which = arcs.explicit
        known, code = np.unique(arcs.label[:, tapes], axis=0, return_inverse=True)
        code = np.where((known < 0).all(axis=1), -1, np.arange(len(known)))[code.reshape(-1)]
        read = code if which is None else np.append(code, -1)[which]
        return machine, read.astype(np.int32), known

    def _summed(self, tapes: Sequence[int], label: Ints, score: float) -> Path:
        """Return the path of labels, [k, tapes], with the probability of all that say so."""
        rows = [row[row >= 0].tolist() for row in label.reshape(-1, len(tapes)).T]
        names = [
            tuple(self.on[k].labels[x] for x in row) for k, row in zip(tapes, rows, strict=True)
        ]
        chance = share(self._sum_of(tapes, rows), self.log_partition())
        labels = names[0] if len(names) == 1 else tuple(names)
        return Path(labels, score, chance, exact=True, bound=score)

    def _sum_of(self, tapes: Sequence[int], rows: Sequence[Sequence[int]]) -> float:
        """Log of the sum over the paths with these labels on some tapes."""
        found = self.engine
        for tape, row in zip(tapes, rows, strict=True):
            found = found.spelling(tape, row)
        return float(found.log_z[0])

    # --- Sums ---------------------------------------------------------------------------------

    def log_partition(self) -> float:
        """Return log Z, the log of the sum over all paths; −inf where there is none."""
        return float(self.engine.log_z[0])

    def entropy(self) -> float:
        """Return the entropy of the distribution over paths, in nats.

        Raises
        ------
        NoPathError
            There is no path.
        """
        self._check_alive()
        return float(self.engine.entropies()[0])

    def marginals(self, tape: str | None = None) -> Any:
        """Return the probability that each token is under each label, float64 [T, L].

        Parameters
        ----------
        tape : str, optional
            Of this tape; of all tapes a tuple when absent.

        Raises
        ------
        OptionError
            No such tape.
        NoPathError
            There is no path.
        """
        return self._each(self._marginals) if tape is None else self._marginals(self._number(tape))

    def _marginals(self, tape: int) -> Floats:
        found = self.clocked.marginals(tape, len(self.on[tape].labels))
        self._check_alive()
        return found

    def max_marginals(self) -> Any:
        """Return the score of the best path through each label, float64 [T, L]; −inf: none."""
        best = self.clocked.maxima()

        def of(tape: int) -> Floats:
            size = len(self.on[tape].labels)
            return self.clocked.covers(tape).highest(best, self.length, size)

        return self._each(of)

    def arc_marginals(self) -> Any:
        """Return the probability of each succession of labels, float64 [T − 1, L, L].

        Entry (t, i, j): token t is under label i and token t + 1 under label j.

        Raises
        ------
        NoPathError
            There is no path.
        """
        self._check_alive()
        return self._each(self._successions)

    def _successions(self, tape: int) -> Floats:
        size, both = len(self.on[tape].labels), self._after_last(tape, "tokens")
        code, share_ = both.label[:, -1].astype(np.int64) - size, both.posterior
        behind = np.flatnonzero(code >= 0)
        token = both.position[both.source]
        cells = [token[behind] * size**2 + code[behind]]
        within = Ragged.from_lengths(np.maximum(both.tokens - 1, 0))
        arc = within.rows()
        same = both.under[arc, tape].astype(np.int64) * (size + 1)
        cells.append(within.ranges(token + 1) * size**2 + same)
        weights = np.concatenate([share_[behind], share_[arc]])
        total = np.bincount(
            np.concatenate(cells), weights=weights, minlength=max(self.length, 1) * size**2
        )
        return total.astype(np.float64).reshape(-1, size, size)[1:]

    def _after_last(self, tape: int, over: Over) -> Arcs:
        """Return the product with the machine whose state is the last label: 0, none, or label + 1.

        Its last tape has state · labels + label.
        """
        labels = self.on[tape].labels
        target = np.tile(np.arange(1, len(labels) + 1, dtype=np.int32), (len(labels) + 1, 1))
        last = Acceptor(("",), (labels,), target, None, np.zeros(len(target)), "successions")
        return self.clocked.product(last, [tape], over, written=True)

    def expectations(self) -> SegmentCounts:
        """Return what is expected of the lattice: the gradient of log Z.

        Raises
        ------
        NoPathError
            There is no path.
        """
        self._check_alive()
        arcs, size = self.engine, len(self.on[0].labels)
        mine = self.arc_probabilities()
        own = arcs.pairs is not None and arcs.pairs.pair.shape == (1, size + 1, size)
        if own and (arcs.left == arcs.label[:, 0]).all():
            count, ends = arcs.met()
            return SegmentCounts(mine, count[:-1], count[-1], ends[:-1])
        both = self._after_last(0, "segments")
        code = both.label[:, -1]
        there = code >= 0
        weights = both.posterior[there]
        found = np.bincount(code[there], weights=weights, minlength=(size + 1) * size)
        total: Floats = found.astype(np.float64).reshape(size + 1, size)
        last = np.maximum(total.sum(axis=0) - total[1:].sum(axis=1), 0.0)
        return SegmentCounts(mine, total[1:], total[0], last)

    def arc_probabilities(self) -> Floats:
        """Return the probability of each arc that was given, float64 [E].

        Raises
        ------
        NoPathError
            There is no path.
        """
        self._check_alive()
        known, arcs = self.engine.origin >= 0, self.engine
        total = np.bincount(arcs.origin[known], weights=arcs.posterior[known], minlength=self.given)
        return total.astype(np.float64)

    def confidence(self) -> Confidence:
        """Return how sure the best legal path is, and how much of the model is legal at all.

        Raises
        ------
        NoPathError
            There is no path.
        """
        path = self.best()
        silent = [rule._replace(acceptor=_silent(rule.acceptor)) for rule in self.rules]
        hard = self._with(self.free, rules=silent).log_partition()
        legal = share(hard, float(self.free.log_z[0]))
        sure = Interval(path.probability, path.probability)
        return Confidence(path, sure, Interval(legal, legal), "exact", 1.0)

    # --- Segments -----------------------------------------------------------------------------

    def _of_segments(self, tape: str | None) -> int:
        if tape is not None:
            return self._number(tape)
        return next((k for k, one in enumerate(self.on) if one.segments), 0)

    def span_probability(
        self, start: int, end: int, label: str, *, tape: str | None = None
    ) -> float:
        """Return the probability that exactly this segment is there; errors as for many."""
        return float(self.span_probabilities([(start, end, label)], tape=tape)[0])

    def span_probabilities(
        self, spans: Sequence[tuple[int, int, str]], *, tape: str | None = None
    ) -> Floats:
        """Return the probabilities of segments; 0 of one that the lattice does not have.

        Raises
        ------
        LabelError
            A label that is not in the list.
        OptionError
            A span outside the text, no such tape.
        NoPathError
            There is no path.
        """
        number = self._of_segments(tape)
        self._check_alive()
        listed = self._listed(number)
        start, end, label = self._checked(spans, number)
        if listed is None:
            log_z = self.log_partition()
            runs = zip(start.tolist(), end.tolist(), label.tolist(), strict=True)
            found = [float(self.engine.running(*run).log_z[0]) for run in runs]
            return np.asarray([share(z, log_z) for z in found])
        key = self._key(start, end, label, number)
        place = np.minimum(np.searchsorted(listed.key, key), max(len(listed.key) - 1, 0))
        if not len(listed.key):
            return np.zeros(len(spans))
        return np.where(listed.key[place] == key, listed.share[place], 0.0)

    def probable_spans(self, above: float = 0.01, *, tape: str | None = None) -> ProbableSpans:
        """Return the segments with a probability above a number, by their ends.

        Raises
        ------
        OptionError
            A number outside [0, 1]; a lattice of frames, whose runs are not listed.
        NoPathError
            There is no path.
        """
        if not 0.0 <= above <= 1.0:
            raise OptionError(f"above is {above}, expected 0 to 1")
        number = self._of_segments(tape)
        self._check_alive()
        listed = self._listed(number)
        if listed is None:
            raise OptionError("runs of frames are not listed: ask span_probabilities() of some")
        kept = np.flatnonzero(listed.share > above)
        kept = kept[np.lexsort((listed.label[kept], listed.start[kept], listed.end[kept]))]
        return ProbableSpans(
            listed.start[kept].astype(np.int32),
            listed.end[kept].astype(np.int32),
            listed.label[kept].astype(np.int32),
            listed.share[kept],
            self.on[number].labels,
        )

    def _key(self, start: Longs, end: Longs, label: Longs, tape: int) -> Longs:
        return (start * (self.length + 1) + end) * len(self.on[tape].labels) + label

    def _listed(self, tape: int) -> _Listed | None:
        """Return the segments of a tape; None where arcs do not say where they end."""
        begun = self.clocked.begun(tape)
        if begun is None:
            return None
        key = self._key(begun.start, begun.end, begun.label.astype(np.int64), tape)
        keys, first, of = np.unique(key, return_index=True, return_inverse=True)
        of = of.reshape(-1)
        share_ = np.bincount(of, weights=self.clocked.posterior[begun.element], minlength=len(keys))
        columns = (begun.start[first], begun.end[first], begun.label[first].astype(np.int64))
        return _Listed(keys, of, *columns, np.minimum(share_.astype(np.float64), 1.0))

    def _checked(
        self, spans: Sequence[tuple[int, int, str]], tape: int
    ) -> tuple[Longs, Longs, Longs]:
        """Return the columns of spans that may be there."""
        index = {label: k for k, label in enumerate(self.on[tape].labels)}
        for start, end, label in spans:
            if not 0 <= start < end <= self.length:
                raise OptionError(f"no span {start}:{end} in a text of {self.length} tokens")
            if label not in index:
                raise LabelError(unknown_label(label, self.on[tape].labels))
        rows = [(start, end, index[label]) for start, end, label in spans]
        columns = np.asarray(rows, dtype=np.int64).reshape(-1, 3).T
        return columns[0], columns[1], columns[2]

    def minimum_risk(self, loss: str = "span", *, tape: str | None = None) -> MinimumRisk[Any]:
        """Return what has the least expected loss.

        Parameters
        ----------
        loss : {"span", "token"}
            span: the segments of a tape that maximise 2 E[right] / E[found + true], the ratio of
            expectations that F is. token: those with the largest expected number of tokens under
            the right label, all tapes together.
        tape : str, optional
            For spans, the tape; the first of segments when absent.

        Returns
        -------
        MinimumRisk
            Its labels are segments; as `Path.labels` where there are none.

        Raises
        ------
        OptionError
            Another loss; "span" of a lattice of frames, whose runs are not listed.
        NoPathError
            There is no path.
        """
        one_of("loss", loss, Loss)
        self._check_alive()
        return self._token_risk() if loss == "token" else self._span_risk(self._of_segments(tape))

    def _token_risk(self) -> MinimumRisk[Any]:
        arcs = self.clocked
        value = np.zeros(arcs.n_elements)
        for tape in range(len(self.on)):
            value += arcs.covers(tape).gathered(self._marginals(tape), arcs.n_elements)
        path = self._best_of(value)
        most = self.length * len(self.on)
        return MinimumRisk(self._said(path), float(value[path].sum()) / most if most else 1.0)

    def _span_risk(self, tape: int) -> MinimumRisk[Any]:
        """Dinkelbach's way: the best set under p − ratio / 2, until the ratio does not grow."""
        listed, begun = self._listed(tape), self.clocked.begun(tape)
        if listed is None or begun is None:
            raise OptionError('runs of frames are not listed: ask minimum_risk("token")')
        begins, place = np.zeros((2, self.clocked.n_elements))
        begins[begun.element], place[begun.element] = 1.0, listed.share[listed.of]
        true = float(self.clocked.posterior[begun.element].sum())
        ratio, chosen = -1.0, np.zeros(0, dtype=np.int32)
        while True:
            path = self._best_of(place - begins * (max(ratio, 0.0) / 2))
            size = float(begins[path].sum()) + true
            better = 2.0 * float(place[path].sum()) / size if size > 0.0 else 1.0
            if better <= ratio + 1e-15:
                return MinimumRisk(self._said(chosen), min(1.0, ratio))
            ratio, chosen = better, path

    def _best_of(self, value: Floats) -> Ints:
        """Best path where elements have other scores and what is legal scores 0."""
        return self.clocked.reweight(value).nbest(1).elements

    def _said(self, path: Ints) -> Any:
        run = Runs(np.ones(1, dtype=np.int64), np.zeros(1), np.array([0, len(path)]), path)
        (found,) = self.paths(self.clocked, run, 0.0)
        return found.segments if self.timed else found.labels

    # --- One path -----------------------------------------------------------------------------

    def score(self, said: Sequence[str] | Sequence[tuple[int, int, str]]) -> float:
        """Return the score of the best path that says this and nothing else; −inf: there is none.

        Parameters
        ----------
        said : sequence of (start, end, label), or of str
            Segments of the first tape that has such, or labels of the first tape in their order.

        Raises
        ------
        LabelError
            A label that the lattice does not have.
        OptionError
            A segment outside the text.
        """
        return float(self._saying(said).best_scores[0])

    def probability(self, said: Sequence[str] | Sequence[tuple[int, int, str]]) -> float:
        """Return the probability of all paths that say this and nothing else; raises as `score`."""
        return share(float(self._saying(said).log_z[0]), self.log_partition())

    def string_log_partition(self, labels: Sequence[str]) -> float:
        """Return the log of the sum over all paths with these labels; −inf where there is none.

        Raises
        ------
        LabelError
            A label that the lattice does not have, or that strings do not: the blank.
        """
        if self._searched is not None:
            return self._searched.log_sum(self._ids(labels))
        return self._sum_of([0], [self._ids(labels)])

    def string_probability(self, labels: Sequence[str]) -> float:
        """Return the probability of labels, that of all their paths; raises as their log Z."""
        return share(self.string_log_partition(labels), self.log_partition())

    def _saying(self, said: Sequence[Any]) -> Arcs:
        if (said and isinstance(said[0], str)) or not self.timed:
            return self.engine.spelling(0, self._ids(said))
        tape = self._of_segments(None)
        return self.clocked.exactly(tape, *self._checked(said, tape))

    def _ids(self, labels: Sequence[str]) -> list[int]:
        index = {label: k for k, label in enumerate(self.on[0].labels)}
        for label in labels:
            if self._frames is not None and index.get(label, -1) in (-1, self._frames.blank):
                raise LabelError(f"{label!r} is no label of strings")
            if label not in index:
                raise LabelError(unknown_label(label, self.on[0].labels))
        return [index[label] for label in labels]

    # --- Other lattices -----------------------------------------------------------------------

    def restrict(
        self,
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
        *,
        boundaries: ArrayLike | None = None,
    ) -> Self:
        """Return the lattice of the paths that are allowed.

        Parameters
        ----------
        mask : bool [E] or [T, L], optional
            Given arcs that may be taken, or labels that each token may be under; of several tapes a
            tuple of masks [T, L], too.
        boundaries : int [T + 1], optional
            1: a segment must end, or begin, before this token; −1: none may; 0: either.

        Raises
        ------
        ShapeError
            Other shapes.
        OptionError
            Boundaries other than −1, 0 and 1.
        """
        if not self.timed and self.log_partition() == -np.inf:
            return self  # without a path there is no length that a mask could have
        free, frames = self.free.clocked, self._frames
        if mask is not None:
            several = isinstance(mask, tuple) and len(self.on) > 1
            for tape, one in enumerate(cast("Any", mask) if several else [mask]):
                allowed = np.asarray(one, dtype=bool)
                free = free.restrict(self._allowed(free, allowed, tape))
                frames = None if frames is None else frames.restrict(allowed)
        if boundaries is not None:
            free, frames = free.bounded(self._boundaries(boundaries)), None
        if self.timed:
            return self._with(free, frames=frames)
        left = free.trimmed()
        dead = free.furthest() if not (left.final > -np.inf).any() else None
        return self._with(left, dead=self._dead if dead is None else dead)

    def _boundaries(self, boundaries: ArrayLike) -> Longs:
        wanted, size = np.asarray(boundaries), self.length + 1
        if wanted.shape != (size,):
            raise ShapeError(f"boundaries is {list(wanted.shape)}, expected [{size}]")
        if not np.isin(wanted, (-1, 0, 1)).all():
            raise OptionError("boundaries are -1, 0 or 1")
        return wanted.astype(np.int64)

    def _allowed(self, free: Arcs, mask: Bools, tape: int) -> Bools:
        """Which arcs a mask allows."""
        size = len(self.on[tape].labels)
        if self.timed and mask.shape == (self.given,):
            return np.asarray(np.append(mask, True)[free.origin], dtype=bool)
        tokens = self.length
        if mask.shape != (tokens, size):
            arcs = f"[{self.given}] (arcs) or " if self.timed else ""
            wanted = f"{arcs}[{tokens}, {size}] (tokens, labels)"
            raise ShapeError(f"mask is {list(mask.shape)}, expected {wanted}")
        return free.covers(tape).allowed(mask, free.n_elements)

    def scale(self, factor: float) -> Self:
        """Return the lattice with every score times a factor; what is forbidden stays so.

        Raises
        ------
        OptionError
            A factor that is not finite.
        """
        factor = real_number(factor, "factor")
        rules = [rule._replace(acceptor=_scaled(rule.acceptor, factor)) for rule in self.rules]
        return self._times(factor, rules)

    def weighted(self, factor: float) -> Self:
        """Return the lattice with its scores times a factor, but not those of its grammar."""
        return self._times(real_number(factor, "factor"), self.rules)

    def _times(self, factor: float, rules: Sequence[Rule]) -> Self:
        if not np.isfinite(factor):
            raise OptionError(f"factor is {factor}, expected a finite number")
        frames = None if self._frames is None else self._frames.scale(factor)
        return self._with(self.free.scale(factor), rules=rules, frames=frames)

    def without_grammar(self) -> Self:
        """Return the lattice of all paths, whatever the grammar."""
        return self._with(self.free, rules=())

    def constrained(self, grammar: Grammar, *, over: Over | None = None) -> Self:
        """Return the lattice of the paths that a grammar accepts, its scores added.

        Parameters
        ----------
        grammar : Grammar
        over : {"segments", "tokens"}, optional
            segments: it reads the label of each segment, once, in their order; tokens outside, and
            blanks, are not read. tokens: it reads the label that each token is under, "O" outside,
            of all tapes. When absent, segments of tapes that have such, tokens of others, and
            tokens of grammars that read several tapes.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels.
        OptionError
            What is no grammar; another `over`.
        """
        if not isinstance(grammar, Grammar):
            raise OptionError(f"grammar is {grammar!r}, expected a fstcrf.Grammar")
        if over is not None:
            one_of("over", over, Over)
        sets = {tape.name: tape.labels for tape in self.on}
        try:
            parts = grammar.bind(
                sets if over != "segments" else {self.on[0].name: self.on[0].labels}
            )
        except GrammarError:
            if over is not None or len(self.on) == 1:
                raise
            parts = grammar.bind({self.on[0].name: self.on[0].labels})
        rules = []
        for part in parts:
            tapes = tuple(self._number(tape or None) for tape in part.tapes)
            read: Over = over or ("segments" if len(tapes) == 1 else "tokens")
            rules.append(Rule(part, tapes, read))
        return self._with(self.free, rules=(*self.rules, *rules))

    def __and__(self, grammar: Grammar) -> Self:
        """Return the lattice of the paths that a grammar accepts; see `constrained`."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, Grammar):
            return NotImplemented
        return self.constrained(grammar)

    @classmethod
    def of_tokens(cls, lattice: Taped) -> ArcLattice:
        """Return a lattice of tokens with its arcs written out."""
        joint = joint_arrays(lattice)
        states, length = joint.node.shape[1], len(lattice)
        sets = [lattice.program.labels(tape) for tape in lattice.tapes]
        index = [{label: k for k, label in enumerate(one)} for one in sets]
        names = [joint.names[k] for k in joint.label.tolist()]
        columns = [[at[x] for at, x in zip(index, row, strict=True)] for row in names]
        label = np.tile(np.asarray(columns, dtype=np.int32), (length, 1))
        source = np.repeat(np.arange(length, dtype=np.int32), states)
        state = np.tile(np.arange(states, dtype=np.int32), length)
        pairs = np.empty((max(len(joint.step), 1), states + 1, states))
        pairs[:, :-1] = joint.step if len(joint.step) else 0.0
        pairs[:, -1] = joint.initial
        end = np.repeat(source[:, None] + np.int64(1), len(sets), axis=1)
        arcs = Arcs.of_row(
            length,
            source=source,
            target=source + np.int32(1),
            left=state,
            right=state,
            score=np.ascontiguousarray(joint.node).reshape(-1),
            label=label,
            end=end,
            class_final=np.append(joint.final, joint.empty),
            pairs=PairScores(pairs),
            per_position=joint.per_token,
        )
        tapes = zip(lattice.tapes, sets, strict=True)
        return cls(arcs, [Tape(name, labels, segments=False) for name, labels in tapes])

    def with_tokens(
        self,
        lattice: Taped | ArcLattice,
        *,
        coupling: Mapping[tuple[str, str], ArrayLike] | None = None,
    ) -> ArcLattice:
        """Return the composition with a lattice of the same tokens; ``self @ lattice`` for short.

        A path is then one of each; scores add. Where there is no text, paths that read equally many
        tokens go together.

        Parameters
        ----------
        lattice : Lattice
            Under a grammar or not; tapes with one name are numbered.
        coupling : mapping of (tape, tape) to [L1, L2], optional
            Potentials of the labels that a token is under, on a tape of the first and one of the
            other.

        Raises
        ------
        ShapeError
            Another number of tokens, couplings of other shapes.
        OptionError
            What is no lattice; one with arcs that read no token.
        TooLargeError
            A product too large to write out.
        """
        if not isinstance(lattice, Taped | ArcLattice):
            raise OptionError(f"{lattice!r} is no lattice of tokens")
        timed = self.timed and (isinstance(lattice, Taped) or lattice.timed)
        if timed and len(lattice) != self.length:
            raise ShapeError(f"a lattice of {len(lattice)} tokens, expected {self.length}")
        other = lattice if isinstance(lattice, ArcLattice) else self.of_tokens(lattice)
        tables: dict[tuple[int, int], ArrayLike] = {}
        for key, values in ({} if coupling is None else coupling).items():
            if key[0] not in self.tapes or key[1] not in other.tapes:
                mine, its = ", ".join(self.tapes), ", ".join(other.tapes)
                raise OptionError(f"coupling {key!r}: expected (one of {mine}, one of {its})")
            tables[self.tapes.index(key[0]), other.tapes.index(key[1])] = values
        return self.beside(other, tables).named([self, other])

    def beside(self, other: ArcLattice, tied: Mapping[tuple[int, int], ArrayLike]) -> ArcLattice:
        """Return the composition; couplings by the numbers of a tape of each."""
        tables: dict[tuple[int, int], Floats] = {}
        for (mine, its), values in tied.items():
            size = len(self.on[mine].labels), len(other.on[its].labels)
            what = f"coupling {(self.tapes[mine], other.tapes[its])}"
            tables[mine, its + len(self.on)] = potentials(values, what, [size])
        arcs = self.clocked.beside(other.clocked, tables)
        return ArcLattice(arcs, (*self.on, *other.on), given=self.given)

    def named(self, parts: Sequence[ArcLattice]) -> ArcLattice:
        """Return the composition of some lattices with names of tapes that differ."""
        names = distinct_tapes([part.tapes for part in parts])
        each = zip(parts, names, strict=True)
        on = [tape._replace(name=new[tape.name]) for part, new in each for tape in part.on]
        return ArcLattice(self.free, on, given=self.given)

    def __matmul__(self, other: Taped | ArcLattice) -> ArcLattice:
        """Return the composition with a lattice of the same tokens; see `with_tokens`."""
        refuse_fst(other, TRANSDUCED)
        if not isinstance(other, Taped | ArcLattice):
            return NotImplemented
        return self.with_tokens(other)

    def beginning_where(self, begins: Callable[[str], bool]) -> Self:
        """Return a composition whose segments begin at labels of tokens that begin one, only there.

        Parameters
        ----------
        begins : callable
            Label of the second tape to whether a segment of the first begins there.

        Raises
        ------
        OptionError
            No lattice of tokens was composed with it.
        """
        if len(self.on) < 2:
            raise OptionError("no tape of tokens: compose with one first, segments @ tokens")
        first = np.asarray([begins(label) for label in self.on[1].labels])
        arcs = self.free
        return self._with(arcs.with_arcs(first[arcs.under[:, 1]] != arcs.carries[:, 0]).trimmed())

    # --- Other forms --------------------------------------------------------------------------

    @cached_property
    def machine(self) -> openfst.Machine:
        """The lattice as flat arrays of an acceptor over the labels of its first tape."""
        flat, which = self.engine.explicit
        label = self.engine.label[:, 0]
        read = label if which is None else np.where(which >= 0, label[which], -1)
        symbol = (read + 1).astype(np.int32)
        table = (openfst.EPSILON, *self.on[0].labels)
        return openfst.Machine(
            start=0,
            source=Ragged(flat.row).rows().astype(np.int32),
            target=flat.target,
            ilabel=symbol,
            olabel=symbol,
            score=flat.score,
            final=flat.final,
            isymbols=table,
            osymbols=table,
        )

    def to_fst(self, arc_type: openfst.ArcType = "log64") -> pynini.Fst:
        """Return the lattice as a ``pynini.Fst`` over the labels of its first tape.

        Weights are costs; see `fstcrf.machines.openfst.to_fst`.

        Raises
        ------
        MissingDependencyError
            pynini is not installed.
        """
        found: pynini.Fst = openfst.to_fst(self.machine, arc_type)
        return found

    def to_att(self) -> str:
        """Return the lattice as AT&T text; see `fstcrf.machines.openfst.att_text`."""
        return openfst.att_text(self.machine)

    def draw(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a drawing as SVG: by graphviz where it is installed, else by fstcrf itself.

        What has too many arcs for that is a table of probabilities.

        Parameters
        ----------
        path : str or Path, optional
            A file ``*.svg`` to write it to, too.

        Raises
        ------
        NoPathError
            There is no path.
        OptionError
            A file of another kind.
        OSError
            The file cannot be written, or graphviz fails.
        """
        self._check_alive()
        try:
            svg = openfst.svg(self.machine)
        except TooLargeError:
            shares = self.marginals(self.tapes[0])
            tokens, names = [str(t) for t in range(len(shares))], self.on[0].labels
            best = [names[k] for k in shares.argmax(axis=1).tolist()]
            if not self.timed:
                best = list(self.best().labels)
            found = pictures.probabilities("labels", names, tokens, shares.tolist(), best)
            svg = pictures.tables(found, repr(self))
        return write_picture(svg, path)

    # --- Without a path -----------------------------------------------------------------------

    def _check_alive(self) -> None:
        if self.log_partition() == -np.inf:
            raise self.no_path()

    def no_path(self) -> NoPathError:
        """Return the error that says where all paths have died, if that is known."""
        if not self.timed:
            if self._dead is None:
                return NoPathError("the lattice has no path")
            return NoPathError(
                "every label sequence is forbidden from here on", position=self._dead
            )
        position = self.engine.furthest()
        if position >= self.length:
            return NoPathError("every sequence of segments that covers the text is forbidden")
        return NoPathError("no sequence of segments covers the text from here", position=position)


def product(
    parts: Sequence[Taped | ArcLattice],
    coupling: Mapping[tuple[int, int], ArrayLike] | None,
    weights: Sequence[float] | None,
) -> ArcLattice:
    """Return the composition of lattices of which one is of arcs; see `fstcrf.compose`."""
    factors = [1.0] * len(parts) if weights is None else list(weights)
    if len(factors) != len(parts):
        raise ShapeError(f"{len(factors)} weights for {len(parts)} lattices")
    if any(not 0 <= factor < np.inf for factor in factors):
        raise OptionError(f"weights are {factors}, expected numbers from 0")
    lattices = [
        part.weighted(factor)
        if isinstance(part, ArcLattice)
        else ArcLattice.of_tokens(scaled_lattice(part, factor, grammar=False))
        for part, factor in zip(parts, factors, strict=True)
    ]
    for key in coupling or {}:
        if not all(k in range(len(parts)) and len(parts[k].tapes) == 1 for k in key):
            raise OptionError(f"coupling {key}: expected two different lattices of one tape each")
    found, first = lattices[0], Ragged.from_lengths(len(part.tapes) for part in parts).offsets
    for k, other in enumerate(lattices[1:], start=1):
        tied = {
            (int(first[min(key)]), 0): np.asarray(table).T if key[0] == k else table
            for key, table in (coupling or {}).items()
            if max(key) == k
        }
        found = found.beside(other, tied)
    return found.named(lattices)


def _made(free: Arcs, on: Sequence[Tape], options: dict[str, Any]) -> ArcLattice:
    return ArcLattice(free, on, **options)


def _silent(acceptor: Acceptor) -> Acceptor:
    """Return an acceptor without its scores: only what it forbids."""
    return replace(acceptor, score=None, final=np.where(acceptor.final > -np.inf, 0.0, -np.inf))


def _scaled(acceptor: Acceptor, factor: float) -> Acceptor:
    score = None if acceptor.score is None else acceptor.score * factor
    return replace(acceptor, score=score, final=scaled(acceptor.final, factor))
