"""Spans and long sentences beside what they are measured against, for the section of cliffs.

``python -m tests.benchmarks.cliff_spans WORK JSON`` does one piece of work, with the arguments of a
JSON object, in a process of its own and prints another. Times are of the processor.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fstcrf.kernel import blocks
from fstcrf.lattices import Lattice
from tests.benchmarks.running import least_seconds
from tests.benchmarks.work import answer, peak, seconds_of

ABOVE = 0.01

CASES = (
    # types, tokens, spread of the scores
    (8, 512, 0.0),
    (8, 512, 1.0),
    (8, 512, 4.0),
    (8, 5_000, 1.0),
    (80, 512, 1.0),
    (1, 512, 1.0),
)


def spans() -> dict[str, Any]:
    """Return, for each case, the seconds of the marginals and of all spans, and their ratio."""
    found = []
    for types, tokens, spread in CASES:
        lattice = bioes_lattice(types, tokens, spread)
        one, all_spans = least_seconds(5, lattice.marginals, partial(lattice.probable_spans, ABOVE))
        found.append(
            {
                "labels": 4 * types + 1,
                "tokens": tokens,
                "spread": spread,
                "spans": len(lattice.probable_spans(ABOVE)),
                "marginals_s": one,
                "spans_s": all_spans,
                "ratio": all_spans / one,
            }
        )
    return _worst_first(found)


def long(tokens: int = 20_000) -> dict[str, Any]:
    """Return what the marginals of one long sentence under 45 × 22 states cost."""
    joint = random_lattice(45, tokens, 0) @ random_lattice(22, tokens, 1)
    joint.plan()
    before = peak()
    in_blocks = seconds_of(joint.marginals)
    middle = peak()
    blocks.LONG_BYTES = sys.maxsize
    whole = seconds_of(joint.marginals)
    return {
        "tokens": tokens,
        "blocks_s": in_blocks,
        "whole_s": whole,
        "blocks_mb": middle - before,
        "whole_mb": peak() - before,
        "ratio": in_blocks / whole,
    }


def tag(folder: str, tokens: int = 10_000, rounds: int = 3) -> dict[str, Any]:
    """Return what the probabilities of spans cost on the command line, beside plain tagging."""
    lines = (Path(folder) / "conll2000" / "train.txt").read_text().splitlines()
    rows = [line for line in lines if line.strip()][:tokens]
    found = []
    with TemporaryDirectory() as name:
        place = Path(name)
        (place / "train.txt").write_text("\n".join(lines[:tokens]) + "\n\n")
        (place / "one.txt").write_text("\n".join(rows) + "\n\n")
        for target in ("pos", "chunk"):
            (place / f"{target}.tpl").write_text("U0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[1,0]\nB\n")
            command(
                *(place, "train", "train.txt", "-o", f"{target}.fstcrf", "--target", target),
                *("--columns", "word,pos,chunk", "--template", f"{target}.tpl", "--method", "arow"),
            )
        command(place, "compose", "pos.fstcrf", "chunk.fstcrf", "-o", "joint.fstcrf")
        for model in ("chunk.fstcrf", "joint.fstcrf"):
            runs = [("tag", model, "one.txt"), ("tag", model, "one.txt", "--span-probabilities")]
            taken = [[command(place, *run) for run in runs] for _ in range(rounds)]
            plain, both = (min(column) for column in zip(*taken, strict=True))
            found.append({"model": model, "tag_s": plain, "spans_s": both, "ratio": both / plain})
    return _worst_first(found)


def _worst_first(cases: list[dict[str, Any]]) -> dict[str, Any]:
    return {"cases": sorted(cases, key=lambda case: -case["ratio"])}


def command(place: Path, *arguments: str) -> float:
    """Run fstcrf in a folder; return the seconds that it takes of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [sys.executable, "-m", "fstcrf", *arguments]
    subprocess.run(line, cwd=place, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bioes_lattice(types: int, tokens: int, spread: float) -> Lattice:
    """Return a lattice with random scores of labels in BIOES."""
    rng = np.random.default_rng(types)
    labels = ["O", *(f"{letter}-T{k}" for k in range(types) for letter in "BIES")]
    size = len(labels)
    nodes = spread * rng.normal(size=(tokens, size))
    return Lattice.from_arrays(labels, nodes, min(spread, 0.5) * rng.normal(size=(size, size)))


def random_lattice(labels: int, tokens: int, seed: int) -> Lattice:
    """Return a lattice with standard normal scores."""
    rng = np.random.default_rng(seed)
    names = [f"L{k}" for k in range(labels)]
    return Lattice.from_arrays(
        names, rng.normal(size=(tokens, labels)), rng.normal(size=(labels,) * 2)
    )


if __name__ == "__main__":
    answer(globals())
