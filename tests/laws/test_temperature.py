"""Law: a temperature divides all scores, wherever there is one; hard rules stay, best labels too.

Doors beside temperatures, held against the lattice at temperature 1 whose scores are divided.
The temperature of samples for feedback and of annealing is held by enumeration, in
`tests/oracle/test_feedback.py` and `tests/oracle/test_gibbs.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf import Grammar, TokenDecoder
from fstcrf.constraints import at_most
from fstcrf.ext.calibration import fit_temperature
from fstcrf.ext.tokens import Pieces

LABELS = ["O", *(f"{letter}-{kind}" for kind in "XY" for letter in "BIES")]
BIASES = {"background_to_start": 1.5, "inside_to_continue": -2.0, "end_to_start": 3.0}
WORDS = [0, 0, 1, 2, 2, 2, 3, 4]


def documents(size: int = 4) -> list[Pieces]:
    rng = np.random.default_rng(5)
    places = [(2 * k, 2 * k + 2) for k in range(len(WORDS))]
    return [Pieces(rng.normal(scale=2, size=(8, 9)), places, WORDS) for _ in range(size)]


@pytest.mark.parametrize("temperature", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("grammar", [None, at_most(1, "X")], ids=str)
@pytest.mark.parametrize("pieces", ["all", "first", "each"])
def test_a_decoder_at_a_temperature_is_its_lattices_divided(
    pieces: Any, grammar: Grammar | None, temperature: float
) -> None:
    decoder = TokenDecoder(LABELS, biases=BIASES, grammar=grammar, pieces=pieces)
    warm = decoder.replaced(temperature=temperature)
    pairs = zip(decoder.lattices(documents()), warm.lattices(documents()), strict=True)
    for cold, hot in pairs:
        np.testing.assert_allclose(
            hot.marginals(), cold.weighted(1 / temperature).marginals(), atol=1e-9
        )
        assert hot.best().labels == cold.best().labels


def test_the_fitted_temperature_of_a_decoder_at_a_temperature_is_the_rest() -> None:
    decoder, texts = TokenDecoder(LABELS, biases=BIASES), documents(60)
    hot = decoder.replaced(temperature=2.5).lattices(texts)
    gold = [lattice.sample(1, seed=k)[0] for k, lattice in enumerate(hot)]
    found = fit_temperature(decoder.lattices(texts), gold)
    assert found == pytest.approx(2.5, rel=0.25)
    assert fit_temperature(hot, gold) == pytest.approx(found / 2.5, rel=1e-3)
