"""Lattices composed with transducers, transducers with each other, beside pynini; label models."""

from __future__ import annotations

import json
import sys

from tests.benchmarks.bench_composition import MISSING, has_pynini
from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench


def transducers(bench: Bench) -> list[Line]:
    """Best paths, with their probabilities, and log Z; of trigrams beside the search."""
    return _lines(bench, "transducers", "transduced", ["--most", "24"] * bench.quick)


def algebra(bench: Bench) -> list[Line]:
    """Transducers composed with each other."""
    return _lines(bench, "algebra", "algebra", ["--most", "60000"] * bench.quick)


def _lines(bench: Bench, name: str, module: str, options: list[str]) -> list[Line]:
    if not has_pynini():
        return [Line(name, f"{name}: compositions", skipped=MISSING)]
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", "--json", *options]
    rows = [json.loads(row) for row in bench.run(command).output.splitlines()]
    return [
        Line(key, f"{name}, {work}", ours, peer, unit="ms", peer_name=peer_name)
        for key, work, ours, peer, peer_name in rows
    ]
