"""``fstcrf tag``: the input's columns and the predicted label, sentence after sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fstcrf.cli.documents import check_alone, document_options, tag_documents
from fstcrf.cli.models import constrained, load_model
from fstcrf.cli.reporting import say
from fstcrf.cli.sources import model_input
from fstcrf.cli.tagging import question, tag_file, tagging_options
from fstcrf.joint import CRF, Tagger
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    from fstcrf import pipelines
else:  # plain tagging does not wait for it
    pipelines = LazyModule("fstcrf.pipelines")

__all__ = ["tag"]


@click.command()
@click.argument("model_path", metavar="MODEL")
@click.argument("path", metavar="[INPUT]", default="-")
@tagging_options("tape")
@click.option(
    "--joint/--cascade",
    default=None,
    help="Short for --decode joint and --decode cascade.",
)
@document_options
def tag(
    model_path: str,
    path: str,
    output: str,
    *,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    **given: Any,
) -> None:
    """Tag a file.

    The input has the columns that the model was trained with, of which the last ones may be
    missing, or those that --columns names. They are printed again with the predicted labels behind
    them, a column for each tape; document lines and blank lines stay.

    \b
    fstcrf tag chunk.fstcrf test.txt > tagged.txt
    fstcrf tag chunk.fstcrf test.txt --grammar bio --nbest 5
    """
    model = load_model(model_path)
    decode, option = _asked(given)
    one_by_one = decode in ("cascade", "marginals")
    if given["grammar"] and not one_by_one:
        model = constrained(model, given["grammar"])
    source = model_input(model, columns=columns, kind=kind, separator=separator)
    if given["document_consistency"]:
        tag_documents(model, source, path, output, given)
        return
    check_alone(given)
    tagger: Tagger = model
    if decode not in (None, "joint"):
        if isinstance(model, CRF) or len(model.tapes) == 1:
            raise click.UsageError(f"{option} is for compositions: the model has one tape")
        if one_by_one and model.conjuncts:
            say(f"warning: {option} decides without the grammar of the composition")
        tagger = pipelines.TrainedPipeline(model, decode)
    tag_file(tagger, source, path, output, question(tagger, given, tape="tape"))


def _asked(given: dict[str, Any]) -> tuple[Any, str]:
    """Return how the tapes are to be decided, and the option that says so.

    Raises
    ------
    click.UsageError
        Two options say so.
    """
    if given["joint"] is None:
        return given["decode"], "--decode"
    decode = "joint" if given["joint"] else "cascade"
    if given["decode"] is not None:
        raise click.UsageError(f"--{decode} cannot go with --decode")
    return decode, f"--{decode}"
