"""Batches of scores against enumeration of every labelling of every sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from fstcrf import Emissions
from fstcrf.constraints import at_most, bioes, never, requires, transitions
from fstcrf.machines.grammar import Grammar

LABELS = ("O", "B-X", "I-X", "E-X", "S-X")
NEIGHBOURS: dict[str | None, list[str | None]] = {"O": ["O", "B-X"], "E-X": [None]}
GRAMMARS: dict[str, Grammar | None] = {
    "none": None,
    "bioes": bioes(),
    "soft": bioes(weight=-0.5),
    "counted": at_most(1, "X") & bioes(),
    "far": requires("B-X", "S-X"),
    "single": never("B-X", weight=-1.5) & never("E-X"),
    "neighbours": transitions(NEIGHBOURS),
}


def test_threads_and_company_change_no_bit() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(150, 40, 5)).astype(np.float32) * 3
    lengths = rng.integers(0, 41, 150)
    model: Any = {"labels": LABELS, "transitions": rng.normal(size=(5, 5)), "grammar": bioes()}
    one, two = (Emissions(scores, lengths, threads=k, **model) for k in (1, 2))
    np.testing.assert_array_equal(one.decode().ids, two.decode().ids)
    pairs = zip(one.decode().span_probabilities(), two.decode().span_probabilities(), strict=True)
    for mine, other in pairs:
        np.testing.assert_array_equal(mine, other)
    for name in ("log_partition", "marginals"):
        np.testing.assert_array_equal(getattr(one, name)(), getattr(two, name)())
    for b in (0, 3, 149):
        alone = Emissions(scores[b : b + 1], lengths[b : b + 1], **model)
        assert (alone.decode().ids[0] == one.decode().ids[b]).all()
        assert alone.decode().scores[0] == one.decode().scores[b]
        np.testing.assert_array_equal(alone.marginals()[0], one.marginals()[b])
