"""``fstcrf fields``: what it costs that fields of a document disagree, as it is given.

======  ===========
fields  the command
======  ===========
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fstcrf.cli.failures import say

if TYPE_CHECKING:
    from fstcrf.documents import Fields

__all__ = ["fields"]


@click.command()
@click.option("-o", "--output", metavar="OUT", required=True, help="Where the model goes: JSON.")
@click.option(
    "--differing",
    metavar="TYPE VALUE PENALTY",
    type=(str, click.Choice(["clock", "text"]), float),
    multiple=True,
    help="Two spans of a type say different things: clock, a time; text, letters and digits. The "
    "penalty, a natural log, at most 0, is for each token of the two. Repeatable.",
)
@click.option(
    "--unlabelled",
    metavar="TYPE PENALTY",
    type=(str, float),
    multiple=True,
    help="The last word of a span of a type is elsewhere without that type. Repeatable.",
)
@click.option(
    "--seminars",
    is_flag=True,
    help="The model of Finkel et al. (2005): stime and etime by the clock, speaker unlabelled, -4 "
    "each.",
)
@click.option(
    "--compare",
    metavar="COLUMN",
    default="word",
    show_default=True,
    help="The column that is read.",
)
@click.option("--tape", metavar="TAPE", help="The tape to look at, of models with several.")
def fields(
    *,
    output: str,
    differing: tuple[tuple[str, str, float], ...],
    unlabelled: tuple[tuple[str, float], ...],
    seminars: bool,
    compare: str,
    tape: str | None,
) -> None:
    """Write a model of fields that agree throughout a document.

    For fstcrf tag --document-consistency. Nothing is estimated: penalties are given.

    \b
    fstcrf fields -o fields.json --differing stime clock -4 --unlabelled speaker -4
    """
    if not (differing or unlabelled or seminars):
        raise click.UsageError("nothing to write: give --differing, --unlabelled or --seminars")
    from fstcrf.documents import Differing, Fields, Unlabelled

    model = Fields(
        [
            *(Fields.seminars().violations if seminars else ()),
            *(Differing(*given) for given in differing),
            *(Unlabelled(*given) for given in unlabelled),
        ],
        compare,
        tape,
    )
    _check_signs(model)
    model.save(output)
    say(f"{len(model.violations)} types of violations: {output}")


def _check_signs(model: Fields) -> None:
    """Check that no penalty is a reward; most likely its minus is missing.

    Raises
    ------
    click.UsageError
        One is.
    """
    for violation in model.violations:
        if violation.penalty > 0:
            raise click.UsageError(
                f"--{type(violation).__name__.lower()} {violation.type}: the penalty is "
                f"{violation.penalty:g}, which would be a reward; expected at most 0, such as "
                f"{-violation.penalty:g}"
            )
