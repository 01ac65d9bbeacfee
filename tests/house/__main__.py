"""Print the sizes of the house beside limits and goals: ``python -m tests.house [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.house.sizes import ROOT, House, table


def main() -> None:
    """Print what is counted of a checkout, this one or another."""
    house = House(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    rows = table()
    for name, size in house.counted().items():
        row = rows[name]
        sys.stdout.write(f"{name:22} {size:8,}  limit {row.limit:8,}  goal {row.goal:8,}\n")
    for name, size in sorted(house.long_files().items()):
        sys.stdout.write(f"  {size:,} lines: {name}\n")


main()
