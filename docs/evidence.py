"""Make the evidence: every recipe in full, and the tables of their reports.

``python docs/evidence.py --data FOLDER [NAME...]``: reports are kept under ``build/evidence``, and
an interrupted run continues there. Nothing is run with uncommitted changes. A complete report is
stored as ``docs/measurements/results-NAME.tsv``, with plots and frozen settings beside it, and
``results.tsv`` has the headlines of all. The pages are written by hand; each names the date of the
report that it describes, and a page of another report is named at the end.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fstcrf.recipes import RECIPES
from fstcrf.recipes.neural import FEW_SEEDS
from fstcrf.recipes.protocol import SEEDS
from fstcrf.recipes.seminars import SPLITS_FULL

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "measurements"
REPORTS = ROOT / "build" / "evidence"
INDEX = PAGES / "results.tsv"

_FACT = re.compile(r"^([a-z ]+)\t([^\t\n]*)$", re.MULTILINE)
_TABLE_OF_FACTS = re.compile(r"^\t\n(?:.*\t.*\n)+", re.MULTILINE)
_PICTURE = re.compile(r"!\[([^]]*)\]\(plots/([^)]+)\)")

UNPAGED = {"usaddress"}
"""Recipes without a page: their reports quote the corpus."""

RUNS = {"neural": FEW_SEEDS, "seminars": SPLITS_FULL}
"""Runs of the rows of recipes whose pages do not tell it row by row; `SEEDS` of others."""

SETTINGS = "settings.json"
_MADE_BY = re.compile(r"commit ([0-9a-f]+)")

_HEADLINE = re.compile(r"^row\tmetric\t.*\t95 % interval of ours\n((?:.*\t.*\n)+)", re.MULTILINE)


def run(name: str, data: Path, reports: Path, jobs: int = 1) -> int:
    """Run a recipe in full, or the rest of it, in several processes; return its exit status."""
    command = [sys.executable, "-m", "fstcrf", "recipe", name, "--full"]
    command += ["--data", str(data), "-o", str(reports / name)]
    told = ["--progress", *["--no-progress"] * (jobs - 1)]
    quiet = subprocess.DEVNULL
    several = [subprocess.Popen([*command, progress], stdout=quiet) for progress in told]  # noqa: S603
    return max((one.wait() for one in several), key=abs)


def facts(table: str) -> dict[str, str]:
    """Return the facts of a stored report: date, commit, machine, hours."""
    found = _TABLE_OF_FACTS.search(table)
    return dict(_FACT.findall(found[0])) if found else {}


def stored(name: str, report: str) -> str:
    """Return the stored form of a report in Markdown."""
    text = report.replace(f"`fstcrf recipe {name}`", f"`fstcrf recipe {name} --full`", 1)
    text = _PICTURE.sub(lambda m: f"Plot: {picture(name, m[2])}", text)
    return tab_separated(text.replace(f"frozen in `{SETTINGS}`", f"frozen in `{frozen(name)}`"))


def picture(name: str, file: str) -> str:
    """Return the name of the file of a plot."""
    stem, _, suffix = file.rpartition(".")
    return f"results-{name}.{suffix}" if stem == name else f"results-{name}-{stem}.{suffix}"


def frozen(name: str) -> str:
    """Return the name of the file of settings."""
    return f"results-{name}-{SETTINGS}"


def made_elsewhere(report: str) -> list[str]:
    """Return the commits that made parts of a report, without its own commit."""
    known = facts(report)
    own, parts = (_MADE_BY.findall(known.get(fact, "")) for fact in ("fstcrf", "of earlier runs"))
    return sorted(set(parts) - set(own))


def uncommitted() -> str:
    """Return the uncommitted changes in one line; empty if the tree is clean."""
    command = ["git", "status", "--porcelain", "--untracked-files=no"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    return ", ".join(line[3:] for line in found.stdout.splitlines())


def write_pages(names: Sequence[str], reports: Path, pages: Path) -> Iterator[str]:
    """Store complete reports; yield a line on each problem."""
    for name in names:
        path = reports / name / "report.md"
        if name in UNPAGED:
            yield f"{name}: no page, for its report quotes the corpus"
            continue
        if not path.exists():
            yield f"{name}: no report"
            continue
        report = path.read_text("utf-8")
        if "**Not complete**" in report:
            yield f"{name}: its run was not complete, its table stays as it is"
            continue
        table = stored(name, report)
        (pages / f"results-{name}.tsv").write_text(table, "utf-8")
        for plot in sorted((reports / name).glob("plots/*")):
            shutil.copy(plot, pages / picture(name, plot.name))
        if (reports / name / SETTINGS).exists():
            shutil.copy(reports / name / SETTINGS, pages / frozen(name))
        page = pages / f"results-{name}.md"
        if not page.exists() or facts(table)["date"] not in page.read_text("utf-8"):
            yield f"{page.name}: it does not describe the report of {facts(table)['date']}"


def tab_separated(text: str) -> str:
    """Return a report with tabs between the cells of its tables, and all else as comments."""
    kept = []
    for line in text.splitlines():
        if re.fullmatch(r"\|(?:[ :-]+\|)+", line) and "-" in line:
            continue  # the rule below the names of columns
        if line.startswith("|"):
            kept.append("\t".join(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]))
        elif line.strip() and not line.startswith("!["):
            kept.append(f"# {line.lstrip('# ')}")
        elif kept and kept[-1]:
            kept.append("")
    return "\n".join([*kept, ""])


def hours(pages: Path) -> str:
    """Return the table of the sources of each page: commit, date, hours."""
    lines = ["| recipe | commit | date | hours of a processor |", "| --- | --- | --- | --- |"]
    together = 0.0
    for name in sorted(RECIPES):
        path = pages / f"results-{name}.tsv"
        known = facts(path.read_text("utf-8")) if path.exists() else {}
        if "processor" in known:
            commit = known["fstcrf"].partition("commit ")[2]
            time = known["processor"].partition(" h")[0]
            together += float(time)
            lines.append(f"| `{name}` | {commit} | {known['date'][:10]} | {time} |")
    return "\n".join([*lines, f"| together | | | {together:.2f} |"])


def claims(pages: Path) -> str:
    """Return the table of all headlines: claim, published figure and ours, from the pages."""
    lines = [
        "| experiment | row | metric | published | ours | runs | verdict | command |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in sorted(RECIPES):
        path = pages / f"results-{name}.tsv"
        page = path.read_text("utf-8") if path.exists() else ""
        for row in headline(page):
            what, metric, published, ours, _, interval = row
            runs = str(runs_of(name, page, what)) if "±" in ours else "1"
            command = f"`fstcrf recipe {name} --full`"
            cells = name, what, metric, published, ours, runs
            lines.append(f"| {' | '.join((*cells, verdict(published, ours, interval), command))} |")
    return "\n".join(lines)


def runs_of(name: str, page: str, row: str) -> int:
    """Return how many runs the figure of a row is the mean of."""
    told = re.search(rf"^{re.escape(row)}\t.* over ([0-9]+) seeds(?:\t|$)", page, re.MULTILINE)
    if told:
        return int(told[1])
    return SEEDS if row.startswith("news") else RUNS.get(name, SEEDS)


def headline(page: str) -> list[list[str]]:
    """Return the rows of the table at the beginning of a page, if it has one."""
    table = _HEADLINE.search(page)
    rows = table[1].splitlines() if table else []
    return [row.split("\t") for row in rows]


def verdict(published: str, ours: str, interval: str) -> str:
    """Return whether a published figure is reached; more is better."""
    if not published:
        return "no figure is published"
    wanted, found = _number(published), _number(ours.partition("±")[0])
    if found >= wanted:
        return "reached"
    highest = _number(interval.rpartition(" to ")[2]) if interval else found
    return "not decided" if highest >= wanted else "not reached"


def _number(text: str) -> float:
    return float(text.replace(",", "").strip())


def summary(pages: Path) -> str:
    """Return the headlines of all reports, and the hours of the processor that they took."""
    return tab_separated(f"{claims(pages)}\n\n{hours(pages)}\n")


def main() -> int:
    """Run recipes and write their pages; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(description="Every recipe in full, and its page.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="recipes; all by default")
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--reports", type=Path, default=REPORTS, help="folder of the reports")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share each recipe")
    parser.add_argument("--pages-only", action="store_true", help="from reports that are there")
    options = parser.parse_args()
    names = options.names or [name for name in RECIPES if name not in UNPAGED]
    if unknown := sorted(set(names) - set(RECIPES)):
        parser.error(f"no such recipe: {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    if not options.pages_only and (changed := uncommitted()):
        parser.error(f"not committed: {changed}; commit first, so that reports name what made them")
    problems = []
    for name in [] if options.pages_only else names:
        sys.stderr.write(f"== {name}\n")
        if status := run(name, options.data, options.reports, options.jobs):
            problems.append(f"{name}: ended with {status}")
    problems += write_pages(names, options.reports, PAGES)
    for name in names:
        path = options.reports / name / "report.md"
        if path.exists() and (commits := made_elsewhere(tab_separated(path.read_text("utf-8")))):
            sys.stderr.write(f"{name}: parts of it were made by {', '.join(commits)}\n")
    INDEX.write_text(summary(PAGES), "utf-8")
    sys.stderr.writelines(f"{line}\n" for line in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
