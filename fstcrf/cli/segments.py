"""``fstcrf segments``: taggers whose units are segments, trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from fstcrf.cli.learning import learn
from fstcrf.cli.options import (
    LOG_JSON,
    NAMES,
    QUASI_NEWTON,
    SCHEME,
    SEPARATOR,
    check_outputs,
    choice,
    shown,
    threads_option,
    with_options,
)
from fstcrf.cli.reporting import Reporter
from fstcrf.cli.sources import SEPARATORS
from fstcrf.ext.course import structured
from fstcrf.ext.segments.structure import Segments
from fstcrf.taggers.segmental import SegmentCRF
from fstcrf.text.corpus import read_columns
from fstcrf.text.lines import read_text, text_lines


@click.group()
def segments() -> None:
    """Train taggers of segments: features of whole stretches of tokens."""


@segments.command()
@click.argument("path", metavar="TRAIN")
@click.argument("output", metavar="MODEL")
@click.option("--columns", type=NAMES, required=True, help="Names of the columns: word,pos,chunk.")
@click.option("--target", metavar="COLUMN", help="The column of labels; the last one when absent.")
@click.option(
    "--template", metavar="FILE", required=True, help="Attributes of tokens, as of fstcrf train."
)
@click.option(
    "--segment-columns",
    "texts",
    type=NAMES,
    default=(),
    help="Columns whose strings over a whole segment are features.",
)
@click.option(
    "--lexicon",
    metavar="FILE",
    multiple=True,
    help=(
        "A dictionary with one phrase per line. The name of the file becomes the name of "
        "its entries."
    ),
)
@click.option("--dev", metavar="FILE", help="Held-out sentences: the best F decides.")
@shown(
    "--longest", "N", click.IntRange(1, 1000), 8, "Tokens of the longest segment without a tail."
)
@click.option("--tails/--no-tails", default=True, help="Longer segments are possible.")
@choice(
    "--on-missing",
    ("error", "nearest", "skip"),
    "Gold segments that are too long without tails: an error, cut into pieces, or left out with "
    "their sentences.",
)
@shown("--scheme", None, SCHEME, "conlleval", "How labels are read as spans.")
@shown("--writes", None, SCHEME, "iob2", "The scheme of the labels that the model writes.")
@shown("--min-count", "N", click.IntRange(min=1), 1, "Leave out attributes that fewer tokens have.")
@lambda command: with_options(QUASI_NEWTON, command)
@SEPARATOR
@threads_option
@LOG_JSON
@click.pass_context
def train(
    context: click.Context,
    /,
    path: str,
    output: str,
    *,
    columns: tuple[str, ...],
    target: str | None,
    template: str,
    texts: tuple[str, ...],
    lexicon: Sequence[str],
    dev: str | None,
    separator: str,
    log_json: bool,
    **options: Any,
) -> None:
    """Train a tagger of segments on a column file.

    \b
    fstcrf segments train train.txt np.fstcrf --columns word,pos,chunk \\
        --template chunking.tpl --segment-columns word,pos
    """  # fmt: skip
    outputs = {"MODEL": output, "--checkpoint": options["checkpoint"]}
    check_outputs(outputs, [path, template, dev, *lexicon])
    between = SEPARATORS[separator]
    data = read_columns(path, columns, separator=between)
    held_out = None if dev is None else read_columns(dev, columns, separator=between)

    def trained(told: Reporter) -> SegmentCRF:
        flat = {
            "features": Path(template),
            "strings": texts,
            "lexicon": _phrases(lexicon),
            "dev": held_out,
            "report": told.iteration,
            **options,
        }
        column = columns[-1] if target is None else target
        return SegmentCRF.train(data, column, **structured(flat, Segments))

    learn(context, output, trained, lambda model: model.save(output), as_json=log_json)


def _phrases(paths: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the phrases of dictionaries by the names of their files."""
    found: dict[str, list[str]] = {}
    for path in paths:
        lines = text_lines(read_text(path))
        name = Path(path.removesuffix(".gz")).stem
        found.setdefault(name, []).extend(line for line in lines if line.strip(" \t"))
    return found or None
