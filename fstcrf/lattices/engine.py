"""Engines and rows: batches of weighted sets of paths, and the questions that they answer.

An *engine* holds a batch of *rows*. Each row is a weighted set of paths, such as the lattice of one
sentence. A path is a sequence of *elements*. There are two engines, each with its row:

- `ChainEngine` and `ChainRow`: elements are joint states, one for each token.
- `ArcEngine` and `ArcRow`: elements are arcs of an acyclic machine.

An engine answers a few questions: best paths, samples, log Z, marginals. `Lattice` derives all
other answers from them. So a new kind of lattice is a new constructor, and a new algorithm is a new
engine. A `Row` holds the input of one lattice (scores, arcs) and its grammar. Changes return a new
row. A row makes its engine when it is first asked; many rows can share an engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import NoPathError, OptionError
from fstcrf.lattices.paths import Path, Positions, share
from fstcrf.machines.plans import warn_unproven

if TYPE_CHECKING:
    from fstcrf.arrays import Ragged
    from fstcrf.kernel import Budget, SearchResult
    from fstcrf.lattices.arcrow import ArcRow
    from fstcrf.lattices.chainrow import ChainRow
    from fstcrf.lattices.chains import ChainEngine
    from fstcrf.lattices.paths import Labels, Path, Positions
    from fstcrf.lattices.results import Confidence, Method, MinimumRisk, ProbableSpans
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.plans import Plan, Search
    from fstcrf.machines.transducer import Transducer
    from fstcrf.text.corpus import Scheme


Over: TypeAlias = Literal["segments", "tokens"]
"""Labels that a grammar reads: one for each segment, or one for each token."""

Coupling: TypeAlias = Mapping[tuple[int, int], Floats]
"""Potentials of pairs of labels at a token, [L1, L2] or [T, L1, L2], by two tape numbers."""

Labelling: TypeAlias = (
    "Sequence[str] | Sequence[Sequence[str]] | Sequence[tuple[int, int, str]]"
    " | Mapping[str, Sequence[str]] | Path[Any]"
)
"""Labels of each tape, by name or in the order of the tapes; or a path; or segments."""

Segment: TypeAlias = tuple[int, int, str]
"""Start, end (exclusive) and label, or type."""


DecodedPath: TypeAlias = "tuple[Labels, tuple[Positions | None, ...]]"
"""The labels of a path and their positions, as in a `Path`."""


class Tape(NamedTuple):
    """The name and the labels of a tape.

    `segments`: each label belongs to a segment, not to a token. `output`: a transducer writes the
    labels, each at a boundary between tokens.
    """

    name: str
    labels: tuple[str, ...]
    segments: bool
    output: bool = False


class PathBatch(NamedTuple):
    """Paths of B rows, R in all: row by row, the best path of each row first.

    counts : int64 [B]; number of paths of each row.
    score : float64 [R].
    bounds : int64 [R + 1]; the elements of path r are ``elements[bounds[r] : bounds[r + 1]]``.
    path : int32 [bounds[R]]; the elements, or a function that returns them.
    proven : int64 [B]; how many paths, from the first, are proven to be the best. If absent, all.
    bound : float64 [B]; upper bound of the scores of all other paths of the row.
    states_expanded : int64 [B]; states that a search took from its queue. Absent without a search.
    decoded : the labels of each path, if the engine has them. `bounds` is unused then.
    """

    counts: Longs
    score: Floats
    bounds: Longs
    path: Ints | Callable[[], Ints]
    proven: Longs | None = None
    bound: Floats | None = None
    states_expanded: Longs | None = None
    decoded: Sequence[DecodedPath] | None = None

    @property
    def elements(self) -> Ints:
        """The elements of all paths, concatenated."""
        return self.path() if callable(self.path) else self.path

    def of_row(self, row: int, first: int, end: int) -> PathBatch:
        """Return the paths of one row, whose numbers are `first` to `end` (exclusive)."""
        only = slice(row, row + 1)
        counts, score = self.counts[only], self.score[first:end]
        if self.decoded is not None:
            decoded = self.decoded[first:end]
            return PathBatch(counts, score, self.bounds, self.path, decoded=decoded)
        cuts = self.bounds[first : end + 1]
        elements = self.elements[cuts[0] : cuts[-1]]
        proven = None if self.proven is None else self.proven[only]
        bound = None if self.bound is None else self.bound[only]
        return PathBatch(counts, score, cuts - cuts[0], elements, proven, bound)

    def ranks(self, kept: Longs) -> PathBatch:
        """Return some paths of a batch of one row, by their ascending ranks."""
        lengths = np.diff(self.bounds)
        cuts = np.append(0, np.cumsum(lengths[kept]))
        elements = [self.elements[self.bounds[k] : self.bounds[k + 1]] for k in kept.tolist()]
        proven = None if self.proven is None else np.searchsorted(kept, self.proven)
        path = np.concatenate([self.elements[:0], *elements])
        return PathBatch(np.array([len(kept)]), self.score[kept], cuts, path, proven, self.bound)


class TapeLabels(NamedTuple):
    """The labels of one tape along a path, k in all.

    label : int32 [k].
    at : int64 [k]; index, in the path, of the element where each label begins. If absent, each
        element has a label.
    start, end, origin : int64 [k]; for tapes with segments, the position of each segment in the
        row, and the number of its input arc, or −1.
    """

    label: Ints
    at: Longs | None = None
    start: Longs | None = None
    end: Longs | None = None
    origin: Longs | None = None


class EngineRequest(NamedTuple):
    """The question that lattices are about to be asked, as far as it decides on their engine."""

    search: Search | None = None  # method for best paths; as compiled if absent
    time_aligned: bool = False  # it is a question about tokens
    best: bool = False  # it is a question about best paths


PLAIN = EngineRequest()
"""A request that any engine can answer."""


class Scored(Protocol):
    """An object that scores and samples labels of a sentence: a lattice or a chain of taggers."""

    def score(self, labels: Sequence[Any], /) -> float:
        """Return the score of labels of all tapes."""

    def probability(self, labels: Sequence[Any], /) -> float:
        """Return the probability of labels of all tapes."""

    def sample(self, n: int, /, *, seed: int) -> list[Any]:
        """Return n independent samples."""


def refuse_options(options: Mapping[str, object]) -> None:
    """Raise OptionError if a search option has a value, for lattices that need no search."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(
                f"{name}= is for lattices of tokens: this lattice is stored as arcs and "
                "needs no search, so leave it out"
            )


class Engine(ABC):
    """A batch of B weighted sets of paths."""

    rows: Ragged
    """Tokens of each row."""

    ambiguous: str = ""
    """Reason why several paths may have the same labels, of which only the best counts.

    The engine has no sum over the paths then. Empty if each path counts.
    """

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes that all rows share; empty if the labels of rows may differ."""
        return ()

    @property
    def as_chain(self) -> ChainEngine | None:
        """The engine itself, if its rows are chains of one program."""
        return None

    @property
    def time_aligned(self) -> Engine:
        """An engine with the same paths, in which each element has one position.

        Questions about tokens need it.
        """
        return self

    def forget(self) -> None:  # noqa: B027 (not all engines have such arrays)
        """Drop arrays that are as large as the lattices and can be computed again."""

    # --- Paths --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def best_scores(self) -> Floats:
        """Score of the best path of each row, float64 [B]; −inf for a row without a path."""

    @abstractmethod
    def nbest(self, n: int, budget: Budget | None = None) -> PathBatch:
        """Return the n best paths of each row; OptionError for a budget without a search."""

    @abstractmethod
    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> PathBatch:
        """Return n independent samples of each row, drawn with the generator of the row."""

    @abstractmethod
    def labels_along(self, path: Ints, tape: int) -> TapeLabels:
        """Return the labels of a tape along one path, or along several concatenated paths."""

    def segments_along(self, path: Ints, tape: int) -> TapeLabels:
        """Return the labels of a tape along paths, as `labels_along`, with their positions."""
        return self.labels_along(path, tape)

    def decode(
        self, n: int, on: tuple[Tape, ...], budget: Budget | None, *, strict: bool = False
    ) -> tuple[SearchResult, list[Ints]]:
        """Return the n best paths of each row, and the labels of the first tapes, [n, N] each.

        Raises OptionError if the rows do not share these tapes, or have no label for each token.
        `strict`: raise NoPathError if a row has no path. Labels are −1 without a path.
        """
        del n, on, budget, strict
        raise OptionError(
            "decode() needs lattices with the same labels at each token: call best() "
            "or nbest(n) for other lattices"
        )

    def path_spans(self, path: Ints) -> list[Floats] | None:
        """Return the probabilities of the spans in given labels, int32 [N], row by row.

        The scheme "conlleval" reads the spans. The result is None if one pass cannot find them.
        """
        del path
        return None

    # --- Sums ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def log_z(self) -> Floats:
        """Log of the sum over all paths of each row, float64 [B]; −inf without a path."""

    @property
    def usual_log_z(self) -> Floats:
        """`log_z`, or NaN if it costs much more than best paths."""
        return self.log_z

    def check_alive(self, error: Callable[[int], NoPathError]) -> None:
        """Raise the error of a row without a path, if sums of the engine do not raise one."""
        for k in np.flatnonzero(np.isneginf(self.log_z)).tolist()[:1]:
            raise error(k)

    @abstractmethod
    def entropies(self) -> Floats:
        """Return the entropy of the paths of each row in nats, float64 [B]."""

    @abstractmethod
    def marginals(self, tapes: Sequence[int]) -> list[Floats]:
        """Return the probability of each label at each token, float64 [N, L] for each tape."""

    @abstractmethod
    def highest(self, tapes: Sequence[int]) -> list[Floats]:
        """Return the score of the best path with each label at each token, [N, L] for each tape.

        The score is −inf if no path has the label there.
        """

    @abstractmethod
    def successions(self, tapes: Sequence[int]) -> list[Floats]:
        """Return the probability of each pair of neighbouring labels, [N, L, L] for each tape.

        Entry (t, i, j): label i at token t − 1 and label j at token t. Entries of the first token
        of a row are undefined.
        """

    def label_counts(self, tape: int) -> tuple[Floats, Floats]:
        """Return `marginals` of a tape, and the expected number of each pair of neighbours, [L, L].

        The engine has one row.
        """
        (node,), (pair,) = self.marginals([tape]), self.successions([tape])
        return node, pair[1:].sum(axis=0)

    def move_counts(self, sizes: Sequence[int]) -> list[Floats]:
        """Return the expected number of uses of each arc and final state of all transducers.

        Parameters
        ----------
        sizes : sequence of int
            Number of arcs and final states of each transducer.

        Raises
        ------
        OptionError
            The engine does not record the arcs of these transducers.
        """
        del sizes
        raise OptionError(
            "the arcs of a transducer are not recorded in a composition with a lattice "
            "of segments or with scores of label pairs: compose the transducer last, "
            "(a @ b) @ transducer"
        )


AnyPath: TypeAlias = "Path[Any]"
"""A path whose labels are a tuple, or a tuple for each of several tapes."""

PathLabels: TypeAlias = tuple[Any, ...]
"""`Path.labels` or `Path.segments`."""


def _chance(score: float, log_z: Callable[[], float]) -> float:
    return share(score, log_z())


class Row(ABC):
    """One weighted set of paths under a grammar."""

    on: tuple[Tape, ...]
    """The tapes."""

    make_unambiguous: Callable[[], ArcRow] | None = None
    """Returns the row with one path for each labelling, if this row may have several."""

    @property
    @abstractmethod
    def covers_text(self) -> bool:
        """Whether all paths cover one text, and so the same tokens."""

    @property
    @abstractmethod
    def length(self) -> int:
        """Tokens of the text; without a text, of the longest path."""

    @property
    @abstractmethod
    def n_input_arcs(self) -> int | None:
        """Number of arcs in the input; absent if the input is scores of labels at tokens."""

    @property
    @abstractmethod
    def n_selectable_arcs(self) -> int | None:
        """Number of input arcs that a mask can select, if there are any."""

    @property
    @abstractmethod
    def machines(self) -> tuple[Transducer, ...]:
        """The transducers that the input was composed with."""

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """The engine of the paths under the grammar, with this row only."""

    @property
    @abstractmethod
    def large(self) -> str:
        """Reason why a picture shows only the best path; empty for a small row."""

    @property
    @abstractmethod
    def summable(self) -> bool:
        """Whether sums cost about as much as best paths."""

    @property
    def as_chain(self) -> ChainRow | None:
        """The row itself, if it has scores of labels at tokens."""
        return None

    @property
    def unambiguous(self) -> Row:
        """The row with one path for each labelling, if there is such a row."""
        return self

    @property
    def segmented(self) -> bool:
        """Whether a tape has segments."""
        return any(tape.segments for tape in self.on)

    @abstractmethod
    def __len__(self) -> int:
        """Tokens of each path; raises ShapeError if paths differ in length."""

    @abstractmethod
    def has_token_transitions(self, tape: int) -> bool:
        """Return whether each token has its own scores of pairs of neighbouring labels."""

    @abstractmethod
    def check_alive(self) -> None:
        """Raise NoPathError if there is no path and the engine does not raise it."""

    @abstractmethod
    def no_path(self, paths: PathBatch | None = None) -> NoPathError:
        """Return the error about a row without a path, or about a search that found no path."""

    # --- Batches ------------------------------------------------------------------------------

    @abstractmethod
    def batch_key(self, request: EngineRequest) -> Hashable:
        """Return a key: rows with equal keys can share an engine."""

    @staticmethod
    @abstractmethod
    def engines(
        rows: Sequence[Any], numbers: Sequence[int], request: EngineRequest
    ) -> Iterator[tuple[slice, Engine]]:
        """Yield engines of bounded size for rows with one key, and the rows of each engine.

        Error messages refer to the rows by `numbers`.
        """

    # --- Paths --------------------------------------------------------------------------------

    @abstractmethod
    def searched(
        self, n: int, budget: Budget | None, search: Search | None
    ) -> tuple[Engine, PathBatch]:
        """Return the n best paths, and the engine that found them."""

    def nbest(
        self, n: int, budget: Budget | None = None, search: Search | None = None
    ) -> list[AnyPath]:
        """Return the n best paths, and warn if they are not proven to be the best."""
        engine, paths = self.searched(n, budget, search)
        if paths.proven is not None and paths.bound is not None:
            warn_unproven(int(paths.proven[0] < n and paths.bound[0] > -np.inf), 1)
        return self.paths(engine, paths, partial(self.log_partition, engine))

    @abstractmethod
    def labellings(
        self, n: int, tapes: tuple[str, ...], budget: Budget | None, search: Search | None
    ) -> list[AnyPath]:
        """Return the n best labellings of some tapes."""

    @abstractmethod
    def strings(
        self, tape: int, n: int, budget: int | None, log_z: float
    ) -> list[Path[tuple[str, ...]]]:
        """Return the n most probable label sequences of a tape; the row must have a path."""

    @abstractmethod
    def labels_sum(self, labels: Mapping[int, Sequence[str]]) -> float:
        """Return the log of the sum over all paths with these labels on some tapes, or −inf."""

    @abstractmethod
    def clamped(self, labels: Labelling) -> Row:
        """Return the row of the paths with exactly these labels."""

    def log_partition(self, engine: Engine) -> float:
        """Return log Z of an engine of this row; of the unambiguous paths if it has no sum."""
        return float((self.engine if engine.ambiguous else engine).usual_log_z[0])

    def paths(self, engine: Engine, paths: PathBatch, log_z: Callable[[], float]) -> list[AnyPath]:
        """Return `Path` objects for paths of this row that an engine found.

        The function `log_z` is called once, when a probability is first read.
        """
        labels, places = self._columns(engine, paths)
        scores, tapes = paths.score.tolist(), tuple([tape.name for tape in self.on])
        shared_log_z = log_z if len(scores) == 1 else cache(log_z)
        chances: list[Any] = [partial(_chance, score, shared_log_z) for score in scores]
        rows = zip(labels, places, scores, chances, strict=True)
        proven, bound = len(scores), -np.inf
        if paths.proven is not None and paths.bound is not None:
            proven, bound = int(paths.proven[0]), float(paths.bound[0])
        return [
            Path(
                label,
                score,
                chance,
                rank < proven,
                score if rank < proven else max(score, bound),
                place,
                tapes,
            )
            for rank, (label, place, score, chance) in enumerate(rows)
        ]

    def samples(self, engine: Engine, paths: PathBatch) -> list[PathLabels] | list[AnyPath]:
        """Return samples: labels, or paths if there are segments."""
        if self.segmented:
            return self.paths(engine, paths, lambda: float(engine.log_z[0]))
        return self._columns(engine, paths)[0]

    def labels_of(self, engine: Engine, elements: Ints) -> PathLabels:
        """Return the labels of a path of an engine, or its segments if there are any."""
        bounds = np.array([0, len(elements)])
        batch = PathBatch(np.ones(1, dtype=np.int64), np.zeros(1), bounds, elements)
        (path,) = self.paths(engine, batch, float)
        return path.segments if self.segmented else path.labels

    def _columns(
        self, engine: Engine, paths: PathBatch
    ) -> tuple[list[PathLabels], list[tuple[Positions | None, ...]]]:
        """Return the labels of each path, and their positions."""
        if paths.decoded is not None:
            return [labels for labels, _ in paths.decoded], [place for _, place in paths.decoded]
        columns = [self._column(engine, paths, k) for k in range(len(self.on))]
        if len(columns) == 1:
            labels, places = columns[0]
            return labels, [() if place is None else (place,) for place in places]
        placed = any(tape.segments or tape.output for tape in self.on)
        labels = [*zip(*(labels for labels, _ in columns), strict=True)]
        if not placed:
            return labels, [()] * len(labels)
        return labels, [*zip(*(places for _, places in columns), strict=True)]

    def _column(
        self, engine: Engine, paths: PathBatch, number: int
    ) -> tuple[list[PathLabels], list[Positions | None]]:
        """Return the labels of one tape on each path, and their positions."""
        tape, bounds = self.on[number], paths.bounds
        read = engine.segments_along if tape.segments or tape.output else engine.labels_along
        along, names = read(paths.elements, number), tape.labels
        label = tuple([names[k] for k in along.label.tolist()])
        cuts = (bounds if along.at is None else np.searchsorted(along.at, bounds)).tolist()
        pairs = [*pairwise(cuts)]
        labels: list[PathLabels] = [label[a:b] for a, b in pairs]
        if along.start is None or along.end is None or along.origin is None:
            return labels, [None] * len(labels)
        start, end, origin = tuple(along.start.tolist()), tuple(along.end.tolist()), along.origin
        if tape.output:
            start = end
        return labels, [
            Positions(start[a:b], end[a:b], origin[a:b], output=tape.output) for a, b in pairs
        ]

    # --- Spans --------------------------------------------------------------------------------

    @abstractmethod
    def span_probabilities(
        self, spans: Sequence[Segment], tape: int, scheme: str | Scheme | None
    ) -> Floats:
        """Return the probability of each of some segments."""

    @abstractmethod
    def probable_spans(self, above: float, tape: int, scheme: str | Scheme | None) -> ProbableSpans:
        """Return the segments whose probability is greater than `above`, by their ends."""

    @abstractmethod
    def span_risk(self, tape: int, scheme: str | Scheme | None) -> MinimumRisk:
        """Return the segments that maximise the ratio of expectations in F."""

    def bounded_confidence(
        self, method: Method, n: int, samples: int, level: float, seed: int, budget: Budget | None
    ) -> Confidence:
        """Return bounds of the confidence in the best path, without sums under the grammar."""
        del n, samples, level, seed, budget
        raise OptionError(
            f"method={method!r} is for lattices of tokens: leave it out here, the "
            "confidence of a lattice of arcs is exact"
        )

    # --- Changes ------------------------------------------------------------------------------

    @abstractmethod
    def restrict(self, masks: Sequence[Bools]) -> Row:
        """Return the row of the paths that masks allow.

        Each of the first tapes has a mask of labels at tokens, [T, L], or of input arcs, [E].
        """

    @abstractmethod
    def scale(self, factor: float, *, grammar: bool) -> Row:
        """Return the row with all scores times a factor; `grammar`: its scores as well."""

    @abstractmethod
    def reweight(self, tables: Sequence[Floats]) -> Engine:
        """Return the legal paths, each scored by its labels' entries in tables, [T, L] each."""

    @abstractmethod
    def without_grammar(self) -> Self:
        """Return the row of all paths, without the grammar."""

    @abstractmethod
    def without_scores(self) -> Self:
        """Return the row of the legal paths, without the scores of the grammar."""

    @abstractmethod
    def constrained(
        self, grammar: Grammar, over: Over | None, search: Search | None, budget: Budget | None
    ) -> Self:
        """Return the row of the paths that a grammar accepts, with its scores added."""

    @abstractmethod
    def compose(
        self, others: Sequence[Row], names: Sequence[Mapping[str, str]], coupling: Coupling
    ) -> Row:
        """Return the composition with other rows.

        `names` maps, for each row, the old names of its tapes to new names. `coupling` numbers the
        tapes of all rows.
        """

    @abstractmethod
    def arcs(self) -> ArcRow:
        """Return the same paths as arcs."""

    # --- Other forms --------------------------------------------------------------------------

    @property
    @abstractmethod
    def machine(self) -> Transducer:
        """The paths as an acceptor, or as a transducer if one was composed."""

    @abstractmethod
    def plan(self) -> Plan:
        """Return the compiled form and its cost."""
