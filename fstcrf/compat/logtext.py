"""The training log of CRFsuite, message by message.

==============  =====================================================
TrainLogParser  messages → events, and the numbers that they hold
LabelScore      what an evaluation says of one label
==============  =====================================================

The events, in their order::

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
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["LabelScore", "TrainLogParser"]

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
# The head of the first iteration, and the line about storing, already belong to what follows.
_BELONGS_TO_NEXT = {"prepared", "optimization_end"}


class LabelScore(NamedTuple):
    """What an evaluation says of one label.

    Parameters
    ----------
    match, model, ref : int
        Tokens: right, predicted, in the data.
    precision, recall, f1 : float or None
        None for a label that the data does not have.
    """

    match: int
    model: int
    ref: int
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
        """Begin an iteration where the message is its head."""
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
