"""One sentence's weighted transducer: every label sequence with its score.

States / Start / Final / Arcs
    T copies of a topology's states, one for each token; initial and final potentials at the ends;
    the arcs between neighbouring copies carry arc potentials, the states node potentials.

All answers are exact. Scores are natural logs; a path that is forbidden has −inf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fstcrf import kernel
from fstcrf.corpus import Scheme, named_scheme
from fstcrf.errors import NoPathError, NumericError, OptionError, ShapeError
from fstcrf.lattice.path import Path
from fstcrf.lattice.span_events import SpanEvent, span_event
from fstcrf.topology import Topology, chain_topology

__all__ = ["Lattice"]

Floats = NDArray[np.float64]


class Lattice:
    """One sentence's weighted transducer.

    Made by `Lattice.from_arrays` or by a tagger's ``lattice(sentence)``.

    Parameters
    ----------
    topology : Topology
        Labels, states and arcs.
    graph : kernel.Graph
        The topology with the potentials of this sentence's arcs.
    node : float64 [T, S]
        Potentials of the states.
    """

    def __init__(self, topology: Topology, graph: kernel.Graph, node: Floats) -> None:
        self.topology, self.graph, self.node = topology, graph, node
        self._offsets = np.asarray([0, len(node)] if len(node) else [0], dtype=np.int64)

    @classmethod
    def from_arrays(
        cls,
        labels: Sequence[str],
        emissions: ArrayLike,
        transitions: ArrayLike | None = None,
        initial: ArrayLike | None = None,
        final: ArrayLike | None = None,
    ) -> Lattice:
        """Build a lattice from scores of any origin.

        Parameters
        ----------
        labels : sequence of L str
        emissions : [T, L]
            Potential of each label at each token.
        transitions : [L, L] or [T - 1, L, L], optional
            Potential of each succession, from row to column; zero when absent.
        initial, final : [L], optional
            Potentials of the first and last label; zero when absent.

        Raises
        ------
        ShapeError
            Shapes that disagree.
        NumericError
            NaN or +inf; −inf is a legal "never".
        """
        topology = _free_topology(tuple(labels))
        size = topology.n_labels
        node = _potentials(emissions, "emissions", [(None, size)])
        shapes: list[tuple[int | None, ...]] = [(size, size), (max(len(node) - 1, 0), size, size)]
        arcs = _potentials(
            np.zeros((size, size)) if transitions is None else transitions, "transitions", shapes
        )
        score: Floats = arcs.reshape(-1)
        if arcs.ndim == 3:  # the kernel's row t holds the arcs into token t
            score = np.zeros((len(node), size * size))
            score[1:] = arcs.reshape(len(arcs), size * size)
        first, last = (
            _potentials(np.zeros(size) if e is None else e, name, [(size,)])
            for name, e in (("initial", initial), ("final", final))
        )
        return cls(topology, kernel.Graph(first, last, score), node)

    def __repr__(self) -> str:
        return f"<Lattice: {len(self)} tokens, {len(self.labels)} labels>"

    def __len__(self) -> int:
        return len(self.node)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; axis of `marginals` and of masks."""
        return self.topology.labels

    def best(self) -> Path:
        """Return the best path.

        Ties: the smaller label index wins, at the earliest token where the candidates differ.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden.
        """
        if not len(self):
            return Path((), 0.0, 1.0, exact=True, bound=0.0)
        states, scores = kernel.viterbi(self.graph, self._offsets, self.node)
        score = float(scores[0])
        if score == -np.inf:
            raise self._no_path()
        names = tuple(self.labels[i] for i in self.topology.state_label[states].tolist())
        return Path(names, score, self._probability(score), exact=True, bound=score)

    def log_partition(self) -> float:
        """Return log Z, the log of the sum over all paths; −inf where there is none."""
        return self._log_z

    def marginals(self) -> Floats:
        """Return the probability of each label at each token, float64 [T, L].

        Raises
        ------
        NoPathError
            Every label sequence is forbidden.
        """
        if not len(self):
            return np.empty((0, len(self.labels)))
        posterior = kernel.forward_backward(self.graph, self._offsets, self.node)
        if np.isneginf(posterior.log_z[0]):
            raise self._no_path()
        return self.topology.label_sums(posterior.node)

    def max_marginals(self) -> Floats:
        """Return the score of the best path through each label, float64 [T, L]; −inf: none."""
        if not len(self):
            return np.empty((0, len(self.labels)))
        return self.topology.label_max(kernel.max_marginals(self.graph, self._offsets, self.node))

    def score(self, labels: Sequence[str]) -> float:
        """Return the score of a label sequence; −inf if it is forbidden.

        Raises
        ------
        LabelError
            A label that the lattice does not have.
        ShapeError
            Another number of labels than tokens.
        """
        if len(labels) != len(self):
            raise ShapeError(f"{len(labels)} labels for {len(self)} tokens")
        if not len(self):
            return 0.0
        states = self.topology.paths(self.topology.label_ids(labels), self._offsets)
        if (states < 0).any():
            return float("-inf")
        return self._path_score(states)

    def probability(self, labels: Sequence[str]) -> float:
        """Return exp(score − log Z) of a label sequence; raises as `score`."""
        return self._probability(self.score(labels))

    def span_probability(
        self,
        start: int,
        end: int,
        type: str,  # noqa: A002
        *,
        scheme: str | Scheme = "conlleval",
    ) -> float:
        """Return the probability that exactly this segment is there.

        Parameters
        ----------
        start, end : int
            First token and the one behind the last.
        type : str
            ``"NP"``.
        scheme : str or Scheme
            How label sequences are read as spans.

        Raises
        ------
        OptionError
            No such span in a sentence of this length, or no label of this type.
        NoPathError
            Every label sequence is forbidden.
        """
        if not 0 <= start < end <= len(self):
            raise OptionError(f"span {start}:{end} in a sentence of {len(self)} tokens")
        if self._log_z == -np.inf:
            raise self._no_path()
        event = span_event(self.labels, named_scheme(scheme), type)
        return self._share(_conditioned(self, start, end, event).log_partition())

    def restrict(self, mask: ArrayLike) -> Lattice:
        """Return the lattice of the paths that a mask allows.

        Parameters
        ----------
        mask : bool [T, L]
            Labels that each token may have.

        Raises
        ------
        ShapeError
            Another shape.
        """
        allowed = np.asarray(mask, dtype=bool)
        if allowed.shape != (len(self), len(self.labels)):
            wanted = [len(self), len(self.labels)]
            raise ShapeError(f"mask is {list(allowed.shape)}, expected {wanted} (tokens, labels)")
        node = np.where(allowed[:, self.topology.state_label], self.node, -np.inf)
        return Lattice(self.topology, self.graph, node)

    @cached_property
    def _log_z(self) -> float:
        if not len(self):
            return 0.0
        return float(kernel.log_partition(self.graph, self._offsets, self.node)[0])

    def _probability(self, score: float) -> float:
        return self._share(score)

    def _share(self, score: float) -> float:
        return float(min(1.0, np.exp(score - self._log_z))) if score > -np.inf else 0.0

    def _path_score(self, states: NDArray[np.int32]) -> float:
        arcs = _arc_numbers(self.graph, states)
        into = (
            self.graph.score[np.arange(1, len(self)), arcs]
            if self.graph.moving
            else (self.graph.score[arcs])
        )
        total = self.graph.initial[states[0]] + self.graph.final[states[-1]]
        return float(total + self.node[np.arange(len(self)), states].sum() + into.sum())

    def _no_path(self) -> NoPathError:
        position = _first_dead(self)
        return NoPathError("every label sequence is forbidden from here on", position=position)


@lru_cache(maxsize=32)
def _free_topology(labels: tuple[str, ...]) -> Topology:
    return chain_topology(labels, 1)


def _potentials(values: ArrayLike, name: str, shapes: list[tuple[int | None, ...]]) -> Floats:
    try:  # a copy: a lattice does not change behind its answers
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} is no array of numbers: {error}") from None
    fits = any(
        len(shape) == array.ndim
        and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
        for shape in shapes
    )
    if not fits:
        wanted = " or ".join(str(["T" if n is None else n for n in shape]) for shape in shapes)
        raise ShapeError(f"{name} is {list(array.shape)}, expected {wanted}")
    if not (array < np.inf).all():
        place = np.argwhere(~(array < np.inf))[0].tolist()
        raise NumericError(f"{name} has NaN or +inf at {place}; -inf is the way to forbid")
    return array


def _arc_numbers(graph: kernel.Graph, states: NDArray[np.int32]) -> NDArray[np.int64]:
    before, after = states[:-1].astype(np.int64), states[1:].astype(np.int64)
    key = before * graph.n_states + after
    if graph.source is None or graph.target is None:
        return key
    keys = graph.source.astype(np.int64) * graph.n_states + graph.target
    return np.searchsorted(keys, key)


def _arc_ends(graph: kernel.Graph) -> tuple[NDArray[Any], NDArray[Any]]:
    if graph.source is not None and graph.target is not None:
        return graph.source, graph.target
    n = graph.n_states
    return np.repeat(np.arange(n), n), np.tile(np.arange(n), n)


def _moving_score(lattice: Lattice) -> Floats:
    """Arc potentials of each token, [T, arcs], as a copy."""
    graph = lattice.graph
    if graph.moving:
        return graph.score.copy()
    return np.repeat(graph.score[None, :], len(lattice), axis=0)


def _conditioned(lattice: Lattice, start: int, end: int, event: SpanEvent) -> Lattice:
    """Keep the paths on which one span lies exactly at ``start : end``."""
    topology, size = lattice.topology, len(lattice.labels)
    source, target = _arc_ends(lattice.graph)
    before, after = topology.state_label[source], topology.state_label[target]
    score, node = _moving_score(lattice), lattice.node.copy()
    graph = replace(lattice.graph, score=score)
    if start > 0:
        score[start, ~event.begins[before, after]] = -np.inf
    else:
        node[0, ~event.begins[size, topology.state_label]] = -np.inf
    score[start + 1 : end, ~event.continues[before, after]] = -np.inf
    node[end - 1, ~event.ends[topology.state_label]] = -np.inf
    if end < len(lattice):
        score[end, event.continues[before, after]] = -np.inf
    return Lattice(topology, graph, node)


def _first_dead(lattice: Lattice) -> int:
    """First token that no path from the start reaches; the last one if only the end is shut."""
    source, target = _arc_ends(lattice.graph)
    graph = lattice.graph
    alive = (graph.initial > -np.inf) & (lattice.node[0] > -np.inf)
    for t in range(1, len(lattice)):
        if not alive.any():
            return t - 1
        score = graph.score[t] if graph.moving else graph.score
        reached = np.zeros_like(alive)
        reached[target[alive[source] & (score > -np.inf)]] = True
        alive = reached & (lattice.node[t] > -np.inf)
    return len(lattice) - 1
