"""Doors: what a question costs through one door, over the same question through another one.

Each line is the worst of its texts. Seconds are those of the processor.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.benchmarks.report import Line, number
from tests.benchmarks.running import Bench

WORK = {
    "tagger": "one sentence a call over a sentence of a batch: a tagger",
    "cascade-2": "one sentence a call over a sentence of a batch: a cascade of two taggers",
    "cascade-3": "one sentence a call over a sentence of a batch: a cascade of three",
    "chain-2": "one sentence a call over a sentence of a batch: the chain rule of two",
    "chain-3": "one sentence a call over a sentence of a batch: the chain rule of three",
    "product-2": "one sentence a call over a sentence of a batch: the product of two",
    "by-hand": "one sentence a call: a pipeline over its two taggers, one after the other",
    "dictionaries": "one sentence a call with dictionaries, over python-crfsuite",
    "dictionary-marginals": "all marginals of one sentence with dictionaries, over python-crfsuite",
    "functions": "a cascade of two feature functions over its taggers called by hand",
    "unknown-label": "training with one unknown label over training with none",
    "tapes": "the 5 best labellings of a tape over the 5 best paths, product of two",
    "chain-rule": "the chain rule of two under a rule over both tapes, over the chain alone",
    "chain-cascade": "the chain rule of two under a rule over both tapes, over the cascade",
    "gradient": "gradient of a lattice with a transducer, over log Z",
    "no-transitions": "log Z without transitions under a transducer, over the paths of OpenFst",
    "marginals": "marginals of arrays over decoding",
    "low-score": "log Z with a score 760 below its row's best, over log Z",
    "joint-arcs": "marginals of the arcs of two tapes over log Z",
    "ten-best": "the 10 best over the best, lattice with a transducer",
    "labels-257": "bio() of 257 labels over 255",
    "at-most": "bio() & at_most(2, label) over bio()",
    "contiguous": "bioes() & contiguous(label) of 12 types over bioes()",
    "edit-lexicon": "edits @ lexicon over OpenFst",
}


def doors(bench: Bench) -> list[Line]:
    """One sentence a call, dictionaries, labellings of one tape; lattices; chains under rules."""
    folder = bench.path("chained")
    ask = partial(
        bench.job,
        "doors",
        data=str(bench.data),
        models=folder,
        rounds=1 if bench.quick else 3 * bench.rounds,
        quick=bench.quick,
    )
    cases = [case for work in ("alone", "dictionaries", "tapes") for case in ask(work)["cases"]]
    rounds = 1 if bench.quick else 3 * bench.rounds
    for work in ("lattices", "chains"):
        answer = bench.job("doors_lattices", work, rounds=rounds, quick=bench.quick)
        cases += answer["cases"]
    for work in ("functions", "unknown"):
        given: dict[str, Any] = {"rounds": rounds if work == "functions" else 1}
        given |= {"data": str(bench.data), "quick": bench.quick}
        cases += bench.job("doors_functions", work, **given)["cases"]
    doors = dict.fromkeys(case["door"] for case in cases)
    return [_line(door, [case for case in cases if case["door"] == door]) for door in doors]


def _line(door: str, cases: list[dict[str, Any]]) -> Line:
    worst = max(cases, key=lambda case: float(case["ratio"]))
    return Line(
        f"doors-{door}",
        WORK[door],
        worst["ratio"],
        unit="×",
        note="; ".join(map(_note, sorted(cases, key=lambda case: -case["ratio"]))),
        samples={"cases": cases},
    )


def _note(case: dict[str, Any]) -> str:
    first = f"first answer {number(1e3 * case['first_s'], 'ms')}"
    if "p50_s" in case:
        p50, p99 = (f"{number(1e6 * case[name])} µs" for name in ("p50_s", "p99_s"))
        first = f"p50 {p50}, p99 {p99}, {first}"
    return f"{case['text']}: {case['ratio']:.2f}× ({first})"
