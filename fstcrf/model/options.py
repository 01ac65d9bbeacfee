"""The options of training, and the record of a run: both are stored in the model.

================  ==============================================================
Options           checked options
checked_options   keyword arguments as `Options`
TrainingRecord    what was trained, on what, and how it went
================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np

from fstcrf.errors import OptionError

__all__ = ["Options", "TrainingRecord", "checked_options"]

_CONJUGATE = ("cg", "preconditioned-cg", "mixed-cg")
_BATCH = ("lbfgs", *_CONJUGATE, "gis")

_DEFAULT_ITERATIONS = {
    **dict.fromkeys(_BATCH, 1000),
    "l2sgd": 1000,
    "ap": 100,
    "pa": 100,
    "arow": 100,
    "perceptron": 10,
}
_DEFAULT_EPSILON = dict.fromkeys(_BATCH, 1e-5)
_DEFAULT_DELTA = {**dict.fromkeys(_BATCH, 1e-5), "l2sgd": 1e-6}

# Which methods read an option; those that are not here are for all of them.
_READ_BY = {
    **dict.fromkeys(("l1", "memory", "line_search"), ("lbfgs",)),
    "max_line_search": ("lbfgs", *_CONJUGATE),
    "preconditioned": ("mixed-cg",),
    "stochastic_epochs": ("lbfgs",),
    **dict.fromkeys(("delta", "period"), (*_BATCH, "l2sgd")),
    "epsilon": (*_BATCH, "ap", "pa", "arow"),
    **dict.fromkeys(
        (
            "calibration_rate",
            "calibration_factor",
            "calibration_sentences",
            "calibration_candidates",
            "calibration_trials",
        ),
        ("l2sgd",),
    ),
    **dict.fromkeys(("pa_variant", "aggressiveness", "error_sensitive", "averaging"), ("pa",)),
    **dict.fromkeys(("variance", "gamma"), ("arow",)),
}

_COUNTS = (
    "min_count",
    "patience",
    "max_iterations",
    "period",
    "memory",
    "max_line_search",
    "preconditioned",
    "calibration_sentences",
    "calibration_candidates",
    "calibration_trials",
)


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of training, as they are stored in the model."""

    order: Literal[0, 1, 2] = 1
    method: Literal[
        "lbfgs",
        "cg",
        "preconditioned-cg",
        "mixed-cg",
        "gis",
        "l2sgd",
        "ap",
        "pa",
        "arow",
        "perceptron",
    ] = "lbfgs"
    l2: float = 0.5
    l1: float = 0.0
    features: Literal["supported", "complete"] = "supported"
    transitions: Literal["observed", "all"] = "observed"
    boundary: Literal["pad", "skip"] = "pad"
    min_count: int = 1
    min_frequency: float | None = None
    hash_bits: int | None = None
    scheme: str | None = None
    start_label: str | None = None
    ends: bool = False
    partial: bool = True
    jackknife: int | None = None
    max_iterations: int | None = None
    patience: int = 10
    seed: int = 0
    epsilon: float | None = None
    delta: float | None = None
    period: int = 10
    memory: int = 10
    line_search: Literal["wolfe", "backtracking", "strong-backtracking"] = "wolfe"
    max_line_search: int = 20
    preconditioned: int = 5
    stochastic_epochs: int | None = None
    calibration_rate: float = 0.1
    calibration_factor: float = 2.0
    calibration_sentences: int = 1000
    calibration_candidates: int = 10
    calibration_trials: int = 20
    pa_variant: Literal["PA", "PA-I", "PA-II"] = "PA-I"
    aggressiveness: float = 1.0
    error_sensitive: bool = True
    averaging: bool = True
    variance: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        self._check_readers()
        self._check_numbers()
        if self.jackknife is not None and self.jackknife < 2:
            raise OptionError(f"jackknife is {self.jackknife}, expected at least 2 folds")
        if self.seed < 0:
            raise OptionError(f"seed is {self.seed}, expected at least 0")

    def _check_readers(self) -> None:
        """Refuse options that the method does not read: they would be ignored in silence."""
        for field in msgspec.structs.fields(self):
            methods = _READ_BY.get(field.name)
            if methods is None or self.method in methods:
                continue
            if getattr(self, field.name) != field.default:
                known = " or ".join(map(repr, methods))
                raise OptionError(f"{field.name} needs method {known}, not {self.method!r}")

    def _check_numbers(self) -> None:
        for name in ("l1", "l2", "epsilon", "delta"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < np.inf:
                raise OptionError(f"{name} is {value}, expected a finite number of at least 0")
        for name in ("aggressiveness", "variance", "gamma", "calibration_rate"):
            value = getattr(self, name)
            if not 0.0 < value < np.inf:
                raise OptionError(f"{name} is {value}, expected a finite number above 0")
        if not 1.0 < self.calibration_factor < np.inf:
            raise OptionError(
                f"calibration_factor is {self.calibration_factor}, expected a number above 1"
            )
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"{name} is {value}, expected at least 1")
        if self.stochastic_epochs is not None and self.stochastic_epochs < 0:
            raise OptionError(f"stochastic_epochs is {self.stochastic_epochs}, expected at least 0")
        if self.min_frequency is not None and not np.isfinite(self.min_frequency):
            raise OptionError(f"min_frequency is {self.min_frequency}, expected a finite number")

    @property
    def iteration_limit(self) -> int:
        """`max_iterations`, or what is usual for the method."""
        return self.max_iterations or _DEFAULT_ITERATIONS[self.method]

    @property
    def threshold(self) -> float:
        """`epsilon`, or what is usual for the method."""
        return _DEFAULT_EPSILON.get(self.method, 0.0) if self.epsilon is None else self.epsilon

    @property
    def least_gain(self) -> float:
        """`delta`, or what is usual for the method."""
        return _DEFAULT_DELTA.get(self.method, 0.0) if self.delta is None else self.delta


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was trained, on what, and how it went.

    With the templates, which the index keeps, it says how to train the model again: `target` is
    the column of the labels (None where they were given as lists), `class_weights` the weights of
    sentences by label.
    """

    options: Options
    sentences: int
    tokens: int
    attributes: int
    parameters: int
    iterations: int
    best_iteration: int
    objective: float
    dev_score: float | None
    reason: str
    interrupted: bool = False
    target: str | None = None
    class_weights: dict[str, float] = {}
    grammar: str | None = None


def checked_options(given: Mapping[str, Any]) -> Options:
    """Return keyword arguments as options.

    Raises
    ------
    OptionError
        An unknown option or a value outside what it may be.
    """
    unknown = sorted(set(given) - set(Options.__struct_fields__))
    if unknown:
        raise OptionError(
            f"unknown training option {unknown[0]!r}; there are "
            f"{', '.join(Options.__struct_fields__)}"
        )
    try:
        return msgspec.convert(dict(given), Options)
    except msgspec.ValidationError as error:
        raise OptionError(f"training options: {error}") from None
