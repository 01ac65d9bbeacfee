"""The training log of CRFsuite: written during training, read message by message.

The events that `TrainLogParser` finds, in their order::

    start
    featgen_progress    51 times: 0, 2, ... 100 per cent
    featgen_end
    prepared            the options of the algorithm, calibration  (or prepare_error)
    iteration           each
    optimization_end
    end                 the model is stored
"""

from __future__ import annotations

import fractions
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.ext.compat.pycrfsuite.parameters import Algorithm, Value
from fstcrf.ext.foreign.crfsuite import CRFsuiteModel
from fstcrf.training import Progress

# --- Evaluation -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The evaluation of a model."""

    # match, model, ref: int64 [L], tokens of each label: right, predicted, in the data
    match: Longs
    model: Longs
    ref: Longs
    # sequences, right: sequences, and how many of them are right in all tokens
    sequences: int
    right: int

    @classmethod
    def of(cls, gold: Ints, predicted: Ints, offsets: Longs, n_labels: int) -> Self:
        """Compare the labels of nonempty sequences."""
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


# --- Writing --------------------------------------------------------------------------------------

_STAGES = 50
_NAMES = {("lbfgs", "period"): "stop", ("lbfgs", "max_linesearch"): "linesearch.max_iterations"}
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
    """Reports each stage of a training run; `tell` receives each message."""

    def __init__(
        self, algorithm: Algorithm, values: Mapping[str, Value], tell: Callable[[str], object]
    ) -> None:
        self._algorithm, self._values, self._tell = algorithm, values, tell
        self._seconds = 0.0

    def holdout(self, group: int) -> None:
        """Report the held-out group."""
        self._lines(f"Holdout group: {group + 1}", "")

    def generation(self) -> None:
        """Report the generation of features."""
        self._lines("Feature generation", "type: CRF1d")
        self._parameters("feature.")
        for stage in range(_STAGES + 1):
            self._tell("." if stage % 5 else str(stage // 5))
        self._lines("")

    def generated(self, features: int, seconds: float) -> None:
        """Report the features, and the parameters of training."""
        self._lines(f"Number of features: {features}", f"Seconds required: {seconds:.3f}", "")
        self._lines(self._algorithm.title)
        self._parameters("")
        self._lines("")
        if any(name.startswith("calibration.") for name in self._values):
            self._lines("Calibrating the learning rate (eta)")
            self._parameters("calibration.")
            self._lines("")

    def no_features(self) -> None:
        """Report that there is nothing to train."""
        self._lines(f"L-BFGS terminated with error code ({_NO_FEATURES})")

    def iteration(
        self, progress: Progress, evaluation: Evaluation | None, labels: list[str]
    ) -> None:
        """Report an iteration."""
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
        """Report the reason for the end of training."""
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
        """Report the duration of training."""
        self._lines(f"Total seconds required for training: {seconds:.3f}", "")

    def storing(self, model: CRFsuiteModel | None, features: int, attributes: int) -> None:
        """Report the stored model, which has the nonzero weights of `features` features."""
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
        """Report that the model is stored."""
        self._lines(f"Seconds required: {seconds:.3f}", "")

    def _parameters(self, prefix: str) -> None:
        """Report the parameters with a prefix, or without any prefix."""
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


# --- Reading --------------------------------------------------------------------------------------

_HEAD = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}\n")
_SECONDS = re.compile(r"Seconds required: (\d+\.\d+)")
_TOTAL = re.compile(r"Total seconds required for training: (\d+\.\d+)")
_FEATURES = re.compile(r"Number of features: (\d+)")
_NUMBER = r"(\d+\.\d+)"
_FIELDS: tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...] = (
    ("loss", re.compile(rf"Loss: {_NUMBER}"), float),
    ("feature_norm", re.compile(rf"Feature norm: {_NUMBER}"), float),
    ("error_norm", re.compile(rf"Error norm: {_NUMBER}"), float),
    ("active_features", re.compile(r"Active features: (\d+)"), int),
    ("linesearch_trials", re.compile(r"Line search trials: (\d+)"), int),
    ("linesearch_step", re.compile(rf"Line search step: {_NUMBER}"), float),
    ("time", re.compile(rf"Seconds required for this iteration: {_NUMBER}"), float),
)
_MACRO = re.compile(rf"Macro-average precision, recall, F1: \({_NUMBER}, {_NUMBER}, {_NUMBER}\)")
_ACCURACY = re.compile(r"(Item|Instance) accuracy: (\d+) / (\d+)")
_LABEL = re.compile(
    r" {4}(.+): \((\d+), (\d+), (\d+)\) \((\d\.\d+|\*+), (\d\.\d+|\*+), (\d\.\d+|\*+)\)", re.DOTALL
)
# The first line of the first iteration, and the line about storing, belong to the next event.
_BELONGS_TO_NEXT = {"prepared", "optimization_end"}


class LabelScore(NamedTuple):
    """The evaluation of one label."""

    # match, model, ref: tokens: right, predicted, in the data
    match: int
    model: int
    ref: int
    # precision, recall, f1: `None` for a label that is absent from the data
    precision: float | None
    recall: float | None
    f1: float | None


class TrainLogParser:
    """Reads a log message by message.

    Attributes
    ----------
    log : list of str
        All messages.
    events : list of (str, int, int)
        Name, first and end of its messages.
    iterations : list of dict
        Numbers of each iteration: ``num``, ``loss``, ``time``, ``scores`` and others, as the
        algorithm and the held-out data give them.
    last_iteration : dict or None
    featgen_percent : int
    featgen_num_features : int or None
    featgen_seconds, training_seconds, storing_seconds : float or None
    """

    def __init__(self) -> None:
        self.state: str | None = None
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None

    @property
    def last_log(self) -> str:
        """The messages of the last event."""
        _, first, end = self.events[-1]
        return "".join(self.log[first:end])

    def feed(self, line: str) -> str | None:
        """Read a message; return the event that it completes, if any."""
        self.log.append(line)
        if self.state is None:
            self.state = "STARTING"
            self._starting(line)
            event: str | None = "start"
        else:
            event = self._READERS[self.state](self, line)
        if event is not None:
            first = self.events[-1][2] if self.events else 0
            self.events.append((event, first, len(self.log) - (event in _BELONGS_TO_NEXT)))
        return event

    def _starting(self, line: str) -> str | None:
        if line.startswith("Feature generation"):
            self.state = "FEATGEN"
        return None

    def _generating(self, line: str) -> str | None:
        if line == "." or line.isdigit():
            self.featgen_percent += 2
            return "featgen_progress"
        if features := _FEATURES.match(line):
            self.featgen_num_features = int(features[1])
        elif seconds := _SECONDS.match(line):
            self.featgen_seconds = float(seconds[1])
            self.state = "AFTER_FEATGEN"
            return "featgen_end"
        return None

    def _preparing(self, line: str) -> str | None:
        if _HEAD.match(line):
            self._begin(line)
            return "prepared"
        if "terminated with error" in line:
            self.state = "AFTER_ITERATION"
            return "prepare_error"
        return None

    def _begin(self, line: str) -> bool:
        """Begin an iteration if the message is its first line."""
        head = _HEAD.match(line)
        if head is None:
            return False
        self.state = "ITERATION"
        self.last_iteration = {"num": int(head[1]), "scores": {}}
        self.iterations.append(self.last_iteration)
        return True

    def _iterating(self, line: str) -> str | None:
        if self._begin(line):
            return None
        if line == "\n":
            self.state = "AFTER_ITERATION"
            return "iteration"
        if self.last_iteration is not None:
            _read_numbers(line, self.last_iteration)
        return None

    def _iterated(self, line: str) -> str | None:
        if self._begin(line):
            return None
        if total := _TOTAL.match(line):
            self.training_seconds = float(total[1])
        if line.startswith("Storing the model"):
            self.state = "STORING"
            return "optimization_end"
        return None

    def _storing(self, line: str) -> str | None:
        if seconds := _SECONDS.match(line):
            self.storing_seconds = float(seconds[1])
        return "end" if line == "\n" else None

    _READERS = {  # noqa: RUF012 (never changed)
        "STARTING": _starting,
        "FEATGEN": _generating,
        "AFTER_FEATGEN": _preparing,
        "ITERATION": _iterating,
        "AFTER_ITERATION": _iterated,
        "STORING": _storing,
    }


def _read_numbers(line: str, into: dict[str, Any]) -> None:
    """Take the numbers of one message of an iteration."""
    for name, pattern, read in _FIELDS:
        if field := pattern.match(line):
            into[name] = read(field[1])
    if macro := _MACRO.match(line):
        averages = map(float, macro.groups())
        into.update(zip(("avg_precision", "avg_recall", "avg_f1"), averages, strict=True))
    if accuracy := _ACCURACY.match(line):
        name = f"{accuracy[1].lower()}_accuracy"
        right, total = int(accuracy[2]), int(accuracy[3])
        into[name] = fractions.Fraction(right, total or 1)
        into[f"{name}_float"] = float(into[name])
    if label := _LABEL.match(line):
        counts = map(int, label.groups()[1:4])
        rates = [None if rate.startswith("*") else float(rate) for rate in label.groups()[4:]]
        into["scores"][label[1]] = LabelScore(*counts, *rates)
