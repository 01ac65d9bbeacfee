"""``fstcrf train --structure rules``: the costs of rules, learned on top of a tagger or with it."""

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
    CHECKPOINT,
    ITERATIONS,
    L1,
    LOG_JSON,
    PENALTY,
    RESUME,
    TARGET,
    check_outputs,
    flag_of,
    grammar_option,
    in_flags,
    input_options,
    output_option,
    setting,
    shown,
    threads_option,
)
from fstcrf.cli.reporting import STOPPING, Reporter, reporter, stopping, warnings_to
from fstcrf.cli.sources import check_columns, model_input
from fstcrf.cli.structures import STRUCTURE, structure_command
from fstcrf.ext.course import structured
from fstcrf.ext.rules import LearnedRules, TrainedWithRules, learn_rules, train_with_rules
from fstcrf.files import held
from fstcrf.training.interruption import undisturbed

_OF_JOINT = ("tagger_l2", "start", "checkpoint", "resume")
_ITERATIONS, _JOINT_ITERATIONS = 100, 500


@structure_command
@click.argument("path", metavar="TEXT")
@output_option("OUT", "the rules with their costs, a grammar file", required=True)
@STRUCTURE
@click.option("--tagger", "model_path", metavar="MODEL", required=True, help="The tagger.")
@click.option(
    "--rules", "rules_path", metavar="FILE", required=True, help="Grammar with costs <?>."
)
@input_options
@click.option("--target", metavar="COLUMN", help=TARGET)
@grammar_option
@shown("--l2", "X", AT_LEAST_0, 0.1, PENALTY)
@L1
@click.option(
    "--max-iterations",
    metavar="N",
    type=click.IntRange(min=1),
    help=f"{ITERATIONS}  [default: {_ITERATIONS}; {_JOINT_ITERATIONS} with --new-tagger]",
)
@click.option(
    "--new-tagger",
    "joint",
    metavar="NEWMODEL",
    help="Train the tagger as well, on its training text TEXT; write it here.",
)
@setting(
    "tagger_l2",
    AT_LEAST_0,
    None,
    "The penalty l2 of the weights of --new-tagger.  [default: as it was trained, else 0.5]",
    metavar="X",
)
@setting(
    "start_weights",
    click.Choice(["tagger", "zero"]),
    "tagger",
    "Where the weights of --new-tagger begin.",
    parameter="start",
)
@CHECKPOINT
@RESUME
@setting(
    "on_missing",
    click.Choice(["error", "skip"]),
    "error",
    "Gold labels that the model does not have: an error, or their sentences are left out.",
)
@threads_option
@LOG_JSON
@click.pass_context
def train(
    context: click.Context,
    /,
    path: str,
    output: str,
    *,
    model_path: str,
    rules_path: str,
    target: str | None,
    grammar: tuple[str, ...],
    joint: str | None,
    log_json: bool,
    **given: Any,
) -> None:
    """Learn the costs of rules on top of a tagger, or together with it.

    TEXT has gold labels. Without --new-tagger, the tagger must not be trained on it. A table of
    the rules is printed.

    \b
    fstcrf train heldout.txt -o learned.grm --structure rules \\
        --tagger chunks.fstcrf --rules rules.grm
    fstcrf tag chunks.fstcrf new.txt --grammar learned.grm
    """
    outputs = {"--output": output, "--new-tagger": joint, "--set checkpoint": given["checkpoint"]}
    how = _options(context, given, joint=joint is not None)
    check_outputs(outputs, [model_path, path, rules_path, *grammar])
    model = token_model(model_path)
    column = target or model.tapes[0]
    reading = {name: how.pop(name) for name in ("columns", "kind", "separator")}
    data = model_input(model, path=path, targets=[column], wanted=[column], **reading).read(path)
    check_columns(model, data)
    how |= {"tagger": constrained(model, grammar) if grammar else model}
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
            flag = next(flag_of(p) for p in context.command.params if p.name == name)
            raise click.UsageError(f"{flag} {'is not for' if joint else 'needs'} --new-tagger")
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
