"""One sentence at a time: data shared by all sentences is prepared once.

The results equal `PackedTable` and `graphs`, with a fifth of the overhead around the C code, which
dominates for short sentences.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Singles
from fstcrf.errors import NumericError, ShapeError
from fstcrf.kernel.graphs import Graph, graph_view
from fstcrf.kernel.native import array_in, check, ffi, lib
from fstcrf.kernel.rows import PackedTable
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

_INTS = ffi.typeof("int32_t[]")
# Python finds a name of the module sooner than an attribute of another module.
_NULL, _from_buffer, _unpack = ffi.NULL, ffi.from_buffer, ffi.unpack
_check_rows, _gather = lib.fc_check_rows, lib.fc_gather_packed
_first_invalid, _best = lib.fc_first_invalid, lib.fc_machine_best


class SentenceGraph:
    """A packed table of weights of attributes, and a graph.

    The first S columns of the table are the states. The graph has S states, and arc potentials
    that all tokens share. With `mirrored`, the graph reads a sentence from its last token to its
    first.
    """

    def __init__(self, table: PackedTable, graph: Graph, *, mirrored: bool = False) -> None:
        self._rows, self._width = len(table.place), table.table.shape[1]
        self._states, self._arcs = graph.n_states, graph.n_arcs
        if graph.per_token or self._states > self._width:
            raise ShapeError(f"shared arcs of at most {self._width} states are expected")
        self._packed, weights = table.view()
        self._machine, scores = graph_view(graph)
        self._machine.factors = 1
        self._factor = ffi.new("fc_factor *", {"rows": 1, "width": self._states, "moving": 1})
        self._memory = weights, scores  # memory that the structures point into
        self._mirrored = mirrored
        self._unused: list[_Scratch] = []  # one for each thread that has called at the same time

    def best_of(self, bounds: list[int], rows: list[int], value: Singles | None) -> list[int]:
        """Return the best path of a sentence, as `viterbi` of its `potentials`, in less time.

        Parameters
        ----------
        bounds : list of int
            Bounds of the rows of each token, [T + 1].
        rows : list of int
            Rows of the table.
        value : float32 [len(rows)], optional
            Value of each row; ones if absent.

        Raises
        ------
        ShapeError
            Bounds or rows out of range.
        NumericError
            A potential is not finite, or too large.
        """
        n, size, states = len(bounds) - 1, len(rows), self._states
        try:
            scratch = self._unused.pop()
        except IndexError:
            scratch = self._scratch(n)
        if scratch.tokens < n:
            scratch = self._scratch(n)
        indptr, index = scratch.indptr, _from_buffer(_INTS, array("i", rows))
        indptr[0 : n + 1] = bounds
        values = _NULL if value is None else array_in(value, np.float32, (size,), "value")
        node, where = scratch.node, scratch.where
        if _check_rows(n, self._rows, size, indptr, index, where):
            raise ShapeError(f"{n} tokens, rows of {self._rows} attributes: entry {where[0]}")
        status = _gather(n, self._packed, indptr, index, values, states, node, scratch.sums)
        if status or _first_invalid(n * states, node) >= 0:
            check(status or lib.FC_ENUMERIC, "potentials of the sentence")
        if self._mirrored and n > 1:
            scratch.reverse(n)
        scratch.offsets[1] = n
        check(_best(*scratch.call), "viterbi")
        path: list[int] = _unpack(scratch.path, n)
        if n * states <= MOST_ALONE:
            self._unused.append(scratch)
        return path[::-1] if self._mirrored else path

    def _scratch(self, tokens: int) -> _Scratch:
        """Return memory for sentences of up to this number of tokens, or a few more."""
        room = 1 << max(4, (tokens - 1).bit_length())
        return _Scratch(self._machine, self._factor, room, self._width)

    def potentials(self, indptr: Longs, index: Ints, value: Singles | None) -> Floats:
        """Return the sums of the table's rows, float64 [T, S]; values are ones when absent."""
        n, size = len(indptr) - 1, len(index)
        bounds = array_in(indptr, np.int64, (n + 1,), "indptr")
        rows = array_in(index, np.int32, (size,), "index")
        where = ffi.new("int64_t *")
        if lib.fc_check_rows(n, self._rows, size, bounds, rows, where) != lib.FC_OK:
            raise ShapeError(f"rows of {n} tokens over {self._rows} attributes: entry {where[0]}")
        out, scratch = np.empty((n, self._states)), np.empty(self._width)
        status = lib.fc_gather_packed(
            n,
            self._packed,
            bounds,
            rows,
            ffi.NULL if value is None else array_in(value, np.float32, (size,), "value"),
            self._states,
            ffi.from_buffer("double[]", out),
            ffi.from_buffer("double[]", scratch),
        )
        check(status, "rows times packed table")
        return out

    def viterbi(self, node: Floats) -> Ints:
        """Return the best path of one sentence, int32 [T]; ties as in `graphs.viterbi`."""
        inputs, work, _keep = self._sentence(node)
        path = np.empty(len(node), dtype=np.int32)
        score = ffi.new("double[1]")
        status = lib.fc_machine_best(*inputs, ffi.from_buffer("int32_t[]", path), score, work)
        check(status, "viterbi")
        return path

    def best(self, node: Floats) -> tuple[Ints, float, float]:
        """Return the best path of one sentence, int32 [T], its score and log Z."""
        inputs, work, _keep = self._sentence(node)
        path, sums = np.empty(len(node), dtype=np.int32), ffi.new("double[2]")
        status = lib.fc_machine_best(*inputs, ffi.from_buffer("int32_t[]", path), sums, work)
        check(status, "best path")
        where = ffi.new("int64_t *")
        status = lib.fc_machine_log_partition(*inputs, lib.FC_AUTO, sums + 1, work, where)
        check(status, "log Z")
        return path, sums[0], sums[1]

    def nbest(self, node: Floats, n: int, within: float) -> tuple[list[float], Ints]:
        """Return the scores of the n best paths, falling, and the paths, int32 [n, T].

        Paths that score at least `within` less than the best one are left out: there may be fewer.
        """
        inputs, work, _keep = self._sentence(node)
        path, count = np.empty((n, len(node)), dtype=np.int32), ffi.new("int64_t *")
        score = ffi.new("double[]", n)
        queue = np.empty(lib.fc_queue_size(inputs[0], n, len(node)))
        status = lib.fc_machine_nbest(
            *(*inputs, n, ffi.NULL, within, ffi.from_buffer("int32_t[]", path), score, count),
            *(work, ffi.from_buffer("double[]", queue)),
        )
        check(status, "n best paths")
        return ffi.unpack(score, count[0]), path

    def forward_backward(self, node: Floats) -> tuple[float, Floats]:
        """Return log Z and the probability of each state, float64 [T, S], for one sentence."""
        inputs, work, _keep = self._sentence(node)
        log_z, where = ffi.new("double[1]"), ffi.new("int64_t *")
        posterior = np.empty_like(node)
        status = lib.fc_machine_marginals(
            *inputs,
            lib.FC_AUTO,
            ffi.NULL,
            log_z,
            [ffi.from_buffer("double[]", posterior)],
            *(ffi.NULL, ffi.NULL, ffi.NULL),
            work,
            where,
        )
        check(status, "forward_backward")
        return log_z[0], posterior

    def _sentence(self, node: Floats) -> tuple[tuple[CData, int, CData], CData, object]:
        """Return the first arguments of C calls, scratch, and the memory they point into.

        All belong to one call: threads may call at once.
        """
        rows = array_in(node, np.float64, (len(node), self._states), "node")
        if lib.fc_first_invalid(node.size, rows) >= 0:
            check(lib.FC_ENUMERIC, "potentials of the sentence")
        offsets = ffi.new("int64_t[2]", [0, len(node)])
        factor = ffi.new("fc_factor *", self._factor[0])
        machine = ffi.new("fc_machine *", self._machine[0])
        factor.value, machine.factor = rows, factor
        work = np.empty(lib.fc_machine_work(machine, 1, len(node)))
        return (machine, 1, offsets), ffi.from_buffer("double[]", work), (factor, rows)


class _Scratch:
    """The structures and the memory that the best path of a sentence needs in C.

    `node` and `path` have room for `tokens` tokens. It is for one thread at a time.
    """

    __slots__ = (
        *("call", "factor", "indptr", "node", "offsets", "path", "sums", "tokens", "values"),
        "where",
    )

    def __init__(self, machine: CData, factor: CData, tokens: int, width: int) -> None:
        self.tokens = tokens
        self.factor = ffi.new("fc_factor *", factor[0])
        machine = ffi.new("fc_machine *", machine[0])
        self.values: Floats = np.empty((tokens, self.factor.width))
        self.node = array_in(self.values, np.float64, self.values.shape, "node")
        self.factor.value, machine.factor = self.node, self.factor
        self.sums = ffi.new("double[]", width)
        self.path, self.indptr = ffi.new("int32_t[]", tokens), ffi.new("int64_t[]", tokens + 1)
        self.where, self.offsets = ffi.new("int64_t *"), ffi.new("int64_t[2]")
        work = ffi.new("double[]", int(lib.fc_machine_work(machine, 1, tokens)))
        # the arguments of `fc_machine_best`
        self.call = machine, 1, self.offsets, self.path, ffi.new("double[1]"), work

    def reverse(self, tokens: int) -> None:
        """Reverse the order of the first tokens."""
        part = self.values[:tokens]
        part[:] = part[::-1]  # NumPy copies overlapping arrays


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
