"""``fstcrf rules``: the open costs of a grammar file, learned on top of a tagger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fstcrf.cli.models import constrained, load_model, spare_inputs
from fstcrf.cli.options import (
    LOG_JSON,
    choice,
    in_flags,
    input_options,
    minimising,
    threads_option,
    with_options,
)
from fstcrf.cli.reporting import reporter, warnings_to
from fstcrf.cli.sources import check_columns, model_input
from fstcrf.corpus import check_writable
from fstcrf.locks import held
from fstcrf.rules import learn_rules


@click.command()
@click.argument("model_path", metavar="MODEL")
@click.argument("path", metavar="HELDOUT")
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
    help="A further grammar that the tagger stands under; may be given again.",
)
@lambda command: with_options(
    minimising(l2=0.1, max_iterations=100, sparse=": rules that do not help get 0"), command
)
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
    l2: float,
    l1: float,
    max_iterations: int,
    on_missing: Any,
    threads: int,
    log_json: bool,
    **how: Any,
) -> None:
    """Learn the costs of rules, a grammar file, on top of a tagger.

    RULES is a grammar file with open costs, <?>. HELDOUT has gold labels, and none of the
    sentences that the tagger was trained on. The rules with their costs are written to OUT, a
    grammar file as any other; a table of them is printed.

    \b
    fstcrf rules chunks.fstcrf heldout.txt rules.grm learned.grm
    fstcrf tag chunks.fstcrf new.txt --grammar learned.grm
    """
    check_writable(output)
    spare_inputs(output, [model_path, path, rules_path, *grammars], option="OUT")
    model = load_model(model_path)
    column = target or model.tapes[0]
    data = model_input(model, path=path, targets=[column], wanted=[column], **how).read(path)
    check_columns(model, data)
    whole = constrained(model, grammars) if grammars else model
    with (
        held(output, "training"),
        reporter(as_json=log_json, max_iterations=max_iterations) as told,
    ):
        with in_flags(context.command), warnings_to(told.data):
            learned = learn_rules(
                whole,
                data,
                Path(rules_path),
                target=column,
                l2=l2,
                l1=l1,
                max_iterations=max_iterations,
                on_missing=on_missing,
                threads=threads,
                report=told.iteration,
            )
        learned.save(output)
        told.done(
            f"{output}: {learned.sentences:,} sentences, log-likelihood of one "
            f"{learned.before:.3f} → {learned.after:.3f}"
            + (f"; {learned.skipped:,} left out" if learned.skipped else "")
            + f"; {learned.reason}",
            model=output,
        )
    click.echo(str(learned))
