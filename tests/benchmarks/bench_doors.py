"""Doors: what a question costs through one door, over the same question through another one.

A door is two lines: its rows, which a limit judges, and their neighbours; each with its worst
input first. Seconds are those of the processor, but for threads.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.benchmarks.door_table import DOORS, NEAR, case
from tests.benchmarks.report import Line, number
from tests.benchmarks.running import Bench

_SECONDS = 0.2  # of a case and round
_STARTS = 10
_NAMED = 3  # cases of a note

Case = dict[str, Any]


def doors(bench: Bench) -> list[Line]:
    """One sentence a call, lattices, transducers, rules, training, and neighbours of all."""
    cases: list[Case] = []
    for part in (_calls, _questions, _processes):
        for found in part(bench):
            cases += found
    return [
        _line(door, near, chosen)
        for door in DOORS
        for near in (False, True)
        if (chosen := [one for one in cases if (one["door"], one["near"]) == (door, near)])
    ]


def _calls(bench: Bench) -> Iterator[list[Case]]:
    """Yield the cases of taggers that are trained once and loaded by each piece of work."""
    rounds = 1 if bench.quick else 3 * bench.rounds
    given: dict[str, Any] = {"data": str(bench.data), "rounds": rounds, "quick": bench.quick}
    models = {**given, "models": bench.path("chained")}
    for work in ("alone", "dictionaries", "tapes"):
        yield bench.job("doors", work, **models)["cases"]
    yield bench.job("doors", "threads", cores=2, **models)["cases"]
    yield bench.job("doors_functions", "functions", **given)["cases"]
    yield bench.job("doors_functions", "unknown", **{**given, "rounds": 1})["cases"]


def _questions(bench: Bench) -> Iterator[list[Case]]:
    ask: Callable[..., Case] = partial(
        bench.job, seconds=0 if bench.quick else _SECONDS * bench.rounds, quick=bench.quick
    )
    yield ask("doors_lattices", "lattices")["cases"]
    yield ask("doors_transducers", "transducers")["cases"]
    yield ask("doors_before", "before")["cases"]
    yield ask("doors_chains", "chains")["cases"]
    yield ask("doors_chains", "treebank", data=str(bench.data))["cases"]


def _processes(bench: Bench) -> Iterator[list[Case]]:
    """Yield what is asked once of a process."""
    for labels in (1_001,) if bench.quick else (1_001, 201, 2_001):
        runs = [
            bench.job("doors_lattices", "first_bio", labels=labels)["cases"]
            for _ in range(1 if bench.quick else bench.rounds)
        ]
        yield min(runs, key=lambda cases: float(cases[0]["value"]))
    path = bench.path("chained/chained-quick" if bench.quick else "chained/chained")
    text = "".join(f"{word}\n" for word in ["The", "same", "question", "costs", "the", "same", "."])
    ask = partial(bench.fstcrf, "tag", f"{path}/pos.fstcrf", "-", stdin=f"{text}\n")
    first, *others = (ask().cpu for _ in range(2 if bench.quick else 1 + _STARTS))
    yield [case("start", "median of ten", first, statistics.median(others))]


def _line(door: str, near: bool, cases: list[Case]) -> Line:
    known = DOORS[door]
    worst, *others = sorted(cases, key=lambda one: -one["value"])
    return Line(
        f"doors-{door}{NEAR * near}",
        f"{known.question}{f', over {known.other}' if known.other else ''}{', neighbours' * near}",
        worst["value"],
        unit=known.unit,
        note="; ".join(map(_note, [worst, *others][:_NAMED])),
        samples={"cases": [worst, *others]},
    )


def _note(found: Case) -> str:
    first = f"first answer {number(1e3 * found['first_s'], 'ms')}"
    if "p50_s" in found:
        p50, p99 = (f"{number(1e6 * found[name])} µs" for name in ("p50_s", "p99_s"))
        first = f"p50 {p50}, p99 {p99}, {first}"
    return f"{found['text']}: {number(found['value'], DOORS[found['door']].unit)} ({first})"
