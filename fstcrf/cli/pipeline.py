"""``fstcrf train FILE.toml``: taggers in a row, declared in a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from fstcrf.cli.options import LOG_JSON, output_option, spare_inputs, threads_option
from fstcrf.cli.reporting import (
    INTERRUPTED,
    STOPPING,
    Failure,
    reporter,
    stopping,
    warnings_to,
)
from fstcrf.cli.structures import STRUCTURE, structure_command
from fstcrf.ext.pipelines.trained import COMPOSITION, MANIFEST
from fstcrf.files import held
from fstcrf.taggers.pipelines import Pipeline, Task, read_pipeline
from fstcrf.text.lines import read_text

_FILES = ("data", "dev", "template", "grammar", "model")
"""Keys of a declaration whose values are files."""


@structure_command
@click.argument("path", metavar="FILE.toml")
@output_option("DIR", "a folder for the taggers", required=True)
@STRUCTURE
@threads_option
@LOG_JSON
def train(path: str, output: str, *, threads: int, log_json: bool) -> None:
    """Train a pipeline, task after task.

    Finished tasks stay in the folder. They are trained again only if their data or options have
    changed. An interrupted task continues from its last state. Ctrl-C stops training after the
    current iteration; a second Ctrl-C stops it at once.

    \b
    fstcrf train notices.toml -o notices
    """
    declared = read_pipeline(path)
    if Path(output).exists() and not Path(output).is_dir():
        raise click.UsageError(f"--output {output} is a file, expected a folder")
    for file in _written_to(output, declared):
        spare_inputs(file, _named_in(path))
    with held(output, "training"), reporter(as_json=log_json, max_iterations=None) as told:
        try:
            with stopping(told.line(STOPPING)), warnings_to(told.data):
                found = declared.train(
                    output, threads=threads, report=told.iteration, told=told.data
                )
        except KeyboardInterrupt:
            message = "interrupted: the same command goes on where it was"
            raise Failure(message, INTERRUPTED) from None
        told.done(f"{output}: {' → '.join(found.composition._order)}", pipeline=output)


def _written_to(folder: str, declared: Pipeline) -> list[str]:
    """Return the files that training writes into a folder."""
    tasks = [f"{task.name}.fstcrf" for task in declared.tasks if isinstance(task, Task)]
    return [str(Path(folder) / name) for name in (*tasks, COMPOSITION, MANIFEST)]


def _named_in(path: str) -> list[str]:
    """Return a declaration and the files that it names."""
    given = tomllib.loads(read_text(path))
    tables = [given, *given["task"].values()]
    values = [table[key] for table in tables for key in _FILES if key in table]
    names = [name for one in values for name in ([one] if isinstance(one, str) else one)]
    place = Path(path).parent
    return [
        path,
        *(str(place / part) for name in names for part in (name, name.rpartition("=")[2])),
    ]
