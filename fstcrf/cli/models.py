"""Models that the commands use: a tagger, or taggers composed, with grammars on top."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

import fstcrf
from fstcrf import interop, joint, pipelines
from fstcrf.cli.reporting import Failure
from fstcrf.errors import DataError, FstcrfError
from fstcrf.interop.formats import HEAD, is_native
from fstcrf.joint import CRF
from fstcrf.lazy import LazyModule

__all__ = [
    "Model",
    "constrained",
    "grammar_of",
    "is_chain",
    "load_model",
    "plan_text",
    "save",
    "save_interrupted",
    "spare_inputs",
    "tagger",
    "taggers",
    "tape_columns",
    "tapes",
    "warn_of_earlier",
]

if TYPE_CHECKING:
    from fstcrf.model.model import TrainingRecord
    from fstcrf.train import loop
else:  # a tagger that is loaded does not wait for training
    loop = LazyModule("fstcrf.train.loop")

Model: TypeAlias = "CRF | joint.Composition"


def load_model(path: str) -> Model:
    """Load a tagger or a composition, or a tagger of another program.

    Raises
    ------
    DataError
        It is a folder.
    ModelFileError, OSError
        It cannot be loaded.
    """
    if Path(path).is_dir():
        raise _folder(path)
    with Path(path).open("rb") as file:
        head = file.read(HEAD)
    if is_native(head):
        return joint.load(path)

    return interop.read_tagger(path)


def _folder(path: str) -> DataError:
    """Return the error of a folder; of one that a pipeline has made, it says what to give."""
    whole = Path(path) / pipelines.trained.COMPOSITION
    if not whole.exists():
        return DataError("a folder, expected the file of a model", path=path)
    return DataError(
        f"the folder of a pipeline: give {whole} to decide jointly, or use fstcrf pipeline tag",
        path=path,
    )


def tagger(path: str) -> CRF:
    """Load a tagger.

    Raises
    ------
    DataError
        It is a composition.
    ModelFileError, OSError
        It cannot be loaded.
    """
    model = load_model(path)
    if not isinstance(model, CRF):
        raise DataError("a composition of taggers; expected one of the taggers", path=path)
    return model


def taggers(model: Model) -> tuple[CRF, ...]:
    """Return the taggers of a model."""
    return (model,) if isinstance(model, CRF) else model.taggers


def constrained(model: Model, grammars: Sequence[str]) -> joint.Composition:
    """Return a model under the grammars of files, or of those that come with fstcrf by name.

    Parameters
    ----------
    model : CRF or Composition
    grammars : sequence of str
        ``FILE``, or ``TAPE=FILE`` for a grammar of one tape that does not name it.

    Raises
    ------
    GrammarError
        A grammar that cannot be read, does not go with the labels or accepts nothing.
    OSError
        A file that cannot be read.
    """
    composition = joint.compose(model)
    for given in grammars:
        tape, _, name = given.rpartition("=")
        known = tape in composition.tapes
        composition = composition.constrained(
            pipelines.declaration.on_tape(_grammar(name), tape) if known else _grammar(given)
        )
    return composition


def grammar_of(names: Sequence[str]) -> fstcrf.Grammar | None:
    """Return the conjunction of grammars by file or name; None without any.

    Raises
    ------
    GrammarError, OSError
        As for `constrained`.
    """
    return reduce(and_, map(_grammar, names)) if names else None


def _grammar(name: str) -> fstcrf.Grammar:
    plain = not Path(name).suffix and Path(name).name == name
    if plain and not Path(name).exists():
        return fstcrf.Grammar.shipped(name)
    return fstcrf.Grammar.from_file(name)


def tapes(model: Model) -> tuple[str, ...]:
    """Return the names of the tapes that a model writes."""
    return (model.tape,) if isinstance(model, CRF) else model.tapes


def is_chain(model: Model) -> bool:
    """Tell whether the tapes of a model are normalised one by one: it is no transducer then."""
    return not isinstance(model, CRF) and model.conditional


def plan_text(model: joint.Composition) -> str:
    """Return what a composition compiles to and what it costs; of a chain, its factors."""
    if not model.conditional:
        return str(model.plan())
    order = model.order
    given = ["", *(f" | {', '.join(order[:k])}" for k in range(1, len(order)))]
    factors = [f"p({tape}{rest})" for tape, rest in zip(order, given, strict=True)]
    return f"chain: {' · '.join(factors)}, decided best first"


def tape_columns(option: str, given: str, names: Sequence[str]) -> dict[str, str]:
    """Return the columns that an option gives for tapes.

    Parameters
    ----------
    option : str
        Its name, for messages.
    given : str
        ``COLUMN`` for a model with one tape, ``TAPE=COLUMN,...`` for one with several.
    names : sequence of str
        The tapes.

    Raises
    ------
    click.UsageError
        Something else, or another tape.
    """
    if len(names) == 1:
        return {names[0]: given}
    found = {}
    for part in given.split(","):
        tape, equals, column = part.partition("=")
        if not (equals and column and tape in names):
            raise click.UsageError(
                f"{option} {given}: expected TAPE=COLUMN, the tapes are {', '.join(names)}"
            )
        found[tape] = column
    return found


# --- Where a model goes ---------------------------------------------------------------------------


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
    iteration = loop.saved_iteration(checkpoint)
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
    try:
        return CRF.load(path).record
    except (FstcrfError, OSError):
        return None


def _elsewhere(model: Model, output: str) -> Path:
    """Save a model in a folder of its own; return where.

    Raises
    ------
    OSError
        It could not be saved.
    """
    spare = Path(tempfile.mkdtemp(prefix="fstcrf-")) / Path(output).name
    try:
        model.save(spare)
    except OSError:
        spare.parent.rmdir()
        raise
    return spare
