"""The estimator: fit, predict, and look inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.ext.compat.pycrfsuite import BaseTrainer, Tagger
from fstcrf.ext.compat.pycrfsuite.items import Items
from fstcrf.ext.compat.pycrfsuite.log import TrainLogParser
from fstcrf.ext.compat.pycrfsuite.parameters import ALGORITHMS
from fstcrf.ext.compat.pycrfsuite.tagger import ParsedDump
from fstcrf.ext.compat.sklearn_crfsuite._fileresource import FileResource
from fstcrf.ext.compat.sklearn_crfsuite.metrics import flat_accuracy_score
from fstcrf.ext.compat.sklearn_crfsuite.trainer import LinePerIterationTrainer
from fstcrf.ext.compat.sklearn_crfsuite.utils import sklearn

if TYPE_CHECKING:
    from fstcrf import taggers

    class _BaseEstimator:
        """The base class of estimators, untyped in scikit-learn."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
            """Return the parameters."""

        def set_params(self, **params: Any) -> CRF:
            """Set some parameters."""

    class _NotFittedError(AttributeError):
        """The same."""

else:
    _BaseEstimator = sklearn("base").BaseEstimator
    _NotFittedError = sklearn("exceptions").NotFittedError

# Parameters of CRFsuite's trainer whose names here are others.
_TRAINER_NAMES = {
    "feature.minfreq": "min_freq",
    "feature.possible_states": "all_possible_states",
    "feature.possible_transitions": "all_possible_transitions",
    "calibration.eta": "calibration_eta",
    "calibration.rate": "calibration_rate",
    "calibration.samples": "calibration_samples",
    "calibration.candidates": "calibration_candidates",
    "calibration.max_trials": "calibration_max_trials",
    "type": "pa_type",
}
_PARAMETERS = dict.fromkeys(name for known in ALGORITHMS.values() for name in known.parameters)
_HELD_OUT = 1
_MISSING = object()


class NotFittedError(OptionError, _NotFittedError):
    """The estimator is not fitted; this is also scikit-learn's error, and an AttributeError."""


class CRF(_BaseEstimator):
    """A CRF as an estimator of scikit-learn.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, optional
        "lbfgs" when absent.
    min_freq, all_possible_states, all_possible_transitions
        CRFsuite's ``feature.minfreq``, ``feature.possible_states``,
        ``feature.possible_transitions``.
    c1, c2, max_iterations, num_memories, epsilon, period, delta, linesearch, max_linesearch
        Parameters of CRFsuite's trainer, under the same names; `None` for its default.
    calibration_eta, calibration_rate, calibration_samples, calibration_candidates, \
calibration_max_trials
        Its ``calibration.*``, for "l2sgd".
    pa_type, c, error_sensitive, averaging
        For "pa"; the first is its ``type``.
    variance, gamma
        For "arow".
    verbose : bool
        Print the progress of training.
    model_filename : str, optional
        File of the model: `fit` writes it, and an estimator that is not fitted reads it. By
        default, the model is in a temporary file, and pickles of the estimator include it.
    keep_tempfiles : bool
        Keep that temporary file.
    trainer_cls : class, optional
        A subclass of `fstcrf.ext.compat.pycrfsuite.Trainer` to train with.

    Attributes
    ----------
    training_log_ : TrainLogParser or None
        The contents of the training log.
    """

    algorithm: str | None
    verbose: bool
    model_filename: str | None
    keep_tempfiles: bool
    trainer_cls: type[BaseTrainer] | None

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,  # noqa: FBT001
        all_possible_transitions: bool | None = None,  # noqa: FBT001
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: float | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,  # noqa: FBT001
        averaging: bool | None = None,  # noqa: FBT001
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,  # noqa: FBT001, FBT002
        model_filename: str | None = None,
        keep_tempfiles: bool = False,  # noqa: FBT001, FBT002
        trainer_cls: type[BaseTrainer] | None = None,
    ) -> None:
        given = dict(locals())  # must be first: scikit-learn expects the arguments as attributes
        vars(self).update((name, value) for name, value in given.items() if name != "self")
        self.training_log_: TrainLogParser | None = None
        self.modelfile = FileResource(model_filename, keep_tempfiles, ".crfsuite", "model")
        self._tagger: Tagger | None = None
        self._info_cached: ParsedDump | None = None

    # --- Training -----------------------------------------------------------------------------

    def fit(
        self,
        X: Iterable[Items],  # noqa: N803 (scikit-learn's names)
        y: Iterable[Sequence[str]],
        X_dev: Iterable[Items] | None = None,  # noqa: N803
        y_dev: Iterable[Sequence[str]] | None = None,
    ) -> CRF:
        """Train on sequences.

        Parameters
        ----------
        X : iterable of sequences of feature dicts
        y : iterable of sequences of str
            Their labels.
        X_dev, y_dev : optional
            Held-out sequences: each iteration is evaluated on them, for the log.

        Raises
        ------
        OptionError
            Parameters outside their range; only one of `X_dev` and `y_dev`; different numbers of
            sequences and label sequences.
        ItemError, DataError
            Invalid features or labels.
        """
        if (X_dev is None) != (y_dev is None):
            raise OptionError("X_dev and y_dev must be given together, or both left out")
        self._close()
        if self.modelfile.auto != (self.model_filename is None) or (
            self.model_filename is not None and self.modelfile.name != self.model_filename
        ):  # set_params has changed it
            self.modelfile = FileResource(
                self.model_filename, self.keep_tempfiles, ".crfsuite", "model"
            )
        trainer = self._get_trainer()
        _append(trainer, X, y, 0)
        if X_dev is not None and y_dev is not None:
            _append(trainer, X_dev, y_dev, _HELD_OUT)
        self.modelfile.refresh()
        try:
            trainer.train(str(self.modelfile.name), holdout=-1 if X_dev is None else _HELD_OUT)
        except BaseException:
            self.modelfile.cleanup()  # an empty file is no model
            raise
        self.training_log_ = getattr(trainer, "logparser", None)
        return self

    def _close(self) -> None:
        if self._tagger is not None:
            self._tagger.close()
        self._tagger = self._info_cached = None

    def _get_trainer(self) -> BaseTrainer:
        values = {name: getattr(self, _TRAINER_NAMES.get(name, name)) for name in _PARAMETERS}
        params = {name: value for name, value in values.items() if value is not None}
        cls = self.trainer_cls or LinePerIterationTrainer
        return cls(algorithm=self.algorithm, params=params, verbose=self.verbose)

    # --- Prediction ---------------------------------------------------------------------------

    def predict(self, X: Iterable[Items]) -> NDArray[np.object_]:  # noqa: N803
        """Return the best labels of sequences.

        Parameters
        ----------
        X : iterable of sequences of feature dicts

        Returns
        -------
        object array
            Lists of labels [n]; labels [n, length] if all sequences have the same length, as in
            sklearn-crfsuite.

        Raises
        ------
        NotFittedError
            Nothing is fitted.
        ModelFileError
            The file of the model is damaged.
        """
        return np.array(list(map(self.predict_single, X)), dtype=object)

    def predict_single(self, xseq: Items) -> list[str]:
        """Return the best labels of one sequence."""
        return self._fitted().tag(xseq)

    def predict_marginals(self, X: Iterable[Items]) -> NDArray[np.object_]:  # noqa: N803
        """Return, for each token of sequences, the probability of each label: dicts.

        The array has the same form as the result of `predict`.
        """
        return np.array(list(map(self.predict_marginals_single, X)), dtype=object)

    def predict_marginals_single(self, xseq: Items) -> list[dict[str, float]]:
        """Return, for each token of a sequence, the probability of each label."""
        tagger = self._fitted()
        tagger.set(xseq)
        return tagger.marginals()

    def score(self, X: Iterable[Items], y: Sequence[Sequence[str]]) -> float:  # noqa: N803
        """Return the share of tokens that are labelled right, 0 to 1."""
        return flat_accuracy_score(y, list(map(self.predict_single, X)))

    def _fitted(self) -> Tagger:
        tagger = self._opened()
        if tagger is None:
            name = self.modelfile.name
            why = "" if name is None else f": there is no file {name}"
            raise NotFittedError(
                f"the CRF is not fitted{why}; call fit(X, y), or give the model_filename of a model"
            )
        return tagger

    def _opened(self) -> Tagger | None:
        """Return the tagger; `None` if there is no model yet."""
        name = self.modelfile.name
        if self._tagger is None and name is not None and Path(name).exists():
            tagger = Tagger()
            tagger.open(name)
            self._tagger, self._info_cached = tagger, None
        return self._tagger

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "tagger_", None) is not None

    # --- Looking inside -----------------------------------------------------------------------

    @property
    def tagger_(self) -> Tagger | None:
        """The tagger; `None` before fitting.

        Raises
        ------
        NotFittedError
            The file of the model is damaged.
        """
        try:
            return self._opened()
        except OSError as error:  # code that looks for attributes expects an AttributeError
            raise NotFittedError(f"the CRF is not fitted: {error}") from error

    @property
    def crf_(self) -> taggers.CRF | None:
        """The model as a tagger of fstcrf: n-best lists, grammars, composition."""
        return None if self.tagger_ is None else self.tagger_.crf

    @property
    def classes_(self) -> list[str] | None:
        """The labels."""
        return None if self.tagger_ is None else self.tagger_.labels()

    @property
    def size_(self) -> int | None:
        """Size of the model, in bytes."""
        return None if self._info is None else int(self._info.header["size"])

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes that have a weight."""
        return None if self._info is None else int(self._info.header["num_attrs"])

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes that have a weight."""
        return None if self._info is None else list(self._info.attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights of (attribute, label), natural-log scores."""
        return None if self._info is None else self._info.state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights of (label, next label), natural-log scores."""
        return None if self._info is None else self._info.transitions

    @property
    def _info(self) -> ParsedDump | None:
        if self.tagger_ is None:
            return None
        if self._info_cached is None:
            self._info_cached = self.tagger_.info()
        return self._info_cached

    def __getstate__(self) -> dict[str, Any]:
        inherited = getattr(super(), "__getstate__", self.__dict__.copy)()
        return {**inherited, "_tagger": None, "_info_cached": None}


def _append(
    trainer: BaseTrainer, sequences: Iterable[Any], labels: Iterable[Any], group: int
) -> None:
    if isinstance(sequences, Sized) and isinstance(labels, Sized) and len(sequences) != len(labels):
        raise OptionError(f"{len(sequences)} sequences, {len(labels)} label sequences")
    pairs: Iterable[tuple[Any, Any]] = zip_longest(sequences, labels, fillvalue=_MISSING)
    for number, (xseq, yseq) in enumerate(pairs):
        if xseq is _MISSING or yseq is _MISSING:
            fewer = "sequences" if xseq is _MISSING else "label sequences"
            raise OptionError(f"only {number} {fewer}, and more of the others")
        trainer.append(xseq, yseq, group)
