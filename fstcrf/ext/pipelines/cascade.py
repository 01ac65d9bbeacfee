"""Taggers in sequence: each reads the best labels of earlier taggers, or their posteriors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fstcrf.arrays import Floats, Ints, Ragged
from fstcrf.errors import NoPathError
from fstcrf.lattices import Answer, ChainRow, Lattice, marginals
from fstcrf.lattices.batching import nbest_paths
from fstcrf.lattices.distributions import Distributions
from fstcrf.machines.plans import Program
from fstcrf.taggers import CRF, JointCRF
from fstcrf.taggers.batches import as_corpus
from fstcrf.taggers.component import as_read
from fstcrf.taggers.evidence import Evidence, Request, biases, mask
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features.template import tape_column
from fstcrf.text.sentences import Data

_LEAST = 1e-300
"""The least probability of a path, so that it has a logarithm."""


@dataclass(frozen=True, eq=False, slots=True)
class _Question:
    """A question to the taggers: n paths of the last one, given known labels."""

    composition: JointCRF
    request: Request  # without known labels
    evidence: Evidence
    soft: bool


@dataclass(frozen=True, eq=False, slots=True)
class _Step:
    """The result of one tagger: paths of its tape, and their lattices."""

    answer: Answer
    lattices: Callable[[], list[Lattice]]


def cascaded(composition: JointCRF, request: Request, *, soft: bool) -> Answer:
    """Run the taggers of a composition one after the other; its weights are left out.

    Each tagger obeys the constraints on its tape. The last tagger ranks its labellings; earlier
    taggers have decided. The score of a path is its log probability: the sum, over the shown tapes,
    of the log probability of its labels given the labels that were read; it is proven unless a
    search under the grammar was cut short. With `soft`, taggers average their potentials over the
    posteriors of earlier taggers, instead of reading their best labels; the composition then has no
    maps.

    Raises
    ------
    OptionError
        A part of the grammar is over several tapes.
    """
    sentences, evidence = request.sentences, request.tape_evidence(composition.tapes)
    if not composition._literal:
        sentences = as_corpus(composition, sentences)
    question = _Question(
        composition,
        replace(request, sentences=sentences, forced=None, bias=None),
        evidence,
        soft and not composition._literal,
    )
    steps, ids = _steps(question)

    def posterior() -> Distributions:
        each = {tape: step.lattices() for tape, step in steps.items()}
        return Distributions(each, request.budget, request.threads)

    return _joined(question, steps, ids).with_posterior(posterior)


def given_best(composition: JointCRF, request: Request, answer: Answer) -> Distributions:
    """Return the distributions of tapes given the best labels of the tapes that they read.

    Each tape has the distribution of its tagger, without its weight, under the constraints on this
    tape; forced labels and biases are applied.

    Parameters
    ----------
    composition : JointCRF
        Without maps, and not over attributes.
    request : Request
    answer : Answer
        The labels that later taggers read; sentences without a path have no distributions.

    Raises
    ------
    OptionError
        A part of the grammar is over several tapes.
    """
    taggers = composition._cascade_taggers
    corpus = as_corpus(composition, request.sentences)
    sets, evidence = composition.label_sets, request.tape_evidence(composition.tapes)
    for tape in composition.tapes:
        ids = np.maximum(answer[tape].flat[0], 0)
        corpus = corpus.with_interned(tape_column(tape), Column(ids, sets[tape]))
    each: dict[str, list[Lattice | None]] = {}
    for component in composition._components:
        tagger = taggers[component.tagger.tape]
        seen = as_read(corpus, component.readings)
        alone = replace(request, sentences=seen, forced=None, bias=None)
        posterior = tagger._as_transducer()._posterior(alone, evidence.of_tape(tagger.tape))
        each[tagger.tape] = list(posterior.lattices[tagger.tape])
    return Distributions(each, request.budget, request.threads).only(~answer.dead)


def _steps(question: _Question) -> tuple[dict[str, _Step], dict[str, Ints]]:
    """Return the results of taggers, and best labels of tapes, or arbitrary ones without a path."""
    composition = question.composition
    corpus: Any = question.request.sentences
    components = {c.tagger.tape: c for c in composition._components}
    maps = {tape_map.tape: tape_map for tape_map in composition.maps}
    taggers = composition._cascade_taggers
    order = [t.tape for t in composition.taggers] if composition._literal else composition._order
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
            tagger, n = taggers[tape], question.request.n if tape == order[-1] else 1
            if question.soft:
                read = {t: (composition.label_sets[t], table) for t, table in tables.items()}
                steps[tape], lattices = _softly(question, tagger, corpus, read, n)
                if tape != order[-1]:
                    tables[tape] = _table(lattices, labels, question.request.threads)
            else:
                readings = components[tape].readings
                seen = as_read(corpus, readings) if isinstance(corpus, Corpus) else corpus
                steps[tape] = _hard(question, tagger, seen, n)
            ids[tape] = np.maximum(steps[tape].answer[tape].flat[0], 0)
        if isinstance(corpus, Corpus):
            corpus = corpus.with_interned(tape_column(tape), Column(ids[tape], labels))
    return steps, ids


def _hard(question: _Question, tagger: CRF | JointCRF, sentences: Data, n: int) -> _Step:
    """Return the result of a tagger, given the labels in its columns."""
    tape, whole = tagger.tape, tagger._as_transducer()
    evidence = question.evidence.of_tape(tape)
    request = replace(
        question.request,
        sentences=sentences,
        n=n,
        forced=evidence.forced.get(tape),
        bias=evidence.bias.get(tape),
        tapes=None,
        probabilities=question.request.scores,
    )
    try:
        answer = tagger._decode(request)
    except NoPathError:
        whole._decode(request)  # the error names the token
        raise
    return _Step(answer, lambda: whole._posterior(request, evidence).lattices[tape])  # type: ignore[arg-type, return-value]


def _softly(
    question: _Question, tagger: CRF | JointCRF, corpus: Data, given: Any, n: int
) -> tuple[_Step, list[Lattice]]:
    """Return the result of a tagger averaged over earlier labels, and labels that others read."""
    assert isinstance(corpus, Corpus)  # noqa: S101 (taggers over attributes read no tapes)
    model = tagger.taggers[0] if isinstance(tagger, JointCRF) else tagger
    free = model._averaged_lattices(corpus, given)
    lattices = _ruled(free, tagger, corpus) if isinstance(tagger, JointCRF) else list(free)
    evidence = question.evidence
    forced, bias = evidence.forced.get(model.tape), evidence.bias.get(model.tape, {})
    if forced is not None or bias:
        added = biases(model.topology, bias)
        for number, lattice in enumerate(lattices):
            labels = None if forced is None else forced[number]
            allowed = mask(model.topology, labels, len(lattice))
            node = np.where(allowed, lattice.dense.values[0] + added, -np.inf)
            lattices[number] = Lattice(lattice.dense.with_values({0: node}))
    threads, budget = question.request.threads, question.request.budget
    best = [
        [replace(path, labels=lattice._labels_on(path.labels, model.tape)) for path in paths]
        for lattice, paths in zip(
            lattices, nbest_paths(lattices, n, threads=threads, budget=budget), strict=True
        )
    ]
    sums = list(lattices)
    for number, paths in enumerate(best):
        if not paths and question.request.strict:
            try:
                lattices[number].best()
            except NoPathError as error:
                raise error.of_sentence(number) from None
        sums[number] = lattices[number] if paths else free[number]
    sizes = Ragged(corpus.offsets).lengths.tolist()
    answer = Answer.of_paths(best, {model.tape: model.labels}, sizes, n)
    return _Step(answer, lambda: lattices), sums


def _table(lattices: Sequence[Lattice], labels: Sequence[str], threads: int) -> Floats:
    """Return the posteriors of a tagger's labels at each token, float64 [N, L]."""
    rows = [
        tables if len(lattice.tapes) == 1 else tables[0]
        for lattice, tables in zip(lattices, marginals(lattices, threads=threads), strict=True)
    ]
    return np.concatenate([np.empty((0, len(labels))), *rows])


def _ruled(lattices: Sequence[Lattice], tagger: JointCRF, corpus: Corpus) -> list[Lattice]:
    """Return the lattices of a tagger under its grammar; columns that it reads become tapes."""
    columns, conjuncts = tagger._grammar_read
    chains = [*tagger.taggers[0]._program.chains, *(column.chain for column in columns)]
    program = Program(chains, (), conjuncts, tagger.search, tagger.budget)
    pinned = [column.values(corpus, slice(None)) for column in columns]
    bounds = itertools.pairwise(corpus.offsets.tolist())
    return [
        Lattice(ChainRow(program, (*lattice.dense.values, *(values[a:b] for values in pinned))))
        for lattice, (a, b) in zip(lattices, bounds, strict=True)
    ]


def _joined(question: _Question, steps: dict[str, _Step], ids: dict[str, Ints]) -> Answer:
    """Return the paths of the tapes shown, for all sentences."""
    last, n = list(steps)[-1], question.request.n
    tapes = question.request.tapes or question.composition.tapes
    size, scored = len(steps[last].answer), question.request.scores
    logs, dead = np.zeros((size, n)), np.zeros(size, dtype=bool)
    proven = np.ones((size, n), dtype=bool)
    logs[:, 1:] = -np.inf
    for tape, step in steps.items():
        shape = size, step.answer.n
        alive = step.answer.scores.reshape(shape) > -np.inf
        proven &= step.answer.exact.reshape(shape) | ~alive
        dead |= ~alive[:, 0]
        if tape in tapes:
            chances: Any = step.answer.probabilities.reshape(shape) if scored else 1.0
            log_p = np.where(alive, np.log(np.maximum(chances, _LEAST)), -np.inf)
            logs = logs[:, :1] + log_p if tape == last else logs + log_p[:, :1]
    logs[dead] = -np.inf
    offsets = steps[last].answer.offsets
    missing = Ragged(offsets).repeat(np.isneginf(logs)).T
    flat = {}
    for tape in tapes:
        rows = np.broadcast_to(ids[tape], (n, len(ids[tape])))
        if tape == last:
            rows = np.broadcast_to(steps[tape].answer[tape].flat, rows.shape)
        flat[tape] = np.where(missing, np.int32(-1), rows).astype(np.int32)
    sets = question.composition.label_sets
    return Answer(
        flat,
        {tape: sets[tape] for tape in tapes},
        offsets,
        scores=logs,
        exact=proven,
        bounds=np.where(proven, logs, 0.0),  # a probability is at most 1
        log_z=lambda: np.zeros(size),
    )
