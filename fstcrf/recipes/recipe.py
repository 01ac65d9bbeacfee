"""What a recipe is, what it is given, and what it finds.

=======  ==========================================
Recipe   a name, what it needs, how it runs
Setting  what a run is given
Result   what a run found
Row      one number, beside the one it is compared with
=======  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fstcrf.errors import DataError

__all__ = ["Recipe", "Result", "Row", "Setting"]


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a report.

    Parameters
    ----------
    row : str
        What was measured: a model, a system.
    metric : str
        What of it, with its unit.
    value : float
    paper : float, optional
        The number that was published, or that the peer reaches in the same run.
    seconds : float, optional
        What it took.
    """

    row: str
    metric: str
    value: float
    paper: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found.

    Parameters
    ----------
    rows : list of Row
    sections : list of str
        Markdown that stands behind the table: what the numbers mean, examples.
    plots : list of str
        Paths of pictures, relative to the folder of the report.
    """

    rows: list[Row] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    plots: list[str] = field(default_factory=list)


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is given.

    Parameters
    ----------
    data : Path
        The folder of the corpora.
    report : Path, optional
        The folder of the report, for plots; it exists.
    full : bool
        Everything, also what takes long.
    seed : int
        For whatever is drawn.
    say : callable
        Called with one line about what is being done.
    """

    data: Path
    report: Path | None = None
    full: bool = False
    seed: int = 0
    say: Callable[[str], None] = _silent

    def files(self, pattern: str) -> list[Path]:
        """Return the files of the data folder that a pattern names, sorted.

        Raises
        ------
        DataError
            There are none.
        """
        found = sorted(self.data.glob(pattern))
        if not found:
            raise DataError(f"no {pattern} in this folder", path=str(self.data))
        return found

    def plot(self, name: str) -> Path | None:
        """Return where a plot goes, in a folder made for plots; None without a report."""
        if self.report is None:
            return None
        folder = self.report / "plots"
        folder.mkdir(exist_ok=True)
        return folder / name


@dataclass(frozen=True, slots=True)
class Recipe:
    """An experiment.

    Parameters
    ----------
    name : str
        As ``fstcrf recipe NAME`` has it.
    title : str
        One line on what it shows.
    needs : tuple of str
        Patterns of files that must be in the data folder.
    paper : str
        Heading of the column of published numbers: a citation, or a program that runs beside.
    run : callable
        Setting → result.
    packages : tuple of str
        Packages whose versions belong into the report.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    paper: str
    run: Callable[[Setting], Result]
    packages: tuple[str, ...] = ()
