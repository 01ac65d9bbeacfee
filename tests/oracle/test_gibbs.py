"""Gibbs sampling of documents against all labellings written out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import fstcrf
from fstcrf.constraints import at_most, label
from fstcrf.errors import NumericError
from fstcrf.ext.documents import (
    Annealing,
    Consistency,
    Differing,
    Document,
    DocumentChain,
    Fields,
    Recounted,
    Unlabelled,
    Violation,
)
from fstcrf.ext.documents.sampler import Start, Sweeps
from fstcrf.ext.documents.scores import LocalScores
from fstcrf.lattices import product
from fstcrf.text.corpus import spans
from tests.support.document_cases import Exact, document_of, drawn, p_value
from tests.support.grids import grid

LABELS = ("O", "I-X", "I-Y")
IOB2 = ("O", "B-X", "I-X", "B-Y")
MODEL = Consistency(
    [
        Violation("same", ("X", "Y"), -1.5),
        Violation("within", ("X", "Y"), -0.7),
        Violation("within", ("Y", "X"), -1.1),
        Violation("within", ("X", "X"), -0.4),
    ]
)


FIELD_LABELS = ("O", "I-stime", "I-speaker")
FIELD_IOB2 = ("O", "B-stime", "I-stime", "B-speaker")
FIELDS = Fields([Differing("stime", "clock", -0.8), Unlabelled("speaker", -0.6)])
KINDS: tuple[Sweeps, ...] = ("token", "sentence", "mixed")
INCOMPLETE = Consistency(
    [
        Violation("same", ("X", "Y"), -0.9),
        Violation("incomplete", ("X", "X"), -0.8),
        Violation("incomplete", ("X", "Y"), -0.5),
        Violation("incomplete", ("Y", "X"), 0.3),
    ],
    ignore_case=True,
)


def of_fields(penalty: float) -> Fields:
    return Fields([Differing("stime", "text", penalty), Unlabelled("speaker", penalty)])


@cache
def problem(
    *sentences: str,
    labels: tuple[str, ...] = LABELS,
    seed: int = 0,
    model: Consistency | Fields | None = MODEL,
) -> Exact:
    random = np.random.default_rng(seed)
    document = document_of(*sentences)
    size = len(labels)
    transitions = 0.5 * random.normal(size=(size, size))
    if labels is IOB2:
        transitions[[0, 3], 2] = -np.inf
    initial = np.where([x.startswith("I-") and labels is IOB2 for x in labels], -np.inf, 0.0)
    lattices = [
        fstcrf.Lattice.from_arrays(
            labels, random.normal(size=(len(s.split()), size)), transitions, initial
        )
        for s in sentences
    ]
    return Exact(document, lattices, model)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("model", "sentences", "labels", "temperature"),
    [
        (MODEL, ("a b", "b a b"), LABELS, 1.0),
        (MODEL, ("a a", "a", "b a"), LABELS, 0.5),
        (MODEL, ("a b", "c a"), IOB2, 1.0),
        (MODEL, ("a b", "c a"), IOB2, 0.5),
        (FIELDS, ("a 3 30 a", "4 a"), FIELD_LABELS, 1.0),
        (FIELDS, ("3 4", "3 .", "x x"), FIELD_LABELS, 1.0),
        (FIELDS, ("Smith , 3", "Smith 4"), FIELD_IOB2, 1.0),
    ],
)
def test_long_run_frequencies(
    kind: Sweeps,
    model: Any,
    sentences: tuple[str, ...],
    labels: tuple[str, ...],
    temperature: float,
) -> None:
    exact = problem(*sentences, labels=labels, seed=3, model=model)
    found = drawn(exact.chain(seed=1), 2500, kind, temperature)
    assert p_value(found, exact.probabilities(temperature)) > 1e-4


OTHER = Fields([Differing("stime", "clock", -0.1)])


@pytest.mark.parametrize(
    ("model", "other", "sentences", "labels"),
    [
        (MODEL, None, ("a b", "b a b"), LABELS),
        (FIELDS, OTHER, ("a 3 30 a", "4 a"), FIELD_LABELS),
    ],
)
def test_the_test_notices_a_wrong_model(
    model: Any, other: Any, sentences: tuple[str, ...], labels: tuple[str, ...]
) -> None:
    exact, wrong = (problem(*sentences, labels=labels, seed=3, model=m) for m in (model, other))
    found = drawn(wrong.chain(), 2500, "token", 1.0)
    assert p_value(found, exact.probabilities()) < 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "labels", "temperature"),
    grid(
        KINDS,
        [LABELS, IOB2],
        [1.0, 0.5],
        few=[("sentence", LABELS, 1.0), ("mixed", IOB2, 0.5)],
    ),
)
def test_models_in_python_are_sampled_alike(
    kind: Sweeps, labels: tuple[str, ...], temperature: float
) -> None:
    exact = problem("a b", "b a", labels=labels, seed=5)
    assert exact.model is not None
    chain = python_chain(exact, exact.model.score)
    found = drawn(chain, 250, kind, temperature, apart=5)
    assert p_value(found, exact.probabilities(temperature)) > 1e-4


def python_chain(exact: Exact, score: Callable[..., float], **options: Any) -> DocumentChain:
    tapes = options.pop("tapes", ("label",))
    return DocumentChain(
        exact.document, exact.local, [Recounted(score)], tapes=tapes, seed=2, **options
    )


def without_x(document: Document, labels: Sequence[str]) -> float:
    return -np.inf if "I-X" in labels else MODEL.score(document, labels)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "start"),
    grid(KINDS, ["viterbi", "random"], few=[("mixed", "random")]),
)
def test_what_a_model_forbids_is_never_drawn(kind: Sweeps, start: Start) -> None:
    alone = problem("a b", "b a b", seed=1, model=None)
    assert "I-X" in max(alone.score, key=alone.score.__getitem__)
    exact = copy(problem("a b", "b a b", seed=1))
    exact.score = {labels: x for labels, x in exact.score.items() if "I-X" not in labels}
    chain = python_chain(exact, without_x, start=start)
    found = drawn(chain, 250, kind, 1.0, apart=5)
    assert p_value(found, exact.probabilities()) > 1e-4
    assert np.isfinite(chain.best_score)


def test_a_model_may_outweigh_the_tagger_by_far() -> None:
    exact = problem("a", "b", model=None)
    local = replace(exact.local, node=exact.local.node - [0.0, 5000.0, 0.0])
    wanted = Recounted(lambda _, labels: 9000.0 * labels.count("I-X"))
    chain = DocumentChain(exact.document, local, [wanted], tapes=("label",))
    chain.sweep(np.ones(1), "token")
    assert chain.labels() == [("I-X",)] * 2


def test_all_starts_forbidden_is_an_error() -> None:
    exact = problem("a b", "b a", seed=5)
    with pytest.raises(NumericError, match="document 0: the violation models Recounted give −inf"):
        python_chain(exact, lambda *_: -np.inf)


@pytest.mark.thorough
@pytest.mark.parametrize("model", [None, MODEL])
@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("seed", grid(range(4), few=[(0,)]))
def test_the_start_counts_among_the_best(
    model: Consistency | None,
    slow: bool,
    seed: int,
) -> None:
    exact = problem("a b c d e", "b a b", seed=seed, model=model)
    score = (lambda *_: 0.0) if model is None else model.score
    chain = python_chain(exact, score) if slow else exact.chain()
    first = tuple(names[0] for names in chain.labels())
    chain.sweep(np.full(3, 50.0))
    best = tuple(names[0] for names in chain.labels(best=True))
    assert chain.best_score == pytest.approx(exact.score[best])
    assert chain.best_score >= exact.score[first] - 1e-9
    if model is None:
        assert best == first


SMALL_TEXTS = ("a b c", "a . b", "a")
ONCE = Fields([Differing("stime", "clock", -0.4, "values")])


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("model", "texts", "labels", "seed"),
    [
        (MODEL, SMALL_TEXTS, LABELS, 0),
        (MODEL, SMALL_TEXTS, LABELS, 1),
        (of_fields(-4.0), SMALL_TEXTS, FIELD_LABELS, 0),
        (of_fields(-4.0), SMALL_TEXTS, FIELD_LABELS, 1),
        (of_fields(0.7), SMALL_TEXTS, FIELD_LABELS, 2),
        (ONCE, ("3 4 . 4", "4 30 a", "5 3"), FIELD_LABELS, 6),  # values are counted once
    ],
)
@pytest.mark.usefixtures("variant")
def test_scores_are_kept_as_labels_change(
    kind: Sweeps, model: Any, texts: tuple[str, ...], labels: tuple[str, ...], seed: int
) -> None:
    exact = problem(*texts, labels=labels, seed=seed, model=model)
    chain, seen = exact.chain(seed), set()
    for temperature in (9.0, 3.0, 2.0, 1.0, 0.3, 0.0):
        score = chain.sweep(np.array([temperature]), kind)[-1]
        drawn_labels = tuple(names[0] for names in chain.labels())
        assert score == pytest.approx(exact.score[drawn_labels])
        seen.add(round(model.score(exact.document, drawn_labels), 6))
    assert len(seen) > 1 or model is not ONCE
    best = tuple(names[0] for names in chain.labels(best=True))
    assert chain.best_score == pytest.approx(exact.score[best])


@pytest.mark.parametrize("kind", ["token", "mixed"])
def test_annealing_finds_the_best(kind: Sweeps) -> None:
    exact = problem("a b", "b a b", "a", seed=11)
    best = max(exact.score, key=exact.score.__getitem__)
    chain = exact.chain()
    chain.sweep(Annealing(400).temperatures(), kind)
    assert tuple(names[0] for names in chain.labels(best=True)) == best
    assert chain.best_score == pytest.approx(exact.score[best])


def test_under_a_grammar_joint_states_are_sampled() -> None:
    random = np.random.default_rng(0)
    document = document_of("a b", "b a")
    grammar = at_most(1, label("I-X"))
    lattices = [
        fstcrf.Lattice.from_arrays(LABELS, random.normal(size=(2, 3))) & grammar for _ in range(2)
    ]
    other = lattices[0].dense.with_values({0: random.normal(size=(2, 3))})
    lattices[1] = lattices[1]._with_row(other)
    exact = Exact(document, lattices, MODEL)
    assert len(exact.score) == 8 * 8
    assert p_value(drawn(exact.chain(), 3000, "token", 1.0), exact.probabilities()) > 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "slow"),
    grid(KINDS, [False, True], few=[*((kind, False) for kind in KINDS), ("sentence", True)]),
)
def test_a_product_of_two_tapes(kind: Sweeps, slow: bool) -> None:
    random = np.random.default_rng(4)
    document = document_of("a b", "a")
    coupling = random.normal(size=(2, 3))
    lattices = [
        product(
            [
                fstcrf.Lattice.from_arrays(("A", "B"), random.normal(size=(n, 2)), tape="tag"),
                fstcrf.Lattice.from_arrays(LABELS, random.normal(size=(n, 3)), tape="field"),
            ],
            coupling={(0, 1): coupling},
        )
        for n in (2, 1)
    ]
    model = replace(MODEL, tape="field")
    score = {}
    for one, other in itertools.product(*[lattice.nbest(50) for lattice in lattices]):
        tags, fields = ((*x, *y) for x, y in zip(one.labels, other.labels, strict=True))
        total = one.score + other.score + model.score(document, fields)
        score[tuple(zip(tags, fields, strict=True))] = total
    assert len(score) == 6**3
    models = [TwoTapes(model.score)] if slow else [model]
    chain = DocumentChain(
        document, LocalScores.of(lattices), models, tapes=("tag", "field"), seed=3
    )
    found: Counter[tuple[tuple[str, ...], ...]] = Counter()
    for _ in range(300 if slow else 3000):
        chain.sweep(np.full(5 if slow else 20, 1.0), kind)
        found[tuple(chain.labels())] += 1
    p = np.exp(np.array(list(score.values())) - logsumexp(list(score.values())))
    assert p_value(found, dict(zip(score, p.tolist(), strict=True))) > 1e-4


class TwoTapes(Recounted):
    """A function's model of one of two tapes."""

    tape = "field"


def places(document: Document, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return where the tokens of a document are these words, whatever their case."""
    found, size = [], len(words)
    for first, end in itertools.pairwise(document.offsets.tolist()):
        tokens = [w.lower() for w in document.column("word")]
        wanted = [w.lower() for w in words]
        found += [
            (k, k + size) for k in range(first, end - size + 1) if tokens[k : k + size] == wanted
        ]
    return found


def written_out(document: Document, labels: Sequence[str]) -> float:
    """Return the score of `INCOMPLETE` by its definition."""
    words, total = document.column("word"), 0.0
    penalty = {(v.relation, v.types): v.penalty for v in INCOMPLETE.violations}
    bounds = itertools.pairwise(document.offsets.tolist())
    found = [(a + s.start, a + s.end, s.type) for a, b in bounds for s in spans(labels[a:b])]
    for (a, b, one), (c, d, other) in itertools.permutations(found, 2):
        for first, end in places(document, words[a:b]):
            if (first, end) == (c, d) and (one, other) == ("X", "Y"):
                total += penalty["same", ("X", "Y")] * (b - a)
            elif first <= c and d <= end and d - c < end - first:
                lacking = (end - first) - (d - c)
                total += penalty.get(("incomplete", (one, other)), 0.0) * lacking
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [LABELS, IOB2])
def test_incomplete_spans_cost_what_they_lack(kind: Sweeps, labels: tuple[str, ...]) -> None:
    texts = ("a b", "A b a", "B")
    exact = problem(*texts, labels=labels, seed=4, model=INCOMPLETE)
    chain, several = exact.chain(1), set()
    for temperature in (5.0, 3.0, 2.0, 1.0, 0.5):
        score = chain.sweep(np.array([temperature]), kind)[-1]
        drawn_labels = tuple(names[0] for names in chain.labels())
        beyond = written_out(exact.document, drawn_labels)
        assert INCOMPLETE.score(exact.document, drawn_labels) == pytest.approx(beyond)
        assert score == pytest.approx(exact.score[drawn_labels])
        several.add(round(beyond, 6))
    assert len(several) > 1
    python = INCOMPLETE.bind(exact.document)
    random = np.random.default_rng(0)
    current = [str(x) for x in random.choice(LABELS, len(exact.document))]
    total = python.start(current)
    for _ in range(30):
        place = int(random.integers(len(current)))
        changed = [str(random.choice(LABELS))]
        total += python.change(place, changed)
        python.keep()
        current[place : place + 1] = changed
        assert total == pytest.approx(written_out(exact.document, current))


def test_two_models_together() -> None:
    """Beside a model of sequences, the kernel scores what both score in Python."""
    same = Consistency([Violation("same", ("stime", "speaker"), -1.0)])
    exact = problem("a b a", "b a", labels=FIELD_LABELS, seed=2, model=FIELDS)

    def both(*models: object) -> DocumentChain:
        return DocumentChain(exact.document, exact.local, models, tapes=("label",), seed=4)  # type: ignore[arg-type]

    quick, slow = both(same, FIELDS), both(Recounted(same.score), Recounted(FIELDS.score))
    temperatures = Annealing(60).temperatures()
    assert quick.sweep(temperatures)[-1] == pytest.approx(slow.sweep(temperatures)[-1])
    assert quick.labels() == slow.labels()
