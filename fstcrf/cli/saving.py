"""Where a model goes: never over an input, nor in silence over another model.

================  ===================================================================
spare_inputs      the output is none of the inputs
warn_of_earlier   say before training what its end will replace
save              save a model; rather elsewhere than not at all
save_interrupted  save the best so far, unless something better or other is there
================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fstcrf.cli.failures import Failure

if TYPE_CHECKING:
    from fstcrf.cli.models import Model
    from fstcrf.model import CRF
    from fstcrf.model.options import TrainingRecord

__all__ = ["save", "save_interrupted", "spare_inputs", "warn_of_earlier"]


def spare_inputs(output: str, inputs: Iterable[str | None], *, option: str = "--output") -> None:
    """Check that the output, which an option names, is none of the inputs.

    Raises
    ------
    click.UsageError
        It is one of them.
    """
    target = Path(output).resolve()
    for path in inputs:
        if path is not None and Path(path).resolve() == target:
            raise click.UsageError(f"{option} {output} would overwrite an input")


def save(model: Model, output: str) -> None:
    """Save a model; rather elsewhere than not at all.

    Raises
    ------
    Failure
        It could not be saved where it was wanted; says where it is instead.
    OSError
        It could not be saved at all.
    """
    try:
        model.save(output)
    except OSError as error:
        try:
            spare = _elsewhere(model, output)
        except OSError:
            raise error from None
        raise Failure(f"{output}: {error.strerror}; the model is in {spare} instead") from None


def warn_of_earlier(output: str, *, resume: bool, say: Callable[[str], None]) -> None:
    """Say before training what its end will replace.

    Parameters
    ----------
    output : str
    resume : bool
        Does the run go on from a state; then an interrupted model is an earlier one of its own.
    say : callable
        Is told it in a line.
    """
    if not Path(output).exists():
        return
    earlier = _record(output)
    if not (resume and earlier is not None and earlier.interrupted):
        say(
            f"{output} is there, {_described(earlier)}: the end of training replaces it, "
            "an interruption leaves it as it is"
        )


def save_interrupted(
    model: CRF, output: str, checkpoint: str, *, command: str = "the same command"
) -> str:
    """Save the best model so far where that replaces nothing, or less of the same run.

    A run is the same where data and options are. Its state goes on in any case.

    Parameters
    ----------
    model : CRF
        Of an interrupted run.
    output : str
    checkpoint : str
        File of the state of training.
    command : str
        What goes on from it.

    Returns
    -------
    str
        What became of it.
    """
    record = model.record
    assert record is not None  # noqa: S101 (training has just made it)
    goes_on = _goes_on(checkpoint, record, command)
    earlier = _record(output) if Path(output).exists() else None
    if not Path(output).exists() or _goes_further(record, earlier):
        save(model, output)
        return (
            f"the best model so far, of iteration {record.best_iteration}, is saved in "
            f"{output}{goes_on}"
        )
    left = f"{output} is left as it was, {_described(earlier)}"
    if goes_on:
        return left + goes_on
    return f"{left}; the best of iteration {record.best_iteration} is {_elsewhere(model, output)}"


def _goes_on(checkpoint: str, record: TrainingRecord, command: str) -> str:
    """Say how the run goes on; nothing where it has left no state."""
    from fstcrf.train.checkpoint import saved_iteration

    iteration = saved_iteration(checkpoint)
    if iteration is None:
        return ""
    where = "" if iteration == record.iterations else f" from iteration {iteration}"
    lost = "; " + record.reason.partition("; ")[2] if "; " in record.reason else ""
    return f"{lost}; {command} with --resume goes on{where}"


def _goes_further(record: TrainingRecord, earlier: TrainingRecord | None) -> bool:
    """Is the earlier model one that the same run had left before."""
    if earlier is None or not earlier.interrupted or earlier.run is None:
        return False
    return earlier.run == record.run and earlier.iterations <= record.iterations


def _described(earlier: TrainingRecord | None) -> str:
    """Say what is in a file that a model would replace."""
    if earlier is None:
        return "a file without a record of training"
    end = "interrupted" if earlier.interrupted else "finished"
    score = "" if earlier.dev_score is None else f", dev {100 * earlier.dev_score:.2f}"
    return f"the model of a run {end} after iteration {earlier.iterations}{score}"


def _record(path: str) -> TrainingRecord | None:
    """Return the record of a tagger; None where a file is none, or cannot be read."""
    from fstcrf.errors import FstcrfError
    from fstcrf.model import load

    try:
        return load(path).record
    except (FstcrfError, OSError):
        return None


def _elsewhere(model: Model, output: str) -> Path:
    """Save a model in a folder of its own; return where.

    Raises
    ------
    OSError
        It could not be saved.
    """
    import tempfile

    spare = Path(tempfile.mkdtemp(prefix="fstcrf-")) / Path(output).name
    try:
        model.save(spare)
    except OSError:
        spare.parent.rmdir()
        raise
    return spare
