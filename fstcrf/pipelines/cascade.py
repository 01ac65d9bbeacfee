"""Taggers one after the other: by the best labels of those before, or by what they think of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.corpus import Column, Corpus
from fstcrf.errors import NoPathError
from fstcrf.features.template import tape_column
from fstcrf.joint import CRF, Composition
from fstcrf.joint.batches import as_corpus
from fstcrf.joint.component import as_read
from fstcrf.joint.known import Known, Request
from fstcrf.lattice import Answer, Lattice, marginals, nbest
from fstcrf.lattice.distributions import Distributions
from fstcrf.lattice.paths import best_path
from fstcrf.model import decoding
from fstcrf.model import reads as passing
from fstcrf.model.model import Model
from fstcrf.model.reading import Data

_LEAST = 1e-300
"""The least probability of a path, so that it has a logarithm."""


@dataclass(frozen=True, eq=False, slots=True)
class _Question:
    """What is asked of the taggers: n paths of the last one, given what is known."""

    composition: Composition
    request: Request  # without what is known
    known: Known  # of the sentences that are not empty
    soft: bool


@dataclass(frozen=True, eq=False, slots=True)
class _Step:
    """What one tagger found: paths of its tape, and the lattices that they are from."""

    answer: Answer
    lattices: Callable[[], list[Lattice]]


def cascaded(composition: Composition, request: Request, *, soft: bool) -> Answer:
    """Run the taggers of a composition one after the other; its grammar and weights are left out.

    The last tagger ranks its own labellings, those before it have decided. The score of a path is
    its log probability: the sum, over the tapes that are shown, of that of its labels given the
    labels that were read; it is proven. With `soft`, taggers take their potentials on average over
    the posteriors of those before them, rather than for their best labels; the composition has no
    maps then.
    """
    sentences, known = request.sentences, request.known(composition.tapes)
    lengths: list[int] = []
    if not composition.literal:
        lengths, sentences = as_corpus(composition, sentences)
    numbers = np.flatnonzero(lengths) if lengths else np.arange(len(sentences))
    forced = {t: [rows[i] for i in numbers.tolist()] for t, rows in known.forced.items()}
    asked = _Question(
        composition,
        replace(request, sentences=sentences, forced=None, bias=None),
        replace(known, forced=forced),
        soft and not composition.literal,
    )
    try:
        steps, ids = _steps(asked)
    except NoPathError as error:
        where = None if error.sentence is None else int(numbers[error.sentence])
        raise NoPathError(
            error.reason,
            position=error.position,
            sentence=where,
            constraints=error.constraints,
        ) from None
    lengths = lengths or np.diff(next(iter(steps.values())).answer.offsets).tolist()
    found = _joined(asked, steps, ids, lengths)

    def posterior() -> Distributions:
        each: dict[str, list[Lattice | None]] = {}
        for tape, step in steps.items():
            each[tape] = [None] * len(lengths)
            for number, lattice in zip(numbers.tolist(), step.lattices(), strict=True):
                each[tape][number] = lattice
        return Distributions(each, request.budget, request.threads)

    return found.with_posterior(posterior)


def given_best(composition: Composition, request: Request, answer: Answer) -> Distributions:
    """Return the distributions of tapes given the best labels of the tapes that they read.

    Each tape has that of its own tagger, without grammar and weights; forced labels and biases are
    put in.

    Parameters
    ----------
    composition : Composition
        Without maps, and not over attributes.
    request : Request
        No empty sentences.
    answer : Answer
        The labels that are read; nothing is asked of dead sentences.
    """
    _, corpus = as_corpus(composition, request.sentences)
    sets, known = composition.label_sets, request.known(composition.tapes)
    for tape in composition.tapes:
        ids = np.maximum(answer[tape].flat[0], 0)
        corpus = corpus.with_interned(tape_column(tape), Column(ids, sets[tape]))
    each: dict[str, list[Lattice | None]] = {}
    for component in composition.components:
        tagger, seen = _as_crf(component.tagger), as_read(corpus, component.readings)
        mine = _of_tape(known, tagger.tape)
        asked = replace(request, sentences=seen, forced=None, bias=None)
        each[tagger.tape] = list(
            tagger.as_transducer().posterior(asked, mine).lattices[tagger.tape]
        )
    return Distributions(each, request.budget, request.threads).only(~answer.dead)


def _as_crf(model: Model) -> CRF:
    return model if isinstance(model, CRF) else CRF.of(model)


def _of_tape(known: Known, tape: str) -> Known:
    """Return what is known of one tape."""
    return Known(
        {name: rows for name, rows in known.forced.items() if name == tape},
        {name: bias for name, bias in known.bias.items() if name == tape},
    )


def _steps(asked: _Question) -> tuple[dict[str, _Step], dict[str, Ints]]:
    """Return what taggers found, and the best labels of tapes, or some where there is no path."""
    composition = asked.composition
    corpus: Any = asked.request.sentences
    components = {c.tagger.tape: c for c in composition.components}
    maps = {tape_map.tape: tape_map for tape_map in composition.maps}
    order = [t.tape for t in composition.taggers] if composition.literal else composition.order
    steps: dict[str, _Step] = {}
    ids: dict[str, Ints] = {}
    tables: dict[str, Floats] = {}
    for tape in order:
        labels = composition.label_sets[tape]
        if tape in maps:
            column = maps[tape].decide(corpus)
            number = {label: k for k, label in enumerate(labels)}
            ids[tape] = np.asarray([number[v] for v in column.values], dtype=np.int32)[column.ids]
        else:
            component, n = components[tape], asked.request.n if tape == order[-1] else 1
            if asked.soft:
                given = {t: (composition.label_sets[t], table) for t, table in tables.items()}
                steps[tape], tables[tape] = _softly(asked, component.tagger, corpus, given, n)
            else:
                seen = as_read(corpus, component.readings) if isinstance(corpus, Corpus) else corpus
                steps[tape] = _hard(asked, component.tagger, seen, n)
            ids[tape] = np.maximum(steps[tape].answer[tape].flat[0], 0)
        if isinstance(corpus, Corpus):
            corpus = corpus.with_interned(tape_column(tape), Column(ids[tape], labels))
    return steps, ids


def _hard(asked: _Question, model: Model, sentences: Data, n: int) -> _Step:
    """Return what a tagger finds, given the labels that its columns hold."""
    tagger = _as_crf(model)
    tape, whole, mine = tagger.tape, tagger.as_transducer(), _of_tape(asked.known, tagger.tape)
    request = replace(
        asked.request,
        sentences=sentences,
        n=n,
        forced=mine.forced.get(tape),
        bias=mine.bias.get(tape),
        tapes=None,
    )
    try:
        answer = tagger.decoded(request)
    except NoPathError:
        whole.decoded(request)  # it says at which token
        raise
    return _Step(answer, lambda: whole.posterior(request, mine).lattices[tape])  # type: ignore[arg-type, return-value]


def _softly(asked: _Question, model: Any, corpus: Data, given: Any, n: int) -> tuple[_Step, Floats]:
    """Return what a tagger finds on average over the labels before it, and its posteriors."""
    assert isinstance(corpus, Corpus)  # noqa: S101 (taggers over attributes read no tapes)
    free = passing.lattices_given(model, corpus, given)
    forced, bias = asked.known.forced.get(model.tape), asked.known.bias.get(model.tape, {})
    lattices = free
    if forced is not None or bias:
        added = decoding.biases(model.topology, bias)
        lattices = []
        for number, lattice in enumerate(free):
            known = None if forced is None else forced[number]
            mask = decoding.mask(model.topology, known, len(lattice))
            node = np.where(mask, lattice.values[0] + added, -np.inf)
            lattices.append(lattice.with_values({0: node}))
    ranked = nbest(lattices, n, threads=asked.request.threads)
    sums = list(lattices)
    for number, paths in enumerate(ranked):
        if not paths and asked.request.strict:
            try:
                best_path(lattices[number])
            except NoPathError as error:
                raise NoPathError(error.reason, position=error.position, sentence=number) from None
        sums[number] = lattices[number] if paths else free[number]
    rows = marginals(sums, threads=asked.request.threads)
    table = np.concatenate([np.empty((0, len(model.labels))), *rows])
    sizes = np.diff(corpus.offsets).tolist()
    answer = Answer.of_paths(list(ranked), {model.tape: model.labels}, sizes, n)
    return _Step(answer, lambda: lattices), table


def _joined(
    asked: _Question, steps: dict[str, _Step], ids: dict[str, Ints], lengths: Sequence[int]
) -> Answer:
    """Return the paths of the tapes shown, for all sentences."""
    last, n = list(steps)[-1], asked.request.n
    tapes = asked.request.tapes or asked.composition.tapes
    size = len(steps[last].answer)
    logs, dead = np.zeros((size, n)), np.zeros(size, dtype=bool)
    logs[:, 1:] = -np.inf
    for tape, step in steps.items():
        shape = size, step.answer.n
        chances = step.answer.probabilities.reshape(shape)
        alive = step.answer.scores.reshape(shape) > -np.inf
        dead |= ~alive[:, 0]
        if tape in tapes:
            mine = np.where(alive, np.log(np.maximum(chances, _LEAST)), -np.inf)
            logs = logs[:, :1] + mine if tape == last else logs + mine[:, :1]
    logs[dead] = -np.inf
    offsets: Longs = steps[last].answer.offsets
    missing = np.repeat(np.isneginf(logs), np.diff(offsets), axis=0).T
    flat = {}
    for tape in tapes:
        rows = np.broadcast_to(ids[tape], (n, len(ids[tape])))
        if tape == last:
            rows = np.broadcast_to(steps[tape].answer[tape].flat, rows.shape)
        flat[tape] = np.where(missing, np.int32(-1), rows).astype(np.int32)
    scores = np.full((len(lengths), n), -np.inf)
    scores[:, 0] = 0.0
    scores[np.flatnonzero(lengths) if size < len(lengths) else slice(None)] = logs
    one = (slice(None), 0) if n == 1 else ...
    sets = asked.composition.label_sets
    return Answer(
        flat,
        {tape: sets[tape] for tape in tapes},
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        scores=scores[one],
        probabilities=np.exp(scores)[one],
        exact=np.ones(scores.shape, dtype=bool)[one],
        bounds=scores[one],
    )
