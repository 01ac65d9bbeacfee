"""A tagger whose labels agree across the sentences of a document.

==============  ===========================================
DocumentTagger  a tagger, models of violations, annealing
==============  ===========================================
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fstcrf.corpus import Column, Corpus
from fstcrf.documents.annealing import Annealing
from fstcrf.documents.document import Document, documents
from fstcrf.documents.local import LocalModel, Tagger
from fstcrf.documents.sampler import DocumentChain, Start, Sweeps
from fstcrf.documents.violations import ViolationModel
from fstcrf.errors import DataError, NoPathError, OptionError

__all__ = ["DocumentTagger"]


@dataclass(frozen=True)
class DocumentTagger:
    """A tagger and models of violations that decide a document together.

    Parameters
    ----------
    tagger : CRF or Composition
        The local model: it scores sentences.
    models : sequence of ViolationModel
        They score what sentences say together. One `Consistency` runs in the kernel.
    annealing : Annealing
        Temperatures of the sweeps.
    sweeps : {"token", "sentence", "mixed"}
        What is drawn at once.
    start : {"viterbi", "random"}
        The first labels.
    chains : int
        Chains that run from different seeds; the best of all is taken.
    take : {"best", "last"}
        The labels of the sweep with the highest score, or of the last sweep.
    seed : int
        A document's labels depend on the seed and its number alone.

    Raises
    ------
    OptionError
        Options out of range, or a composition with ``normalize="chain"``.

    Examples
    --------
    >>> model = Consistency.estimate(train, "ner")  # doctest: +SKIP
    >>> DocumentTagger(tagger, [model]).tag_all(test)  # doctest: +SKIP
    """

    tagger: Tagger
    models: Sequence[ViolationModel] = ()
    annealing: Annealing = field(default_factory=Annealing)
    sweeps: Sweeps = "token"
    start: Start = "viterbi"
    chains: int = 1
    take: Literal["best", "last"] = "best"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))
        if self.chains < 1:
            raise OptionError(f"chains is {self.chains}, expected at least 1")
        if self.take not in {"best", "last"}:
            raise OptionError(f"take is {self.take!r}, expected 'best' or 'last'")
        if self.seed < 0:
            raise OptionError(f"seed is {self.seed}, expected at least 0")
        self.local  # noqa: B018 (what cannot be done is said now)

    @cached_property
    def local(self) -> LocalModel:
        """The tagger, made ready for documents."""
        return LocalModel(self.tagger)

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return self.local.tapes

    def tag_all(self, corpus: Corpus) -> list[Any]:
        """Return the labels of each sentence; of several tapes, a tuple of lists.

        Parameters
        ----------
        corpus : Corpus
            With its documents (``-DOCSTART-``); without any it is one document.

        Raises
        ------
        NoPathError
            A sentence has no legal label sequence.
        NumericError
            A model returned NaN or +inf.
        """
        columns = [column.strings() for column in self.tag_columns(corpus)]
        bounds = corpus.offsets.tolist()
        found = []
        for a, b in itertools.pairwise(bounds):
            parts = tuple(strings[a:b] for strings in columns)
            found.append(parts[0] if len(parts) == 1 else parts)
        return found

    def tag_columns(self, corpus: Corpus) -> tuple[Column, ...]:
        """Return a column of labels for each tape; arguments and errors as for `tag_all`."""
        rows: list[list[str]] = [[] for _ in self.tapes]
        for labels in self._tagged(corpus):
            for k, strings in enumerate(zip(*labels, strict=True)):
                rows[k] += strings
        return tuple(Column.from_strings(row) for row in rows)

    def _tagged(self, corpus: Corpus) -> Iterator[list[tuple[str, ...]]]:
        done = 0
        for document in documents(corpus):
            if len(document):
                try:
                    yield self.tag_document(document)
                except NoPathError as error:
                    number = None if error.sentence is None else error.sentence + done
                    raise NoPathError("no label sequence is legal", sentence=number) from None
            done += len(document.corpus)

    def tag_document(self, document: Document) -> list[tuple[str, ...]]:
        """Return the labels of all tapes, for each token of a document.

        Raises
        ------
        DataError
            The document has no tokens.
        """
        if not len(document):
            raise DataError(f"document {document.number} has no tokens")
        scores = self.local.scores(document)
        temperatures = self.annealing.temperatures()
        found: DocumentChain | None = None
        reached = -np.inf
        for number in range(self.chains):
            chain = DocumentChain(
                document,
                scores,
                self.models,
                tapes=self.tapes,
                start=self.start,
                seed=(self.seed, document.number, number),
            )
            last = float(chain.sweep(temperatures, self.sweeps)[-1])
            score = chain.best_score if self.take == "best" else last
            if found is None or score > reached:
                found, reached = chain, score
        assert found is not None  # noqa: S101 (there is at least one chain)
        return found.labels(best=self.take == "best")
