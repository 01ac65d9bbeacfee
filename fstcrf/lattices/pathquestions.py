"""The paths of a lattice: its tapes, and what is asked of paths, once for all kinds.

A lattice is one row of an engine and the names of its tapes. All that is no call of a row or of its
engine is read off here and in `fstcrf.lattices.questions`. Nothing asks which constructor made a
lattice, but whether a tape has segments or a label for each token. What is found by another
algorithm is a call of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import real_array, whole_number
from fstcrf.arrays import Floats, Ints
from fstcrf.errors import OptionError
from fstcrf.kernel import Budget
from fstcrf.lattices.engine import PathBatch, Tape
from fstcrf.lattices.paths import LabelsT_co, Path, Positions, share, shown_tapes
from fstcrf.machines.plans import Search, warn_unproven

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from fstcrf.lattices.engine import Engine, Row

    ArrayT_co = TypeVar("ArrayT_co", default=Any, covariant=True)
else:  # its default is for those who check types
    from typing import TypeVar

    ArrayT_co = TypeVar("ArrayT_co", covariant=True)

PREFIXES = 10_000
"""Of label sequences, that `strings` looks at."""


def refuse_options(given: Mapping[str, object]) -> None:
    """Refuse options of a search where there is none."""
    for name, value in given.items():
        if value is not None:
            raise OptionError(
                f"{name}= is for lattices of tokens: this lattice is stored as arcs and "
                "needs no search, so leave it out"
            )


def _chance(score: float, log_z: Callable[[], float]) -> float:
    return share(score, log_z())


class PathQuestions(Generic[LabelsT_co, ArrayT_co]):
    """A weighted set of paths, and what is asked of these.

    What is said of labels is said of each tape: a lattice of one tape gives arrays and tuples, one
    of several gives a tuple of them.
    """

    def __init__(self, row: Row, samples: int | None = None) -> None:
        self.row, self.samples = row, samples

    def _with_row(self, row: Row) -> Self:
        """Return the lattice of another row."""
        return type(self)(row)

    def standard_error(self, probability: ArrayLike) -> Floats:
        """Return by how much probabilities of a lattice of samples may be off: √(p (1 − p) / n).

        Parameters
        ----------
        probability : float or array of float
            What the lattice answered.

        Raises
        ------
        OptionError
            It is not made of samples, or was changed since: a grammar leaves another number. What
            is no probability.
        """
        if self.samples is None:
            raise OptionError(
                "this lattice has no standard errors, its answers are exact: only sampled "
                "lattices have them, tagger.lattice(sentence, samples=1000)"
            )
        p = real_array(probability, "probability")
        if not ((p >= 0) & (p <= 1)).all():
            raise OptionError("probability has numbers outside [0, 1]")
        return np.sqrt(p * (1 - p) / self.samples)

    def __len__(self) -> int:
        """Tokens; raises ShapeError where paths differ."""
        return len(self.row)

    @property
    def engine(self) -> Engine:
        """What answers."""
        return self.row.engine

    @property
    def length(self) -> int:
        """Tokens of the text, or of the longest path where there is no text."""
        return self.row.length

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of the shortest and of the longest path; zeros where there is none."""
        covers_text, length = self.row.covers_text, self.row.length
        return (length, length) if covers_text else self.row.arcs().lengths

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes."""
        return self.row.on

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return tuple([tape.name for tape in self.on])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Labels of each tape."""
        return tuple([len(tape.labels) for tape in self.on])

    @property
    def labels(self) -> LabelsT_co:
        """The labels; axis of `marginals` and of masks."""
        return cast("LabelsT_co", self._by_tape(lambda k: self.on[k].labels))

    @property
    def segmented(self) -> bool:
        """Whether a tape has segments; then paths say where these lie."""
        return any(tape.segments for tape in self.on)

    def _by_tape(self, make: Callable[[int], Any]) -> Any:
        """Return what a function makes of the number of the only tape, or a tuple, of each."""
        found = tuple(map(make, range(len(self.on))))
        return found if len(found) > 1 else found[0]

    def number(self, tape: str) -> int:
        """Return the number of a tape by name."""
        if tape not in self.tapes:
            raise OptionError(f"no tape {tape!r}: the tapes are {', '.join(self.tapes)}")
        return self.tapes.index(tape)

    def _segment_tape(self, tape: str | None) -> int:
        """Return the number of a tape by name; of the only one, or the first with segments."""
        if tape is not None:
            return self.number(tape)
        found = next((k for k, one in enumerate(self.on) if one.segments), None)
        if found is None and len(self.on) > 1:
            raise OptionError(
                f"the lattice has several tapes: choose one of {', '.join(self.tapes)}"
            )
        return found or 0

    def _labels_on(self, labels: Any, tape: str) -> tuple[str, ...]:
        """Return the labels that those of a path have for one tape."""
        found: tuple[str, ...] = labels if len(self.on) == 1 else labels[self.number(tape)]
        return found

    # --- Paths --------------------------------------------------------------------------------

    def best(
        self, budget: Budget | None = None, *, search: Search | None = None
    ) -> Path[LabelsT_co]:
        """Return the best path.

        Ties: the smaller label index wins, at the earliest token where the candidates differ; of
        arcs, ending comes before going on, then the smaller label, then the shorter segment.

        Parameters
        ----------
        budget : Budget, optional
            When to give up, where a grammar is searched lazily. Then the path is the best one
            found: ``exact`` is False, no other path scores more than ``bound``, and an
            `InexactWarning` says so. That of `constrained` when absent.
        search : {"auto", "lazy", "expanded"}, optional
            How it is found; that of `constrained` when absent.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden, with the first token at which all have died; or none
            was found within the budget.
        OptionError
            A budget or a search where arcs are written out, and nothing is searched.
        """
        engine, runs = self.row.searched(1, budget, search)
        if not len(runs.score):
            raise self.row.no_path(runs)
        (path,) = self._paths_of(engine, runs, partial(self._log_total, engine))
        warn_unproven(int(not path.exact), 1)
        return path

    @overload
    def nbest(
        self,
        n: int,
        budget: Budget | None = None,
        *,
        search: Search | None = None,
        tapes: None = None,
    ) -> list[Path[LabelsT_co]]: ...
    @overload
    def nbest(
        self,
        n: int,
        budget: Budget | None = None,
        *,
        search: Search | None = None,
        tapes: Sequence[str],
    ) -> list[Path]: ...
    def nbest(
        self,
        n: int,
        budget: Budget | None = None,
        *,
        search: Search | None = None,
        tapes: Sequence[str] | None = None,
    ) -> list[Path[LabelsT_co]] | list[Path]:
        """Return the n best paths, best first; fewer where there are fewer.

        Parameters
        ----------
        n : int
        budget, search
            As for `best`.
        tapes : sequence of str, optional
            The n best labellings of these tapes, which differ in them. The score and the
            probability of each are those of its best path. `string_probability` sums over all paths
            of a labelling, and `strings` ranks the labels of a tape by that sum.

        Raises
        ------
        OptionError
            Too small an n, or tapes that there are not; as for `best`.
        """
        shown = None if tapes is None else shown_tapes(self.tapes, tapes)
        n = whole_number(n, "n", least=1, narrow=True)
        if shown is not None:
            return self.row.labellings(n, shown, budget, search)
        engine, runs = self.row.searched(n, budget, search)
        if runs.proven is not None and runs.bound is not None:
            warn_unproven(int(runs.proven[0] < n and runs.bound[0] > -np.inf), 1)
        return self._paths_of(engine, runs, partial(self._log_total, engine))

    def strings(
        self, tape: str | None = None, n: int = 1, *, budget: int = PREFIXES
    ) -> list[Path[tuple[str, ...]]]:
        """Return the n most probable label sequences, best first, the sum over all paths of each.

        By best-first search over prefixes; what bounds a prefix is the exact sum over all sequences
        that begin with it.

        Parameters
        ----------
        tape : str, optional
            The first tape when absent, where there are several.
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
            n or a budget below 1, no such tape.
        """
        number = 0 if tape is None else self.number(tape)
        if n < 1 or budget < 1:
            raise OptionError(f"n is {n} and budget {budget}, expected 1 or more")
        log_z = float(self.engine.log_z[0])
        return self.row.strings(number, n, budget, log_z) if log_z > -np.inf else []

    def sample(self, n: int, *, seed: int = 0) -> list[LabelsT_co]:
        """Return n independent exact samples: labels, or paths where there are segments.

        Raises
        ------
        OptionError
            A negative n or seed.
        NoPathError
            There is no path.
        """
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        self.row.check_alive()
        return self._sampled_labels(
            self.engine, self.engine.sample(n, [np.random.default_rng(seed)])
        )

    def _log_total(self, engine: Engine) -> float:
        """Return log Z; that of one path for all that say the same, where the best one counts."""
        frozen = self.engine if getattr(engine, "ambiguous", "") else engine
        return float(frozen.usual_log_z[0])

    def _paths_of(
        self, engine: Engine, runs: PathBatch, log_z: Callable[[], float]
    ) -> list[Path[LabelsT_co]]:
        """Return what the paths of a row of an engine say; log Z is asked once, when needed."""
        labels, places = self._columns(engine, runs)
        scores, tapes = runs.score.tolist(), self.tapes
        whole = log_z if len(scores) == 1 else cache(log_z)
        chances: list[Any] = [partial(_chance, score, whole) for score in scores]
        rows = zip(labels, places, scores, chances, strict=True)
        if runs.proven is None or runs.bound is None:
            return [
                Path(label, score, chance, True, score, place, tapes)  # noqa: FBT003
                for label, place, score, chance in rows
            ]
        proven, bound = int(runs.proven[0]), float(runs.bound[0])
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

    def _sampled_labels(self, engine: Engine, runs: PathBatch) -> list[LabelsT_co]:
        """Return what samples are: labels, or paths where there are segments."""
        if self.segmented:
            return cast(
                "list[LabelsT_co]", self._paths_of(engine, runs, lambda: float(engine.log_z[0]))
            )
        return self._columns(engine, runs)[0]

    def _labels_along(self, engine: Engine, path: Ints) -> Any:
        """Return the labels of a path of an engine, or its segments where there are such."""
        run = PathBatch(np.ones(1, dtype=np.int64), np.zeros(1), np.array([0, len(path)]), path)
        (found,) = self._paths_of(engine, run, float)
        return found.segments if self.segmented else found.labels

    def _columns(self, engine: Engine, runs: PathBatch) -> tuple[list[Any], list[Any]]:
        """Return the labels of each path, and where those of segments lie."""
        if runs.decoded is not None:
            return [said for said, _ in runs.decoded], [places for _, places in runs.decoded]
        on = self.on
        if len(on) == 1:
            return self._column(engine, runs, 0, on[0])
        each = [self._column(engine, runs, k, tape) for k, tape in enumerate(on)]
        if not len(runs.score):
            return [], []
        labels, places = (list(zip(*parts, strict=True)) for parts in zip(*each, strict=True))
        placed = any(tape.segments or tape.output for tape in on)
        return labels, places if placed else [()] * len(labels)

    def _column(
        self, engine: Engine, runs: PathBatch, number: int, tape: Tape
    ) -> tuple[list[Any], list[Any]]:
        """Return the labels of one tape on each path, and where they lie."""
        placed = tape.segments or tape.output
        told, bounds = engine.labels_along(runs.elements, number, placed=placed), runs.bounds
        names, several = tape.labels, len(self.on) > 1
        label = tuple([names[k] for k in told.label.tolist()])
        cuts = (bounds if told.at is None else np.searchsorted(told.at, bounds)).tolist()
        pairs = [*pairwise(cuts)]
        labels = [label[a:b] for a, b in pairs]
        if told.start is None or told.end is None or told.origin is None:
            return labels, [None if several else ()] * len(labels)
        start, end, origin = tuple(told.start.tolist()), tuple(told.end.tolist()), told.origin
        if tape.output:
            places = [Positions(end[a:b], end[a:b], origin[a:b], output=True) for a, b in pairs]
        else:
            places = [Positions(start[a:b], end[a:b], origin[a:b]) for a, b in pairs]
        return labels, places if several else [(place,) for place in places]
