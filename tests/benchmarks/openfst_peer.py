"""The other side of composition: pynini, each task in its best design. No fstcrf is imported here.

``python -m tests.benchmarks.openfst_peer WORK JSON`` does one piece of work in a process of its own
and prints a JSON object: seconds a sentence (of the processor, and by the clock) and the scores of
the labellings that were found.

What does not depend on the sentence is compiled beforehand. A sentence is written as the bytes of
an OpenFst file by NumPy, which is some 40 times as fast as adding arcs, composed with
``connect=False``, and searched; then its labels are read off the path.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pynini
import pywrapfst
from numpy.typing import NDArray

from fstcrf.arrays import Floats
from tests.benchmarks.synthetic import ONCE, TOKENS, TYPES, Chain, Pair, labels_22
from tests.benchmarks.work import answer

Pairs = list[tuple[int, int]]

_ARC = np.dtype([("in", "<i4"), ("out", "<i4"), ("cost", "<f4"), ("next", "<i4")])
_STATE = np.dtype([("final", "<f4"), ("arcs", "<i8")])


# --- Sentences as bytes ---------------------------------------------------------------------------


def _header(states: int, arcs: int) -> bytes:
    kinds = b"".join(struct.pack("<i", len(name)) + name for name in (b"vector", b"standard"))
    return struct.pack("<i", 2125659606) + kinds + struct.pack("<iiQqqq", 2, 0, 0, 0, states, arcs)


def _records(states: int, arcs: int) -> NDArray[Any]:
    """Return states that are not final and have so many arcs each; symbols are 1, 2, ..."""
    records = np.empty(states, [("final", "<f4"), ("n", "<i8"), ("arc", _ARC, (arcs,))])
    records["final"], records["n"] = np.inf, arcs
    records["arc"]["in"] = records["arc"]["out"] = np.arange(1, arcs + 1)
    return records


def _ends(states: int) -> bytes:
    """Return final states without arcs."""
    return np.zeros(states, _STATE).tobytes()


def sausage(node: Floats) -> bytes:
    """Return T + 1 states, an arc between neighbours for each label; node is [T, L]."""
    tokens, labels = node.shape
    records = _records(tokens, labels)
    records["arc"]["cost"] = -node
    records["arc"]["next"] = np.arange(1, tokens + 1)[:, None]
    return _header(tokens + 1, tokens * labels) + records.tobytes() + _ends(1)


def lattice(node: Floats, arc: Floats) -> bytes:
    """Return a start, and T copies of L states that are linked by L² arcs."""
    tokens, labels = node.shape
    records = _records(1 + (tokens - 1) * labels, labels)
    cost, following = records["arc"]["cost"], records["arc"]["next"]
    cost[0] = -node[0]
    cost[1:] = -(arc + node[1:, None, :]).reshape(-1, labels)
    token = np.repeat(np.arange(tokens), [1] + [labels] * (tokens - 1))
    following[:] = 1 + token[:, None] * labels + np.arange(labels)
    arcs = labels + (tokens - 1) * labels**2
    return _header(1 + tokens * labels, arcs) + records.tobytes() + _ends(labels)


def turns(first: Floats, second: Floats) -> bytes:
    """Return a sausage that reads a label of the first tape, one of the second, and so on."""
    (tokens, one), two = first.shape, second.shape[1]
    sides = [("f1", "<f4"), ("n1", "<i8"), ("a1", _ARC, (one,))]
    sides += [("f2", "<f4"), ("n2", "<i8"), ("a2", _ARC, (two,))]
    records = np.empty(tokens, sides)
    records["f1"] = records["f2"] = np.inf
    records["n1"], records["n2"] = one, two
    records["a1"]["in"] = records["a1"]["out"] = np.arange(1, one + 1)
    records["a2"]["in"] = records["a2"]["out"] = np.arange(one + 1, one + two + 1)
    records["a1"]["cost"], records["a2"]["cost"] = -first, -second
    records["a1"]["next"] = 2 * np.arange(tokens)[:, None] + 1
    records["a2"]["next"] = 2 * np.arange(tokens)[:, None] + 2
    return _header(2 * tokens + 1, tokens * (one + two)) + records.tobytes() + _ends(1)


# --- Machines, compiled once ----------------------------------------------------------------------


def _machine(states: int, arcs: Sequence[tuple[int, int, int, float, int]]) -> pynini.Fst:
    """Return a machine of (from, in, out, potential, to); state 0 starts, all are final."""
    fst = pynini.Fst()
    fst.add_states(states)
    fst.set_start(0)
    for state in range(states):
        fst.set_final(state)
    for source, label_in, label_out, score, target in arcs:
        fst.add_arc(source, pywrapfst.Arc(label_in, label_out, -score, target))
    fst.arcsort("ilabel")
    return fst


def transitions(arc: Floats) -> pynini.Fst:
    """Return the acceptor that remembers the last label; label k is the symbol k + 1."""
    labels = len(arc)
    scores = np.concatenate([np.zeros((1, labels)), arc])
    return _machine(
        labels + 1,
        [
            (q, k + 1, k + 1, float(scores[q, k]), k + 1)
            for q in range(labels + 1)
            for k in range(labels)
        ],
    )


def once(labels: Sequence[str]) -> pynini.Fst:
    """Return BIO with at most one span of the type that may occur once."""
    known = {label: k + 1 for k, label in enumerate(labels)}

    def symbol(label: str) -> pynini.Fst:
        fst = pynini.Fst()
        fst.add_states(2)
        fst.set_start(0)
        fst.set_final(1)
        fst.add_arc(0, pywrapfst.Arc(known[label], known[label], 0.0, 1))
        return fst

    def span(kind: str) -> pynini.Fst:
        begin, inside = symbol(f"B-{kind}"), f"I-{kind}"
        return begin + pynini.closure(symbol(inside)) if inside in known else begin

    others = pynini.closure(pynini.union(symbol("O"), *[span(t) for t in TYPES if t != ONCE]))
    return (others + pynini.closure(span(ONCE) + others, 0, 1)).optimize()


def reader(arc: Floats, coupling: Floats) -> pynini.Fst:
    """Return the second tagger as a transducer from labels of the first to its own."""
    one, two = coupling.shape
    scores = np.concatenate([np.zeros((1, two)), arc])
    return _machine(
        two + 1,
        [
            (q, i + 1, k + 1, float(coupling[i, k] + scores[q, k]), k + 1)
            for q in range(two + 1)
            for i in range(one)
            for k in range(two)
        ],
    )


def product(pair: Pair) -> pynini.Fst:
    """Return the product of two taggers that move by turns."""
    one, two = pair.coupling.shape
    first, second, coupling = pair.first.arc, pair.second.arc, pair.coupling
    pairs = 1 + np.arange(one * two).reshape(one, two)  # both have read this token
    ahead = pairs + one * two  # the first has read the next token
    begun = 1 + 2 * one * two + np.arange(one)  # the first has read the first token
    arcs: list[tuple[int, int, int, float, int]] = []
    for i in range(one):
        arcs.append((0, i + 1, i + 1, 0.0, int(begun[i])))
        for j in range(two):
            out = one + j + 1
            arcs.append((int(begun[i]), out, out, float(coupling[i, j]), int(pairs[i, j])))
            arcs += [
                (int(pairs[i, j]), k + 1, k + 1, float(first[i, k]), int(ahead[k, j]))
                for k in range(one)
            ]
            arcs += [
                (int(ahead[i, j]), one + k + 1, one + k + 1, float(score), int(pairs[i, k]))
                for k, score in enumerate(second[j] + coupling[i])
            ]
    return _machine(1 + 2 * one * two + one, arcs)


# --- Work -----------------------------------------------------------------------------------------


def _best(left: pywrapfst.Fst, right: pywrapfst.Fst) -> Pairs:
    """Return the input and output symbols of the best path."""
    path = pywrapfst.shortestpath(pywrapfst.compose(left, right, connect=False))
    found: Pairs = []
    state = path.start()
    while (arc := next(iter(path.arcs(state)), None)) is not None:
        found.append((arc.ilabel, arc.olabel))
        state = arc.nextstate
    return found


def _timed(
    sentences: int, solve: Callable[[int], Pairs], score: Callable[[int, Pairs], float]
) -> dict[str, Any]:
    solve(0)
    begun, clock = time.process_time(), time.perf_counter()
    found = [solve(number) for number in range(sentences)]
    cpu, wall = time.process_time() - begun, time.perf_counter() - clock
    return {
        "best": {"cpu": cpu / sentences, "wall": wall / sentences},
        "scores": [score(number, path) for number, path in enumerate(found)],
    }


def constrained(sentences: int) -> dict[str, Any]:
    """22 labels under BIO, one type at most once."""
    labels = labels_22()
    chain = Chain.random(sentences, len(labels))
    machine = pynini.intersect(transitions(chain.arc), once(labels)).connect().arcsort("ilabel")
    read = pywrapfst.Fst.read_from_string
    return _timed(
        sentences,
        lambda n: _best(read(sausage(chain.node[n])), machine),
        lambda n, path: chain.score(n, np.asarray(path)[:, 0] - 1),
    )


def cascade(sentences: int, labels: tuple[int, int]) -> dict[str, Any]:
    """Two taggers, the first as a lattice, the second as a transducer that reads it."""
    pair = Pair.random(sentences, labels)
    machine = reader(pair.second.arc, pair.coupling)
    read = pywrapfst.Fst.read_from_string

    def solve(n: int) -> Pairs:
        second = pywrapfst.compose(machine, read(sausage(pair.second.node[n])), connect=False)
        second.arcsort("ilabel")
        return _best(read(lattice(pair.first.node[n], pair.first.arc)), second)

    def score(n: int, path: Pairs) -> float:
        ids = np.asarray(path) - 1
        return pair.score(n, ids[:, 0], ids[:, 1])

    return _timed(sentences, solve, score)


def interleaved(sentences: int, labels: tuple[int, int]) -> dict[str, Any]:
    """Two taggers that move by turns: the factoring that fstcrf has, in OpenFst."""
    pair = Pair.random(sentences, labels)
    machine = product(pair)
    read = pywrapfst.Fst.read_from_string

    def score(n: int, path: Pairs) -> float:
        ids = np.asarray(path)[:, 0].reshape(TOKENS, 2) - 1
        return pair.score(n, ids[:, 0], ids[:, 1] - labels[0])

    return _timed(
        sentences,
        lambda n: _best(read(turns(pair.first.node[n], pair.second.node[n])), machine),
        score,
    )


if __name__ == "__main__":
    answer(globals())
