"""One sentence at a time: data shared by all sentences is prepared once.

The results equal `PackedTable` and `graphs`, with a fifth of the overhead around the C code, which
dominates for short sentences.
"""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints
from fstcrf.errors import NumericError, ShapeError
from fstcrf.kernel.graphs import Graph, graph_view
from fstcrf.kernel.native import array_in, array_out, check, ffi, lib
from fstcrf.kernel.rows import PackedTable, SentenceRows
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    from fstcrf.kernel import lazy, machines
    from fstcrf.kernel.lazy import Budget, Conjunction
    from fstcrf.kernel.machines import JointChain
    from fstcrf.kernel.native import CData
else:  # a tagger without a grammar does not import them
    lazy, machines = LazyModule("fstcrf.kernel.lazy"), LazyModule("fstcrf.kernel.machines")


MOST_ALONE = 1 << 20
"""Largest number of joint states, over all tokens, of a sentence whose scratch is kept."""

# Python finds a name of the module sooner than an attribute of another module.
_NULL, _unpack, _ask = ffi.NULL, ffi.unpack, lib.fc_ask_sentence
_INTS, _from_buffer, _PATH = ffi.typeof("int32_t[]"), ffi.from_buffer, lib.FC_PATH


class SentenceGraph:
    """A packed table of weights of attributes, and a graph.

    The first S columns of the table are the states. The graph has S states, and arc potentials
    that all tokens share. With `mirrored`, the graph reads a sentence from its last token to its
    first, and so are the tokens of potentials and probabilities.

    All questions raise a ShapeError for bounds or rows out of range, and a NumericError for
    potentials that are not finite or too large.
    """

    def __init__(self, table: PackedTable, graph: Graph, *, mirrored: bool = False) -> None:
        self._rows, self._width = len(table.place), table.table.shape[1]
        self._states = graph.n_states
        if graph.per_token or self._states > self._width:
            raise ShapeError(f"shared arcs of at most {self._width} states are expected")
        self._packed, (self._machine, scores) = table.view, graph_view(graph)
        self._machine.factors = 1
        self._tables = table, scores  # memory that the structures point into
        self._mirrored = mirrored
        self._kept = local()  # memory of each thread

    def labels(self, sentence: SentenceRows) -> list[int]:
        """Return the best path of a sentence, as `viterbi` of its `potentials`, in less time."""
        path: list[int] = _unpack(self._run(sentence, _PATH).path, len(sentence[0]) - 1)
        if self._mirrored:
            path.reverse()
        return path

    def best(self, sentence: SentenceRows) -> tuple[list[int], float, float]:
        """Return the best path of a sentence, its score and log Z."""
        view = self._run(sentence, lib.FC_PATH | lib.FC_LOG_Z).view
        return (_unpack(view.path, len(sentence[0]) - 1), *view.total)

    def nbest(
        self, sentence: SentenceRows, n: int, within: float
    ) -> tuple[list[float], Ints, float]:
        """Return the scores of the n best paths, falling, the paths, int32 [n, T], and log Z.

        Paths that score at least `within` less than the best one are left out: there may be fewer.
        """
        view, tokens = self._run(sentence, lib.FC_LOG_Z).view, len(sentence[0]) - 1
        machine, path = view.machine, np.empty((n, tokens), dtype=np.int32)
        score, count = np.empty(n), ffi.new("int64_t *")
        work = np.empty(lib.fc_machine_work(machine, 1, tokens))
        queue = np.empty(lib.fc_queue_size(machine, n, tokens))
        status = lib.fc_machine_nbest(
            *(machine, 1, ffi.new("int64_t[2]", [0, tokens]), n, _NULL, within),
            *(array_out(path), array_out(score), count, array_out(work), array_out(queue)),
        )
        check(status, "n best paths")
        return score[: count[0]].tolist(), path, view.total[1]

    def posterior(self, sentence: SentenceRows) -> tuple[float, list[list[float]]]:
        """Return log Z of a sentence, and the probability of each state at each token."""
        view = self._run(sentence, lib.FC_POSTERIOR).view
        return view.total[1], self._tokens(view.posterior, sentence)

    def potentials(self, sentence: SentenceRows) -> list[list[float]]:
        """Return the sum of each token's rows, of each state."""
        return self._tokens(self._run(sentence, 0).view.node, sentence)

    def _tokens(self, numbers: CData, sentence: SentenceRows) -> list[list[float]]:
        """Return the numbers of each token."""
        states = self._states
        flat = _unpack(numbers, (len(sentence[0]) - 1) * states)
        return [flat[i : i + states] for i in range(0, len(flat), states)]

    def _run(self, sentence: SentenceRows, wanted: int) -> _Scratch:
        """Return memory of this thread with the results for a sentence."""
        bounds, rows, value = sentence
        tokens, index = len(bounds) - 1, _from_buffer(_INTS, rows)
        scratch: _Scratch = getattr(self._kept, "scratch", _NONE)
        if scratch.room < tokens:
            scratch = self._memory(tokens)
        size = len(index)
        starts: object = bounds
        if not isinstance(bounds, list):
            starts = array_in(bounds, np.int64, bounds.shape, "indptr")
        status = _ask(
            scratch.view,
            tokens,
            size,
            starts,  # type: ignore[arg-type]  # a list becomes an array
            index,
            _NULL if value is None else array_in(value, np.float32, (size,), "value"),
            wanted,
            self._mirrored,
        )
        if status:
            if status == lib.FC_EINVAL:
                rows_of = f"{tokens} tokens, rows of {self._rows} attributes"
                raise ShapeError(f"{rows_of}: entry {scratch.view.where}")
            check(status, "potentials of the sentence")
        return scratch

    def _memory(self, tokens: int) -> _Scratch:
        """Return memory for sentences of up to this number of tokens, or more."""
        room, states = 1 << max(4, (tokens - 1).bit_length()), self._states
        machine = ffi.new("fc_machine *", self._machine[0])
        node, path = ffi.new("double[]", room * states), ffi.new("int32_t[]", room)
        sizes = {"rows": 1, "width": states, "moving": 1}
        machine.factor = factor = ffi.new("fc_factor *", {**sizes, "value": node})
        size = lib.FC_HEAD + int(lib.fc_machine_work(machine, 1, room))
        work = [ffi.new("double[]", size) for _ in range(2)]
        posterior = ffi.new("double[]", max(room * states, self._width))
        parts = {"node": node, "work": work, "path": path, "posterior": posterior}
        parts |= {"machine": machine, "packed": self._packed, "room": room}
        scratch = _Scratch(room, ffi.new("fc_sentence *", parts), path, (factor, parts))
        if tokens * states <= MOST_ALONE:
            self._kept.scratch = scratch
        return scratch


class _Scratch(NamedTuple):
    """Memory for the questions about a sentence."""

    room: int  # tokens
    view: CData
    path: CData
    memory: object  # that the view points into


_NONE = _Scratch(-1, _NULL, _NULL, None)

# --- Best paths of sentences that come one at a time ----------------------------------------------

_NO_END = 1 << 60


class SentencePath(NamedTuple):
    """The result of a search for the best path of a sentence.

    Parameters
    ----------
    path : list of int
        Joint states; empty if no path was found.
    score : float
        −inf if no path was found.
    proven : bool
        Whether it is the best path, or no path exists.
    bound : float
        Upper bound of the score of other paths; −inf if the path is proven.
    states_expanded : int
        States taken from the queue.
    """

    path: list[int]
    score: float
    proven: bool
    bound: float
    states_expanded: int


class SentenceMachine:
    """A machine, with or without a grammar, for one sentence at a time; one thread at a time.

    Parameters
    ----------
    machine : JointChain
        With one per-token factor, and axes of shared potentials.
    grammar : Conjunction, optional
        Over the same machine.

    Raises
    ------
    ShapeError
        Another kind of machine.
    """

    def __init__(self, machine: JointChain, grammar: Conjunction | None = None) -> None:
        per_token = [k for k, factor in enumerate(machine.factors) if factor.value is None]
        if len(per_token) != 1 or any(axis.score is None for axis in machine.axes):
            raise ShapeError(
                "the machine must have exactly one factor with potentials per token, and a "
                "score on each axis"
            )
        self._machine, self._grammar = machine, grammar
        factor = machine.factors[per_token[0]]
        self._shape = factor.rows, factor.width
        nothing = array_in(np.zeros((1, *self._shape)), np.float64, (1, *self._shape), "potentials")
        self._view, self._keep = machines.bound_view(machine, [nothing])
        self._factor = self._view.factor[per_token[0]]
        self._scores, self._counts = ffi.new("double[2]"), ffi.new("int64_t[3]")
        score, bound = (self._scores + k for k in range(2))
        count, proven, states_expanded = (self._counts + k for k in range(3))
        self._addresses = score, count, proven, bound, states_expanded
        self._offsets = ffi.new("int64_t[2]")
        self._arena = None if grammar is None else lazy.Arena(grammar.words)
        self._budget = lazy.Budget()
        self._room = -1  # tokens that the scratch memory suffices for

    def best(self, values: Floats, budget: Budget | None = None) -> SentencePath:
        """Return the best path.

        Parameters
        ----------
        values : float64 [T, rows, width]
            Potentials of the per-token factor.
        budget : Budget, optional
            Only its states count, not its seconds.

        Raises
        ------
        ShapeError, NumericError
            As for `Bound`.
        """
        tokens = self._take(values)
        return self._expanded(tokens) if self._arena is None else self._searched(tokens, budget)

    def log_partition(self, values: Floats) -> float:
        """Return log Z of the machine without the grammar; raises like `best`."""
        self._take(values)
        where = self._counts
        status = lib.fc_machine_log_partition(
            self._view, 1, self._offsets, lib.FC_AUTO, self._scores, self._work, where
        )
        check(status, "log Z")
        return float(self._scores[0])

    def _take(self, values: Floats) -> int:
        """Load the potentials of a sentence, and return its number of tokens."""
        tokens = len(values)
        pointer = array_in(values, np.float64, (tokens, *self._shape), "potentials")
        place = lib.fc_first_invalid(values.size, pointer)
        if place >= 0:
            token, cell = divmod(int(place), values[0].size)
            raise NumericError(f"NaN, +inf or beyond 1e300 at token {token}, entry {cell}")
        if tokens > self._room:
            self._make_room(tokens)
        self._factor.value, self._offsets[1] = pointer, tokens
        return tokens

    def _make_room(self, tokens: int) -> None:
        self._room = 1 << max(4, (tokens - 1).bit_length())
        self._work = ffi.new("double[]", int(lib.fc_machine_work(self._view, 1, self._room)))
        self._path = ffi.new("int32_t[]", self._room)
        if self._grammar is not None:
            self._reader = self._grammar.view(self._room)

    def _expanded(self, tokens: int) -> SentencePath:
        status = lib.fc_machine_best(
            self._view, 1, self._offsets, self._path, self._scores, self._work
        )
        check(status, "best path")
        score = self._scores[0]
        path = [] if score == -np.inf else ffi.unpack(self._path, tokens)
        return SentencePath(path, score, proven=True, bound=-np.inf, states_expanded=0)

    def _searched(self, tokens: int, budget: Budget | None) -> SentencePath:
        arena = self._arena
        assert arena is not None  # noqa: S101 (callers check it)
        if not arena.reset(1):
            arena = self._arena = lazy.Arena(arena.words)
        limit, give_up = (budget or self._budget).most_states, 0
        while True:
            status = lib.fc_lazy_nbest(
                *(
                    self._view,
                    self._reader,
                    1,
                    self._offsets,
                    1,
                    limit,
                    lazy.BEAM,
                    _NO_END,
                    give_up,
                ),
                *(ffi.NULL, arena.view, self._path, *self._addresses, self._work),
            )
            if status == lib.FC_OK:
                break
            if status != lib.FC_EFULL:
                check(status, "lazy search")
            give_up = 0 if arena.grow(4 * limit) else 1
        score, bound = self._scores
        count, proven, states_expanded = self._counts
        path = ffi.unpack(self._path, tokens) if count else []
        return SentencePath(path, score, proven > 0 or bound == -np.inf, bound, states_expanded)
