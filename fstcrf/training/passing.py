"""The labels of earlier taggers on a training text, which a later tagger reads.

Labels are passed on in three ways: the best labels of the taggers, their best labellings weighted
by probability, or the probability of each label at each token. Probabilities become values of
attributes. The design is the average of the designs that each label would give, weighted by the
probabilities. So the index has the keys of ordinary labels, and the trained tagger reads labels
like any other tagger. To average, a sentence is copied: copy r holds the r-th most probable labels
of each token. A sentence has as many copies as its most ambiguous token has probable labels.

A tagger makes fewer errors on its training text than on new text. A later tagger that is trained on
such labels trusts them too much. Jack-knifing cuts the sentences into K folds. For each fold, the
earlier taggers are trained again on the other K − 1 folds, and label the sentences of the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from fstcrf.arguments import first_twice
from fstcrf.arrays import Floats, Longs, Ragged, distinct
from fstcrf.errors import DataError, LabelError, OptionError, TemplateError
from fstcrf.kernel import SparseRows
from fstcrf.lattices import marginals, nbest
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features import AttributeIndex, Design, LiteralIndex
from fstcrf.text.features.template import tape_column
from fstcrf.training.gold import gold_labels, legal_gold
from fstcrf.training.loop import Progress
from fstcrf.training.options import Options, stored_options
from fstcrf.training.record import Report, TrainedTagger, TrainingRecord

E = TypeVar("E", bound=TrainedTagger)
AnyIndexT = TypeVar("AnyIndexT", bound=AttributeIndex)


@dataclass(frozen=True, slots=True)
class FoldProgress(Progress):
    """Progress of one of several trainings."""

    stage: str  # the training, such as ``pos, fold 2 of 5``


def tapes_read(index: AttributeIndex) -> tuple[str, ...]:
    """Return the tapes whose labels are in the attributes of an index."""
    return () if isinstance(index, LiteralIndex) else index.tapes


def ordered(taggers: Sequence[E], tapes: Sequence[str]) -> list[E]:
    """Return the taggers of some tapes, and all taggers that these read, in the order of reading.

    `tapes` may contain tapes without a tagger; a tape that a tagger reads must have one.
    """
    by_tape = {tagger.tape: tagger for tagger in taggers}
    if len(by_tape) < len(taggers):
        twice = first_twice(tagger.tape for tagger in taggers)
        raise OptionError(f"reads= has two taggers of tape {twice!r}: give them tapes by tape=")
    order: dict[str, E] = {}

    def add(tape: str, waiting: tuple[str, ...]) -> None:
        if tape in waiting:
            raise OptionError(f"taggers read each other: {' ← '.join((*waiting, tape))}")
        if tape in order:
            return
        for earlier in tapes_read(by_tape[tape].index):
            if earlier not in by_tape:
                raise OptionError(
                    f"the tagger of tape {tape!r} reads tape {earlier!r}: add to reads= the "
                    f"tagger of tape {earlier!r}"
                )
            add(earlier, (*waiting, tape))
        order[tape] = by_tape[tape]

    for tape in tapes:
        if tape in by_tape:
            add(tape, ())
    return list(order.values())


def check_reads(read: Sequence[str], taggers: Sequence[TrainedTagger]) -> None:
    """Check the tapes of earlier taggers; the labels of some are read by others only."""
    needed = [tagger.tape for tagger in ordered(taggers, read)]
    check_tapes(read, [tagger.tape for tagger in taggers], needed)


def check_tapes(read: Sequence[str], given: Sequence[str], needed: Sequence[str] = ()) -> None:
    """Raise TemplateError if templates `read` a tape that is not given, or not a given one."""
    for tape in read:
        if tape not in given:
            raise TemplateError(
                f"a template reads the labels of {tape!r}, and reads= lacks its tagger; "
                f"reads= has {', '.join(map(repr, given)) or 'none'}"
            )
    for tape in given:
        if tape not in (*read, *needed):
            raise TemplateError(
                f"reads= has the tagger of {tape!r}, whose labels no template reads: add "
                f"%y[0,{tape}] to a template, or leave the tagger out"
            )


def with_labels(corpus: Corpus, taggers: Sequence[TrainedTagger], *, threads: int = 1) -> Corpus:
    """Return a corpus with the best labels of taggers, which are in the order of reading."""
    for tagger in taggers:
        column = tagger.tag_column(corpus, threads=threads)
        corpus = corpus.with_interned(tape_column(tagger.tape), column)
    return corpus


def folds(sentences: int, k: int, seed: int) -> Longs:
    """Return the fold of each sentence, int64 [sentences].

    Sentence ``p[i]`` is in fold ``i mod k``, where p is the permutation of the sentences by NumPy's
    ``default_rng(seed)``.
    """
    if k > sentences:
        raise OptionError(f"jackknife is {k}, expected at most the {sentences} sentences there are")
    fold = np.empty(sentences, dtype=np.int64)
    fold[np.random.default_rng(seed).permutation(sentences)] = np.arange(sentences) % k
    return fold


def fold_taggers(
    corpus: Corpus,
    taggers: Sequence[E],
    k: int,
    *,
    seed: int = 0,
    threads: int = 1,
    report: Report | None = None,
) -> Iterator[tuple[Longs, list[E]]]:
    """Yield the sentences of each fold, int64 [M], and taggers trained on all other sentences.

    The corpus has the columns and the gold labels of all taggers, and no empty sentence. Taggers,
    in the order of reading, are trained again by the options, column and class weights of their
    records, and by jack-knifed labels if they were before. A tagger that held-out data stopped
    makes the same number of iterations. Weights of sentences and warm starts are not repeated.
    LabelError: the corpus has a gold label that a tagger lacks. A later tagger could learn to read
    this label, but would never see it.
    """
    fold = folds(len(corpus), k, seed)
    for tagger in taggers:
        _check(tagger, corpus)
    for number in range(k):
        rest = corpus.select(np.flatnonzero(fold != number))
        retrained: list[E] = []
        for tagger in taggers:
            staged = _staged(report, f"{tagger.tape}, fold {number + 1} of {k}")
            retrained.append(tagger._retrained(rest, retrained, threads=threads, report=staged))
        yield np.flatnonzero(fold == number), retrained


def _check(tagger: TrainedTagger, corpus: Corpus) -> None:
    """Raise an error if a tagger cannot be trained again on the corpus."""
    record = record_of(tagger)
    again = f"jackknife cannot train the tagger of tape {tagger.tape!r} again"
    if record.target is None or isinstance(tagger.index, LiteralIndex):
        raise OptionError(
            f"{again}: its record names no column of gold labels (it was given them as lists, or "
            "saved by an earlier version)"
        )
    if record.grammar is not None:
        raise OptionError(
            f"{again}: it was trained under {record.grammar}, which its record only names"
        )
    column = f"jackknife trains the tagger of tape {tagger.tape!r} again, on column"
    if record.target not in corpus.columns:
        raise DataError(
            f"{column} {record.target!r}; the columns are {', '.join(corpus.columns)}",
            path=corpus.source,
        )
    odd = sorted(set(labels_for(corpus, record)) - set(tagger.labels))
    if odd:
        raise LabelError(
            f"{column} {record.target!r}, which has the label {odd[0]!r}; the tagger's labels are "
            f"{', '.join(tagger.labels)}, so it never assigns this label"
        )


def labels_for(corpus: Corpus, record: TrainingRecord) -> list[str]:
    """Return the labels that a tagger with this record would have if trained on a corpus."""
    options, target = stored_options(record.options), str(record.target)
    return gold_labels(legal_gold(corpus, target, options), target, options)


def record_of(tagger: TrainedTagger) -> TrainingRecord:
    """Return the record of a tagger, or raise OptionError."""
    if tagger.record is None:
        raise OptionError(
            f"jackknife cannot train the tagger of tape {tagger.tape!r} again: "
            "it has no record of its training"
        )
    return tagger.record


def _staged(report: Report | None, stage: str) -> Report | None:
    if report is None:
        return None

    def staged(progress: Progress) -> None:
        values = {f.name: getattr(progress, f.name) for f in fields(Progress)}
        inner = f": {progress.stage}" if isinstance(progress, FoldProgress) else ""
        report(FoldProgress(**values, stage=stage + inner))

    return staged


# --- Passing labels on ----------------------------------------------------------------------------

_LEAST = 0.01
"""Labels that are less probable are not passed on."""


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """A text with labels of earlier tapes. Sentences may have several copies.

    For marginals, `token_share` is the probability of the labels at each token of a copy; 0 if the
    token has fewer labels than the sentence has copies.
    """

    corpus: Corpus  # with a label column for each tape
    origin: Longs  # [S'] the sentence of which each sentence of the corpus is a copy
    share: Floats  # [S'] weight of each copy; they sum to 1, except for marginals
    token_share: Floats | None = None  # [N']


def pass_on(
    corpus: Corpus,
    taggers: Sequence[E],
    settings: Options,
    *,
    threads: int = 1,
    report: Report | None = None,
) -> Passed:
    """Label a training text, without empty sentences, by earlier taggers in the order of reading.

    The options `passing`, `candidates`, `jackknife` and `seed` decide how.
    """
    label = {"best": _best, "nbest": _nbest, "marginals": _marginals}[settings.passing]
    n = settings.candidates
    if not taggers:
        return _uncopied(corpus)
    if settings.jackknife is None:
        return label(corpus, taggers, n, threads)
    parts = []
    for held, retrained in fold_taggers(
        corpus, taggers, settings.jackknife, seed=settings.seed, threads=threads, report=report
    ):
        part = label(corpus.select(held), retrained, n, threads)
        parts.append((held[part.origin], part))
    return _merged(parts)


def passed_design(
    passed: Passed, build: Callable[[Corpus], tuple[AnyIndexT, Design]]
) -> tuple[AnyIndexT, Design, Passed]:
    """Return the index and the design of a labelled text, and the text of the design.

    For marginals, the copies of a sentence become one sentence, whose attributes have values.
    """
    index, design = build(passed.corpus)
    if passed.token_share is None:
        return index, design, passed
    origin = _token_origin(passed)
    arc = None if design.arc is None else _averaged(design.arc, passed.token_share, origin)
    averaged = Design(_averaged(design.node, passed.token_share, origin), arc)
    first = np.unique(passed.origin, return_index=True)[1]
    merged = Passed(passed.corpus.select(first), passed.origin[first], np.ones(len(first)))
    return index, averaged, merged


# --- Three ways of passing on ---------------------------------------------------------------------


def _uncopied(corpus: Corpus) -> Passed:
    return Passed(corpus, np.arange(len(corpus)), np.ones(len(corpus)))


def _best(corpus: Corpus, taggers: Sequence[TrainedTagger], n: int, threads: int) -> Passed:
    del n
    return _uncopied(with_labels(corpus, taggers, threads=threads))


def _nbest(corpus: Corpus, taggers: Sequence[TrainedTagger], n: int, threads: int) -> Passed:
    """Return the n best joint labellings of each sentence, with shares by their probability.

    Each tagger continues the labellings of the earlier taggers. The n best continuations are kept.
    """
    # Until the end, shares are log probabilities.
    beam = Passed(corpus, np.arange(len(corpus)), np.zeros(len(corpus)))
    for tagger in taggers:
        nbest_paths = nbest(tagger._averaged_lattices(beam.corpus, {}), n, threads=threads)
        source, score, labels = [], [], []
        for k, paths in enumerate(nbest_paths):
            for path in paths:
                source.append(k)
                score.append(beam.share[k] + np.log(max(path.probability, 1e-300)))
                labels.append(list(path.labels))
        kept = _kept(beam.origin[source], np.asarray(score), n)
        chosen = beam.corpus.select(np.asarray(source)[kept])
        names = {label: i for i, label in enumerate(tagger.labels)}
        ids = [names[label] for i in kept.tolist() for label in labels[i]]
        column = Column(np.asarray(ids, dtype=np.int32), tagger.labels)
        chosen = chosen.with_interned(tape_column(tagger.tape), column)
        beam = Passed(chosen, beam.origin[source][kept], np.asarray(score)[kept])
    top = np.full(len(corpus), -np.inf)
    np.maximum.at(top, beam.origin, beam.share)
    weight = np.exp(beam.share - top[beam.origin])
    total = np.bincount(beam.origin, weight, minlength=len(corpus))
    return Passed(beam.corpus, beam.origin, weight / total[beam.origin])


def _kept(origin: Longs, score: Floats, n: int) -> Longs:
    """Return the indices of the n best labellings of each sentence, best first."""
    order = np.lexsort((-score, origin))
    first = np.searchsorted(origin[order], origin[order])
    return np.asarray(order[np.arange(len(order)) - first < n], dtype=np.int64)


def _marginals(corpus: Corpus, taggers: Sequence[TrainedTagger], n: int, threads: int) -> Passed:
    """Return copies of sentences with the labels of each token by their probability."""
    del n
    tapes: dict[str, tuple[tuple[str, ...], Floats]] = {}
    for tagger in taggers:
        rows = marginals(tagger._averaged_lattices(corpus, tapes), threads=threads)
        table = np.concatenate([np.empty((0, len(tagger.labels))), *rows])
        tapes[tagger.tape] = tagger.labels, table
    label_of, share = _labels_by_score([table for _, table in tapes.values()])
    lengths = Ragged(corpus.offsets).lengths
    token_sentence = np.repeat(np.arange(len(corpus)), lengths)
    origin, tokens, weights = [], [], []
    for rank in range(share.shape[1]):
        used = distinct(token_sentence[share[:, rank] > 0])
        places = np.flatnonzero(np.isin(token_sentence, used))
        origin.append(used)
        tokens.append((places, rank))
        weights.append(share[places, rank])
    joined = corpus.select(np.concatenate(origin))
    for k, (tape, tagger) in enumerate(zip(tapes, taggers, strict=True)):
        ids = [label_of[k][places, rank] for places, rank in tokens]
        column = Column(np.concatenate(ids).astype(np.int32), tagger.labels)
        joined = joined.with_interned(tape_column(tape), column)
    numbers = np.concatenate(origin)
    return Passed(joined, numbers, np.ones(len(numbers)), np.concatenate(weights))


def _labels_by_score(tables: Sequence[Floats]) -> tuple[list[Longs], Floats]:
    """Return the R most probable combinations of labels of each token: labels, shares, [N, R].

    Tapes are independent. A token with fewer combinations has share 0 and its best labels there.
    """
    labels: list[Longs] = []
    share: Floats = np.ones((len(tables[0]), 1))
    for table in tables:
        width = int((table >= _LEAST).sum(axis=1).max(initial=1))
        top = np.argsort(-table, axis=1, kind="stable")[:, : max(width, 1)]
        best = np.take_along_axis(table, top, axis=1)
        both = share[:, :, None] * np.where(best >= _LEAST, best, 0.0)[:, None, :]
        n, r, w = both.shape
        flat = both.reshape(n, r * w)
        keep = max(int((flat >= _LEAST).sum(axis=1).max(initial=1)), 1)
        order = np.argsort(-flat, axis=1, kind="stable")[:, :keep]
        share = np.take_along_axis(flat, order, axis=1)
        share = np.where(share >= _LEAST, share, 0.0)
        share[:, 0] = np.maximum(share[:, 0], _LEAST)
        labels = [np.take_along_axis(old, order // w, axis=1) for old in labels]
        labels.append(np.take_along_axis(top, order % w, axis=1))
    missing = share <= 0
    labels = [np.where(missing, ids[:, :1], ids) for ids in labels]
    return labels, share / share.sum(axis=1, keepdims=True)


# --- Merging copies -------------------------------------------------------------------------------


def _merged(parts: Sequence[tuple[Longs, Passed]]) -> Passed:
    """Merge the folds of a text. Strings of columns get new numbers."""
    first = parts[0][1].corpus
    columns = {}
    for name in first.columns:
        number: dict[str, int] = {}
        ids = []
        for _, part in parts:
            column = part.corpus.columns[name]
            place = [number.setdefault(v, len(number)) for v in column.values]
            ids.append(np.asarray(place, dtype=np.int32)[column.ids])
        columns[name] = Column(np.concatenate(ids), tuple(number))
    rows = Ragged.from_lengths(np.concatenate([Ragged(p.corpus.offsets).lengths for _, p in parts]))
    joined = Corpus(columns, rows.offsets, source=first.source)
    origin = np.concatenate([numbers for numbers, _ in parts])
    order = np.argsort(origin, kind="stable")
    shares = [part.token_share for _, part in parts if part.token_share is not None]
    token_share = None
    if shares:
        token_share = np.concatenate(shares)[rows.entries(order)]
    share = np.concatenate([part.share for _, part in parts])
    return Passed(joined.select(order), origin[order], share[order], token_share)


def _token_origin(passed: Passed) -> Longs:
    """Return the token of which each token of the copies is a copy, int64 [N']."""
    copies = Ragged(passed.corpus.offsets)
    sentences, first = np.unique(passed.origin, return_index=True)
    start = np.zeros(int(sentences[-1]) + 1, dtype=np.int64)
    start[sentences] = copies.select(first).offsets[:-1]
    return copies.ranges(start[passed.origin])


def _averaged(rows: SparseRows, share: Floats, origin: Longs) -> SparseRows:
    """Return the attributes of each token: the sum over its copies, weighted by their shares."""
    counts = Ragged(rows.indptr).lengths
    value = np.repeat(share, counts)
    if rows.value is not None:
        value = value * rows.value
    token = np.repeat(origin, counts)
    width = rows.n_columns
    key, place = np.unique(token * width + rows.index, return_inverse=True)
    total = np.bincount(place, value, minlength=len(key))
    kept = total > 0 if rows.value is None else total != 0
    key, total = key[kept], total[kept]
    n = int(origin.max(initial=-1)) + 1
    indptr = Ragged.from_rows(key // width, n).offsets
    # Rounding must not change the value 1 of attributes that read no label.
    total = np.where(np.abs(total - 1) < 1e-9, 1.0, total)
    index = (key % width).astype(np.int32)
    return SparseRows(indptr, index, total.astype(np.float32), width)
