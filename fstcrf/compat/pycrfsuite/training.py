"""A training run: from the data set of a trainer to a model of CRFsuite.

======  ============================================
train   data, algorithm, values → model
======  ============================================

It is put together from the same parts as `fstcrf.CRF.train`, which it cannot call: labels and
attributes keep the order in which they came, labels that only held-out sequences have are labels of
the model, and each iteration is evaluated on the held-out sequences without a say in what is kept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.compat.pycrfsuite.data import Data, Part
from fstcrf.compat.pycrfsuite.errors import OVERFLOW, CRFSuiteError
from fstcrf.compat.pycrfsuite.evaluation import Evaluation
from fstcrf.compat.pycrfsuite.messages import Log
from fstcrf.compat.pycrfsuite.parameters import Algorithm, Value, options
from fstcrf.errors import NumericError, OptionError
from fstcrf.interop.crfsuite import FEATURE, STATE, TRANSITION, CRFsuiteModel
from fstcrf.model.optimisers import chosen_optimiser
from fstcrf.model.options import Options, checked_options
from fstcrf.model.weights import Weights
from fstcrf.topology import chain_topology
from fstcrf.train import ParameterSpace, Problem, Progress, fit, frequent, parameter_space

__all__ = ["train"]

Floats = NDArray[np.float64]


def train(
    data: Data,
    chosen: Algorithm,
    values: Mapping[str, Value],
    log: Log,
    *,
    holdout: int = -1,
    threads: int = 1,
) -> tuple[CRFsuiteModel, int]:
    """Train a model.

    Parameters
    ----------
    data : Data
    chosen : Algorithm
    values : mapping of str to value
        One for each of its parameters.
    log : Log
    holdout : int
        Group of sequences that are not trained on; none when negative.
    threads : int
        The result does not depend on it.

    Returns
    -------
    model : CRFsuiteModel
        Without labels where there are none in the data.
    n_features : int
        Features that could have a weight.

    Raises
    ------
    OptionError
        A value outside what it may be, or a group that no sequence has.
    CRFSuiteError
        Training diverged at once.
    """
    settings = _settings(chosen, values)
    held_out = data.part(lambda group: group == holdout) if holdout >= 0 else None
    if holdout >= 0:
        if held_out is None:
            raise OptionError(f"holdout is {holdout}, but no sequence has this group")
        log.holdout(holdout)
    began = time.perf_counter()
    log.generation()
    part = data.part(lambda group: group != holdout or holdout < 0)
    problem = None if part is None else _problem(part, data.labels)
    space = None if problem is None else _space(problem, settings)
    size = 0 if space is None else space.size
    log.generated(size, time.perf_counter() - began)
    if problem is None or space is None or not size:
        log.no_features()
        log.total(0.0)
        labels = data.labels
        empty = np.empty(0, dtype=FEATURE)
        return CRFsuiteModel.of(labels, [], empty), 0
    theta = _fitted(problem, space, settings, log, held_out, threads)
    return _model(data, space, theta), size


def _settings(chosen: Algorithm, values: Mapping[str, Value]) -> Options:
    try:
        return checked_options(options(chosen, values))
    except OptionError as error:
        # The message has the names of our options: its readers know CRFsuite's.
        text = str(error)
        for name, parameter in chosen.parameters.items():
            text = re.sub(rf"\b{parameter.option}\b", name, text)
        raise OptionError(text) from None


def _problem(part: Part, labels: list[str]) -> Problem:
    allowed = np.zeros((len(part.labels), len(labels)), dtype=bool)
    allowed[np.arange(len(part.labels)), part.labels] = True
    ones = np.ones(len(part.offsets) - 1)
    return Problem(chain_topology(labels, 1), part.offsets, part.node, None, allowed, ones)


def _space(problem: Problem, settings: Options) -> ParameterSpace:
    space = parameter_space(problem, features=settings.features, transitions=settings.transitions)
    value = problem.node.value
    if settings.min_frequency or (value is not None and (value < 0).any()):
        return frequent(problem, space, settings.min_frequency or 0.0)
    return space


def _fitted(
    problem: Problem,
    space: ParameterSpace,
    settings: Options,
    log: Log,
    held_out: Part | None,
    threads: int,
) -> Floats:
    """Return the weights, float64 [space.size]."""
    labels = list(problem.topology.labels)
    last: list[Evaluation] = []

    def evaluate(theta: Floats) -> float:
        if held_out is not None:
            last[:] = [_evaluation(space, theta, held_out)]
        evaluate.calls += 1  # type: ignore[attr-defined]
        return float(evaluate.calls)  # type: ignore[attr-defined]

    def report(progress: Progress) -> None:
        log.iteration(progress, last[0] if last else None, labels)

    evaluate.calls = 0  # type: ignore[attr-defined]
    began = time.perf_counter()
    try:
        optimiser = chosen_optimiser(
            settings, problem, space, np.zeros(space.size), threads=threads
        )
        outcome = fit(
            optimiser,
            max_iterations=settings.iteration_limit,
            evaluate=evaluate,
            report=report,
        )
    except NumericError as error:
        raise CRFSuiteError(OVERFLOW) from error
    log.finished(outcome.reason, outcome.value, time.perf_counter() - began)
    return outcome.theta


def _evaluation(space: ParameterSpace, theta: Floats, part: Part) -> Evaluation:
    weights = Weights(space.topology, space, theta)
    node = weights.node(part.node)
    best, _ = kernel.viterbi(weights.still_graph, part.offsets, node)
    return Evaluation.of(part.labels, best, part.offsets, space.topology.n_labels)


def _model(data: Data, space: ParameterSpace, theta: Floats) -> CRFsuiteModel:
    """Return the weights that are not zero, and the attributes that have some."""
    node, arc = space.parts(theta)[:2]
    attribute, label = np.divmod(space.node_cells[node != 0], space.width)
    used, attribute = np.unique(attribute, return_inverse=True)
    slot = space.transitions[arc != 0]
    first = np.argsort(space.topology.arc_slot)[slot]
    features = np.zeros(len(attribute) + len(slot), dtype=FEATURE)
    state, transition = features[: len(attribute)], features[len(attribute) :]
    state["type"], transition["type"] = STATE, TRANSITION
    state["src"], state["dst"], state["weight"] = attribute, label, node[node != 0]
    transition["src"], transition["dst"] = (
        space.topology.source[first],
        space.topology.target[first],
    )
    transition["weight"] = arc[arc != 0]
    names = data.attributes
    return CRFsuiteModel.of(data.labels, [names[i] for i in used.tolist()], features)
