"""Models that the commands use: a tagger, or taggers composed, with grammars on top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click

import fstcrf
from fstcrf.cli.reporting import INTERRUPTED, Failure
from fstcrf.errors import DataError, FstcrfError
from fstcrf.ext import foreign, pipelines
from fstcrf.lazy import LazyModule
from fstcrf.storage import file_kind, is_native, read_head
from fstcrf.taggers import CRF, Composition, JointCRF, Tagger, compose
from fstcrf.text.features import FeatureIndex

if TYPE_CHECKING:
    import tempfile

    from fstcrf.ext import tokens
    from fstcrf.ext.pipelines.trained import TrainedPipeline
    from fstcrf.taggers import loading, product, segmental
    from fstcrf.taggers.segmental import SegmentCRF
    from fstcrf.training import loop
    from fstcrf.training.record import TrainingRecord
else:  # a tagger that is loaded does not wait for training, nor for decoders
    loading, tokens = LazyModule("fstcrf.taggers.loading"), LazyModule("fstcrf.ext.tokens")
    loop, tempfile = LazyModule("fstcrf.training.loop"), LazyModule("tempfile")
    product = LazyModule("fstcrf.taggers.product")
    segmental = LazyModule("fstcrf.taggers.segmental")

Model: TypeAlias = "CRF | SegmentCRF | Composition"
Part: TypeAlias = "CRF | SegmentCRF"
"""A tagger of one tape."""

CHECKPOINT_EVERY = 10
"""Iterations between two states of a training that are saved."""


def load_model(path: str) -> Model:
    """Load a tagger or a composition, or a tagger of another program."""
    if Path(path).is_dir():
        raise _folder(path)
    head = read_head(path)
    if is_native(head):
        if file_kind(path) == "fstcrf-words":
            raise DataError(
                "a model of words of unspaced text: fstcrf words takes it for a dictionary",
                path=path,
            )
        return cast("Model", loading.load(path))
    if loading.is_decoder(head):
        raise DataError(
            "a decoder of a token classifier's logits, or other JSON; expected the file of a "
            "tagger (fstcrf info describes decoders)",
            path=path,
        )
    return foreign.read_tagger(path)


def load_deciding(path: str) -> Model | TrainedPipeline:
    """Load a model, or, from the folder of a finished pipeline, the pipeline, as it decides."""
    if Path(path).is_dir() and (Path(path) / pipelines.trained.COMPOSITION).exists():
        return pipelines.trained.load_pipeline(path)
    return load_model(path)


def deciding_by(model: Model, decode: Any, *, pipeline: bool = False) -> Tagger:
    """Return the tagger that decides a model in some way; UsageError if there is no such way."""
    several = len(model.tapes) > 1 and decode not in (None, "joint")
    if isinstance(model, JointCRF) and (pipeline or several):
        return pipelines.trained.TrainedPipeline(model, decode)
    if decode in (None, "joint"):
        return model
    if len(model.tapes) == 1:
        raise click.UsageError("--decode is for compositions: the model has one tape")
    raise click.UsageError("--decode is for taggers of tokens; one here is of segments")


def joint_file(folder: str) -> Path:
    """Return the file of a pipeline's composition."""
    return Path(folder) / pipelines.trained.COMPOSITION


def model_files(path: str) -> list[str]:
    """Return the files of a model, or of the folder of a pipeline."""
    if not Path(path).is_dir():
        return [path]
    manifest = Path(path) / pipelines.trained.MANIFEST
    return sorted(
        map(str, (*Path(path).glob("*.fstcrf"), *([manifest] if manifest.exists() else [])))
    )


def whole(deciding: Model | TrainedPipeline) -> Model:
    """Return a model itself, or the composition of a pipeline."""
    if isinstance(deciding, CRF | Composition) or not hasattr(deciding, "composition"):
        return deciding
    return deciding.composition


def pipeline_of(deciding: Model | TrainedPipeline) -> TrainedPipeline | None:
    """Return a pipeline itself, or `None` for a model."""
    return None if whole(deciding) is deciding else cast("TrainedPipeline", deciding)


def load_decoder(path: str) -> tokens.TokenDecoder | None:
    """Load the decoder of a token classifier; `None` if a file is a model instead of JSON."""
    if not Path(path).is_file():  # `load_model` says why
        return None
    head = read_head(path)
    return tokens.TokenDecoder.load(path) if loading.is_decoder(head) else None


def _folder(path: str) -> DataError:
    """Return the error for a folder; for a pipeline's folder, it names the right file."""
    joint = Path(path) / pipelines.trained.COMPOSITION
    if not joint.exists() and (Path(path) / pipelines.trained.MANIFEST).exists():
        return DataError(
            "the folder of a pipeline whose training has not come to its end: the same "
            f"fstcrf train FILE.toml -o {path} goes on",
            path=path,
        )
    if not joint.exists():
        return DataError("a folder, expected the file of a model", path=path)
    return DataError(f"the folder of a pipeline, expected a model: give {joint}", path=path)


def tagger(path: str) -> CRF:
    """Load a tagger; a composition is a DataError."""
    model = load_model(path)
    if not isinstance(model, CRF):
        raise DataError("a composition of taggers; expected one of the taggers", path=path)
    return model


def token_model(path: str) -> CRF | JointCRF:
    """Load a tagger of tokens or a composition of such; a tagger of segments is a DataError."""
    return cast("CRF | JointCRF", _of_tokens(load_model(path), path))


def tokens_deciding(path: str) -> CRF | JointCRF | TrainedPipeline:
    """Load the same, or, from the folder of a finished pipeline, the pipeline, as it decides."""
    return cast("CRF | JointCRF | TrainedPipeline", _of_tokens(load_deciding(path), path))


def _of_tokens(model: Model | TrainedPipeline, path: str) -> Model | TrainedPipeline:
    if not isinstance(whole(model), CRF | JointCRF):
        raise DataError(f"{model!r} is of segments, expected taggers of tokens", path=path)
    return model


def taggers(model: Model) -> tuple[Part, ...]:
    """Return the taggers of a model."""
    if isinstance(model, Composition):
        return tuple(part for one in model.taggers for part in taggers(cast("Model", one)))
    return (model,)


def data_columns(tagger: Part) -> tuple[str, ...]:
    """Return the columns of the data that a tagger was trained on."""
    if isinstance(tagger, CRF):
        return tagger.columns
    return (*tagger.columns, tagger.record.target)


def columns_read(tagger: Part) -> set[str]:
    """Return the columns that the templates of a tagger read."""
    if not isinstance(tagger, CRF):
        return set(tagger.needed_columns)
    return set(tagger.index.columns) if isinstance(tagger.index, FeatureIndex) else set()


def constrained(model: Model, grammars: Sequence[str]) -> Composition:
    """Return a model under grammars: ``FILE``, ``TAPE=FILE``, or a name of one that is shipped."""
    composition: Composition = compose(model)
    for given in grammars:
        tape, _, name = given.rpartition("=")
        known = tape in composition.tapes
        composition = composition.constrained(
            pipelines.declaration.on_tape(_grammar(name), tape) if known else _grammar(given)
        )
    return composition


def grammar_of(names: Sequence[str]) -> fstcrf.Grammar | None:
    """Return the conjunction of grammars by file or name, or `None`."""
    return reduce(and_, map(_grammar, names)) if names else None


def _grammar(name: str) -> fstcrf.Grammar:
    plain = not Path(name).suffix and Path(name).name == name
    if plain and not Path(name).exists():
        return fstcrf.Grammar.shipped(name)
    return fstcrf.Grammar.from_file(name)


def is_chain(model: Model) -> bool:
    """Return whether the tapes of a model are normalised one by one, which is not a transducer."""
    return isinstance(model, JointCRF) and model._conditional


def plan_text(model: Composition) -> str:
    """Return the plan of a composition and its cost; for a chain, its factors."""
    if not isinstance(model, JointCRF):
        sizes = [f"{tape} ({len(labels)})" for tape, labels in model.label_sets.items()]
        return f"product of lattices of arcs, written out for each sentence: {', '.join(sizes)}"
    if not model._conditional:
        return str(model.plan())
    order = model._order
    given = ["", *(f" | {', '.join(order[:k])}" for k in range(1, len(order)))]
    factors = [f"p({tape}{rest})" for tape, rest in zip(order, given, strict=True)]
    return f"chain: {' · '.join(factors)}, decided best first"


def tape_columns(option: str, given: str, names: Sequence[str]) -> dict[str, str]:
    """Return the columns of tapes as an option gives them: ``COLUMN``, or ``TAPE=COLUMN,...``."""
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


def save(model: Model, output: str) -> None:
    """Save a model; if that fails, save it elsewhere and raise a Failure that names the place."""
    try:
        model.save(output)
    except OSError as error:
        try:
            spare = _elsewhere(model, output)
        except OSError:
            raise error from None
        raise Failure(f"{output}: {error.strerror}; the model is in {spare} instead") from None


def state_file(
    checkpoint: str | None, output: str, *, every: int | None, resume: bool
) -> tuple[str, bool, int | None]:
    """Return the file for the state of a training, whether it stays, and how often it is saved.

    By default, it is next to the output, is saved only on Ctrl-C, and is removed at the end.
    """
    if every is None and (checkpoint is not None or resume):
        every = CHECKPOINT_EVERY
    used = checkpoint or f"{output}.checkpoint"
    loop.check_checkpoint(used, resume=resume)
    return used, checkpoint is not None, every


def tell_where_it_begins(
    output: str, checkpoint: str, *, resume: bool, say: Callable[[str], None]
) -> None:
    """Report the iteration from which training continues, and the file that it will replace."""
    iteration = loop.saved_iteration(checkpoint) if resume else None
    if iteration is not None:
        say(f"{checkpoint}: on from iteration {iteration:,}")
    elif resume:
        say(f"{checkpoint} is not there, nothing to resume: training begins at the start")
    warn_of_earlier(output, resume=iteration is not None, say=say)


def interrupted(checkpoint: str) -> Failure:
    """Return the failure of a training that Ctrl-C ended without a model."""
    message = "interrupted before an iteration ended: nothing is saved"
    if Path(checkpoint).exists():
        message = "interrupted: the same command with --resume goes on"
    return Failure(message, INTERRUPTED)


def warn_of_earlier(output: str, *, resume: bool, say: Callable[[str], None]) -> None:
    """Report before training which file its end will replace.

    A resumed run may find its interrupted model, which needs no report.
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
    """Save the best model so far, unless the file has another run or more of this one.

    A run is the same if data and options are. `checkpoint` continues from its state in any case.
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
    """Return the advice for continuing the run; empty without a saved state."""
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
    """Return a description of a file that a model would replace."""
    if earlier is None:
        return "a file without a record of training"
    end = "interrupted" if earlier.interrupted else "finished"
    score = "" if earlier.dev_score is None else f", dev {100 * earlier.dev_score:.2f}"
    return f"the model of a run {end} after iteration {earlier.iterations}{score}"


def _record(path: str) -> TrainingRecord | None:
    """Return the record of a tagger; `None` for other or unreadable files."""
    try:
        return CRF.load(path).record
    except (FstcrfError, OSError):
        return None


def _elsewhere(model: Model, output: str) -> Path:
    """Save a model in a new folder; return its path."""
    spare = Path(tempfile.mkdtemp(prefix="fstcrf-")) / Path(output).name
    try:
        model.save(spare)
    except OSError:
        spare.parent.rmdir()
        raise
    return spare
