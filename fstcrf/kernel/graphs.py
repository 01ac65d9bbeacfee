"""Forward-backward, best paths and max-marginals of batches of sentences over one graph.

Sentences are concatenated: sentence b has the rows ``offsets[b] : offsets[b + 1]`` of the node
potentials. All potentials are natural-log scores; −inf forbids; NaN, +inf and numbers beyond 1e300,
whose sums could overflow, are errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.kernel.native import array_in, array_out, check, ffi, freeze, frozen, lib

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData, View


Domain = Literal["auto", "linear", "log"]


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """A partition of states into classes; some states may have no class.

    Parameters
    ----------
    of : int32 [S]
        Class of each state; −1: no class.
    row : int64 [classes + 1]
        First position of each class in `state`.
    state : int32 [row[-1]]
        States by class, ascending in each.
    """

    of: Ints
    row: Longs
    state: Ints

    @classmethod
    def made(cls, of: Ints, count: int) -> Classes:
        """Return states in `count` classes: int32 [S] → Classes."""
        state = np.argsort(of, kind="stable").astype(np.int32)[int((of < 0).sum()) :]
        row = Ragged.from_rows(of[of >= 0], count).offsets
        return cls(frozen(of), frozen(row), frozen(state))

    def view(self) -> View:
        """Return the C view, and the memory it points into."""
        parts: dict[str, object] = {
            "of": array_in(self.of, np.int32, self.of.shape, "of"),
            "row": array_in(self.row, np.int64, self.row.shape, "row"),
            "state": array_in(self.state, np.int32, self.state.shape, "state"),
        }
        return ffi.new("fc_classes *", {"n": len(self.row) - 1, **parts}), [*parts.values()]


@dataclass(frozen=True, slots=True)
class Graph:
    """States and arcs with potentials, in the form of the kernel.

    Parameters
    ----------
    initial, final : float64 [S]
        Potentials of starting and ending in a state.
    score : float64 [arcs] or [N, arcs]
        Arc potentials: shared by all tokens, or one row a token for the arcs into it (rows of first
        tokens are not read). A dense graph has the arcs ``i * S + j``.
    source, target : int32 [A], optional
        Ends of the arcs of a sparse graph, sorted by source, then target; dense if absent.
    rest : float, optional
        Sparse, not per token: the potential of every pair of states without an arc. Without it,
        these pairs are forbidden.
    classes : pair of Classes, optional
        With a rest, for training only: the rest applies to a pair of states if the first has the
        same class in the first Classes as the second in the second. Other pairs exist only as arcs.
    empty : float
        Score of a sentence without tokens; −inf: it has no path.

    Raises
    ------
    ShapeError
        Sizes that disagree, arcs that are not sorted, or arcs between states that do not exist.
    NumericError
        NaN or +inf.
    """

    initial: Floats
    final: Floats
    score: Floats
    source: Ints | None = None
    target: Ints | None = None
    rest: float | None = field(default=None, kw_only=True)
    classes: tuple[Classes, Classes] | None = field(default=None, kw_only=True)
    empty: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if self.rest is not None and not math.isfinite(self.rest):
            raise NumericError(f"the potential of pairs without an arc is {self.rest}")
        if not len(self.initial):
            raise ShapeError("a graph needs a state: initial is empty")
        freeze(self, "source", "target")
        handle, _keep = graph_view(self, classed=True)
        skipped = self.n_arcs if self.per_token else 0  # first tokens have no arcs into them
        for array, start in ((self.score, skipped), (self.initial, 0), (self.final, 0)):
            place = first_invalid(array.reshape(-1)[start:])
            if place >= 0:
                raise NumericError(
                    f"NaN, +inf or beyond 1e300: entry {start + place} of the graph's potentials"
                )
        if lib.fc_check_machine(handle, ffi.new("int64_t *")) != lib.FC_OK:
            raise ShapeError("arcs are not sorted by (source, target) or name no state or class")

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return len(self.initial)

    @property
    def n_arcs(self) -> int:
        """Number of arcs: S * S for a dense graph."""
        return self.n_states**2 if self.source is None else len(self.source)

    @property
    def per_token(self) -> bool:
        """Whether each token has separate arc potentials."""
        return self.score.ndim == 2


class Posterior(NamedTuple):
    """Result of `forward_backward`.

    log_z : float64 [B]; −inf if no path exists.
    node : float64 [N, S]; probability of each state at each token, times the sentence's weight.
    arc : float64 [arcs], summed over tokens and sentences, or [N, arcs] if they are per token.
    """

    log_z: Floats
    node: Floats
    arc: Floats


def log_partition(graph: Graph, offsets: Longs, node: Floats, *, domain: Domain = "auto") -> Floats:
    """Return log Z of each sentence, −inf if no path exists.

    Parameters
    ----------
    graph : Graph
    offsets : int64 [B + 1]
    node : float64 [N, S]
        Node potentials.
    domain : {"auto", "linear", "log"}
        Domain of the sums; "auto" is linear, with the log domain for sentences that need it.

    Returns
    -------
    float64 [B]

    Raises
    ------
    ShapeError
        Sizes or dtypes that disagree.
    NumericError
        NaN or +inf; or ``domain="linear"`` and a sentence that it cannot represent.
    OptionError
        Another domain.
    """
    call = GraphCall(graph, offsets, node)
    log_z = np.empty(call.B)
    status = lib.fc_machine_log_partition(
        *call.inputs, domain_number(domain), array_out(log_z), call.work, call.where
    )
    check(status, "log_partition: sentence", call.where[0])
    return log_z


def forward_backward(
    graph: Graph,
    offsets: Longs,
    node: Floats,
    *,
    weight: Floats | None = None,
    domain: Domain = "auto",
) -> Posterior:
    """Return log Z and posterior probabilities.

    Parameters
    ----------
    graph, offsets, node, domain
        As for `log_partition`.
    weight : float64 [B], optional
        Factor of each sentence's posteriors; ones if absent.

    Returns
    -------
    Posterior

    Raises
    ------
    ShapeError, NumericError, OptionError
        As for `log_partition`; also for a weight that is not finite.
    """
    call = GraphCall(graph, offsets, node)
    weights = np.ones(call.B) if weight is None else weight
    if not np.isfinite(weights).all():
        first = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise NumericError(f"the weight of sentence {first} is not finite")
    log_z, posterior = np.empty(call.B), np.empty_like(node)
    arc = np.empty((len(node), graph.n_arcs) if graph.per_token else (graph.n_arcs,))
    arcs = [array_out(arc)]
    status = lib.fc_machine_marginals(
        *call.inputs,
        domain_number(domain),
        array_in(weights, np.float64, (call.B,), "weight"),
        array_out(log_z),
        [array_out(posterior)],
        arcs if graph.per_token else ffi.NULL,
        ffi.NULL if graph.per_token else arcs,
        ffi.NULL,
        call.work,
        call.where,
    )
    check(status, "forward_backward: sentence", call.where[0])
    return Posterior(log_z, posterior, arc)


def viterbi(graph: Graph, offsets: Longs, node: Floats) -> tuple[Ints, Floats]:
    """Return the best path of each sentence and its score.

    Ties: the smaller state, at the earliest token where the candidates differ.

    Returns
    -------
    path : int32 [N]
        States; −1 throughout a sentence that has no path.
    score : float64 [B]
        −inf if no path exists.

    Raises
    ------
    ShapeError, NumericError
        As for `log_partition`.
    """
    call = GraphCall(graph, offsets, node)
    path, score = np.empty(len(node), dtype=np.int32), np.empty(call.B)
    status = lib.fc_machine_best(*call.inputs, array_out(path), array_out(score), call.work)
    check(status, "viterbi")
    return path, score


class BestPaths(NamedTuple):
    """Best paths, and the best prefix and continuation of each state.

    Parameters
    ----------
    path : int32 [N]
    score : float64 [B]
        Both as `viterbi` returns them.
    marginal : float64 [N, S]
        Score of the best path through each token and state; −inf if no path has them.
    forward : float64 [N, S]
        Score of the best prefix that ends in a state, including its potential.
    ahead : float64 [N, S]
        Score of a state and its best continuation.
    """

    path: Ints
    score: Floats
    marginal: Floats
    forward: Floats
    ahead: Floats


def maxima(graph: Graph, offsets: Longs, node: Floats) -> BestPaths:
    """Return best paths, and max-marginals with both of their halves, to find competitors.

    Raises
    ------
    ShapeError, NumericError
        As for `log_partition`.
    """
    call = GraphCall(graph, offsets, node)
    path, score = np.empty(len(node), dtype=np.int32), np.empty(call.B)
    marginal, forward, ahead = (np.empty_like(node) for _ in range(3))
    status = lib.fc_machine_max_marginals(
        *call.inputs,
        [array_out(marginal)],
        array_out(path),
        array_out(score),
        array_out(forward),
        array_out(ahead),
        call.work,
    )
    check(status, "maxima")
    return BestPaths(path, score, marginal, forward, ahead)


_DOMAIN = {"auto": lib.FC_AUTO, "linear": lib.FC_LINEAR, "log": lib.FC_LOG}


def domain_number(name: str) -> int:
    """Return the kernel's number of a domain; OptionError for another name."""
    if name not in _DOMAIN:
        raise OptionError(f"domain is {name!r}, expected one of {', '.join(_DOMAIN)}")
    return _DOMAIN[name]


class GraphCall:
    """The C structures of one call, with references that keep their memory alive."""

    def __init__(self, graph: Graph, offsets: Longs, node: Floats) -> None:
        self.B = offsets.size - 1
        if self.B < 0:
            raise ShapeError("offsets is empty, expected [B + 1] numbers from 0")
        bounds = array_in(offsets, np.int64, (self.B + 1,), "offsets")
        n = int(offsets[-1])
        if graph.per_token and len(graph.score) != n:
            raise ShapeError(f"arc potentials of {len(graph.score)} tokens for {n} tokens")
        rows = array_in(node, np.float64, (n, graph.n_states), "node")
        lengths = Ragged(offsets).lengths
        if offsets[0] != 0 or (lengths < 0).any():
            raise ShapeError("offsets fall or do not start at 0")
        place = first_invalid(node)
        if place >= 0:
            token, state = divmod(place, graph.n_states)
            raise NumericError(
                f"NaN, +inf or beyond 1e300: the potential of token {token}, state {state}"
            )
        self.machine, self._machine_memory = graph_view(graph, rows)
        self.batch = ffi.new("fc_batch *", {"B": self.B, "offsets": bounds})
        self.inputs = self.machine, self.B, bounds
        self.where = ffi.new("int64_t *")
        longest = int(lengths.max(initial=0))
        scratch = np.empty(lib.fc_machine_work(self.machine, self.B, longest))
        self.work = ffi.from_buffer("double[]", scratch)


def first_invalid(potentials: Floats) -> int:
    """Return the index of the first potential that the kernel refuses; −1: all are valid."""
    flat = potentials.reshape(-1)
    return int(lib.fc_first_invalid(flat.size, ffi.from_buffer("double[]", flat)))


def graph_view(graph: Graph, node: CData | None = None, *, classed: bool = False) -> View:
    """Return the C view of a graph as a machine of one axis, and the memory it points into.

    `node` is a pointer to float64 [N, S]. `classed`: the C function that is called supports
    classes.
    """
    if graph.classes is not None and not classed:
        raise ShapeError("a graph with label classes supports only sweeps and steps")
    if (graph.source is None) != (graph.target is None):
        raise ShapeError("source and target go together: one of them is missing")
    states, arcs = graph.n_states, graph.n_arcs
    shape = (len(graph.score), arcs) if graph.per_token else (arcs,)
    axis: dict[str, object] = {
        "S": states,
        "contexts": 1,
        "moving": int(graph.per_token),
        "score": array_in(graph.score, np.float64, shape, "score"),
    }
    ends = {
        "initial": array_in(graph.initial, np.float64, (states,), "initial"),
        "final": array_in(graph.final, np.float64, (states,), "final"),
    }
    if graph.source is not None and graph.target is not None:
        axis["A"] = arcs
        axis["source"] = array_in(graph.source, np.int32, (arcs,), "source")
        axis["target"] = array_in(graph.target, np.int32, (arcs,), "target")
        if arcs == 0:
            raise ShapeError("a sparse graph has no arcs; there must be an arc")
        if graph.source.min() < 0 or graph.source.max() >= states:
            raise ShapeError(f"an arc leaves an unknown state, expected 0 to {states - 1}")
        row = Ragged.from_rows(graph.source, states).offsets
        axis["row"] = array_in(row, np.int64, row.shape, "row")
    if graph.rest is not None:
        axis["rest"] = ffi.new("double *", graph.rest)
    kept: list[object] = []
    for side, classes in zip(("leave", "enter"), graph.classes or (), strict=False):
        if len(classes.of) != states:
            raise ShapeError(f"classes of {len(classes.of)} states, expected {states}")
        axis[side], memory = classes.view()
        kept += memory
    factor: dict[str, object] = {"rows": 1, "width": states, "moving": 1}
    if node is not None:
        factor["value"] = node
    parts = ffi.new("fc_axis *", axis), ffi.new("fc_factor *", factor)
    sizes = {"axes": 1, "factors": int(node is not None), "outer": 1, "S": states}
    sums = {**ends, "empty": graph.empty}
    view = ffi.new("fc_machine *", {**sizes, "axis": parts[0], "factor": parts[1], **sums})
    return view, [*axis.values(), *ends.values(), *parts, node, *kept]
