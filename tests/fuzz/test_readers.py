"""Mutated files are read or refused by one error, in bounded memory; `make fuzz` reads more."""

from __future__ import annotations

import pytest

from tests.fuzz.running import run
from tests.fuzz.targets import FOREIGN, TARGETS

# Journals say what they drop, and searches what they did not prove.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.thorough
@pytest.mark.parametrize("share", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TARGETS)
def test_mutated_files(name: str, share: int) -> None:
    target = TARGETS[name]
    files = (300 if target in FOREIGN else 100) // (share if name != "manifest" else 1)
    tally = run(target, range(files), seed=1)
    assert [finding.what for finding in tally.findings] == []
    assert tally.read + tally.refused == files
    # Both must happen, or nothing is tested; any bytes are a call of the kernel.
    assert tally.read
    if not name.startswith("kernel-"):
        assert tally.refused > files // 5


@pytest.mark.parametrize("name", [*(one.name for one in FOREIGN), "model", "kernel-graphs"])
def test_the_same_number_is_the_same_file(name: str) -> None:
    one, two = (run(TARGETS[name], range(20), seed=2) for _ in range(2))
    assert (one.read, one.refused) == (two.read, two.refused)
