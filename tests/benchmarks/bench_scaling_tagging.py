"""Tagging by workers of Dask: two beside one, real processes of one thread each.

Dask and pyarrow are in the environment of ``make test-extras``; the variable FSTCRF_EXTRAS_PYTHON
names its interpreter if it is elsewhere.
"""

from __future__ import annotations

import json
from statistics import median

from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench, extras_python

_WORK = "Parquet files through Dask: two workers over one"


def scaling_tagging(bench: Bench) -> list[Line]:
    """Sentences a second of two workers over those of one, alternated."""
    python = extras_python()
    if not python:
        return [Line("scaling-tagging", _WORK, skipped="Dask is not installed: make test-extras")]
    task, (model, _) = bench.chunking("test"), bench.chunkers()
    command = [python, "-m", "tests.benchmarks.dask_tagging", model, task.path]
    found = json.loads(bench.run([*command, *["--quick"] * bench.quick], cores=2).output)
    one, two = (median(run["seconds"] for run in found[side]) for side in ("one", "two"))
    rate = found["sentences"] / one
    # What it would be were nothing else running: all work of one over the longer share of two.
    busy = median(run["cpu"][-1] for run in found["one"]) / median(
        run["cpu"][-1] for run in found["two"]
    )
    return [
        Line(
            "scaling-tagging",
            _WORK,
            one / two,
            unit="×",
            note=f"{found['sentences']:,} sentences in {found['files']} files; one: {rate:,.0f} a "
            f"second, two: {found['sentences'] / two:,.0f}; by seconds of a processor {busy:.2f}×",
            samples=found,
        )
    ]
