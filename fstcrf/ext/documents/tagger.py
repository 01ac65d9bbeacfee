"""A tagger whose labels agree across the sentences of a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, Unpack

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import one_of
from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import DataError, NoPathError, OptionError
from fstcrf.ext.documents.document import Document, ViolationModel, each_a, whole_number
from fstcrf.ext.documents.sampler import Annealing, DocumentChain, Start, Sweeps
from fstcrf.ext.documents.scores import LocalModel, LocalScores, check_types
from fstcrf.ext.pipelines.trained import TrainedPipeline
from fstcrf.kernel import Budget
from fstcrf.lattices import Answer
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import Search
from fstcrf.taggers import CRF, JointCRF, Tagger
from fstcrf.taggers.batches import check_empty
from fstcrf.taggers.evidence import Evidence, Request
from fstcrf.taggers.tagger import DecodeOptions
from fstcrf.text.corpus import Corpus
from fstcrf.text.sentences import Data

Take: TypeAlias = Literal["best", "last"]


@dataclass(frozen=True, repr=False)
class DocumentTagger(Tagger):
    """A tagger and models of violations that decide a document together.

    Parameters
    ----------
    tagger : CRF, JointCRF or TrainedPipeline
        The local model: it scores sentences. A pipeline decides jointly here, for any value of
        ``decode``, as its `composition` does.
    models : sequence of ViolationModel
        They score labels of different sentences together. One `Consistency` runs in the kernel.
    annealing : Annealing
        Temperatures of the sweeps.
    sweeps : {"token", "sentence", "mixed"}
        The unit of one draw; "mixed": sentences and tokens alternate.
    start : {"viterbi", "random"}
        The first labels.
    chains : int
        Chains that run from different seeds; the best of all is taken.
    take : {"best", "last"}
        The labels with the highest score, among the start and all sweeps, or the labels of the last
        sweep.
    seed : int
        A document's labels depend only on the seed and its number.
    first : int
        Number of the first document.

    Raises
    ------
    OptionError
        Options out of range, a composition with ``normalize="chain"``, or a model
        that names no tape among several, or an unknown tape.
    LabelError
        A `Consistency` or a `Fields` names a type of which the tagger has no label.

    Examples
    --------
    >>> model = Consistency.estimate(train, "ner")  # doctest: +SKIP
    >>> DocumentTagger(tagger, [model]).tag_all(test)  # doctest: +SKIP
    """

    tagger: CRF | JointCRF | TrainedPipeline
    models: Sequence[ViolationModel] = ()
    annealing: Annealing = field(default_factory=Annealing)
    sweeps: Sweeps = "mixed"
    start: Start = "viterbi"
    chains: int = 1
    take: Take = "best"
    seed: int = 0
    first: int = 0

    def __repr__(self) -> str:
        models = ", ".join(type(model).__name__ for model in self.models) or "nothing"
        return f"<DocumentTagger: {self.tagger!r} under {models}>"

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", _checked(self.models))
        each_a("annealing", [self.annealing], Annealing)
        for name, known in (("sweeps", Sweeps), ("start", Start), ("take", Take)):
            one_of(name, getattr(self, name), known)
        for name, least in (("chains", 1), ("seed", 0), ("first", 0)):
            whole_number(name, getattr(self, name), least)
        labels = self.local.composition.label_sets  # errors of tapes are raised early
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

    @property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of each tape."""
        return self.local.composition.label_sets

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> DocumentTagger:
        """Return the same with the local model under one more grammar."""
        return replace(self, tagger=self.tagger.constrained(grammar, search=search, budget=budget))

    def without_grammar(self) -> DocumentTagger | None:
        """Return the tagger without the grammar of the local model; `None` without a grammar."""
        free = self.local.composition.without_grammar()
        return None if free is None else replace(self, tagger=free)

    def _joint(self) -> JointCRF:
        """Return the local model."""
        return self.local.composition

    def _as_transducer(self) -> JointCRF:
        """Return the local model, which explains missing labellings."""
        return self.local.composition

    # --- Tagging ------------------------------------------------------------------------------

    def decode(
        self, sentences: Data, *, first: int = 0, **options: Unpack[DecodeOptions]
    ) -> Answer:
        """Return the labels that are drawn for each document, sentence by sentence.

        The local model defines the results other than labels. The score of a sentence is the
        tagger's score of its labels (natural log, including forced labels, biases and grammar,
        without models of violations); the probability is their share among all its labellings; the
        bound is the score of its best labelling. Samples are not proven to be best: `exact` is
        false unless there are no models and the tagger's best labels are taken; there is no
        warning. Marginals and probabilities of spans also belong to the local model.

        Parameters
        ----------
        sentences : Corpus
            With its documents (``-DOCSTART-``); without any it is one document.
        first : int
            Number of its first document, if this is a later part of a text: labels are then equal
            to the labels for the whole text.
        **options
            Those of `fstcrf.CRF.decode`. `forced` and `bias` are the local model's. With `skip`, a
            sentence without a path is left out of its document; with `relax` it is then tagged
            separately. `tapes` shows some of the drawn labels.

        Raises
        ------
        DataError
            It is no corpus.
        NoPathError
            A sentence has no legal label sequence.
        NumericError
            A model returned NaN or +inf, or −inf for every start.
        OptionError
            More than one labelling, or a budget: neither is there; a model returned no number, or
            no scores that can be asked.
        """
        tagger = replace(self, first=first) if first else self
        return super(DocumentTagger, tagger).decode(sentences, **options)

    def _decode(self, asked: Request) -> Answer:
        """Return the result of `decode`; see `fstcrf.taggers.Tagger._decode`."""
        sentences = asked.sentences
        if not isinstance(sentences, Corpus):
            raise DataError(
                f"documents are a {type(sentences).__name__}, expected a Corpus: "
                "Corpus.from_sentences makes one"
            )
        if asked.n > 1:
            raise OptionError(
                f"n is {asked.n}, expected 1: a document has one sampled labelling; for the "
                "n best labellings of sentences, call the tagger inside the DocumentTagger"
            )
        if asked.budget is not None:
            raise OptionError(
                "budget is for searches, but documents are sampled: set Annealing(sweeps)"
            )
        if asked.strict:
            check_empty(self.local.composition, Ragged(sentences.offsets).lengths.tolist())
        known = asked.tape_evidence(self.tapes)
        parts: list[_Drawn] = []
        numbers: list[int] = []
        for number, part in enumerate(sentences.document_slices(), self.first):
            several = list(range(len(sentences))[part])
            drawn, places = self._drawn_with_paths(
                sentences, several, number, known, strict=asked.strict
            )
            numbers += places
            parts += [] if drawn is None else [drawn]
        found = _joined(self, sentences, parts, numbers, asked.tapes or self.tapes)
        return found.with_posterior(lambda: self.local.composition._posterior(asked, known))

    def _drawn_with_paths(
        self, corpus: Corpus, several: list[int], number: int, known: Evidence, *, strict: bool
    ) -> tuple[_Drawn | None, list[int]]:
        """Draw labels for the sentences of a document; also return which sentences have paths.

        Without `strict`, sentences without a path are left out.
        """
        sizes = Ragged(corpus.offsets).lengths
        several = [k for k in several if sizes[k]]
        while several:
            mine = {tape: [rows[k] for k in several] for tape, rows in known.forced.items()}
            document = Document(corpus.select(several), number)
            try:
                return self._drawn(document, replace(known, forced=mine)), several
            except NoPathError as error:
                if error.sentence is None:
                    raise
                dead = several[error.sentence]
                if strict:
                    raise NoPathError("no label sequence is legal", sentence=dead) from None
                several = [k for k in several if k != dead]
        return None, []

    def _drawn(self, document: Document, known: Evidence | None = None) -> _Drawn:
        """Draw the labels of a document that has tokens."""
        scores = self.local.scores(document, known)
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
        path = found.chain.best if self.take == "best" else found.chain.path
        return _Drawn(scores, document.offsets, path)

    def _count_unproven(self, answer: Answer) -> int:
        """Return 0: that samples are not proven needs no warning."""
        del answer
        return 0

    def tag_document(self, document: Document) -> list[tuple[str, ...]]:
        """Return the labels of all tapes, for each token of a document.

        Raises
        ------
        DataError
            The document has no tokens.
        """
        if not len(document):
            raise DataError(f"document {document.number} has no tokens")
        return self._drawn(document).labels()


@dataclass(frozen=True, eq=False, slots=True)
class _Drawn:
    """The labels that were drawn for a document: joint states of its tokens, int32 [N]."""

    local: LocalScores
    offsets: Longs
    path: Ints

    def labels(self) -> list[tuple[str, ...]]:
        """Return the labels of all tapes, for each token."""
        names, label = self.local.names, self.local.labelling.label
        return [names[k] for k in label[self.path].tolist()]

    def ids(self, tape: int, labels: Sequence[str]) -> Ints:
        """Return the labels of one tape as numbers, int32 [N]."""
        number = {label: k for k, label in enumerate(labels)}
        table = np.asarray([number[names[tape]] for names in self.local.names], dtype=np.int32)
        return table[self.local.labelling.label[self.path]]

    def log_z(self) -> Floats:
        """Return log Z of each sentence by the local model, float64 [B]."""
        return kernel.log_partition(self.local.graph, self.offsets, self.local.node)


def _joined(
    tagger: DocumentTagger,
    corpus: Corpus,
    parts: Sequence[_Drawn],
    numbers: Sequence[int],
    tapes: Sequence[str],
) -> Answer:
    """Return the answer for sentences, assembled from parts by numbers; the others have no path."""
    sizes = Ragged(corpus.offsets).lengths
    empty = tagger.local.composition._program.empty_score
    scores = np.where(sizes > 0, -np.inf, empty)
    bounds, exact = scores.copy(), np.ones(len(sizes), dtype=bool)
    nothing = np.empty(0)
    best = [kernel.viterbi(part.local.graph, part.offsets, part.local.node)[1] for part in parts]
    scores[numbers] = np.concatenate(
        [nothing, *(part.local.of_path(part.path, part.offsets) for part in parts)]
    )
    bounds[numbers] = np.maximum(np.concatenate([nothing, *best]), scores[numbers])
    proven = not tagger.models and tagger.take == "best" and tagger.start == "viterbi"
    exact[numbers] = proven
    there = np.zeros(len(sizes), dtype=bool)
    there[numbers] = True
    tokens = np.repeat(there, sizes)
    flat = {}
    for tape in tapes:
        place, labels = tagger.tapes.index(tape), tagger.label_sets[tape]
        flat[tape] = np.full((1, len(tokens)), -1, dtype=np.int32)
        ids = [part.ids(place, labels) for part in parts]
        flat[tape][0, tokens] = np.concatenate([np.empty(0, dtype=np.int32), *ids])

    def log_z() -> Floats:
        sums = np.full(len(sizes), empty)
        sums[numbers] = np.concatenate([nothing, *(part.log_z() for part in parts)])
        return sums

    return Answer(
        flat,
        {tape: tagger.label_sets[tape] for tape in tapes},
        corpus.offsets - corpus.offsets[0],
        scores=scores,
        exact=exact,
        bounds=bounds,
        log_z=log_z,
    )


def _checked(models: object) -> tuple[ViolationModel, ...]:
    if not isinstance(models, Iterable):
        name = type(models).__name__
        raise OptionError(f"models is a {name}, expected a list of models of violations")
    found = tuple(models)
    for model in found:
        if isinstance(model, type) or not callable(getattr(model, "bind", None)):
            raise OptionError(f"models has {model!r}, expected objects with a method bind")
    return found
