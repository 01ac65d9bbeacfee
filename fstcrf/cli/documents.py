"""``fstcrf tag --document-consistency``: documents as a whole.

================  ===========================================================
document_options  the options
check_alone       that none of sampling stands alone
document_tagger   the tagger with saved models of violations
document_source   the input in batches that hold whole documents
================  ===========================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from fstcrf.cli.failures import say
from fstcrf.cli.options import Command
from fstcrf.cli.sources import Input

if TYPE_CHECKING:
    from fstcrf.cli.models import Model
    from fstcrf.corpus import Corpus
    from fstcrf.documents import DocumentTagger

__all__ = [
    "check_alone",
    "document_options",
    "document_source",
    "document_tagger",
]

_OPTIONS = (
    click.option(
        "--document-consistency",
        metavar="CONSISTENCY",
        multiple=True,
        help="Decide documents as a whole, by Gibbs sampling: a model of fstcrf consistency says "
        "what it costs to give a token sequence several types, one of fstcrf fields what it costs "
        "that fields disagree. Repeatable. Lines -DOCSTART- begin documents.",
    ),
    click.option(
        "--sweeps",
        metavar="N",
        type=click.IntRange(min=1),
        help="How often each document is sampled, cooling down.  [default: 200]",
    ),
    click.option(
        "--schedule",
        type=click.Choice(["linear", "exponential", "geometric", "constant"]),
        help="How it cools down; constant: not at all, which is no search.  [default: linear]",
    ),
    click.option(
        "--draw",
        type=click.Choice(["token", "sentence", "mixed"]),
        help="What is drawn at once: a label, the labels of a sentence, or both in turns.  "
        "[default: mixed]",
    ),
    click.option(
        "--start",
        type=click.Choice(["viterbi", "random"]),
        help="The labels before the first sweep: the tagger's best ones, or any.  "
        "[default: viterbi]",
    ),
    click.option(
        "--take",
        type=click.Choice(["best", "last"]),
        help="The best labels of the start and all sweeps, or those of the last sweep.  "
        "[default: best]",
    ),
    click.option(
        "--chains",
        metavar="N",
        type=click.IntRange(min=1),
        help="How often all of that is done; the best labels are taken.  [default: 1]",
    ),
    click.option(
        "--seed", metavar="N", type=click.IntRange(min=0), help="Of the sampling.  [default: 0]"
    ),
)
_ALONE = ("sweeps", "schedule", "draw", "start", "take", "chains", "seed")


def document_options(command: Command) -> Command:
    """Add ``--document-consistency`` and the options of sampling."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_alone(given: dict[str, Any]) -> None:
    """Check that no options of sampling are given.

    Raises
    ------
    click.UsageError
        There are.
    """
    for name in _ALONE:
        if given[name] is not None:
            raise click.UsageError(f"--{name} belongs to --document-consistency")


def document_tagger(model: Model, given: dict[str, Any]) -> DocumentTagger:
    """Return the tagger with saved models of consistency or of fields.

    Raises
    ------
    ModelFileError
        A file is no such model.
    LabelError, OptionError
        It does not go with the tagger.
    """
    from fstcrf.documents import Annealing, DocumentTagger
    from fstcrf.documents.agreement import load

    return DocumentTagger(
        model,
        [load(path) for path in given["document_consistency"]],
        Annealing(given["sweeps"] or 200, given["schedule"] or "linear"),
        sweeps=given["draw"] or "mixed",
        start=given["start"] or "viterbi",
        chains=given["chains"] or 1,
        take=given["take"] or "best",
        seed=given["seed"] or 0,
    )


@dataclass(frozen=True, slots=True)
class _WholeDocuments(Input):
    """An input whose batches end where documents do."""

    def stream(self, path: str) -> Iterator[Corpus]:
        """Read a file of any size, some documents at a time."""
        from fstcrf.corpus.batches import whole_documents

        begun: bool | None = None  # there are no sentences
        for batch in whole_documents(Input.stream(self, path)):
            begun = bool(begun or any(batch.document_headers) or batch.documents[-1] > 0)
            yield batch
        if begun is False:
            say("warning: no lines -DOCSTART-: the input was decided as one document")


def document_source(source: Input) -> Input:
    """Return the input in batches that hold whole documents."""
    return _WholeDocuments(**{f.name: getattr(source, f.name) for f in fields(source)})
