"""Rows: one weighted set of paths under a grammar, which can be changed and asked.

A `Row` holds the input of one lattice (scores, arcs) and its grammar. Changes return a new row. A
row makes its engine when it is first asked; many rows can share an engine. There are two rows, one
for each engine: `fstcrf.lattices.chainrow.ChainRow` and `fstcrf.lattices.arcrow.ArcRow`. Questions
that each of them answers by an algorithm of its engine are abstract here; the others are shared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints
from fstcrf.errors import NoPathError, OptionError
from fstcrf.lattices.engine import PathBatch, Tape
from fstcrf.lattices.paths import Path, Positions, share
from fstcrf.machines.plans import warn_unproven

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.lattices.arcrow import ArcRow
    from fstcrf.lattices.chainrow import ChainRow
    from fstcrf.lattices.engine import (
        Coupling,
        Engine,
        EngineRequest,
        Labelling,
        Over,
        Segment,
    )
    from fstcrf.lattices.results import Confidence, Method, MinimumRisk, ProbableSpans
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.plans import Plan, Search
    from fstcrf.machines.transducer import Transducer
    from fstcrf.text.corpus import Scheme

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
    def strings(self, tape: int, n: int, budget: int, log_z: float) -> list[Path[tuple[str, ...]]]:
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
