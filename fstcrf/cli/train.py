"""``fstcrf train``: files to a saved model."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fstcrf.cli.executors import executor_of, executor_options, files_of, spread
from fstcrf.cli.models import (
    CHECKPOINT_EVERY,
    grammar_of,
    interrupted,
    save,
    save_interrupted,
    state_file,
    tagger,
    tell_where_it_begins,
)
from fstcrf.cli.options import (
    ASSIGNMENT,
    NAMES,
    check_outputs,
    check_training,
    given_options,
    in_flags,
    input_options,
    spoken,
    threads_option,
    with_options,
)
from fstcrf.cli.reporting import (
    INTERRUPTED,
    STOPPING,
    Failure,
    Reporter,
    reporter,
    stopping,
    warnings_to,
)
from fstcrf.cli.sources import InputFile, training_input
from fstcrf.files import held
from fstcrf.lazy import LazyModule, optional
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus, concatenated
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.training.interruption import undisturbed
from fstcrf.training.loop import Progress
from fstcrf.training.memory import ExpectedMemory
from fstcrf.training.options import (
    CHOICES,
    DEFAULTS,
    fields_named,
    in_words,
    structured,
    summary,
)
from fstcrf.training.settings import SettingField

if TYPE_CHECKING:
    from fstcrf.ext import report as analysis
    from fstcrf.ext.report import History
else:  # training does not wait for it
    analysis = LazyModule("fstcrf.ext.report")

_MUCH = 500_000_000  # bytes


# --- Options that the structs of settings declare -------------------------------------------------

Command = TypeVar("Command", bound=Callable[..., Any])

_LETTERS = {
    "jackknife": "K",
    "hash_bits": "K",
    "scheme": "[FROM:]SCHEME",
    "start_label": "LABEL",
    "order": "0|1|2",
}
_TITLES = {"objective": "The objective", "method": "The training method"}
_OFF = {"error_sensitive": "--error-insensitive"}


def training_options(command: Command) -> Command:
    """Add the options of training: names, kinds, ranges, defaults and help are the structs'."""
    return with_options(list(map(_option, DEFAULTS)), command)


def _option(name: str) -> Callable[[Command], Command]:
    flag, usual = _flag(name), DEFAULTS[name]
    if name in CHOICES:
        known = ";  ".join(f"{one}: {summary(one)}" for one in CHOICES[name])
        text = f"{_TITLES[name]}.  {known}."
        kind = click.Choice(CHOICES[name])
        return click.option(flag, type=kind, default=usual, show_default=True, help=text)
    text = re.sub(r"`(\w+)`", lambda found: _flag(found[1]), in_words(name, "  [default: {}]"))
    field = fields_named(name)[0]
    if field.types == (bool,):
        if usual is None:  # said by neither
            flag = f"{flag}/{flag.replace('--', '--no-')}"
            return click.option(flag, default=None, help=text.removesuffix("  [default: None]"))
        both = f"{flag}/{_OFF.get(name, flag.replace('--', '--no-'))}" if usual else flag
        return click.option(both, is_flag=True, default=usual, show_default=usual, help=text)
    metavar = _LETTERS.get(name, {int: "N", float: "X"}.get(field.types[0]))
    return click.option(flag, metavar=metavar, type=_kind(field), default=usual, help=text)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _kind(field: SettingField) -> click.ParamType[Any]:
    """Return the click type of a value."""
    if field.choices and isinstance(field.choices[0], int):
        return click.IntRange(field.choices[0], field.choices[-1])
    if field.choices:
        return click.Choice(list(field.choices))
    if field.types == (str,):
        return click.STRING
    low, above = field.meta.ge, field.meta.gt
    if field.types == (int,):
        return click.INT if low is None else click.IntRange(min=int(low))
    if low is None and above is None:
        return click.FLOAT
    return click.FloatRange(min=low if above is None else above, min_open=above is not None)


# --- The command ----------------------------------------------------------------------------------


@click.command()
@click.argument("paths", metavar="TRAIN...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="MODEL", required=True, help="File for the model.")
@input_options
@click.option("--feature-columns", type=NAMES, help="Features of CoNLL-U that become columns.")
@click.option("--target", metavar="COLUMN", required=True, help="Column of the labels.")
@click.option("--template", metavar="FILE", required=True, help="Feature templates, as of CRF++.")
@training_options
@click.option("--dev", metavar="FILE", help="Held-out data: keep the best iteration on it.")
@click.option(
    "--grammar",
    metavar="FILE",
    multiple=True,
    help=(
        "A .grm grammar without costs, or the name of a built-in one. It becomes part of "
        "the tagger. Repeatable."
    ),
)
@click.option(
    "--reads",
    metavar="MODEL",
    multiple=True,
    help="An earlier tagger, whose labels %y[0,TAPE] reads. Repeatable.",
)
@click.option("--tape", metavar="NAME", help="Name of the labels it writes.  [default: target]")
@click.option("--start", metavar="MODEL", help="Start from the weights of a model.")
@click.option(
    "--class-weight",
    type=ASSIGNMENT,
    multiple=True,
    help="Weight of sentences with this label. Repeatable.",
)
@click.option(
    "--checkpoint",
    metavar="FILE",
    help="File for the state of training; it is kept, and never overwritten without --resume.  "
    "[default: MODEL.checkpoint, removed at the end]",
)
@click.option(
    "--checkpoint-every",
    metavar="N",
    type=click.IntRange(min=1),
    help="Save the state every N iterations, not only on Ctrl-C.  "
    f"[default: {CHECKPOINT_EVERY} with --checkpoint or --resume]",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Continue from the saved state, or start anew if there is no saved state.",
)
@threads_option
@executor_options
@click.option("--log-json", is_flag=True, help="Progress as JSON lines on standard error.")
@click.option(
    "--report",
    "report_folder",
    metavar="DIR",
    help="Draw the course of training there while it runs: training.svg, training.json.",
)
def train(paths: tuple[str, ...], output: str, **given: Any) -> None:
    """Train a tagger.

    Column files have one token a line, a blank line after each sentence, and may be gzipped;
    "-" is standard input. Files called .conllu are read as CoNLL-U, .parquet as Parquet files
    with a list of strings in each column. Progress is printed to standard error.

    Ctrl-C stops training after the current iteration; a second Ctrl-C stops it at once. The
    state of training is then saved in MODEL.checkpoint, from which --resume continues. The best
    model so far is saved in MODEL, unless another run wrote that file.

    \b
    fstcrf train train.txt -o chunk.fstcrf --columns word,pos,chunk \\
        --target chunk --template chunk.tpl
    """
    context = click.get_current_context()
    command, given = context.command, given_options(context, given)
    with in_flags(command):
        check_training(given)
    source = training_input(paths, given)
    inputs = [*paths, given["dev"], given["template"], *given["reads"], *given["grammar"]]
    check_outputs(
        {"--output": output, "--checkpoint": given["checkpoint"]}, [*inputs, given["start"]]
    )
    with held(output, "training"):
        _trained(paths, source, output, command, given)


def _trained(
    paths: tuple[str, ...],
    source: InputFile,
    output: str,
    command: click.Command,
    given: dict[str, Any],
) -> None:
    """Train, and write the model."""
    started = time.perf_counter()
    checkpoint, kept = _checkpoint(given, output, command)
    as_json, limit = given.pop("log_json"), given.get("max_iterations")
    history = history_of(given.pop("report_folder"))
    with reporter(as_json=as_json, max_iterations=limit) as told:
        tell_where_it_begins(output, checkpoint, resume=given["resume"], say=told.note)
        data = _whole_or_files(source, paths, given, told)
        dev = given.pop("dev")
        held_out = None if dev is None else source.read(dev)
        with in_flags(command), stopping(told.line(STOPPING)), warnings_to(told.data):
            heard = _heard(told, history)
            with executor_of(given.pop("dask"), given.pop("workers")) as executor:
                given["executor"] = executor
                model = _train(data, held_out, told, heard, checkpoint, given)
        if history is not None:
            history.write()
        _finish(model, output, told, time.perf_counter() - started, checkpoint, command)
    if not kept:
        Path(checkpoint).unlink(missing_ok=True)


def _whole_or_files(
    source: InputFile, paths: Sequence[str], given: Mapping[str, Any], told: Reporter
) -> Corpus | CorpusFiles:
    """Read the text, unless it is read part by part."""
    if spread(given):
        return files_of(paths, source)
    data = concatenated([source.read(path) for path in paths])
    told.data(
        f"read {len(data):,} sentences, {data.n_tokens:,} tokens from {', '.join(paths)}",
        sentences=len(data),
        tokens=data.n_tokens,
    )
    return data


def _checkpoint(given: dict[str, Any], output: str, command: click.Command) -> tuple[str, bool]:
    """Return the file for the state of training, and whether it stays."""
    with in_flags(command):
        used, kept, given["checkpoint_every"] = state_file(
            given.pop("checkpoint"), output, every=given["checkpoint_every"], resume=given["resume"]
        )
    return used, kept


def history_of(folder: str | None) -> History | None:
    """Return the history of training; missing packages are reported before training."""
    if folder is None:
        return None
    optional("matplotlib", "--report needs matplotlib: pip install 'fstcrf[recipes]'")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise click.UsageError(f"--report {folder} is a file, expected a folder")
    return analysis.History(folder)


def _heard(told: Reporter, history: History | None) -> Callable[[Progress], None]:
    """Return the receiver of iterations."""
    if history is None:
        return told.iteration

    def heard(progress: Progress) -> None:
        told.iteration(progress)
        history(progress)

    return heard


def _tell_memory(told: Reporter, memory: ExpectedMemory) -> None:
    """Report the memory of training if it is large; warn if it is too large."""
    if memory.fits and memory.added >= _MUCH:
        told.note(str(memory))


def _train(
    data: Corpus | CorpusFiles,
    dev: Corpus | None,
    told: Reporter,
    heard: Callable[[Progress], None],
    checkpoint: str,
    given: dict[str, Any],
) -> CRF:
    weights = dict(given.pop("class_weight"))
    flat = {
        **given,
        "template": Path(given["template"]),
        "dev": dev,
        "reads": [tagger(path) for path in given["reads"]],
        "grammar": grammar_of(given["grammar"]),
        "class_weights": weights or None,
        "start": None if given["start"] is None else tagger(given["start"]),
        "report": heard,
        "expect": lambda memory: _tell_memory(told, memory),
        "checkpoint": checkpoint,
        "keep_on_interrupt": True,
    }
    try:
        return CRF.train(data, **structured(flat))
    except KeyboardInterrupt:
        raise interrupted(checkpoint) from None


def _finish(
    model: CRF, output: str, told: Reporter, seconds: float, checkpoint: str, command: click.Command
) -> None:
    record = model.record
    if record is None:
        raise Failure("the model has no record of its training")
    if record.interrupted:
        with undisturbed():
            outcome = save_interrupted(model, output, checkpoint)
        raise Failure(f"interrupted: {outcome}", INTERRUPTED)
    with undisturbed():
        save(model, output)
    score = ""
    if record.dev_score is not None:
        score = f"; dev {100 * record.dev_score:.2f} at iteration {record.best_iteration}"
    told.done(
        f"{output}: {record.parameters:,} weights of {record.attributes:,} attributes and "
        f"{len(model.labels)} labels; {record.iterations} iterations in {seconds:.1f} s "
        f"({spoken(record.reason, command)}){score}",
        model=output,
        weights=record.parameters,
        attributes=record.attributes,
        labels=len(model.labels),
        iterations=record.iterations,
        best_iteration=record.best_iteration,
        objective=record.objective,
        dev_score=record.dev_score,
        reason=record.reason,
        seconds=seconds,
    )


# --- The ``fstcrf train`` command that repeats a training -----------------------------------------


def train_line(given: Mapping[str, Any]) -> str:
    """Return the command that trains with these options, without defaults."""
    words = ["fstcrf", "train"]
    with click.Context(train) as context:
        for parameter in train.params:
            name = str(parameter.name)
            if isinstance(parameter, click.Argument):
                words += given[name]
            elif isinstance(parameter, click.Option) and name in given:
                usual = parameter.get_default(context)
                words += [] if given[name] == usual else _words(parameter, given[name])
    return shlex.join(words)


def _words(option: click.Option, value: Any) -> list[str]:
    if value is None or value == ():
        return []
    if option.is_flag:
        return [*option.opts[:1]] if value else option.secondary_opts[:1]
    name = "-o" if "-o" in option.opts else option.opts[0]
    if option.multiple:
        return [word for one in value for word in (name, _text(one, between="="))]
    return [name, _text(value)]


def _text(value: Any, *, between: str = ",") -> str:
    if isinstance(value, tuple):
        return between.join(map(_text, value))
    return repr(value) if isinstance(value, float) else str(value)
