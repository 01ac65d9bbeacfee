"""``fstcrf explain``: which features pushed which label at one token.

=======  =============
explain  the command
=======  =============
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fstcrf.cli.models import load_model
from fstcrf.cli.options import input_options
from fstcrf.cli.sources import Input, model_input
from fstcrf.errors import OptionError

if TYPE_CHECKING:
    from fstcrf.corpus import Sentence

__all__ = ["explain"]


@click.command()
@click.argument("model_path", metavar="MODEL")
@click.argument("path", metavar="[INPUT]", default="-")
@input_options
@click.option(
    "--sentence",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Which sentence, from 0.",
)
@click.option(
    "--token",
    metavar="T",
    type=click.IntRange(min=0),
    required=True,
    help="Which token of it, from 0.",
)
def explain(
    model_path: str,
    path: str,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    sentence: int,
    token: int,
) -> None:
    """Show which features pushed which label at one token, and by how much.

    Of a composition, tape by tape, while the others have their best labels; a feature that looks
    at other tapes is told with their labels.

    \b
    fstcrf explain chunk.fstcrf test.txt --sentence 3 --token 5
    """
    model = load_model(model_path)
    source = model_input(model, columns=columns, kind=kind, separator=separator)
    chosen = _sentence(source, path, sentence)
    found = model.explain(chosen, token)
    words = chosen["form" if source.conllu else chosen.columns[0]]
    click.echo(" ".join(f"[{w}]" if t == token else w for t, w in enumerate(words)))
    click.echo(str(found))


def _sentence(source: Input, path: str, number: int) -> Sentence:
    seen = 0
    for batch in source.stream(path):
        if number < seen + len(batch):
            return batch[number - seen]
        seen += len(batch)
    raise OptionError(f"--sentence {number} of {seen} sentences; they count from 0")
