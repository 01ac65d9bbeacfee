"""Chunkers of noun phrases, as Sha and Pereira (2003) train them: CRFs, perceptrons, an MEMM.

All have the paper's predicates and second-order labels. A run that leaves the dev part out is
scored there; the others are scored on the test part.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints
from fstcrf.ext.feedback.simulation import problem_of
from fstcrf.recipes.corpora import PHRASE, DataSplit, noun_phrase_file, span_f
from fstcrf.recipes.experiment import THREADS, Setting
from fstcrf.recipes.report import template
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus
from fstcrf.training import LBFGSOptimiser, LocalLikelihood, Progress, fit, normalised, voted_paths
from fstcrf.training.options import structured

DEV_SENTENCES = 1000

TEMPLATE = template("shallow-parsing/template")


def read(setting: Setting) -> DataSplit:
    """Read both files; `dev` is the last 1,000 sentences of `train`.

    The paper's held-out text, section 21 with another tagger's POS tags, is not part of CoNLL-2000.
    """
    return replace(read_training(setting), test=noun_phrase_file(setting, "test"))


def read_training(setting: Setting) -> DataSplit:
    """Read the training file; `test` has no sentence."""
    train = noun_phrase_file(setting, "train")
    return DataSplit(train, train[:-DEV_SENTENCES], train[-DEV_SENTENCES:], train[:0])


Boundary = Literal["skip", "pad"]
"""Values of templates beyond the ends of a sentence: none, or padding."""

L2 = 0.5  # sigma = 1, as in table 3
EPOCHS_TRIED = 30  # of the perceptron; all of them are candidates
EPOCHS = 12  # of the stochastic start: at order 2, twice the usual number saves passes


@dataclass(frozen=True, slots=True)
class PublishedOptimiser:
    name: str
    options: Mapping[str, Any]  # of `CRF.train`
    # f, minutes, objective: the results of the paper: F, minutes, penalised log-likelihood
    f: float | None = None
    minutes: float | None = None
    objective: float | None = None


OPTIMISERS = (
    PublishedOptimiser("preconditioned CG", {"method": "preconditioned-cg"}, 94.19, 130, -2968),
    PublishedOptimiser("mixed CG", {"method": "mixed-cg"}, 94.20, 540, -2990),
    PublishedOptimiser("plain CG", {"method": "cg"}, 94.04, 648, -2967),
    PublishedOptimiser("L-BFGS", {"method": "lbfgs", "stochastic_epochs": 0}, 94.19, 84, -2948),
    PublishedOptimiser("GIS", {"method": "gis", "delta": 0.0}, 93.55, 3700, -5668),
    PublishedOptimiser(
        "L-BFGS, stochastic start, curvature units",
        {"method": "lbfgs", "stochastic_epochs": EPOCHS},
    ),
)


@dataclass(frozen=True, slots=True)
class Point:
    passes: int  # over the data so far
    seconds: float  # of training so far, without the time for held-out scores
    # objective, likelihood: penalised and plain log-likelihood; NaN for a perceptron
    objective: float
    likelihood: float
    gradient_norm: float | None
    dev: float | None  # F on held-out text, in percent


@dataclass(frozen=True, slots=True)
class ChunkerRun:
    name: str
    weights: int  # how many there are
    # f, labels: on the test part, in percent; where dev was left out of training, on that
    f: float
    labels: list[list[str]]
    seconds: float  # of everything from corpus to model
    course: list[Point] = field(default_factory=list)


def _run(
    name: str,
    model: CRF,
    corpus: Corpus,
    labels: list[list[str]],
    seconds: float,
    course: list[Point] | None = None,
) -> ChunkerRun:
    f = f_of(corpus, labels)
    return ChunkerRun(name, model.space.size, f, labels, seconds, [] if course is None else course)


def f_of(corpus: Corpus, labels: list[list[str]]) -> float:
    return span_f(corpus, PHRASE, labels)


def trained(
    data: Corpus,
    *,
    report: Callable[[Progress], None] | None = None,
    boundary: Boundary = "skip",
    **given: Any,
) -> CRF:
    """Train an order-2 chunker with the paper's features; `given` are options of `CRF.train`."""
    # Padding marks the beginning and end of a sentence; without padding, attributes do.
    template = TEMPLATE if boundary == "skip" else TEMPLATE.replace("BOS\nEOS\n", "")
    options = {"order": 2, "scheme": "iob2", "boundary": boundary, **given}
    if options.get("method") != "perceptron":  # which has no penalty
        options.setdefault("l2", L2)
    return CRF.train(
        data,
        **structured({"target": PHRASE, "template": template, "report": report, **options}),
    )


def optimised(
    optimiser: PublishedOptimiser,
    data: DataSplit,
    *,
    held_out: bool = False,
    limit: int | None = None,
    l2: float = L2,
    **more: Any,
) -> tuple[CRF, ChunkerRun]:
    """Train by an optimiser; with `held_out` dev is left out, and scored after every iteration.

    Other options belong to `trained`.
    """
    course: list[Point] = []
    began = time.perf_counter()

    def note(progress: Progress) -> None:
        course.append(_point(progress, time.perf_counter() - began, l2))

    given = {**optimiser.options, **more}
    if held_out:
        given |= {"dev": data.dev, "patience": 10**6}
    if limit is not None:
        given["max_iterations"] = limit
    model = trained(data.part if held_out else data.train, report=note, l2=l2, **given)
    seconds = time.perf_counter() - began
    scored = data.dev if held_out else data.test
    labels = model.tag_all(scored, threads=more.get("threads", 1))
    return model, _run(optimiser.name, model, scored, labels, seconds, course)


def run_of(optimiser: PublishedOptimiser, data: DataSplit, **options: Any) -> ChunkerRun:
    """Return only the run of a tagger that is trained with all threads of recipes."""
    return optimised(optimiser, data, threads=THREADS, **options)[1]


def _point(progress: Progress, seconds: float, l2: float) -> Point:
    penalty = l2 * progress.measures.get("norm", 0.0) ** 2
    return Point(
        progress.evaluations,
        seconds,
        -progress.value,
        -progress.value + penalty,
        progress.gradient_norm,
        None if progress.dev is None else 100.0 * progress.dev,
    )


def perceptron(
    data: DataSplit, epochs: int, features: str = "supported", seed: int = 0
) -> ChunkerRun:
    began = time.perf_counter()
    given: dict[str, Any] = {"method": "perceptron", "pairs": features, "seed": seed}
    model = trained(data.train, max_iterations=epochs, **given)
    seconds = time.perf_counter() - began
    name = f"averaged perceptron, {features}"
    return _run(name, model, data.test, model.tag_all(data.test), seconds)


def perceptron_course(
    data: DataSplit, *, features: str = "supported", seed: int = 0
) -> list[float]:
    """Return F on the dev part, percent, after each epoch of the averaged perceptron."""
    scores: list[float] = []
    trained(
        data.part,
        report=lambda progress: scores.append(100.0 * (progress.dev or 0.0)),
        dev=data.dev,
        patience=EPOCHS_TRIED,
        max_iterations=EPOCHS_TRIED,
        method="perceptron",
        pairs=features,
        seed=seed,
    )
    return scores


def voted(data: DataSplit, like: CRF, *, epochs: int = 2, seed: int = 0) -> ChunkerRun:
    began = time.perf_counter()
    train, test = (problem_of(like, part, PHRASE) for part in (data.train, data.test))
    states = voted_paths(train, like.space, test.node, test.offsets, epochs=epochs, seed=seed)
    seconds = time.perf_counter() - began
    labels = _labelled(like, states, data.test)
    return _run(f"voted perceptron, {epochs} epochs", like, data.test, labels, seconds)


def local(data: DataSplit, like: CRF, *, held_out: bool = False, limit: int = 300) -> ChunkerRun:
    """Train a locally normalised model with the features and weights' places of a CRF."""
    began = time.perf_counter()
    course: list[Point] = []
    problem = problem_of(like, data.part if held_out else data.train, PHRASE)
    objective = LocalLikelihood(problem, like.space, l2=L2)

    def model(theta: Floats) -> CRF:
        return replace(like, theta=theta, record=None)

    def score(theta: Floats) -> float:
        return f_of(data.dev, _locally_tagged(model(theta), data.dev)) / 100.0

    outcome = fit(
        LBFGSOptimiser(objective, np.zeros(like.space.size)),
        max_iterations=limit,
        evaluate=score if held_out else None,
        patience=limit,
        report=lambda progress: course.append(_point(progress, time.perf_counter() - began, L2)),
    )
    seconds = time.perf_counter() - began
    found, scored = model(outcome.theta), data.dev if held_out else data.test
    return _run("MEMM", found, scored, _locally_tagged(found, scored), seconds, course)


def _locally_tagged(model: CRF, data: Corpus) -> list[list[str]]:
    node = model._weights.node(problem_of(model, data, PHRASE).node)
    graph, node = normalised(model._weights.static_graph, data.offsets, node)
    states, _ = kernel.viterbi(graph, data.offsets, node)
    return _labelled(model, states, data)


def _labelled(model: CRF, states: Ints, data: Corpus) -> list[list[str]]:
    names = np.asarray(model.labels)[model.topology.state_label[states]].tolist()
    bounds = data.offsets.tolist()
    return [names[a:b] for a, b in itertools.pairwise(bounds)]
