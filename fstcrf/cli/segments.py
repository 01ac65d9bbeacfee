"""``fstcrf train --structure segments``: taggers whose units are segments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from fstcrf.cli.learning import learn
from fstcrf.cli.options import (
    COLUMNS,
    DEV,
    LOG_JSON,
    NAMES,
    QUASI_NEWTON,
    SCHEME,
    SEPARATOR,
    check_outputs,
    output_option,
    setting,
    shown,
    threads_option,
    with_options,
)
from fstcrf.cli.reporting import Reporter
from fstcrf.cli.sources import SEPARATORS
from fstcrf.cli.structures import STRUCTURE, structure_command
from fstcrf.ext.course import structured
from fstcrf.ext.segments.structure import Segments
from fstcrf.taggers.segmental import SegmentCRF
from fstcrf.text.corpus import read_columns
from fstcrf.text.lines import read_text, text_lines


@structure_command
@click.argument("path", metavar="TRAIN")
@output_option("MODEL", "the model", required=True)
@STRUCTURE
@click.option("--columns", type=NAMES, required=True, metavar="NAME,...", help=COLUMNS)
@click.option("--target", metavar="COLUMN", help="Column of the gold labels.  [default: the last]")
@click.option("--template", metavar="FILE", required=True, help="Feature templates, as of CRF++.")
@click.option(
    "--segment-columns",
    "texts",
    type=NAMES,
    default=(),
    metavar="NAME,...",
    help="Columns whose strings over a whole segment are features.",
)
@click.option(
    "--lexicon",
    metavar="FILE",
    multiple=True,
    help="Phrases, one in each line, that are features. Repeatable.",
)
@DEV
@setting(
    "longest", click.IntRange(1, 1000), 8, "Most tokens of a segment with no tail.", metavar="N"
)
@setting("tails", bool, True, "Longer segments are possible.")  # noqa: FBT003
@setting(
    "on_missing",
    click.Choice(["error", "nearest", "skip"]),
    "error",
    "Gold labels that the model does not have: an error, the nearest ones, or left out.",
)
@shown("--scheme", None, SCHEME, "conlleval", "Scheme of the labels, by which spans are read.")
@setting("writes", SCHEME, "iob2", "Scheme of the labels that the model writes.")
@shown("--min-count", "N", click.IntRange(min=1), 1, "Smallest count of an attribute that is kept.")
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
    fstcrf train train.txt -o np.fstcrf --structure segments \\
        --columns word,pos,chunk --template chunk.tpl --segment-columns word
    """  # fmt: skip
    outputs = {"--output": output, "--set checkpoint": options["checkpoint"]}
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
