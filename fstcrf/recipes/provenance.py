"""Where numbers come from: machine, versions, commit, date.

==========  ==================================
provenance  facts about this machine, this code
==========  ==================================
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import fstcrf
from fstcrf import kernel

__all__ = ["provenance"]

_CPU = Path("/proc/cpuinfo")


def provenance(packages: Sequence[str] = ()) -> dict[str, str]:
    """Return what a reader must know to repeat a measurement.

    Parameters
    ----------
    packages : sequence of str
        Packages whose versions matter, where they are installed.
    """
    versions = [f"Python {platform.python_version()}", f"NumPy {np.__version__}"]
    for name in packages:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "fstcrf": f"{fstcrf.__version__}, {_commit()}",
        "versions": ", ".join(versions),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "kernel": kernel.variant(),
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def _processor() -> str:
    names = [x for x in _lines(_CPU) if x.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor() or "unknown"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # not Linux
        return []


def _commit() -> str:
    """Return the commit of the checkout that runs, ``-dirty`` where files differ from it."""
    root = Path(fstcrf.__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return "an installed package"
    commit = _git(root, "rev-parse", "--short=12", "HEAD") or "unknown"
    return f"commit {commit}" + ("-dirty" if _git(root, "status", "--porcelain") else "")


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 (fixed words)
            ["git", "-C", str(root), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
