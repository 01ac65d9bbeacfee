"""``fstcrf pipeline``: taggers in a row, declared in a TOML file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fstcrf.cli.models import constrained
from fstcrf.cli.options import threads_option
from fstcrf.cli.reporting import INTERRUPTED, STOPPING, Failure, reporter, stopping, warnings_to
from fstcrf.cli.sources import model_input
from fstcrf.cli.tagging import question, tag_file, tagging_options
from fstcrf.pipelines import load_pipeline, read_pipeline

__all__ = ["pipeline"]


@click.group()
def pipeline() -> None:
    """Train and use taggers in a row, each reading the labels of those before it."""


@pipeline.command()
@click.argument("path", metavar="FILE.toml")
@click.option("-o", "--output", metavar="DIR", required=True, help="Folder for the taggers.")
@threads_option
@click.option("--log-json", is_flag=True, help="Progress as JSON lines on standard error.")
def train(path: str, output: str, *, threads: int, log_json: bool) -> None:
    """Train a pipeline, task after task.

    Finished tasks stay in the folder and are not trained again, unless what decides them has
    changed; one that was interrupted goes on where it was. Ctrl-C ends training after the iteration
    that it comes in, a second one at once.

    \b
    fstcrf pipeline train notices.toml -o notices
    """
    declared = read_pipeline(path)
    if Path(output).exists() and not Path(output).is_dir():
        raise click.UsageError(f"--output {output} is a file, expected a folder")
    with reporter(as_json=log_json, max_iterations=None) as told:
        try:
            with stopping(told.line(STOPPING)), warnings_to(told.data):
                found = declared.train(
                    output, threads=threads, report=told.iteration, told=told.data
                )
        except KeyboardInterrupt:
            message = "interrupted: the same command goes on where it was"
            raise Failure(message, INTERRUPTED) from None
        told.done(f"{output}: {' → '.join(found.composition.order)}", pipeline=output)


@pipeline.command()
@click.argument("folder", metavar="DIR")
@click.argument("path", metavar="[INPUT]", default="-")
@tagging_options("task")
def tag(
    folder: str,
    path: str,
    output: str,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    **given: Any,
) -> None:
    """Tag a file by a trained pipeline: its columns again, and one for each task.

    The options are those of fstcrf tag.

    \b
    fstcrf pipeline tag notices new.txt --decode joint > tagged.txt
    """
    model = load_pipeline(folder)
    model = replace(model, decoder=given["decode"] or model.decoder)
    if given["grammar"] and model.together:
        model = replace(model, composition=constrained(model.composition, given["grammar"]))
    asked = question(model, given, tape="task")
    source = model_input(model.composition, columns=columns, kind=kind, separator=separator)
    tag_file(model, source, path, output, asked)
