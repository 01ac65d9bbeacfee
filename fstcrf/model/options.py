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

_DEFAULT_ITERATIONS = {"lbfgs": 1000, "perceptron": 10, "l2sgd": 1000}


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of training, as they are stored in the model."""

    order: Literal[0, 1, 2] = 1
    method: Literal["lbfgs", "l2sgd", "perceptron"] = "lbfgs"
    l2: float = 0.5
    l1: float = 0.0
    features: Literal["supported", "complete"] = "supported"
    transitions: Literal["observed", "all"] = "observed"
    boundary: Literal["pad", "skip"] = "pad"
    min_count: int = 1
    hash_bits: int | None = None
    scheme: str | None = None
    start_label: str | None = None
    ends: bool = False
    partial: bool = True
    jackknife: int | None = None
    max_iterations: int | None = None
    patience: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.l2) and self.l2 >= 0):
            raise OptionError(f"l2 is {self.l2}, expected a finite number of at least 0")
        if not (np.isfinite(self.l1) and self.l1 >= 0):
            raise OptionError(f"l1 is {self.l1}, expected a finite number of at least 0")
        if self.l1 > 0 and self.method != "lbfgs":
            raise OptionError(f"l1 needs method 'lbfgs', not {self.method!r}")
        for name in ("min_count", "patience"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.jackknife is not None and self.jackknife < 2:
            raise OptionError(f"jackknife is {self.jackknife}, expected at least 2 folds")
        if self.seed < 0:
            raise OptionError(f"seed is {self.seed}, expected at least 0")
        if self.max_iterations is not None and self.max_iterations < 1:
            raise OptionError(f"max_iterations is {self.max_iterations}, expected at least 1")

    @property
    def iteration_limit(self) -> int:
        """`max_iterations`, or what is usual for the method."""
        return self.max_iterations or _DEFAULT_ITERATIONS[self.method]


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
