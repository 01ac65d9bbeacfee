"""Documents whose sentences somebody else has scored: a network's lattices under models of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fstcrf.arrays import Ragged
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.ext.documents.document import Document, ViolationModel, each_a
from fstcrf.ext.documents.sampler import Annealing, DocumentChain
from fstcrf.ext.documents.scores import LocalScores, check_types
from fstcrf.lattices import Lattice
from fstcrf.text.corpus import Corpus


def agreed_labels(
    lattices: Sequence[Lattice],
    corpus: Corpus,
    models: Sequence[ViolationModel],
    *,
    annealing: Annealing | None = None,
    seed: int = 0,
) -> list[list[str]]:
    """Return labels on which the sentences of documents agree, from lattices of their sentences.

    As `DocumentTagger` does for a tagger: Viterbi's labels, then sweeps of tokens and of sentences
    in turns; the labels with the highest score of all sweeps count.

    Parameters
    ----------
    lattices : sequence of B Lattice
        Lattices of one program and one tape, for example from `fstcrf.Lattices.from_arrays`, with
        or without a grammar.
    corpus : Corpus
        The B sentences, with their documents and the column that the models read.
    models : sequence of ViolationModel
        Without models, the result is Viterbi's labels.
    annealing : Annealing, optional
    seed : int
        A document's labels depend only on the seed and its number.

    Returns
    -------
    list of lists of str

    Raises
    ------
    ShapeError
        Lattices of other sentences.
    OptionError
        Several tapes.
    NoPathError
        A sentence has no legal label sequence.
    LabelError
        A model names a type that no label has.
    """
    sizes = Ragged(corpus.offsets).lengths
    lengths = [len(lattice) for lattice in lattices]
    if lengths != sizes.tolist():
        raise ShapeError(
            f"{len(lengths)} lattices of {sum(lengths)} tokens for {len(sizes)} sentences of "
            f"{sizes.sum()}: expected one for each sentence"
        )
    if not any(lengths):
        return [[] for _ in lengths]
    first = next(lattice for lattice in lattices if len(lattice))
    tapes = first.tapes
    if len(tapes) > 1:
        raise OptionError(f"lattices over {', '.join(tapes)}: documents of lattices have one tape")
    each_a("annealing", [annealing or Annealing()], Annealing)
    for model in models:
        check_types(model, {tapes[0]: first.dense.program.labels(tapes[0])})
    temperatures = (annealing or Annealing()).temperatures()
    found: list[list[str]] = [[] for _ in lengths]
    for number, part in enumerate(corpus.document_slices()):
        several = [k for k in range(len(lengths))[part] if lengths[k]]
        if not several:
            continue
        document = Document(corpus.select(several), number)
        try:
            chain = DocumentChain(
                document,
                LocalScores.of([lattices[k] for k in several]),
                models,
                tapes=tapes,
                seed=(seed, number, 0),
            )
        except NoPathError as error:
            at = None if error.sentence is None else several[error.sentence]
            raise NoPathError("no label sequence is legal", sentence=at) from None
        chain.sweep(temperatures)
        labels = [label for (label,) in chain.labels(best=True)]
        for k, (begin, end) in zip(several, _bounds(document), strict=True):
            found[k] = labels[begin:end]
    return found


def _bounds(document: Document) -> list[tuple[int, int]]:
    offsets = document.offsets.tolist()
    return list(itertools.pairwise(offsets))
