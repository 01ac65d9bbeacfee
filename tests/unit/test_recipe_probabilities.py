"""What probabilities are worth: by hand, and the oracle against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fstcrf import constraints
from fstcrf.evaluate import evaluate_spans
from fstcrf.ext.significance import span_counts
from fstcrf.lattices import Lattices
from fstcrf.recipes import probabilities
from fstcrf.recipes.probabilities import ConfidentSpans, oracle_f, worth, worth_table

LABELS = ("B-X", "I-X", "O")


def lattices(rows: list[list[list[float]]]) -> list:  # type: ignore[type-arg]
    """Lattices of independent tokens with these probabilities of the labels."""
    scores = [np.log(np.asarray(one)) for one in rows]
    return list(Lattices.from_arrays(LABELS, scores))


def test_probabilities_by_hand() -> None:
    sure, unsure, wrong = [0.98, 0.01, 0.01], [0.6, 0.01, 0.39], [0.95, 0.02, 0.03]
    found = worth(lattices([[sure], [unsure], [wrong]]), [["B-X"], ["B-X"], ["O"]])
    # conlleval reads a single I as a span, too: spans of 0.99, 0.61 and 0.97, the last one wrong.
    assert found.kept[0].precision == pytest.approx(200 / 3)
    assert found.kept[0].recall == 100.0
    assert found.kept[1] == ConfidentSpans(50.0, 50.0)
    assert found.error == pytest.approx((2 * abs(0.98 - 0.5) + abs(0.61 - 1)) / 3)
    assert found.likely == found.error  # all three are above a half
    assert found.brier == pytest.approx((0.01**2 + 0.39**2 + 0.97**2) / 2)
    assert found.spans == 1.5
    assert found.temperature is found.tempered is None
    assert found.oracle[1] == 100.0


def test_improbable_spans_lower_one_error_alone() -> None:
    sure, unsure = [0.98, 0.01, 0.01], [0.02, 0.01, 0.97]
    gold = [["B-X"], ["O"], ["O"]]
    few = worth(lattices([[sure], [sure], [[0.001, 0.001, 0.998]]]), gold)
    many = worth(lattices([[sure], [sure], [unsure]] * 10), [*gold[:2], gold[2]] * 10)
    assert many.error < few.error
    assert many.likely == pytest.approx(few.likely)
    assert many.brier > few.brier - 1e-9
    assert many.spans > few.spans


def test_what_is_missed_counts_in_brier() -> None:
    found = worth(lattices([[[0.002, 0.002, 0.996]]]), [["B-X"]])
    assert (found.brier, found.spans, found.likely) == (1.0, 0.0, 0.0)


def test_a_temperature_repairs_scores_that_are_too_large() -> None:
    rng = np.random.default_rng(0)
    chances = rng.dirichlet([1.0, 1.0, 1.0], size=(2, 400))
    gold = [[[LABELS[rng.choice(3, p=p)]] for p in part] for part in chances]
    sharp = [[np.log(p)[None] * 3.0 for p in part] for part in chances]
    test, other = (list(Lattices.from_arrays(LABELS, part)) for part in sharp)
    found = worth(test, gold[0], (other, gold[1]))
    assert found.temperature == pytest.approx(3.0, rel=0.2)
    assert found.tempered is not None
    assert found.tempered < 0.5 * found.error
    text = worth_table({"sharp": found})
    assert "| sharp |" in text
    assert "F of the best of 20" in text


def test_under_a_grammar() -> None:
    """As a network's scores are read: nothing illegal has a probability, or is among the best."""
    labels = ("B-X", "E-X", "O", "S-X")
    rng = np.random.default_rng(2)
    parts = [[rng.normal(size=(n, 4)) for n in (1, 2, 3)] for _ in range(2)]
    gold = [["S-X"], ["B-X", "E-X"], ["O", "S-X", "O"]]
    test, other = (list(Lattices.from_arrays(labels, part) & constraints.bioes()) for part in parts)
    found = worth(test, gold, (other, gold))
    assert found.oracle[2] == 100.0  # the legal labellings of three tokens are fewer than 20
    assert found.kept[0].recall <= 100.0
    assert found.temperature is not None


def test_the_oracle_against_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probabilities, "BEST", (1, 3, 27))
    rng = np.random.default_rng(1)
    chances = rng.dirichlet([1.0, 1.0, 1.0], size=(6, 3))
    gold = [["B-X", "I-X", "O"], ["O"] * 3, ["B-X", "B-X", "O"], ["O", "B-X", "I-X"]] + [
        ["B-X", "O", "B-X"]
    ] * 2
    found = oracle_f(lattices(chances.tolist()), gold)
    for n, f in zip((1, 3, 27), found, strict=True):
        best = []
        for one, labels in zip(chances, gold, strict=True):
            every = sorted(
                itertools.product(range(3), repeat=3),
                key=lambda path: -float(np.log(one[np.arange(3), list(path)]).sum()),
            )
            tried = [[LABELS[k] for k in path] for path in every[:n]]
            best.append(min(tried, key=lambda path: _wrong(labels, path)))
        assert f == pytest.approx(100.0 * evaluate_spans(gold, best).f)
    assert found[2] == 100.0


def _wrong(gold: list[str], found: list[str]) -> int:
    counts = span_counts([gold], [found])
    return int((counts.wanted + counts.found - 2 * counts.right).sum())
