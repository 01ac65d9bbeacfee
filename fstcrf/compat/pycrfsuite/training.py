"""A training run: from the data of a trainer to a model of CRFsuite, and the log in its words.

It is put together from the same parts as `fstcrf.CRF.train`, which it cannot call: labels and
attributes keep the order in which they came, labels that only held-out sequences have are labels of
the model, and each iteration is evaluated on the held-out sequences without a say in what is kept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.compat.pycrfsuite.errors import OVERFLOW, CRFSuiteError
from fstcrf.compat.pycrfsuite.items import Attributes, Growing, ItemSequence, joined, labels_of
from fstcrf.compat.pycrfsuite.parameters import Algorithm, Value, options
from fstcrf.errors import DataError, NumericError, OptionError
from fstcrf.interop.crfsuite import FEATURE, STATE, TRANSITION, CRFsuiteModel
from fstcrf.kernel import SparseRows
from fstcrf.model.options import Options, checked_options, optimiser_of
from fstcrf.model.weights import Weights
from fstcrf.topology import chain_topology
from fstcrf.train import ParameterSpace, Problem, Progress, fit, frequent, parameter_space

__all__ = ["Evaluation", "Log", "TrainingData", "train"]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some sequences that are not empty.

    Parameters
    ----------
    node : SparseRows [N, A]
        Attributes of tokens.
    labels : int32 [N]
    offsets : int64 [B + 1]
    """

    node: SparseRows
    labels: Ints
    offsets: Longs


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    rows: Attributes
    labels: Ints
    group: int


class TrainingData:
    """Sequences with labels, in groups; attributes and labels are numbered as they come."""

    def __init__(self) -> None:
        self._lookup = Growing()
        self._labels: dict[str, int] = {}
        self._instances: list[_Instance] = []

    @property
    def attributes(self) -> list[str]:
        """All attributes."""
        return self._lookup.attributes

    @property
    def labels(self) -> list[str]:
        """All labels."""
        return list(self._labels)

    def append(
        self, items: Iterable[Any] | ItemSequence, labels: Iterable[Any], group: int
    ) -> None:
        """Append a sequence.

        Raises
        ------
        ItemError
            An item or a label that is not what it must be.
        DataError
            Another number of labels than of items.
        """
        names = labels_of(labels)
        rows = self._lookup.rows(items)
        if rows.n_tokens != len(names):
            raise DataError(
                f"{rows.n_tokens} items and {len(names)} labels: a label for each item is expected"
            )
        known = self._labels
        numbers = [known.setdefault(name, len(known)) for name in names]
        self._instances.append(_Instance(rows, np.array(numbers, dtype=np.int32), group))

    def part(self, wanted: Callable[[int], bool]) -> _Part | None:
        """Return the sequences of some groups; None where there is no token."""
        chosen = [i for i in self._instances if wanted(i.group) and len(i.labels)]
        if not chosen:
            return None
        rows = joined([instance.rows for instance in chosen])
        offsets = np.cumsum([0, *(len(instance.labels) for instance in chosen)])
        return _Part(
            _counting(rows, len(self._lookup.attributes)),
            np.concatenate([instance.labels for instance in chosen]),
            offsets.astype(np.int64),
        )


def _counting(rows: Attributes, n_attributes: int) -> SparseRows:
    """Return rows from 0 on, without those that count for nothing."""
    kept = rows.rows > 0
    bounds = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[rows.indptr]
    values = None if rows.values is None else rows.values[kept]
    return SparseRows(bounds, rows.rows[kept] - np.int32(1), values, n_attributes)


# --- Evaluation -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """How a model does.

    Parameters
    ----------
    match, model, ref : int64 [L]
        Tokens of each label: right, predicted, in the data.
    sequences, right : int
        Sequences, and how many of them are right in all tokens.
    """

    match: Longs
    model: Longs
    ref: Longs
    sequences: int
    right: int

    @classmethod
    def of(
        cls,
        gold: Ints,
        predicted: Ints,
        offsets: Longs,
        n_labels: int,
    ) -> Self:
        """Compare labels.

        Parameters
        ----------
        gold, predicted : int32 [N]
        offsets : int64 [B + 1]
            Of sequences that are not empty.
        n_labels : int
        """
        correct = gold == predicted

        def count(labels: Ints) -> Longs:
            return np.bincount(labels, minlength=n_labels)

        whole = np.logical_and.reduceat(correct, offsets[:-1])
        return cls(
            count(gold[correct]), count(predicted), count(gold), len(whole), int(whole.sum())
        )

    @property
    def rates(self) -> Floats:
        """Precision, recall and F of each label, 0 to 1, float64 [L, 3]."""
        seen = self.ref > 0
        precision = np.where(seen, self.match / np.maximum(self.model, 1), 0.0)
        recall = self.match / np.maximum(self.ref, 1)
        total = precision + recall
        f = 2 * precision * recall / np.where(total > 0, total, 1.0)
        return np.stack([precision, recall, f], axis=1)


# --- The log --------------------------------------------------------------------------------------

_STAGES = 50
_NAMES = {
    ("lbfgs", "period"): "stop",
    ("lbfgs", "max_linesearch"): "linesearch.max_iterations",
}
# Of an iteration: the words before a measure, and its format.
_MEASURES = {
    "lbfgs": (
        ("Feature norm", "norm", "%f"),
        ("Error norm", "gradient", "%f"),
        ("Active features", "active", "%d"),
        ("Line search trials", "trials", "%d"),
        ("Line search step", "length", "%f"),
    ),
    "l2sgd": (
        ("Improvement ratio", "improvement", "%f"),
        ("Feature L2-norm", "norm", "%f"),
        ("Learning rate (eta)", "rate", "%f"),
        ("Total number of feature updates", "updates", "%.0f"),
    ),
}
_ONLINE_MEASURES = (("Feature norm", "norm", "%f"),)
_NO_FEATURES = -1020


class Log:
    """Tells of each stage of a training run.

    Parameters
    ----------
    algorithm : Algorithm
    values : mapping of str to value
        Of its parameters.
    tell : callable
        Receives each message.
    """

    def __init__(
        self, algorithm: Algorithm, values: Mapping[str, Value], tell: Callable[[str], object]
    ) -> None:
        self._algorithm, self._values, self._tell = algorithm, values, tell
        self._seconds = 0.0

    def holdout(self, group: int) -> None:
        """Tell which group is held out."""
        self._lines(f"Holdout group: {group + 1}", "")

    def generation(self) -> None:
        """Tell that features are being generated."""
        self._lines("Feature generation", "type: CRF1d")
        self._parameters("feature.")
        for stage in range(_STAGES + 1):
            self._tell("." if stage % 5 else str(stage // 5))
        self._lines("")

    def generated(self, features: int, seconds: float) -> None:
        """Tell of the features, and what is going to be done with them."""
        self._lines(f"Number of features: {features}", f"Seconds required: {seconds:.3f}", "")
        self._lines(self._algorithm.title)
        self._parameters("")
        self._lines("")
        if any(name.startswith("calibration.") for name in self._values):
            self._lines("Calibrating the learning rate (eta)")
            self._parameters("calibration.")
            self._lines("")

    def no_features(self) -> None:
        """Tell that there is nothing to train."""
        self._lines(f"L-BFGS terminated with error code ({_NO_FEATURES})")

    def iteration(
        self, progress: Progress, evaluation: Evaluation | None, labels: list[str]
    ) -> None:
        """Tell of an iteration."""
        method = self._algorithm.method
        measures = dict(progress.measures)
        if progress.gradient_norm is not None:
            measures["gradient"] = progress.gradient_norm
        word = "Epoch" if method == "l2sgd" else "Iteration"
        self._lines(f"***** {word} #{progress.iteration} *****", f"Loss: {progress.value:f}")
        for words, name, form in _MEASURES.get(method, _ONLINE_MEASURES):
            if name in measures:
                self._lines(f"{words}: {form % measures[name]}")
        spent, self._seconds = progress.seconds - self._seconds, progress.seconds
        self._lines(f"Seconds required for this iteration: {spent:.3f}")
        if evaluation is not None:
            self._evaluation(evaluation, labels)
        self._lines("")

    def _evaluation(self, found: Evaluation, labels: list[str]) -> None:
        self._lines("Performance by label (#match, #model, #ref) (precision, recall, F1):")
        rates = found.rates
        for i, label in enumerate(labels):
            counts = f"    {label}: ({found.match[i]}, {found.model[i]}, {found.ref[i]})"
            shown = [f"{rate:.4f}" if found.ref[i] else "******" for rate in rates[i].tolist()]
            self._lines(f"{counts} ({', '.join(shown)})")
        averages = ", ".join(f"{rate:f}" for rate in rates.mean(axis=0).tolist())
        self._lines(
            f"Macro-average precision, recall, F1: ({averages})",
            _share("Item accuracy", int(found.match.sum()), int(found.ref.sum())),
            _share("Instance accuracy", found.right, found.sequences),
        )

    def finished(self, reason: str, value: float, seconds: float) -> None:
        """Tell why training ended."""
        limited = reason.startswith("the limit")
        match self._algorithm.method:
            case "lbfgs":
                if limited:
                    why = "terminated with the maximum number of iterations"
                elif reason.startswith("gradient"):
                    why = "resulted in convergence"
                else:
                    why = "terminated with the stopping criteria"
                self._lines(f"L-BFGS {why}")
            case "l2sgd":
                why = "maximum number of iterations" if limited else "stopping criteria"
                self._lines(f"SGD terminated with the {why}", f"Loss: {value:f}")
            case _ if not limited:
                self._lines("Terminated with the stopping criterion", "")
        self.total(seconds)

    def total(self, seconds: float) -> None:
        """Tell how long it took."""
        self._lines(f"Total seconds required for training: {seconds:.3f}", "")

    def storing(self, model: CRFsuiteModel | None, features: int, attributes: int) -> None:
        """Tell what is stored: the weights that are not zero, of so many features."""
        kept = (0, 0, 0)
        if model is not None:
            kept = (len(model.features), model.n_attributes, len(model.labels))
        self._lines(
            "Storing the model",
            f"Number of active features: {kept[0]} ({features})",
            f"Number of active attributes: {kept[1]} ({attributes})",
            f"Number of active labels: {kept[2]} ({kept[2]})",
            "Writing labels",
            "Writing attributes",
            "Writing feature references for transitions",
            "Writing feature references for attributes",
        )

    def stored(self, seconds: float) -> None:
        """Tell that it is stored."""
        self._lines(f"Seconds required: {seconds:.3f}", "")

    def _parameters(self, prefix: str) -> None:
        """Tell the values of the parameters with a prefix, or of those without any."""
        for name, value in self._values.items():
            if name.startswith(prefix) if prefix else "." not in name:
                shown = f"{value:f}" if isinstance(value, float) else str(value)
                if isinstance(value, bool):
                    shown = str(int(value))
                if name == "calibration.samples":
                    shown = f"{value:.0f}"
                words = _NAMES.get((self._algorithm.method, name), name)
                self._lines(f"{words}: {shown}")

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self._tell(f"{line}\n")


def _share(words: str, part: int, whole: int) -> str:
    return f"{words}: {part} / {whole} ({part / max(whole, 1):.4f})"


# --- The run --------------------------------------------------------------------------------------


def train(
    data: TrainingData,
    chosen: Algorithm,
    values: Mapping[str, Value],
    log: Log,
    *,
    holdout: int = -1,
    threads: int = 1,
) -> tuple[CRFsuiteModel, int]:
    """Train a model on all groups but `holdout`, which is none when negative.

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


def _problem(part: _Part, labels: list[str]) -> Problem:
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
    held_out: _Part | None,
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
        start = np.zeros(space.size)
        outcome = fit(
            optimiser_of(settings, problem, space, start, threads=threads),
            max_iterations=settings.method.max_iterations,
            evaluate=evaluate,
            report=report,
        )
    except NumericError as error:
        raise CRFSuiteError(OVERFLOW) from error
    log.finished(outcome.reason, outcome.value, time.perf_counter() - began)
    return outcome.theta


def _evaluation(space: ParameterSpace, theta: Floats, part: _Part) -> Evaluation:
    weights = Weights(space.topology, space, theta)
    node = weights.node(part.node)
    best, _ = kernel.viterbi(weights.still_graph, part.offsets, node)
    return Evaluation.of(part.labels, best, part.offsets, space.topology.n_labels)


def _model(data: TrainingData, space: ParameterSpace, theta: Floats) -> CRFsuiteModel:
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
