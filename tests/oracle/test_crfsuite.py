"""Training beside python-crfsuite: the same features, the same objective, the same labels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, evaluate_tokens
from tests.support.crfsuite_models import random_sentences

pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")

Tokens = list[Any]


def data(seed: int, *, values: bool, n: int = 60) -> tuple[list[Tokens], list[list[str]]]:
    """Words that tell labels in part, and labels that follow each other in part."""

    def token(rng: np.random.Generator, label: int) -> tuple[Any, str]:
        word = int(label * 3 + rng.integers(6))
        attributes = [f"w={word}", f"s={word % 4}", "bias"]
        if not values:
            return attributes, "ABCDE"[label]
        # Positive: CRFsuite drops features whose values sum to less than 0.
        weighted = {**dict.fromkeys(attributes, 1.0), "n": float(rng.exponential())}
        return weighted, "ABCDE"[label]

    return random_sentences(seed, n, token)


class Theirs:
    """A model that CRFsuite trains."""

    def __init__(
        self, path: Path, sentences: list[Tokens], target: list[list[str]], **params: Any
    ) -> None:
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        for tokens, labels in zip(sentences, target, strict=True):
            trainer.append(tokens, labels)
        defaults = {"c1": 0.0, "epsilon": 1e-9, "delta": 1e-12, "max_iterations": 1000}
        trainer.set_params({**defaults, **params})
        trainer.train(str(path))
        log = "".join(trainer.logparser.log)
        self.features = int(re.findall(r"Number of features: (\d+)", log)[0])
        self.loss = min(iteration["loss"] for iteration in trainer.logparser.iterations)
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open(str(path))


OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "supported, observed": ({}, {}),
    "complete, all": (
        {"feature.possible_states": 1, "feature.possible_transitions": 1},
        {"features": "complete", "transitions": "all"},
    ),
    "complete, observed": ({"feature.possible_states": 1}, {"features": "complete"}),
    "weak penalty": ({"c2": 0.01}, {"l2": 0.01}),
    "strong penalty": ({"c2": 5.0}, {"l2": 5.0}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize(("params", "options"), OPTIONS.values(), ids=OPTIONS)
def test_same_optimum(
    params: dict[str, Any], options: dict[str, Any], values: bool, tmp_path: Path
) -> None:
    sentences, target = data(4, values=values)
    theirs = Theirs(tmp_path / "theirs", sentences, target, **{"c2": 0.5, **params})
    ours = CRF.train(sentences, target, **{"l2": 0.5, **options})
    assert ours.record is not None
    assert ours.record.parameters == theirs.features
    assert ours.record.objective == pytest.approx(theirs.loss, rel=1e-4)
    weights = {(w.attribute, w.slot): w.weight for w in ours.top_features(10_000)}
    info = theirs.tagger.info()
    # Both stop close to the optimum, not at the same place; a weak penalty leaves it flat.
    near = 0.03 if options.get("l2", 0.5) >= 0.5 else 0.2
    for pair, weight in info.state_features.items():
        assert weights[pair] == pytest.approx(weight, abs=near)
    for (a, b), weight in info.transitions.items():
        assert weights["", f"{a} → {b}"] == pytest.approx(weight, abs=near)
    unseen, _ = data(5, values=values)
    tags = [theirs.tagger.tag(tokens) for tokens in unseen]
    assert evaluate_tokens(tags, ours.tag_all(unseen)).accuracy > 0.99


@pytest.mark.parametrize("values", [False, True])
def test_their_weights_give_their_answers(values: bool, tmp_path: Path) -> None:
    """With CRFsuite's own weights: every label, probability and marginal."""
    sentences, target = data(6, values=values)
    theirs = Theirs(tmp_path / "theirs", sentences, target, c2=0.5)
    draft = CRF.train(sentences, target, max_iterations=1)
    info = theirs.tagger.info()
    theta = np.zeros(draft.space.size)
    names = draft.topology.node_slot_names
    for k, cell in enumerate(draft.space.node_cells.tolist()):
        row, slot = divmod(cell, draft.space.width)
        theta[k] = info.state_features.get((draft.index.attribute(row), names[slot]), 0.0)
    for k, slot in enumerate(draft.space.transitions.tolist(), draft.space.bounds[1]):
        a, b = draft.topology.arc_slot_names[slot].split(" → ")
        theta[k] = info.transitions.get((a, b), 0.0)
    model = CRF(draft.topology, draft.index, draft.space, theta, "label", ())
    unseen, _ = data(7, values=values)
    marginals = model.marginals_all(unseen)
    for tokens, found in zip(unseen, marginals, strict=True):
        tags = theirs.tagger.tag(tokens)
        assert model.tag(tokens) == tags
        # info() prints weights with six digits.
        assert model.lattice(tokens).probability(tags) == pytest.approx(
            theirs.tagger.probability(tags), abs=1e-4
        )
        for t in range(len(tokens)):
            for j, label in enumerate(model.labels):
                assert found[t, j] == pytest.approx(theirs.tagger.marginal(label, t), abs=1e-4)


def test_dicts_mean_the_same(tmp_path: Path) -> None:
    """python-crfsuite's ItemSequence and our index make the same attributes of a dict."""

    def token(i: int) -> dict[str, Any]:
        return {
            "word": f"w{i}",
            "title": i % 2 == 0,
            "length": i * 0.5,
            "in": [f"a{i % 3}", "b"],
            "prev": {"word": f"w{i - 1}", "deep": {"x": 1.5}},
        }

    sentences: list[Tokens] = [[token(i) for i in range(k, k + 4)] for k in range(6)]
    target = [["XY"[i % 2] for i in range(k, k + 4)] for k in range(6)]
    theirs = Theirs(tmp_path / "theirs", sentences, target, c2=0.5)
    ours = CRF.train(sentences, target)
    assert ours.record is not None
    assert ours.record.parameters == theirs.features
    assert ours.record.objective == pytest.approx(theirs.loss, rel=1e-4)
    attributes = {ours.index.attribute(r) for r in range(ours.index.n_node_rows)}
    assert attributes == set(theirs.tagger.info().attributes)


def test_instance_weights(tmp_path: Path) -> None:
    """A sentence of weight 2 is a sentence that is there twice."""
    sentences, target = data(8, values=False, n=20)
    theirs = Theirs(tmp_path / "theirs", sentences * 2, target * 2, c2=0.5)
    ours = CRF.train(sentences, target, weights=[2.0] * 20)
    assert ours.record is not None
    assert ours.record.objective == pytest.approx(theirs.loss, rel=1e-4)
