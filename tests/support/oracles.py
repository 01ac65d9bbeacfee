"""Brute force: every path of one short sentence, written down and added up."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Longs
from fstcrf.kernel import Graph
from fstcrf.lattices import Lattice


class Truth(NamedTuple):
    """What enumeration says of one sentence; arcs as a matrix for each token but the first."""

    log_z: float
    node: Floats
    arc: Floats
    max_marginals: Floats
    path: Longs
    score: float


def chain_of(lattice: Lattice) -> tuple[Graph, Floats]:
    """The potentials of a lattice of one dense tape: successions and ends, and those of labels."""
    (chain,) = lattice.dense.program.chains
    node, *per_token = lattice.dense.values
    score = per_token[0] if chain.arc is None else chain.arc
    return Graph(chain.initial, chain.final, score), node


def arc_matrices(graph: Graph, first: int, tokens: int) -> Floats:
    """Potentials of all successions into the tokens of one sentence, [T - 1, S, S]."""
    size = graph.n_states
    if graph.source is None or graph.target is None:
        place = np.arange(size * size)
    else:
        place = graph.source.astype(np.int64) * size + graph.target
    score = graph.score[first + 1 : first + tokens] if graph.per_token else graph.score[None, :]
    full = np.full((tokens - 1, size * size), -np.inf)
    full[:, place] = score
    return full.reshape(-1, size, size)


def enumerate_paths(graph: Graph, node: Floats, first: int = 0) -> tuple[Longs, Floats]:
    """All paths of the sentence that begins at token `first`, in order, with their scores."""
    tokens, size = node.shape
    paths = np.asarray(list(itertools.product(range(size), repeat=tokens)), dtype=np.int64)
    arcs = arc_matrices(graph, first, tokens)
    score = graph.initial[paths[:, 0]] + graph.final[paths[:, -1]]
    for t in range(tokens):
        score = score + node[t, paths[:, t]]
        if t > 0:
            score = score + arcs[t - 1, paths[:, t - 1], paths[:, t]]
    return paths, score


def log_sum(scores: Floats) -> float:
    """Log of the sum of exponentials; −inf when nothing is added."""
    top = float(scores.max(initial=-np.inf))
    if top == -np.inf:
        return top
    return top + math.log(math.fsum(np.exp(scores - top).tolist()))


def truth(graph: Graph, node: Floats, first: int = 0) -> Truth:
    """Answer every question about one sentence by looking at all of its paths."""
    tokens, size = node.shape
    paths, scores = enumerate_paths(graph, node, first)
    log_z = log_sum(scores)
    share = np.exp(scores - log_z) if log_z > -np.inf else np.zeros_like(scores)
    nodes, best = np.zeros((tokens, size)), np.full((tokens, size), -np.inf)
    arcs = np.zeros((tokens - 1, size, size))
    for t in range(tokens):
        np.add.at(nodes[t], paths[:, t], share)
        np.maximum.at(best[t], paths[:, t], scores)
        if t > 0:
            np.add.at(arcs[t - 1], (paths[:, t - 1], paths[:, t]), share)
    winner = int(scores.argmax())  # the first of the best: smaller states, earlier tokens
    path = paths[winner] if log_z > -np.inf else np.full(tokens, -1)
    return Truth(log_z, nodes, arcs, best, path, float(scores[winner]))


def largest(*arrays: Floats) -> float:
    """Largest finite magnitude, at least 1: what rounding errors are measured against."""
    finite = [np.abs(a[np.isfinite(a)]).max(initial=1.0) for a in arrays]
    return float(max(finite))


def assert_close(found: object, expected: object, *, scale: float = 1.0) -> None:
    """Demand equality to 1e-12, relative, or absolute in units of `scale`."""
    one, other = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * scale)
