"""Batches of a stream, cut anew so that no document is in two of them.

=============== ==============================================================
whole_documents batches that end where documents do
=============== ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.corpus import Corpus
from fstcrf.corpus.joining import concatenated

__all__ = ["whole_documents"]

T = TypeVar("T", bound=np.generic)


def whole_documents(batches: Iterable[Corpus]) -> Iterator[Corpus]:
    """Yield the sentences of a stream in batches that end where a document does.

    Parameters
    ----------
    batches : iterable of Corpus
        Of one file, in order, its documents numbered through; as `stream_columns` yields them.

    Yields
    ------
    Corpus
        Memory is bounded by the longest document and the longest batch.
    """
    held: list[Corpus] = []
    for batch in batches:
        if not len(batch):
            continue
        if held and held[-1].documents[-1] != batch.documents[0]:
            yield _continued(held)
            held = []
        last = batch.document_slices()[-1].start
        if last:
            yield _continued([*held, _part(batch, 0, last)])
            held = []
        held.append(_part(batch, last, len(batch)))
    if held:
        yield _continued(held)


def _part(batch: Corpus, first: int, end: int) -> Corpus:
    """Return successive sentences of whole documents, with the headers of empty documents behind.

    Parameters
    ----------
    batch : Corpus
    first, end : int
        Sentences; a document begins at each that is no end of the batch.
    """
    start = batch.first_document if first == 0 else int(batch.documents[first])
    stop = None if end == len(batch) else int(batch.documents[end]) - batch.first_document
    headers = batch.document_headers[start - batch.first_document : stop]
    return _numbered(batch[first:end], batch.documents[first:end], headers, start)


def _continued(batches: Sequence[Corpus]) -> Corpus:
    """Return successive batches as one; a document that goes on in the next is one document."""
    if len(batches) == 1:
        return batches[0]
    headers: dict[int, str] = {}
    for batch in batches:
        for number, header in enumerate(batch.document_headers, batch.first_document):
            headers[number] = headers.get(number) or header
    return _numbered(
        concatenated(batches),
        np.concatenate([batch.documents for batch in batches]),
        [headers[number] for number in sorted(headers)],
        batches[0].first_document,
        lines=_joined([batch.lines for batch in batches]),
        blank_lines=_joined([batch.blank_lines for batch in batches]),
    )


def _joined(parts: Sequence[NDArray[T] | None]) -> NDArray[T] | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _numbered(
    corpus: Corpus,
    documents: NDArray[np.int32],
    headers: Sequence[str],
    first: int,
    *,
    lines: NDArray[np.int64] | None = None,
    blank_lines: NDArray[np.int32] | None = None,
) -> Corpus:
    """Return a corpus with other documents, and with lines where they are given."""
    return Corpus(
        corpus.columns,
        corpus.offsets,
        documents=documents,
        document_headers=headers,
        first_document=first,
        char_offsets=corpus.char_offsets,
        source=corpus.source,
        lines=corpus.lines if lines is None else lines,
        files=corpus.files,
        blank_lines=corpus.blank_lines if blank_lines is None else blank_lines,
    )
