"""Several corpora as one.

============ =================================================================
concatenated the sentences of several corpora, one after the other
============ =================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fstcrf.corpus.corpus import Column, Corpus
from fstcrf.errors import DataError

__all__ = ["concatenated"]


def concatenated(corpora: Sequence[Corpus]) -> Corpus:
    """Return the sentences of several corpora as one corpus.

    Documents are numbered on. Character offsets are kept where all corpora have them, and so are
    lines: messages name the file and the line in it.

    Parameters
    ----------
    corpora : sequence of Corpus
        With the same columns.

    Raises
    ------
    DataError
        No corpus, or one that lacks a column of the first.

    Examples
    --------
    >>> one = Corpus.from_sentences([{"word": ["a", "b"]}])
    >>> two = Corpus.from_sentences([{"word": ["b"]}])
    >>> concatenated([one, two]).column_lists("word")
    [['a', 'b'], ['b']]
    """
    if not corpora:
        raise DataError("no corpus to concatenate")
    if len(corpora) == 1:
        return corpora[0]
    tokens = np.cumsum([0, *(corpus.n_tokens for corpus in corpora)]).tolist()
    chars = [c.char_offsets for c in corpora if c.char_offsets is not None]
    lines = [c.lines for c in corpora if c.lines is not None]
    documents, first = [], 0
    for corpus in corpora:
        documents.append(corpus.documents - corpus.first_document + first)
        first += len(corpus.document_headers)
    return Corpus(
        {name: _joined([c.column(name) for c in corpora]) for name in corpora[0].columns},
        np.concatenate(
            [[0], *(c.offsets[1:] + start for c, start in zip(corpora, tokens, strict=False))]
        ),
        documents=np.concatenate(documents).astype(np.int32),
        document_headers=[header for c in corpora for header in c.document_headers],
        char_offsets=np.concatenate(chars) if len(chars) == len(corpora) else None,
        lines=np.concatenate(lines) if len(lines) == len(corpora) else None,
        files=Column.from_strings(c.source or "<input>" for c in corpora for _ in range(len(c))),
        source=", ".join(dict.fromkeys(c.source for c in corpora if c.source is not None)) or None,
    )


def _joined(columns: Sequence[Column]) -> Column:
    number: dict[str, int] = {}
    ids = []
    for column in columns:
        new = [number.setdefault(value, len(number)) for value in column.values]
        ids.append(np.asarray(new, dtype=np.int32)[column.ids])
    return Column(np.concatenate(ids), tuple(number))
