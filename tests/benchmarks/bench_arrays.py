"""Batches of arrays of scores: beside pytorch-crf, NumPy and a loop in Python.

PyTorch and pytorch-crf are in the environment of ``make test-extras``; the variable
FSTCRF_EXTRAS_PYTHON names its interpreter if it is elsewhere. Without them, only NumPy is compared.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench, extras_python

_DECODE = {"22": "[64, 128, 22]", "9": "[1024, 20, 9]"}
_PEER = "pytorch-crf"


def arrays(bench: Bench) -> list[Line]:
    """Best labels, losses with gradients, and probabilities of spans; CPU time, one thread."""
    command = [extras_python() or sys.executable, "-m", "tests.benchmarks.arrays"]
    found = json.loads(bench.run([*command, *["--quick"] * bench.quick]).output)
    lines = []
    for name, shape in _DECODE.items():
        work = f"best labels of {shape} float32"
        lines.append(_line(f"arrays-{name}", work, found[f"decode-{name}"], _PEER))
        lines.append(_line(f"arrays-{name}-numpy", work, found[f"decode-{name}"], "numpy"))
    long = "best labels of [1, 128000, 33] float32"
    lines.append(_line("arrays-long", long, found["long"], _PEER))
    lines.append(_line("arrays-long-python", long, found["long"], "python"))
    lines.append(_line("arrays-long-rows", long, found["long"], "numpy rows"))
    for name, shape in _DECODE.items():
        work = f"loss and all gradients of {shape} float32"
        lines.append(_line(f"arrays-loss-{name}", work, found.get(f"loss-{name}", {}), _PEER))
    spans = found["spans"]
    lines.append(
        Line(
            "arrays-spans",
            "probabilities of the best labels' spans, [16, 128, 33], in times of finding these",
            spans["ours"] / spans["decode"],
            unit="×",
            samples=spans,
        )
    )
    return lines


def _line(key: str, work: str, found: dict[str, Any], peer: str) -> Line:
    if peer not in found:
        return Line(key, work, skipped=f"{peer} is not installed: make test-extras")
    ours, theirs = 1e3 * found["ours"], 1e3 * found[peer]
    return Line(key, work, ours, theirs, unit="ms", peer_name=peer, samples=found)
