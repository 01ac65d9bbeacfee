"""What the kernel must answer for a batch under a machine, given what is known of it."""

from __future__ import annotations

import numpy as np

from fstcrf.kernel import Domain, decoding
from tests.support.machines import Answers, Case, assert_near, ranked_paths


def check_best(case: Case, known: Answers) -> None:
    """Paths and scores, to the last bit; ties included."""
    path, score = decoding.best_paths(case.bound)
    assert path.dtype == np.int32
    assert score.tolist() == known.score.tolist()
    assert path.tolist() == known.path.tolist()


def check_max_marginals(case: Case, known: Answers) -> None:
    """To the last bit."""
    found = decoding.axis_max_marginals(case.bound)
    assert len(found) == len(case.sizes)
    for mine, its in zip(found, known.max_marginals, strict=True):
        assert mine.tolist() == its.tolist()


def check_sums(case: Case, known: Answers, domain: Domain) -> None:
    """Log Z and posteriors of states."""
    scale, longest = case.scale, int(np.diff(case.offsets).max())
    drift = max(1.0, scale * longest / 1e5)  # sums of logs are as large as that
    assert_near(decoding.log_partitions(case.bound, domain=domain), known.log_z, scale=scale)
    found = decoding.axis_posterior(case.bound, domain=domain)
    assert_near(found.log_z, known.log_z, scale=scale)
    assert len(found.node) == len(case.sizes)
    for mine, its in zip(found.node, known.marginals, strict=True):
        assert_near(mine, its, scale=drift)


def check_nbest(case: Case, n: int) -> None:
    """Scores are those of the n best; paths are distinct and have the scores that they claim."""
    counts, scores, paths = decoding.nbest_paths(case.bound, n)
    assert scores.shape == (len(case.bounds), n)
    assert paths.shape == (n, case.tokens)
    assert paths.dtype == np.int32
    for b, (first, last) in enumerate(case.bounds):
        ranked, expected = ranked_paths(case.sentence(first, last))
        count = min(n, len(ranked))
        assert counts[b] == count
        assert scores[b, :count].tolist() == expected[:count].tolist()
        assert np.isneginf(scores[b, count:]).all()
        claimed = dict(zip(map(tuple, ranked.tolist()), expected.tolist(), strict=True))
        own = list(map(tuple, paths[:count, first:last].tolist()))
        assert [claimed[path] for path in own] == expected[:count].tolist()
        assert len(set(own)) == count
        assert own[:1] == list(map(tuple, ranked[:1].tolist()))
        assert (paths[count:, first:last] == -1).all()
