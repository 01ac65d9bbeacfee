"""The trainer: data in, model file out."""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from fstcrf.compat.logtext import TrainLogParser
from fstcrf.compat.pycrfsuite.items import ItemSequence
from fstcrf.compat.pycrfsuite.parameters import ALGORITHMS, Algorithm, Parameter, Value
from fstcrf.compat.pycrfsuite.parameters import algorithm as known_algorithm
from fstcrf.compat.pycrfsuite.training import Log, TrainingData, train
from fstcrf.corpus import check_writable
from fstcrf.corpus.files import atomic_write
from fstcrf.errors import DataError, OptionError
from fstcrf.interop.crfsuite import write_model

__all__ = ["BaseTrainer", "Trainer"]


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
        """Make what a subclass needs that does not call ``super().__init__``."""
        trainer = super().__new__(cls)
        trainer._data, trainer._cleared = TrainingData(), False
        trainer._choose(ALGORITHMS["lbfgs"])
        return trainer

    def __init__(
        self,
        algorithm: str | None = None,
        params: Mapping[str, Any] | None = None,
        verbose: bool = True,  # noqa: FBT001, FBT002 (python-crfsuite's order)
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    # --- Data ---------------------------------------------------------------------------------

    def append(
        self, xseq: Iterable[Any] | ItemSequence, yseq: Iterable[str], group: int = 0
    ) -> None:
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
            Items or labels that are not what they must be, or differ in number; the data set stays
            as it is.
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

    def set(self, name: str, value: Any) -> None:
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
        """Return the value of a parameter.

        Raises
        ------
        OptionError
            The algorithm has no such parameter.
        """
        return self._values[self._parameter(name).name]

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set parameters; arguments and errors as for `set`."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Value]:
        """Return all parameters and their values."""
        return dict(self._values)

    def help(self, name: str) -> str:
        """Return what a parameter is.

        Raises
        ------
        OptionError
            The algorithm has no such parameter.
        """
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
            Group to leave out of training and to evaluate each iteration on; -1 for none.

        Raises
        ------
        OptionError
            A parameter outside what it may be, or a group that no sequence has.
        DataError
            Nothing has been appended since `clear`. A trainer that never had data writes a model
            without labels, as CRFsuite does.
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
            self._data,
            self._algorithm,
            self._values,
            log,
            holdout=holdout,
            threads=self.threads,
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
        """Receive a message of the training run; subclasses may do with it what they like."""
        if self.verbose:
            print(message, end="")  # noqa: T201 (what it is for)


class Trainer(BaseTrainer):
    """A trainer that tells its ``on_*`` methods how it goes; subclasses override them.

    Each gets the text of the log since the last one; by default they print it.

    Parameters
    ----------
    algorithm, params, verbose
        As for `BaseTrainer`.

    Attributes
    ----------
    logparser : TrainLogParser or None
        What the log of the last run says.
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
        """Receive what is said before features are generated."""
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
        """Receive why there is nothing to train."""
        self._show(log)

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:  # noqa: ARG002
        """Receive an iteration; `info` is what its text says."""
        self._show(log)

    def on_optimization_end(self, log: str) -> None:
        """Receive why the last iteration was the last."""
        self._show(log)

    def on_end(self, log: str) -> None:
        """Receive what is stored."""
        self._show(log)

    @staticmethod
    def _show(log: str) -> None:
        print(log, end="")  # noqa: T201
