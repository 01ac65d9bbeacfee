"""Documents of lattices that somebody else has scored, against all labellings and the tagger."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fstcrf import Lattices, constraints
from fstcrf.errors import LabelError, NoPathError, ShapeError
from fstcrf.ext.documents import Annealing, Consistency, Document, Violation, agreed_labels
from fstcrf.lattices import TapeLattice
from fstcrf.text.corpus import Corpus, Sentence

LABELS = ("B-ORG", "B-PER", "I-ORG", "I-PER", "O")
SENTENCES = [["Rotor", "won"], ["Rotor", "Volgograd"], [], ["Rotor"]]
MODEL = Consistency([Violation("same", ("ORG", "PER"), -3.0)])


def corpus() -> Corpus:
    sentences = [
        Sentence({"word": words}, document=int(k == 3)) for k, words in enumerate(SENTENCES)
    ]
    return Corpus.from_sentences(sentences)


def scores(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [3.0 * rng.normal(size=(len(words), len(LABELS))) for words in SENTENCES]


def batch(seed: int) -> Lattices[TapeLattice]:
    return Lattices.from_arrays(LABELS, scores(seed)) & constraints.bio()


def best_by_enumeration(batch: Lattices[TapeLattice], sentences: list[int], words: Corpus) -> float:
    """Return the best score of all legal labellings of a document."""
    lattices = [batch[k] for k in sentences]
    document = Document(words.select(sentences), 0)
    each = [[(path.labels, path.score) for path in lattice.nbest(10_000)] for lattice in lattices]
    return max(
        sum(score for _, score in paths)
        + MODEL.score(document, [label for labels, _ in paths for label in labels])
        for paths in itertools.product(*each)
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_all_labellings(seed: int) -> None:
    words, emissions = corpus(), batch(seed)
    labels = agreed_labels(emissions, words, [MODEL], annealing=Annealing(300), seed=1)
    assert [len(row) for row in labels] == [2, 2, 0, 1]
    for part in words.document_slices():
        several = [k for k in range(4)[part] if SENTENCES[k]]
        document = Document(words.select(several), 0)
        flat = [label for k in several for label in labels[k]]
        found = MODEL.score(document, flat) + sum(emissions[k].score(labels[k]) for k in several)
        assert found == pytest.approx(best_by_enumeration(emissions, several, words))


def test_without_models_they_are_those_of_viterbi() -> None:
    emissions = batch(7)
    assert agreed_labels(emissions, corpus(), []) == emissions.decode().labels()


def test_what_is_refused() -> None:
    emissions, words = batch(0), corpus()
    with pytest.raises(ShapeError, match="3 lattices of 4 tokens for 4 sentences of 5"):
        agreed_labels(emissions[:3], words, [MODEL])
    other = Consistency([Violation("same", ("GPE", "PER"), -1.0)])
    with pytest.raises(LabelError, match="GPE"):
        agreed_labels(emissions, words, [other])
    dead = scores(0)
    dead[3][:] = -np.inf
    lattices = Lattices.from_arrays(LABELS, dead)
    with pytest.raises(NoPathError, match="no label sequence is legal") as error:
        agreed_labels(lattices, words, [MODEL])
    assert error.value.sentence == 3
    assert agreed_labels(emissions[2:3], words.select([2]), [MODEL]) == [[]]
