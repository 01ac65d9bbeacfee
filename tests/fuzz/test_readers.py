"""Mutated files are read or refused by one error, in bounded memory; `make fuzz` reads more."""

from __future__ import annotations

import pytest

from tests.fuzz.running import run
from tests.fuzz.targets import TARGETS

FILES = 300


@pytest.mark.thorough
@pytest.mark.parametrize("name", TARGETS)
def test_mutated_files(name: str) -> None:
    tally = run(TARGETS[name], range(FILES), seed=1)
    assert [finding.what for finding in tally.findings] == []
    assert tally.read + tally.refused == FILES
    # Both must happen, or nothing is tested.
    assert tally.read
    assert tally.refused > FILES // 2


@pytest.mark.parametrize("name", TARGETS)
def test_the_same_number_is_the_same_file(name: str) -> None:
    one, two = (run(TARGETS[name], range(20), seed=2) for _ in range(2))
    assert (one.read, one.refused) == (two.read, two.refused)
