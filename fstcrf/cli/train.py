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
    CHECKPOINT,
    DEV,
    HISTORY,
    LOG_JSON,
    NAMES,
    RESUME,
    TAPE_NAME,
    Described,
    Setting,
    check_outputs,
    check_training,
    given_options,
    grammar_option,
    in_flags,
    input_options,
    key_of,
    output_option,
    setting,
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
from fstcrf.cli.structures import STRUCTURE, structure_command
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
    defaults_text,
    fields_named,
    in_words,
    structured,
    summary,
)

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
_FLAT = {
    "objective": f"The objective: {', '.join(CHOICES['objective'])}.",
    "method": f"The training method: {', '.join(CHOICES['method'])}.",
    "order": None,
    "scheme": "Scheme of the labels: its illegal pairs are left out.",
    "min_count": "Smallest count of an attribute that is kept.",
    "l2": "Strength of the penalty l2 · |weights|².",
    "max_iterations": "Most iterations.",
}
"""Options with a flag, and their help if that is shorter than the struct's; others are settings."""


def training_options(command: Command) -> Command:
    """Add the options of training: names, kinds, ranges, defaults and meanings are the structs'."""
    rare = [name for name in DEFAULTS if name not in _FLAT]
    return with_options([*map(_option, _FLAT), *map(_setting, rare)], command)


def _option(name: str) -> Callable[[Command], Command]:
    full, kind, usual = _described(name), _kind(name), DEFAULTS[name]
    text = _FLAT[name] or full
    default = usual if name in CHOICES else defaults_text(name)
    if default and _FLAT[name]:
        text += f"  [default: {default}]"
    how: dict[str, Any] = {"metavar": _letters(name), "type": kind, "default": usual, "help": text}
    return click.option(_flag(name), cls=Described, full=full, **how)


def _setting(name: str) -> Callable[[Command], Command]:
    field, usual = fields_named(name)[0], DEFAULTS[name]
    if field.types == (bool,):
        return setting(name, bool, usual, _described(name))
    text, kind = _described(name), _kind(name)
    metavar = None if isinstance(kind, click.Choice) else _letters(name)
    return setting(name, kind, usual, text, metavar=metavar, tells_default=False)


def _described(name: str) -> str:
    """Return the full description of an option, with the methods that read it."""
    if name in CHOICES:
        known = ";  ".join(f"{one}: {summary(one)}" for one in CHOICES[name])
        return f"{(_FLAT[name] or '').partition(':')[0]}.  {known}.  [default: {DEFAULTS[name]}]"
    text = in_words(name, "  [default: {}]")
    return re.sub(r"`(\w+)`", lambda found: _flag(found[1]), text)


def _letters(name: str) -> str:
    if name in CHOICES:
        return name.upper()
    return _LETTERS.get(name) or {int: "N", float: "X"}.get(fields_named(name)[0].types[0], "NAME")


def _flag(name: str) -> str:
    """Return how an option is written: a flag, or the bare name of a setting."""
    return f"--{name.replace('_', '-')}" if name in (*_FLAT, "dev", "reads") else name


def _kind(name: str) -> click.ParamType[Any]:
    """Return the click type of the values of an option."""
    field = None if name in CHOICES else fields_named(name)[0]
    choices: Any = CHOICES[name] if field is None else field.choices
    if choices and isinstance(choices[0], int):
        return click.IntRange(choices[0], choices[-1])
    if choices or field is None:
        return click.Choice(list(choices))
    if field.types == (str,):
        return click.STRING
    low, above = field.meta.ge, field.meta.gt
    if field.types == (int,):
        return click.INT if low is None else click.IntRange(min=int(low))
    if low is None and above is None:
        return click.FLOAT
    return click.FloatRange(min=low if above is None else above, min_open=above is not None)


# --- The command ----------------------------------------------------------------------------------


@structure_command
@click.argument("paths", metavar="TRAIN...", nargs=-1, required=True)
@output_option("MODEL", "the model", required=True)
@STRUCTURE
@input_options
@setting("feature_columns", NAMES, None, "Features of CoNLL-U that become columns.")
@click.option("--target", metavar="COLUMN", required=True, help="Column of the gold labels.")
@click.option("--template", metavar="FILE", required=True, help="Feature templates, as of CRF++.")
@DEV
@grammar_option
@click.option(
    "--reads",
    metavar="MODEL",
    multiple=True,
    help="Tagger whose labels %y[0,TAPE] reads. Repeatable.",
)
@training_options
@TAPE_NAME
@setting("start", str, None, "Start from the weights of a model.", metavar="MODEL")
@setting(
    "class_weights",
    ASSIGNMENT,
    None,
    "Weight of sentences with this label. Repeatable.",
    parameter="class_weight",
    multiple=True,
)
@CHECKPOINT
@setting(
    "checkpoint_every",
    click.IntRange(min=1),
    None,
    "Save the state every N iterations, not only on Ctrl-C.  "
    f"[default: {CHECKPOINT_EVERY} with checkpoint or --resume]",
    metavar="N",
)
@RESUME
@threads_option
@executor_options
@LOG_JSON
@HISTORY
def train(paths: tuple[str, ...], output: str, **given: Any) -> None:
    """Train a tagger.

    TRAIN has a token in each line and a blank line after each sentence; .gz is unpacked,
    .conllu is read as CoNLL-U, .parquet as lists of strings, - is standard input. Ctrl-C saves
    the state and the best model so far. FILE.toml holds the same options in place of TRAIN, or
    the tasks of a pipeline.

    \b
    fstcrf train train.txt -o chunk.fstcrf --columns word,pos,chunk \\
        --target chunk --template chunk.tpl
    fstcrf train notices.toml -o notices
    """
    context = click.get_current_context()
    command, given = context.command, given_options(context, given)
    with in_flags(command):
        check_training(given)
    source = training_input(paths, given)
    inputs = [*paths, given["dev"], given["template"], *given["reads"], *given["grammar"]]
    check_outputs(
        {"--output": output, "--set checkpoint": given["checkpoint"]}, [*inputs, given["start"]]
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
    optional("matplotlib", "--set report needs matplotlib: pip install 'fstcrf[recipes]'")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise click.UsageError(f"--set report={folder} is a file, expected a folder")
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
    if isinstance(option, Setting):
        several = value if option.multiple else [value]
        return [x for v in several for x in ("--set", f"{key_of(option)}={_text(v, option)}")]
    if option.is_flag:
        return [*option.opts[:1]] if value else option.secondary_opts[:1]
    name = "-o" if "-o" in option.opts else option.opts[0]
    if option.multiple:
        return [word for one in value for word in (name, _text(one, option))]
    return [name, _text(value, option)]


def _text(value: Any, option: click.Option) -> str:
    if isinstance(value, tuple):
        return ("=" if option.multiple else ",").join(_text(one, option) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
