"""Competitors by max-marginals, beside the second-best path of n-best search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fstcrf
from fstcrf.ext.papers.batches import BatchPotentials, batch_of, gold_segments, whole_sentences
from fstcrf.ext.papers.competitors import Maxima, Rivalry
from tests.support.error_cases import KINDS, Enumerated, span_case


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(sorted(KINDS)))
def test_measures_of_segments(seed: int, kind: str) -> None:
    case = span_case(seed, kind)
    theta = np.random.default_rng(seed).normal(size=case.space.size)
    batch = batch_of(case.problem, np.arange(case.n_sentences))
    maxima = Maxima.of(batch, BatchPotentials.of(batch, case.space.tables(theta)))
    everything = Enumerated(case, theta)
    for segments, whole in ((gold_segments(batch), False), (whole_sentences(batch), True)):
        found = Rivalry(maxima, segments, whole=whole).measure
        for k, d in enumerate(found.tolist()):
            b = int(batch.sentence_of[segments.start[k]])
            first, end = (int(x[k] - batch.offsets[b]) for x in (segments.start, segments.end))
            assert d == pytest.approx(everything.measure(b, first, end), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_wrong_path_is_the_first_or_the_second(seed: int) -> None:
    """The competitor of a sentence is the best path, or the next where that is the gold one."""
    case = span_case(seed, "order 1", lengths=(7, 5, 1, 6, 2))
    theta = np.random.default_rng(seed).normal(size=case.space.size)
    theta += sum(0.3 * case.features(b, case.gold(b)) for b in range(2))  # some are right
    batch = batch_of(case.problem, np.arange(case.n_sentences))
    potentials = BatchPotentials.of(batch, case.space.tables(theta))
    rivalry = Rivalry(Maxima.of(batch, potentials), whole_sentences(batch), whole=True)
    rivals, graph = rivalry.rivals(), potentials.graph
    for b in range(case.n_sentences):
        part = slice(int(batch.offsets[b]), int(batch.offsets[b + 1]))
        lattice = fstcrf.Lattice.from_arrays(
            list(case.labels),
            potentials.node[part],
            graph.score.reshape(len(case.labels), -1),
            initial=graph.initial,
            final=graph.final,
        )
        first, second = lattice.nbest(2)
        gold = [case.labels[i] for i in case.gold(b)]
        expected = second if list(first.labels) == gold else first
        assert [case.labels[i] for i in rivals[part]] == list(expected.labels)
