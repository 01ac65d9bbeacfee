"""``fstcrf report``: one page about the errors of a model, and its confidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fstcrf
from fstcrf.cli.models import Model, constrained, load_deciding, pipeline_of, whole
from fstcrf.cli.options import (
    SEED,
    TARGET,
    THEIR_TAPE,
    check_outputs,
    command,
    grammar_option,
    input_options,
    output_option,
    setting,
    shown_output,
    threads_option,
)
from fstcrf.cli.progress import progress, progress_option
from fstcrf.cli.reporting import say
from fstcrf.cli.sources import check_columns, model_input
from fstcrf.ext.report import Analysis, analyse, report_page, write_figures
from fstcrf.files import open_target

if TYPE_CHECKING:
    from fstcrf.ext.pipelines.trained import TrainedPipeline


@command()
@click.argument("model_path", metavar="MODEL")
@click.argument("path", metavar="TEST")
@output_option("FILE", "the page, as HTML; - is standard output", required=True)
@click.option("--against", metavar="MODEL", help="A second model to compare with the first.")
@setting("figures", str, None, "Also write the figures to files, as SVG and PNG.", metavar="DIR")
@grammar_option
@input_options
@THEIR_TAPE
@click.option("--target", metavar="COLUMN", help=TARGET)
@SEED
@threads_option
@progress_option
def report(
    model_path: str,
    path: str,
    *,
    output: str,
    against: str | None,
    figures: str | None,
    grammar: tuple[str, ...],
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    tape: str | None,
    target: str | None,
    seed: int,
    threads: int,
) -> None:
    """Write a page about a model's errors.

    It has scores, confusions and errors on text with gold labels, in one file that loads no
    others. --grammar is of the first model. Needs matplotlib: pip install
    'fstcrf[recipes]'.

    \b
    fstcrf report ner.fstcrf test.txt -o ner.html
    fstcrf report ner.fstcrf test.txt -o both.html --against old.fstcrf
    """
    inputs = [model_path, path, against, *grammar]
    check_outputs({"--output": output}, inputs, text=("--output",))
    how = {"columns": columns, "kind": kind, "separator": separator}
    model = load_deciding(model_path)
    if grammar:
        ruled: Any = constrained(whole(model), grammar)
        pipeline = pipeline_of(model)
        model = ruled if pipeline is None else replace(pipeline, composition=ruled)
    models, names = [model], [Path(model_path).name]
    if against is not None:
        models.append(load_deciding(against))
        names.append(Path(against).name if Path(against).name not in names else against)
    sides = [
        _analysed(one, path, how, tape=tape, target=target, seed=seed, threads=threads)
        for one in models
    ]
    facts = [f"fstcrf {fstcrf.__version__}; {Path(path).name}"]
    if grammar:
        facts.append(f"{names[0]} under {', '.join(grammar)}")
    page = report_page(*sides, names=names, facts=facts, seed=seed)
    with open_target(output) as file:
        file.write(page.encode())
    if figures is not None:
        write_figures(figures, *sides, names=names)
    scores = [f"{name} {100 * side.f:.2f}" for name, side in zip(names, sides, strict=True)]
    say(f"{shown_output(output)}: {', '.join(scores)}")


def _analysed(
    model: Model | TrainedPipeline,
    path: str,
    how: dict[str, Any],
    *,
    tape: str | None,
    target: str | None,
    seed: int,
    threads: int,
) -> Analysis:
    tapes = model.tapes
    if tape is None and len(tapes) > 1:
        raise click.UsageError(f"--tape is missing: the tapes are {', '.join(tapes)}")
    if tape is not None and tape not in tapes:
        raise click.UsageError(f"--tape {tape}: the tapes are {', '.join(tapes)}")
    name = tape or tapes[0]
    column = target or name
    source = model_input(whole(model), path=path, targets=[column], wanted=[column], **how)
    corpus = source.read(path)
    corpus.column(column)  # a missing column is reported before the tagger decodes
    check_columns(whole(model), corpus)
    with progress(f"analysing {Path(path).name}, {len(corpus):,} sentences", "") as meter:
        return analyse(
            *(model, corpus, column),
            tape=name,
            seed=seed,
            threads=threads,
            told=lambda share: meter.measured(lambda: share),
        )
