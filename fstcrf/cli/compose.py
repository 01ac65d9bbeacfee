"""``fstcrf compose``: saved taggers, and grammars, as one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from fstcrf.cli.models import (
    Model,
    Part,
    columns_read,
    constrained,
    is_chain,
    load_deciding,
    load_model,
    model_files,
    pipeline_of,
    plan_text,
    save,
    taggers,
    whole,
)
from fstcrf.cli.options import (
    check_outputs,
    command,
    grammar_option,
    input_options,
    output_option,
    threads_option,
    weights_option,
)
from fstcrf.cli.progress import progress_option
from fstcrf.cli.reporting import say, tell
from fstcrf.cli.weights import tuned, tuning_options, weights_text
from fstcrf.errors import OptionError
from fstcrf.files import resolved
from fstcrf.taggers import CRF, JointCRF
from fstcrf.taggers import compose as composed
from fstcrf.training.interruption import undisturbed


@command()
@click.argument("paths", metavar="MODEL...", nargs=-1, required=True)
@output_option("OUT", "the model, or the folder of the pipeline", required=True)
@grammar_option
@weights_option
@click.option(
    "--normalize",
    type=click.Choice(["product", "chain"]),
    help="product: add scores. chain: multiply p(first tape) by p(second | first).  [default: "
    "chain if a tagger reads another, and weights are neither given nor tuned]",
)
@click.option("--tune", metavar="DEV", help="Choose the weights on held-out data.")
@tuning_options
@input_options
@threads_option
@progress_option
def compose(
    paths: tuple[str, ...],
    output: str,
    *,
    grammar: tuple[str, ...],
    weights: tuple[float, ...] | None,
    normalize: Literal["product", "chain"] | None,
    tune: str | None,
    metric: str,
    target: str | None,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    threads: int,
) -> None:
    """Compose taggers, which then decide together.

    A tagger that was trained with --reads reads the labels that the others consider, not decided
    ones. The compiled machine and its cost per token are printed to standard error.

    \b
    fstcrf compose pos.fstcrf chunk.fstcrf -o joint.fstcrf --tune dev.txt
    fstcrf compose chunk.fstcrf --grammar bio -o legal.fstcrf
    fstcrf compose notices -o notices --tune dev.txt    # a pipeline
    """
    if len(paths) == 1 and not grammar and tune is None:
        raise click.UsageError("too few models: give two models or more, --grammar or --tune")
    if tune is None and (target or columns or kind):
        raise click.UsageError("--target, --columns and --format belong to --tune")
    folder = paths[0] if len(paths) == 1 and Path(paths[0]).is_dir() else None
    same = folder is not None and resolved(output) == resolved(folder)
    inputs = [file for path in paths for file in model_files(path)]
    check_outputs({"--output": None if same else output}, [*inputs, *grammar, tune])
    deciding = [load_deciding(path) if path == folder else load_model(path) for path in paths]
    parts, pipeline = list(map(whole, deciding)), pipeline_of(deciding[0])
    _check_tapes(paths, parts)
    kind = normalize or ("product" if tune is not None and not any(map(is_chain, parts)) else None)
    joint = constrained(composed(*parts, weights=weights, normalize=kind), grammar)
    warn_of_columns(taggers(joint))
    if tune is not None and not isinstance(joint, JointCRF):
        raise click.UsageError("--tune is for taggers of tokens; one here is of segments")
    if tune is not None and isinstance(joint, JointCRF):
        how = {"columns": columns, "kind": kind, "separator": separator}
        joint = tuned(joint, tune, how, metric=metric, target=target, threads=threads)
    tell(plan_text(joint))
    with undisturbed():
        if same and pipeline is not None and isinstance(joint, JointCRF):
            replace(pipeline, composition=joint).save(output)
        else:
            save(joint, output)
    multiplied = joint.normalize if isinstance(joint, JointCRF) else "product"
    say(f"{output}: {', '.join(joint.tapes)}; normalize {multiplied}; {weights_text(joint)}")


def _check_tapes(paths: Sequence[str], parts: Sequence[Model]) -> None:
    """Refuse a tape that is written twice; the message names the files."""
    writers: dict[str, str] = {}
    for path, part in zip(paths, parts, strict=True):
        for tagger in taggers(part):
            if tagger.tape in writers:
                raise OptionError(
                    f"{writers[tagger.tape]} and {path} both write the tape {tagger.tape!r}; "
                    "rename one: fstcrf convert MODEL -o NEW --set tape_name=NAME"
                )
            writers[tagger.tape] = path


def warn_of_columns(parts: Sequence[Part]) -> None:
    """Report which labels taggers read from the input, if users may expect otherwise."""
    written = {tagger.tape for tagger in parts}
    for tagger in parts:
        reads = tagger.reads if isinstance(tagger, CRF) else ()
        missing = [tape.name for tape in reads if tape.name not in written]
        for tape in missing:
            say(
                f"warning: {tagger.tape} reads the tape {tape!r}, which no model here writes: it "
                "must be a column of the input"
            )
        for column in sorted(written & columns_read(tagger)):
            say(
                f"warning: {tagger.tape} was trained to read the column {column!r} of the input, "
                f"not the tape: its template says %x[0,{column}], expected %y[0,{column}]"
            )
