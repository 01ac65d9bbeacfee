"""``python -m tests.fuzz``: what ``make fuzz`` runs.

Each target has its turn, the one with the fewest inputs so far first, in a process of its own; with
``--files`` a number of mutated files go through it instead, without an engine and the same ones in
every run.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import entries, kept
from tests.fuzz.coverage import Places, counted
from tests.fuzz.entries import ENTRIES
from tests.fuzz.running import Tally, run
from tests.fuzz.targets import TARGETS

_BLOCK = 1000
_PATIENCE = 120
"""Seconds for a block of files, after which a reader hangs."""
_TURN = 20
"""Seconds that a target has at once, where there are enough."""
_START = 600
"""Seconds that a process may take to begin and to end."""


def main() -> int:
    """Fuzz the readers and the kernel; the exit status is 1 where one does not do as it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="of all targets together")
    parser.add_argument("--turn", type=int, default=_TURN, help="seconds of a target at once")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="what is kept")
    parser.add_argument(
        "--target",
        choices=[*sorted(TARGETS), *ENTRIES],
        action="append",
        help="these only",
    )
    parser.add_argument("--files", type=int, help="mutated files, of all targets together")
    parser.add_argument(
        "--variant", choices=["base", "v3", "v4"], default="base", help="in entry points"
    )
    parser.add_argument("--counts", action="store_true", help="say how many inputs there were")
    parser.add_argument(
        "--keep", action="store_true", help="add those of the folder to tests/fuzz/counts.json"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the files")
    parser.add_argument("--only", type=int, metavar="N", help="the file of this number only")
    given = parser.parse_args()
    if given.keep:
        kept.keep(given.folder)
    if given.counts or given.keep:
        print(kept.table(given.folder), end="")
        return int(kept.findings(given.folder) > 0)
    if given.files is None and given.only is None:
        names = given.target or [*TARGETS, *ENTRIES]
        return _watched(names, given.folder, given.seconds, given.turn, given.variant)
    names = given.target or list(TARGETS)
    files = (given.files or 0) // len(names)
    found = [_fuzzed(name, files, seed=given.seed, only=given.only) for name in names]
    return 1 if any(tally.findings for tally in found) else 0


# --- By the engine --------------------------------------------------------------------------------


def _watched(names: list[str], folder: Path, seconds: int, turn: int, variant: str) -> int:
    """Let the engine have its turns; return the exit status."""
    program = entries.built(folder, variant) if set(names) & set(ENTRIES) else None
    if program is None and set(names) & set(ENTRIES):
        print("entry points of the kernel are left out: they need Clang and its libFuzzer")
        names = [name for name in names if name not in ENTRIES]
    before, end, failed = counted(folder), time.monotonic() + seconds, False
    turn = max(1, min(turn, seconds // max(len(names), 1)))
    done: dict[str, int] = dict.fromkeys(names, 0)
    while names and time.monotonic() < end:
        counts = counted(folder)
        name = min(names, key=lambda name: (done[name], counts.get(name, 0)))
        done[name] += 1
        if program is not None and name in ENTRIES:
            failed |= entries.turn(program, name, folder, turn)
        else:
            failed |= _turn(name, folder, turn)
    counts = counted(folder)
    new = sum(counts.values()) - sum(before.values())
    print(f"{new:,} inputs, {sum(counts.values()):,} in all runs, of {len(counts)} targets")
    return int(failed)


def _turn(name: str, folder: Path, seconds: int) -> bool:
    """Fuzz a target in a process of its own; tell whether something was found."""
    places = Places(folder, name)
    known = set(places.findings.iterdir())
    command = [sys.executable, "-m", "tests.fuzz.coverage", name, str(folder), str(seconds)]
    with places.log.open("wb") as log:
        try:
            status = subprocess.run(
                command, env=_environment(), stdout=log, stderr=log, timeout=seconds + _START,
                check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            status = -1
    data = places.interrupted()
    if status and data is not None:
        places.found(data, f"the process ended with {status}; see {places.log}")
    elif status:
        print(f"{name}: could not be run: see {places.log}", flush=True)
    new = sorted(set(places.findings.iterdir()) - known)
    for path in new:
        if path.suffix == ".txt":
            print(f"{name}: {path.with_suffix('')}: {path.read_text().splitlines()[0]}", flush=True)
    return bool(new) or status != 0


def _environment() -> dict[str, str]:
    """Return the environment of a target: sanitizers first, but the engine before them.

    The sanitizers have symbols of the engine's that do nothing.
    """
    engine = importlib.util.find_spec("atheris.core_with_libfuzzer")
    if engine is None:
        raise SystemExit("fuzzing needs atheris: pip install 'atheris>=3.0'")
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {
        **os.environ,
        **single,
        "LD_PRELOAD": f"{engine.origin} {os.environ.get('LD_PRELOAD', '')}",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16:"
        "verify_asan_link_order=0:alloc_dealloc_mismatch=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }


# --- Without --------------------------------------------------------------------------------------


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
