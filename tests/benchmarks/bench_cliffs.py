"""Cliffs: ordinary inputs beside the benchmark's own, the worst ratio first.

========  =======================================================================
searches  drawn sentences under drawn grammars: the default against either way
grammars  a grammar object for each lattice against one for all
section   the worst of them as tables of a report
========  =======================================================================

What is measured here is what a default loses on the worst ordinary input, not what it takes on the
usual one. Seconds are those of the processor.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.benchmarks.report import Line, number, table
from tests.benchmarks.running import Bench, in_turns, median_of

__all__ = ["grammars", "searches", "section"]

CASES, FEW = 80, 12
SHOWN = 10


def searches(bench: Bench) -> list[Line]:
    """Drawn sentences under drawn grammars, by default, lazily and expanded."""
    cases = FEW if bench.quick else CASES
    found = bench.job("cliffs", "searches", cases=cases, rounds=1 if bench.quick else bench.rounds)
    every = found["cases"]
    rated = [case for case in every if case["ratio"] is not None]
    worst = max(rated, key=lambda case: float(case["ratio"]))
    lost = [case for case in every if case["lost"]]
    provable = sum(bool(case.get("provable")) for case in every)
    median = statistics.median(case["ratio"] for case in rated)
    return [
        Line(
            "cliffs-worst",
            "grammars drawn: the default against the better of lazy and expanded, worst",
            worst["ratio"],
            unit="×",
            note=f"{worst['text']}; the median of {len(rated)} is {median:.2f}",
            samples=found,
        ),
        Line(
            "cliffs-lost",
            "grammars drawn: answers that are not the best though either way proves it",
            float(len(lost)),
            note="; ".join(case["text"] for case in lost) or f"of {provable} that can be proven",
        ),
    ]


def grammars(bench: Bench) -> list[Line]:
    """Lattices under a grammar object each, and under one."""
    work = partial(bench.job, "cliffs", "grammars", lattices=50 if bench.quick else 500)
    (runs,) = in_turns(bench.rounds, work)
    each, one = median_of(runs, "each"), median_of(runs, "one")
    return [
        Line(
            "cliffs-grammars",
            "a grammar object for each lattice, over the time with one for all",
            each / one,
            unit="×",
            note=f"{1e6 * each:.1f} µs a lattice of 24 tokens against {1e6 * one:.1f}",
            samples={"runs": runs},
        )
    ]


def section(lines: Sequence[Line]) -> str:
    """Return the worst cases as a table; empty without such lines."""
    cases = (line.samples["cases"] for line in lines if line.key == "cliffs-worst")
    found: list[dict[str, Any]] = next(cases, [])
    if not found:
        return ""
    rows = [_row(case) for case in found[:SHOWN]]
    head = ["ratio", "default", "lazy", "expanded", "first answer", "case"]
    text = (
        f"The worst {len(rows)} of {len(found)} drawn cases. A ratio is the default's time over "
        "that of the better of the other two, counting those that prove their answer; ?: not "
        "proven. The ratio of the first answer holds the compiling of the grammar."
    )
    return "\n\n".join(["## Cliffs", text, table(head, rows)])


def _row(case: dict[str, Any]) -> list[str]:
    return [
        "lost" if case["lost"] else number(case["ratio"]),
        *(_time(case["ways"][way]) for way in ("auto", "lazy", "expanded")),
        number(case.get("first_ratio")),
        case["text"],
    ]


def _time(way: dict[str, Any]) -> str:
    if "seconds" not in way:
        return "too large"
    return number(1e3 * way["seconds"], "ms") + ("" if way["exact"] else "?")
