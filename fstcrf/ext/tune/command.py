"""``fstcrf tune``: options of training, chosen on held-out data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fstcrf.cli.models import grammar_of, save, save_interrupted, tagger, warn_of_earlier
from fstcrf.cli.options import (
    DEV,
    HISTORY,
    LOG_JSON,
    RESUME,
    SEED,
    Parsed,
    check_outputs,
    choices_of,
    given_options,
    in_flags,
    names_of,
    output_option,
    setting,
    shown,
)
from fstcrf.cli.progress import progress, progress_option
from fstcrf.cli.reporting import (
    INTERRUPTED,
    STOPPING,
    Failure,
    log,
    say,
    stopping,
    tell,
    warnings_to,
)
from fstcrf.cli.sources import InputFile, training_input
from fstcrf.cli.structures import StructureCommand
from fstcrf.cli.train import history_of, train, train_line
from fstcrf.ext import tune as hyperparameters
from fstcrf.ext.tune import Trial, Tuning
from fstcrf.ext.tune.search import searched
from fstcrf.ext.tune.study import installed
from fstcrf.files import held
from fstcrf.text.corpus import concatenated
from fstcrf.training.interruption import undisturbed
from fstcrf.training.loop import check_checkpoint
from fstcrf.training.options import DEFAULTS

if TYPE_CHECKING:
    from fstcrf.ext.report import History

_OWN = frozenset(  # options of `fstcrf train` with another meaning here, or without one
    {
        *("paths", "output", "template", "order", "method", "l1", "l2", "dev", "settings"),
        *("checkpoint", "checkpoint_every", "resume", "seed", "log_json", "report_folder"),
        *("dask", "workers", "memory_limit"),
    }
)
_SEARCHED = ("method", "order", "l2", "l1")


def _command(function: Callable[..., None]) -> click.Command:
    """Return a command with the options of ``fstcrf train`` that are the same in every trial."""
    command = click.command("tune", cls=StructureCommand)(function)
    command.params += [p for p in train.params if p.name not in _OWN and p.expose_value]
    return command


def _tried(text: str) -> tuple[str, Any]:
    """Return the name of an option, and the values to choose from."""
    name, equals, values = text.partition("=")
    if name not in _SEARCHED or not equals:
        raise ValueError(f"{text!r}: expected {'=..., '.join(_SEARCHED)}=...")
    if name in ("l1", "l2"):
        return name, choices_of(values)
    found = names_of(values)
    if name == "order":
        if not set(found) <= {"0", "1", "2"}:
            raise ValueError(f"order={values}: expected some of 0,1,2")
        return name, [int(order) for order in found]
    known = next(p for p in train.params if p.name == "method")
    return name, [known.type.convert(method, known, None) for method in found]


@_command
@click.argument("paths", metavar="TRAIN...", nargs=-1, required=True)
@output_option("MODEL", "the model, trained with the best options")
@click.option(
    "--template",
    "templates",
    metavar="FILE",
    multiple=True,
    required=True,
    help="Feature templates, as of CRF++. Repeatable: one of them is chosen.",
)
@DEV
@click.option("--folds", metavar="K", type=int, help="Score on K folds of TRAIN in place of FILE.")
@click.option(
    "--try",
    "tried",
    type=Parsed("NAME=VALUES", _tried),
    multiple=True,
    help="Values to choose from: l2=0.001..10, l1=0,0.01..1, order=1,2, method=lbfgs,ap. "
    "Repeatable.",
)
@shown("--trials", "N", int, 20, "Number of trials, with the trials of the journal.")
@setting(
    "pruner",
    click.Choice(["median", "halving", "none"]),
    "median",
    "Stop a trial early that is below the median of the earlier ones, that is not in the "
    "better half after 8, 16, 32, ... iterations (1, 2, 4, ... folds), or never.",
)
@click.option("--journal", metavar="FILE", help="Keep every finished trial in this file.")
@RESUME
@SEED
@LOG_JSON
@HISTORY
@progress_option
def tune(paths: tuple[str, ...], **given: Any) -> None:
    """Choose options of training on held-out data.

    Prints a table of the trials and the command that trains with the best options. The other
    options of fstcrf train are the same in every trial. Needs the extra fstcrf[tune].

    \b
    fstcrf tune train.txt --columns word,pos,chunk --target chunk \\
        --template small.tpl --template large.tpl --dev dev.txt -o chunk.fstcrf
    """
    installed()
    given = {"seed": given["seed"], **given_options(click.get_current_context(), given)}
    given |= _choices(given.pop("tried"))
    history = history_of(given.pop("report_folder"))
    line = dict(given, paths=paths)
    source = training_input(paths, given)
    _check_scoring(given)
    output, journal, dev = given.pop("output"), given["journal"], given.pop("dev")
    inputs = [*paths, dev, *given["templates"], *given["reads"], *given["grammar"]]
    inputs.append(given["start"])
    _check_files(inputs, output, journal, resume=given["resume"])
    with ExitStack() as locks:
        for path in filter(None, (output, journal)):
            locks.enter_context(held(path, "tuning"))
        _tuned(source, paths, given, history, line, dev=dev, output=output)


def _choices(tried: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return the values to choose from; each option is given once."""
    names = [name for name, _ in tried]
    if twice := [name for name in names if names.count(name) > 1]:
        raise click.UsageError(f"--try {twice[0]} is given twice")
    return dict(tried)


def _tuned(
    source: InputFile,
    paths: tuple[str, ...],
    given: dict[str, Any],
    history: History | None,
    line: dict[str, Any],
    *,
    dev: str | None,
    output: str | None,
) -> None:
    """Search, print the results, and train with the options of the best trial."""
    as_json = given.pop("log_json")
    asked = _asked(given)
    data = concatenated([source.read(path) for path in paths])
    say(
        f"read {len(data):,} sentences, {data.n_tokens:,} tokens from {', '.join(paths)}",
        "data",
        sentences=len(data),
        tokens=data.n_tokens,
    )
    held_out = None if dev is None else source.read(dev)
    found = _searched(data, held_out, asked, history, as_json=as_json)
    click.echo(str(found))
    click.echo(f"\n{_line(found.best, line, output)}")
    if found.interrupted:
        onward = "; the same command with --resume goes on" if asked["journal"] else ""
        trials = f"{len(found.trials)} trial{'s' * (len(found.trials) > 1)}"
        raise Failure(f"interrupted after {trials}{onward}", INTERRUPTED)
    if output is not None:
        _train(found, output, resume=asked["resume"])


def _check_scoring(given: dict[str, Any]) -> None:
    """Report wrong usage in the words of the command line."""
    if (given["dev"] is None) == (given["folds"] is None):
        raise click.UsageError("give either --dev FILE or --folds K, to score trials")
    if given["resume"] and given["journal"] is None:
        raise click.UsageError("--resume needs the --journal to go on from")


def _check_files(
    inputs: list[str | None], output: str | None, journal: str | None, *, resume: bool
) -> None:
    """Check before the work that outputs can be written."""
    check_outputs({"--output": output, "--journal": journal}, inputs)
    if output is not None:
        with in_flags(train):
            check_checkpoint(_checkpoint(output), resume=resume)
        warn_of_earlier(output, resume=resume and Path(_checkpoint(output)).exists(), say=say)


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `fstcrf.ext.tune.tune`, checked as far as possible without data."""
    choices: dict[str, Any] = {name: given.pop(name, None) for name in _SEARCHED}
    weights, start = dict(given.pop("class_weight")), given.pop("start")
    templates = _distinct(given.pop("templates"))
    known: dict[str, Any] = {
        "template": {path: Path(path) for path in templates},
        "reads": [tagger(path) for path in given.pop("reads")],
        "grammar": grammar_of(given.pop("grammar")),
        "class_weights": weights or None,
        "start": None if start is None else tagger(start),
    }
    options: dict[str, Any] = {
        name: list(found) for name, found in choices.items() if found is not None
    }
    options |= {name: given.pop(name) for name in DEFAULTS if name in given}
    partial, seed = options.pop("partial", None), options.pop("seed")
    with in_flags(train):
        searched(
            options,
            templates,
            seed=seed,
            reads=bool(known["reads"]),
            dev=given["folds"] is None,
            start=known["start"],
        )
    return {**given, **known, **options, "partial": partial, "seed": seed}


def _searched(
    data: Any, dev: Any, asked: dict[str, Any], history: History | None, *, as_json: bool
) -> Tuning:
    best: list[float] = []

    def report(trial: Trial) -> None:
        meter.add()
        better = trial.outcome == "complete" and (trial.score or 0.0) > max(best, default=-1.0)
        if better:
            best.append(trial.score or 0.0)
        if as_json:
            log("trial", **asdict(trial), best=better)
        else:
            tell(_told(trial, better=better))
        if history is not None:
            history.tried(trial)

    with in_flags(train), warnings_to(say), progress("tuning", "trials", asked["trials"]) as meter:
        return hyperparameters.tune(data, dev=dev, report=report, keep_on_interrupt=True, **asked)


def _distinct(paths: tuple[str, ...]) -> tuple[str, ...]:
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise click.UsageError(f"--template {twice[0]} is given twice")
    return paths


def _told(trial: Trial, *, better: bool) -> str:
    options = {**trial.options, "template": trial.template}
    chosen = [f"{name} {options[name]}" for name in (*_SEARCHED, "template") if name in options]
    score = "" if trial.score is None else f"{100 * trial.score:.2f}"
    mark = "*" if better else " "
    end = {"complete": [], "stopped": ["stopped early"], "diverged": ["diverged"]}[trial.outcome]
    rest = "  ".join([*chosen, *end, f"{trial.seconds:.1f} s"])
    return f"trial {trial.number:3}  {score:>6} {mark}  {rest}"


def _line(best: Trial, given: dict[str, Any], output: str | None) -> str:
    same = {*best.options, "seed", "patience"} - {*_SEARCHED, "resume"}
    used = {n: v for n, v in given.items() if n in same or n not in {*DEFAULTS, "resume"}}
    return train_line(
        {
            **used,
            **{n: best.options[n] for n in _SEARCHED if n in best.options},
            "template": best.template,
            "output": output or "tuned.fstcrf",
        }
    )


def _checkpoint(output: str) -> str:
    return f"{output}.checkpoint"


def _train(found: Tuning, output: str, *, resume: bool) -> None:
    checkpoint = _checkpoint(output)
    try:
        with stopping(f"fstcrf: {STOPPING}"), warnings_to(say):
            model = found.train(
                checkpoint=checkpoint, checkpoint_every=None, resume=resume, keep_on_interrupt=True
            )
    except KeyboardInterrupt:
        raise Failure("interrupted: the model is not trained", INTERRUPTED) from None
    with undisturbed():
        if model.record is not None and model.record.interrupted:
            what = save_interrupted(model, output, checkpoint, command="the printed command")
            raise Failure(f"interrupted: {what}", INTERRUPTED)
        save(model, output)
    Path(checkpoint).unlink(missing_ok=True)
    say(f"{output}: trained as trial {found.best.number}")
