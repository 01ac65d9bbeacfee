"""The kernel against enumeration of every path, to 1e-12."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.kernel import Domain, Graph
from fstcrf.machines.topology import Topology
from tests.support.oracles import Truth, assert_close, enumerate_paths, largest, log_sum, truth
from tests.support.strategies import UNITS, Case, cases, each_variant, potentials, topologies


def truths(case: Case) -> list[Truth]:
    return [truth(case.graph, case.node[a:b], a) for a, b in case.bounds]


def kernel_arcs(graph: Graph, matrices: Floats) -> Floats:
    """[T - 1, S, S] → [T - 1, arcs] in the kernel's numbering."""
    flat = matrices.reshape(len(matrices), graph.n_states**2)
    if graph.source is None or graph.target is None:
        return flat
    return flat[:, graph.source.astype(np.int64) * graph.n_states + graph.target]


def expected_arcs(case: Case, weight: Floats) -> Floats:
    out = np.zeros((len(case.node), case.graph.n_arcs))
    for (a, b), known, w in zip(case.bounds, truths(case), weight, strict=True):
        out[a + 1 : b] = w * kernel_arcs(case.graph, known.arc)
    return out if case.graph.per_token else out.sum(axis=0)


def scale_of(case: Case) -> float:
    graph = case.graph
    return largest(case.node, graph.score, graph.initial, graph.final)


@pytest.mark.thorough
@pytest.mark.parametrize("domain", ["auto", "log"])
@each_variant
@given(case=cases(), data=st.data())
def test_forward_backward(variant: str, domain: Domain, case: Case, data: st.DataObject) -> None:
    size = len(case.offsets) - 1
    weight = data.draw(potentials((size,), unit=0.25, forbid=False))
    found = kernel.forward_backward(
        case.graph, case.offsets, case.node, weight=weight, domain=domain
    )
    scale = scale_of(case)
    known = truths(case)
    assert_close(found.log_z, [k.log_z for k in known], scale=scale)
    node = np.vstack([w * k.node for w, k in zip(weight, known, strict=True)])
    assert_close(found.node, node, scale=scale)
    assert_close(found.arc, expected_arcs(case, weight), scale=scale)


@pytest.mark.thorough
@pytest.mark.parametrize("domain", ["auto", "log"])
@each_variant
@given(case=cases())
def test_log_partition(variant: str, domain: Domain, case: Case) -> None:
    found = kernel.log_partition(case.graph, case.offsets, case.node, domain=domain)
    assert_close(found, [k.log_z for k in truths(case)], scale=scale_of(case))


@pytest.mark.thorough
@each_variant
@given(case=cases(unit=2.0))
def test_linear_domain_alone(variant: str, case: Case) -> None:
    # ±16 a potential and four tokens stay within what float64 can hold.
    found = kernel.forward_backward(case.graph, case.offsets, case.node, domain="linear")
    known = truths(case)
    assert_close(found.log_z, [k.log_z for k in known], scale=16.0)
    assert_close(found.node, np.vstack([k.node for k in known]), scale=16.0)
    assert_close(found.arc, expected_arcs(case, np.ones(len(known))), scale=16.0)


@pytest.mark.thorough
@each_variant
@given(case=cases())
def test_viterbi_with_its_tie_rule(variant: str, case: Case) -> None:
    path, score = kernel.viterbi(case.graph, case.offsets, case.node)
    known = truths(case)
    assert score.tolist() == [k.score for k in known]
    assert path.tolist() == np.concatenate([k.path for k in known]).tolist()


@pytest.mark.thorough
@each_variant
@given(case=cases())
def test_max_marginals(variant: str, case: Case) -> None:
    found = kernel.max_marginals(case.graph, case.offsets, case.node)
    assert found.tolist() == np.vstack([k.max_marginals for k in truths(case)]).tolist()


def best_ends(graph: Graph, node: Floats, first: int) -> Floats:
    """Score of the best path that ends in each state of the last token, by enumeration."""
    open_end = replace(graph, final=np.zeros(graph.n_states))
    return np.asarray(truth(open_end, node, first).max_marginals[-1])


@pytest.mark.thorough
@each_variant
@given(case=cases())
def test_both_halves_of_max_marginals(variant: str, case: Case) -> None:
    found = kernel.maxima(case.graph, case.offsets, case.node)
    path, score = kernel.viterbi(case.graph, case.offsets, case.node)
    assert found.path.tobytes() == path.tobytes()
    assert found.score.tobytes() == score.tobytes()
    whole = kernel.max_marginals(case.graph, case.offsets, case.node)
    assert found.marginal.tobytes() == whole.tobytes()
    forward = [
        best_ends(case.graph, case.node[a : t + 1], a) for a, b in case.bounds for t in range(a, b)
    ]
    assert found.forward.tolist() == np.reshape(forward, case.node.shape).tolist()
    reached = np.isfinite(whole)
    halves = found.forward[reached] + (found.ahead - np.where(reached, case.node, 0.0))[reached]
    assert_close(halves, whole[reached], scale=scale_of(case))


@pytest.mark.thorough
@each_variant
@given(case=cases(kinds=("dense", "per-token"), max_states=3), state=st.integers(0, 2))
def test_nothing_left(variant: str, case: Case, state: int) -> None:
    node = case.node.copy()
    a, b = case.bounds[-1]
    node[(a + b) // 2] = -np.inf
    found = kernel.forward_backward(case.graph, case.offsets, node)
    assert found.log_z[-1] == -np.inf
    assert not found.node[a:b].any()
    path, score = kernel.viterbi(case.graph, case.offsets, node)
    assert score[-1] == -np.inf
    assert (path[a:b] == -1).all()
    assert np.isneginf(kernel.max_marginals(case.graph, case.offsets, node)[a:b]).all()


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
