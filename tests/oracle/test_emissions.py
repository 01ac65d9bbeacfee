"""Batches of scores against enumeration of every labelling of every sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from fstcrf import Lattices
from fstcrf.constraints import at_most, bioes, neighbours, never, requires
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
    "neighbours": neighbours(NEIGHBOURS),
}


def test_threads_and_company_change_no_bit() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(150, 40, 5)).astype(np.float32) * 3
    lengths = rng.integers(0, 41, 150)
    chain = rng.normal(size=(5, 5))

    def made(some: Any) -> Any:
        return Lattices.from_arrays(LABELS, scores[some], chain, lengths=lengths[some]) & bioes()

    batch = made(np.arange(150).repeat(9))
    assert len(batch._groups()) > 1
    for name in ("span_probabilities", "marginals", "labels", "confidence"):
        mine, other = (batch.decode(threads=k) for k in (1, 2))
        given = (7,) if name == "confidence" else ()
        one, two = (getattr(answer, name)(*given) for answer in (mine, other))
        if name in ("labels", "confidence"):
            assert one == two
        else:
            assert all(map(np.array_equal, one, two))
    np.testing.assert_array_equal(batch.log_partition(), batch.log_partition(threads=2))
    tables, answer = batch.marginals(), batch.decode()
    for b in (0, 3, 149):
        alone = made(np.array([b]))
        assert alone.decode().labels()[0] == answer.labels()[9 * b]
        assert alone.decode().scores[0] == answer.scores[9 * b]
        np.testing.assert_array_equal(alone.marginals()[0], tables[9 * b])
