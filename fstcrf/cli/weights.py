"""Weights of taggers that decide together: given, or chosen on held-out data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

import click

import fstcrf.taggers
from fstcrf.cli.models import tape_columns
from fstcrf.cli.options import TARGET, Command, setting, with_options
from fstcrf.cli.progress import progress
from fstcrf.cli.reporting import tell
from fstcrf.cli.sources import check_columns, model_input
from fstcrf.errors import DataError
from fstcrf.taggers import Composition, JointCRF
from fstcrf.text.corpus import Corpus

if TYPE_CHECKING:
    from fstcrf.ext.tune.weights import WeightTrial

_TUNING = (
    setting(
        *("metric", str, "both"),
        "Measure to maximise: both (tokens with all tapes right), accuracy, or TAPE-F.",
        metavar="NAME",
    ),
    click.option("--target", metavar="TAPE=COLUMN,...", help=TARGET),
)


def tuning_options(command: Command) -> Command:
    """Add the options for choosing weights."""
    return with_options(_TUNING, command)


@overload
def weighted(composition: JointCRF, weights: Sequence[float] | None) -> JointCRF: ...
@overload
def weighted(composition: Composition, weights: Sequence[float] | None) -> Composition: ...
def weighted(composition: Composition, weights: Sequence[float] | None) -> Composition:
    """Return a composition with the given weights, or with its weights."""
    if weights is None:
        return composition
    names = ["+".join(tagger.tapes) for tagger in composition.taggers]
    if len(weights) != len(names):
        raise click.UsageError(
            f"--weights has {len(weights)} numbers, expected one for each of {', '.join(names)}"
        )
    return composition.with_weights(*weights)


def tuned(
    joint: JointCRF,
    path: str,
    how: dict[str, Any],
    *,
    metric: str,
    target: str | None,
    threads: int,
) -> JointCRF:
    """Return a composition with weights chosen on held-out data; each trial is reported."""
    names = [tagger.tape for tagger in joint.taggers]
    if len(names) == 1:
        raise click.UsageError("there is one tagger: weights are chosen for two or more")
    if joint._literal:
        raise click.UsageError(
            "weights are chosen for models over columns; these read lists of attributes: give "
            "--weights, or choose them from Python, by JointCRF.tune_weights"
        )
    columns = {tape: tape for tape in names}
    if target is not None:
        columns |= tape_columns("--target", target, names)
    dev = model_input(joint, path=path, targets=columns.values(), **how).read(path)
    check_columns(joint, dev)
    _check_gold(dev, columns, path)

    def report(trial: WeightTrial) -> None:
        meter.add()
        shown = ", ".join(f"{weight:g}" for weight in trial.weights)
        tell(f"weights {shown:<12}  {metric} {100 * trial.score:.2f}")

    with progress("choosing weights", "trials") as meter:
        meter.measured(lambda: min(1.0, meter.done / _trials(len(names))))
        with _in_options(path):
            return joint.tune_weights(
                dev, targets=columns, metric=metric, threads=threads, report=report
            )


def _check_gold(dev: Corpus, columns: Mapping[str, str], path: str) -> None:
    """Refuse held-out data without gold labels of a tape, in words of the command line."""
    for tape, column in columns.items():
        if dev.n_tokens and column not in dev.columns:
            raise DataError(
                f"no column {column!r} with the gold labels of tape {tape}; the columns are "
                f"{', '.join(map(str, dev.columns))}: give --target {tape}=COLUMN",
                path=path,
            )


@contextmanager
def _in_options(path: str) -> Iterator[None]:
    """Word the error of labels of another tape as the command line has it."""
    try:
        yield
    except DataError as error:
        if "targets={...}" not in error.message:
            raise
        message = error.message.replace("targets={...}", "--target TAPE=COLUMN")
        raise DataError(message, path=error.path or path) from None


def _trials(taggers: int) -> int:
    """Return the approximate number of trials: from three taggers on, the grid is used twice."""
    line = len(fstcrf.taggers.WEIGHT_GRID) - 1
    return 1 + line * (taggers - 1) * (1 if taggers == 2 else 2)


def weights_text(joint: Composition) -> str:
    """Return the weights of the taggers in words."""
    pairs = zip(joint.taggers, joint.weights, strict=True)
    return "weights " + ", ".join(f"{'+'.join(t.tapes)} {weight:g}" for t, weight in pairs)
