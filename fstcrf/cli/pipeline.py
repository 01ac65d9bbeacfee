"""``fstcrf pipeline``: taggers in a row, declared in a TOML file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import click

from fstcrf.cli.models import constrained, tape_columns
from fstcrf.cli.options import (
    Parsed,
    check_outputs,
    grammar_option,
    input_options,
    spare_inputs,
    threads_option,
)
from fstcrf.cli.progress import progress, progress_option
from fstcrf.cli.questions import files_read, question, tagging_options
from fstcrf.cli.reporting import (
    INTERRUPTED,
    STOPPING,
    Failure,
    counted,
    reporter,
    say,
    stopping,
    warnings_to,
)
from fstcrf.cli.sources import check_columns, gold_labels, model_input
from fstcrf.cli.tagging import run_tokens, tag_file
from fstcrf.cli.weights import tuned, tuning_options, weighted, weights_option, weights_text
from fstcrf.errors import OptionError
from fstcrf.ext.pipelines.trained import COMPOSITION, MANIFEST, Decode, Folder
from fstcrf.files import held
from fstcrf.taggers.pipelines import (
    Pipeline,
    PipelineScore,
    Task,
    TrainedPipeline,
    load_pipeline,
    read_pipeline,
    score_pipeline,
)
from fstcrf.taggers.tagger import Normalize
from fstcrf.text.lines import read_text
from fstcrf.training.interruption import undisturbed
from fstcrf.training.record import TrainingRecord


def _ways(text: str) -> tuple[Decode, ...]:
    """Return the ways to decide that a text names."""
    known = get_args(Decode)
    found = tuple(text.split(","))
    odd = [way for way in found if way not in known]
    if odd or len(set(found)) < len(found):
        raise ValueError(f"{text!r}: expected ways, each once, of {', '.join(known)}")
    return found  # type: ignore[return-value]  # checked above


WAYS = Parsed("WAY,...", _ways)

_FILES = ("data", "dev", "template", "grammar", "model")
"""Keys of a declaration whose values are files."""


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

    Finished tasks stay in the folder. They are trained again only if their data or options have
    changed. An interrupted task continues from its last state. Ctrl-C stops training after the
    current iteration; a second Ctrl-C stops it at once.

    \b
    fstcrf pipeline train notices.toml -o notices
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


def _files_in(folder: str) -> list[str]:
    """Return the files of a trained pipeline."""
    return [str(Path(folder) / MANIFEST), *map(str, Path(folder).glob("*.fstcrf"))]


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
    fill: str | None,
    **given: Any,
) -> None:
    """Tag a file by a trained pipeline: its columns again, and one for each task.

    CoNLL-U is filled in place. It has the options of fstcrf tag.

    \b
    fstcrf pipeline tag notices new.txt --decode joint > tagged.txt
    """
    read = [*_files_in(folder), path, *files_read(given)]
    check_outputs({"--output": output}, read, text=("--output",))
    model = load_pipeline(folder)
    model = replace(model, decoder=given["decode"] or model.decoder)
    model = _changed(model, None, given["grammar"])
    if given["weights"] is not None and not model.together:
        raise click.UsageError("--weights is for tasks that are decided together: --decode joint")
    if given["normalize"] is not None:
        if model.way != "joint":
            raise click.UsageError(
                f"--normalize is for a joint decision, --decode joint; this is {model.way}"
            )
        model = _normalized(model, given["normalize"])
    model = _changed(model, given["weights"], ())
    asked = question(model, given, tape="task")
    source = model_input(
        model.composition, path=path, columns=columns, kind=kind, separator=separator, fill=fill
    )
    tag_file(model, source, path, output, asked).report()


@pipeline.command()
@click.argument("folder", metavar="DIR")
@click.argument("path", metavar="TEST")
@input_options
@click.option(
    "--target",
    metavar="TASK=COLUMN,...",
    help="Columns of the labels wanted.  [default: called like the tasks; those there are]",
)
@click.option(
    "--decode",
    "ways",
    type=WAYS,
    metavar="WAY,...",
    help=f"Decoding modes to compare, from {', '.join(get_args(Decode))}. Each is one row.  "
    "[default: cascade, marginals, joint; only joint under a grammar over several tasks]",
)
@click.option(
    "--normalize",
    type=click.Choice(["product", "chain"]),
    help=(
        "How to combine the taggers in a joint decision.  [default: the setting of the pipeline]"
    ),
)
@weights_option("Factor of each task's potentials in a joint decision, one for each, at least 0.")
@grammar_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@threads_option
@progress_option
def eval(  # noqa: A001 (the command's name)
    folder: str,
    path: str,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    target: str | None,
    ways: tuple[Decode, ...] | None,
    normalize: Normalize | None,
    weights: tuple[float, ...] | None,
    grammar: tuple[str, ...],
    as_json: bool,
    threads: int,
) -> None:
    """Score a pipeline on a file with gold labels, a row for each way to decide.

    Tasks without gold labels are decided but not scored. A cascade, and marginals, decide
    without weights.

    \b
    fstcrf pipeline eval notices test.txt --target field=gold --decode cascade,joint
    """
    model = load_pipeline(folder)
    if normalize is not None:
        model = _normalized(model, normalize)
    model = _changed(model, weights, grammar)
    ways = ways or _ways_of(model)
    for way in ways:
        _ = replace(model, decoder=way)._joint()  # impossible ones are reported early
    asked = {} if target is None else tape_columns("--target", target, model.tapes)
    wanted = {tape: asked.get(tape, tape) for tape in model.tapes}
    source = model_input(
        model.composition,
        path=path,
        columns=columns,
        kind=kind,
        separator=separator,
        targets=asked.values() if len(wanted) > 1 else wanted.values(),
        wanted=wanted.values(),
    )
    corpus = source.read(path)
    check_columns(model.composition, corpus)
    gold = gold_labels(corpus, wanted, asked, path)
    scores = []
    for way in ways:
        with counted(), progress(f"deciding by {way}", total=len(corpus)) as meter:
            scores.append(
                score_pipeline(
                    *(model, corpus, gold),
                    decode=way,
                    threads=threads,
                    told=meter.add,
                    together=run_tokens(replace(model, decoder=way)),
                )
            )
        if scores[-1].unproven:
            say(f"{way}: {scores[-1].unproven:,} sentences are the best found, not proven")
    if as_json:
        click.echo(json.dumps([asdict(score) for score in scores], ensure_ascii=False))
    else:
        click.echo(_table(scores))


def _ways_of(model: TrainedPipeline) -> tuple[Decode, ...]:
    """Return the ways to decide that a pipeline has: joint ones under any grammar."""
    try:
        _ = model.composition._cascade_taggers
    except OptionError:
        say("the grammar is over several tasks: scored by joint alone")
        return ("joint",)
    return ("cascade", "marginals", "joint")


def _table(scores: Sequence[PipelineScore]) -> str:
    """Return scores in columns, shares in percent."""
    first = scores[0]
    heads = ["decode", *(f"{tape} accuracy" for tape in first.accuracy)]
    heads += [f"{tape} F" for tape in first.spans]
    heads += ["all right"] * (len(first.accuracy) > 1) + ["sentences", "seconds"]
    rows = [heads]
    for score in scores:
        shares = [*score.accuracy.values(), *score.spans.values()]
        shares += [score.together] * (len(score.accuracy) > 1) + [score.sentences]
        cells = [f"{100 * share:.2f}" for share in shares]
        rows.append([score.decode, *cells, f"{score.seconds:.2f}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


@pipeline.command()
@click.argument("folder", metavar="DIR")
@click.argument("path", metavar="DEV")
@input_options
@tuning_options
@threads_option
@progress_option
def tune(
    folder: str,
    path: str,
    *,
    metric: str,
    target: str | None,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    threads: int,
) -> None:
    """Choose the weights of a joint decision on held-out data, and keep them in the pipeline.

    \b
    fstcrf pipeline tune notices dev.txt --metric field-F
    """
    model = load_pipeline(folder)
    how = {"columns": columns, "kind": kind, "separator": separator}
    found = tuned(model.composition, path, how, metric=metric, target=target, threads=threads)
    with undisturbed():
        Folder(Path(folder)).finish(found, model.decoder)
    say(f"{folder}: {weights_text(found)}; normalize {found.normalize}")


@pipeline.command()
@click.argument("folder", metavar="DIR")
def info(folder: str) -> None:
    """Describe a trained pipeline: its tasks, why the training of each ended, how it decides.

    \b
    fstcrf pipeline info notices
    """
    model = load_pipeline(folder)
    composition = model.composition
    click.echo(f"decides by {model.way}; joint decisions: {composition.normalize}")
    for acceptor in composition.conjuncts:
        click.echo(f"grammar: {acceptor.name}")
    for tagger, weight in zip(composition.taggers, composition.weights, strict=True):
        reads = ", ".join(tape.name for tape in tagger.reads)
        click.echo(
            f"{tagger.tape}: {len(tagger.labels)} labels, {len(tagger.theta):,} weights, "
            f"weight {weight:g}{f', reads {reads}' * bool(reads)}"
        )
        if tagger.record is not None:
            click.echo(f"  {_ended(tagger.record)}")


def _ended(record: TrainingRecord) -> str:
    """Describe the training of a task: its data, its end, and the score on held-out data."""
    held = (
        ""
        if record.dev_score is None
        else (f"; held-out score {100 * record.dev_score:.2f} at iteration {record.best_iteration}")
    )
    return (
        f"{record.sentences:,} sentences, {record.tokens:,} tokens; {record.iterations} "
        f"iterations ({record.reason}){held}"
    )


def _normalized(model: TrainedPipeline, normalize: Normalize) -> TrainedPipeline:
    """Return a pipeline with the requested way to multiply in joint decisions."""
    return replace(model, composition=replace(model.composition, normalize=normalize))


def _changed(
    model: TrainedPipeline, weights: Sequence[float] | None, grammar: Sequence[str]
) -> TrainedPipeline:
    """Return a pipeline with other weights, and under more grammars."""
    composition = weighted(model.composition, weights)
    if grammar:
        composition = constrained(composition, grammar)
    return replace(model, composition=composition)
