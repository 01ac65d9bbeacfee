"""Addresses under a grammar too large to expand: the model inside usaddress, beside usaddress."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench, BenchmarkError, in_turns, median_of

MISSING = "usaddress is not installed"
STATES = 200_000
WORK = "US addresses under us_address.grm"


def addresses(bench: Bench) -> list[Line]:
    """All labelled addresses: strings to labels, from potentials to labels, states popped."""
    if importlib.util.find_spec("usaddress") is None:
        bench.say(f"skipped: {MISSING}")
        return [Line("addresses", WORK, skipped=MISSING)]
    folder = str(bench.data / "usaddress")
    work = partial(bench.job, "addresses", "parsed", folder=folder, rounds=3 if bench.quick else 9)
    (runs,) = in_turns(bench.rounds, work)
    return address_lines(runs)


def address_lines(runs: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of what was measured."""
    one = runs[0]
    if one["raised"] or one["inexact"]:
        raise BenchmarkError(f"{one['raised']} addresses refused, {one['inexact']} not proven")
    each = 1e6 / one["addresses"]
    tag = each * median_of(runs, "tag")
    lines = [
        Line(
            key,
            f"{WORK}, string to labels, {what}",
            each * median_of(runs, entry),
            tag,
            "µs",
            peer_name="usaddress.tag",
            note=f"{one['raised_before']} of {one['addresses']:,} addresses raise in usaddress.tag",
            samples={"runs": runs},
        )
        for key, entry, what in (
            ("addresses", "first time", "tokens seen for the first time"),
            ("addresses-again", "again", "tokens seen before"),
            ("addresses-single", "one by one", "one address a call"),
        )
    ]
    pops = one["pops"]
    rate = one["addresses"] / median_of(runs, "search")
    lines.append(
        Line(
            "addresses-search",
            f"{WORK}, lazy search from potentials",
            rate,
            unit="addresses/s",
            more_is_better=True,
            note=f"{1e6 / rate:.2f} µs an address; all {one['addresses']:,} proven",
        )
    )
    lines.append(
        Line(
            "addresses-pops",
            f"{WORK}, states popped a token, median",
            pops["0.5"],
            note=f"99 %: {pops['0.99']:.2f}, most: {pops['1']:.0f}",
        )
    )
    return lines


def adversarial(bench: Bench) -> list[Line]:
    """Two labels that alternate for 200 tokens; 29 labels, each in at most one run."""
    work = partial(bench.job, "addresses", "adversarial", states=STATES)
    (runs,) = in_turns(bench.rounds, work)
    one = runs[0]
    if one["exact"] or one["score"] is None or not one["score"] <= one["bound"]:
        raise BenchmarkError(f"not what a search that gave up should say: {one}")
    name = f"alternating labels under contiguous, {STATES:,} states"
    note = f"not proven: score {one['score']:.1f}, nothing above {one['bound']:.1f}"
    return [
        Line("adversarial-states", f"{name}: popped", float(one["popped"]), note=note),
        Line(
            "adversarial-memory",
            f"{name}: memory",
            median_of(runs, "megabytes"),
            unit="MB",
            note=f"{1e6 * median_of(runs, 'megabytes') / one['popped']:.0f} bytes a popped state",
        ),
        Line("adversarial-seconds", f"{name}: time", median_of(runs, "seconds"), unit="s"),
    ]
