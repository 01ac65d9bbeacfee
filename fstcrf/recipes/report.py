"""Reports: Markdown for people, JSON for programs.

=========  =====================================================
FILES      what a report is written to
Report     a result, with where and when it came about
number     a number with the digits that it deserves
table      a Markdown table
write      a report as files of a folder
=========  =====================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fstcrf.corpus import atomic_write
from fstcrf.recipes.recipe import Recipe, Result

__all__ = ["FILES", "Report", "number", "table", "write"]

FILES = ("report.md", "results.json")
"""What `write` leaves in a folder."""


@dataclass(frozen=True, slots=True)
class Report:
    """A result, with where and when it came about.

    Parameters
    ----------
    recipe : Recipe
    result : Result
    facts : mapping of str to str
        Date, machine, versions, seed, wall clock.
    ended : str
        Why the run ended before it was complete; empty where it was not so.
    """

    recipe: Recipe
    result: Result
    facts: Mapping[str, str]
    ended: str = ""

    @property
    def head(self) -> list[str]:
        """Heading of the table of rows."""
        return ["row", "metric", "value", self.recipe.paper, "seconds"]

    def cells(self) -> list[list[str]]:
        """Return the table of rows."""
        return [
            [r.row, r.metric, number(r.value), number(r.paper), number(r.seconds)]
            for r in self.result.rows
        ]

    def markdown(self) -> str:
        """Return the report as Markdown."""
        plots = [f"![{path}]({path})" for path in self.result.plots]
        unfinished = [f"**Not complete**: {self.ended}."] if self.ended else []
        parts = [
            f"# {self.recipe.title}",
            f"Made by `fstcrf recipe {self.recipe.name}`.",
            *unfinished,
            table(["", ""], [[name, fact] for name, fact in self.facts.items()]),
            table(self.head, self.cells()),
            *plots,
            *self.result.sections,
        ]
        return "\n\n".join(parts) + "\n"

    def json(self) -> str:
        """Return the rows as JSON: a list of objects."""
        rows = [asdict(row) for row in self.result.rows]
        return json.dumps(rows, indent=1, default=float) + "\n"


def write(report: Report, folder: Path) -> list[Path]:
    """Write ``report.md`` and ``results.json`` into a folder that exists; return their paths."""
    written = [folder / name for name in FILES]
    for path, text in zip(written, (report.markdown(), report.json()), strict=True):
        with atomic_write(path) as file:
            file.write(text.encode())
    return written


def number(value: float | None) -> str:
    """Write a number with the digits that it deserves; nothing for None.

    Examples
    --------
    >>> [number(x) for x in (None, 0, 37, 11134.0, 2034.18, 96.5432, 0.01234)]
    ['', '0', '37', '11,134', '2,034.2', '96.54', '0.0123']
    """
    if value is None:
        return ""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) < 1:
        return f"{value:.3g}"
    decimals = 2 if abs(value) < 1000 else 1 if abs(value) < 10_000 else 0
    return f"{value:,.{decimals}f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table; bars and line ends within cells are escaped."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join(f"| {' | '.join(map(_cell, cells))} |" for cells in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
