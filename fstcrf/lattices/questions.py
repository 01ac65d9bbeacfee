"""What is asked of a lattice, once for all kinds.

A lattice is one row of an engine and the names of its tapes. All that is no call of an engine is
read off here. Nothing asks which constructor made a lattice, but whether a tape has segments or a
label for each token. What engines find by another algorithm is a call of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, cast, overload

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats
from fstcrf.errors import NoPathError, OptionError
from fstcrf.kernel import Budget
from fstcrf.lattices.paths import LabelsT_co, Path, Places, share, shown_tapes
from fstcrf.machines.plans import Search, warn_unproven

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from fstcrf.lattices.engine import Engine, Runs

    ArrayT_co = TypeVar("ArrayT_co", default=Any, covariant=True)
else:  # its default is for those who check types
    from typing import TypeVar

    ArrayT_co = TypeVar("ArrayT_co", covariant=True)


def refuse_options(given: Mapping[str, object]) -> None:
    """Refuse options of a search where there is none."""
    for name, value in given.items():
        if value is not None:
            raise OptionError(f"{name}= is for lattices of tokens; those of arcs are written out")


Said: TypeAlias = Sequence[str] | Sequence[Sequence[str]] | Sequence[tuple[int, int, str]]
"""Labels, of each of several tapes; or segments."""


class Tape(NamedTuple):
    """A tape's name and labels; `segments`: they lie on stretches, not on each token."""

    name: str
    labels: tuple[str, ...]
    segments: bool


class Questions(Generic[LabelsT_co, ArrayT_co]):
    """A weighted set of paths, and what is asked of it.

    What is said of labels is said of each tape: a lattice of one tape gives arrays and tuples, one
    of several gives a tuple of them.
    """

    on: tuple[Tape, ...]

    @property
    def engine(self) -> Engine:
        """What answers."""
        raise NotImplementedError

    @property
    def clocked(self) -> Engine:
        """The engine of which tokens are asked."""
        return self.engine

    @property
    def length(self) -> int:
        """Tokens."""
        return int(self.engine.rows.total)

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
        return cast("LabelsT_co", self.each(lambda k: self.on[k].labels))

    @property
    def segmented(self) -> bool:
        """Whether a tape has segments; then paths say where these lie."""
        return any(tape.segments for tape in self.on)

    def each(self, make: Callable[[int], Any]) -> Any:
        """Return what a function makes of the number of the only tape, or a tuple, of each."""
        found = tuple(map(make, range(len(self.on))))
        return found if len(found) > 1 else found[0]

    def number(self, tape: str | None) -> int:
        """Return the number of a tape by name; of the first when absent."""
        if tape is None:
            return 0
        if tape not in self.tapes:
            raise OptionError(f"no tape {tape!r}: there is {', '.join(self.tapes)}")
        return self.tapes.index(tape)

    def check_alive(self) -> None:
        """Raise NoPathError where there is no path and the engine does not say so by itself."""

    def no_path(self, runs: Runs | None = None) -> NoPathError:
        """Return the error that says where all paths have died, if that is known."""
        raise NotImplementedError

    def counted(self, n: int) -> int:
        """Return how many paths are asked for, checked."""
        return whole_number(n, "n", least=1, narrow=True)

    def searched(self, n: int, budget: Budget | None, search: Search | None) -> tuple[Engine, Runs]:
        """Return an engine and the n best paths that it finds."""
        raise NotImplementedError

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
        engine, runs = self.searched(1, budget, search)
        if not len(runs.score):
            raise self.no_path(runs)
        (path,) = self.paths(engine, runs, float(engine.usual_log_z[0]))
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
            The n best labellings of these tapes, whatever the others say and wherever they lie:
            they differ in these tapes, the score of each is that of its best path, its probability
            is summed over all of its paths. `strings` ranks those of a tape by that sum.

        Raises
        ------
        OptionError
            Too small an n, or tapes that there are not; as for `best`.
        """
        shown = None if tapes is None else shown_tapes(self.tapes, tapes)
        n = self.counted(n)
        if shown is not None:
            return self.labellings(n, shown, budget, search)
        engine, runs = self.searched(n, budget, search)
        if runs.proven is not None and runs.bound is not None:
            warn_unproven(int(runs.proven[0] < n and runs.bound[0] > -np.inf), 1)
        return self.paths(engine, runs, float(engine.usual_log_z[0]))

    def labellings(
        self, n: int, shown: tuple[str, ...], budget: Budget | None, search: Search | None
    ) -> list[Path]:
        """Return the n best labellings of some tapes, see `nbest`."""
        raise NotImplementedError

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
        self.check_alive()
        return self.drawn(self.engine, self.engine.sample(n, [np.random.default_rng(seed)]))

    def paths(self, engine: Engine, runs: Runs, log_z: float) -> list[Path[LabelsT_co]]:
        """Return what the paths of a row of an engine say, log Z being known."""
        labels, places = self._columns(engine, runs)
        scores = runs.score.tolist()
        rows = zip(labels, places, scores, strict=True)
        if runs.proven is None or runs.bound is None:
            return [
                Path(label, score, share(score, log_z), True, score, place)  # noqa: FBT003
                for label, place, score in rows
            ]
        proven, bound = int(runs.proven[0]), float(runs.bound[0])
        return [
            Path(
                label,
                score,
                share(score, log_z),
                rank < proven,
                score if rank < proven else max(score, bound),
                place,
            )
            for rank, (label, place, score) in enumerate(rows)
        ]

    def drawn(self, engine: Engine, runs: Runs) -> list[LabelsT_co]:
        """Return what samples are: labels, or paths where there are segments."""
        if self.segmented:
            return cast("list[LabelsT_co]", self.paths(engine, runs, self.log_partition()))
        return self._columns(engine, runs)[0]

    def _columns(self, engine: Engine, runs: Runs) -> tuple[list[Any], list[Any]]:
        """Return the labels of each path, and where those of segments lie."""
        if len(self.on) == 1:
            return self._column(engine, runs, 0, self.on[0])
        each = [self._column(engine, runs, k, tape) for k, tape in enumerate(self.on)]
        if not len(runs.score):
            return [], []
        labels, places = (list(zip(*parts, strict=True)) for parts in zip(*each, strict=True))
        return labels, places if self.segmented else [()] * len(labels)

    def _column(
        self, engine: Engine, runs: Runs, number: int, tape: Tape
    ) -> tuple[list[Any], list[Any]]:
        """Return the labels of one tape on each path, and where they lie."""
        told, bounds = engine.told(runs.elements, number, placed=tape.segments), runs.bounds
        names, several = tape.labels, len(self.on) > 1
        label = tuple([names[k] for k in told.label.tolist()])
        cuts = (bounds if told.at is None else np.searchsorted(told.at, bounds)).tolist()
        pairs = [*pairwise(cuts)]
        labels = [label[a:b] for a, b in pairs]
        if told.start is None or told.end is None or told.origin is None:
            return labels, [None if several else ()] * len(labels)
        start, end, origin = tuple(told.start.tolist()), tuple(told.end.tolist()), told.origin
        places = [Places(start[a:b], end[a:b], origin[a:b]) for a, b in pairs]
        return labels, places if several else [(place,) for place in places]

    # --- Sums ---------------------------------------------------------------------------------

    def log_partition(self) -> float:
        """Return log Z, the log of the sum over all paths; −inf where there is none."""
        return float(self.engine.log_z[0])

    def entropy(self) -> float:
        """Return the entropy of the distribution over paths, in nats.

        Costs a row of joint states for each joint state and token.

        Raises
        ------
        NoPathError
            There is no path.
        """
        self.check_alive()
        return float(self.engine.entropies()[0])

    @overload
    def marginals(self, tape: None = None) -> ArrayT_co: ...
    @overload
    def marginals(self, tape: str) -> Floats: ...
    def marginals(self, tape: str | None = None) -> Any:
        """Return the probability of each label at each token, float64 [T, L].

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
        tapes = range(len(self.on)) if tape is None else [self.number(tape)]
        found = self.clocked.marginals(tapes, self.sizes)
        self.check_alive()
        return self.each(found.__getitem__) if tape is None else found[0]

    def max_marginals(self) -> ArrayT_co:
        """Return the score of the best path through each label, float64 [T, L]; −inf: none."""
        found = self.clocked.highest(range(len(self.on)), self.sizes, self.length)
        return cast("ArrayT_co", self.each(found.__getitem__))

    def arc_marginals(self) -> ArrayT_co:
        """Return the probability of each succession of labels, float64 [T − 1, L, L].

        Entry (t, i, j): token t is under label i and token t + 1 under label j.

        Raises
        ------
        NoPathError
            There is no path.
        """
        self.check_alive()
        found = self.clocked.successions(range(len(self.on)), self.sizes)
        return cast("ArrayT_co", self.each(lambda k: found[k][1:]))

    # --- One labelling ------------------------------------------------------------------------

    def saying(self, said: Said) -> Engine:
        """Return the engine of the paths that say this and nothing else."""
        raise NotImplementedError

    def score(self, said: Said) -> float:
        """Return the score of the best path that says this and nothing else; −inf: there is none.

        Parameters
        ----------
        said : sequence of str, or of (start, end, label)
            Labels, of several tapes that have one for each token a sequence of such; segments of
            the first tape that has such, or labels of the first tape in their order.

        Raises
        ------
        LabelError
            A label that the lattice does not have.
        ShapeError
            Another number of labels than tokens, or of tapes.
        OptionError
            A segment outside the text.
        """
        return float(self.saying(said).best_scores[0])

    def probability(self, said: Said) -> float:
        """Return the probability of all paths that say this and nothing else; raises as `score`."""
        return share(float(self.saying(said).log_z[0]), self.log_partition())
