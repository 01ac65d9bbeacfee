"""What taggers and lattices answer: the paths of many sentences as flat arrays.

Scores are natural logs. Nothing here knows how an answer was found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, Protocol, TypeAlias, overload

import numpy as np

from fstcrf import display
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.kernel import columns
from fstcrf.lattices.paths import Path, Positions, labels_of_tapes, shares
from fstcrf.lazy import given_state, made_once
from fstcrf.ragged import Ragged
from fstcrf.text.corpus import Column, Scheme, Span, named_scheme, span_arrays
from fstcrf.text.corpus.schemes import OUTSIDE, SpanArrays, check_readable

Change: TypeAlias = Literal["", "grammar", "forced", "both"]
"""What was given up for a sentence that had no path: nothing, its grammar, its forced labels."""


class Distribution(Protocol):
    """What answers are from; see `fstcrf.lattices.distributions.Distributions`."""

    def marginals(self, tape: str) -> list[Floats | None]:
        """Return the probability of each label at each token of each sentence."""

    def span_probabilities(self, answer: TapeAnswer, k: int) -> list[Floats]:
        """Return the probability of each span of the k-th best paths, as its `spans` lists them."""

    def confidence(self, sentence: int, path: Path) -> Any:
        """Return how sure the best path of a sentence is."""

    def only(self, asked: Bools) -> Distribution:
        """Return that of some sentences alone."""

    def with_part(self, where: Longs, part: Any) -> Distribution:
        """Return the same with others of some sentences."""


class TapeAnswer:
    """The labels of one tape on the paths of B sentences with N tokens together.

    Parameters
    ----------
    name : str
        Of the tape.
    label_set : tuple of str
        The labels that the ids number.
    flat : int32 [n, N]
        Row k has the labels of the k-th best path of every sentence, one sentence behind the
        other; −1 where a sentence has no such path.
    offsets : int64 [B + 1]
        Sentence b owns the tokens ``offsets[b] : offsets[b + 1]``; empty sentences own none.
    counts : int64 [B]
        Paths of each sentence, 0 to n.
    width : int, optional
        Columns of `ids`; the tokens of the longest sentence when absent.
    at : int32 [n, N], optional
        Of a tape with a clock of its own, the boundary at which each label is written; the offsets
        are then its own, and −1 stands behind the last label of a shorter path, too.

    Raises
    ------
    ShapeError
        `flat`, `offsets` and `counts` of different sizes.
    """

    def __init__(
        self,
        name: str,
        label_set: tuple[str, ...],
        flat: Ints,
        offsets: Longs,
        counts: Longs,
        width: int | None = None,
        at: Ints | None = None,
    ) -> None:
        if flat.ndim != 2 or flat.shape[1] != offsets[-1] or len(counts) != len(offsets) - 1:
            raise ShapeError(
                f"tape {name!r}: labels are {list(flat.shape)}, expected [n, {offsets[-1]}], and "
                f"counts {list(counts.shape)}, expected [{len(offsets) - 1}]"
            )
        self.name, self.label_set, self.flat, self.offsets = name, label_set, flat, offsets
        self._counts, self._width, self.at = counts, width, at

    __getstate__ = given_state

    def __len__(self) -> int:
        """Sentences."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<TapeAnswer {self.name}: {len(self)} sentences, {self.offsets[-1]:,} tokens>"

    @property
    def n(self) -> int:
        """Paths that were asked for."""
        return len(self.flat)

    @made_once
    def ids(self) -> Ints:
        """Label ids, padded: int32 [B, T], of n > 1 paths [B, n, T]; T is the longest sentence's.

        −1 beyond the end of a sentence, and where it has no such path. Of a padded batch, T is what
        that was padded to.
        """
        lengths = Ragged(self.offsets).lengths
        width = lengths.max(initial=0) if self._width is None else self._width
        if self.n == 1 and bool((lengths == width).all()):
            whole: Ints = self.flat[0].reshape(len(lengths), width)
            return whole
        inside = np.arange(width) < lengths[:, None]
        padded = np.full((self.n, *inside.shape), -1, dtype=np.int32)
        padded[:, inside] = self.flat
        return padded[0] if self.n == 1 else np.ascontiguousarray(padded.transpose(1, 0, 2))

    def path(self, sentence: int, k: int = 0) -> tuple[str, ...]:
        """Return the labels of the k-th best path of a sentence; () where there is none."""
        row = self.flat[k, self.offsets[sentence] : self.offsets[sentence + 1]]
        row = row if self.at is None else row[row >= 0]
        names = self.label_set
        return tuple([names[i] for i in row.tolist()]) if k < self._counts[sentence] else ()

    def positions(self, sentence: int, k: int = 0) -> Positions | None:
        """Return where labels are written; None: each token has one, or `tapes=` was said."""
        if self.at is None:
            return None
        own = slice(self.offsets[sentence], self.offsets[sentence + 1])
        at = tuple(self.at[k, own][self.flat[k, own] >= 0].tolist())
        return (
            Positions(at, at, np.full(len(at), -1), output=True)
            if min(at, default=0) >= 0
            else None
        )

    @overload
    def labels(self, k: int) -> list[list[str]]: ...
    @overload
    def labels(self) -> list[list[str]] | list[list[list[str]]]: ...
    def labels(self, k: int | None = None) -> list[list[str]] | list[list[list[str]]]:
        """Return the labels of every sentence.

        Parameters
        ----------
        k : int, optional
            Those of the k-th best paths, 0 being the best.

        Returns
        -------
        list of list of str
            Of one path a sentence, one was asked for or `k` given: a list for each sentence,
            [] where it has no such path.
        list of list of list of str
            Of n > 1: for each sentence a list for each of its paths, best first.
        """
        if self.at is not None and (k is not None or self.n == 1):
            return [list(self.path(b, k or 0)) for b in range(len(self))]
        if k is not None or self.n == 1:
            names = np.asarray(self.label_set, dtype=object)
            flat, bounds = names[self.flat[k or 0]].tolist(), pairwise(self.offsets.tolist())
            there = (self._counts > (k or 0)).tolist()
            return [flat[a:b] if t else [] for t, (a, b) in zip(there, bounds, strict=True)]
        return [
            [list(self.path(b, rank)) for rank in range(count)]
            for b, count in enumerate(self._counts.tolist())
        ]

    def column(self, k: int = 0, *, missing: str | None = None) -> Column:
        """Return the labels of the k-th best paths as a column of N tokens.

        Parameters
        ----------
        k : int
        missing : str, optional
            Written at the tokens of sentences that have no such path.

        Raises
        ------
        NoPathError
            A sentence has none, and nothing is to be written instead.
        OptionError
            The tape has a clock of its own: no label for each token.
        """
        if self.at is not None:
            raise OptionError(
                f"tape {self.name!r} has no label per token, so it cannot become a column: "
                "use labels() or paths for its output"
            )
        row, names = self.flat[k], self.label_set
        without = np.flatnonzero((self._counts <= k) & (np.diff(self.offsets) > 0))
        if not len(without):
            return Column(row, names)
        if missing is None:
            raise NoPathError(
                f"tape {self.name!r} has no path {k} to write", sentence=int(without[0])
            )
        if missing not in names:
            names = (*names, missing)
        return Column(np.where(row < 0, np.int32(names.index(missing)), row), names)

    def spans(self, scheme: str | Scheme = "conlleval", k: int = 0) -> list[list[Span]]:
        """Return the spans of the k-th best path of every sentence, in order; [] without a path.

        Parameters
        ----------
        scheme : str or Scheme
            How labels are read as spans; what breaks a strict scheme is no span.
        k : int

        Raises
        ------
        OptionError, GrammarError
            No such scheme; a strict one that allows no span of the labels.
        """
        found = self.span_arrays(scheme, k)
        number = np.searchsorted(self.offsets, found.start, side="right") - 1
        first = self.offsets[number]
        out: list[list[Span]] = [[] for _ in range(len(self))]
        rows = (number, found.start - first, found.end - first, found.type)
        for b, start, end, kind in zip(*(r.tolist() for r in rows), strict=True):
            out[b].append(Span(start, end, found.types[kind]))
        return out

    def span_arrays(self, scheme: str | Scheme = "conlleval", k: int = 0) -> SpanArrays:
        """Return `spans` of all sentences as arrays, their tokens counted through all of them."""
        check_readable(self.label_set, table := named_scheme(scheme))
        illegal: Literal["drop", "repair"] = "drop" if table.strict else "repair"
        column = self.column(k, missing=OUTSIDE)
        return span_arrays(column, self.offsets, table, illegal=illegal)


class Answer:
    """The n best paths of B sentences, tape by tape.

    ``answer[tape]`` has the labels of a tape, ``answer[i]`` the paths of a sentence. What is asked
    of the answer itself (`flat`, `ids`, `labels`, `column`, `spans`) is asked of its only tape.

    Parameters
    ----------
    flat : mapping of str to int32 [n, N]
        For each tape, in their order, the label ids of all sentences, one behind the other, the
        k-th best paths in row k; −1 where a sentence has no such path.
    label_sets : mapping of str to tuple of str
        The labels of each tape.
    offsets : int64 [B + 1]
        Sentence b owns the tokens ``offsets[b] : offsets[b + 1]``; empty sentences own none.
    scores : float64 [B, n], or [B] for n = 1
        Sum of potentials of each path, falling (natural log); −inf: no such path.
    probabilities : float64 of the shape of `scores`, or a callable that returns it
        exp(score − log Z); NaN where it cannot be had. A callable is asked once, when needed.
    exact : bool of the shape of `scores`, optional
        Proven: only the paths before it score more. All are when absent.
    bounds : float64 of the shape of `scores`, optional
        Beside the paths before it none scores more than this (natural log); `scores` when absent.
    log_z : callable, optional
        Returns log Z, float64 [B], which says the probabilities; asked once, when needed.
    changed : sequence of B str, optional
        What was given up for a sentence so that it has a path: ``""``, ``"grammar"``,
        ``"forced"`` or ``"both"``.
    posterior : callable, optional
        Returns the distributions that the paths are from; asked once, when needed.
    width : int, optional
        Columns of `ids`; the tokens of the longest sentence when absent.
    clocks : mapping of str to (int64 [B + 1], int32 [n, M]), optional
        Of tapes with a clock of their own their offsets, and the boundary of each label.

    Attributes
    ----------
    tapes : tuple of str
    n : int
        Paths that were asked for; of more than 1,024 as many as the sentence with the most has.
    dead : bool [B]
        Sentences without a path.

    Raises
    ------
    ShapeError
        Arrays of sizes that do not go together.
    """

    def __init__(
        self,
        flat: Mapping[str, Ints],
        label_sets: Mapping[str, tuple[str, ...]],
        offsets: Longs,
        *,
        scores: Floats,
        probabilities: Floats | Callable[[], Floats] | None = None,
        exact: Bools | None = None,
        bounds: Floats | None = None,
        log_z: Callable[[], Floats] | None = None,
        changed: Sequence[Change] | None = None,
        posterior: Callable[[], Distribution] | None = None,
        width: int | None = None,
        clocks: Mapping[str, tuple[Longs, Ints]] | None = None,
    ) -> None:
        size = len(offsets) - 1
        self.n = 1 if scores.ndim == 1 else int(scores.shape[1])
        wanted = (size,) if self.n == 1 else (size, self.n)
        exact = np.ones(scores.shape, dtype=bool) if exact is None else exact
        bounds = scores if bounds is None else bounds
        for name, array in (("scores", scores), ("exact", exact), ("bounds", bounds)):
            if array.shape not in (wanted, (size, self.n)):
                raise ShapeError(f"{name} are {list(array.shape)}, expected {list(wanted)}")
        self.tapes = tuple(flat)
        self.label_sets = {tape: tuple(label_sets[tape]) for tape in self.tapes}
        self.offsets = offsets
        self.scores, self.bounds = scores.reshape(wanted), bounds.reshape(wanted)
        self.exact: Bools = exact.reshape(wanted)
        own = self.scores
        self._probabilities = (lambda: shares(own.T, log_z()).T) if log_z else probabilities
        self._posterior = posterior
        there = scores.reshape(size, self.n) > -np.inf
        self._counts: Longs = np.add.reduce(there, axis=1, dtype=np.int64)
        self.dead: Bools = self._counts == 0
        self.changed = np.zeros(size, "<U7") if changed is None else np.asarray(changed, "<U7")
        if len(self.changed) != size or any(len(ids) != self.n for ids in flat.values()):
            rows = ", ".join(f"{tape} {len(ids)}" for tape, ids in flat.items())
            raise ShapeError(
                f"{len(self.changed)} changes for {size} sentences, or paths ({rows}) that are not "
                f"{self.n}"
            )
        self.width = width
        self._tapes, clocks = {}, clocks or {}
        self.positioned = frozenset(clocks)  # tapes with a clock of their own
        for tape, ids in flat.items():
            cuts, at = clocks.get(tape, (offsets, None))
            names = self.label_sets[tape]
            self._tapes[tape] = TapeAnswer(tape, names, ids, cuts, self._counts, width, at)

    def __getstate__(self) -> dict[str, object]:
        """Return what is pickled: whatever would have been computed when asked is computed now."""
        state = given_state(self)
        state["_probabilities"] = self.probabilities
        if self._posterior is not None or "posterior" in vars(self):
            state |= {"_posterior": None, "posterior": self.posterior}
        return state

    @classmethod
    def of_paths(
        cls,
        ranked: Sequence[Sequence[Path]],
        label_sets: Mapping[str, tuple[str, ...]],
        lengths: Sequence[int],
        n: int,
        written: Collection[str] = (),
    ) -> Answer:
        """Return the answer that paths make.

        Parameters
        ----------
        ranked : sequence of B sequences of Path
            At most n of each sentence, best first.
        label_sets : mapping of str to tuple of str
            The labels of each tape.
        lengths : sequence of B int
            Tokens of each sentence.
        n : int
        written : collection of str
            Tapes with a clock of their own.
        """
        offsets = Ragged.from_lengths(lengths).offsets
        n = columns(n, max(map(len, ranked), default=0))
        scores, exact = np.full((len(ranked), n), -np.inf), np.ones((len(ranked), n), dtype=bool)
        bounds, chances = scores.copy(), np.zeros(scores.shape)
        clocks = {
            tape: Ragged.from_lengths(
                [max((len(path[tape]) for path in paths), default=0) for paths in ranked]
            ).offsets
            for tape in written
        }
        own = {tape: clocks.get(tape, offsets) for tape in label_sets}
        flat = {t: np.full((n, int(cut[-1])), -1, dtype=np.int32) for t, cut in own.items()}
        at = {tape: flat[tape].copy() for tape in clocks}
        number = {t: {label: i for i, label in enumerate(ls)} for t, ls in label_sets.items()}
        for b, paths in enumerate(ranked):
            for k, path in enumerate(paths):
                scores[b, k], exact[b, k] = path.score, path.exact
                bounds[b, k], chances[b, k] = path.bound, path.probability
                parts = path.labels if len(label_sets) > 1 else (path.labels,)
                for tape, labels in zip(label_sets, parts, strict=True):
                    first = own[tape][b]
                    flat[tape][k, first : first + len(labels)] = [number[tape][x] for x in labels]
                for tape, cuts in clocks.items():
                    where = path.positions.get(tape, ())
                    at[tape][k, cuts[b] : cuts[b] + len(where)] = where
        chances = chances if n > 1 else chances[:, 0]
        return cls(
            flat,
            label_sets,
            offsets,
            clocks={tape: (clocks[tape], at[tape]) for tape in clocks},
            scores=scores,
            probabilities=chances,
            exact=exact,
            bounds=bounds,
        )

    def with_part(self, where: Longs, part: Answer, change: Change) -> Answer:
        """Return the answer with that of some sentences instead.

        Parameters
        ----------
        where : int64 [M]
            The sentences.
        part : Answer
            Of these M sentences; those that it finds dead stay as they are.
        change : str
            What was given up for them.
        """
        if self.positioned | part.positioned:
            return self._with_paths(where, part, change)
        alive, asked = np.flatnonzero(~part.dead), where
        where, shape = where[alive], (len(self), max(self.n, part.n))
        to, of = self._tokens(where), part._tokens(alive)
        flat = {}
        for tape, known in self._tapes.items():
            ids = flat[tape] = np.full((shape[1], known.flat.shape[1]), -1, dtype=np.int32)
            ids[: self.n] = known.flat
            ids[:, to] = -1
            ids[: part.n, to] = part[tape].flat[:, of]

        def joined(mine: Any, others: Any, missing: float) -> Any:
            both = np.full(shape, missing, dtype=mine.dtype)
            both[:, : self.n] = mine.reshape(-1, self.n)
            both[where] = missing
            both[where, : part.n] = others.reshape(-1, part.n)[alive]
            return both if shape[1] > 1 else both[:, 0]

        changed = self.changed.copy()
        changed[where] = change
        return Answer(
            flat,
            self.label_sets,
            self.offsets,
            scores=joined(self.scores, part.scores, -np.inf),
            probabilities=lambda: joined(self.probabilities, part.probabilities, 0.0),
            exact=joined(self.exact, part.exact, missing=True),
            bounds=joined(self.bounds, part.bounds, -np.inf),
            changed=changed.tolist(),
            posterior=lambda: self.posterior.with_part(asked, part.posterior),
            width=self.width,
        )

    def _with_paths(self, where: Longs, part: Answer, change: Change) -> Answer:
        """Return `with_part` of tapes with clocks of their own, path by path."""
        rows, changed = self.ranked(), self.changed.copy()
        for b, paths in zip(where.tolist(), part.ranked(), strict=True):
            rows[b], changed[b] = paths or rows[b], change if paths else changed[b]
        n, lengths = max(self.n, part.n), Ragged(self.offsets).lengths.tolist()
        made = Answer.of_paths(rows, self.label_sets, lengths, n, self.positioned | part.positioned)
        made.changed = changed
        return made.with_posterior(lambda: self.posterior.with_part(where, part.posterior))

    def with_posterior(self, posterior: Callable[[], Distribution]) -> Answer:
        """Return the answer with what tells the distributions that its paths are from."""
        self._posterior = posterior
        return self

    def _tokens(self, sentences: Longs) -> Longs:
        """Return the tokens of sentences, one after the other."""
        bounds = self.offsets.tolist()
        parts = [np.arange(bounds[b], bounds[b + 1]) for b in sentences.tolist()]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def __len__(self) -> int:
        """Sentences."""
        return len(self.offsets) - 1

    @property
    def unproven(self) -> int:
        """Sentences with a path that is not proven."""
        return int((~self.exact.reshape(len(self), self.n).all(axis=1)).sum())

    def __repr__(self) -> str:
        tokens, tapes = f"{self.offsets[-1]:,} tokens", ", ".join(self.tapes)
        return f"<Answer: {len(self)} sentences, {tokens}, n={self.n}, tapes {tapes}>"

    def _repr_html_(self) -> str:
        """Return the best labels of the first sentences for notebooks."""
        scores = self.scores.reshape(len(self), self.n)[:, 0]
        rows: list[list[display.Cell]] = [
            [b, display.number(float(scores[b])), *(" ".join(t.path(b)) for t in tapes)]
            for tapes in [list(self._tapes.values())]
            for b in range(min(len(self), display.MOST_ROWS))
        ]
        left = len(self) - len(rows)
        more = display.note(f"… {left:,} more sentences") if left else ""
        head = ["sentence", "score", *self.tapes]
        return display.picture(display.heading(repr(self)), display.table(head, rows), more)

    @overload
    def __getitem__(self, key: str) -> TapeAnswer: ...
    @overload
    def __getitem__(self, key: int) -> Path | list[Path] | None: ...
    def __getitem__(self, key: str | int) -> TapeAnswer | Path | list[Path] | None:
        """Return the answer of a tape; or the paths of a sentence: of n = 1 its path or None.

        Raises
        ------
        OptionError
            No such tape.
        IndexError
            No such sentence.
        """
        if not isinstance(key, str):
            paths = self.paths(key)
            return paths if self.n > 1 else next(iter(paths), None)
        if key not in self._tapes:
            raise OptionError(f"no tape {key!r}: the tapes are {', '.join(self.tapes)}")
        return self._tapes[key]

    def __iter__(self) -> Iterator[Path | list[Path] | None]:
        ranked = self.ranked()
        return iter(ranked if self.n > 1 else [next(iter(paths), None) for paths in ranked])

    @made_once
    def probabilities(self) -> Floats:
        """exp(score − log Z) of each path, float64 [B], of n > 1 [B, n]; NaN: not to be had.

        Raises
        ------
        ShapeError
            The decoder gave another shape than that of the scores.
        """
        given = self._probabilities
        values = given() if callable(given) else given
        if values is None or values.shape != self.scores.shape:
            shapes = None if values is None else list(values.shape), list(self.scores.shape)
            raise ShapeError(f"probabilities are {shapes[0]}, expected {shapes[1]}")
        return values

    def paths(self, sentence: int) -> list[Path]:
        """Return the paths of a sentence, best first, at most n; [] where it is dead.

        Raises
        ------
        IndexError
            No such sentence.
        """
        b = range(len(self))[sentence]
        rows = (self.scores, self.probabilities, self.exact, self.bounds)
        score, probability, exact, bound = (np.atleast_1d(row[b]).tolist() for row in rows)
        placed = self._tapes.values() if self.positioned else ()
        return [
            Path(
                labels_of_tapes([tape.path(b, k) for tape in self._tapes.values()]),
                score[k],
                probability[k],
                exact=exact[k],
                bound=bound[k],
                places=tuple([tape.positions(b, k) for tape in placed]),
                tapes=self.tapes,
            )
            for k in range(self._counts[b])
        ]

    def ranked(self) -> list[list[Path]]:
        """Return `paths` of every sentence, faster than one by one."""
        if self.positioned:
            return [self.paths(b) for b in range(len(self))]
        shape = (len(self), self.n)
        rows = (self.scores, self.probabilities, self.bounds)
        score, probability, bound = (row.reshape(shape).tolist() for row in rows)
        exact = self.exact.reshape(shape).tolist()
        tapes = [
            [np.asarray(tape.label_set, dtype=object)[row].tolist() for row in tape.flat]
            for tape in self._tapes.values()
        ]
        bounds, names = list(pairwise(self.offsets.tolist())), self.tapes
        return [
            [
                Path(
                    labels_of_tapes([tuple(rows[k][first:end]) for rows in tapes]),
                    score[b][k],
                    probability[b][k],
                    exact=exact[b][k],
                    bound=bound[b][k],
                    tapes=names,
                )
                for k in range(count)
            ]
            for b, (count, (first, end)) in enumerate(
                zip(self._counts.tolist(), bounds, strict=True)
            )
        ]

    # --- The distributions that they are from -------------------------------------------------

    @made_once
    def posterior(self) -> Distribution:
        """What the paths are from, forced labels and biases put in; nothing of dead sentences.

        Raises
        ------
        OptionError
            The tagger has none to ask, as with ``normalize="chain"``.
        """
        if self._posterior is None:
            raise OptionError(
                "the answers of this search have no marginals, span probabilities or "
                "bounds: use normalize='product'"
            )
        return self._posterior().only(~self.dead)

    def marginals(self, tape: str | None = None) -> list[Floats]:
        """Return the probability of each label of a tape at each token.

        Of taggers one after the other: given the best labels of the tapes that are read.

        Parameters
        ----------
        tape : str, optional
            The only one when absent.

        Returns
        -------
        list of float64 [T, L]
            For each sentence; of a dead one zeros.

        Raises
        ------
        OptionError
            Several tapes and none named; or as for `posterior`.
        TooLargeError
            A grammar too large to multiply out.
        """
        name = self._only.name if tape is None else self[tape].name
        shape = len(self.label_sets[name])
        rows = zip(np.diff(self.offsets).tolist(), self.posterior.marginals(name), strict=True)
        return [np.zeros((size, shape)) if found is None else found for size, found in rows]

    def span_probabilities(self, tape: str | None = None, k: int = 0) -> list[Floats]:
        """Return the probability of each span of the k-th best paths, as `spans` lists them.

        Parameters
        ----------
        tape : str, optional
            The only one when absent.
        k : int

        Raises
        ------
        OptionError
            As for `marginals`.
        """
        mine = self._only if tape is None else self[tape]
        return self.posterior.span_probabilities(mine, k)

    def confidence(self, sentence: int) -> Any:
        """Return the `Confidence` of the best path of a sentence; None where it has none.

        Raises
        ------
        OptionError
            As for `posterior`.
        """
        paths = self.paths(sentence)[:1]
        return self.posterior.confidence(range(len(self))[sentence], paths[0]) if paths else None

    # --- The only tape ------------------------------------------------------------------------

    @property
    def _only(self) -> TapeAnswer:
        if len(self.tapes) > 1:
            raise OptionError(
                f"the answer has several tapes: choose one of {', '.join(self.tapes)}"
            )
        return self._tapes[self.tapes[0]]

    @property
    def flat(self) -> Ints:
        """`TapeAnswer.flat` of the only tape, int32 [n, N]; OptionError where there are several."""
        return self._only.flat

    @property
    def ids(self) -> Ints:
        """`TapeAnswer.ids` of the only tape, padded; OptionError where there are several."""
        return self._only.ids

    @overload
    def labels(self, k: int) -> list[list[str]]: ...
    @overload
    def labels(self) -> list[list[str]] | list[list[list[str]]]: ...
    def labels(self, k: int | None = None) -> list[list[str]] | list[list[list[str]]]:
        """Return `TapeAnswer.labels` of the only tape; OptionError where there are several."""
        return self._only.labels() if k is None else self._only.labels(k)

    def column(self, k: int = 0, *, missing: str | None = None) -> Column:
        """Return `TapeAnswer.column` of the only tape; OptionError where there are several."""
        return self._only.column(k, missing=missing)

    def spans(self, scheme: str | Scheme = "conlleval", k: int = 0) -> list[list[Span]]:
        """Return `TapeAnswer.spans` of the only tape; OptionError where there are several."""
        return self._only.spans(scheme, k)
