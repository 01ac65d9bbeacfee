"""What a recipe is, what it is given, and what it finds.

============  =============================================
Recipe        a name, what it needs, how it runs
Setting       what a run is given
Result        what a run found
Row           one number, beside the one it is compared with
blank_figure  a figure of matplotlib to draw on
============  =============================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fstcrf.errors import DataError
from fstcrf.lazy import optional
from fstcrf.recipes.parts import Parts

if TYPE_CHECKING:
    from fstcrf.model import CRF

__all__ = ["Recipe", "Result", "Row", "Setting", "blank_figure"]

T = TypeVar("T")


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

    def __str__(self) -> str:
        paper = "" if self.paper is None else f" (published {self.paper:,.6g})"
        return f"{self.row}: {self.metric} {self.value:,.6g}{paper}"


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


def blank_figure(width: float, height: float) -> Any:
    """Return a ``matplotlib.figure.Figure`` of so many inches.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    advice = "it needs matplotlib: pip install 'fstcrf[recipes]'"
    figure = optional("matplotlib.figure", advice).Figure
    return figure(figsize=(width, height), layout="constrained")


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
    parts : Parts
        What is finished, of this run and of those before it that ended early.
    found : Result
        What has been found until now: the report of a run that ends early.
    """

    data: Path
    report: Path | None = None
    full: bool = False
    seed: int = 0
    say: Callable[[str], None] = _silent
    parts: Parts = field(default_factory=Parts)
    found: Result = field(default_factory=Result)

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

    def drawn(self, name: str, draw: Callable[[Path], None]) -> list[str]:
        """Draw a plot; return its path for the report, nothing where there is no plot.

        Parameters
        ----------
        name : str
            Of the file.
        draw : callable
            Writes it, on a `blank_figure`.
        """
        path = self.plot(name)
        if path is None:
            return []
        try:
            draw(path)
        except ImportError as error:  # it says what to install, or what is wrong with it
            self.say(f"no plot {name}: {error}")
            return []
        return [f"plots/{name}"]

    # Parts of the work: what is finished is kept, and shown, before the rest begins.

    def rows(self, name: str, make: Callable[[], Iterable[Row]], about: object = None) -> list[Row]:
        """Return rows, told one by one as they come; those of an earlier run where it had them.

        Parameters
        ----------
        name : str
            Of the part, no other part's.
        make : callable
            Yields the rows.
        about : object
            What they depend on, beside the recipe, `full`, `seed` and the data.
        """
        try:
            known: Iterable[Row] = self.parts.get(name, list[Row], about)
        except KeyError:
            rows = self._told(make())
            self.parts.put(name, rows, about)
            return rows
        self.say(f"{name}: from an earlier run")
        return self._told(known)

    def kept(self, name: str, make: Callable[[], T], kind: type[T], about: object = None) -> T:
        """Return a part that JSON has a form for: from an earlier run, else made and kept.

        Parameters
        ----------
        name : str
            Of the part, no other part's.
        make : callable
            Makes it.
        kind : type
            Of the value: ``list[float]``, ``dict[str, list[str]]``, a dataclass of such things.
        about : object
            What it depends on, beside the recipe, `full`, `seed` and the data.
        """
        try:
            value = self.parts.get(name, kind, about)
        except KeyError:
            value = make()
            self.parts.put(name, value, about)
            return value
        self.say(f"{name}: from an earlier run")
        return value

    def tagger(self, name: str, make: Callable[[], CRF], about: object = None) -> CRF:
        """Return a tagger: from an earlier run, else trained and kept, as `kept` does."""
        from fstcrf.model import load  # noqa: PLC0415 (the frame starts without it)

        path = self.parts.file(name, "fstcrf", about)
        if path is not None and path.exists():
            self.say(f"{name}: from an earlier run")
            return load(path)
        tagger = make()
        if path is not None:
            tagger.save(path)
        return tagger

    def trained(
        self,
        name: str,
        make: Callable[[], tuple[CRF, T]],
        kind: type[T],
        about: object = None,
    ) -> tuple[CRF, T]:
        """Return a tagger and what is known of it: `tagger` and `kept` in one."""
        from fstcrf.model import load  # noqa: PLC0415 (the frame starts without it)

        path = self.parts.file(name, "fstcrf", about)
        if path is not None and path.exists():
            with suppress(KeyError):
                known = self.parts.get(name, kind, about)
                self.say(f"{name}: from an earlier run")
                return load(path), known
        tagger, facts = make()
        if path is not None:
            tagger.save(path)  # first: facts without their tagger are of no use
        self.parts.put(name, facts, about)
        return tagger, facts

    def section(self, text: str) -> str:
        """Return a section of the report, which a run that ends early has, too."""
        self.found.sections.append(text)
        return text

    def _told(self, rows: Iterable[Row]) -> list[Row]:
        told = []
        for row in rows:
            told.append(row)
            self.found.rows.append(row)
            self.say(str(row))
        return told


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
