"""The best labels of documents by integer programming against all labellings written out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fstcrf import Lattice
from fstcrf.errors import LabelError, OptionError, ShapeError
from fstcrf.ext.documents import (
    Annealing,
    Consistency,
    Differing,
    Fields,
    Unlabelled,
    Violation,
    exact_labels,
)
from tests.support.document_cases import Exact, document_of
from tests.support.grids import grid

SEQUENCES = Consistency(
    [
        Violation("same", ("X", "Y"), -1.5),
        Violation("within", ("X", "Y"), -0.7),
        Violation("incomplete", ("X", "X"), -0.9),
        Violation("incomplete", ("Y", "X"), -0.4),
    ]
)
FIELDS = Fields([Differing("X", "text", -0.8), Unlabelled("Y", -0.9)])
LABELS = ("O", "B-X", "I-X", "B-Y")


@cache
def problem(seed: int, model: Consistency | Fields, strength: float) -> tuple[Exact, list[Lattice]]:
    random = np.random.default_rng(seed)
    texts = [" ".join(random.choice(["a", "b"], size)) for size in (2, 3, 1)]
    transitions = 0.5 * random.normal(size=(4, 4))
    lattices = [
        Lattice.from_arrays(LABELS, random.normal(size=(len(t.split()), 4)), transitions)
        for t in texts
    ]
    return Exact(document_of(*texts), lattices, scaled(model, strength)), lattices


def scaled(model: Consistency | Fields, strength: float) -> Consistency | Fields:
    if isinstance(model, Fields):
        return Fields([replace(v, penalty=v.penalty * strength) for v in model.violations])
    return Consistency([replace(v, penalty=v.penalty * strength) for v in model.violations])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "strength", "seed"),
    grid(
        [SEQUENCES, FIELDS],
        [0.3, 3.0],
        [0, 1],
        few=[(SEQUENCES, 3.0, 0), (SEQUENCES, 0.3, 1), (FIELDS, 0.3, 0), (FIELDS, 3.0, 1)],
    ),
)
def test_labels_are_the_best_of_all(
    model: Consistency | Fields, strength: float, seed: int
) -> None:
    exact, lattices = problem(seed, model, strength)
    assert exact.model is not None
    found = exact_labels(
        lattices, exact.document, [exact.model], annealing=Annealing(2), most=5_000
    )
    assert found is not None
    assert found.score == pytest.approx(max(exact.score.values()))
    assert exact.score[tuple(found.labels)] == pytest.approx(found.score)
    assert found.sampled <= found.score + 1e-9


def test_sampling_is_told_apart() -> None:
    gaps = []
    for seed in range(2):
        exact, lattices = problem(seed, SEQUENCES, 3.0)
        assert exact.model is not None
        found = exact_labels(
            lattices, exact.document, [exact.model], annealing=Annealing(1, "constant"), most=5_000
        )
        assert found is not None
        gaps.append(found.score - found.sampled)
    assert max(gaps) > 0.01


def test_what_takes_too_long_is_nothing() -> None:
    exact, lattices = problem(1, SEQUENCES, 3.0)
    assert exact.model is not None
    assert exact_labels(lattices, exact.document, [exact.model], most=1) is None


def test_wrong_models() -> None:
    exact, lattices = problem(1, SEQUENCES, 3.0)
    for violation, words in (
        (Violation("within", ("X", "Y"), 1.0), "a penalty is 1, expected at most 0"),
        (Violation("same", ("X", "Z"), -1.0), "no label is of the type Z"),
    ):
        model = SEQUENCES.with_violations([violation])
        with pytest.raises((OptionError, LabelError), match=words):
            exact_labels(lattices, exact.document, [model])
    with pytest.raises(OptionError, match="Fields counts values, not pairs"):
        exact_labels(lattices, exact.document, [Fields([Differing("X", counting="values")])])
    with pytest.raises(ShapeError):
        exact_labels(lattices[:2], exact.document, [SEQUENCES])
    with pytest.raises(OptionError, match="models is a Consistency, expected a list"):
        exact_labels(lattices, exact.document, SEQUENCES)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="document is a Corpus"):
        exact_labels(lattices, exact.document.corpus, [SEQUENCES])  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [{"seconds": -1.0}, {"seconds": 0.0}, {"most": 0}])
def test_limits_that_allow_nothing(limits: dict[str, Any]) -> None:
    exact, lattices = problem(1, SEQUENCES, 3.0)
    with pytest.raises(OptionError, match=r"(seconds|most) is"):
        exact_labels(lattices, exact.document, [SEQUENCES], **limits)
