"""``fstcrf recipe``: experiments that anyone can repeat, each one command."""

from __future__ import annotations

import os
from pathlib import Path

import click

from fstcrf.cli.options import SEED, command, output_option
from fstcrf.cli.progress import progress, progress_option
from fstcrf.cli.reporting import say
from fstcrf.recipes import RECIPES, Setting, run_recipe
from fstcrf.recipes.report import Report

_DATA = "FSTCRF_DATA"


@command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--data", metavar="DIR", help=f"Folder of the corpora. [default: the variable {_DATA}]"
)
@output_option("DIR", "report.md, results.json and plots")
@click.option("--full", is_flag=True, help="Run everything, including the slow parts.")
@SEED
@progress_option
def recipe(
    name: str | None, *, data: str | None, output: str | None, full: bool, seed: int
) -> None:
    """Repeat a published experiment.

    Prints its numbers next to the published ones. Without a name, the recipes are listed. After
    Ctrl-C, a report of the finished parts remains, and the same command continues from there. Use
    another folder for another seed, other data or --full.

    \b
    fstcrf recipe usaddress --data corpora -o out
    """
    if name is None:
        for known in RECIPES.values():
            click.echo(f"{known.name:<16} {known.title}")
        return
    if name not in RECIPES:
        raise click.UsageError(f"no recipe {name!r}; there are: {', '.join(RECIPES)}")
    folder = None if output is None else Path(output)
    setting = Setting(_data_folder(data), folder, full=full, seed=seed, say=say)
    with progress(f"recipe {name}", "") as meter:
        meter.measured(lambda: setting.course.share)
        found = run_recipe(RECIPES[name], setting)
    _show(found)
    if output is not None:
        say(f"{output}: report.md, results.json")


def _data_folder(data: str | None) -> Path:
    given = data or os.environ.get(_DATA)
    if not given:
        raise click.UsageError(f"no data folder: give --data DIR, or set {_DATA}")
    if not Path(given).is_dir():
        raise click.UsageError(f"{given}: no such folder; give --data DIR, or set {_DATA}")
    return Path(given)


def _show(report: Report) -> None:
    """Print a report: formatted for a terminal, else in the form of report.md."""
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        click.echo(report.markdown(), nl=False)
        return
    table = Table(*report.head, title=report.title)
    for column in table.columns[2:]:
        column.justify = "right"
    for cells in report.cells():
        table.add_row(*cells)
    console.print(table)
    for section in report.result.sections:
        console.print(Markdown(section))
    for name, fact in report.facts.items():
        console.print(f"{name:<12} {fact}", markup=False, highlight=False)
