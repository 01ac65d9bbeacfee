"""Lattices composed with transducers, each sentence anew, beside pynini; label language models."""

from __future__ import annotations

import json
import sys

from tests.benchmarks.bench_composition import MISSING, has_pynini
from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench


def transducers(bench: Bench) -> list[Line]:
    """Best paths, with their probabilities, and log Z; of trigrams beside the search."""
    if not has_pynini():
        return [Line("transducers", "lattices composed with transducers", skipped=MISSING)]
    command = [sys.executable, "-m", "tests.benchmarks.transduced", "--json"]
    command += ["--most", "24"] * bench.quick
    rows = [json.loads(row) for row in bench.run(command).output.splitlines()]
    return [
        Line(key, f"transducers, {work}", ours, peer, unit="ms", peer_name=name)
        for key, work, ours, peer, name in rows
    ]
