"""A tagger whose labels agree across the sentences of a document."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from fstcrf.corpus import Column, Corpus
from fstcrf.documents.agreement import check_types
from fstcrf.documents.document import Document, documents
from fstcrf.documents.local import LocalModel, Tagger
from fstcrf.documents.options import each_a, one_of, whole_number
from fstcrf.documents.sampler import Annealing, DocumentChain, Start, Sweeps
from fstcrf.documents.violations import ViolationModel
from fstcrf.errors import DataError, NoPathError, OptionError
from fstcrf.once import made_once
from fstcrf.pipelines.trained import TrainedPipeline

__all__ = ["DocumentTagger"]

Take: TypeAlias = Literal["best", "last"]


@dataclass(frozen=True)
class DocumentTagger:
    """A tagger and models of violations that decide a document together.

    Parameters
    ----------
    tagger : CRF, Composition or TrainedPipeline
        The local model: it scores sentences. A pipeline decides jointly here, whatever its
        ``decode``, as its `composition` does.
    models : sequence of ViolationModel
        They score what sentences say together. One `Consistency` runs in the kernel.
    annealing : Annealing
        Temperatures of the sweeps.
    sweeps : {"token", "sentence", "mixed"}
        What is drawn at once; mixed: sentences and tokens in turns.
    start : {"viterbi", "random"}
        The first labels.
    chains : int
        Chains that run from different seeds; the best of all is taken.
    take : {"best", "last"}
        The labels with the highest score, of the start and all sweeps, or those of the last sweep.
    seed : int
        A document's labels depend on the seed and its number alone.

    Raises
    ------
    OptionError
        Options out of range, a composition with ``normalize="chain"``, or a model that reads none
        of several tapes, or one that there is not.
    LabelError
        A `Consistency` or a `Fields` names a type of which the tagger has no label.

    Examples
    --------
    >>> model = Consistency.estimate(train, "ner")  # doctest: +SKIP
    >>> DocumentTagger(tagger, [model]).tag_all(test)  # doctest: +SKIP
    """

    tagger: Tagger | TrainedPipeline
    models: Sequence[ViolationModel] = ()
    annealing: Annealing = field(default_factory=Annealing)
    sweeps: Sweeps = "mixed"
    start: Start = "viterbi"
    chains: int = 1
    take: Take = "best"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", _checked(self.models))
        each_a("annealing", [self.annealing], Annealing)
        for name, known in (("sweeps", Sweeps), ("start", Start), ("take", Take)):
            one_of(name, getattr(self, name), known)
        for name, least in (("chains", 1), ("seed", 0)):
            whole_number(name, getattr(self, name), least)
        labels = self.local.composition.label_sets  # what cannot be done is said now
        for model in self.models:
            check_types(model, labels)

    @made_once
    def local(self) -> LocalModel:
        """The tagger, made ready for documents."""
        if isinstance(self.tagger, TrainedPipeline):
            return LocalModel(self.tagger.composition)
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
        DataError
            It is no corpus.
        NoPathError
            A sentence has no legal label sequence.
        NumericError
            A model returned NaN or +inf, or −inf for every start.
        OptionError
            A model returned no number, or no scores that can be asked.
        """
        columns = [column.strings() for column in self.tag_columns(corpus)]
        bounds = corpus.offsets.tolist()
        found = []
        for a, b in itertools.pairwise(bounds):
            parts = tuple(strings[a:b] for strings in columns)
            found.append(parts[0] if len(parts) == 1 else parts)
        return found

    def tag_columns(self, corpus: Corpus, *, first: int = 0) -> tuple[Column, ...]:
        """Return a column of labels for each tape; errors as for `tag_all`.

        Parameters
        ----------
        corpus : Corpus
            As for `tag_all`.
        first : int
            Number of its first document, where it is the rest of a text: labels are then those
            that the whole text would have.
        """
        rows: list[list[str]] = [[] for _ in self.tapes]
        for labels in self._tagged(corpus, first):
            for k, strings in enumerate(zip(*labels, strict=True)):
                rows[k] += strings
        return tuple(Column.from_strings(row) for row in rows)

    def _tagged(self, corpus: Corpus, first: int) -> Iterator[list[tuple[str, ...]]]:
        kind = type(corpus).__name__
        if not hasattr(corpus, "document_slices"):
            raise DataError(
                f"documents are a {kind}, expected a Corpus: Corpus.from_sentences makes one"
            )
        done = 0
        for document in documents(corpus, first):
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


def _checked(models: object) -> tuple[ViolationModel, ...]:
    if not isinstance(models, Iterable):
        name = type(models).__name__
        raise OptionError(f"models is a {name}, expected a list of models of violations")
    found = tuple(models)
    for model in found:
        if isinstance(model, type) or not callable(getattr(model, "bind", None)):
            raise OptionError(f"models has {model!r}, expected objects with a method bind")
    return found
