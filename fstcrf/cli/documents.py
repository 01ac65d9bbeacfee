"""``fstcrf tag --document-consistency``: documents as a whole.

================  ===========================================================
document_tagger   the tagger with a saved consistency model
document_source   the input in batches that hold whole documents
================  ===========================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fstcrf.cli.failures import say
from fstcrf.cli.sources import Input

if TYPE_CHECKING:
    from fstcrf.cli.models import Model
    from fstcrf.corpus import Corpus
    from fstcrf.documents import DocumentTagger

__all__ = ["document_source", "document_tagger", "whole_documents"]


def document_tagger(model: Model, path: str, sweeps: int, seed: int) -> DocumentTagger:
    """Return the tagger with a saved model of consistency or of fields.

    Raises
    ------
    ModelFileError
        The file is no such model.
    """
    from fstcrf.documents import Annealing, DocumentTagger
    from fstcrf.documents.file import load

    return DocumentTagger(model, [load(path)], Annealing(sweeps), sweeps="mixed", seed=seed)


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
