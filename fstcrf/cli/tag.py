"""``fstcrf tag``: the input's columns and the predicted label, sentence after sentence.

===  =============
tag  the command
===  =============
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fstcrf.cli.failures import say
from fstcrf.cli.options import Assignment, input_options, threads_option
from fstcrf.cli.sources import Input, model_input, tagger
from fstcrf.cli.tagging import Counts, OnNoPath, Wishes, tagged

if TYPE_CHECKING:
    from fstcrf.model import CRF

__all__ = ["tag"]


@click.command()
@click.argument("model_path", metavar="MODEL")
@click.argument("path", metavar="[INPUT]", default="-")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    default="-",
    help="Where to; .gz is compressed.  [default: standard output]",
)
@input_options
@click.option(
    "--probabilities",
    is_flag=True,
    help="Print label/probability, and before each sentence # and the probability of "
    "its labels together, as CRF++ does.",
)
@click.option(
    "--marginals", is_flag=True, help="The same, and a column label/probability for every label."
)
@click.option(
    "--span-probabilities",
    is_flag=True,
    help="Add a column with the probability of each span at its first token.",
)
@click.option(
    "--force", metavar="COLUMN", help="Labels known beforehand: _ is unknown, a|b one of several."
)
@click.option(
    "--bias",
    type=Assignment(),
    multiple=True,
    help="Add to the score of a label everywhere: O=-1 finds more spans. Repeatable.",
)
@click.option(
    "--on-no-path",
    type=click.Choice(["error", "skip", "relax"]),
    default="error",
    show_default=True,
    help="Where no label sequence is legal: stop, print _ as labels, or do without --force.",
)
@threads_option
def tag(
    model_path: str,
    path: str,
    output: str,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    probabilities: bool,
    marginals: bool,
    span_probabilities: bool,
    force: str | None,
    bias: tuple[tuple[str, float], ...],
    on_no_path: OnNoPath,
    threads: int,
) -> None:
    """Tag a file.

    The input has the columns that the model was trained with, of which the last ones may be
    missing, or those that --columns names. They are printed again with the predicted label behind
    them; document lines and blank lines stay.

    \b
    fstcrf tag chunk.fstcrf test.txt > tagged.txt
    """
    model = tagger(model_path)
    source = model_input(model, columns=columns, kind=kind, separator=separator)
    wishes = Wishes(
        probabilities=probabilities,
        marginals=marginals,
        spans=span_probabilities,
        force=force,
        bias=dict(bias),
        on_no_path=on_no_path,
        threads=threads,
    )
    counts = Counts()
    _write(model, source, path=path, output=output, wishes=wishes, counts=counts)
    _report(counts)


def _write(
    model: CRF, source: Input, *, path: str, output: str, wishes: Wishes, counts: Counts
) -> None:
    from fstcrf.corpus import ColumnWriter
    from fstcrf.corpus.files import open_target

    writer: ColumnWriter | None = None
    with open_target(output) as file:
        for batch in source.stream(path):
            found = tagged(model, batch, wishes, counts)
            kept, between = source.written(batch)
            added = [f"%{k}" for k in range(len(found.columns))]
            writer = writer or ColumnWriter(file, [*kept, *added], separator=between)
            answer = batch
            for name, column in zip(added, found.columns, strict=True):
                answer = answer.with_interned(name, column)
            writer.write(answer, comments=found.comments)


def _report(counts: Counts) -> None:
    for number, what in (
        (counts.skipped, "tagged _: no label sequence is legal"),
        (counts.relaxed, "tagged without the forced labels, which no legal sequence has"),
    ):
        if number:
            say(f"{number} sentence{'s' if number > 1 else ''} {what}")
