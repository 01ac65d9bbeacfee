"""What readers need to give a file batch by batch.

=============== ==============================================================
DocumentCounter numbers documents through a whole file
batches         cuts a corpus into runs of whole sentences
=============== ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.corpus import Column, Corpus

__all__ = ["DocumentCounter", "batches"]


class DocumentCounter:
    """Numbers the documents of one file, block by block.

    Sentences before the first header belong to a document of their own without a header.
    """

    def __init__(self) -> None:
        self._next: int | None = None  # number of the next document; None before any line
        self._first = 0
        self._headers: list[str] = []

    def number(
        self,
        sentence_lines: NDArray[np.int64],
        header_lines: NDArray[np.int64],
        headers: Sequence[str],
    ) -> NDArray[np.int32]:
        """Return int32 [S], the document of each sentence of the next block."""
        if self._next is None and len(sentence_lines) + len(header_lines):
            leading = len(header_lines) == 0 or (
                len(sentence_lines) > 0 and sentence_lines[0] < header_lines[0]
            )
            self._next = 1 if leading else 0
            self._headers += [""] * self._next
        before = (self._next or 0) - 1
        self._next = before + 1 + len(header_lines)
        self._headers += headers
        return (before + np.searchsorted(header_lines, sentence_lines)).astype(np.int32)

    def take(self) -> tuple[int, tuple[str, ...]]:
        """Return the first document and the headers from there; forget all but the last one."""
        first, headers = self._first, tuple(self._headers) or ("",)
        self._first += max(len(self._headers) - 1, 0)
        del self._headers[:-1]
        return first, headers


def batches(corpus: Corpus, batch_tokens: int) -> Iterator[Corpus]:
    """Cut a corpus into runs of whole sentences with at most `batch_tokens` tokens."""
    start, first = 0, corpus.first_document
    while start < len(corpus):
        limit = corpus.offsets[start] + batch_tokens
        end = max(start + 1, int(np.searchsorted(corpus.offsets, limit, side="right")) - 1)
        a, b = int(corpus.offsets[start]), int(corpus.offsets[end])
        last = int(corpus.documents[end - 1]) if end < len(corpus) else None
        stop = None if last is None else last + 1 - corpus.first_document
        yield Corpus(
            {name: Column(c.ids[a:b], c.values) for name, c in corpus.columns.items()},
            corpus.offsets[start : end + 1] - a,
            documents=corpus.documents[start:end],
            document_headers=corpus.document_headers[first - corpus.first_document : stop],
            first_document=first,
            char_offsets=None if corpus.char_offsets is None else corpus.char_offsets[a:b],
            source=corpus.source,
            lines=None if corpus.lines is None else corpus.lines[a:b],
            files=None
            if corpus.files is None
            else Column(corpus.files.ids[start:end], corpus.files.values),
            blank_lines=None if corpus.blank_lines is None else corpus.blank_lines[start:end],
        )
        # A document that goes on is known to both batches; empty ones go with the next.
        if last is not None:
            first = last if int(corpus.documents[end]) == last else last + 1
        start = end
