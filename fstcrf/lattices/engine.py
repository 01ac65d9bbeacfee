"""Engines: batches of weighted sets of paths, and the questions that they answer.

An *engine* holds a batch of *rows*. Each row is a weighted set of paths, such as the lattice of one
sentence. A path is a sequence of *elements*. There are two engines:

- `fstcrf.lattices.chains.ChainEngine`: elements are joint states, one for each token.
- `fstcrf.lattices.arcs.ArcEngine`: elements are arcs of an acyclic machine.

An engine answers a few questions: best paths, samples, log Z, marginals. `Lattice` derives all
other answers from them. So a new kind of lattice is a new constructor, and a new algorithm is a new
engine. `fstcrf.lattices.row` has the rows before they are put into a batch: a row can be changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import NoPathError, OptionError

if TYPE_CHECKING:
    from fstcrf.kernel import Budget, SearchResult
    from fstcrf.lattices.chains import ChainEngine
    from fstcrf.lattices.paths import Labels, Path, Positions
    from fstcrf.machines.plans import Search
    from fstcrf.ragged import Ragged

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
