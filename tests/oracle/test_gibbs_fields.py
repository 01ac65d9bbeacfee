"""Fields that agree: the kernel's counts against all labellings written out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import fstcrf
from fstcrf.ext.documents import (
    Annealing,
    Consistency,
    Differing,
    DocumentChain,
    Fields,
    Recounted,
    Unlabelled,
    Violation,
)
from fstcrf.ext.documents.sampler import Sweeps
from tests.support.document_cases import Exact, document_of, drawn, p_value

LABELS = ("O", "I-stime", "I-speaker")
IOB2 = ("O", "B-stime", "I-stime", "B-speaker")
MODEL = Fields([Differing("stime", "clock", -0.8), Unlabelled("speaker", -0.6)])


def problem(
    *sentences: str, labels: Sequence[str] = LABELS, seed: int = 0, model: Fields = MODEL
) -> Exact:
    random = np.random.default_rng(seed)
    transitions = random.normal(size=(len(labels), len(labels)))
    lattices = [
        fstcrf.Lattice.from_arrays(
            labels, random.normal(size=(len(s.split()), len(labels))), transitions
        )
        for s in sentences
    ]
    return Exact(document_of(*sentences), lattices, model)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["token", "sentence", "mixed"])
@pytest.mark.parametrize(
    ("sentences", "labels"),
    [
        (("a 3 30 a", "4 a"), LABELS),
        (("3 4", "3 .", "x x"), LABELS),
        (("Smith , 3", "Smith 4"), IOB2),
    ],
)
def test_long_run_frequencies(
    kind: Sweeps, sentences: tuple[str, ...], labels: tuple[str, ...]
) -> None:
    exact = problem(*sentences, labels=labels, seed=3)
    assert p_value(drawn(exact.chain(seed=1), 2500, kind, 1.0), exact.probabilities()) > 1e-4


def test_the_test_notices_another_penalty() -> None:
    exact = problem("a 3 30 a", "4 a", seed=3)
    other = problem("a 3 30 a", "4 a", seed=3, model=Fields([Differing("stime", "clock", -0.1)]))
    assert p_value(drawn(other.chain(), 2500, "token", 1.0), exact.probabilities()) < 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["token", "sentence", "mixed"])
@pytest.mark.parametrize(("seed", "penalty"), [(0, -4.0), (1, -4.0), (2, 0.7)])
@pytest.mark.usefixtures("variant")
def test_scores_are_kept_as_labels_change(kind: Sweeps, seed: int, penalty: float) -> None:
    model = Fields([Differing("stime", "text", penalty), Unlabelled("speaker", penalty)])
    exact = problem("a b c", "b a . b", "b", seed=seed, model=model)
    chain = exact.chain(seed)
    for temperature in (3.0, 2.0, 1.0, 0.3, 0.0):
        score = chain.sweep(np.array([temperature]), kind)[-1]
        labels = tuple(names[0] for names in chain.labels())
        assert score == pytest.approx(exact.score[labels])


@pytest.mark.parametrize("kind", ["token", "sentence", "mixed"])
def test_values_are_counted_once(kind: Sweeps) -> None:
    model = Fields([Differing("stime", "clock", -0.4, "values")])
    exact = problem("3 4 . 4", "4 30 a", "5 3", seed=6, model=model)
    chain, seen = exact.chain(2), set()
    for temperature in (9.0, 5.0, 3.0, 1.0, 0.3, 0.0):
        score = chain.sweep(np.array([temperature]), kind)[-1]
        labels = tuple(names[0] for names in chain.labels())
        assert score == pytest.approx(exact.score[labels])
        seen.add(round(model.score(exact.document, labels), 6))
    assert len(seen) > 1


def test_two_models_together() -> None:
    """Beside a model of sequences, the kernel scores what both score in Python."""
    same = Consistency([Violation("same", ("stime", "speaker"), -1.0)])
    exact = problem("a b a", "b a", seed=2)

    def both(*models: object) -> DocumentChain:
        return DocumentChain(exact.document, exact.local, models, tapes=("label",), seed=4)  # type: ignore[arg-type]

    quick, slow = both(same, MODEL), both(Recounted(same.score), Recounted(MODEL.score))
    temperatures = Annealing(60).temperatures()
    assert quick.sweep(temperatures)[-1] == pytest.approx(slow.sweep(temperatures)[-1])
    assert quick.labels() == slow.labels()
