"""Systems of the recipe ``shallow-parsing``: optimisers of a CRF, perceptrons, an MEMM."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints
from fstcrf.corpus import Corpus
from fstcrf.features import FeatureIndex
from fstcrf.joint import CRF
from fstcrf.recipes.corpora import PHRASE, DataSplit, noun_phrases, span_f
from fstcrf.recipes.experiment import Setting
from fstcrf.train import LBFGS, LocalLikelihood, Problem, Progress, fit, normalised, voted_paths

__all__ = [
    "EPOCHS",
    "L2",
    "OPTIMISERS",
    "Point",
    "PublishedOptimiser",
    "Run",
    "best_iteration",
    "f_of",
    "local",
    "optimised",
    "perceptron",
    "read",
    "trained",
    "voted",
]


# --- Data and features ----------------------------------------------------------------------------

DEV_SENTENCES = 1000

TEMPLATE = """\
BOS
EOS
U0:%x[-2..2,word]
U1:%x[-1..0,word]/%x[0..1,word]
U2:%x[-2..2,pos]
U3:%x[-2..1,pos]/%x[-1..2,pos]
U4:%x[-2..0,pos]/%x[-1..1,pos]/%x[0..2,pos]
U5
B
"""


def read(setting: Setting) -> DataSplit:
    """Read both files; `dev` is the last 1,000 sentences of `train`.

    The paper's held-out text, section 21 with another tagger's POS tags, is not part of CoNLL-2000.

    Raises
    ------
    DataError
        A file is missing or is not what it should be.
    """
    train, test = noun_phrases(setting)
    return DataSplit(train, train[:-DEV_SENTENCES], train[-DEV_SENTENCES:], test)


# --- Training runs --------------------------------------------------------------------------------

L2 = 0.5  # sigma = 1, as in table 3
EPOCHS = 12  # of the stochastic start: at order 2, twice the usual number saves passes


@dataclass(frozen=True, slots=True)
class PublishedOptimiser:
    """An optimiser of table 3.

    Parameters
    ----------
    name : str
    options : mapping
        Of `CRF.train`.
    f, minutes, objective : float, optional
        What the paper reports: F, minutes, penalised log-likelihood.
    """

    name: str
    options: Mapping[str, Any]
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
    """What is known after an iteration.

    Parameters
    ----------
    passes : int
        Over the data so far.
    seconds : float
        Of training so far, without the time for held-out scores.
    objective, likelihood : float
        Penalised and plain log-likelihood; of a perceptron NaN.
    gradient_norm : float or None
    dev : float or None
        F on held-out text, in percent.
    """

    passes: int
    seconds: float
    objective: float
    likelihood: float
    gradient_norm: float | None
    dev: float | None


@dataclass(frozen=True, slots=True)
class Run:
    """A training run.

    Parameters
    ----------
    name : str
    weights : int
        How many there are.
    f : float
        On the test part, in percent.
    labels : list of list of str
        Its labels for the test part.
    seconds : float
        Of everything from corpus to model.
    course : list of Point
    """

    name: str
    weights: int
    f: float
    labels: list[list[str]]
    seconds: float
    course: list[Point] = field(default_factory=list)


def _run(
    name: str,
    model: CRF,
    data: DataSplit,
    labels: list[list[str]],
    seconds: float,
    course: list[Point] | None = None,
) -> Run:
    f = f_of(data.test, labels)
    return Run(name, model.space.size, f, labels, seconds, [] if course is None else course)


def f_of(corpus: Corpus, labels: list[list[str]]) -> float:
    """Return F of the noun phrases, in percent."""
    return span_f(corpus, PHRASE, labels)


def best_iteration(course: Sequence[Point]) -> int:
    """Return the iteration, from 1, with the highest F on the dev part."""
    scores = [point.dev or 0.0 for point in course]
    return 1 + scores.index(max(scores))


# --- The likelihood, by any optimiser -------------------------------------------------------------


def trained(
    data: Corpus,
    *,
    report: Callable[[Progress], None] | None = None,
    template: str = TEMPLATE,
    **given: Any,
) -> CRF:
    """Train an order-2 chunker with the paper's features; `given` are options of `CRF.train`."""
    options = {"order": 2, "scheme": "iob2", "boundary": "skip", **given}
    if options.get("method") != "perceptron":  # which has no penalty
        options.setdefault("l2", L2)
    return CRF.train(data, PHRASE, template, report=report, **options)


def optimised(
    optimiser: PublishedOptimiser,
    data: DataSplit,
    *,
    features: str = "supported",
    held_out: bool = False,
    limit: int | None = None,
    l2: float = L2,
    threads: int = 1,
) -> tuple[CRF, Run]:
    """Train by an optimiser; return the tagger and what is known of it.

    Parameters
    ----------
    optimiser : PublishedOptimiser
    data : DataSplit
    features : {"supported", "complete"}
    held_out : bool
        Leave out the dev part and score on it after every iteration.
    limit : int, optional
        Most iterations.
    l2 : float
    threads : int
    """
    course: list[Point] = []
    began = time.perf_counter()

    def note(progress: Progress) -> None:
        course.append(_point(progress, time.perf_counter() - began, l2))

    given: dict[str, Any] = dict(optimiser.options)
    if held_out:
        given |= {"dev": data.dev, "patience": 10**6}
    if limit is not None:
        given["max_iterations"] = limit
    model = trained(
        data.part if held_out else data.train,
        report=note,
        features=features,
        l2=l2,
        threads=threads,
        **given,
    )
    seconds = time.perf_counter() - began
    labels = model.tag_all(data.test, threads=threads)
    return model, _run(optimiser.name, model, data, labels, seconds, course)


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


# --- Perceptrons and locally normalised models ----------------------------------------------------


def perceptron(
    data: DataSplit, *, features: str = "supported", epochs: int | None = None, seed: int = 0
) -> Run:
    """Train the averaged perceptron; without `epochs`, as many as are best on the dev part."""
    began = time.perf_counter()
    options: dict[str, Any] = {"method": "perceptron", "features": features, "seed": seed}
    course: list[Point] = []

    def note(progress: Progress) -> None:
        dev = None if progress.dev is None else 100.0 * progress.dev
        seconds = time.perf_counter() - began
        course.append(Point(progress.iteration, seconds, np.nan, np.nan, None, dev))

    if epochs is None:
        trained(data.part, report=note, dev=data.dev, patience=5, max_iterations=30, **options)
        epochs = best_iteration(course)
    model = trained(data.train, max_iterations=epochs, **options)
    seconds = time.perf_counter() - began
    name = f"averaged perceptron, {features}"
    return _run(name, model, data, model.tag_all(data.test), seconds, course)


def voted(data: DataSplit, like: CRF, *, epochs: int = 2, seed: int = 0) -> Run:
    """Train the voted perceptron, with the features and structure of a CRF."""
    began = time.perf_counter()
    states = voted_paths(
        _problem(data.train, like),
        like.space,
        _rows(data.test, like),
        data.test.offsets,
        epochs=epochs,
        seed=seed,
    )
    seconds = time.perf_counter() - began
    labels = _labelled(like, states, data.test)
    return _run(f"voted perceptron, {epochs} epochs", like, data, labels, seconds)


def local(data: DataSplit, like: CRF, *, held_out: bool = False, limit: int = 300) -> Run:
    """Train a locally normalised model with the features, structure and weights' places of a CRF.

    Parameters
    ----------
    data : DataSplit
    like : CRF
    held_out : bool
        Leave out the dev part and score on it after every iteration.
    limit : int
        Most iterations.
    """
    began = time.perf_counter()
    course: list[Point] = []
    objective = LocalLikelihood(
        _problem(data.part if held_out else data.train, like), like.space, l2=L2
    )

    def model(theta: Floats) -> CRF:
        places = like.tape, like.columns, like.reads
        return CRF(like.topology, like.index, like.space, theta, *places)

    def score(theta: Floats) -> float:
        return f_of(data.dev, _locally_tagged(model(theta), data.dev)) / 100.0

    outcome = fit(
        LBFGS(objective, np.zeros(like.space.size)),
        max_iterations=limit,
        evaluate=score if held_out else None,
        patience=limit,
        report=lambda progress: course.append(_point(progress, time.perf_counter() - began, L2)),
    )
    seconds = time.perf_counter() - began
    found = model(outcome.theta)
    return _run("MEMM", found, data, _locally_tagged(found, data.test), seconds, course)


def _problem(data: Corpus, like: CRF) -> Problem:
    number = {label: i for i, label in enumerate(like.labels)}
    labels = [number[label] for sentence in data.column_lists(PHRASE) for label in sentence]
    allowed = np.zeros((data.n_tokens, len(number)), dtype=bool)
    allowed[np.arange(data.n_tokens), labels] = True
    weight = np.ones(len(data))
    return Problem(like.topology, data.offsets, _rows(data, like), None, allowed, weight)


def _index(model: CRF) -> FeatureIndex:
    if not isinstance(model.index, FeatureIndex):
        raise TypeError("a tagger with templates is expected")
    return model.index


def _rows(data: Corpus, like: CRF) -> kernel.SparseRows:
    return _index(like).design(data).node


def _locally_tagged(model: CRF, data: Corpus) -> list[list[str]]:
    node = model.weights.node(_index(model).design(data).node)
    graph, node = normalised(model.weights.still_graph, data.offsets, node)
    states, _ = kernel.viterbi(graph, data.offsets, node)
    return _labelled(model, states, data)


def _labelled(model: CRF, states: Ints, data: Corpus) -> list[list[str]]:
    names = np.asarray(model.labels)[model.topology.state_label[states]].tolist()
    bounds = data.offsets.tolist()
    return [names[a:b] for a, b in itertools.pairwise(bounds)]
