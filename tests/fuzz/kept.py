"""How many inputs there were, in all runs of all people: ``counts.json``, and what a folder adds.

A folder of a run remembers how many of its inputs `keep` has added, so that none counts twice.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tests.fuzz.coverage import Places, counted

__all__ = ["COUNTS", "PAGE", "findings", "keep", "table"]

COUNTS = Path(__file__).with_name("counts.json")
PAGE = Path(__file__).with_name("counts.md")
_BLOCK = re.compile(
    r"(?<=\$ python -m tests\.fuzz --counts\n).*?(?=^```$)", re.DOTALL | re.MULTILINE
)


def keep(folder: Path) -> None:
    """Add what a folder's runs have counted since the last time; write the page's table anew."""
    done, counts = folder / "kept", counted(folder)
    done.mkdir(parents=True, exist_ok=True)
    sums = _sums(folder, counts)
    given = {"commit": _commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "inputs": sums}
    COUNTS.write_text(json.dumps(given, indent=2) + "\n")
    for name, count in counts.items():
        (done / name).write_bytes(struct.pack("<Q", count))
    PAGE.write_text(_BLOCK.sub(lambda _: _lines(folder, sums), PAGE.read_text()))


def table(folder: Path) -> str:
    """Return a line for each target: its inputs in all runs, and the findings in the folder."""
    return _lines(folder, _sums(folder, counted(folder)))


def _lines(folder: Path, sums: dict[str, int]) -> str:
    rows = sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    lines = [f"{name:20} {n:12,} {_findings(folder, name):3} findings" for name, n in rows]
    total = f"{'all':20} {sum(sums.values()):12,} {findings(folder):3} findings"
    return "\n".join([*lines, total, ""])


def findings(folder: Path) -> int:
    """Return how many inputs of a folder are findings."""
    return sum(_findings(folder, name) for name in counted(folder))


def _commit() -> str:
    command = ["git", "-C", str(COUNTS.parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _sums(folder: Path, counts: dict[str, int]) -> dict[str, int]:
    """Return the inputs of each target: those that are kept, and those of a folder beside them."""
    sums: dict[str, int] = json.loads(COUNTS.read_text())["inputs"] if COUNTS.exists() else {}
    for name, count in counts.items():
        path = folder / "kept" / name
        old = struct.unpack("<Q", path.read_bytes())[0] if path.exists() else 0
        sums[name] = sums.get(name, 0) + count - old
    return dict(sorted(sums.items()))


def _findings(folder: Path, name: str) -> int:
    return len([path for path in Places(folder, name).findings.iterdir() if path.suffix != ".txt"])
