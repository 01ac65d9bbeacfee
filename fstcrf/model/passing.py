"""How the labels of earlier taggers reach a training text.

==========  =====================================================================
Passed      sentences with labels of earlier tapes, each with its share
pass_on     give a training text the labels of the taggers that are read
soft        the posterior of each label at each token, other tapes averaged over
==========  =====================================================================

``best``: the labels that each tagger thinks best. ``nbest``: a sentence comes once for each of the
best labellings, weighted by what they are worth to each other. ``marginals``: an attribute that
reads labels has the value of their probability; a conjunction of the two is thus a real-valued
feature, and a tagger trained so reads labels as any other does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Column, Corpus
from fstcrf.features import Design, FeatureIndex
from fstcrf.features.template import tape_column
from fstcrf.kernel import SparseRows
from fstcrf.lattice import Lattice, marginals, nbest
from fstcrf.model.jackknife import fold_taggers, with_labels
from fstcrf.train import Progress

if TYPE_CHECKING:
    from fstcrf.model.crf import CRF
    from fstcrf.model.options import Options
    from fstcrf.model.potentials import Term

__all__ = ["Passed", "built", "lattices_given", "pass_on", "soft"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Given: TypeAlias = Mapping[str, tuple[tuple[str, ...], Floats]]
"""For tapes, their labels, and the probability of each at each token: [N, L]."""

_RUN_TOKENS = 2_000
_LEAST = 0.01
"""Labels that are less probable are not passed on as marginals."""


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """Sentences with labels of earlier tapes; some may come several times.

    Parameters
    ----------
    corpus : Corpus
        With a column for each tape. Under marginals, the copies of a sentence hold the labels that
        its tokens may have, in the order of their probability.
    origin : int64 [S']
        The sentence that each is a copy of.
    share : float64 [S']
        What each copy counts; those of a sentence sum to 1. Not read under marginals.
    token_share : float64 [N'], optional
        Under marginals: probability of the labels of each token of the copies; 0 where a token has
        no further label.
    """

    corpus: Corpus
    origin: Ints
    share: Floats
    token_share: Floats | None = None


def pass_on(
    corpus: Corpus,
    taggers: Sequence[CRF],
    settings: Options,
    *,
    threads: int = 1,
    report: Callable[[Progress], None] | None = None,
) -> Passed:
    """Give a training text the labels of the taggers that are read.

    Parameters
    ----------
    corpus : Corpus
        No sentence is empty.
    taggers : sequence of CRF
        In the order of reading.
    settings : Options
        `passing`, `candidates`, `jackknife`, `seed`.
    threads : int
    report : callable, optional
        Is told of the training of folds.

    Raises
    ------
    DataError, OptionError
        The taggers do not go with the corpus.
    """
    give = {"best": _best, "nbest": _nbest, "marginals": _marginals}[settings.passing]
    if not taggers:
        return _whole(corpus)
    if settings.jackknife is None:
        return give(corpus, taggers, settings, threads)
    parts = []
    for held, mine in fold_taggers(
        corpus, taggers, settings.jackknife, seed=settings.seed, threads=threads, report=report
    ):
        found = give(corpus.select(held), mine, settings, threads)
        parts.append((held[found.origin], found))
    return _merged(parts)


def built(
    passed: Passed, templates: Any, settings: Options, base: FeatureIndex | None
) -> tuple[FeatureIndex, Design, Passed]:
    """Return index and design of what was passed on, and which sentences the design is of.

    Under marginals the copies of a sentence become one, whose attributes have values.
    """
    index, design = FeatureIndex.build(
        passed.corpus,
        templates,
        boundary=settings.boundary,
        min_count=settings.min_count,
        hash_bits=settings.hash_bits,
        base=base,
    )
    if passed.token_share is None:
        return index, design, passed
    whole = _token_origin(passed)
    arc = None if design.arc is None else _averaged(design.arc, passed.token_share, whole)
    averaged = Design(_averaged(design.node, passed.token_share, whole), arc)
    first = np.unique(passed.origin, return_index=True)[1]
    alone = Passed(passed.corpus.select(first), passed.origin[first], np.ones(len(first)))
    return index, averaged, alone


def soft(
    tagger: CRF, corpus: Corpus, given: Given, *, threads: int = 1
) -> tuple[list[Lattice], Floats]:
    """Return lattices in which earlier tapes are averaged over, and their posteriors.

    Parameters
    ----------
    tagger : CRF
    corpus : Corpus
        No sentence is empty. Tapes that are not given are columns of it.
    given : mapping of str to (labels, float64 [N, L_tape])
        Probability of the labels of tapes at each token.
    threads : int

    Returns
    -------
    list of Lattice
        One for each sentence; potentials are expectations (natural log).
    float64 [N, L]
        Posterior of each label at each token.
    """
    lattices = lattices_given(tagger, corpus, given)
    rows = marginals(lattices, threads=threads)
    return lattices, np.concatenate([np.empty((0, len(tagger.labels))), *rows])


def lattices_given(tagger: CRF, corpus: Corpus, given: Given) -> list[Lattice]:
    """Return the lattices alone; parameters as for `soft`."""
    read = [tape.name for tape in tagger.reads if tape.name in given]
    prepared = tagger.bind({tape: given[tape][0] for tape in read}).prepare(corpus)
    still = tagger.program.chains[0].arc is not None
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
            found.append(Lattice(tagger.program, tuple(v[a:b] for v in values)))
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


def _kept(origin: Ints, score: Floats, n: int) -> Ints:
    """Return the n best of each sentence, by sentence, best first."""
    order = np.lexsort((-score, origin))
    first = np.searchsorted(origin[order], origin[order])
    return np.asarray(order[np.arange(len(order)) - first < n], dtype=np.int64)


def _marginals(corpus: Corpus, taggers: Sequence[CRF], settings: Options, threads: int) -> Passed:
    del settings
    given: dict[str, tuple[tuple[str, ...], Floats]] = {}
    for tagger in taggers:
        table = soft(tagger, corpus, given, threads=threads)[1]
        given[tagger.tape] = tagger.labels, table
    label_of, share = _ranked([table for _, table in given.values()])
    lengths = np.diff(corpus.offsets)
    token_sentence = np.repeat(np.arange(len(corpus)), lengths)
    origin, tokens, weights = [], [], []
    for rank in range(share.shape[1]):
        used = np.unique(token_sentence[share[:, rank] > 0])
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


def _ranked(tables: Sequence[Floats]) -> tuple[list[Ints], Floats]:
    """Return the most probable label combinations of each token: labels and shares, [N, R].

    Tapes are taken to be independent. Where a token has no further combination its share is 0, and
    its labels are the best ones.
    """
    labels: list[Ints] = []
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


def _merged(parts: Sequence[tuple[Ints, Passed]]) -> Passed:
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
    lengths = np.concatenate([np.diff(part.corpus.offsets) for _, part in parts])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    whole = Corpus(columns, offsets, source=first.source)
    origin = np.concatenate([numbers for numbers, _ in parts])
    order = np.argsort(origin, kind="stable")
    shares = [part.token_share for _, part in parts if part.token_share is not None]
    token_share = None
    if shares:
        starts = np.repeat(offsets[:-1][order] - _starts(lengths[order]), lengths[order])
        token_share = np.concatenate(shares)[starts + np.arange(offsets[-1])]
    share = np.concatenate([part.share for _, part in parts])
    return Passed(whole.select(order), origin[order], share[order], token_share)


def _starts(lengths: Ints) -> Ints:
    return np.asarray(np.cumsum(lengths) - lengths, dtype=np.int64)


def _token_origin(passed: Passed) -> Ints:
    """Return for each token of the copies the token that it is a copy of."""
    lengths = np.diff(passed.corpus.offsets)
    sentences, first = np.unique(passed.origin, return_index=True)
    start = np.zeros(int(sentences[-1]) + 1, dtype=np.int64)
    start[sentences] = _starts(lengths[first])
    places = np.arange(lengths.sum()) - np.repeat(_starts(lengths), lengths)
    return np.asarray(np.repeat(start[passed.origin], lengths) + places, dtype=np.int64)


def _averaged(rows: SparseRows, share: Floats, origin: Ints) -> SparseRows:
    """Add up the attributes of copies of a token, each times the copy's share."""
    counts = np.diff(rows.indptr)
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
    indptr = np.concatenate([[0], np.cumsum(np.bincount(key // width, minlength=n))])
    # Sums of shares that should be 1 are, so that the values of plain attributes stay whole.
    total = np.where(np.abs(total - 1) < 1e-9, 1.0, total)
    index = (key % width).astype(np.int32)
    return SparseRows(indptr.astype(np.int64), index, total.astype(np.float32), width)
