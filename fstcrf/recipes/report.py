"""Reports: results of a run, published results, provenance, and plots."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.evaluate import Comparison
from fstcrf.ext.significance import SpanCounts, bootstrapped_f, resampled_t
from fstcrf.files import atomic_write
from fstcrf.lazy import optional

FILES = ("report.md", "results.json")  # files that `write` makes in a folder


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a report."""

    row: str  # the measured object: a model, a system
    metric: str  # the metric, with its unit
    value: float
    paper: float | None = None  # published, or the result of another program in the same run
    seconds: float | None = None

    def __str__(self) -> str:
        paper = "" if self.paper is None else f" (published {self.paper:,.6g})"
        return f"{self.row}: {self.metric} {self.value:,.6g}{paper}"


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure that a report is judged by."""

    row: str
    metric: str
    values: tuple[float, ...]  # one for each seed
    paper: float | None = None
    interval: tuple[float, float] | None = None  # 95 %, by resampled documents and seeds

    @classmethod
    def of_f(
        cls,
        row: str,
        metric: str,
        runs: Sequence[SpanCounts],
        paper: float | None = None,
        *,
        resamples: int = 1999,
    ) -> Headline:
        """Return F of runs, in percent, with an interval over sentences or groups, and runs."""
        low, high = bootstrapped_f(runs, resamples=resamples)
        values = tuple(100.0 * run.f for run in runs)
        return cls(row, metric, values, paper, (100.0 * low, 100.0 * high))

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds, with n − 1; `None` for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def cells(self) -> list[str]:
        """Return the row of a table: what, paper, ours, difference, interval."""
        ours = spread(self.values, number)
        apart = "" if self.paper is None else f"{self.mean - self.paper:+.2f}"
        ends = "" if self.interval is None else " to ".join(map(number, self.interval))
        return [self.row, self.metric, number(self.paper), ours, apart, ends]


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a run."""

    rows: list[Row] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)  # Markdown after the table
    plots: list[str] = field(default_factory=list)  # paths, relative to the folder of the report
    headline: list[Headline] = field(default_factory=list)  # first; with one, rows are folded


@dataclass(frozen=True, slots=True)
class Report:
    """A result, with where and when it came about."""

    name: str  # of the recipe
    title: str
    paper: str
    result: Result
    facts: Mapping[str, str]  # date, machine, versions, seed, wall clock
    ended: str = ""  # the reason for an early end; empty for a complete run

    @property
    def head(self) -> list[str]:
        """Heading of the table of rows."""
        return ["row", "metric", "value", self.paper, "seconds"]

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
            f"# {self.title}",
            f"Made by `fstcrf recipe {self.name}`.",
            *unfinished,
            table(["", ""], [[name, fact] for name, fact in self.facts.items()]),
            *self._figures(),
            *plots,
            *self.result.sections,
        ]
        return "\n\n".join(parts) + "\n"

    def _figures(self) -> list[str]:
        rows = table(self.head, self.cells())
        if not self.result.headline:
            return [rows]
        head = ["row", "metric", self.paper, "ours", "difference", "95 % interval of ours"]
        body = [head, *(one.cells() for one in self.result.headline)]
        if all(one.paper is None for one in self.result.headline):
            body = [[line[k] for k in (0, 1, 3, 5)] for line in body]
        return [table(body[0], body[1:]), folded("All rows", rows)]

    def json(self) -> str:
        """Return facts, headline and rows as JSON, with every run's figure in the headline."""
        found = {
            "facts": dict(self.facts),
            "headline": [asdict(line) for line in self.result.headline],
            "rows": [asdict(row) for row in self.result.rows],
        }
        return json.dumps(found, indent=1, default=float) + "\n"


def write(report: Report, folder: Path) -> list[Path]:
    """Write ``report.md`` and ``results.json`` into a folder that exists; return their paths."""
    written = [folder / "report.md", folder / "results.json"]
    for path, text in zip(written, (report.markdown(), report.json()), strict=True):
        with atomic_write(path) as file:
            file.write(text.encode())
    return written


def number(value: float | None) -> str:
    """Write a number with a suitable number of digits; empty for `None`."""
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


def folded(summary: str, text: str) -> str:
    """Write Markdown that a reader unfolds."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


@cache
def texts(file: str) -> dict[str, str]:
    """Return the parts of a file of the recipes by the names in comments before them."""
    text = resources.files("fstcrf.recipes").joinpath(file).read_text("utf-8")
    parts = (part.partition(" -->") for part in text.split("<!-- ")[2:])
    return {name: words.strip() for name, _, words in parts}


_LINE_END = re.compile(r"(?<!\n)\n(?!\n|- )\s*")


def prose(name: str, /, rows: Sequence[Sequence[str]] | None = None, **fields: object) -> str:
    """Return a section of ``texts.md``, with values in place of braces.

    With `rows`, its last paragraph is the head of their table, a bar between two columns.
    """
    known = {key: _LINE_END.sub(" ", text) for key, text in texts("texts.md").items()}
    text = known[name].format_map({"p_values": known["p-values"], **fields})
    if rows is None:
        return text
    above, _, head = text.rpartition("\n\n")
    return f"{above}\n\n{table(re.split(r' *[|] *', head), rows)}"


def template(name: str) -> str:
    """Return a text of ``templates.txt`` by its name: templates of features, or rules."""
    return texts("templates.txt")[name] + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def gain(pair: Comparison) -> str:
    """Write by how much the first labels are better: F in percent, with its 95 % interval."""
    return str(Margin(100.0 * (pair.f[0] - pair.f[1]), *(100.0 * x for x in pair.interval)))


_CPU = Path("/proc/cpuinfo")


def gain_over_splits(differences: Floats, *, test_share: float) -> str:
    """Write a mean over overlapping splits, with interval and p-value for at least three."""
    mean = f"{round(float(np.mean(differences)), 2) + 0.0:+.2f}"
    if len(differences) < 3:
        return mean
    test = resampled_t(differences, test_share=test_share)
    low, high = test.interval
    p = "p < 0.001" if test.p < 0.0005 else f"p = {test.p:.3f}"
    return f"{mean} ({low:+.2f} to {high:+.2f}; {p})"


@dataclass(frozen=True, slots=True)
class Margin:
    """The difference in F between two sets of runs, percent, with its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, mine: Sequence[SpanCounts], others: Sequence[SpanCounts], **options: Any) -> Margin:
        """Compare means of runs; see `bootstrapped_f` for options."""
        low, high = bootstrapped_f(mine, others, **{"resamples": 1999, **options})
        means = [statistics.fmean(one.f for one in side) for side in (mine, others)]
        return cls(100.0 * (means[0] - means[1]), 100.0 * low, 100.0 * high)

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f})"

    def ends(self, name: str, metric: str, over: str) -> Iterator[Row]:
        """Yield both ends as rows."""
        for side, end in (("lower", self.low), ("upper", self.high)):
            yield Row(name, f"{metric}{side} end (95 %, {over})", end)


def spread(values: Sequence[float], write: Callable[[float], str] = "{:.2f}".format) -> str:
    """Write a mean, and for several values their standard deviation."""
    deviation = f" ± {write(statistics.stdev(values))}" if len(values) > 1 else ""
    return f"{write(statistics.fmean(values))}{deviation}"


def chances(pair: Comparison) -> list[str]:
    """Write the p-values of a comparison: McNemar's of tokens and sentences, of randomised F."""
    return [f"{p:.3g}" for p in (pair.tokens.exact, pair.sentences.exact, pair.randomised)]


def chance_of_no_gain(name: str, runs: Sequence[float], other: float) -> Iterator[Row]:
    """Yield the p-value of a t-test over runs, which ignores variation between documents."""
    from scipy.stats import ttest_1samp  # noqa: PLC0415 (slow to import)

    if len(set(runs)) > 1:
        p = float(ttest_1samp(runs, other).pvalue)
        yield Row(name, "p of no difference, t-test over runs, two-sided", p)


def provenance(packages: Sequence[str] = ()) -> dict[str, str]:
    """Return the facts that a repetition needs, including versions of packages."""
    versions = [f"Python {platform.python_version()}", f"NumPy {np.__version__}"]
    for name in packages:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "fstcrf": f"{importlib.metadata.version('fstcrf')}, {_commit()}",
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
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return "an installed package"
    commit = _git(root, "rev-parse", "--short=12", "HEAD") or "unknown"
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"commit {commit}" + ("-dirty" if changed else "")


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


_PER_STYLE = 10  # colours before matplotlib begins again


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of a panel."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]  # the same length as x; `None` or NaN interrupts the line


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over one axis."""

    label: str  # of the vertical axis, with its unit
    curves: Sequence[Curve]
    log: bool = False  # the vertical axis is logarithmic
    # bottom, top: its ends
    bottom: float | None = None
    top: float | None = None
    level: tuple[str, float] | None = None  # A horizontal line with its name


def blank_figure(width: float, height: float) -> Any:
    """Return a ``matplotlib.figure.Figure`` with a size in inches."""
    advice = "it needs matplotlib: pip install 'fstcrf[recipes]'"
    figure = optional("matplotlib.figure", advice).Figure
    return figure(figsize=(width, height), layout="constrained")


def draw(
    path: Path,
    panels: Sequence[Panel],
    x_label: str,
    *,
    size: tuple[float, float],
    log: bool = False,
) -> None:
    """Draw panels with a common horizontal axis and a size in inches; the first has the legend."""
    figure = blank_figure(*size)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(rows, panels, strict=True):
        for k, curve in enumerate(panel.curves):
            y = [float("nan") if value is None else value for value in curve.y]
            style = ("-", "--", ":")[k // _PER_STYLE % 3]
            marker = "o" if len(y) < _PER_STYLE else None
            axes.plot(curve.x, y, style, marker=marker, label=curve.name, linewidth=1.2)
        if panel.level is not None:
            name, height = panel.level
            axes.axhline(height, color="black", linewidth=0.8, label=name)
        axes.set_yscale("log" if panel.log else "linear")
        axes.set_ylim(panel.bottom, panel.top)
        axes.set_ylabel(panel.label)
    rows[0].legend(fontsize="small" if len(panels[0].curves) < _PER_STYLE else "x-small")
    rows[-1].set_xscale("log" if log else "linear")
    rows[-1].set_xlabel(x_label)
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:], metadata={"Date": None})
