"""Products of taggers, and the chain rule, against every labelling, scored tagger by tagger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf import Lattice, compose
from fstcrf.errors import NoPathError
from fstcrf.taggers import ChainLattice, Composition
from tests.support.joint_cases import (
    CASES,
    GRAMMARS,
    ONE_TAPE,
    TEST,
    Truth,
    close,
    shaped,
    taggers,
)

WEIGHTS = {1: (0.5,), 2: (1.0, 0.3), 3: (1.0, 0.7, 0.4)}


def check(composition: Composition, truth: Truth, budget: int | None = None) -> None:
    chain = truth.normalize == "chain"
    how: Any = {"budget": budget} if chain else {}
    lattice = composition.lattice(truth.sentence)
    assert isinstance(lattice, ChainLattice if chain else Lattice)
    if not chain:
        assert close(lattice.log_partition(), truth.log_z)
    (path,) = composition.paths_all([truth.sentence], **how)
    if not truth.scores:
        assert path is None
        assert lattice.nbest(2) == []
        with pytest.raises(NoPathError):
            composition.tag(truth.sentence)
        return
    assert path is not None
    # By the chain rule, a grammar takes labellings away and leaves probabilities.
    sure = Truth(truth.taggers, truth.sentence, normalize="chain") if chain else truth
    for found in (path, lattice.best(**how)):
        labels = shaped(found.labels, truth)
        assert close(found.score, truth.best)
        assert close(truth.scores[labels], truth.best)
        assert close(found.probability, sure.probability(labels))
        assert close(found.probability, lattice.probability(found.labels))
        assert found.exact
        assert found.bound == found.score
    tagged = shaped(composition.tag(truth.sentence, **how), truth)
    assert tuple(map(tuple, tagged)) == shaped(path.labels, truth)
    ranked, wanted = lattice.nbest(20, **how), truth.ranking[:20]
    assert len({p.labels for p in ranked}) == len(ranked) == len(wanted)
    for one, (score, _) in zip(ranked, wanted, strict=True):
        assert close(one.score, score)
        assert close(one.score, truth.scores[shaped(one.labels, truth)])
        assert one.exact
    if not chain:
        for k, rows in enumerate(shaped(composition.marginals_all([truth.sentence])[0], truth)):
            np.testing.assert_allclose(rows, truth.marginals(k), rtol=1e-9, atol=1e-12)
    for labelling in list(truth.scores)[:5]:
        own = labelling[0] if len(truth.taggers) == 1 else labelling
        assert close(lattice.score(own), truth.scores[labelling])


every_normalization = pytest.mark.parametrize("normalize", ["product", "chain"])


@pytest.mark.thorough
@every_normalization
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_case(case: str, weighted: bool, normalize: Any) -> None:
    parts = taggers(case)
    if len(parts) == 1:
        normalize = "product"
    weights = WEIGHTS[len(parts)] if weighted else (1.0,) * len(parts)
    composition = compose(*parts, weights=weights, normalize=normalize)
    for sentence in TEST[: 3 if len(parts) < 3 else 1]:
        truth = Truth(parts, sentence, weights, normalize=normalize)
        check(composition, truth, 64)
        if normalize == "chain" and not weighted:
            assert abs(truth.log_z) < 1e-9, "the probabilities add up to one"


@pytest.mark.parametrize("grammar", ONE_TAPE)
def test_a_tagger_under_a_grammar(grammar: str) -> None:
    parts = taggers("one")
    composition = compose(*parts, grammar=ONE_TAPE[grammar](), weights=(0.8,))
    for sentence in TEST:
        check(composition, Truth(parts, sentence, (0.8,), composition.conjuncts))


def test_weights_multiply_potentials_and_not_the_grammar() -> None:
    parts = taggers("pair")
    composition = compose(*parts, grammar=GRAMMARS["soft pairs"](), weights=(0.5, 0.2))
    twice = compose(composition, weights=(2.0,))
    assert twice.weights == (1.0, 0.4)
    check(twice, Truth(parts, TEST[1], (1.0, 0.4), composition.conjuncts))
