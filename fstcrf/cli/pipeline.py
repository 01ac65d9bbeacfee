"""``fstcrf pipeline``: taggers in a row, declared in a TOML file.

========  ==================
pipeline  its two commands
========  ==================
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fstcrf.cli.failures import say
from fstcrf.cli.models import constrained
from fstcrf.cli.options import grammar_option, input_options, threads_option
from fstcrf.cli.progress import reporter
from fstcrf.cli.sources import model_input

if TYPE_CHECKING:
    from fstcrf.corpus import Column, Corpus
    from fstcrf.lattice import Path as Labelling
    from fstcrf.pipelines import TrainedPipeline
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
    changed; one that was interrupted goes on where it was.

    \b
    fstcrf pipeline train notices.toml -o notices
    """
    from fstcrf.pipelines import read_pipeline

    declared = read_pipeline(path)
    if Path(output).exists() and not Path(output).is_dir():
        raise click.UsageError(f"--output {output} is a file, expected a folder")
    with reporter(as_json=log_json, max_iterations=None) as told:
        found = declared.train(output, threads=threads, report=told.iteration, told=told.data)
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
@input_options
@threads_option
def tag(
    folder: str,
    path: str,
    output: str,
    *,
    decode: Decode | None,
    tasks: tuple[str, ...],
    nbest: int | None,
    probabilities: bool,
    confidence: bool,
    grammar: tuple[str, ...],
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    threads: int,
) -> None:
    """Tag a file by a trained pipeline: its columns again, and one for each task.

    \b
    fstcrf pipeline tag notices new.txt --decode joint > tagged.txt
    """
    from dataclasses import replace

    from fstcrf.corpus import ColumnWriter
    from fstcrf.corpus.files import open_target
    from fstcrf.pipelines import load_pipeline

    if confidence and (nbest is not None or probabilities):
        raise click.UsageError("--confidence is for the best labels: without --nbest or "
                               "--probabilities")  # fmt: skip
    model = load_pipeline(folder)
    if grammar:
        if (decode or model.decode) != "joint":
            raise click.UsageError("--grammar needs a joint decision: --decode joint")
        model = replace(model, composition=constrained(model.composition, grammar))
    odd = [name for name in tasks if name not in model.tapes]
    if odd:
        raise click.UsageError(f"--task {odd[0]}: the tasks are {', '.join(model.tapes)}")
    shown = [k for k, tape in enumerate(model.tapes) if not tasks or tape in tasks]
    source = model_input(model.composition, columns=columns, kind=kind, separator=separator)
    writer: ColumnWriter | None = None
    with open_target(output) as file:
        for batch in source.stream(path):
            kept, between = source.written(batch)
            if confidence:
                found = _sure(model, batch, decode, threads)
            else:
                found = _answer(model, batch, decode, nbest, threads, probabilities=probabilities)
            rows = batch if found.sentences is None else batch.select(found.sentences)
            added = [f"%{k}" for k in shown]
            writer = writer or ColumnWriter(file, [*kept, *added], separator=between)
            for name, k in zip(added, shown, strict=True):
                rows = rows.with_interned(name, found.columns[k])
            writer.write(rows, comments=found.comments)


class _Found:
    """What is written of a batch: labels, a line before each sentence, which sentences."""

    def __init__(
        self,
        columns: tuple[Column, ...],
        comments: list[str] | None = None,
        sentences: list[int] | None = None,
    ) -> None:
        self.columns, self.comments, self.sentences = columns, comments, sentences


def _answer(
    model: TrainedPipeline,
    batch: Corpus,
    decode: Decode | None,
    n: int | None,
    threads: int,
    *,
    probabilities: bool,
) -> _Found:
    if n is None and not probabilities:
        return _Found(model.tag_columns(batch, decode=decode, threads=threads))
    from fstcrf.corpus import Column

    ranked = model.nbest_all(batch, n or 1, decode=decode, threads=threads)
    _warn(ranked)
    rows = model.marginals_all(batch, decode=decode, threads=threads) if probabilities else None
    comments, sentences = [], []
    cells: list[list[str]] = [[] for _ in model.tapes]
    for s, paths in enumerate(ranked):
        for i, path in enumerate(paths):
            comments.append(f"# {path.probability:f}" if n is None else
                            f"# {i} {path.probability:f}")  # fmt: skip
            sentences.append(s)
            several = path.labels if len(model.tapes) > 1 else (path.labels,)
            for k, labels in enumerate(several):
                if rows is None:
                    cells[k] += labels
                    continue
                table = rows[s][k] if len(model.tapes) > 1 else rows[s]
                number = {label: j for j, label in enumerate(model.taggers[k].labels)}
                cells[k] += [
                    f"{label}/{table[t, number[label]]:f}" for t, label in enumerate(labels)
                ]
    columns = tuple(Column.from_strings(strings) for strings in cells)
    return _Found(columns, comments, sentences)


def _sure(model: TrainedPipeline, batch: Corpus, decode: Decode | None, threads: int) -> _Found:
    """Return the best labels of the sentences that have any, and how sure they are."""
    from fstcrf.corpus import Column

    ranked = model.nbest_all(batch, 1, decode=decode, threads=threads)
    _warn(ranked)
    sentences = [s for s, paths in enumerate(ranked) if paths]
    found = model.confidence_all(batch.select(sentences), decode=decode)
    comments = [f"# {one.probability} legal: {one.legal}" for one in found]
    cells: list[list[str]] = [[] for _ in model.tapes]
    for one in found:
        several = one.path.labels if len(model.tapes) > 1 else (one.path.labels,)
        for cell, labels in zip(cells, several, strict=True):
            cell.extend(labels)
    return _Found(tuple(map(Column.from_strings, cells)), comments, sentences)


def _warn(ranked: Iterable[list[Labelling]]) -> None:
    missing = sum(not paths for paths in ranked)
    if missing:
        say(f"warning: {missing} sentences have no legal labelling and are left out")
