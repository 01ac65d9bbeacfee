"""Many sentences under a composition: their corpus, their lattices, and cascades over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.arrays import Floats, Ints, Ragged
from fstcrf.errors import DataError
from fstcrf.machines.plans import no_path_error, warn_unproven
from fstcrf.taggers.component import as_read
from fstcrf.taggers.evidence import Evidence
from fstcrf.taggers.potentials import path_alone
from fstcrf.taggers.tagged import TaggedLattices
from fstcrf.text.corpus import Column, Corpus, Sentence
from fstcrf.text.features import FeatureIndex
from fstcrf.text.features.reader import with_surroundings
from fstcrf.text.features.template import tape_column
from fstcrf.text.sentences import Data, Run, SentenceLike, as_sentence, as_sentences, refuse_batch

if TYPE_CHECKING:
    from fstcrf.taggers.crf import CRF
    from fstcrf.taggers.joint import JointCRF


def as_corpus(composition: JointCRF, sentences: Data) -> Corpus:
    """Return sentences as a corpus.

    Rows of strings have the columns of the training text, which must be the same for all taggers.
    """
    if isinstance(sentences, Corpus):
        return surrounded(composition, sentences)
    taggers = composition.taggers
    columns = max((tagger.columns for tagger in taggers), key=len)
    if any(tagger.columns != columns[: len(tagger.columns)] for tagger in taggers):
        _refuse_rows(taggers, sentences)
    parsed = as_sentences(sentences, columns)
    words = [s for s in parsed if len(s)]
    if not words:
        return _no_tokens(taggers, len(parsed))
    # A column that some sentence lacks is left out. A tagger that reads it raises an error.
    names = [n for n in words[0].columns if all(n in s for s in words)]
    return surrounded(composition, Corpus.from_sentences(parsed, names))


def surrounded(composition: JointCRF, corpus: Corpus) -> Corpus:
    """Return a corpus with columns of the neighbouring sentences, if a template reads these."""
    for tagger in composition.taggers:
        if isinstance(tagger.index, FeatureIndex):
            corpus = with_surroundings(corpus, tagger.index.templates)
    return corpus


def with_tokens(corpus: Corpus) -> tuple[list[int], Corpus]:
    """Return the lengths of sentences, and a corpus of the sentences that have tokens."""
    lengths = Ragged(corpus.offsets).lengths
    full = corpus if lengths.all() else corpus.select(np.flatnonzero(lengths))
    return lengths.tolist(), full


def _no_tokens(taggers: Sequence[CRF], sentences: int) -> Corpus:
    """Return a corpus without tokens, with all columns that the taggers read."""
    names = {tape.name for tagger in taggers for tape in tagger.reads}
    for tagger in taggers:
        if isinstance(tagger.index, FeatureIndex):
            names.update(tagger.index.columns)
    nothing = Column.from_strings(())
    return Corpus(dict.fromkeys(sorted(names), nothing), np.zeros(sentences + 1, dtype=np.int64))


def _refuse_rows(taggers: Sequence[CRF], sentences: Data) -> None:
    for number, sentence in enumerate(sentences):
        refuse_batch(sentence)
        if len(sentence) and not isinstance(sentence, Sentence | Mapping):
            sets = "; ".join(f"{t.tape}: {', '.join(t.columns)}" for t in taggers)
            raise DataError(
                f"rows of strings, but the taggers were trained on different columns ({sets}); "
                "give mappings of column to list",
                sentence=number,
            )


# --- The lattices of sentences --------------------------------------------------------------------


def lattices_of(
    composition: JointCRF,
    sentences: Data,
    evidence: Evidence | None = None,
    *,
    streamed: bool = False,
) -> TaggedLattices:
    """Return the lattices of sentences, restricted and biased by the evidence.

    `streamed`: potentials are computed anew for each question, to save memory.
    """
    if not composition._literal:  # all taggers read the same corpus
        sentences = as_corpus(composition, sentences)
    program = composition._program
    prepared = [component.prepare(sentences) for component in composition._components]
    read = composition._grammar_read[0] if isinstance(sentences, Corpus) else ()

    def make(run: Run) -> tuple[Floats, ...]:
        values = [v for _, potentials in prepared for v in potentials(run.first, run.end)]
        values += [tape_map.values(int(run.offsets[-1])) for tape_map in composition.maps]
        if isinstance(sentences, Corpus) and read:
            first, end = sentences.offsets[[run.first, run.end]].tolist()
            values += [column.values(sentences, slice(first, end)) for column in read]
        inputs = tuple(values)
        return inputs if evidence is None else evidence.added_to(program, run, inputs)

    checked = evidence is None and composition._cannot_overflow
    return TaggedLattices(program, prepared[0][0], make, checked=checked, streamed=streamed)


def check_empty(composition: JointCRF, lengths: Sequence[int]) -> None:
    """Raise NoPathError if there is an empty sentence, and the grammar rejects it."""
    # Without an empty sentence, the composition need not be compiled.
    if 0 in lengths and composition._program.empty_score == -np.inf:
        number = list(lengths).index(0)
        raise no_path_error(composition._program, [np.empty(0)], sentence=number)


# --- The same taggers one after the other ---------------------------------------------------------


def cascade(
    composition: JointCRF, sentences: Data, *, evidence: Evidence | None = None, threads: int = 1
) -> tuple[Column, ...]:
    """Return labels decoded one tagger after the other, a column for each tape.

    Each tagger reads the labels of earlier taggers, and obeys the part of the grammar about its
    tape. Observed labels and biases are allowed for tapes that taggers write. Raises NoPathError if
    a sentence has no legal labelling, or if a map has no output for the labels of a tagger.
    """
    columns: dict[str, Column] = {}
    evidence = evidence or Evidence({}, {})
    if composition._literal:  # such taggers read no tapes
        for tape, tagger in composition._cascade_taggers.items():
            columns[tape] = _best_column(tagger, sentences, evidence.of_tape(tape), threads)
        return tuple(columns[tape] for tape in composition.tapes)
    corpus = as_corpus(composition, sentences)
    components = {c.tagger.tape: c for c in composition._components}
    maps = {tape_map.tape: tape_map for tape_map in composition.maps}
    taggers = composition._cascade_taggers
    for tape in composition._order:
        if tape in maps:
            columns[tape] = maps[tape].decide(corpus)
        else:
            readable = as_read(corpus, components[tape].readings)
            columns[tape] = _best_column(taggers[tape], readable, evidence.of_tape(tape), threads)
        corpus = corpus.with_interned(tape_column(tape), columns[tape])
    return tuple(columns[tape] for tape in composition.tapes)


def cascade_one(composition: JointCRF, sentence: SentenceLike) -> tuple[list[str], ...] | None:
    """Return the labels of one sentence with tokens, as `cascade`; `None` if it needs a batch."""
    if composition.conjuncts or composition.maps or composition._literal:
        return None
    if any(tagger._weights.sentence_graph is None for tagger in composition.taggers):
        return None
    read = as_one(composition, sentence)
    if read is None or not len(read):
        return None
    parts = {part.tagger.tape: part for part in composition._components}
    paths: dict[str, Ints] = {}
    for tape in composition._order:
        part = parts[tape]
        seen = {name: reading.seen(paths[reading.tape]) for name, reading in part.readings.items()}
        path = path_alone(part.tagger, read, seen)
        if path is None:
            return None
        paths[tape] = np.array(path, dtype=np.int32)
    sets = composition.label_sets
    return tuple([[labels[i] for i in paths[tape].tolist()] for tape, labels in sets.items()])


def as_one(composition: JointCRF, sentence: SentenceLike) -> Sentence | None:
    """Return a sentence as columns; `None` for rows of strings whose columns need `as_corpus`."""
    if isinstance(sentence, Sentence):
        return sentence
    taggers = composition.taggers
    columns = max((tagger.columns for tagger in taggers), key=len)
    if any(tagger.columns != columns[: len(tagger.columns)] for tagger in taggers):
        return Sentence(sentence) if isinstance(sentence, Mapping) else None
    return as_sentence(sentence, columns)


def _best_column(
    tagger: CRF | JointCRF, sentences: Data, evidence: Evidence, threads: int
) -> Column:
    lattices = tagger._lattices(sentences, evidence, streamed=True)
    answer = lattices.answer(1, lattices.on[:1], None, threads, strict=True)
    warn_unproven(answer.unproven, len(answer))
    return answer.column()
