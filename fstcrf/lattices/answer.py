"""Answers of taggers and lattices: the best paths of a batch of sentences as flat arrays.

An `Answer` has a `TapeAnswer` for each tape. Scores are natural logs. An answer does not depend on
the search that found its paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from fstcrf import display
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.kernel import columns
from fstcrf.lattices.paths import Path, Positions, labels_of_tapes, shares
from fstcrf.lazy import given_state, made_once
from fstcrf.text.corpus import Column, Scheme, Span, named_scheme, span_arrays
from fstcrf.text.corpus.schemes import OUTSIDE, SpanArrays, check_readable

if TYPE_CHECKING:
    from fstcrf.lattices.distributions import Distributions
    from fstcrf.lattices.results import Confidence

T = TypeVar("T", bound=np.generic)

Change: TypeAlias = Literal["", "grammar", "forced", "both"]
"""Restriction that was dropped for a sentence without a path: the grammar, forced labels, both."""


class TapeAnswer:
    """The labels of one tape on the best paths of B sentences, which have N tokens in total.

    Parameters
    ----------
    name : str
        Name of the tape.
    label_set : tuple of str
        The labels, in the order of their ids.
    flat : int32 [n, N]
        Label ids. Row k has the k-th best paths of all sentences, concatenated; −1 if a sentence
        has fewer paths.
    offsets : int64 [B + 1]
        Sentence b has the tokens ``offsets[b] : offsets[b + 1]``.
    counts : int64 [B]
        Number of paths of each sentence, 0 to n.
    width : int, optional
        Columns of `ids`; by default the length of the longest sentence.
    at : int32 [n, N], optional
        For the output tape of a transducer, which need not have one label per token: the boundary
        at which each label is written. Offsets then count written labels, and `flat` is −1 after
        the last label of a shorter path.

    Raises
    ------
    ShapeError
        The sizes of `flat`, `offsets` and `counts` disagree.
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
        """Return the number of sentences."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<TapeAnswer {self.name}: {len(self)} sentences, {self.offsets[-1]:,} tokens>"

    @property
    def n(self) -> int:
        """Number of paths that were requested per sentence."""
        return len(self.flat)

    @made_once
    def ids(self) -> Ints:
        """Label ids, padded: int32 [B, T], or [B, n, T] if n > 1.

        T is the width of the batch if it was padded, else the length of the longest sentence. The
        id is −1 after the end of a sentence, and if it has fewer paths.
        """
        lengths = Ragged(self.offsets).lengths
        width = lengths.max(initial=0) if self._width is None else self._width
        if self.n == 1 and bool((lengths == width).all()):
            ids: Ints = self.flat[0].reshape(len(lengths), width)
            return ids
        inside = np.arange(width) < lengths[:, None]
        padded = np.full((self.n, *inside.shape), -1, dtype=np.int32)
        padded[:, inside] = self.flat
        return padded[0] if self.n == 1 else np.ascontiguousarray(padded.transpose(1, 0, 2))

    def path(self, sentence: int, k: int = 0) -> tuple[str, ...]:
        """Return the labels of the k-th best path of a sentence; () if it has fewer paths."""
        row = self.flat[k, self.offsets[sentence] : self.offsets[sentence + 1]]
        row = row if self.at is None else row[row >= 0]
        names = self.label_set
        return tuple([names[i] for i in row.tolist()]) if k < self._counts[sentence] else ()

    def positions(self, sentence: int, k: int = 0) -> Positions | None:
        """Return the boundaries of written labels.

        A tape with one label per token has no boundaries: the result is None. So it is if only the
        labels were requested.
        """
        if self.at is None:
            return None
        tokens = slice(self.offsets[sentence], self.offsets[sentence + 1])
        at = tuple(self.at[k, tokens][self.flat[k, tokens] >= 0].tolist())
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
            Rank of the paths; 0 is the best. By default all paths.

        Returns
        -------
        list of list of str
            If n = 1 or `k` is given: the labels of each sentence, [] if it has fewer paths.
        list of list of list of str
            Otherwise the labels of each path of each sentence, best first.
        """
        if self.at is not None and (k is not None or self.n == 1):
            return [list(self.path(b, k or 0)) for b in range(len(self))]
        if k is not None or self.n == 1:
            names = np.asarray(self.label_set, dtype=object)
            flat, bounds = names[self.flat[k or 0]].tolist(), pairwise(self.offsets.tolist())
            has_path = (self._counts > (k or 0)).tolist()
            return [flat[a:b] if has else [] for has, (a, b) in zip(has_path, bounds, strict=True)]
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
            Label for the tokens of sentences that have fewer paths.

        Raises
        ------
        NoPathError
            A sentence has fewer paths, and `missing` is absent.
        OptionError
            The tape does not have one label per token.
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
        """Return the spans of the k-th best path of every sentence; [] if it has fewer paths.

        Parameters
        ----------
        scheme : str or Scheme
            Tagging scheme of the labels. A strict scheme drops ill-formed spans.
        k : int

        Raises
        ------
        OptionError, GrammarError
            An unknown scheme; a strict scheme in which the labels cannot form a span.
        """
        arrays = self.span_arrays(scheme, k)
        number = np.searchsorted(self.offsets, arrays.start, side="right") - 1
        first = self.offsets[number]
        spans: list[list[Span]] = [[] for _ in range(len(self))]
        rows = (number, arrays.start - first, arrays.end - first, arrays.type)
        for b, start, end, kind in zip(*(r.tolist() for r in rows), strict=True):
            spans[b].append(Span(start, end, arrays.types[kind]))
        return spans

    def span_arrays(self, scheme: str | Scheme = "conlleval", k: int = 0) -> SpanArrays:
        """Return the spans of all sentences as arrays; tokens are numbered across the batch."""
        check_readable(self.label_set, table := named_scheme(scheme))
        illegal: Literal["drop", "repair"] = "drop" if table.strict else "repair"
        column = self.column(k, missing=OUTSIDE)
        return span_arrays(column, self.offsets, table, illegal=illegal)


def _chances(nbest: Sequence[Sequence[Path]], n: int) -> Floats:
    """Return the probabilities of at most n paths of each sentence, [B, n], or [B] for n = 1."""
    rows = np.zeros((len(nbest), n))
    for row, paths in zip(rows, nbest, strict=True):
        row[: len(paths)] = [path.probability for path in paths]
    return rows if n > 1 else rows[:, 0]


class Answer:
    """The n best paths of B sentences, with a `TapeAnswer` for each tape.

    ``answer[tape]`` has the labels of a tape, ``answer[i]`` the paths of a sentence. An answer with
    one tape has the attributes `flat`, `ids`, `labels`, `column` and `spans` of its `TapeAnswer`.

    Parameters
    ----------
    flat : mapping of str to int32 [n, N]
        Label ids of each tape. Row k has the k-th best paths of all sentences, concatenated; −1 if
        a sentence has fewer paths.
    label_sets : mapping of str to tuple of str
        The labels of each tape.
    offsets : int64 [B + 1]
        Sentence b has the tokens ``offsets[b] : offsets[b + 1]``.
    scores : float64 [B, n], or [B] for n = 1
        Sum of the potentials of each path (natural log), in descending order; −inf for no path.
    probabilities : float64 of the shape of `scores`, or a callable that returns it
        exp(score − log Z), NaN if unknown. A callable is called once, on first use.
    exact : bool of the shape of `scores`, optional
        Whether only the paths ranked above have a higher score. By default all true.
    bounds : float64 of the shape of `scores`, optional
        Upper bound on the scores of all paths not ranked above; by default `scores`.
    log_z : callable, optional
        Returns log Z, float64 [B], instead of `probabilities`. Called once, on first use.
    changed : sequence of B str, optional
        Restriction that was dropped so that the sentence has a path: ``""``, ``"grammar"``,
        ``"forced"`` or ``"both"``.
    posterior : callable, optional
        Returns the distributions over the labellings of each sentence. Called once, on first use.
    width : int, optional
        Columns of `ids`; by default the length of the longest sentence.
    clocks : mapping of str to (int64 [B + 1], int32 [n, M]), optional
        Offsets, and the boundary of each label, for output tapes of transducers.

    Attributes
    ----------
    tapes : tuple of str
    n : int
        Number of requested paths; above 1,024 at most the largest number that a sentence has.
    dead : bool [B]
        Whether a sentence has no path.

    Raises
    ------
    ShapeError
        The sizes of the arrays disagree.
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
        posterior: Callable[[], Distributions] | None = None,
        width: int | None = None,
        clocks: Mapping[str, tuple[Longs, Ints]] | None = None,
    ) -> None:
        size = len(offsets) - 1
        self.n = 1 if scores.ndim == 1 else int(scores.shape[1])
        shape = (size,) if self.n == 1 else (size, self.n)
        exact = np.ones(scores.shape, dtype=bool) if exact is None else exact
        bounds = scores if bounds is None else bounds
        for name, array in (("scores", scores), ("exact", exact), ("bounds", bounds)):
            if array.shape not in (shape, (size, self.n)):
                raise ShapeError(f"{name} are {list(array.shape)}, expected {list(shape)}")
        self.tapes = tuple(flat)
        self.label_sets = {tape: tuple(label_sets[tape]) for tape in self.tapes}
        self.offsets = offsets
        self.scores, self.bounds = scores.reshape(shape), bounds.reshape(shape)
        self.exact: Bools = exact.reshape(shape)
        path_scores = self.scores
        self._probabilities = (lambda: shares(path_scores.T, log_z()).T) if log_z else probabilities
        self._posterior = posterior
        is_path = scores.reshape(size, self.n) > -np.inf
        self._counts: Longs = np.add.reduce(is_path, axis=1, dtype=np.int64)
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
        self.positioned = frozenset(clocks)  # tapes whose labels have boundaries
        for tape, ids in flat.items():
            starts, at = clocks.get(tape, (offsets, None))
            names = self.label_sets[tape]
            self._tapes[tape] = TapeAnswer(tape, names, ids, starts, self._counts, width, at)

    def __getstate__(self) -> dict[str, object]:
        """Return the attributes for pickling, with the values that callables would compute."""
        state = given_state(self)
        state["_probabilities"] = self.probabilities
        if self._posterior is not None or "posterior" in vars(self):
            state |= {"_posterior": None, "posterior": self.posterior}
        return state

    @classmethod
    def of_paths(
        cls,
        nbest: Sequence[Sequence[Path]],
        label_sets: Mapping[str, tuple[str, ...]],
        lengths: Sequence[int],
        n: int,
        written: Collection[str] = (),
    ) -> Answer:
        """Return the answer that has these paths.

        Parameters
        ----------
        nbest : sequence of B sequences of Path
            At most n paths of each sentence, best first.
        label_sets : mapping of str to tuple of str
            The labels of each tape.
        lengths : sequence of B int
            Number of tokens of each sentence.
        n : int
            Number of requested paths.
        written : collection of str
            Output tapes of transducers, which need not have one label per token.
        """
        offsets = Ragged.from_lengths(lengths).offsets
        n = columns(n, max(map(len, nbest), default=0))
        scores, exact = np.full((len(nbest), n), -np.inf), np.ones((len(nbest), n), dtype=bool)
        bounds = scores.copy()
        clocks = {
            tape: Ragged.from_lengths(
                [max((len(path[tape]) for path in paths), default=0) for paths in nbest]
            ).offsets
            for tape in written
        }
        starts = {tape: clocks.get(tape, offsets) for tape in label_sets}
        flat = {t: np.full((n, int(cuts[-1])), -1, dtype=np.int32) for t, cuts in starts.items()}
        at = {tape: flat[tape].copy() for tape in clocks}
        number = {t: {label: i for i, label in enumerate(ls)} for t, ls in label_sets.items()}
        for b, paths in enumerate(nbest):
            for k, path in enumerate(paths):
                scores[b, k], exact[b, k] = path.score, path.exact
                bounds[b, k] = path.bound
                parts = path.labels if len(label_sets) > 1 else (path.labels,)
                for tape, labels in zip(label_sets, parts, strict=True):
                    first = starts[tape][b]
                    flat[tape][k, first : first + len(labels)] = [number[tape][x] for x in labels]
                for tape, cuts in clocks.items():
                    places = path.positions.get(tape, ())
                    at[tape][k, cuts[b] : cuts[b] + len(places)] = places
        return cls(
            flat,
            label_sets,
            offsets,
            clocks={tape: (clocks[tape], at[tape]) for tape in clocks},
            scores=scores,
            probabilities=partial(_chances, nbest, n),
            exact=exact,
            bounds=bounds,
        )

    def with_part(self, sentences: Longs, part: Answer, change: Change) -> Answer:
        """Return this answer with new paths for some sentences.

        Parameters
        ----------
        sentences : int64 [M]
            Numbers of the sentences to replace.
        part : Answer
            Answer for these M sentences. A sentence without a path there keeps its old paths.
        change : str
            Restriction that was dropped for these sentences.
        """
        if self.positioned | part.positioned:
            return self._with_paths(sentences, part, change)
        alive = np.flatnonzero(~part.dead)
        replaced, shape = sentences[alive], (len(self), max(self.n, part.n))
        to, of = Ragged(self.offsets).entries(replaced), Ragged(part.offsets).entries(alive)
        flat = {}
        for tape, old in self._tapes.items():
            ids = flat[tape] = np.full((shape[1], old.flat.shape[1]), -1, dtype=np.int32)
            ids[: self.n] = old.flat
            ids[:, to] = -1
            ids[: part.n, to] = part[tape].flat[:, of]

        def joined(old: NDArray[T], new: NDArray[T], missing: float) -> NDArray[T]:
            both = np.full(shape, missing, dtype=old.dtype)
            both[:, : self.n] = old.reshape(-1, self.n)
            both[replaced] = missing
            both[replaced, : part.n] = new.reshape(-1, part.n)[alive]
            return both if shape[1] > 1 else both[:, 0]

        changed = self.changed.copy()
        changed[replaced] = change
        return Answer(
            flat,
            self.label_sets,
            self.offsets,
            scores=joined(self.scores, part.scores, -np.inf),
            probabilities=lambda: joined(self.probabilities, part.probabilities, 0.0),
            exact=joined(self.exact, part.exact, missing=True),
            bounds=joined(self.bounds, part.bounds, -np.inf),
            changed=changed.tolist(),
            posterior=lambda: self.posterior.with_part(sentences, part.posterior),
            width=self.width,
        )

    def _with_paths(self, sentences: Longs, part: Answer, change: Change) -> Answer:
        """Return the result of `with_part`, copied path by path."""
        rows, changed = self.ranked(), self.changed.copy()
        for b, paths in zip(sentences.tolist(), part.ranked(), strict=True):
            rows[b], changed[b] = paths or rows[b], change if paths else changed[b]
        n, lengths = max(self.n, part.n), Ragged(self.offsets).lengths.tolist()
        written = self.positioned | part.positioned
        answer = Answer.of_paths(rows, self.label_sets, lengths, n, written)
        answer.changed = changed
        return answer.with_posterior(lambda: self.posterior.with_part(sentences, part.posterior))

    def with_posterior(self, posterior: Callable[[], Distributions]) -> Answer:
        """Set the callable that returns the distributions; return this answer."""
        self._posterior = posterior
        return self

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.offsets) - 1

    @property
    def unproven(self) -> int:
        """Number of sentences with a path that is not proven to have its rank."""
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
        hidden = len(self) - len(rows)
        more = display.note(f"… {hidden:,} more sentences") if hidden else ""
        head = ["sentence", "score", *self.tapes]
        return display.picture(display.heading(repr(self)), display.table(head, rows), more)

    @overload
    def __getitem__(self, key: str) -> TapeAnswer: ...
    @overload
    def __getitem__(self, key: int) -> Path | list[Path] | None: ...
    def __getitem__(self, key: str | int) -> TapeAnswer | Path | list[Path] | None:
        """Return the answer of a tape, or the paths of a sentence.

        For n = 1 a sentence has a path or None, else a list of paths.

        Raises
        ------
        OptionError
            There is no tape with this name.
        IndexError
            There is no sentence with this number.
        """
        if not isinstance(key, str):
            paths = self.paths(key)
            return paths if self.n > 1 else next(iter(paths), None)
        if key not in self._tapes:
            raise OptionError(f"no tape {key!r}: the tapes are {', '.join(self.tapes)}")
        return self._tapes[key]

    def __iter__(self) -> Iterator[Path | list[Path] | None]:
        nbest = self.ranked()
        return iter(nbest if self.n > 1 else [next(iter(paths), None) for paths in nbest])

    @made_once
    def probabilities(self) -> Floats:
        """exp(score − log Z) of each path, float64 [B], or [B, n] if n > 1; NaN if unknown.

        Raises
        ------
        ShapeError
            The shape differs from the shape of the scores.
        """
        source = self._probabilities
        values = source() if callable(source) else source
        if values is None or values.shape != self.scores.shape:
            shapes = None if values is None else list(values.shape), list(self.scores.shape)
            raise ShapeError(f"probabilities are {shapes[0]}, expected {shapes[1]}")
        return values

    def paths(self, sentence: int) -> list[Path]:
        """Return the paths of a sentence, best first, at most n; [] if it has no path.

        Raises
        ------
        IndexError
            There is no sentence with this number.
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
        """Return the paths of every sentence, faster than a call of `paths` for each."""
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

    # --- Distributions ------------------------------------------------------------------------

    @made_once
    def posterior(self) -> Distributions:
        """The distributions over labellings, given forced labels and biases; not of dead sentences.

        Raises
        ------
        OptionError
            The tagger has no such distributions, as with ``normalize="chain"``.
        """
        if self._posterior is None:
            raise OptionError(
                "the answers of this search have no marginals, span probabilities or "
                "bounds: use normalize='product'"
            )
        return self._posterior().only(~self.dead)

    def marginals(self, tape: str | None = None) -> list[Floats]:
        """Return the probability of each label of a tape at each token.

        In a cascade they are conditioned on the best labels of the tapes that the tagger reads.

        Parameters
        ----------
        tape : str, optional
            Name of the tape. May be omitted if there is only one.

        Returns
        -------
        list of float64 [T, L]
            One array per sentence; zeros if it has no path.

        Raises
        ------
        OptionError
            The answer has several tapes and `tape` is absent; or as for `posterior`.
        TooLargeError
            The grammar has too many states for exact marginals.
        """
        name = self._only.name if tape is None else self[tape].name
        labels = len(self.label_sets[name])
        rows = zip(np.diff(self.offsets).tolist(), self.posterior.marginals(name), strict=True)
        return [np.zeros((length, labels)) if row is None else row for length, row in rows]

    def span_probabilities(self, tape: str | None = None, k: int = 0) -> list[Floats]:
        """Return the probability of each span of the k-th best paths, as `spans` lists them.

        Parameters
        ----------
        tape : str, optional
            Name of the tape. May be omitted if there is only one.
        k : int

        Raises
        ------
        OptionError
            As for `marginals`.
        """
        return self.posterior.span_probabilities(self._only if tape is None else self[tape], k)

    def confidence(self, sentence: int) -> Confidence | None:
        """Return the `Confidence` of the best path of a sentence; None if it has no path.

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
        """`TapeAnswer.flat` of the only tape, int32 [n, N]; OptionError if there are several."""
        return self._only.flat

    @property
    def ids(self) -> Ints:
        """`TapeAnswer.ids` of the only tape, padded; OptionError if there are several."""
        return self._only.ids

    @overload
    def labels(self, k: int) -> list[list[str]]: ...
    @overload
    def labels(self) -> list[list[str]] | list[list[list[str]]]: ...
    def labels(self, k: int | None = None) -> list[list[str]] | list[list[list[str]]]:
        """Return `TapeAnswer.labels` of the only tape; OptionError if there are several."""
        return self._only.labels() if k is None else self._only.labels(k)

    def column(self, k: int = 0, *, missing: str | None = None) -> Column:
        """Return `TapeAnswer.column` of the only tape; OptionError if there are several."""
        return self._only.column(k, missing=missing)

    def spans(self, scheme: str | Scheme = "conlleval", k: int = 0) -> list[list[Span]]:
        """Return `TapeAnswer.spans` of the only tape; OptionError if there are several."""
        return self._only.spans(scheme, k)
