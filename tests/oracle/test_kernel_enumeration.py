"""The kernel against enumeration of every path, to 1e-12."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.kernel import Graph
from fstcrf.machines.topology import Topology
from tests.support.oracles import assert_close, enumerate_paths, largest, log_sum
from tests.support.strategies import UNITS, each_variant, potentials, topologies

# --- Topologies: the sum over label sequences, not over states --------------------------------


def weighted(
    topology: Topology, data: st.DataObject, tokens: int, *, per_token: bool
) -> tuple[Graph, Floats, Floats, Floats]:
    unit = data.draw(st.sampled_from(UNITS[:2]))
    shape = (tokens, topology.n_arc_slots) if per_token else (topology.n_arc_slots,)
    slots = data.draw(potentials(shape, unit=unit, forbid=False))
    rows = (tokens, len(topology.node_slot_names))
    node_slots = data.draw(potentials(rows, unit=unit, forbid=False))
    return topology.graph(slots), topology.node_potentials(node_slots), slots, node_slots


def label_score(topology: Topology, labels: tuple[int, ...], slots: Floats, node: Floats) -> float:
    """Score of a label sequence, by walking the topology's own arrays."""
    arc = {
        (s, int(topology.state_label[t])): (t, slot)
        for s, t, slot in zip(
            topology.source.tolist(),
            topology.target.tolist(),
            topology.arc_slot.tolist(),
            strict=True,
        )
    }
    starts = {int(topology.state_label[s]): int(s) for s in np.flatnonzero(topology.initial)}
    state, total = starts.get(labels[0]), 0.0
    for t, label in enumerate(labels):
        if t > 0 and state is not None:
            state, slot = arc.get((state, label), (None, -1))
            total += 0.0 if slot < 0 else float(slots[t, slot] if slots.ndim == 2 else slots[slot])
        if state is None:
            return -np.inf
        total += float(node[t, topology.node_slots[state]].sum())
    return total if state is not None and topology.final[state] else -np.inf


@pytest.mark.thorough
@each_variant
@given(topology=topologies(), data=st.data(), tokens=st.integers(1, 4), per_token=st.booleans())
def test_orders(
    variant: str, topology: Topology, data: st.DataObject, tokens: int, *, per_token: bool
) -> None:
    graph, node, slots, node_slots = weighted(topology, data, tokens, per_token=per_token)
    free = Graph(
        np.zeros(topology.n_labels), np.zeros(topology.n_labels), np.zeros(topology.n_labels**2)
    )
    sequences, _ = enumerate_paths(free, np.zeros((tokens, topology.n_labels)))
    scores = np.asarray(
        [label_score(topology, tuple(s), slots, node_slots) for s in sequences.tolist()]
    )
    offsets = np.asarray([0, tokens])
    found = kernel.forward_backward(graph, offsets, node)
    log_z = log_sum(scores)
    scale = largest(node, slots)
    assert_close(found.log_z[0], log_z, scale=scale)
    path, score = kernel.viterbi(graph, offsets, node)
    assert score[0] == scores.max()
    if log_z == -np.inf:
        return
    assert topology.state_label[path].tolist() == sequences[scores.argmax()].tolist()
    share = np.exp(scores - log_z)
    marginals = np.zeros((tokens, topology.n_labels))
    for t in range(tokens):
        np.add.at(marginals[t], sequences[:, t], share)
    assert_close(topology.label_sums(found.node), marginals, scale=scale)
    best = topology.label_max(kernel.max_marginals(graph, offsets, node))
    for t, label in np.ndindex(best.shape):
        assert best[t, label] == scores[sequences[:, t] == label].max(initial=-np.inf)
