"""``fstcrf consistency``: what it costs that labels disagree within a document, estimated.

===========  =============
consistency  the command
===========  =============
"""

from __future__ import annotations

import click

from fstcrf.cli.failures import say
from fstcrf.cli.options import SchemeName, input_options
from fstcrf.cli.saving import spare_inputs
from fstcrf.cli.sources import training_input

__all__ = ["consistency"]


@click.command()
@click.argument("path", metavar="TRAIN")
@click.option("-o", "--output", metavar="OUT", required=True, help="Where the model goes: JSON.")
@input_options
@click.option("--target", metavar="COLUMN", required=True, help="The column of gold labels.")
@click.option(
    "--compare",
    metavar="COLUMN",
    default="word",
    show_default=True,
    help="The column whose strings are compared.",
)
@click.option(
    "--scheme",
    type=SchemeName(),
    default="iob2",
    show_default=True,
    help="Of the gold labels: iob1, iob2 (bio), bioes (iobes), bilou or conlleval.",
)
@click.option("--tape", metavar="TAPE", help="The tape to look at, of models with several.")
def consistency(
    path: str,
    *,
    output: str,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    target: str,
    compare: str,
    scheme: str,
    tape: str | None,
) -> None:
    """Estimate penalties for one token sequence with several types in a document.

    For fstcrf tag --document-consistency. Lines -DOCSTART- begin documents.

    \b
    fstcrf consistency train.txt -o names.json --columns word,pos,chunk,ner --target ner \\
        --scheme iob1
    """
    from fstcrf.corpus import check_writable
    from fstcrf.documents import Consistency

    spare_inputs(output, [path])
    check_writable(output)
    source = training_input([path], columns=columns, kind=kind, separator=separator, features=None)
    corpus = source.read(path)
    model = Consistency.estimate(corpus, target, column=compare, scheme=scheme, tape=tape)
    model.save(output)
    slices = len(corpus.document_slices())
    say(f"{slices:,} documents, {len(model.violations)} types of violations: {output}")
