"""Looking into lattices: how long the page of `fstcrf inspect` waits for its answers."""

from __future__ import annotations

import statistics

from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench


def inspect(bench: Bench) -> list[Line]:
    """Milliseconds by the server's own clock, of taggers of 49, 22 and 8 labels."""
    bench.say("taggers to look into")
    run = bench.job(
        "inspected",
        "serve",
        cores=2,
        data=str(bench.data),
        models=bench.path("inspected"),
        rounds=5 if bench.quick else 5 * bench.rounds,
        quick=bench.quick,
    )
    what = "fstcrf inspect, three taggers, 40 tokens"
    return [
        Line(
            "inspect-single",
            f"{what}: an answer",
            statistics.median(run["single"]),
            unit="ms",
            samples=run,
        ),
        Line(
            "inspect-together",
            f"{what}: median of 50 that come at once",
            statistics.median(run["together"]),
            unit="ms",
        ),
    ]
