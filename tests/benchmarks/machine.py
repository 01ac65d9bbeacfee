"""Where numbers come from: the processor, its caches and memory, the commit, the load."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import runpy
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "measurements"

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def tab_separated(text: str) -> str:
    """Return a report with tabs between the cells of its tables, as docs/evidence.py stores it."""
    stored: str = runpy.run_path(str(ROOT / "docs" / "evidence.py"))["tab_separated"](text)
    return stored


@dataclass(frozen=True, slots=True)
class Machine:
    """What is said about a machine in a report."""

    processor: str
    cores: int
    caches: str
    memory: str
    system: str
    python: str
    packages: dict[str, str]
    load: float


def this() -> Machine:
    """Describe this machine; `load` is that of the last minute, before anything ran."""
    return Machine(
        processor=_field("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        cores=os.cpu_count() or 1,
        caches=", ".join(_caches()) or "unknown",
        memory=_memory(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        packages=dict(_versions("numpy", "python-crfsuite", "pynini")),
        load=os.getloadavg()[0],
    )


def commit() -> str:
    """Return the short hash, with -dirty where files differ from it or are not in it."""
    name = _git("rev-parse", "--short=12", "HEAD")
    if not name:
        return "unknown"
    return name + ("-dirty" if _git("status", "--porcelain") else "")


def fingerprint() -> str:
    """Hash the package, compiled kernel included: it must not change while it is measured."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "fstcrf").rglob("*")):
        if path.suffix in {".py", ".so"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def pinned(chosen: Sequence[int]) -> Iterator[None]:
    """Run on these cores only; children inherit that."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, chosen)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _versions(*names: str) -> Iterator[tuple[str, str]]:
    """Versions of the packages that are installed."""
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            yield name, importlib.metadata.version(name)


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    found = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
    return next(found, None)


def _memory() -> str:
    kilobytes = _field("/proc/meminfo", "MemTotal")
    return "unknown" if kilobytes is None else f"{int(kilobytes.split()[0]) / 2**20:.1f} GiB"


def _caches() -> Iterator[str]:
    for folder in sorted(_CACHES.glob("index*")):
        level, kind, size = ((folder / n).read_text().strip() for n in ("level", "type", "size"))
        if kind != "Instruction":
            yield f"L{level}{'d' if kind == 'Data' else ''} {size.removesuffix('K')} KiB"
