"""What is no number in the scores that sums are made of is an error, wherever it stands."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError
from fstcrf.ext.rules.kernel import Counter, expected_steps
from fstcrf.ext.segments.kernel import Extras, SemiMarkov, segment_sums
from fstcrf.kernel.rows import padded


def counted(scores: dict[str, Floats]) -> Floats:
    """Sum over three tokens of a chain of two states, beside an automaton of three states."""
    counter = Counter(
        np.asarray([0, 1], dtype=np.int32),
        scores["arc"],
        scores["initial"],
        scores["final"],
        np.asarray([[[1, 2], [2, 0], [0, 1]]], dtype=np.int32),
        scores["step"],
        scores["end"],
    )
    kind = np.zeros(3, dtype=np.int32)
    return expected_steps(counter, np.asarray([0, 3]), scores["node"], kind, chain=True).log_z


COUNTED = {"arc": (2, 2), "initial": (2,), "final": (2,), "step": (1, 3, 2), "end": (3,)}


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("name", ["arc", "initial", "final", "node"])
def test_counts_of_patterns(name: str) -> None:
    rng = np.random.default_rng(0)
    shapes = COUNTED | {"node": (3, 2)}
    scores = {key: rng.normal(size=shape) for key, shape in shapes.items()}
    assert np.isfinite(counted(scores)).all()
    for k in range(scores[name].size):
        bad = scores | {name: scores[name].copy()}
        bad[name].flat[k] = np.nan
        with pytest.raises(NumericError):
            counted(bad)


def tiled(scores: dict[str, Floats]) -> Floats:
    """Sum over the segments of four tokens, of two labels and up to two tokens."""
    width = padded(2)
    longest = np.full(2, 2, dtype=np.int32)
    machine = SemiMarkov(longest, *(scores[k] for k in ("length", "pair", "initial", "final")))
    cell = np.asarray([width], dtype=np.int32)
    extras = Extras(np.asarray([0, 1]), cell, np.zeros(1, dtype=np.int32))
    return segment_sums(machine, np.asarray([0, 4]), scores["token"], extras, scores["value"]).log_z


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("name", ["length", "pair", "initial", "final", "token", "value"])
def test_segments(name: str) -> None:
    rng, width = np.random.default_rng(0), padded(2)
    shapes = {"length": (2, width), "pair": (2, width), "initial": (width,), "final": (width,)}
    shapes |= {"token": (4, 3, width), "value": (1,)}
    scores = {key: rng.normal(size=shape) for key, shape in shapes.items()}
    scores["length"] = np.vstack([scores["length"], np.full((2, width), -np.inf)])
    assert np.isfinite(tiled(scores)).all()
    for place in np.ndindex(scores[name].shape):
        if (name != "value" and place[-1] > 1) or (name == "length" and place[0] > 1):
            continue  # the padding, and what no segment has
        bad = scores | {name: scores[name].copy()}
        bad[name][place] = np.nan
        with pytest.raises(NumericError):
            tiled(bad)
