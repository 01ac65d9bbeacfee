"""What the benchmarks of addresses say of what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.addresses import adversarial
from tests.benchmarks.bench_addresses import address_lines
from tests.benchmarks.running import BenchmarkError

RUN: dict[str, Any] = {
    "addresses": 1000,
    "raised_before": 37,
    "raised": 0,
    "inexact": 0,
    "tag": 0.080,
    "first time": 0.020,
    "again": 0.010,
    "one by one": 0.080,
    "search": 0.005,
    "pops": {"0.5": 1.0, "0.99": 1.5, "1": 90.0},
}


def test_lines_of_addresses() -> None:
    lines = {line.key: line for line in address_lines([RUN])}
    assert lines["addresses"].ours == pytest.approx(20)
    assert lines["addresses"].ratio == pytest.approx(4)
    assert lines["addresses-search"].ours == pytest.approx(200_000)
    assert [line.verdict() for line in lines.values()] == ["aim", "aim", "measured", "must", "must"]
    slow = {**RUN, "first time": 0.041, "search": 0.017, "pops": {**RUN["pops"], "0.5": 2.1}}
    missed = [line.key for line in address_lines([slow]) if line.verdict() == "missed"]
    assert missed == ["addresses", "addresses-search", "addresses-pops"]


@pytest.mark.parametrize("wrong", ["raised", "inexact"])
def test_an_address_that_is_refused_or_not_proven_fails_the_line(wrong: str) -> None:
    with pytest.raises(BenchmarkError, match="1 "):
        address_lines([{**RUN, wrong: 1}])


@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
def test_a_search_that_cannot_end_stops_at_its_budget_and_says_so() -> None:
    found = adversarial(states=3_000)
    assert found["popped"] <= 3_000
    assert not found["exact"]
    assert found["score"] <= found["bound"]
    assert found["megabytes"] < 100
