"""Laws of forward-backward, best paths and max-marginals that need no oracle."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.kernel import Graph, Posterior
from tests.support.oracles import assert_close, largest
from tests.support.strategies import Case, cases, each_variant, potentials


def run(case: Case, weight: Floats | None = None) -> Posterior:
    return kernel.forward_backward(case.graph, case.offsets, case.node, weight=weight)


def scale_of(case: Case) -> float:
    graph = case.graph
    return largest(case.node, graph.score, graph.initial, graph.final)


@each_variant
@given(case=cases(max_states=9))
def test_best_path_and_max_marginals_agree(variant: str, case: Case) -> None:
    log_z = kernel.log_partition(case.graph, case.offsets, case.node)
    path, score = kernel.viterbi(case.graph, case.offsets, case.node)
    best = kernel.max_marginals(case.graph, case.offsets, case.node)
    assert (score <= log_z + 1e-12 * np.abs(np.where(np.isinf(log_z), 0, log_z)) + 1e-12).all()
    assert (np.isneginf(score) == np.isneginf(log_z)).all()
    for b, (first, last) in enumerate(case.bounds):
        assert (best[first:last].max(axis=1) == score[b]).all()
        if score[b] > -np.inf:
            assert (best[np.arange(first, last), path[first:last]] == score[b]).all()


@each_variant
@given(case=cases(max_states=6))
def test_one_structure_four_ways(variant: str, case: Case) -> None:
    """A graph as dense, as sparse and as per-token gives the same answers."""
    graph, size = case.graph, case.graph.n_states
    tokens, found = len(case.node), run(case)
    place = (
        np.arange(size * size)
        if graph.source is None or graph.target is None
        else graph.source.astype(np.int64) * size + graph.target
    )
    square = np.full((*graph.score.shape[:-1], size * size), -np.inf)
    square[..., place] = graph.score
    every = np.arange(size * size, dtype=np.int32)
    shapes = [Graph(graph.initial, graph.final, square)]
    shapes.append(Graph(graph.initial, graph.final, square, every // size, every % size))
    if not graph.per_token:
        tiled = np.tile(square, (tokens, 1))
        shapes.append(Graph(graph.initial, graph.final, tiled))
    best, score = kernel.viterbi(graph, case.offsets, case.node)
    for other in shapes:
        again = run(case._replace(graph=other))
        assert_close(again.log_z, found.log_z, scale=scale_of(case))
        assert_close(again.node, found.node, scale=scale_of(case))
        arc = again.arc if other.per_token == graph.per_token else again.arc.sum(axis=0)
        assert_close(arc[..., place], found.arc, scale=scale_of(case))
        path, best_score = kernel.viterbi(other, case.offsets, case.node)
        assert path.tolist() == best.tolist()
        assert best_score.tolist() == score.tolist()


@each_variant
@given(case=cases(max_states=6), data=st.data())
def test_weights_are_factors(variant: str, case: Case, data: st.DataObject) -> None:
    sentences = len(case.offsets) - 1
    weight = data.draw(potentials((sentences,), unit=0.5, forbid=False))
    plain, weighted = run(case), run(case, weight)
    assert weighted.log_z.tolist() == plain.log_z.tolist()
    per_token = np.repeat(weight, np.diff(case.offsets))[:, None]
    assert_close(weighted.node, plain.node * per_token)
    if case.graph.per_token:
        assert_close(weighted.arc, plain.arc * per_token)
    else:
        parts = [
            w * run(case.sentence(a, b)).arc for w, (a, b) in zip(weight, case.bounds, strict=True)
        ]
        assert_close(weighted.arc, np.sum(parts, axis=0), scale=scale_of(case))


@each_variant
@given(case=cases(max_states=9))
def test_batches_are_sentence_by_sentence_bit_for_bit(variant: str, case: Case) -> None:
    """All but the sum over arcs, whose order of additions depends on the batch."""
    together = run(case)
    path, score = kernel.viterbi(case.graph, case.offsets, case.node)
    best = kernel.max_marginals(case.graph, case.offsets, case.node)
    log_z = kernel.log_partition(case.graph, case.offsets, case.node)
    arcs = []
    for b, (first, last) in enumerate(case.bounds):
        one = case.sentence(first, last)
        alone = run(one)
        assert alone.log_z[0] == together.log_z[b] == log_z[b]
        assert alone.node.tobytes() == together.node[first:last].tobytes()
        assert kernel.log_partition(*one)[0] == log_z[b]
        its_path, its_score = kernel.viterbi(*one)
        assert its_path.tolist() == path[first:last].tolist()
        assert its_score[0] == score[b]
        assert kernel.max_marginals(*one).tobytes() == best[first:last].tobytes()
        arcs.append(alone.arc)
    if case.graph.per_token:
        assert np.vstack(arcs).tobytes() == together.arc.tobytes()
    else:
        assert_close(np.sum(arcs, axis=0), together.arc, scale=scale_of(case))


@given(case=cases(max_states=17))
def test_variants_agree(case: Case) -> None:
    before = kernel.variant()
    results = []
    for name in kernel.variants():
        kernel.use(name)
        results.append(
            (
                run(case),
                kernel.viterbi(case.graph, case.offsets, case.node),
                kernel.max_marginals(case.graph, case.offsets, case.node),
            )
        )
    kernel.use(before)
    (sums, (path, score), best), *others = results
    for other_sums, (other_path, other_score), other_best in others:
        for one, other in zip(sums, other_sums, strict=True):
            assert_close(other, one, scale=scale_of(case))
        assert other_path.tolist() == path.tolist()
        assert other_score.tobytes() == score.tobytes()
        assert other_best.tobytes() == best.tobytes()


@each_variant
@given(case=cases())
def test_nothing_is_written_to_what_comes_in(variant: str, case: Case) -> None:
    arrays = [case.node, case.offsets, case.graph.score, case.graph.initial, case.graph.final]
    before = [a.tobytes() for a in arrays]
    for a in arrays:
        a.flags.writeable = False
    run(case)
    kernel.viterbi(case.graph, case.offsets, case.node)
    kernel.max_marginals(case.graph, case.offsets, case.node)
    assert [a.tobytes() for a in arrays] == before
