"""The labels of earlier taggers on a training text: their own predictions, jack-knifed on request.

A tagger is right too often on the text that it was trained on, and whoever reads its labels there
learns to trust it too much. Jack-knifing cuts the sentences into K folds; the taggers are trained
again on K − 1 of them, with the settings that they were trained with, and label the one left out.

Labels passed on. What a tagger reads in training can be probabilities (`taggers/model/reads.py`).
A template that reads labels stays what it is: its design is the average of the designs that each
label would give, weighted by posteriors, so that attributes get values and the index has the keys
of ordinary labels. The tagger that comes out reads labels like any other, and one may decode by
best labels, by posteriors or jointly, however it was trained. Copies of a sentence hold the
labels in the order of their probability: as many copies as its most ambiguous token has labels
worth keeping, not as many as there are labels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np

from fstcrf.arguments import first_twice
from fstcrf.arrays import Bools, Floats, Longs, distinct
from fstcrf.errors import DataError, LabelError, OptionError
from fstcrf.kernel import SparseRows
from fstcrf.lattices import ChainRow, Lattice, marginals, nbest
from fstcrf.ragged import Ragged
from fstcrf.taggers.model.gold import gold_labels, legal_gold
from fstcrf.taggers.model.options import Options, stored_options
from fstcrf.taggers.model.potentials import Term, bind
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features import AttributeIndex, Design, LiteralIndex
from fstcrf.text.features.template import tape_column
from fstcrf.training import Progress

if TYPE_CHECKING:
    from fstcrf.taggers.model.crf import CRF, TrainingRecord

AnyIndexT = TypeVar("AnyIndexT", bound=AttributeIndex)
Report = Callable[[Progress], None]


class Retrain(Protocol):
    """Trains a tagger on other text as it was trained: `training.retrained`."""

    def __call__(
        self,
        tagger: CRF,
        corpus: Corpus,
        earlier: Sequence[CRF],
        *,
        threads: int,
        report: Report | None,
    ) -> CRF:
        """Return the new tagger, which reads those earlier ones."""


@dataclass(frozen=True, slots=True)
class FoldProgress(Progress):
    """What is known after an iteration of the training of a fold."""

    stage: str  # what is trained: ``pos, fold 2 of 5``


def ordered(taggers: Sequence[CRF], tapes: Sequence[str]) -> list[CRF]:
    """Return the taggers that write some tapes and those that they read, in the order of reading.

    Tapes without a tagger are left to the caller; a tape that a tagger reads must have one.
    """
    by_tape = {tagger.tape: tagger for tagger in taggers}
    if len(by_tape) < len(taggers):
        twice = first_twice(tagger.tape for tagger in taggers)
        raise OptionError(f"reads= has two taggers of tape {twice!r}: give them tapes by tape=")
    found: dict[str, CRF] = {}

    def add(tape: str, waiting: tuple[str, ...]) -> None:
        if tape in waiting:
            raise OptionError(f"taggers read each other: {' ← '.join((*waiting, tape))}")
        if tape in found:
            return
        for earlier in tapes_read(by_tape[tape].index):
            if earlier not in by_tape:
                raise OptionError(
                    f"the tagger of tape {tape!r} reads tape {earlier!r}: add to reads= the "
                    f"tagger of tape {earlier!r}"
                )
            add(earlier, (*waiting, tape))
        found[tape] = by_tape[tape]

    for tape in tapes:
        if tape in by_tape:
            add(tape, ())
    return list(found.values())


def with_labels(corpus: Corpus, taggers: Sequence[CRF], *, threads: int = 1) -> Corpus:
    """Return a corpus with the labels that taggers give it, each reading those before it."""
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


def jackknifed(
    corpus: Corpus,
    taggers: Sequence[CRF],
    k: int,
    *,
    retrain: Retrain,
    seed: int = 0,
    threads: int = 1,
    report: Report | None = None,
) -> Corpus:
    """Return a corpus with labels from taggers that were trained on other sentences of it.

    It has the columns that the taggers read, and those of their gold labels; no sentence is empty.
    In each fold all taggers, in the order of reading, are trained again by templates, options,
    column and class weights of their records. One that was trained on jack-knifed labels is so
    again; one that held-out data stopped makes as many iterations. Weights of sentences and warm
    starts are not repeated. LabelError where the corpus has gold labels that a tagger does not
    have: whoever learned to read them would never see them.
    """
    labels = {tagger.tape: _Labels(corpus.n_tokens) for tagger in taggers}
    token_sentence = Ragged(corpus.offsets).rows()
    for held, mine in fold_taggers(
        corpus, taggers, k, retrain=retrain, seed=seed, threads=threads, report=report
    ):
        labelled = with_labels(corpus.select(held), mine, threads=threads)
        for tagger in mine:
            column = labelled.columns[tape_column(tagger.tape)]
            labels[tagger.tape].put(np.isin(token_sentence, held), column)
    for tape, found in labels.items():
        corpus = corpus.with_interned(tape_column(tape), found.column())
    return corpus


def fold_taggers(
    corpus: Corpus,
    taggers: Sequence[CRF],
    k: int,
    *,
    retrain: Retrain,
    seed: int = 0,
    threads: int = 1,
    report: Report | None = None,
) -> Iterator[tuple[Longs, list[CRF]]]:
    """Yield the sentences of each fold, int64 [M], and taggers that were trained on all others.

    Arguments and errors as for `jackknifed`.
    """
    fold = folds(len(corpus), k, seed)
    for tagger in taggers:
        _check(tagger, corpus)
    for number in range(k):
        rest = corpus.select(np.flatnonzero(fold != number))
        mine: list[CRF] = []
        for tagger in taggers:
            stage = f"{tagger.tape}, fold {number + 1} of {k}"
            told = _staged(report, stage)
            mine.append(retrain(tagger, rest, mine, threads=threads, report=told))
        yield np.flatnonzero(fold == number), mine


class _Labels:
    """A column that is put together from those of the folds."""

    def __init__(self, n_tokens: int) -> None:
        self._ids = np.zeros(n_tokens, dtype=np.int32)
        self._number: dict[str, int] = {}

    def put(self, where: Bools, column: Column) -> None:
        place = [self._number.setdefault(v, len(self._number)) for v in column.values]
        self._ids[where] = np.asarray(place, dtype=np.int32)[column.ids]

    def column(self) -> Column:
        return Column(self._ids, tuple(self._number))


def _check(tagger: CRF, corpus: Corpus) -> None:
    target = record_of(tagger).target
    if target is None or isinstance(tagger.index, LiteralIndex):
        raise OptionError(
            f"jackknife cannot train the tagger of tape {tagger.tape!r} again: its record names no "
            "column of gold labels (it was given them as lists, or saved by an earlier version)"
        )
    if record_of(tagger).grammar is not None:
        raise OptionError(
            f"jackknife cannot train the tagger of tape {tagger.tape!r} again: it was trained "
            f"under {record_of(tagger).grammar}, which its record only names"
        )
    if target not in corpus.columns:
        raise DataError(
            f"jackknife trains the tagger of tape {tagger.tape!r} again, on column {target!r}; "
            f"the columns are {', '.join(corpus.columns)}",
            path=corpus.source,
        )
    odd = sorted(set(labels_for(corpus, record_of(tagger))) - set(tagger.labels))
    if odd:
        raise LabelError(
            f"jackknife trains the tagger of tape {tagger.tape!r} again, on column "
            f"{target!r}, which has the label {odd[0]!r}; the tagger's labels are "
            f"{', '.join(tagger.labels)}, so it never assigns this label"
        )


def labels_for(corpus: Corpus, record: TrainingRecord) -> list[str]:
    """Return the labels that a corpus has for a tagger of this record."""
    options, target = stored_options(record.options), str(record.target)
    return gold_labels(legal_gold(corpus, target, options), target, options)


def record_of(tagger: CRF) -> TrainingRecord:
    """Return how a tagger was trained."""
    if tagger.record is None:
        raise OptionError(
            f"jackknife cannot train the tagger of tape {tagger.tape!r} again: "
            "it has no record of its training"
        )
    return tagger.record


def tapes_read(index: AttributeIndex) -> tuple[str, ...]:
    """Return the tapes whose labels the attributes of an index see."""
    return () if isinstance(index, LiteralIndex) else index.tapes


def _staged(report: Report | None, stage: str) -> Report | None:
    if report is None:
        return None

    def told(progress: Progress) -> None:
        known = {f.name: getattr(progress, f.name) for f in fields(Progress)}
        inner = f": {progress.stage}" if isinstance(progress, FoldProgress) else ""
        report(FoldProgress(**known, stage=stage + inner))

    return told


# --- How the labels of earlier taggers reach a training text --------------------------------------


Given: TypeAlias = Mapping[str, tuple[tuple[str, ...], Floats]]
"""For tapes, their labels, and the probability of each at each token: [N, L]."""

_RUN_TOKENS = 2_000
_LEAST = 0.01
"""Labels that are less probable are not passed on as marginals."""


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """Sentences with labels of earlier tapes; some may come several times.

    Under marginals, the copies of a sentence hold the labels that its tokens may have, in the order
    of their probability, which `token_share` has: 0 where a token has no further label.
    """

    corpus: Corpus  # with a column for each tape
    origin: Longs  # [S'] the sentence that each is a copy of
    share: Floats  # [S'] what each copy counts, 1 a sentence; not read under marginals
    token_share: Floats | None = None  # [N']


def pass_on(
    corpus: Corpus,
    taggers: Sequence[CRF],
    settings: Options,
    *,
    retrain: Retrain,
    threads: int = 1,
    report: Report | None = None,
) -> Passed:
    """Give a training text the labels of the taggers that are read, in the order of reading.

    Settings `passing`, `candidates`, `jackknife` and `seed` say how; no sentence is empty.
    """
    give = {"best": _best, "nbest": _nbest, "marginals": _marginals}[settings.passing]
    if not taggers:
        return _whole(corpus)
    if settings.jackknife is None:
        return give(corpus, taggers, settings, threads)
    parts = []
    for held, mine in fold_taggers(
        corpus,
        taggers,
        settings.jackknife,
        retrain=retrain,
        seed=settings.seed,
        threads=threads,
        report=report,
    ):
        found = give(corpus.select(held), mine, settings, threads)
        parts.append((held[found.origin], found))
    return _merged(parts)


def built(
    passed: Passed, build: Callable[[Corpus], tuple[AnyIndexT, Design]]
) -> tuple[AnyIndexT, Design, Passed]:
    """Return index and design of what was passed on, and which sentences the design is of.

    Under marginals the copies of a sentence become one, whose attributes have values.
    """
    index, design = build(passed.corpus)
    if passed.token_share is None:
        return index, design, passed
    whole = _token_origin(passed)
    arc = None if design.arc is None else _averaged(design.arc, passed.token_share, whole)
    averaged = Design(_averaged(design.node, passed.token_share, whole), arc)
    first = np.unique(passed.origin, return_index=True)[1]
    alone = Passed(passed.corpus.select(first), passed.origin[first], np.ones(len(first)))
    return index, averaged, alone


def lattices_given(tagger: CRF, corpus: Corpus, given: Given) -> list[Lattice]:
    """Return lattices in which earlier tapes are averaged over.

    Potentials are expectations by the probability of the labels of given tapes at each token; tapes
    that are not given are columns.
    """
    read = [tape.name for tape in tagger.reads if tape.name in given]
    prepared = bind(tagger, {tape: given[tape][0] for tape in read}).prepare(corpus)
    still = tagger._program.chains[0].arc is not None
    found, start = [], 0
    for run in prepared.runs(_RUN_TOKENS):
        bounds = run.offsets.tolist()
        here = {tape: given[tape][1][start : start + bounds[-1]] for tape in read}
        start += bounds[-1]
        potentials = prepared.potentials(run.first, run.end)
        values = [_expected(potentials.node, here, bounds[-1])]
        if not still:
            values.append(_expected(potentials.arc, here, bounds[-1]))
        for a, b in itertools.pairwise(bounds):
            found.append(Lattice(ChainRow(tagger._program, tuple(v[a:b] for v in values))))
    return found


def _expected(terms: Iterable[Term], given: Mapping[str, Floats], n: int) -> Floats:
    """Average terms over the labels of their tapes, token by token: [N, X]."""
    total: Floats = np.zeros((n, 1))
    for term in terms:
        values = np.broadcast_to(term.values, (n, *term.values.shape[1:]))
        for tape in term.context:  # the first of the axes that are left
            values = np.einsum("nl...,nl->n...", values, given[tape])
        total = total + values
    return total


# --- The three ways -------------------------------------------------------------------------------


def _whole(corpus: Corpus) -> Passed:
    return Passed(corpus, np.arange(len(corpus)), np.ones(len(corpus)))


def _best(corpus: Corpus, taggers: Sequence[CRF], settings: Options, threads: int) -> Passed:
    del settings
    return _whole(with_labels(corpus, taggers, threads=threads))


def _nbest(corpus: Corpus, taggers: Sequence[CRF], settings: Options, threads: int) -> Passed:
    """Pass on the best labellings of the taggers together, by their probability.

    Each tagger continues the labellings found so far; of all continuations the best are kept.
    """
    n = settings.candidates
    found = Passed(corpus, np.arange(len(corpus)), np.zeros(len(corpus)))  # log probabilities yet
    for tagger in taggers:
        ranked = nbest(lattices_given(tagger, found.corpus, {}), n, threads=threads)
        of, score, labels = [], [], []
        for k, paths in enumerate(ranked):
            for path in paths:
                of.append(k)
                score.append(found.share[k] + np.log(max(path.probability, 1e-300)))
                labels.append(list(path.labels))
        kept = _kept(found.origin[of], np.asarray(score), n)
        chosen = found.corpus.select(np.asarray(of)[kept])
        names = {label: i for i, label in enumerate(tagger.labels)}
        ids = [names[label] for i in kept.tolist() for label in labels[i]]
        column = Column(np.asarray(ids, dtype=np.int32), tagger.labels)
        chosen = chosen.with_interned(tape_column(tagger.tape), column)
        found = Passed(chosen, found.origin[of][kept], np.asarray(score)[kept])
    top = np.full(len(corpus), -np.inf)
    np.maximum.at(top, found.origin, found.share)
    weight = np.exp(found.share - top[found.origin])
    total = np.bincount(found.origin, weight, minlength=len(corpus))
    return Passed(found.corpus, found.origin, weight / total[found.origin])


def _kept(origin: Longs, score: Floats, n: int) -> Longs:
    """Return the n best of each sentence, by sentence, best first."""
    order = np.lexsort((-score, origin))
    first = np.searchsorted(origin[order], origin[order])
    return np.asarray(order[np.arange(len(order)) - first < n], dtype=np.int64)


def _marginals(corpus: Corpus, taggers: Sequence[CRF], settings: Options, threads: int) -> Passed:
    del settings
    given: dict[str, tuple[tuple[str, ...], Floats]] = {}
    for tagger in taggers:
        rows = marginals(lattices_given(tagger, corpus, given), threads=threads)
        table = np.concatenate([np.empty((0, len(tagger.labels))), *rows])
        given[tagger.tape] = tagger.labels, table
    label_of, share = _ranked([table for _, table in given.values()])
    lengths = Ragged(corpus.offsets).lengths
    token_sentence = np.repeat(np.arange(len(corpus)), lengths)
    origin, tokens, weights = [], [], []
    for rank in range(share.shape[1]):
        used = distinct(token_sentence[share[:, rank] > 0])
        there = np.flatnonzero(np.isin(token_sentence, used))
        origin.append(used)
        tokens.append((there, rank))
        weights.append(share[there, rank])
    whole = corpus.select(np.concatenate(origin))
    for k, (tape, tagger) in enumerate(zip(given, taggers, strict=True)):
        ids = [label_of[k][there, rank] for there, rank in tokens]
        column = Column(np.concatenate(ids).astype(np.int32), tagger.labels)
        whole = whole.with_interned(tape_column(tape), column)
    numbers = np.concatenate(origin)
    return Passed(whole, numbers, np.ones(len(numbers)), np.concatenate(weights))


def _ranked(tables: Sequence[Floats]) -> tuple[list[Longs], Floats]:
    """Return the most probable label combinations of each token: labels and shares, [N, R].

    Tapes are taken to be independent. Where a token has no further combination its share is 0, and
    its labels are the best ones.
    """
    labels: list[Longs] = []
    share: Floats = np.ones((len(tables[0]), 1))
    for table in tables:
        width = int((table >= _LEAST).sum(axis=1).max(initial=1))
        top = np.argsort(-table, axis=1, kind="stable")[:, : max(width, 1)]
        mine = np.take_along_axis(table, top, axis=1)
        both = share[:, :, None] * np.where(mine >= _LEAST, mine, 0.0)[:, None, :]
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
    labels = [np.where(missing, found[:, :1], found) for found in labels]
    return labels, share / share.sum(axis=1, keepdims=True)


# --- Putting together -----------------------------------------------------------------------------


def _merged(parts: Sequence[tuple[Longs, Passed]]) -> Passed:
    """Put the folds together; label columns are numbered anew."""
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
    whole = Corpus(columns, rows.offsets, source=first.source)
    origin = np.concatenate([numbers for numbers, _ in parts])
    order = np.argsort(origin, kind="stable")
    shares = [part.token_share for _, part in parts if part.token_share is not None]
    token_share = None
    if shares:
        token_share = np.concatenate(shares)[rows.entries(order)]
    share = np.concatenate([part.share for _, part in parts])
    return Passed(whole.select(order), origin[order], share[order], token_share)


def _token_origin(passed: Passed) -> Longs:
    """Return for each token of the copies the token that it is a copy of."""
    copies = Ragged(passed.corpus.offsets)
    sentences, first = np.unique(passed.origin, return_index=True)
    start = np.zeros(int(sentences[-1]) + 1, dtype=np.int64)
    start[sentences] = copies.select(first).offsets[:-1]
    return copies.ranges(start[passed.origin])


def _averaged(rows: SparseRows, share: Floats, origin: Longs) -> SparseRows:
    """Add up the attributes of copies of a token, each times the copy's share."""
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
    # Sums of shares that should be 1 are, so that the values of plain attributes stay whole.
    total = np.where(np.abs(total - 1) < 1e-9, 1.0, total)
    index = (key % width).astype(np.int32)
    return SparseRows(indptr, index, total.astype(np.float32), width)
