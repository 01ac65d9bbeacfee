"""What lattices over an engine answer of their paths, once for all kinds.

A lattice is one row of an engine, the names of its tapes, and grammars, which are multiplied in
when something is first asked. All that is no call of `fstcrf.lattices.engine.Engine` is read off
here, through the engine's readings, and in `fstcrf.lattices.arclattice`: nothing asks which
constructor made a lattice, but whether a tape has segments or a label for each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np

from fstcrf import display
from fstcrf.arrays import Floats, Ints, Longs, distinct
from fstcrf.errors import (
    LabelError,
    NoPathError,
    OptionError,
    ShapeError,
)
from fstcrf.kernel import Budget
from fstcrf.lattices.arcproducts import exactly, spelling
from fstcrf.lattices.arcs import Arcs
from fstcrf.lattices.confidence import Confidence, Interval
from fstcrf.lattices.engine import Over, Runs
from fstcrf.lattices.paths import Path, share
from fstcrf.lattices.questions import Questions, Said, Tape, refuse_options
from fstcrf.lattices.sequences import Found, best_sequences, probable_sequences
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import Search

if TYPE_CHECKING:
    from fstcrf.lattices.ctc import Frames

_PREFIXES = 10_000


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


def unknown_label(label: str, labels: Sequence[str]) -> str:
    """Return the message about a label that is not in the list."""
    known = ", ".join(labels[:12]) + (", …" if len(labels) > 12 else "")
    return f"unknown label {label!r}; the labels are {known}"


class ArcAnswers(Questions[Any, Any]):
    """A weighted set of paths, and what is asked of it.

    What is said of labels is said of each tape: a lattice of one tape gives arrays and tuples, one
    of several gives a tuple of them.

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
        return partial(type(self), self.free, self.on, **self._options()), ()

    def _options(self, **changed: Any) -> dict[str, Any]:
        parts = {"given": self.given, "rules": self.rules, "frames": self._frames}
        return parts | {"dead": self._dead} | changed

    def _with(self, free: Arcs, **changed: Any) -> Self:
        return type(self)(free, self.on, **self._options(**changed))

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
        return self.engine if self.timed else self.engine.clocked

    @cached_property
    def _searched(self) -> Frames | None:
        """The frames in which strings are searched; None: the arcs, as of all other lattices."""
        if self._frames is None or any(rule.over != "segments" for rule in self.rules):
            return None
        return self._frames.under([rule.acceptor for rule in self.rules])

    @property
    def timed(self) -> bool:
        """Whether paths cover a text, and so the same tokens."""
        return self.free.texts is not None

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
        size = f"{self.length} tokens" if self.timed else f"{len(self.engine.final):,} states"
        behind = f", beside {', '.join(self.tapes[1:])}" if len(self.on) > 1 else ""
        return f"<ArcLattice: {size}, {arcs}{behind}>"

    def _repr_html_(self) -> str:
        """Return its best path for notebooks."""
        head = display.heading(repr(self))
        if self.log_partition() == -np.inf:
            forbidden = "no sequence of segments covers the text"
            return head + display.note(
                forbidden if self.segmented else "every label sequence is forbidden"
            )
        if not self.segmented:
            return display.picture(head, self.best()._repr_html_())
        rows = {"": tuple(f"{s.start}:{s.end} {s.type}" for s in self.best().segments)}
        return display.picture(head, display.sequences(rows))

    # --- Paths --------------------------------------------------------------------------------

    def counted(self, n: int) -> int:
        """Return how many paths are asked for, checked; none may be."""
        if n < 0:
            raise OptionError(f"n is {n}, expected 0 or more")
        return n

    def searched(self, n: int, budget: Budget | None, search: Search | None) -> tuple[Arcs, Runs]:
        """Return the engine and its n best paths; nothing is searched."""
        refuse_options({"budget": budget, "search": search})
        return self.engine, self.engine.nbest(n)

    def labellings(
        self, n: int, shown: tuple[str, ...], budget: Budget | None, search: Search | None
    ) -> list[Path]:
        """Return the n best labellings of some tapes, see `nbest`."""
        refuse_options({"budget": budget, "search": search})
        if len(self.on) == 1 and self._deterministic:
            return self.nbest(n)
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

    @property
    def _deterministic(self) -> bool:
        """A label sequence has at most one path."""
        arcs = self.engine
        if arcs.pairs is not None:
            return False
        label = arcs.label[:, 0]
        read = distinct(arcs.source.astype(np.int64) * len(self.on[0].labels) + label)
        return len(read) == len(label) and bool((label >= 0).all())

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
            found = spelling(found, tape, row)
        return float(found.log_z[0])

    def expectations(self) -> SegmentCounts:
        """Return what is expected of the lattice: the gradient of log Z.

        Raises
        ------
        NoPathError
            There is no path.
        """
        self.check_alive()
        arcs, size = self.engine, len(self.on[0].labels)
        mine = self.arc_probabilities()
        own = arcs.pairs is not None and arcs.pairs.pair.shape == (1, size + 1, size)
        if own and (arcs.left == arcs.label[:, 0]).all():
            count, ends = arcs.met()
            return SegmentCounts(mine, count[:-1], count[-1], ends[:-1])
        both = self.clocked.after_last(0, size, "segments")
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
        self.check_alive()
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

    def saying(self, said: Said) -> Arcs:
        """Return the engine of the paths that say this and nothing else."""
        if (said and isinstance(said[0], str)) or not self.segmented:
            return spelling(self.engine, 0, self._ids(cast("Sequence[str]", said)))
        tape, spans = self._of_segments(None), cast("Sequence[tuple[int, int, str]]", said)
        return exactly(self.clocked, tape, *self._checked(spans, tape))

    def _ids(self, labels: Sequence[str]) -> list[int]:
        index = {label: k for k, label in enumerate(self.on[0].labels)}
        for label in labels:
            if self._frames is not None and index.get(label, -1) in (-1, self._frames.blank):
                raise LabelError(f"{label!r} is no label of strings")
            if label not in index:
                raise LabelError(unknown_label(label, self.on[0].labels))
        return [index[label] for label in labels]

    def _of_segments(self, tape: str | None) -> int:
        if tape is not None:
            return self.number(tape)
        return next((k for k, one in enumerate(self.on) if one.segments), 0)

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

    # --- Without a path -----------------------------------------------------------------------

    def check_alive(self) -> None:
        """Raise NoPathError where there is no path."""
        if self.log_partition() == -np.inf:
            raise self.no_path()

    def no_path(self, runs: Runs | None = None) -> NoPathError:  # noqa: ARG002
        """Return the error that says where all paths have died, if that is known."""
        if not self.segmented:
            if self._dead is None:
                return NoPathError("the lattice has no path")
            return NoPathError(
                "every label sequence is forbidden from here on", position=self._dead
            )
        position = self.engine.furthest()
        if position >= self.length:
            return NoPathError("every sequence of segments that covers the text is forbidden")
        return NoPathError("no sequence of segments covers the text from here", position=position)


def _silent(acceptor: Acceptor) -> Acceptor:
    """Return an acceptor without its scores: only what it forbids."""
    return replace(acceptor, score=None, final=np.where(acceptor.final > -np.inf, 0.0, -np.inf))
