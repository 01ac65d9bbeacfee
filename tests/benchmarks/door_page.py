"""The doors as a file and as a table of a page: both are made from one run.

``python -m tests.benchmarks.door_page`` writes the table once more, from the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.benchmarks import machine
from tests.benchmarks.door_table import DOORS, NEAR
from tests.benchmarks.report import Line, Report, number, table

STORED, PAGE = (machine.PAGES / name for name in ("benchmarks-doors.tsv", "benchmarks.md"))
BEGIN = '<!-- doors: make bench BENCH="--only doors --write" -->'
END = "<!-- end of doors -->"
_HEAD = ["door", "", "input", "value", "seconds", "seconds of the other question"]
_HEAD += ["seconds of the first answer", "p50 of 1,000 calls", "p99"]
_KEYS = ("s", "other_s", "first_s", "p50_s", "p99_s")


def stored(report: Report, lines: Sequence[Line]) -> str:
    """Return all inputs of the doors, those furthest from their limit first."""
    rows = ["\t".join(_HEAD)]
    for line in lines:
        door = line.key.removeprefix("doors-").removesuffix(NEAR)
        for case in line.samples.get("cases", []):
            seconds = ("" if case.get(key) is None else f"{case[key]:.3g}" for key in _KEYS)
            cells = [door, "neighbour" if case["near"] else "row", case["text"]]
            rows.append("\t".join([*cells, f"{case['value']:.4g}", *seconds]))
    machine_ = report.machine
    made = f"`{report.commit}`, {report.date}, {machine_.processor}, {machine_.cores} cores"
    head = f'# Doors\n\n# Made in one run by `make bench BENCH="--only doors --write"`: {made}.'
    return f"{head} Seconds of the processor.\n\n" + "\n".join(rows) + "\n"


def section(text: str) -> str:
    """Return the table of a page from the file that `stored` made."""
    _, made, rows = text.strip().split("\n\n")
    cases = [row.split("\t") for row in rows.splitlines()[1:]]
    worst: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        worst.setdefault((case[0], case[1]), case)
    doors = sorted(dict.fromkeys(case[0] for case in cases), key=lambda door: -_share(worst, door))
    head = ["question", "other question", "limit", "measured", "worst neighbour"]
    lines = [[DOORS[door].question, DOORS[door].other, *_cells(worst, door)] for door in doors]
    return f"{table(head, lines)}\n\n{made.removeprefix('# ')}"


def _share(worst: dict[tuple[str, str], list[str]], door: str) -> float:
    """Return the worst value of the rows as a share of the limit."""
    limit = DOORS[door].limit
    return -1.0 if limit is None else float(worst[door, "row"][3]) / limit


def _cells(worst: dict[tuple[str, str], list[str]], door: str) -> Iterator[str]:
    limit, unit = DOORS[door].limit, DOORS[door].unit
    yield "" if limit is None else number(limit, unit)
    row, neighbour = worst.get((door, "row")), worst.get((door, "neighbour"))
    shown = "" if row is None else number(float(row[3]), unit)
    yield f"**{shown}**" if row and limit is not None and float(row[3]) > limit else shown
    yield "" if neighbour is None else f"{number(float(neighbour[3]), unit)} ({neighbour[2]})"


def write(text: str) -> None:
    """Write the table into its page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{section(text)}\n\n{END}{after}", "utf-8")


if __name__ == "__main__":
    write(STORED.read_text("utf-8"))
