"""``fstcrf calibrate``: calibrates a model's probabilities on held-out data."""

from __future__ import annotations

import json
from typing import Any

import click

from fstcrf.arrays import Floats
from fstcrf.cli.models import is_chain, token_model
from fstcrf.cli.options import (
    STDOUT,
    TARGET,
    THEIR_TAPE,
    check_outputs,
    choice,
    command,
    input_options,
    output_option,
    setting,
    threads_option,
    written_path,
)
from fstcrf.cli.progress import progress, progress_option
from fstcrf.cli.sources import check_columns, model_input
from fstcrf.errors import DataError
from fstcrf.ext.calibration import (
    Calibration,
    Events,
    Reliability,
    label_events,
    lattices_of,
    precision_thresholds,
    reliability,
    span_events,
)
from fstcrf.text.corpus.schemes import has_spans


@command()
@click.argument("model_path", metavar="MODEL")
@click.argument("path", metavar="HELDOUT")
@output_option("FILE", "the calibration, as JSON; - is standard output")
@input_options
@THEIR_TAPE
@click.option("--target", metavar="COLUMN", help=TARGET)
@choice(
    "--curve",
    ("isotonic", "log-odds"),
    "isotonic: a monotone curve for each type (needs scikit-learn). log-odds: a divisor of them.",
    name="method",
)
@click.option(
    "--precision",
    metavar="P",
    type=click.FloatRange(0, 1, min_open=True),
    help="Print, for each type, the lowest threshold with precision P.",
)
@setting(
    "level",
    click.FloatRange(0.5, 1, min_open=True, max_open=True),
    None,
    "Confidence that --precision is reached, such as 0.95.",
    metavar="C",
)
@setting("bins", click.IntRange(min=1), 10, "Bins of the tables.", metavar="K")
@click.option("--plot", metavar="FILE", help="Draw the reliability after calibration: PNG, SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@threads_option
@progress_option
def calibrate(
    model_path: str,
    path: str,
    *,
    output: str | None,
    tape: str | None,
    target: str | None,
    method: Any,
    precision: float | None,
    level: float | None,
    bins: int,
    plot: str | None,
    as_json: bool,
    threads: int,
    **how: Any,
) -> None:
    """Calibrate probabilities on held-out data.

    Prints how often spans (labels, if a tape has no spans) are right, and the probability that
    the model gives them, before and after calibration. The second figure is cross-validated:
    each fifth of the spans is calibrated on the others. The file is of all.

    \b
    fstcrf calibrate ner.fstcrf dev.txt -o ner.json
    fstcrf tag ner.fstcrf new.txt --calibration ner.json --min-confidence 0.9
    """
    if level is not None and precision is None:
        raise click.UsageError("--set level needs --precision")
    printed = output in (STDOUT, "/dev/stdout")
    if printed and as_json:
        raise click.UsageError(
            f"--json and --output {output} both print JSON: give the name of a file"
        )
    check_outputs({"--output": output, "--plot": plot}, [model_path, path], text=("--output",))
    model = token_model(model_path)
    if is_chain(model):
        raise click.UsageError(
            'normalize = "chain" has no probabilities to calibrate: use normalize = "product"'
        )
    name = _tape(model.label_sets, tape)
    column = target or name
    data = model_input(model, path=path, targets=[column], wanted=[column], **how).read(path)
    gold = data.column_lists(column)
    check_columns(model, data)
    spans = has_spans(model.label_sets[name])
    if spans and not has_spans({label for labels in gold for label in labels}):
        raise DataError(
            f"column {column!r} holds no spans, but tape {name!r} is a tape of spans", path=path
        )
    with progress(f"weighing {len(data):,} sentences", "", 3) as meter:
        lattices = lattices_of(model, data, tape=name, threads=threads)
        meter.add()
        events = (span_events if spans else label_events)(
            lattices, gold, tape=name, threads=threads
        )
        meter.add()
        calibration = Calibration.fit(events, method)
        after = Calibration.crossed(events, method)
    tables = reliability(events, bins=bins), reliability(after, bins=bins)
    thresholds = None if precision is None else precision_thresholds(after, precision, level=level)
    if output is not None:
        calibration.save(written_path(output))
    if plot is not None:
        tables[1].plot(plot, title=name)
    what = "spans" if spans else "labels"
    if as_json:
        click.echo(json.dumps(_facts(events, *tables, thresholds), ensure_ascii=False))
        return
    click.echo(f"{len(events)} {what} above 0.01, {int(events.missed.sum())} missed\n", err=printed)
    shown = f"as the model says\n{tables[0]}\n\ncalibrated, on the other folds\n{tables[1]}"
    click.echo(shown, err=printed)
    for type_, least in (thresholds or {}).items():
        kept = _kept(after.of_type(type_).probability, least)
        click.echo(f"precision {precision:g} of {type_}: {kept} {what})", err=printed)


def _tape(label_sets: dict[str, tuple[str, ...]], tape: str | None) -> str:
    if tape is None and len(label_sets) == 1:
        return next(iter(label_sets))
    if tape not in label_sets:
        given = "--tape is missing" if tape is None else f"--tape {tape}"
        raise click.UsageError(f"{given}: the tapes are {', '.join(label_sets)}")
    return tape


def _kept(probabilities: Floats, least: float | None) -> str:
    """Return a threshold in words, and how many of the events reach it."""
    if least is None:
        return f"none  (0 of {len(probabilities)}"
    return f"{least:.4f}  ({int((probabilities >= least).sum())} of {len(probabilities)}"


def _facts(
    events: Events,
    before: Reliability,
    after: Reliability,
    thresholds: dict[str, float | None] | None,
) -> dict[str, Any]:
    found: dict[str, Any] = {"events": len(events), "missed": int(events.missed.sum())}
    for name, table in (("before", before), ("after", after)):
        found[name] = {
            "calibration_error": table.error,
            "largest_error": table.largest,
            "brier": table.brier,
            "log_loss": table.log_loss,
        }
    return found if thresholds is None else found | {"thresholds": thresholds}
