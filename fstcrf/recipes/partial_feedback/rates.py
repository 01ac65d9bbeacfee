"""The choice of rates, on the dev part alone.

Every rate of every system learns from a third of the samples, with two seeds that no table of
results uses; those called longer learn from all of them, with one seed. The rate with the best mean
F on the dev part is the system's. The test part is not looked at.
``python -m fstcrf.recipes.partial_feedback.rates DATA`` writes the table.

======  ================================================
tried   F on the dev part, by rate
main    all systems as a table, those named or every one
======  ================================================
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fstcrf.recipes.partial_feedback.data import Data, read
from fstcrf.recipes.partial_feedback.learning import beginning, learnt
from fstcrf.recipes.partial_feedback.systems import LONGER, SYSTEMS, System
from fstcrf.recipes.recipe import Setting

__all__ = ["main", "tried"]

PASSES, LONG_PASSES = 20, 60
SEEDS = (100, 101)


def tried(system: System, data: Data) -> Iterator[tuple[float, list[float]]]:
    """Yield each rate, and the best F on the dev part for each seed, in percent."""
    start = beginning(system, data)
    passes, seeds = (LONG_PASSES, SEEDS[:1]) if system.longer > 1 else (PASSES, SEEDS)
    for rate in system.rates:
        one = replace(system, rule=replace(system.rule, rate=rate))
        outcomes = [learnt(one, start, data, passes, seed)[1] for seed in seeds]
        yield rate, [100.0 * (outcome.dev or 0.0) for outcome in outcomes]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of all rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with conll2000/train.txt and test.txt")
    parser.add_argument("systems", nargs="*", help="names of systems; all when absent")
    given = parser.parse_args(arguments)
    data = read(Setting(given.data))
    write = sys.stdout.write
    write("| system | rate | F, dev, %, of each seed | mean |\n| --- | --- | --- | --- |\n")
    for system in (*SYSTEMS, *LONGER):
        if given.systems and system.name not in given.systems:
            continue
        for rate, found in tried(system, data):
            each = ", ".join(f"{f:.2f}" for f in found)
            mean = sum(found) / len(found)
            write(f"| {system.name} | {rate:g} | {each} | {mean:.2f} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
