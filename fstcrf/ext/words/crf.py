"""`LatticeCRF`: a conditional random field over the candidate words of unspaced text."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
import numpy as np

from fstcrf.arguments import items_of, whole_number
from fstcrf.arrays import Floats, Ints, Longs, Ragged, distinct
from fstcrf.errors import DataError, OptionError
from fstcrf.evaluate.labellings import warn_of_unseen
from fstcrf.ext.course import Course, known
from fstcrf.ext.lexicon import Candidates, Lexicon, Word, WordAnswer
from fstcrf.ext.lexicon.words import WordLabels
from fstcrf.ext.words import files, sources
from fstcrf.ext.words.annotation import Annotation
from fstcrf.ext.words.candidates import (
    CandidateLabels,
    Contexts,
    OnMissing,
    TrainingLattice,
    sentences,
)
from fstcrf.ext.words.classes import ClassVocabulary, WordClasses
from fstcrf.ext.words.entries import new_entries
from fstcrf.ext.words.files import LatticeRecord, SavedLatticeCRF
from fstcrf.ext.words.likelihood import LatticeProblem, WordSpace, word_likelihood
from fstcrf.ext.words.scores import BestWords, WordScores, WordWeights
from fstcrf.ext.words.structure import Costs, Words
from fstcrf.ext.words.templates import Rewrites, WordTemplates
from fstcrf.kernel.native import mapped
from fstcrf.lattices import AnyLattice
from fstcrf.lazy import LazyModule, given_state, made_once
from fstcrf.text.sentences import Run as SentenceRun
from fstcrf.text.sentences import runs_of
from fstcrf.training.arguments import Dev, Run
from fstcrf.training.lbfgs import LBFGS

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Grammar
    from fstcrf.taggers.tagger import Composable, Composition, Tagger

taggers: Any = LazyModule("fstcrf.ext.words.tagger")  # this module imports ours

_RUN = 4000  # characters whose words are in one machine


class WordCounts(msgspec.Struct, frozen=True):
    """The numbers of right, found and gold words."""

    right: int = 0
    found: int = 0
    there: int = 0

    @property
    def f(self) -> float:
        """The harmonic mean of precision and recall, 0 to 1."""
        return 2 * self.right / (self.found + self.there) if self.found + self.there else 0.0


@dataclass(frozen=True, eq=False)
class LatticeCRF:
    """Finds words in unspaced text: a lexicon gives the candidates, weights choose among them.

    Made by `train` and `load`. Any number of threads may ask it.

    Parameters
    ----------
    lexicon : Lexicon
        Candidates: words and rules for unknown ones.
    templates : WordTemplates
    rewrites : Rewrites
    weights : WordWeights
    label : tuple of int
        Fields that make a word's label.
    record : struct
        The record of training.
    classes : WordClasses, optional
        Classes of words with the numbers of these features, if they are there already.
    """

    lexicon: Lexicon
    templates: WordTemplates
    rewrites: Rewrites
    weights: WordWeights
    label: tuple[int, ...]
    record: LatticeRecord = field(repr=False)
    classes: WordClasses | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without classes of words, which are computed again."""
        return {**given_state(self), "classes": None}

    def __repr__(self) -> str:
        own = ", on its costs" if self.weights.costs else ""
        return f"<LatticeCRF: {self.weights.size:,} weights, {self.lexicon!r}{own}>"

    def __matmul__(self, later: Composable) -> Composition[tuple[list[str], ...]]:
        """Return the composition of its words, as a `WordTagger`, with a tagger of characters."""
        return self._tagger @ later

    def __rmatmul__(self, earlier: Composable) -> Composition[tuple[list[str], ...]]:
        return earlier @ self._tagger

    def __and__(self, grammar: Grammar) -> Tagger[list[str]]:
        """Return its words, as a `WordTagger`, under a grammar of their labels."""
        return self._tagger & grammar

    # --- Training -----------------------------------------------------------------------------

    @classmethod
    def train(
        cls,
        data: Sequence[Annotation],
        features: WordTemplates | str | os.PathLike[str],
        *,
        structure: Words,
        dev: Sequence[Annotation] | Dev | None = None,
        method: Literal["lbfgs"] | LBFGS = "lbfgs",
        l2: float | None = None,
        max_iterations: int | None = None,
        run: Run | None = None,
    ) -> LatticeCRF:
        """Learn weights from annotated texts.

        The likelihood of a text is the probability of all paths through its lattice that agree with
        the annotation: with all its words, some of them, or only boundaries. Words that do not
        differ in any annotated property all agree.

        Parameters
        ----------
        data : sequence of Annotation
        features : WordTemplates, str or path
            Features of words and of neighbours: a ``feature.def``, or its lines.
        structure : Words
            The lexicon, and how annotated words are read: ``Words(lexicon)``.
        dev : sequence of Annotation, or Dev, optional
            Held-out texts, all of whose words are known: the weights with the best F are kept.
        method : "lbfgs" or LBFGS
            L-BFGS, or OWL-QN with l1; options ``l1``, ``period`` and ``delta``.
        l2, max_iterations
            By default 1.0 and 200; see `fstcrf.ext.course.Course`.
        run : Run, optional
            Threads, progress and checkpoints.

        Warns
        -----
        LabelWarning
            Labels of held-out words that no word of the lexicon has; annotations that are left out
            or changed.

        Raises
        ------
        DataError
            Nothing to learn from; annotations that lattices lack; a template that cannot be read; a
            feature that no rule rewrites.
        OptionError
            Options outside their range, or that this training does not read.
        """
        if not isinstance(structure, Words):
            raise OptionError(f"structure is {structure!r}, expected Words(lexicon)")
        if not isinstance(features, WordTemplates | str | os.PathLike):
            raise OptionError(f"features is {features!r}, expected templates of words, or a path")
        course = Course.of(method, l2=l2, max_iterations=max_iterations, run=run, dev=dev)
        held: Any = dev.data if isinstance(dev, Dev) else dev
        texts: Sequence[Annotation] = held or ()
        lexicon, label, costs = structure.lexicon, structure.label, structure.costs
        new_words, min_count = structure.new_words, structure.min_count
        _check_complete(texts)
        if new_words:
            lexicon = lexicon.with_entries(new_entries(lexicon, data, label, least=new_words))
        gold = [w.label for one in texts for w in one.words if w.label is not None]
        present = CandidateLabels(lexicon, label).among(gold)
        warn_of_unseen([gold], present, "labels of the held-out data")
        templates, rewrites = WordTemplates.given(features), Rewrites.given(structure.rewrite)
        corpus = _Corpus.read(
            lexicon, data, templates, rewrites, label, costs=costs, on_missing=structure.on_missing
        )
        chosen, counts = corpus.chosen(min_count, scaled=costs == "scaled"), costs != "none"
        penalties, size = (course.l2, course.l1), chosen.space.size

        def held_out(theta: Floats) -> float:
            tried = corpus.trial(chosen, theta, counts=counts)
            record = LatticeRecord(0, 0, 0, 0.0, None, "", *penalties)
            parts = templates, rewrites, tried, tuple(label), record, corpus.classes
            return cls(lexicon, *parts).counts(texts).f

        about = str(templates), rewrites.source, tuple(label), costs, *penalties, min_count
        objective = word_likelihood(
            corpus.problem, chosen.space, l2=course.l2, threads=course.threads
        )
        outcome = course.outcome(
            course.minimiser(objective, np.zeros(size)),
            fingerprint=lambda: _fingerprint(corpus, chosen.space, about),
            evaluate=None if held is None else held_out,
        )
        n_texts = len(corpus.texts)
        record = LatticeRecord(
            texts=n_texts, weights=size, l2=course.l2, l1=course.l1, **known(outcome)
        )
        weights = corpus.weights(chosen, outcome.theta, counts=counts)
        return cls(lexicon, templates, rewrites, weights, tuple(label), record)

    def counts(self, data: Sequence[Annotation], *, labels: bool = True) -> WordCounts:
        """Count words that are found in texts all of whose words are known.

        Parameters
        ----------
        data : sequence of Annotation
        labels : bool
            A word counts as right only with the right label, if its label is known.
        """
        answer = self.tag_all([one.text for one in data])
        return counted(data, answer, self._labels if labels else None)

    # --- Words of texts -----------------------------------------------------------------------

    def tag(self, text: str, *, boundaries: Mapping[int, bool] | None = None) -> list[Word]:
        """Return the best words of a text.

        Parameters and errors as for `Lexicon.tag`.
        """
        known = None if boundaries is None else [boundaries]
        return self.tag_all([text], boundaries=known).only()

    def tag_all(
        self,
        texts: Sequence[str],
        *,
        boundaries: Sequence[Mapping[int, bool]] | None = None,
        threads: int = 1,
    ) -> WordAnswer:
        """Return the best words of texts as flat arrays; arguments as for `tag`.

        A text that no words cover has no words, and the score −inf. The answer is the same for any
        number of threads.
        """
        items_of(texts, "the texts are", "a list of them", DataError)
        if boundaries is not None and len(boundaries) != len(texts):
            raise OptionError(f"boundaries of {len(boundaries)} texts, expected {len(texts)}")
        whole_number(threads, "threads", least=1)

        def answer(run: SentenceRun) -> BestWords:
            some = slice(run.first, run.end)
            return self._scores.best(texts[some], None if boundaries is None else boundaries[some])

        runs = runs_of(Ragged.from_lengths(len(text) + 1 for text in texts), _RUN)
        found = mapped(answer, runs, threads)
        nothing = np.zeros(0, dtype=np.int32)
        start, end, word = (
            np.concatenate([nothing, *(getattr(one, name) for one in found)])
            for name in ("start", "end", "word")
        )
        counts = [Ragged(one.row).lengths for one in found]
        row = Ragged.from_lengths(np.concatenate([nothing, *counts])).offsets
        scores = np.concatenate([np.zeros(0), *(one.score for one in found)])
        return WordAnswer(tuple(texts), self.lexicon, row, start, end, word, scores)

    def lattice(
        self,
        text: str,
        *,
        boundaries: Mapping[int, bool] | None = None,
        word_class: Callable[[str], str] | None = None,
    ) -> AnyLattice:
        """Return the lattice of all words that may occur in a text, with the scores of its paths.

        See `Lexicon.lattice`; without `word_class`, segments have the labels of words.
        """
        words = self.candidates(text, boundaries=boundaries)
        labels = self._labels if word_class is None else self.lexicon.labels(word_class)
        return self.ways(words, labels)

    def ways(self, words: Candidates, labels: WordLabels) -> AnyLattice:
        """Return the lattice of the candidate words of a text, with these labels."""
        return self._scores.lattice(words, labels)

    def candidates(self, text: str, *, boundaries: Mapping[int, bool] | None = None) -> Candidates:
        """Return the candidate words of a text, from the lexicon."""
        return self.lexicon.candidates(text, boundaries=boundaries)

    def label_of(self, word: Word) -> str:
        """Return the label of a word."""
        return self._labels[word.number]

    # --- Files --------------------------------------------------------------------------------

    def compiled(self, *, factor: float = 700.0) -> Lexicon:
        """Return a lexicon whose costs are these scores: fast, and in MeCab's form.

        Costs are whole numbers of 16 bits, so that ways whose scores are closer than a few
        1 / `factor` may change places.

        Parameters
        ----------
        factor : float
            Cost of one nat.

        Raises
        ------
        OptionError
            Templates that look at the length (%n) of words that no dictionary has.
        TooLargeError
            More than 65,535 contexts.
        """
        return sources.compiled(self.lexicon, self._scores, self.weights, factor)

    def export(
        self, folder: str | os.PathLike[str], *, compiled: bool = False, factor: float = 700.0
    ) -> None:
        """Write a dictionary for MeCab: its sources, or compiled.

        Arguments and errors as for `compiled`, and `Lexicon.write`.
        """
        self.compiled(factor=factor).write(folder, compiled=compiled)

    def save(self, path: str | os.PathLike[str], *, lexicon: bool = True) -> None:
        """Write the model to a file, whole or not at all.

        Parameters
        ----------
        path : path
        lexicon : bool
            With the lexicon; without it, `load` must be given one of the same words.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        files.write(path, self.saved, lexicon=lexicon)

    @property
    def saved(self) -> SavedLatticeCRF:
        """The contents of its file."""
        parts = self.lexicon, self.templates, self.rewrites, self.weights, self.label, self.record
        return SavedLatticeCRF(*parts)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        lexicon: Lexicon | None = None,
        mmap: bool | None = None,
    ) -> LatticeCRF:
        """Read a model; `fstcrf.load` explains `mmap`.

        Parameters
        ----------
        path : path
        lexicon : Lexicon, optional
            In the place of the one in the file.
        mmap : bool, optional

        Raises
        ------
        ModelFileError
            No such model, of another version, damaged, or without the lexicon.
        OSError
            It cannot be opened.
        """
        return cls(*files.read(path, lexicon, mapped=mmap))

    @made_once
    def _scores(self) -> WordScores:
        return WordScores(self.lexicon, self.templates, self.rewrites, self.weights, self.classes)

    @property
    def _tagger(self) -> Composable[list[str]]:
        return cast("Composable[list[str]]", taggers.WordTagger(self))

    @made_once
    def _labels(self) -> CandidateLabels:
        return CandidateLabels(self.lexicon, self.label)


def counted(
    data: Sequence[Annotation], answer: WordAnswer, labels: CandidateLabels | None = None
) -> WordCounts:
    """Count the words of an answer that also occur in annotations, with or without labels."""
    right = found = there = 0
    for b, one in enumerate(data):
        rows = slice(int(answer.row[b]), int(answer.row[b + 1]))
        columns = (a[rows].tolist() for a in (answer.start, answer.end, answer.word))
        known = {(w.start, w.end): w.label for w in one.words}
        for start, end, word in zip(*columns, strict=True):
            found += 1
            label = known.get((start, end), "")
            if (start, end) in known:
                right += labels is None or label is None or label == labels[word]
        there += len(known)
    return WordCounts(right, found, there)


# --- What is trained on ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Corpus:
    """Lattices to learn from, the classes of their words, and the strings from templates."""

    texts: list[TrainingLattice]
    classes: WordClasses
    vocabularies: tuple[ClassVocabulary, ClassVocabulary, ClassVocabulary]
    right: Longs  # class of each right context
    left: Longs
    problem: LatticeProblem

    @classmethod
    def read(
        cls,
        lexicon: Lexicon,
        data: Sequence[Annotation],
        templates: WordTemplates,
        rewrites: Rewrites,
        label: Sequence[int],
        *,
        costs: Costs,
        on_missing: OnMissing,
    ) -> _Corpus:
        vocabularies = ClassVocabulary(), ClassVocabulary(), ClassVocabulary()
        classes = WordClasses(lexicon, templates, rewrites, vocabularies)
        counts = costs != "none"
        left, right = Contexts(costs=counts), Contexts(costs=counts)
        texts = sentences(
            data,
            classes,
            CandidateLabels(lexicon, label),
            (left, right),
            costs=counts,
            on_missing=on_missing,
        )
        pairs = distinct(*(one.whole.pair for one in texts))
        pairs = pairs[pairs >= 0]
        rights, lefts = right.codes[pairs >> 32], left.codes[pairs & (1 << 32) - 1]
        base = np.zeros(len(pairs))
        if counts:
            base = -lexicon.matrix[lefts & 0xFFFF, rights & 0xFFFF] / lexicon.unit
        problem = LatticeProblem(texts, pairs, base)
        return cls(texts, classes, vocabularies, rights >> 16, lefts >> 16, problem)

    def chosen(self, min_count: int, *, scaled: bool) -> _Chosen:
        """Return which weights there are."""
        own, pair = self._agreeing() if min_count else (None, None)
        kept, rows = _kept(self.classes.own.rows, len(self.vocabularies[0]), own, min_count)
        first, second = self.classes.right.rows[self.right], self.classes.left.rows[self.left]
        code = first.astype(np.int64) * max(1, len(self.vocabularies[2])) + second
        code[(first < 0) | (second < 0)] = -1
        codes, inverse = np.unique(code, return_inverse=True)
        none = int(len(codes) > 0 and codes[0] < 0)
        numbers = inverse.reshape(code.shape) - none
        some, between = _kept(numbers, len(codes) - none, pair, min_count)
        space = WordSpace(scaled, len(kept), len(some), rows, between)
        return _Chosen(space, kept, codes[none:][some])

    def _agreeing(self) -> tuple[Longs, Longs]:
        """Count classes of words, and pairs, on ways that agree."""
        own = np.concatenate([t.own[t.agreeing.word[t.agreeing.word >= 0]] for t in self.texts])
        codes = np.concatenate([t.agreeing.pair[t.agreeing.pair >= 0] for t in self.texts])
        pairs = self.problem.pairs
        return (
            np.bincount(own, minlength=len(self.classes.own)),
            np.bincount(np.searchsorted(pairs, codes), minlength=len(pairs)),
        )

    def trial(self, chosen: _Chosen, theta: Floats, *, counts: bool) -> WordWeights:
        """Return weights by the numbers that features have here."""
        _, some, between = chosen.space.parts(theta)
        words = np.zeros(len(self.vocabularies[0]))
        words[chosen.unigrams] = some
        unigrams, firsts, seconds = (one.keys() for one in self.vocabularies)
        pairs = chosen.pairs, between, chosen.space.scale(theta) if counts else 0.0
        return WordWeights(unigrams, firsts, seconds, words, *pairs)

    def weights(self, chosen: _Chosen, theta: Floats, *, counts: bool) -> WordWeights:
        """Return the weights that are not zero, and their features."""
        _, words, between = chosen.space.parts(theta)
        keys = [one.keys() for one in self.vocabularies]
        some = np.flatnonzero(words)
        unigrams = [keys[0][k] for k in chosen.unigrams[some].tolist()]
        there = np.flatnonzero(between)
        first, second = np.divmod(chosen.pairs[there], max(1, len(keys[2])))
        firsts, first = np.unique(first, return_inverse=True)
        seconds, second = np.unique(second, return_inverse=True)
        return WordWeights(
            unigrams,
            [keys[1][k] for k in firsts.tolist()],
            [keys[2][k] for k in seconds.tolist()],
            words[some],
            first.astype(np.int64) * max(1, len(seconds)) + second,
            between[there],
            chosen.space.scale(theta) if counts else 0.0,
        )


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The weights that there are: numbers of strings of words, codes of features of neighbours."""

    space: WordSpace
    unigrams: Longs
    pairs: Longs


def _kept(rows: Ints | Longs, size: int, count: Longs | None, least: int) -> tuple[Longs, Ints]:
    """Return the kept features, and the rows with new numbers; dropped features share a number."""
    kept = np.arange(size)
    if count is not None:
        times = np.bincount(
            rows.reshape(-1) + 1, weights=np.repeat(count, rows.shape[1]), minlength=size + 1
        )
        kept = np.flatnonzero(times[1:] >= least)
    number = np.full(size + 1, len(kept), dtype=np.int32)
    number[kept] = np.arange(len(kept))
    return kept, number[rows]


def _check_complete(dev: Sequence[Annotation] | None) -> None:
    for k, one in enumerate(dev or ()):
        if not one.complete:
            raise DataError(f"dev text {k + 1}, {one.text[:20]!r}: not all of its words are known")


def _fingerprint(corpus: _Corpus, space: WordSpace, options: tuple[object, ...]) -> str:
    digest = hashlib.sha256(repr((space.size, options)).encode())
    for text in corpus.texts:
        for shape in (text.whole, text.agreeing):
            digest.update(shape.target.tobytes())
            digest.update(shape.pair.tobytes())
        digest.update(text.own.tobytes())
        digest.update(text.base.tobytes())
    return digest.hexdigest()
