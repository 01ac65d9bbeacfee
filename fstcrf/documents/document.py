"""A document as violation models see it: its tokens and where its sentences begin.

==========  ============================================================
Document    the tokens of a document
documents   the documents of a corpus
==========  ============================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Corpus

__all__ = ["Document", "documents"]


@dataclass(frozen=True, eq=False)
class Document:
    """The tokens of a document; sentences without tokens are left out.

    Parameters
    ----------
    corpus : Corpus
        Its sentences.
    number : int
        Among the documents, from 0, for messages.
    """

    corpus: Corpus
    number: int = 0

    def __len__(self) -> int:
        return self.corpus.n_tokens

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Bounds of the sentences, int64 [B + 1]; none is empty."""
        bounds = self.corpus.offsets
        return np.concatenate([bounds[:1], bounds[1:][np.diff(bounds) > 0]])

    def column(self, name: str) -> list[str]:
        """Return a column as one string for each token.

        Raises
        ------
        DataError
            There is no such column.
        """
        return self.corpus.column(name).strings()


def documents(corpus: Corpus, first: int = 0) -> Iterator[Document]:
    """Yield the documents of a corpus, numbered from `first`; without any it is one document."""
    for number, part in enumerate(corpus.document_slices(), first):
        yield Document(corpus[part], number)
