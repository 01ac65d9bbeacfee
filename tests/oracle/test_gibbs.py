"""Gibbs sampling of documents against all labellings written out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import fstcrf
from fstcrf.constraints import at_most, label
from fstcrf.documents import Consistency, DocumentChain, Recounted, Violation
from fstcrf.documents.sampler import Sweeps
from tests.document_cases import Exact, document_of, drawn, p_value

LABELS = ("O", "I-X", "I-Y")
IOB2 = ("O", "B-X", "I-X", "B-Y")
MODEL = Consistency(
    [
        Violation("same", ("X", "Y"), -1.5),
        Violation("within", ("X", "Y"), -0.7),
        Violation("within", ("Y", "X"), -1.1),
        Violation("within", ("X", "X"), -0.4),
    ]
)


def problem(
    *sentences: str,
    labels: Sequence[str] = LABELS,
    seed: int = 0,
    model: Consistency | None = MODEL,
) -> Exact:
    random = np.random.default_rng(seed)
    document = document_of(*sentences)
    size = len(labels)
    transitions = 0.5 * random.normal(size=(size, size))
    if labels is IOB2:
        transitions[[0, 3], 2] = -np.inf
    initial = np.where([x.startswith("I-") and labels is IOB2 for x in labels], -np.inf, 0.0)
    lattices = [
        fstcrf.Lattice.from_arrays(
            labels, random.normal(size=(len(s.split()), size)), transitions, initial
        )
        for s in sentences
    ]
    return Exact(document, lattices, model)


@pytest.mark.parametrize("kind", ["token", "sentence", "mixed"])
@pytest.mark.parametrize(
    ("sentences", "labels"),
    [(("a b", "b a b"), LABELS), (("a a", "a", "b a"), LABELS), (("a b", "c a"), IOB2)],
)
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_long_run_frequencies(
    kind: Sweeps, sentences: tuple[str, ...], labels: tuple[str, ...], temperature: float
) -> None:
    exact = problem(*sentences, labels=labels, seed=3)
    found = drawn(exact.chain(seed=1), 2500, kind, temperature)
    assert p_value(found, exact.probabilities(temperature)) > 1e-4


def test_the_test_notices_a_wrong_model() -> None:
    exact, without = problem("a b", "b a b", seed=3), problem("a b", "b a b", seed=3, model=None)
    found = drawn(without.chain(), 2500, "token", 1.0)
    assert p_value(found, exact.probabilities()) < 1e-6


@pytest.mark.parametrize("kind", ["token", "sentence"])
def test_models_in_python_are_sampled_alike(kind: Sweeps) -> None:
    exact = problem("a b", "b a", seed=5)
    model = exact.model
    assert model is not None
    recounted = Recounted(model.score)
    chain = DocumentChain(exact.document, exact.local, [recounted], tapes=("label",), seed=2)
    found = drawn(chain, 250, kind, 1.0, apart=5)
    assert p_value(found, exact.probabilities()) > 1e-4


@pytest.mark.parametrize("kind", ["token", "sentence", "mixed"])
@pytest.mark.parametrize("seed", range(5))
def test_scores_are_kept_as_labels_change(kind: Sweeps, seed: int) -> None:
    exact = problem("a b c", "a b", "a", seed=seed)
    chain = exact.chain(seed)
    for temperature in (2.0, 1.0, 0.3, 0.0):
        score = chain.sweep(np.array([temperature]), kind)[-1]
        labels = tuple(names[0] for names in chain.labels())
        assert score == pytest.approx(exact.score[labels])
    best = tuple(names[0] for names in chain.labels(best=True))
    assert chain.best_score == pytest.approx(exact.score[best])


@pytest.mark.parametrize("kind", ["token", "mixed"])
def test_annealing_finds_the_best(kind: Sweeps) -> None:
    exact = problem("a b", "b a b", "a", seed=11)
    best = max(exact.score, key=exact.score.__getitem__)
    chain = exact.chain()
    chain.sweep(fstcrf.documents.Annealing(400).temperatures(), kind)
    assert tuple(names[0] for names in chain.labels(best=True)) == best
    assert chain.best_score == pytest.approx(exact.score[best])


@pytest.mark.parametrize("seed", range(4))
def test_without_models_annealing_is_viterbi(seed: int) -> None:
    exact = problem("a b c", "d e", seed=seed, model=None)
    chain = DocumentChain(exact.document, exact.local, tapes=("label",), start="random", seed=seed)
    chain.sweep(fstcrf.documents.Annealing(500).temperatures())
    labels = tuple(names[0] for names in chain.labels(best=True))
    assert labels == max(exact.score, key=exact.score.__getitem__)


def test_under_a_grammar_joint_states_are_sampled() -> None:
    random = np.random.default_rng(0)
    document = document_of("a b", "b a")
    grammar = at_most(1, label("I-X"))
    lattices = [
        fstcrf.Lattice.from_arrays(LABELS, random.normal(size=(2, 3))) & grammar for _ in range(2)
    ]
    lattices = [lattices[0], lattices[0].with_values({0: random.normal(size=(2, 3))})]
    exact = Exact(document, lattices, MODEL)
    assert len(exact.score) == 8 * 8
    assert p_value(drawn(exact.chain(), 3000, "token", 1.0), exact.probabilities()) > 1e-4
