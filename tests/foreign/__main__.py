"""Test suites of other packages, unchanged, against the drop-ins: ``make foreign-tests``.

``python -m tests.foreign SUITES [NAME ...] [--real]``: each folder ``SUITES/NAME`` that has a
folder ``tests`` is a suite. Each runs in a process of its own, in its own folder and with its own
configuration. ``--real`` leaves the real packages in place: what fails then, fails anyway.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[2]
_PASSED, _NO_TESTS = 0, 5


def _suites(folder: Path, names: list[str]) -> list[Path]:
    found = sorted(path.parent for path in folder.glob("*/tests") if path.is_dir())
    missing = sorted(set(names) - {path.name for path in found})
    if missing or not found:
        wanted = missing[0] if missing else "NAME"
        sys.exit(f"no suite in {folder}: expected {folder / wanted / 'tests'}")
    return [path for path in found if not names or path.name in names]


def _run(suite: Path, *, real: bool) -> int:
    plugin = [] if real else ["-p", "fstcrf.ext.compat.plugin"]
    command = [sys.executable, "-P", "-m", "pytest", *plugin]
    command += ["--doctest-modules", "--import-mode=importlib", "-p", "no:cacheprovider"]
    command += ["-q", "-ra", f"--rootdir={suite}", "-o", "xfail_strict=false", "tests"]
    paths = [str(_REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.run(command, cwd=suite, env=environment, check=False).returncode


def main() -> None:
    """Run the suites; exit with 1 where one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.foreign", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--real", action="store_true")
    arguments = parser.parse_args()
    results = {}
    for suite in _suites(arguments.folder.resolve(), arguments.names):
        print(f"--- {suite.name}", flush=True)
        results[suite.name] = _run(suite, real=arguments.real)
    for name, code in results.items():
        verdict = {_PASSED: "passed", _NO_TESTS: "no tests"}.get(code, f"FAILED ({code})")
        print(f"{name:<24} {verdict}")
    sys.exit(any(results.values()))


if __name__ == "__main__":
    main()
