"""``fstcrf rules``: the open costs of a grammar file, learned on top of a tagger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fstcrf.cli.models import constrained, load_model, spare_inputs
from fstcrf.cli.options import in_flags, input_options, threads_option
from fstcrf.cli.reporting import reporter, warnings_to
from fstcrf.cli.sources import check_columns, model_input
from fstcrf.corpus import check_writable
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
@click.option(
    "--l2",
    metavar="X",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    help="Strength of the penalty l2 · |weights|².",
)
@click.option(
    "--l1",
    metavar="X",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Strength of the penalty l1 · sum |weights|: rules that do not help get 0.",
)
@click.option(
    "--max-iterations",
    metavar="N",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Iterations at most.",
)
@click.option(
    "--on-missing",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="Sentences whose gold labels the hard rules forbid: an error, or left out.",
)
@threads_option
@click.option("--log-json", is_flag=True, help="Progress as JSON lines on standard error.")
@click.pass_context
def rules(
    context: click.Context,
    /,
    model_path: str,
    path: str,
    rules_path: str,
    output: str,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    target: str | None,
    grammars: tuple[str, ...],
    log_json: bool,
    **options: Any,
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
    source = model_input(
        model,
        path=path,
        columns=columns,
        kind=kind,
        separator=separator,
        targets=[target or model.tapes[0]],
        wanted=[target or model.tapes[0]],
    )
    data = source.read(path)
    check_columns(model, data)
    whole = constrained(model, grammars) if grammars else model
    with reporter(as_json=log_json, max_iterations=options["max_iterations"]) as told:
        with in_flags(context.command), warnings_to(told.data):
            learned = learn_rules(
                whole,
                data,
                Path(rules_path),
                target=target or model.tapes[0],
                report=told.iteration,
                **options,
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
