"""``python -m tests.fuzz``: many mutated files, for ``make fuzz``."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
from pathlib import Path

from tests.fuzz.running import Tally, run
from tests.fuzz.targets import TARGETS

_BLOCK = 1000
_PATIENCE = 120
"""Seconds for a block of files, after which a reader hangs."""


def main() -> int:
    """Fuzz the readers; the exit status is 1 where one does not do as it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=100_000, help="of all formats together")
    parser.add_argument("--format", choices=sorted(TARGETS), help="this one only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="N", help="the file of this number only")
    given = parser.parse_args()
    names = [given.format] if given.format else list(TARGETS)
    found = [
        _fuzzed(name, given.files // len(names), seed=given.seed, only=given.only) for name in names
    ]
    return 1 if any(tally.findings for tally in found) else 0


def _fuzzed(name: str, files: int, *, seed: int, only: int | None) -> Tally:
    faulthandler.enable()
    numbers = range(files) if only is None else range(only, only + 1)
    total = Tally()
    for start in range(0, len(numbers), _BLOCK):
        faulthandler.dump_traceback_later(_PATIENCE, exit=True)
        tally = run(TARGETS[name], numbers[start : start + _BLOCK], seed=seed)
        total.read += tally.read
        total.refused += tally.refused
        total.peak = max(total.peak, tally.peak)
        total.findings += tally.findings
        for finding in tally.findings:
            path = Path(tempfile.gettempdir()) / f"fuzz-{name}-{seed}-{finding.number}"
            path.write_bytes(finding.data)
            print(f"{name} --seed {seed} --only {finding.number}: {finding.what} ({path})")
    faulthandler.cancel_dump_traceback_later()
    print(
        f"{name}: {total.read + total.refused:,} files, {total.read:,} read, "
        f"{total.refused:,} refused, {len(total.findings)} findings; "
        f"memory at most {total.peak:,} bytes"
    )
    return total


if __name__ == "__main__":
    sys.exit(main())
