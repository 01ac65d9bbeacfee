"""Cliffs: ordinary inputs beside the benchmark's own, the worst ratio first.

What is measured here is what a default loses on the worst ordinary input, not what it takes on the
usual one. Seconds are those of the processor.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.benchmarks.door_table import NEAR
from tests.benchmarks.report import LIMITS, Line, number, table
from tests.benchmarks.running import Bench, in_turns, median_of

CASES, FEW = 80, 12
SHOWN = 10
FAMILIES = ("cliffs", "doors")


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
    several = max((case["ratio"] for case in rated if case["case"]["n"] > 1), default=math.nan)
    alone = max(case["alone_ratio"] for case in rated)
    return [
        Line(
            "cliffs-worst",
            "grammars drawn: the default against the better of lazy and expanded, worst",
            worst["ratio"],
            unit="×",
            note=f"{worst['text']}; the median of {len(rated)} is {median:.2f}; worst of several "
            f"paths {several:.2f}, of one sentence a call {alone:.2f}",
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


def chains(bench: Bench) -> list[Line]:
    """Two and three taggers by the chain rule, against their cascades."""
    folder = bench.path("chained")
    command = [sys.executable, "-m", "tests.benchmarks.chained", "--json"]
    command += ["--data", str(bench.data), "--models", folder, *["--quick"] * bench.quick]
    found = json.loads(bench.run(command).output)
    cases = found["cases"]
    more = (
        ("five", "the 5 best labellings, over the best"),
        ("tape", "the 3 best labellings of a tape, over the best of all tapes"),
        ("alone", "labels of one sentence a call, over those of a batch"),
    )
    return [_chain(found, n) for n in (2, 3)] + [
        Line(
            f"cliffs-chain-{name}",
            f"chain rule: {what}, processor time, worst text",
            max(case[name] for case in cases),
            unit="×",
            note="; ".join(f"{case['cells'][0]}: {case[name]:.2f}" for case in cases),
        )
        for name, what in more
    ]


def _chain(found: dict[str, Any], taggers: int) -> Line:
    cases = [case for case in found["cases"] if case["taggers"] == taggers]
    worst = max(cases, key=lambda case: float(case["ratio"]))
    proven, earlier, sentences = (
        sum(case[name] for case in cases) for name in ("proven", "proven_earlier", "sentences")
    )
    lost = max(case["lost"] for case in cases)
    return Line(
        f"cliffs-chain-{taggers}",
        f"chain rule of {taggers} taggers, processor time over the cascade's, worst text",
        worst["ratio"],
        unit="×",
        note=f"{worst['text']}; proven {proven:,} of {sentences:,} sentences, with 64 labellings "
        f"{earlier:,}; mean log probability lost against these, worst text: {lost:.4f}",
        samples={"head": found["head"], "cases": cases},
    )


def spans(bench: Bench) -> list[Line]:
    """All probable spans against the marginals, and on the command line against plain tagging."""
    every = bench.job("cliff_spans", "spans")
    usual = [case for case in every["cases"] if (case["labels"], case["tokens"]) == (33, 512)]
    tagged = bench.job("cliff_spans", "tag", folder=str(bench.data), rounds=bench.rounds)
    slow = tagged["cases"][0]
    others = (
        f"{case['labels']} labels, {case['tokens']:,} tokens, spread {case['spread']:g}: "
        f"{number(case['ratio'])}×"
        for case in every["cases"]
    )
    return [
        Line(
            "cliffs-spans",
            "all spans with p > 0.01, 512 tokens, 33 labels, over one marginals",
            usual[0]["ratio"],
            unit="×",
            note="; ".join(others),
            samples=every,
        ),
        Line(
            "cliffs-span-tagging",
            "`tag --span-probabilities`, 10,000 tokens in a sentence, over plain `tag`",
            slow["ratio"],
            unit="×",
            note=f"worst of one tagger and a product of two: {slow['model']}",
            samples=tagged,
        ),
    ]


def long(bench: Bench) -> list[Line]:
    """The marginals of a long sentence under a joint machine, in blocks."""
    tokens = 5_000 if bench.quick else 20_000
    found = bench.job("cliff_spans", "long", tokens=tokens)
    return [
        Line(
            "cliffs-long",
            f"marginals of {tokens:,} tokens under 45 × 22 states in blocks, over whole",
            found["ratio"],
            unit="×",
            note=f"memory: {found['blocks_mb']:,.0f} MB in blocks; whole, so much more at the "
            f"least: {found['whole_mb'] - found['blocks_mb']:,.0f} MB",
            samples=found,
        )
    ]


def worst_first(lines: Sequence[Line]) -> list[Line]:
    """Return the cliffs, then the doors, each with the line furthest from its limit first."""
    families = [[line for line in lines if line.key.startswith(name)] for name in FAMILIES]
    others = [line for line in lines if not line.key.startswith(FAMILIES)]
    return [
        *(line for some in families for line in sorted(some, key=_excess, reverse=True)),
        *others,
    ]


def _excess(line: Line) -> float:
    """Return the value of a line as a share of what it, or its neighbour, must not exceed."""
    limit = LIMITS.get(line.key.removesuffix(NEAR))
    if line.ours is None:
        return math.inf
    if limit is None:
        return -1.0
    if limit.must == 0:
        return math.inf if line.ours else 0.0
    return line.ours / limit.must


def section(lines: Sequence[Line]) -> str:
    """Return the worst cases as tables; empty without such lines."""
    cases = (line.samples["cases"] for line in lines if line.key == "cliffs-worst")
    found: list[dict[str, Any]] = next(cases, [])
    chained = [line.samples for line in lines if line.key in ("cliffs-chain-2", "cliffs-chain-3")]
    parts = []
    if found:
        rows = [_row(case) for case in found[:SHOWN]]
        head = ["ratio", "default", "lazy", "expanded", "one a call", "first answer", "case"]
        text = (
            f"The worst {len(rows)} of {len(found)} drawn cases. A ratio is the default's time "
            "over that of the better of the other two, counting those that prove their answer; ?: "
            "not proven. Short sentences are asked for in lists of 512 tokens, and beside it one "
            "a call. The ratio of the first answer, of one sentence, holds the compiling of the "
            "grammar. What looks bad is measured again, three times as often."
        )
        parts += [text, table(head, rows)]
    if any(chained):
        rows = [case["cells"] for samples in chained for case in samples.get("cases", [])]
        text = "Taggers that read those before them, with default settings and by 64 labellings."
        parts += [text, table(chained[0]["head"], rows)]
    return "\n\n".join(["## Cliffs", *parts]) if parts else ""


def _row(case: dict[str, Any]) -> list[str]:
    return [
        "lost" if case["lost"] else number(case["ratio"]),
        *(_time(case["ways"][way]) for way in ("auto", "lazy", "expanded")),
        *(number(case.get(name)) for name in ("alone_ratio", "first_ratio")),
        case["text"],
    ]


def _time(way: dict[str, Any]) -> str:
    if "seconds" not in way:
        return "too large"
    return number(1e3 * way["seconds"], "ms") + ("" if way["exact"] else "?")
