"""What lattices of every kind are asked of: the protocols of engines and of their rows.

An engine is a batch of rows, each a weighted set of paths; a path is a run of *elements*. A lattice
asks its engine few questions and reads everything else off their answers, so that a new kind of
lattice is a constructor, a new algorithm an engine or another way of one call.
`fstcrf.lattices.chains.ChainEngine`: elements are joint states, one for each token.
`fstcrf.lattices.arcs.ArcEngine`: elements are arcs of an acyclic machine.

A lattice is one row: what was given, and the grammar that it stands under. It is changed row by
row; many rows are asked together. `fstcrf.lattices.chainrow.ChainRow` and
`fstcrf.lattices.arcrow.ArcRow` are those of the two engines. What is a call of theirs differs by
algorithm; all else is in `fstcrf.lattices.questions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs

if TYPE_CHECKING:
    from fstcrf.errors import NoPathError
    from fstcrf.kernel import Budget
    from fstcrf.lattices.paths import Labels, Path, Positions
    from fstcrf.lattices.results import (
        Confidence,
        Method,
        MinimumRisk,
        ProbableSpans,
        SegmentCounts,
    )
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.plans import Plan, Search
    from fstcrf.machines.transducer import Transducer
    from fstcrf.ragged import Ragged
    from fstcrf.text.corpus import Scheme

Over: TypeAlias = Literal["segments", "tokens"]
"""What a grammar reads: a label for each segment, or one for each token."""

Coupling: TypeAlias = Mapping[tuple[int, int], Floats]
"""Potentials of labels at a token, [L1, L2], or at each, by the numbers of two tapes."""

Labelling: TypeAlias = (
    "Sequence[str] | Sequence[Sequence[str]] | Sequence[tuple[int, int, str]]"
    " | Mapping[str, Sequence[str]] | Path[Any]"
)
"""Labels, of each of several tapes, by name or in their order; a path; or segments."""

Segment: TypeAlias = tuple[int, int, str]
"""Start, end (exclusive) and label, or type."""


DecodedPath: TypeAlias = "tuple[Labels, tuple[Positions | None, ...]]"
"""The labels of a path, and where they lie, as a `Path` has them."""


class Tape(NamedTuple):
    """A tape's name and labels.

    `segments`: they lie on stretches, not on each token; `written`: the tape has a clock of its
    own, they are written at boundaries.
    """

    name: str
    labels: tuple[str, ...]
    segments: bool
    output: bool = False


class PathBatch(NamedTuple):
    """The paths of B rows as runs of elements: row by row, the best path of a row first.

    found : int64 [B]; the number of paths of each row.
    score : float64 [R].
    bounds : int64 [R + 1]; the elements of path r are ``elements[bounds[r] : bounds[r + 1]]``.
    path : int32 [bounds[R]]; the elements, or a function that returns them.
    proven : int64 [B]; as many first paths of each row are proven to be the best; None: all.
    bound : float64 [B]; no other path of the row scores more.
    states_expanded : int64 [B]; states that a search took from its queue; None without a search.
    decoded : the labels of each path, if the engine knows them; `bounds` are not used then.
    """

    found: Longs
    score: Floats
    bounds: Longs
    path: Ints | Callable[[], Ints]
    proven: Longs | None = None
    bound: Floats | None = None
    states_expanded: Longs | None = None
    decoded: Sequence[DecodedPath] | None = None

    @property
    def elements(self) -> Ints:
        """The elements of all paths, one path behind the other."""
        return self.path() if callable(self.path) else self.path

    def of_row(self, row: int, first: int, end: int) -> PathBatch:
        """Return the paths of one row: from `first` on, before `end`."""
        if self.decoded is not None:
            own = self.found[row : row + 1], self.score[first:end]
            return PathBatch(*own, self.bounds, self.path, decoded=self.decoded[first:end])
        cuts, one = self.bounds[first : end + 1], slice(row, row + 1)
        elements = self.elements[cuts[0] : cuts[-1]]
        proven = None if self.proven is None else self.proven[one]
        bound = None if self.bound is None else self.bound[one]
        return PathBatch(
            self.found[one], self.score[first:end], cuts - cuts[0], elements, proven, bound
        )


class TapeLabels(NamedTuple):
    """What stands on a tape along a path.

    label : int32 [k].
    at : int64 [k]; the place in the path where each begins; None: there is one for each element.
    start, end, origin : int64 [k]; of tapes with segments, where each lies in its row, and which of
        the given arcs it is.
    """

    label: Ints
    at: Longs | None = None
    start: Longs | None = None
    end: Longs | None = None
    origin: Longs | None = None


class Scored(Protocol):
    """What scores and samples the labels of one sentence: a lattice, or a chain of taggers."""

    def score(self, labels: Sequence[Any], /) -> float:
        """Return the score of labels of all tapes."""

    def probability(self, labels: Sequence[Any], /) -> float:
        """Return the probability of labels of all tapes."""

    def sample(self, n: int, /, *, seed: int) -> list[Any]:
        """Return n independent samples."""


class Engine(Protocol):
    """B weighted sets of paths."""

    @property
    def rows(self) -> Ragged:
        """Tokens of each row."""

    def nbest(self, n: int, budget: Budget | None = None) -> PathBatch:
        """Return the n best paths of each row, or all where there are fewer."""

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> PathBatch:
        """Return n independent samples of each row."""

    def labels_along(self, path: Ints, tape: int, *, placed: bool = False) -> TapeLabels:
        """Return what stands on a tape along a path of elements, or along several in a row."""

    @property
    def best_scores(self) -> Floats:
        """Score of the best path of each row, [B]; −inf: there is none."""

    @property
    def log_z(self) -> Floats:
        """Log of the sum over all paths of each row, [B]; −inf: there is none."""

    @property
    def usual_log_z(self) -> Floats:
        """The same, NaN where it costs too much to be found along with paths."""

    def entropies(self) -> Floats:
        """Return the entropy of each row in nats, [B]."""

    def marginals(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:
        """Return the probability of each label of some tapes at each token, [tokens, labels].

        `sizes` are the labels of every tape.
        """

    def highest(self, tapes: Sequence[int], sizes: Sequence[int], tokens: int) -> list[Floats]:
        """Return the score of the best path through each label at each token; −inf: none."""

    def successions(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:
        """Return the probability of each succession of labels, [tokens, labels, labels].

        Entry (t, i, j): label i at token t - 1 and label j at token t.
        """

    @property
    def time_aligned(self) -> Engine:
        """The same paths, each element at one token: what is asked of tokens is asked of it."""

    def forget(self) -> None:
        """Let go of what is as large as the lattices and is made again when somebody asks."""


class Row(Protocol):
    """One weighted set of paths as it was given, under a grammar; changes return another one."""

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes."""

    @property
    def length(self) -> int:
        """Tokens of the text, or of the longest path where there is no text."""

    @property
    def covers_text(self) -> bool:
        """Whether paths cover a text, and so the same tokens."""

    def __len__(self) -> int:
        """Tokens; raises ShapeError where paths differ."""

    @property
    def n_input_arcs(self) -> int | None:
        """Arcs that were given; None: scores of labels at tokens were."""

    @property
    def machines(self) -> tuple[Transducer, ...]:
        """The transducers that were composed."""

    def has_token_transitions(self, tape: int) -> bool:
        """Whether successions of a tape's labels have scores of their own at each token."""

    @property
    def large(self) -> str:
        """Why nothing but its best path is shown; empty: it is small."""

    @property
    def engine(self) -> Engine:
        """What answers: the paths under the grammar."""

    @property
    def summable(self) -> bool:
        """Whether sums cost about what paths do."""

    def check_alive(self) -> None:
        """Raise NoPathError where there is no path and the engine does not say so by itself."""

    def no_path(self, runs: PathBatch | None = None) -> NoPathError:
        """Return the error that says where all paths have died, or that none was found."""

    def searched(
        self, n: int, budget: Budget | None, search: Search | None
    ) -> tuple[Engine, PathBatch]:
        """Return an engine and the n best paths that it finds."""

    def labellings(
        self, n: int, shown: tuple[str, ...], budget: Budget | None, search: Search | None
    ) -> list[Path]:
        """Return the n best labellings of some tapes."""

    def strings(self, tape: int, n: int, budget: int, log_z: float) -> list[Path[tuple[str, ...]]]:
        """Return the n most probable label sequences of a tape, where there is a path."""

    def labels_sum(self, labels: Mapping[int, Sequence[str]]) -> float:
        """Return the log of the sum over the paths with these labels on some tapes, or −inf."""

    def clamped(self, said: Labelling) -> Self:
        """Return the paths that say this and nothing else."""

    # --- Spans --------------------------------------------------------------------------------

    def span_probabilities(
        self, spans: Sequence[Segment], tape: int, scheme: str | Scheme | None
    ) -> Floats:
        """Return the probabilities that exactly these segments are there."""

    def probable_spans(self, above: float, tape: int, scheme: str | Scheme | None) -> ProbableSpans:
        """Return the segments with a probability above a number, by their ends."""

    def span_risk(self, tape: int, scheme: str | Scheme | None) -> MinimumRisk:
        """Return the segments with the largest ratio of expectations that F is."""

    def bounded_confidence(
        self, method: Method, n: int, samples: int, level: float, seed: int, budget: Budget | None
    ) -> Confidence:
        """Return bounds on how sure the best legal path is, where sums cost too much."""

    # --- Changes ------------------------------------------------------------------------------

    @property
    def n_selectable_arcs(self) -> int | None:
        """Arcs that were given and may be chosen; None: there are none."""

    def restrict(self, masks: Sequence[Bools]) -> Self:
        """Return the paths that masks allow: a tape's labels at tokens [T, L], or given arcs [E].

        One for each of the first tapes.
        """

    def scale(self, factor: float, *, grammar: bool) -> Self:
        """Return the same with all scores times a factor; `grammar`: those of the grammar, too."""

    def reweight(self, tables: Sequence[Floats]) -> Engine:
        """Return the legal paths, each with the sum of its labels' scores [T, L] of each tape."""

    def without_grammar(self) -> Self:
        """Return all paths, whatever the grammar."""

    def without_scores(self) -> Self:
        """Return the paths that the grammar allows, without what it scores them."""

    def constrained(
        self, grammar: Grammar, over: Over | None, search: Search | None, budget: Budget | None
    ) -> Self:
        """Return the paths that a grammar accepts, its scores added."""

    def beside(
        self, others: Sequence[Row], names: Sequence[Mapping[str, str]], coupling: Coupling
    ) -> Row:
        """Return the composition; `names`: new ones of all tapes; couplings: of all tapes, too."""

    def arcs(self) -> WrittenRow:
        """Return the same as arcs, written out."""

    # --- Other forms --------------------------------------------------------------------------

    @property
    def machine(self) -> Transducer:
        """The paths as flat arrays of an acceptor."""

    def plan(self) -> Plan:
        """Return what was decided and what it costs."""


class WrittenRow(Row, Protocol):
    """A row whose arcs are written out: what is asked of such alone."""

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of the shortest and of the longest path; zeros where there is none."""

    def bounded(self, wanted: Longs) -> Self:
        """Return the paths by boundaries: 1 must, −1 must not be one, [T + 1]."""

    def expectations(self) -> SegmentCounts:
        """Return what is expected of the lattice: the gradient of log Z."""

    def expected_output(self, tape: int) -> Floats:
        """Return how often each label is expected to be written at each boundary, [T + 1, L]."""

    def arc_probabilities(self) -> Floats:
        """Return the probability of each arc that was given, float64 [E]."""

    def beginning_where(self, begins: Callable[[str], bool]) -> Self:
        """Return the paths whose segments begin at tokens that begin one, and only there."""
