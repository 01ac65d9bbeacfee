"""``fstcrf pipeline``: taggers in a row, declared in a TOML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fstcrf.arrays import Floats
from fstcrf.cli.answers import Counts, Search, search_budget
from fstcrf.cli.models import constrained, is_chain
from fstcrf.cli.options import grammar_option, input_options, search_options, threads_option
from fstcrf.cli.reporting import INTERRUPTED, STOPPING, Failure, reporter, stopping, warnings_to
from fstcrf.cli.sources import model_input
from fstcrf.cli.tagging import Addition, Wishes, check_sums, shown, tagged, write_tagged
from fstcrf.corpus import Column, Corpus
from fstcrf.pipelines import TrainedPipeline, load_pipeline, read_pipeline
from fstcrf.pipelines.trained import Decode

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
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    default="-",
    help="Where to; .gz is compressed.  [default: standard output]",
)
@click.option(
    "--decode",
    type=click.Choice(["cascade", "joint", "marginals"]),
    help="cascade: one tagger after the other, by the best labels of those before it. joint: all "
    "together. marginals: one after the other, by what those before it think of every label.  "
    "[default: what the pipeline's file says, else cascade]",
)
@click.option("--task", "tasks", metavar="NAME", multiple=True, help="Print only this task's "
              "labels. Repeatable.")  # fmt: skip
@click.option(
    "--nbest", metavar="K", type=click.IntRange(min=1), help="Print the K best, each after # i p."
)
@click.option(
    "--probabilities", is_flag=True, help="Print label/probability, and # p before each sentence."
)
@click.option(
    "--confidence",
    is_flag=True,
    help="Before each sentence, # and the probability of its labels, or bounds of it, and of the "
    "model's probability that labels are legal.",
)
@grammar_option
@search_options
@input_options
@threads_option
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

    \b
    fstcrf pipeline tag notices new.txt --decode joint > tagged.txt
    """
    if given["confidence"] and (given["nbest"] is not None or given["probabilities"]):
        raise click.UsageError("--confidence is for the best labels: without --nbest or "
                               "--probabilities")  # fmt: skip
    model = _loaded(folder, given["decode"], given["grammar"])
    given["tapes"] = tapes = shown("--task", given["tasks"], model.tapes)
    places = [model.tapes.index(tape) for tape in tapes or model.tapes]
    counts = Counts()
    answer = _joint(model, counts, given) if model.decoder == "joint" else _steps(model, given)
    source = model_input(model.composition, columns=columns, kind=kind, separator=separator)

    def chosen(batch: Corpus) -> Addition:
        found = answer(batch)
        if len(found.columns) == len(places):
            return found
        return replace(found, columns=tuple(found.columns[k] for k in places))

    write_tagged(chosen, source, path, output)
    counts.report()


def _loaded(folder: str, decode: Decode | None, grammar: tuple[str, ...]) -> TrainedPipeline:
    """Return the pipeline of a folder, which decodes as asked, under grammars."""
    model = load_pipeline(folder)
    model = replace(model, decoder=decode or model.decoder)
    if not grammar:
        return model
    if model.decoder != "joint":
        raise click.UsageError("--grammar needs a joint decision: --decode joint")
    return replace(model, composition=constrained(model.composition, grammar))


# --- Jointly --------------------------------------------------------------------------------------


def _joint(
    model: TrainedPipeline, counts: Counts, given: dict[str, Any]
) -> Callable[[Corpus], Addition]:
    """Return what tags a batch as `fstcrf tag` does with a composition.

    Raises
    ------
    click.UsageError
        More is asked for than a chain has.
    """
    composition = model.composition
    for name in ("probabilities", "confidence"):
        if given[name] and is_chain(composition):
            raise click.UsageError(
                f'--{name} needs a transducer, and a joint decision by normalize = "chain" is '
                'none: decode in another way, or train with normalize = "product"'
            )
    search = Search(
        n=given["nbest"] or 1,
        on_no_path=given["on_no_path"],
        budget=search_budget(given["max_states"], given["max_seconds"]),
        threads=given["threads"],
        tapes=given["tapes"],
    )
    wishes = Wishes(
        search,
        ranked=given["nbest"] is not None,
        probabilities=given["probabilities"],
        confidence=given["confidence"],
    )
    check_sums(composition, wishes)
    return lambda batch: tagged(composition, batch, wishes, counts)


# --- One after the other --------------------------------------------------------------------------


def _steps(model: TrainedPipeline, given: dict[str, Any]) -> Callable[[Corpus], Addition]:
    """Return what tags a batch task after task.

    Raises
    ------
    click.UsageError
        Options of a search that there is not.
    """
    for name in ("on_no_path", "max_states", "max_seconds"):
        if given[name] not in (None, "error"):
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} needs a joint decision: --decode joint")
    n, threads = given["nbest"], given["threads"]
    if given["confidence"]:
        return lambda batch: _sure(model, batch)
    if n is None and not given["probabilities"]:
        return lambda batch: Addition(model.tag_columns(batch, threads=threads))
    probabilities, tapes = given["probabilities"], given["tapes"]
    return lambda batch: _ranked(model, batch, n, threads, tapes, probabilities=probabilities)


def _ranked(
    model: TrainedPipeline,
    batch: Corpus,
    n: int | None,
    threads: int,
    tapes: tuple[str, ...] | None,
    *,
    probabilities: bool,
) -> Addition:
    """Return the best labellings of some tapes of each sentence, with their probabilities."""
    names = tapes or model.tapes
    ranked = model.nbest_all(batch, n or 1, threads=threads, tapes=tapes)
    rows = model.marginals_all(batch, threads=threads) if probabilities else None
    comments, sentences = [], []
    cells: list[list[str]] = [[] for _ in names]
    for s, paths in enumerate(ranked):
        for i, path in enumerate(paths):
            comments.append(f"# {path.probability:f}" if n is None else
                            f"# {i} {path.probability:f}")  # fmt: skip
            sentences.append(s)
            tables = None if rows is None else _several(rows[s], model.tapes)
            for cell, (tape, labels) in zip(
                cells, _several(path.labels, names).items(), strict=True
            ):
                if tables is not None:
                    cell.extend(_with_chances(labels, model[tape].labels, tables[tape]))
                else:
                    cell.extend(labels)
    return Addition(tuple(map(Column.from_strings, cells)), comments, sentences)


def _with_chances(labels: Sequence[str], names: Sequence[str], table: Floats) -> list[str]:
    """Return labels of a task with their probabilities: ``label/probability``."""
    number = {label: j for j, label in enumerate(names)}
    return [f"{label}/{table[t, number[label]]:f}" for t, label in enumerate(labels)]


def _several(answer: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return what is answered of each task; of an only one it is not in a tuple."""
    return dict(zip(names, answer if len(names) > 1 else (answer,), strict=True))


def _sure(model: TrainedPipeline, batch: Corpus) -> Addition:
    """Return the best labels of the sentences, and how sure they are."""
    found = model.confidence_all(batch)
    comments = [f"# {one.probability} legal: {one.legal}" for one in found]
    cells: list[list[str]] = [[] for _ in model.tapes]
    for one in found:
        labels = _several(one.path.labels, model.tapes).values()
        for cell, mine in zip(cells, labels, strict=True):
            cell.extend(mine)
    return Addition(tuple(map(Column.from_strings, cells)), comments)
