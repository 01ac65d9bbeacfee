"""Search in grammars that are not expanded: best-first, over states created when reached."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.kernel.machines import Bound, JointChain, allocated
from fstcrf.kernel.native import array_in, array_out, check, ffi, freeze, lib
from fstcrf.lazy import made_once, making

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData, View


BEAM = 64
"""States of a token that the beam keeps when a search is given up."""
_NARROW_BEAM = 16
"""The same if the time of the budget is too short for `BEAM`."""

_BEAM_COST = 1.6
"""Time of a state in a beam, in times of a state in a search."""

STATE_SECONDS = 2e-6
"""Time of a state in a search that has not begun."""

_TOO_LATE = 1e-6
"""Time of a search when the time is over: beams."""

_STEPS, _UNTIMED_STEPS = 4_000, 100_000
"""States between two checks of the clock, and of Ctrl-C."""

_GIVING_UP = 2

_KEPT = 1 << 14
"""Largest capacity of an arena that is kept from call to call."""

_MOST_OPERATIONS = 1 << 31
"""Largest allowance a token: the operations of a sentence must fit into an int64."""

_MOST_ROOMS = 1 << 30
"""Largest capacity of an arena: visits are numbered in 32 bits."""

_MOST_SPARE = 4_000_000
"""Largest scratch for a product that is kept from call to call, in float64 numbers."""

_ANY_LENGTH = 1 << 62

_MOST_AHEAD = 20_000_000
"""Largest table of upper bounds, in numbers."""


_STATES = 250_000
"""States of a search with the default budget: a second or two, and 250 MB."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits after which a search gives up on a sentence.

    Parameters
    ----------
    states : int, optional
        Maximum number of product states that a search may expand; each costs up to a kilobyte. With
        ``normalize="chain"``: maximum number of labellings of a tape that are scored. The default
        is 250,000 states; with ``normalize="chain"`` 16 labellings, or 64 for the n best
        labellings, a grammar, forced labels or biases.
    seconds : float, optional
        Limit for all sentences together; without it, the answer does not depend on the speed of the
        machine.

    Raises
    ------
    OptionError
        Numbers that are not positive; states that are not an integer below 2⁶³.
    """

    states: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        try:
            enough = 0 < operator.index(self.most_states) < 1 << 63
            enough = enough and (self.seconds is None or self.seconds > 0)
        except TypeError:
            enough = False
        if not enough:
            within = "" if self.seconds is None else f" and {self.seconds!r} seconds"
            raise OptionError(
                f"budget of {self.most_states!r} states{within}: expected a whole number of states "
                "below 2⁶³, and seconds, both more than 0"
            )

    @property
    def most_states(self) -> int:
        """Maximum number of product states that a lazy search may expand."""
        return _STATES if self.states is None else self.states


def budget_of(budget: int | Budget | None) -> Budget | None:
    """Return a budget, or None; an integer is its number of states."""
    return budget if budget is None or isinstance(budget, Budget) else Budget(states=budget)


def shared(
    budget: int | Budget | None, sentences: int = 1, threads: int = 1
) -> Callable[[int], Budget | None]:
    """Return a function from a number of sentences to their share of the time that is left."""
    total, waiting = budget_of(budget), sentences
    if total is None or total.seconds is None:
        return lambda _: total
    end = time.monotonic() + total.seconds

    def share(some: int) -> Budget:
        nonlocal waiting
        part, waiting = min(1.0, threads * some / waiting), max(1, waiting - some)
        return Budget(total.states, max(_TOO_LATE, part * (end - time.monotonic())))

    return share


def is_over(budget: Budget | None) -> bool:
    """Whether no time is left."""
    return budget is not None and budget.seconds == _TOO_LATE


@dataclass(frozen=True, eq=False)
class LazyAcceptor:
    """A deterministic acceptor that reads a class of joint states at every token, from state 0.

    Parameters
    ----------
    place : int32 [outer * S]
        Class of each joint state.
    target : int32 [Q, classes]
        Next state; −1: the class is rejected.
    score : float64 [Q, classes], optional
        Score of each step; zeros if absent.
    final : float64 [Q]
        −inf: a sentence may not end here.

    Raises
    ------
    ShapeError
        Targets that are not states.
    """

    place: Ints
    target: Ints
    score: Floats | None
    final: Floats

    def __post_init__(self) -> None:
        states = len(self.final)
        if self.final.ndim != 1:
            raise ShapeError(f"final is {list(self.final.shape)}, expected [states]")
        if self.target.ndim != 2 or len(self.target) != states:
            raise ShapeError(f"target is {list(self.target.shape)}, expected [{states}, classes]")
        freeze(self, "place", "target")
        if self.target.size and not -1 <= self.target.min() <= self.target.max() < states:
            raise ShapeError(f"target holds numbers outside [-1, {states})")

    def ahead(self, longest: int) -> Floats:
        """Return the best score still possible with r tokens left, float64 [rows, Q].

        The last row is an upper bound for its number of tokens and all higher ones, up to
        `longest`. It is looser than necessary if the whole table would be too large.
        """
        rows = [self.final]
        limit = max(1, _MOST_AHEAD // len(self.final))
        for _ in range(longest):
            nearer = self._one_more(rows[-1])
            if np.array_equal(nearer, rows[-1]):
                break
            if len(rows) < limit:
                rows.append(nearer)
            else:
                rows[-1] = np.maximum(nearer, rows[-1])
        return np.ascontiguousarray(rows)

    def _one_more(self, bound: Floats) -> Floats:
        value = np.where(self.target >= 0, bound[self.target], -np.inf)
        return np.asarray((value if self.score is None else value + self.score).max(axis=1))


class Conjunction:
    """The acceptors of one machine, prepared for the kernel.

    Parameters
    ----------
    machine : JointChain
    readers : sequence of Reader
        At least one.

    Raises
    ------
    ShapeError
        Sizes or indices that disagree.
    NumericError
        NaN or +inf among the scores.
    """

    def __init__(self, machine: JointChain, readers: Sequence[LazyAcceptor]) -> None:
        self.machine, self.readers = machine, tuple(readers)
        # never replaced, because searches read them
        self._views: dict[int, View] = {}
        self._spare = threading.local()
        self.words = 1
        self._places: list[tuple[int, int, int]] = []
        used = 0
        for reader in self.readers:
            bits = max(1, (len(reader.final) - 1).bit_length())
            if used + bits > 64:
                self.words, used = self.words + 1, 0
            self._places.append((self.words - 1, used, bits))
            used += bits

    @made_once
    def scores(self) -> bool:
        """Whether any acceptor has scores."""
        return any(
            reader.score is not None or bool((reader.final[reader.final > -np.inf] != 0.0).any())
            for reader in self.readers
        )

    def view(self, longest: int) -> CData:
        """Return the C view for sentences of up to `longest` tokens; this object keeps it alive."""
        # Tables are shared: the length is rounded up to a power of two.
        size = 1 << max(4, (longest - 1).bit_length())
        if size not in self._views:
            with making(self, size):  # a second table would free the memory that a search reads
                if size not in self._views:
                    self._views.setdefault(size, self._made(size))
        return self._views[size][0]

    def arena(self, sentences: int) -> Arena:
        """Return memory for a search of `sentences` sentences; each thread keeps one."""
        arena: Arena | None = getattr(self._spare, "arena", None)
        self._spare.arena = None  # in use
        if arena is None or not arena.reset(sentences):
            arena = Arena(self.words)
        return arena

    def keep(self, arena: Arena) -> None:
        """Take memory back, for the next search."""
        self._spare.arena = arena

    def scratch(self, size: int, what: str, tokens: int) -> Floats:
        """Return work space for a product, float64 [at least size]; each thread keeps one.

        New pages of the operating system cost as much as the numbers written to them.
        """
        space: Floats | None = getattr(self._spare, "scratch", None)
        if space is None or len(space) < size:
            space = allocated(size, what, tokens)
        self._spare.scratch = space if len(space) <= _MOST_SPARE else None
        return space

    def _made(self, longest: int) -> View:
        keep: list[object] = []
        fields = [
            self._fields(reader, place, longest, keep)
            for reader, place in zip(self.readers, self._places, strict=True)
        ]
        keep.append(ffi.new("fc_acceptor[]", fields))
        view = ffi.new(
            "fc_conjunction *",
            {"acceptors": len(fields), "words": self.words, "acceptor": keep[-1]},
        )
        where = ffi.new("int64_t *")
        status = lib.fc_check_conjunction(view, self.machine._static[0], where)  # noqa: SLF001
        if status == lib.FC_ENUMERIC:
            raise NumericError(f"reader {where[0]} has a score that is NaN, +inf or beyond 1e300")
        if status != lib.FC_OK:
            raise ShapeError(f"reader {where[0]} has sizes or indices that disagree")
        return view, keep

    def _fields(
        self, reader: LazyAcceptor, place: tuple[int, int, int], longest: int, keep: list[object]
    ) -> dict[str, object]:
        states, classes = reader.target.shape
        joint = self.machine.outer * self.machine.width
        ahead = reader.ahead(longest)
        fields = {
            "Q": states,
            "classes": classes,
            "rows": len(ahead),
            "word": place[0],
            "shift": place[1],
            "bits": place[2],
            "place": array_in(reader.place, np.int32, (joint,), "place"),
            "target": array_in(reader.target, np.int32, (states, classes), "target"),
        }
        if reader.score is not None:
            fields["score"] = array_in(reader.score, np.float64, (states, classes), "score")
        if ahead.any():
            fields["ahead"] = array_in(ahead, np.float64, ahead.shape, "ahead")
        keep += fields.values()
        return fields


class Allowance(NamedTuple):
    """Operations a token that a search may do before it ends without an answer.

    Parameters
    ----------
    least, most : int
        Limit at first, and limit once a path has reached the end; in between in proportion to the
        length of the longest path. If `least` is not positive, the search ends at once unless the
        best labels are legal.
    """

    least: int
    most: int


class StandIn(Protocol):
    """The product that decodes if a search takes too long."""

    def first(self, n: int) -> Allowance | None:
        """Return the operation limit of the first attempt at n paths; `None`: unlimited."""

    def counted(self, n: int, budget: Budget) -> tuple[Allowance, int] | None:
        """Return the limit once the cost of the product is known, and the longest sentence bound.

        Longer sentences have no limit; if there is no product, no sentence has one.
        """

    @property
    def machine(self) -> JointChain | None:
        """The product; `None` if it cannot be expanded."""


class SearchResult(NamedTuple):
    """The paths of a search for the n best, for each sentence.

    Parameters
    ----------
    n_paths : int64 [B]
        Number of paths, at most n.
    proven : int64 [B]
        Number of these, from the first on, that are proven to be the best.
    score : float64 [B, n]
        Falling; −inf beyond the last path.
    path : int32 [n, N]
        Joint states; −1 beyond the last path.
    bound : float64 [B]
        Upper bound of the score of all paths that are not proven; −inf: no such path exists, or all
        n are proven.
    states_expanded : int64 [B]
        States taken from the queue.
    """

    n_paths: Longs
    proven: Longs
    score: Floats
    path: Ints
    bound: Floats
    states_expanded: Longs

    def unproven(self, n: int) -> Bools:
        """Return whether fewer than the n best paths of a sentence are proven, bool [B]."""
        return (self.proven < n) & (self.bound > -np.inf)

    def replace(self, sentences: Sequence[int], other: SearchResult, bounds: Longs) -> None:
        """Replace the paths of some sentences by the result of a search for these."""
        rows = np.asarray(sentences, dtype=np.int64)
        self.score[rows], self.bound[rows] = other.score, other.bound
        self.path[:, Ragged(bounds).entries(rows)] = other.path
        self.n_paths[rows], self.proven[rows] = other.n_paths, other.proven
        self.states_expanded[rows] = other.states_expanded


def lazy_paths(
    batch: Bound,
    grammar: Conjunction,
    n: int = 1,
    budget: Budget | None = None,
    *,
    beam: int = BEAM,
    allowance: Allowance | None = None,
    stand_in: StandIn | None = None,
    apart: float = 0.0,
) -> SearchResult:
    """Return the n best paths of each sentence that the machine and the grammar accept.

    Exact, unless the budget ends a search. Memory grows with the states visited.

    Parameters
    ----------
    batch : Bound
    grammar : Conjunction
        Over the same machine.
    n : int
    budget : Budget, optional
    beam : int
        States of a token that the beam keeps if the budget ends a search.
    allowance : Allowance, optional
        Operation limit of the search; unlimited if absent.
    stand_in : StandIn, optional
        Product that decodes if a search takes too long; it also sets the limits of searches.
    apart : float
        Leave out path n if it scores less than the one before by a larger share, or score, than
        this; 0: never.

    Raises
    ------
    OptionError
        n below 1; a grammar over another machine.
    TooLargeError
        The search needs more memory than the machine has.
    """
    if n < 1:
        raise OptionError(f"n is {n}, expected at least 1")
    if grammar.machine is not batch.machine:
        raise OptionError("the grammar reads another machine")
    limit = budget or Budget()
    batch.check_paths(n)
    size = batch.n_sentences
    counts = [np.zeros(size, dtype=np.int64) for _ in range(3)]
    result = SearchResult(
        n_paths=counts[0],
        proven=counts[1],
        score=np.full((size, n), -np.inf),
        path=np.full((n, batch.n_tokens), -1, dtype=np.int32),
        bound=np.full(size, -np.inf),
        states_expanded=counts[2],
    )
    arena = grammar.arena(batch.n_sentences)
    arena.view.apart = apart
    product = _SearchLimit(batch, grammar, n, limit, arena, allowance, stand_in)
    _run(batch, grammar, n, limit, beam, result, product)
    return result


def _run(
    batch: Bound,
    grammar: Conjunction,
    n: int,
    budget: Budget,
    beam: int,
    result: SearchResult,
    product: _SearchLimit,
) -> None:
    arena = product.arena
    view, work = grammar.view(batch.longest), batch.scratch()
    deadline = None if budget.seconds is None else _Deadline(batch, budget.seconds)
    steps = _UNTIMED_STEPS if deadline is None else _STEPS
    outputs = [array_out(getattr(result, name)) for name in _OUTPUTS]
    give_up = 0
    while True:
        limits = n, budget.most_states, beam, steps, give_up
        memory: list[Any] = [product.view, arena.view, *outputs, work]
        status = lib.fc_lazy_nbest(
            batch.view, view, batch.n_sentences, batch.offsets, *limits, *memory
        )
        if status == lib.FC_OK:
            grammar.keep(arena)
            return
        give_up = 0
        sentence = arena.view.sentence
        if deadline is not None and status == lib.FC_EPAUSED:
            deadline.paused(steps)
        if deadline is not None and deadline.is_near(sentence, beam):
            give_up, beam = 2, deadline.beam(sentence, beam)
        elif status == lib.FC_EPRODUCT:
            product.go_on()
        if status == lib.FC_EFULL:
            give_up = give_up if arena.grow(4 * budget.most_states) else max(give_up, 1)
        elif status not in (lib.FC_EPAUSED, lib.FC_EPRODUCT):
            check(status, "lazy search")


class _Deadline:
    """The end of a search by the clock, with the beams of all sentences that are left."""

    def __init__(self, batch: Bound, seconds: float) -> None:
        self._seconds, self._bounds = seconds, batch.bounds
        self._begun = self._resumed = time.monotonic()
        self._state_seconds = STATE_SECONDS

    def paused(self, steps: int) -> None:
        """Note the time of the steps since the search began or was resumed."""
        self._state_seconds = (time.monotonic() - self._resumed) / steps

    def is_near(self, sentence: int, width: int) -> bool:
        """Return whether beams of `width` states need the time that is left, or half of it all."""
        self._resumed = time.monotonic()
        needed = width * self._layer_seconds(sentence)
        return self._left() <= min(needed, 0.5 * self._seconds)

    def beam(self, sentence: int, width: int) -> int:
        """Return the width of beams that end in time."""
        affordable = self._left() / self._layer_seconds(sentence)
        return min(width, max(_NARROW_BEAM, int(affordable)))

    def _left(self) -> float:
        return self._begun + self._seconds - time.monotonic()

    def _layer_seconds(self, sentence: int) -> float:
        """Return the estimated time of beams of one state, from a sentence on."""
        tokens = int(self._bounds[-1] - self._bounds[sentence])
        return _BEAM_COST * self._state_seconds * tokens


_OUTPUTS = ("path", "score", "n_paths", "proven", "bound", "states_expanded")


class _SearchLimit:
    """Fallback of slow searches: extend the limit once, then decode with the expanded product.

    Attributes
    ----------
    arena : Arena
        Memory of the search.
    view : cffi pointer
        C view of the product, or NULL.
    """

    def __init__(
        self,
        batch: Bound,
        grammar: Conjunction,
        n: int,
        budget: Budget,
        arena: Arena,
        allowance: Allowance | None,
        stand_in: StandIn | None,
    ) -> None:
        self._batch, self._grammar, self._n, self._budget = batch, grammar, n, budget
        self.arena, self._stand_in, self._longest = arena, stand_in, 0
        self._allowed = None if stand_in is None else stand_in.first(n)
        arena.allow(self._allowed if stand_in else allowance, hands_over=stand_in is not None)
        self.view = ffi.NULL

    def go_on(self) -> None:
        """Give a slow search a higher limit, or else the product."""
        stand_in, arena = self._stand_in, self.arena
        if stand_in is not None and self._longest == 0:
            counted = stand_in.counted(self._n, self._budget)
            if counted is None:
                arena.allow(None)
                return
            allowance, self._longest = counted
            arena.allow(allowance, hands_over=True, longest=self._longest)
            if allowance != self._allowed:
                return
        bounds = self._batch.bounds
        tokens = bounds[arena.view.sentence + 1] - bounds[arena.view.sentence]
        if stand_in is None or tokens > self._longest:
            return
        machine = stand_in.machine
        if machine is None:
            arena.allow(None)
        else:
            self._give(machine)

    def _give(self, machine: JointChain) -> None:
        batch = self._batch.over(machine)
        lengths = Ragged(batch.bounds).lengths
        longest = int(lengths[lengths <= self._longest].max(initial=1))
        cells = machine.outer * machine.width * machine.n_residual
        what = f"a sentence of {longest:,} tokens, {cells:,} states at each"
        size = int(lib.fc_machine_work(batch.view, 0, longest))
        queue_size = int(lib.fc_queue_size(batch.view, self._n, longest)) if self._n > 1 else 0
        work = self._grammar.scratch(size + queue_size, what, longest)
        place = ffi.from_buffer("double[]", work, require_writable=True)
        self.view = ffi.new(
            "fc_product *",
            {
                "machine": batch.view,
                "longest": longest,
                "scored": self._grammar.scores,
                "work": place,
                "queue": place + size if self._n > 1 else ffi.NULL,
            },
        )
        self._keep = batch, place


class Arena:
    """Memory of a search that grows."""

    def __init__(self, words: int, rooms: int = 1024) -> None:
        self.words, self.rooms = words, rooms
        self.view = ffi.new("fc_arena *")
        self._visit = np.zeros(rooms, dtype=_dtype("fc_visit"))
        self._states = np.zeros((rooms, words), dtype=np.uint64)
        self._queue = np.zeros(2 * rooms, dtype=_dtype("fc_candidate"))
        self._point()

    def _point(self) -> None:
        self._table = np.zeros(4 * self.rooms, dtype=np.int64)
        view = self.view
        view.visit_room, view.queue_room, view.slots = self.rooms, 2 * self.rooms, 4 * self.rooms
        self._memory = [
            ffi.from_buffer(kind, array, require_writable=True)
            for kind, array in (
                ("fc_visit[]", self._visit),
                ("uint64_t[]", self._states),
                ("fc_candidate[]", self._queue),
                ("int64_t[]", self._table),
            )
        ]
        view.visit, view.states, view.queue, view.table = self._memory

    def allow(
        self, allowance: Allowance | None, *, hands_over: bool = False, longest: int = _ANY_LENGTH
    ) -> None:
        """Set the operation limit, and up to which length a product takes over."""
        view = self.view
        view.most, view.hands_over, view.longest = 0, hands_over, longest
        if allowance is not None:
            view.least = min(max(allowance.least, -_MOST_OPERATIONS), _MOST_OPERATIONS)
            view.most = min(max(allowance.most, 1), _MOST_OPERATIONS)

    def reset(self, sentences: int) -> bool:
        """Prepare for other sentences; False: too large to keep, or its stamps are used up."""
        view = self.view
        view.sentence = view.phase = view.most = 0
        return self.rooms <= _KEPT and view.stamp + sentences < 1 << 31

    def grow(self, most: int) -> bool:
        """Double the capacity; return False at the largest one."""
        if self.rooms >= most and self.view.phase != _GIVING_UP:
            return False
        if 2 * self.rooms > _MOST_ROOMS:
            if self.view.phase == _GIVING_UP:
                raise MemoryError("a search has no room left")
            return False
        grown = np.zeros_like
        self._visit = np.concatenate([self._visit, grown(self._visit)])
        self._states = np.concatenate([self._states, grown(self._states)])
        self._queue = np.concatenate([self._queue, grown(self._queue)])
        self.rooms *= 2
        self._point()
        return True


def _dtype(name: str) -> np.dtype[Any]:
    """Return an opaque dtype of the size of a C structure."""
    return np.dtype((np.void, ffi.sizeof(name)))
