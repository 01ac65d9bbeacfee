"""The trainer: data in, model file out."""

from __future__ import annotations

import operator
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, Self

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import DataError, FstcrfError, NumericError, OptionError
from fstcrf.ext.compat.pycrfsuite.items import AttributeRows, Growing, Items, joined, labels_of
from fstcrf.ext.compat.pycrfsuite.log import Evaluation, Log, TrainLogParser
from fstcrf.ext.compat.pycrfsuite.parameters import ALGORITHMS, Algorithm, Parameter, Value, options
from fstcrf.ext.compat.pycrfsuite.parameters import algorithm as known_algorithm
from fstcrf.ext.foreign.crfsuite import (
    FEATURE,
    CRFsuiteModel,
    check_labels,
    weighted_features,
    write_model,
)
from fstcrf.files import atomic_write, check_writable
from fstcrf.kernel import SparseRows
from fstcrf.machines.topology import chain_topology
from fstcrf.taggers.weights import Weights
from fstcrf.training import ParameterSpace, Problem, Progress, fit, frequent, parameter_space
from fstcrf.training.options import Options, checked_options, optimiser_of

CRFSUITE_VERSION = "0.12.2"

_FIRST = -(2**31)
INCOMPATIBLE, OVERFLOW = _FIRST + 3, _FIRST + 5


class CRFSuiteError(FstcrfError):
    """Training failed.

    Parameters
    ----------
    code : int
        CRFsuite's number of the error.
    """

    _messages = {  # noqa: RUF012 (its users read it)
        _FIRST: "Unknown error occurred",
        _FIRST + 1: "Insufficient memory",
        _FIRST + 2: "Unsupported operation",
        INCOMPATIBLE: "Incompatible data",
        _FIRST + 4: "Internal error",
        OVERFLOW: "Overflow",
        _FIRST + 6: "Not implemented",
    }

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(self._messages.get(code, "Unexpected error"))


class BaseTrainer:
    """A trainer that passes every message on to `message`.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, optional
        As for `select`.
    params : mapping, optional
        As for `set_params`.
    verbose : bool
        Print the messages.

    Attributes
    ----------
    threads : int
        How many of them training uses; the model does not depend on it. python-crfsuite has no
        such attribute.
    """

    threads: ClassVar[int] = 1
    verbose: bool = True
    _data: TrainingData
    _cleared: bool
    _algorithm: Algorithm
    _values: dict[str, Value]

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Initialise attributes for subclasses that do not call ``super().__init__``."""
        trainer = super().__new__(cls)
        trainer._data, trainer._cleared = TrainingData(), False
        trainer._choose(ALGORITHMS["lbfgs"])
        return trainer

    def __init__(
        self,
        algorithm: str | None = None,
        params: Mapping[str, object] | None = None,
        verbose: bool = True,  # noqa: FBT001, FBT002 (python-crfsuite's order)
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    # --- Data ---------------------------------------------------------------------------------

    def append(self, xseq: Items, yseq: Iterable[str | bytes], group: int = 0) -> None:
        """Append a sequence to the data set.

        Parameters
        ----------
        xseq : ItemSequence or iterable of items
            Each item a dict or a list of strings.
        yseq : iterable of str
            A label for each item.
        group : int
            Number by which `train` may hold it out.

        Raises
        ------
        ItemError, DataError
            Invalid items or labels, or different numbers of them; the data set does not change.
        """
        self._data.append(xseq, yseq, operator.index(group))
        self._cleared = False

    def clear(self) -> None:
        """Forget the data set."""
        self._data, self._cleared = TrainingData(), True

    # --- Parameters ---------------------------------------------------------------------------

    def select(self, algorithm: str, type: str = "crf1d") -> None:  # noqa: A002
        """Choose the algorithm; its parameters get their defaults.

        Parameters
        ----------
        algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}
            L-BFGS; stochastic gradient descent; averaged perceptron; passive aggressive;
            adaptive regularisation of weights.
        type : {"crf1d"}
            Of graphical model.

        Raises
        ------
        OptionError
            Another algorithm or type. Also a ValueError.
        """
        self._choose(known_algorithm(algorithm, type))

    def _choose(self, chosen: Algorithm) -> None:
        self._algorithm = chosen
        self._values = {name: known.default for name, known in chosen.parameters.items()}

    def params(self) -> list[str]:
        """Return the names of the algorithm's parameters."""
        return list(self._values)

    def set(self, name: str, value: object) -> None:
        """Set a parameter.

        Raises
        ------
        OptionError
            The algorithm has no such parameter, or the value is of another type. Also a
            ValueError.
        """
        parameter = self._parameter(name)
        try:
            self._values[name] = parameter.read(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise OptionError(f"parameter {name} is {value!r}: {error}") from None

    def get(self, name: str) -> Value:
        """Return the value of a parameter; errors as for `set`."""
        return self._values[self._parameter(name).name]

    def set_params(self, params: Mapping[str, object]) -> None:
        """Set parameters; arguments and errors as for `set`."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Value]:
        """Return all parameters and their values."""
        return dict(self._values)

    def help(self, name: str) -> str:
        """Return the description of a parameter; errors as for `set`."""
        return self._parameter(name).help

    def _parameter(self, name: str) -> Parameter:
        found = self._algorithm.parameters.get(name)
        if found is None:
            raise OptionError(
                f"{self._algorithm.method} has no parameter {name!r}; it has "
                f"{', '.join(self._values)}"
            )
        return found

    # --- Training -----------------------------------------------------------------------------

    def train(self, model: str | os.PathLike[str], holdout: int = -1) -> None:
        """Train on the data set, and write the model in CRFsuite's format.

        Parameters
        ----------
        model : path
            ``""`` writes no file.
        holdout : int
            Group that is left out of training and evaluated after each iteration; -1 disables this.

        Raises
        ------
        OptionError
            A parameter outside its range, a group without sequences, or too many labels for a model
            file.
        DataError
            Nothing was appended since `clear`. A trainer that never had data writes a model without
            labels, as CRFsuite does.
        CRFSuiteError
            Training diverged at once.
        OSError
            The file cannot be written.
        """
        path = os.fsdecode(model)
        if self._cleared:
            raise DataError("the data is empty: append sequences after clear()")
        if path:
            check_writable(path)
        self._before_train()
        log = Log(self._algorithm, self._values, self.message)
        found, features = train(
            self._data, self._algorithm, self._values, log, holdout=holdout, threads=self.threads
        )
        if path:
            began = time.perf_counter()
            log.storing(found, features, len(self._data.attributes))
            with atomic_write(path) as file:
                file.write(write_model(found))
            log.stored(time.perf_counter() - began)

    def _before_train(self) -> None:
        """Get ready for the messages of a run."""

    def message(self, message: str) -> None:
        """Receive a message of the training run; subclasses may override this."""
        if self.verbose:
            print(message, end="")  # noqa: T201 (what it is for)


class Trainer(BaseTrainer):
    """A trainer that reports its progress to its ``on_*`` methods; subclasses override them.

    Each gets the text of the log since the last one; by default they print it.

    Parameters
    ----------
    algorithm, params, verbose
        As for `BaseTrainer`.

    Attributes
    ----------
    logparser : TrainLogParser or None
        The contents of the log of the last run.
    """

    logparser: TrainLogParser | None = None

    def _before_train(self) -> None:
        self.logparser = TrainLogParser()

    def message(self, message: str) -> None:
        """Read a message, and call the method of the event that it completes."""
        if self.logparser is None:
            self.logparser = TrainLogParser()
        event = self.logparser.feed(message)
        if not self.verbose or event is None:
            return
        handler = getattr(self, f"on_{event}")
        text = self.logparser.last_log
        match event:
            case "featgen_progress":
                handler(text, self.logparser.featgen_percent)
            case "iteration":
                handler(text, self.logparser.last_iteration)
            case _:
                handler(text)

    def on_start(self, log: str) -> None:
        """Receive the messages before the generation of features."""
        self._show(log)

    def on_featgen_progress(self, log: str, percent: int) -> None:  # noqa: ARG002
        """Receive how far the features are."""
        self._show(log)

    def on_featgen_end(self, log: str) -> None:
        """Receive how many features there are."""
        self._show(log)

    def on_prepared(self, log: str) -> None:
        """Receive the options of the algorithm."""
        self._show(log)

    def on_prepare_error(self, log: str) -> None:
        """Receive the reason why there is nothing to train."""
        self._show(log)

    def on_iteration(self, log: str, info: dict[str, object]) -> None:  # noqa: ARG002
        """Receive an iteration; `info` has the numbers of its text."""
        self._show(log)

    def on_optimization_end(self, log: str) -> None:
        """Receive why the last iteration was the last."""
        self._show(log)

    def on_end(self, log: str) -> None:
        """Receive the messages about storing the model."""
        self._show(log)

    @staticmethod
    def _show(log: str) -> None:
        print(log, end="")  # noqa: T201


# --- Data -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some sequences that are not empty."""

    node: SparseRows  # [N, A], attributes of tokens
    labels: Ints  # [N]
    offsets: Longs  # [B + 1]


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    rows: AttributeRows
    labels: Ints
    group: int


class TrainingData:
    """Sequences with labels, in groups; attributes and labels are numbered by first appearance."""

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

    def append(self, items: Items, labels: Iterable[str | bytes], group: int) -> None:
        """Append a sequence."""
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
        """Return the sequences of some groups, or `None` if they have no tokens."""
        chosen = [i for i in self._instances if wanted(i.group) and len(i.labels)]
        if not chosen:
            return None
        rows = joined([instance.rows for instance in chosen])
        return _Part(
            _counting(rows, len(self._lookup.attributes)),
            np.concatenate([instance.labels for instance in chosen]),
            Ragged.from_lengths(len(instance.labels) for instance in chosen).offsets,
        )


def _counting(rows: AttributeRows, n_attributes: int) -> SparseRows:
    """Return rows from 0 on; those with a minus have the value 0."""
    values, zero = rows.values, rows.rows < 0
    if zero.any():
        values = np.where(zero, np.float32(0), np.float32(1) if values is None else values)
    return SparseRows(rows.indptr, np.abs(rows.rows) - np.int32(1), values, n_attributes)


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
    """Train a model on all groups but `holdout`; a negative number holds out no group.

    Return the model, without labels if the data has no labels, and the number of features that
    could have a weight. CRFSuiteError where training diverged at once.
    """
    check_labels(len(data.labels))
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
    space = parameter_space(problem, features=settings.pairs, transitions=settings.transitions)
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
    calls = count(1)

    def evaluate(theta: Floats) -> float:
        if held_out is not None:
            last[:] = [_evaluation(space, theta, held_out)]
        return float(next(calls))  # every iteration is the best so far

    def report(progress: Progress) -> None:
        log.iteration(progress, last[0] if last else None, labels)

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
    best, _ = kernel.viterbi(weights.static_graph, part.offsets, node)
    return Evaluation.of(part.labels, best, part.offsets, space.topology.n_labels)


def _model(data: TrainingData, space: ParameterSpace, theta: Floats) -> CRFsuiteModel:
    """Return the weights that are not zero, and the attributes that have some."""
    used, features = weighted_features(space, theta)
    names = data.attributes
    return CRFsuiteModel.of(data.labels, [names[i] for i in used.tolist()], features)
