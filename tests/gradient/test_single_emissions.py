"""Expected counts of emissions in float32 are those of float64, however long a sentence is."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf.arrays import Ragged
from fstcrf.kernel.emissions import EmissionRows, ExpandedChain

TOKENS = 20_000


@pytest.mark.parametrize("size", [3, 20])
@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("alike", [True, False])
def test_counts_of_a_long_sentence(size: int, alike: bool) -> None:
    """Rounding goes the same way at tokens that are alike, and adds up along the sentence."""
    rng = np.random.default_rng(size)
    rows = rng.normal(size=(TOKENS, size)).astype(np.float32)
    if alike:
        rows[:] = rows[0]
    arc, ends = rng.normal(size=(size, size)), np.zeros(size)
    label = np.arange(size, dtype=np.int32)
    emitter = ExpandedChain(size, label, arc, ends, ends)
    single, double = (
        EmissionRows(emitter, scores, Ragged.from_lengths([TOKENS]), TOKENS).sums(arcs=True)
        for scores in (rows, rows.astype(np.float64))
    )
    assert not single.left.any()
    assert single.log_z == pytest.approx(double.log_z, rel=1e-6)
    np.testing.assert_allclose(single.arc, double.arc, rtol=0, atol=1e-6 * double.arc.max())
    np.testing.assert_allclose(single.begin, double.begin, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(single.end, double.end, rtol=1e-5, atol=1e-6)
