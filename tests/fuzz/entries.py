"""The kernel's entry points without Python: `entries/*.c`, built by Clang with its libFuzzer.

An input costs some microseconds instead of milliseconds, so this is where most of them are. What
is found is what the sanitizers say, or an answer that cannot be right: paths that are not best
first, or one that is there twice.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from tests.fuzz.coverage import Places, counted

__all__ = ["ENTRIES", "built", "turn"]

ENTRIES = {
    f"entry-{name}": name
    for name in (
        *("acyclic", "machines", "emissions", "blocks", "spans", "search", "counting", "paired"),
        *("rows", "lines", "forms", "words", "lookup", "phrases", "semimarkov", "gibbs"),
        *("sweep", "steps", "learners", "feedback", "vectors"),
    )
}
"""Targets, and what `entries/main.c` calls them."""
_VARIANTS = {
    "base": (),
    "v3": ("-march=x86-64-v3",),
    "v4": ("-march=x86-64-v4", "-mprefer-vector-width=512"),
}
_CSRC = Path(__file__).parents[2] / "csrc"
_SOURCES = sorted(
    path
    for path in (*_CSRC.glob("*.c"), *Path(__file__).with_suffix("").glob("*.c"))
    if path.name not in {"status.c", "coverage.c", "kernel.csrc.c"}
)
_CHECKED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_FLAGS = (
    *("-std=c11", "-g", "-O2", "-fno-math-errno", "-fno-trapping-math", "-fno-omit-frame-pointer"),
    *("-Wno-psabi", "-Wno-pass-failed", "-fsanitize=fuzzer-no-link", *_CHECKED, "-DFC_ASSERTS"),
)
_LONGEST = 160
_SECONDS = 120
"""On the clock, after which an input hangs: `entries/main.c` looks at the time of the processor."""
_MEGABYTES = 256
"""Of a process: what sanitizers hold back, the corpus, and an input's arrays."""
_UNITS = re.compile(rb"stat::number_of_executed_units: (\d+)")


def built(folder: Path, variant: str = "base") -> Path | None:
    """Return the program of a variant, made anew where it is old; None where Clang cannot."""
    clang = shutil.which("clang")
    if clang is None:
        return None
    place, program = folder / "entries", folder / "entries" / f"entries-{variant}"
    sources = [*_CSRC.rglob("*.[ch]"), Path(__file__)]
    if program.exists() and program.stat().st_mtime > max(s.stat().st_mtime for s in sources):
        return program
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, _CSRC / "contract.py", place], check=True)
    flags = [*_FLAGS, *_VARIANTS[variant], f"-DFC_TARGET={variant}", f"-I{_CSRC}", f"-I{place}"]
    objects = [place / f"{path.parent.name}-{path.stem}.{variant}.o" for path in _SOURCES]
    shared = max(s.stat().st_mtime for s in sources if s.suffix != ".c")
    commands: list[list[str | Path]] = [
        [clang, *flags, "-c", path, "-o", made]
        for path, made in zip(_SOURCES, objects, strict=True)
        if not made.exists() or made.stat().st_mtime <= max(shared, path.stat().st_mtime)
    ]
    linked: list[str | Path] = [
        clang,
        "-g",
        "-fsanitize=fuzzer",
        *_CHECKED,
        *objects,
        "-lm",
        "-o",
        program,
    ]
    done = (subprocess.run(command, check=False).returncode for command in [*commands, linked])
    return None if any(done) else program


def turn(program: Path, name: str, folder: Path, seconds: int) -> bool:
    """Fuzz an entry point; tell whether something was found. Inputs are counted and kept."""
    places = Places(folder, name)
    known = set(places.findings.iterdir())
    # By a shell: a process has the peak of its parent's memory for its own, and ours has libraries.
    command: list[str | Path] = [
        *("sh", "-c", '"$@"; exit $?', "sh"),
        *(program, places.corpus, f"-max_total_time={seconds}", f"-max_len={_LONGEST}"),
        *(f"-timeout={_SECONDS}", f"-rss_limit_mb={_MEGABYTES}", "-print_final_stats=1"),
        *("-reload=0", "-verbosity=0", f"-artifact_prefix={places.findings}/"),
    ]
    environment = {
        **{key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},
        "FSTCRF_ENTRY": ENTRIES[name],
        # What costs most is the stacks of what was allocated; a finding is run again to see them.
        "ASAN_OPTIONS": "detect_leaks=0:malloc_context_size=0:quarantine_size_mb=2",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    with places.log.open("wb") as log:
        status = subprocess.run(
            command, env=environment, stdout=log, stderr=log, check=False
        ).returncode
    units = _UNITS.search(places.log.read_bytes())
    if units:
        count = counted(folder).get(name, 0) + int(units[1])
        made = places.log.with_suffix(".count")  # another run may be reading it
        made.write_bytes(struct.pack("<Q", count))
        made.replace(places.count)
    for path in sorted(set(places.findings.iterdir()) - known):
        print(f"{name}: {path}: the process ended with {status}; see {places.log}", flush=True)  # noqa: T201
    return status != 0
