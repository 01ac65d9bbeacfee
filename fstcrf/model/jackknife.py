"""The labels of earlier taggers on a training text: their own predictions, jack-knifed on request.

=============  ===============================================================
ordered        taggers, each after those that it reads
with_labels    a corpus with the labels that taggers give it
jackknifed     the same, from taggers that have not seen the sentence
fold_taggers   those taggers, fold by fold
folds          which sentence is in which fold
FoldProgress   an iteration of the training of a fold
=============  ===============================================================

A tagger is right too often on the text that it was trained on, and whoever reads its labels there
learns to trust it too much. Jack-knifing cuts the sentences into K folds; the taggers are trained
again on K − 1 of them, with the settings that they were trained with, and label the one left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Column, Corpus
from fstcrf.errors import DataError, LabelError, OptionError
from fstcrf.features import FeatureIndex
from fstcrf.features.template import tape_column
from fstcrf.model.gold import gold_labels, legal_gold
from fstcrf.model.options import options_of
from fstcrf.train import Progress

if TYPE_CHECKING:
    from fstcrf.model.crf import CRF
    from fstcrf.model.options import TrainingRecord

__all__ = ["FoldProgress", "fold_taggers", "folds", "jackknifed", "ordered", "with_labels"]

Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class FoldProgress(Progress):
    """What is known after an iteration of the training of a fold.

    Parameters
    ----------
    stage : str
        What is trained: ``pos, fold 2 of 5``.
    """

    stage: str


def ordered(taggers: Sequence[CRF], tapes: Sequence[str]) -> list[CRF]:
    """Return the taggers that write some tapes and those that they read, in the order of reading.

    Parameters
    ----------
    taggers : sequence of CRF
    tapes : sequence of str
        The tapes that are wanted; those without a tagger are left to the caller.

    Raises
    ------
    OptionError
        Two taggers of one tape, taggers that read each other, or one that reads a tape whose
        tagger is not there.
    """
    by_tape = {tagger.tape: tagger for tagger in taggers}
    if len(by_tape) < len(taggers):
        names = [tagger.tape for tagger in taggers]
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(f"reads= has two taggers of tape {twice!r}: give them tapes by tape=")
    found: dict[str, CRF] = {}

    def add(tape: str, waiting: tuple[str, ...]) -> None:
        if tape in waiting:
            raise OptionError(f"taggers read each other: {' ← '.join((*waiting, tape))}")
        if tape in found:
            return
        for earlier in _read(by_tape[tape]):
            if earlier not in by_tape:
                raise OptionError(
                    f"the tagger of tape {tape!r} reads tape {earlier!r}: "
                    "its tagger must be in reads=, too"
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


def folds(sentences: int, k: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each sentence, int64 [sentences].

    Sentence ``p[i]`` is in fold ``i mod k``, where p is the permutation of the sentences by NumPy's
    ``default_rng(seed)``.

    Raises
    ------
    OptionError
        More folds than sentences.
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
    seed: int = 0,
    threads: int = 1,
    report: Report | None = None,
) -> Corpus:
    """Return a corpus with labels from taggers that were trained on other sentences of it.

    Parameters
    ----------
    corpus : Corpus
        With the columns that the taggers read, and those of their gold labels. No sentence is
        empty.
    taggers : sequence of CRF
        In the order of reading. In each fold all of them are trained again, one after the other,
        by templates, options, column and class weights of their records. One that was trained on
        jack-knifed labels is so again; one that held-out data stopped makes as many iterations.
        Weights of sentences and warm starts are not repeated.
    k : int
        Number of folds.
    seed : int
        Of the folds.
    threads : int
    report : callable, optional
        Is told of every iteration, by `FoldProgress`.

    Raises
    ------
    OptionError
        More folds than sentences, or a tagger whose record does not say how to train it.
    DataError
        The corpus has no column of a tagger's gold labels.
    LabelError
        It has gold labels that the tagger does not have: whoever learned to read them would never
        see them.
    """
    labels = {tagger.tape: _Labels(corpus.n_tokens) for tagger in taggers}
    token_sentence = np.repeat(np.arange(len(corpus)), np.diff(corpus.offsets))
    for held, mine in fold_taggers(corpus, taggers, k, seed=seed, threads=threads, report=report):
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
    seed: int = 0,
    threads: int = 1,
    report: Report | None = None,
) -> Iterator[tuple[NDArray[np.int64], list[CRF]]]:
    """Yield the sentences of each fold, and taggers that were trained on all others.

    Parameters and errors as for `jackknifed`.

    Yields
    ------
    int64 [M], list of CRF
    """
    fold = folds(len(corpus), k, seed)
    for tagger in taggers:
        _check(tagger, corpus)
    for number in range(k):
        rest = corpus.select(np.flatnonzero(fold != number))
        mine: list[CRF] = []
        for tagger in taggers:
            stage = f"{tagger.tape}, fold {number + 1} of {k}"
            mine.append(_retrained(tagger, rest, mine, threads, _staged(report, stage)))
        yield np.flatnonzero(fold == number), mine


class _Labels:
    """A column that is put together from those of the folds."""

    def __init__(self, n_tokens: int) -> None:
        self._ids = np.zeros(n_tokens, dtype=np.int32)
        self._number: dict[str, int] = {}

    def put(self, where: NDArray[np.bool_], column: Column) -> None:
        place = [self._number.setdefault(v, len(self._number)) for v in column.values]
        self._ids[where] = np.asarray(place, dtype=np.int32)[column.ids]

    def column(self) -> Column:
        return Column(self._ids, tuple(self._number))


def _retrained(
    tagger: CRF, corpus: Corpus, earlier: Sequence[CRF], threads: int, report: Report | None
) -> CRF:
    """Train a tagger on other text as it was trained."""
    from fstcrf.model.training import train  # noqa: PLC0415 (it imports this module)

    record = _record(tagger)
    options = record.options
    if record.dev_score is not None or record.interrupted:
        # What decided it is not here any more; that it took so many iterations is known.
        options = msgspec.structs.replace(options, max_iterations=max(record.best_iteration, 1))
    target = str(record.target)
    present = set(_labels_of(corpus, record))
    return train(
        corpus,
        target,
        cast("FeatureIndex", tagger.index).templates,  # as `_check` saw
        reads=earlier,
        tape=tagger.tape,
        class_weights={k: w for k, w in record.class_weights.items() if k in present} or None,
        threads=threads,
        report=report,
        **{n: v for n, v in options_of(options).items() if n != "patience"},  # of held-out data
    )


def _check(tagger: CRF, corpus: Corpus) -> None:
    target = _record(tagger).target
    if target is None or not isinstance(tagger.index, FeatureIndex):
        raise OptionError(
            f"jackknife cannot train the tagger of tape {tagger.tape!r} again: its record names no "
            "column of gold labels (it was given them as lists, or saved by an earlier version)"
        )
    if _record(tagger).grammar is not None:
        raise OptionError(
            f"jackknife cannot train the tagger of tape {tagger.tape!r} again: it was trained "
            f"under {_record(tagger).grammar}, which its record only names"
        )
    if target not in corpus.columns:
        raise DataError(
            f"jackknife trains the tagger of tape {tagger.tape!r} again, on column {target!r}; "
            f"the columns are {', '.join(corpus.columns)}",
            path=corpus.source,
        )
    odd = sorted(set(_labels_of(corpus, _record(tagger))) - set(tagger.labels))
    if odd:
        raise LabelError(
            f"jackknife trains the tagger of tape {tagger.tape!r} again, on column {target!r}, "
            f"which has the label {odd[0]!r}; the tagger has {', '.join(tagger.labels)}, and would "
            "never say it"
        )


def _labels_of(corpus: Corpus, record: TrainingRecord) -> list[str]:
    """Return the labels that a corpus has for a tagger of this record."""
    options, target = record.options, str(record.target)
    return gold_labels(legal_gold(corpus, target, options), target, options)


def _record(tagger: CRF) -> TrainingRecord:
    if tagger.record is None:
        raise OptionError(
            f"jackknife cannot train the tagger of tape {tagger.tape!r} again: "
            "it has no record of its training"
        )
    return tagger.record


def _read(tagger: CRF) -> tuple[str, ...]:
    index = tagger.index
    return index.templates.tapes if isinstance(index, FeatureIndex) else ()


def _staged(report: Report | None, stage: str) -> Report | None:
    if report is None:
        return None

    def told(progress: Progress) -> None:
        known = {f.name: getattr(progress, f.name) for f in fields(Progress)}
        inner = f": {progress.stage}" if isinstance(progress, FoldProgress) else ""
        report(FoldProgress(**known, stage=stage + inner))

    return told
