"""Answers of a padded batch are padded to its width, whatever was done with the batch before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Lattices
from fstcrf.constraints import at_most, never

LABELS, WIDTH = ["O", "X", "Y"], 5
RULE = at_most(1, "X")
SCORES = np.random.default_rng(0).normal(size=(2, WIDTH, 3))
MOVES = np.random.default_rng(1).normal(size=(2, WIDTH - 1, 3, 3))
LENGTHS = [2, 3]  # no sentence is as long as the batch is wide

FORMS: dict[str, Callable[[], Lattices[Any]]] = {
    "float64": lambda: Lattices.from_arrays(LABELS, SCORES, lengths=LENGTHS),
    "float32": lambda: Lattices.from_arrays(LABELS, SCORES.astype(np.float32), lengths=LENGTHS),
    "transitions": lambda: Lattices.from_arrays(LABELS, SCORES, MOVES[0, 0], lengths=LENGTHS),
    "transitions of each token": lambda: Lattices.from_arrays(
        LABELS, SCORES, MOVES, lengths=LENGTHS
    ),
    "mask": lambda: Lattices.from_arrays(
        LABELS, SCORES, mask=np.arange(WIDTH) < np.array(LENGTHS)[:, None]
    ),
}
CHANGES: dict[str, Callable[[Lattices[Any]], Lattices[Any]]] = {
    "as it is": lambda batch: batch,
    "scale": lambda batch: batch.scale(1.0),
    "weighted": lambda batch: batch.weighted(0.5),
    "without_grammar": lambda batch: (batch & RULE).without_grammar(),
    "&": lambda batch: batch & RULE,
    "& twice": lambda batch: batch & RULE & never("Y"),
    "constrained": lambda batch: batch.constrained(RULE, search="lazy"),
    "restrict": lambda batch: batch.restrict(np.ones((2, WIDTH, 3), dtype=bool)),
    "select": lambda batch: batch.select(np.array([True, False])),
    "@": lambda batch: (
        batch @ Lattices.from_arrays(["a"], SCORES[:, :, :1], lengths=LENGTHS, tape="z")
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", FORMS)
def test_a_change_keeps_the_width(form: str, change: str) -> None:
    batch = CHANGES[change](FORMS[form]())
    for n in (1, 3):
        answer = batch.decode(n)
        ids = answer["label"].ids
        shape = (len(batch), WIDTH) if n == 1 else (len(batch), n, WIDTH)
        assert ids.shape == shape
        assert (ids[..., 3:] == -1).all()


@pytest.mark.parametrize("grammar", [None, RULE])
@pytest.mark.parametrize("moves", [None, MOVES[0, 0], MOVES])
def test_decode_keeps_the_width(moves: Any, grammar: Any) -> None:
    answer = fstcrf.decode(SCORES, LENGTHS, labels=LABELS, transitions=moves, grammar=grammar)
    assert answer.ids.shape == (2, WIDTH)


# --- Many paths -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 1024, 1025, 2_000_000_000, 2**31 - 1])
@pytest.mark.parametrize("form", FORMS)
def test_any_number_of_paths_may_be_asked_for(form: str, n: int) -> None:
    """Memory follows the paths that there are, not the number that is asked for."""
    batch = FORMS[form]()
    paths = [min(n, 3**length) for length in LENGTHS]
    answer = batch.decode(n)
    assert [len(answer.paths(b)) for b in range(2)] == paths
    assert answer.n == (min(n, 1024))
    assert [len(one) for one in batch.nbest(n)] == paths
    assert [len(one) for one in (batch & never("Y")).nbest(n)] == [min(n, 2**t) for t in LENGTHS]
