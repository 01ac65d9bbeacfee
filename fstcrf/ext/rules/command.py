"""``fstcrf rules``: the open costs of a grammar file, learned on top of a tagger or with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from fstcrf.cli.models import (
    constrained,
    interrupted,
    save,
    state_file,
    tell_where_it_begins,
    token_model,
)
from fstcrf.cli.options import (
    AT_LEAST_0,
    LOG_JSON,
    check_outputs,
    choice,
    in_flags,
    input_options,
    shown,
    threads_option,
    with_options,
)
from fstcrf.cli.reporting import STOPPING, Reporter, reporter, stopping, warnings_to
from fstcrf.cli.sources import check_columns, model_input
from fstcrf.ext.course import structured
from fstcrf.ext.rules import LearnedRules, TrainedWithRules, learn_rules, train_with_rules
from fstcrf.files import held
from fstcrf.training.interruption import undisturbed

_OF_JOINT = ("tagger_l2", "start", "checkpoint", "resume")
_ITERATIONS, _JOINT_ITERATIONS = 100, 500

_LEARNING = (
    shown("--l2", "X", AT_LEAST_0, 0.1, "Strength of the penalty l2 · |weights|² of the rules."),
    shown(
        "--l1",
        "X",
        AT_LEAST_0,
        0.0,
        "Strength of the penalty l1 · sum |weights|: rules that do not help get 0. Not with "
        "--joint.",
    ),
    click.option(
        "--max-iterations",
        metavar="N",
        type=click.IntRange(min=1),
        help=f"Iterations at most.  [default: {_ITERATIONS}; {_JOINT_ITERATIONS} with --joint]",
    ),
)
_TRAINING = (
    click.option(
        "--joint",
        metavar="NEWMODEL",
        help=(
            "Also train the weights of the tagger, on TEXT, and write the tagger to this "
            "file. TEXT must be its training text."
        ),
    ),
    click.option(
        "--tagger-l2",
        metavar="X",
        type=AT_LEAST_0,
        help="The same as --l2, of the tagger's weights.  [default: as it was trained, else 0.5]",
    ),
    choice("--start", ("tagger", "zero"), "Where the tagger's weights begin."),
    click.option(
        "--checkpoint",
        metavar="FILE",
        help=(
            "File for the state of --joint, saved every 10 iterations.  [default: "
            "NEWMODEL.checkpoint, saved only on Ctrl-C, removed at the end]"
        ),
    ),
    click.option("--resume", is_flag=True, help="Go on from the saved state, if there is one."),
)


@click.command()
@click.argument("model_path", metavar="MODEL")
@click.argument("path", metavar="TEXT")
@click.argument("rules_path", metavar="RULES")
@click.argument("output", metavar="OUT")
@input_options
@click.option(
    "--target", metavar="COLUMN", help="Column of the gold labels.  [default: called as the tape]"
)
@click.option(
    "--grammar",
    "grammars",
    metavar="FILE",
    multiple=True,
    help="Another grammar for the tagger. Repeatable.",
)
@lambda command: with_options(_LEARNING, command)
@lambda command: with_options(_TRAINING, command)
@choice(
    "--on-missing",
    ("error", "skip"),
    "Sentences whose gold labels the hard rules forbid: an error, or left out.",
)
@threads_option
@LOG_JSON
@click.pass_context
def rules(
    context: click.Context,
    /,
    model_path: str,
    path: str,
    rules_path: str,
    output: str,
    *,
    target: str | None,
    grammars: tuple[str, ...],
    joint: str | None,
    log_json: bool,
    **given: Any,
) -> None:
    """Learn the costs of rules, a grammar file, on top of a tagger or together with it.

    RULES is a grammar file with open costs, <?>. TEXT has gold labels, and must not contain the
    training sentences of the tagger. The rules with their costs are written to OUT, a grammar
    file as any other; a table of them is printed.

    \b
    fstcrf rules chunks.fstcrf heldout.txt rules.grm learned.grm
    fstcrf tag chunks.fstcrf new.txt --grammar learned.grm

    With --joint, the weights of the tagger are trained together with the rules, on its training
    text. Ctrl-C stops training after the current iteration, and the same command with --resume
    continues.

    \b
    fstcrf rules chunks.fstcrf train.txt rules.grm learned.grm --joint new.fstcrf
    fstcrf tag new.fstcrf new.txt --grammar learned.grm
    """
    how = _options(context, given, joint=joint is not None)
    outputs = {"OUT": output, "--joint": joint, "--checkpoint": given["checkpoint"]}
    check_outputs(outputs, [model_path, path, rules_path, *grammars])
    model = token_model(model_path)
    column = target or model.tapes[0]
    reading = {name: how.pop(name) for name in ("columns", "kind", "separator")}
    data = model_input(model, path=path, targets=[column], wanted=[column], **reading).read(path)
    check_columns(model, data)
    how |= {"tagger": constrained(model, grammars) if grammars else model}
    how |= {"data": data, "rules": Path(rules_path), "target": column}
    locked = [output] if joint is None else [output, joint]
    with (
        _held(locked),
        reporter(as_json=log_json, max_iterations=how["max_iterations"]) as told,
        in_flags(context.command),
        warnings_to(told.data),
    ):
        _tell_of_earlier(output, told)
        learned: LearnedRules
        if joint is None:
            learned = learn_rules(**structured({**how, "report": told.iteration}))
            learned.save(output)
        else:
            learned = _trained(joint, output, told, how)
        _finish(learned, output, joint, told)
    click.echo(str(learned))


def _options(context: click.Context, given: dict[str, Any], *, joint: bool) -> dict[str, Any]:
    """Return the options of a method; refuse options that it does not read."""
    usual = click.core.ParameterSource.DEFAULT
    for name in _OF_JOINT if not joint else ("l1",):
        if context.get_parameter_source(name) is not usual:
            flag = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} {'is not for' if joint else 'needs'} --joint")
    most = given["max_iterations"] or (_JOINT_ITERATIONS if joint else _ITERATIONS)
    unread = {"l1"} if joint else set(_OF_JOINT)
    return {name: value for name, value in given.items() if name not in unread} | {
        "max_iterations": most
    }


@contextmanager
def _held(paths: list[str]) -> Iterator[None]:
    """Keep other runs away from files."""
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(held(path, "training"))
        yield


def _tell_of_earlier(output: str, told: Reporter) -> None:
    if Path(output).exists():
        told.note(f"{output} is there: the end of learning replaces it")


def _trained(joint: str, output: str, told: Reporter, how: dict[str, Any]) -> TrainedWithRules:
    """Train tagger and rules, and save the tagger."""
    resume = how["resume"]
    checkpoint, kept, how["checkpoint_every"] = state_file(
        how.pop("checkpoint"), joint, every=None, resume=resume
    )
    tell_where_it_begins(joint, checkpoint, resume=resume, say=told.note)
    try:
        with stopping(told.line(STOPPING)):
            found = train_with_rules(
                **structured({**how, "checkpoint": checkpoint, "report": told.iteration})
            )
    except KeyboardInterrupt:
        raise interrupted(checkpoint) from None
    with undisturbed():
        save(found.tagger, joint)
        found.save(output)
    if not kept:
        Path(checkpoint).unlink(missing_ok=True)
    return found


def _finish(learned: LearnedRules, output: str, joint: str | None, told: Reporter) -> None:
    told.done(
        f"{output if joint is None else f'{joint}, {output}'}: {learned.sentences:,} sentences, "
        f"log-likelihood of one {learned.before:.3f} → {learned.after:.3f}"
        + (f"; {learned.skipped:,} left out" if learned.skipped else "")
        + f"; {learned.reason}",
        model=output if joint is None else joint,
        rules=output,
    )
