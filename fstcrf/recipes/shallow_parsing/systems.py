"""What is trained: the optimisers of table 3, the systems of table 2.

==========  =======================================================
OPTIMISERS  the likelihood, by each optimiser
Optimiser   one of them, and what the paper reports for it
Point       what is known after an iteration
Run         a training run: its course, its labels for the test part
optimised   train by an optimiser
perceptron  train the averaged perceptron
voted       train the voted perceptron
local       train a locally normalised model (MEMM)
==========  =======================================================
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.corpus import Corpus
from fstcrf.evaluate import evaluate_spans
from fstcrf.features import FeatureIndex
from fstcrf.model import CRF
from fstcrf.recipes.shallow_parsing.data import TARGET, TEMPLATE, Data
from fstcrf.train import (
    LBFGS,
    LocalLikelihood,
    Problem,
    Progress,
    fit,
    normalised,
    voted_paths,
)

__all__ = [
    "L2",
    "OPTIMISERS",
    "Optimiser",
    "Point",
    "Run",
    "local",
    "optimised",
    "perceptron",
    "voted",
]

L2 = 0.5  # sigma = 1, as in table 3


@dataclass(frozen=True, slots=True)
class Optimiser:
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
    Optimiser("preconditioned CG", {"method": "preconditioned-cg"}, 94.19, 130, -2968),
    Optimiser("mixed CG", {"method": "mixed-cg"}, 94.20, 540, -2990),
    Optimiser("plain CG", {"method": "cg"}, 94.04, 648, -2967),
    Optimiser("L-BFGS", {"method": "lbfgs", "stochastic_epochs": 0}, 94.19, 84, -2948),
    Optimiser("GIS", {"method": "gis", "delta": 0.0}, 93.55, 3700, -5668),
    Optimiser("L-BFGS, stochastic start, curvature units", {"method": "lbfgs"}),
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
        Penalised and plain log-likelihood.
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
    model : CRF
    f : float
        On the test part, in percent.
    labels : list of list of str
        Its labels for the test part.
    seconds : float
        Of everything from corpus to model.
    course : list of Point
    """

    name: str
    model: CRF
    f: float
    labels: list[list[str]]
    seconds: float
    course: list[Point] = field(default_factory=list)


def trained(data: Corpus, *, report: Callable[[Progress], None] | None = None, **given: Any) -> CRF:
    """Train an order-2 chunker with the paper's features; `given` are options of `CRF.train`."""
    options = {"order": 2, "scheme": "iob2", "l2": L2, **given}
    return CRF.train(data, TARGET, TEMPLATE, report=report, **options)


def f_of(gold: Corpus, labels: list[list[str]]) -> float:
    """Return F of the noun phrases, in percent."""
    return 100.0 * evaluate_spans(gold.column_lists(TARGET), labels).f


def optimised(
    optimiser: Optimiser,
    data: Data,
    *,
    features: str = "supported",
    held_out: bool = False,
    limit: int | None = None,
    threads: int = 1,
) -> Run:
    """Train by an optimiser.

    Parameters
    ----------
    optimiser : Optimiser
    data : Data
    features : {"supported", "complete"}
    held_out : bool
        Leave out the dev part and score on it after every iteration.
    limit : int, optional
        Most iterations.
    threads : int
    """
    course: list[Point] = []
    clock = _Clock()

    def note(progress: Progress) -> None:
        course.append(_point(progress, clock.seconds()))

    began = time.perf_counter()
    model = trained(
        data.part if held_out else data.whole,
        report=note,
        features=features,
        threads=threads,
        **({"dev": data.dev, "patience": 10**6} if held_out else {}),
        **({} if limit is None else {"max_iterations": limit}),
        **optimiser.options,
    )
    seconds = time.perf_counter() - began
    labels = model.tag_all(data.test, threads=threads)
    return Run(optimiser.name, model, f_of(data.test, labels), labels, seconds, course)


class _Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self._began


def _point(progress: Progress, seconds: float) -> Point:
    penalty = L2 * progress.measures.get("norm", 0.0) ** 2
    return Point(
        progress.evaluations,
        seconds,
        -progress.value,
        -progress.value + penalty,
        progress.gradient_norm,
        None if progress.dev is None else 100.0 * progress.dev,
    )


def perceptron(
    data: Data, *, features: str = "supported", epochs: int | None = None, seed: int = 0
) -> Run:
    """Train the averaged perceptron; without `epochs`, as many as are best on the dev part."""
    began = time.perf_counter()
    options: dict[str, Any] = {"method": "perceptron", "features": features, "seed": seed}
    if epochs is None:
        chosen = trained(data.part, dev=data.dev, patience=5, max_iterations=30, **options)
        epochs = 1 if chosen.record is None else chosen.record.best_iteration
    model = trained(data.whole, max_iterations=epochs, **options)
    seconds = time.perf_counter() - began
    labels = model.tag_all(data.test)
    name = f"averaged perceptron, {features}"
    return Run(name, model, f_of(data.test, labels), labels, seconds)


def voted(data: Data, like: CRF, *, epochs: int = 2, seed: int = 0) -> Run:
    """Train the voted perceptron, with the features and structure of a CRF."""
    began = time.perf_counter()
    states = voted_paths(
        _problem(data.whole, like),
        like.space,
        _rows(data.test, like),
        data.test.offsets,
        epochs=epochs,
        seed=seed,
    )
    seconds = time.perf_counter() - began
    labels = _labelled(like, states, data.test)
    return Run(f"voted perceptron, {epochs} epochs", like, f_of(data.test, labels), labels, seconds)


def local(data: Data, like: CRF, *, limit: int = 300) -> Run:
    """Train a locally normalised model with the features, structure and weights' places of a CRF.

    Parameters
    ----------
    data : Data
    like : CRF
    limit : int
        Most iterations.
    """
    began = time.perf_counter()
    objective = LocalLikelihood(_problem(data.whole, like), like.space, l2=L2)
    outcome = fit(LBFGS(objective, np.zeros(like.space.size)), max_iterations=limit)
    seconds = time.perf_counter() - began
    model = CRF(
        like.topology, like.index, like.space, outcome.theta, like.tape, like.columns, like.reads
    )
    labels = _locally_tagged(model, data.test)
    return Run("MEMM", model, f_of(data.test, labels), labels, seconds)


def _problem(data: Corpus, like: CRF) -> Problem:
    number = {label: i for i, label in enumerate(like.labels)}
    labels = [number[label] for sentence in data.column_lists(TARGET) for label in sentence]
    allowed = np.zeros((data.n_tokens, len(number)), dtype=bool)
    allowed[np.arange(data.n_tokens), labels] = True
    weight = np.ones(len(data))
    return Problem(like.topology, data.offsets, _rows(data, like), None, allowed, weight)


def _index(model: CRF) -> FeatureIndex:
    if not isinstance(model.index, FeatureIndex):
        raise TypeError("a tagger with templates is expected")
    return model.index


def _rows(data: Corpus, like: CRF) -> kernel.SparseRows:
    rows = _index(like).design(data).node
    return kernel.SparseRows(rows.indptr, rows.rows, rows.values, like.space.n_node_rows)


def _locally_tagged(model: CRF, data: Corpus) -> list[list[str]]:
    node = model.weights.node(_index(model).design(data).node)
    graph, node = normalised(model.weights.still_graph, data.offsets, node)
    states, _ = kernel.viterbi(graph, data.offsets, node)
    return _labelled(model, states, data)


def _labelled(model: CRF, states: NDArray[np.int32], data: Corpus) -> list[list[str]]:
    names = np.asarray(model.labels)[model.topology.state_label[states]].tolist()
    bounds = data.offsets.tolist()
    return [names[a:b] for a, b in itertools.pairwise(bounds)]
