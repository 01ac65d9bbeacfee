"""``fstcrf tag --document-consistency``: documents as a whole.

================  ===========================================================
document_options  the options
check_alone       that none of sampling stands alone
document_tagger   the tagger with saved models of violations
document_source   the input in batches that hold whole documents
================  ===========================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
    "whole_documents",
]


_OPTIONS = (
    click.option(
        "--document-consistency",
        metavar="CONSISTENCY",
        multiple=True,
        help="Decide documents as a whole, by Gibbs sampling: a model of fstcrf consistency says "
        "what it costs to give a token sequence several types, a file of Fields what it costs that "
        "fields disagree. Repeatable. Lines -DOCSTART- begin documents.",
    ),
    click.option(
        "--sweeps",
        metavar="N",
        type=click.IntRange(min=1),
        help="How often each document is sampled, cooling down.  [default: 200]",
    ),
    click.option(
        "--schedule",
        type=click.Choice(["linear", "exponential", "geometric"]),
        help="How it cools down.  [default: linear]",
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
_ALONE = ("sweeps", "schedule", "chains", "seed")


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
    """
    from fstcrf.documents import Annealing, DocumentTagger
    from fstcrf.documents.file import load

    return DocumentTagger(
        model,
        [load(path) for path in given["document_consistency"]],
        Annealing(given["sweeps"] or 200, given["schedule"] or "linear"),
        chains=given["chains"] or 1,
        seed=given["seed"] or 0,
    )


@dataclass(frozen=True, slots=True)
class _WholeDocuments(Input):
    """An input whose batches end where documents do."""

    def stream(self, path: str) -> Iterator[Corpus]:
        """Read a file of any size, some documents at a time."""
        several = False
        for batch in whole_documents(Input.stream(self, path)):
            several = several or len(batch.document_headers) > 1
            yield batch
        if not several:
            say("warning: no lines -DOCSTART-: the input was decided as one document")


def document_source(source: Input) -> Input:
    """Return the input in batches that hold whole documents."""
    return _WholeDocuments(
        source.columns,
        source.min_columns,
        source.separator,
        source.conllu,
        source.features,
        source.items,
    )


def whole_documents(batches: Iterable[Corpus]) -> Iterator[Corpus]:
    """Yield the sentences of batches in others that end where a document does."""
    from fstcrf.corpus import concatenated

    held: list[Corpus] = []
    for batch in batches:
        last = batch.document_slices()[-1].start if len(batch) else 0
        begins = held and len(batch) and batch.documents[0] != held[-1].documents[-1]
        if last == 0 and not begins:
            held.append(batch)  # nothing ends here
            continue
        ready = [*held, batch[:last]] if last else held
        held = [batch[last:]]
        yield concatenated([part for part in ready if len(part)])
    if held:
        yield concatenated(held)
