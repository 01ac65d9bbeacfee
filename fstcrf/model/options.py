"""The options of training, and the record of a run: both are stored in the model.

================  ==============================================================
Options           checked options
DEFAULTS          their names, and what they are when they are not given
checked_options   keyword arguments as `Options`
options_of        the same, backwards
not_there         what to say of a name that is none
TrainingRecord    what was trained, on what, and how it went
================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from fstcrf.corpus.schemes import scheme_pair
from fstcrf.errors import OptionError
from fstcrf.model.readers import BATCH_METHODS, METHODS, check_read, is_read

__all__ = [
    "DEFAULTS",
    "Options",
    "TrainingRecord",
    "checked_options",
    "not_there",
    "options_of",
]

_DEFAULT_ITERATIONS = {
    **dict.fromkeys(BATCH_METHODS, 1000),
    "l2sgd": 1000,
    "gpd": 30,
    "ap": 100,
    "pa": 100,
    "arow": 100,
    "perceptron": 10,
}
_DEFAULT_EPSILON = dict.fromkeys(BATCH_METHODS, 1e-5)
_DEFAULT_DELTA = {**dict.fromkeys(BATCH_METHODS, 1e-5), "l2sgd": 1e-6, "gpd": 1e-6}

_ABOVE_ZERO = (
    "aggressiveness",
    "variance",
    "gamma",
    "calibration_rate",
    "steepness",
    "psi",
    "f_gamma",
    "halving",
)
_COUNTS = (
    "candidates",
    "min_count",
    "patience",
    "max_iterations",
    "period",
    "memory",
    "max_line_search",
    "preconditioned",
    "batch",
    "calibration_sentences",
    "calibration_candidates",
    "calibration_trials",
)


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of training, as they are stored in the model."""

    order: Literal[0, 1, 2] = 1
    objective: Literal["likelihood", "mce", "mce-f"] = "likelihood"
    method: Literal[
        "lbfgs",
        "cg",
        "preconditioned-cg",
        "mixed-cg",
        "gis",
        "quickprop",
        "l2sgd",
        "gpd",
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
    on_illegal: Literal["error", "repair", "skip"] = "error"
    start_label: str | None = None
    ends: bool = False
    partial: bool = True
    jackknife: int | None = None
    passing: Literal["best", "nbest", "marginals"] = "best"
    candidates: int = 5
    max_iterations: int | None = None
    patience: int = 10
    seed: int = 0
    epsilon: float | None = None
    delta: float | None = None
    period: int = 10
    memory: int = 10
    line_search: Literal["wolfe", "backtracking", "strong-backtracking"] = "wolfe"
    max_line_search: int = 20
    preconditioned: int = 20
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
    smoothing: Literal["sigmoid", "logistic"] = "sigmoid"
    steepness: float = 1.0
    offset: float = 0.0
    psi: float | None = None
    competitors: Literal["mean", "sum"] = "mean"
    f_gamma: float = 1.0
    growth: float = 1.75
    batch: int = 8
    halving: float = 5.0

    def __post_init__(self) -> None:
        self._check_objective()
        self._check_numbers()
        self._check_bounds()
        if self.jackknife is not None and self.jackknife < 2:
            raise OptionError(f"jackknife is {self.jackknife}, expected at least 2 folds")
        if self.seed < 0:
            raise OptionError(f"seed is {self.seed}, expected at least 0")

    def _check_objective(self) -> None:
        """Refuse a method that does not train the objective."""
        methods = METHODS[self.objective]
        if self.method == "gpd" and self.method not in methods:
            raise OptionError("method 'gpd' is for objective 'mce' or 'mce-f'; take 'l2sgd'")
        if self.method not in methods:
            known = ", ".join(map(repr, methods))
            raise OptionError(
                f"objective {self.objective!r} is trained by {known}, not {self.method!r}"
            )

    def _check_numbers(self) -> None:
        for name in ("l1", "l2", "epsilon", "delta"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < np.inf:
                raise OptionError(f"{name} is {value}, expected a finite number of at least 0")
        for name in _ABOVE_ZERO:
            value = getattr(self, name)
            if value is not None and not 0.0 < value < np.inf:
                raise OptionError(f"{name} is {value}, expected a finite number above 0")
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"{name} is {value}, expected at least 1")
        if self.stochastic_epochs is not None and self.stochastic_epochs < 0:
            raise OptionError(f"stochastic_epochs is {self.stochastic_epochs}, expected at least 0")

    def _check_bounds(self) -> None:
        for name in ("calibration_factor", "growth"):
            value = getattr(self, name)
            if not 1.0 < value < np.inf:
                raise OptionError(f"{name} is {value}, expected a number above 1")
        if not np.isfinite(self.offset):
            raise OptionError(f"offset is {self.offset}, expected a finite number")
        if self.min_frequency is not None and not np.isfinite(self.min_frequency):
            raise OptionError(f"min_frequency is {self.min_frequency}, expected a finite number")

    @property
    def schemes(self) -> tuple[str, str] | None:
        """The scheme of the gold labels and that of the model; None where none is named."""
        return None if self.scheme in (None, "observed") else scheme_pair(str(self.scheme))

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


DEFAULTS: Mapping[str, Any] = {f.name: f.default for f in msgspec.structs.fields(Options)}
"""The options of training and their defaults."""


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was trained, on what, and how it went.

    With the templates, which the index keeps, it says how to train the model again: `target` is
    the column of the labels (None where they were given as lists), `class_weights` the weights of
    sentences by label. `run` is the fingerprint of data and options: two models have the same where
    one run went further than the other.
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
    run: str | None = None


def checked_options(given: Mapping[str, Any]) -> Options:
    """Return keyword arguments as options.

    Raises
    ------
    OptionError
        An unknown option, scheme, or value outside what it may be; an option that the objective,
        the method or other options leave unread.
    """
    unknown = sorted(set(given) - set(Options.__struct_fields__))
    if unknown:
        known = Options.__struct_fields__
        raise OptionError(
            f"unknown training option {unknown[0]!r}; {not_there(unknown[0], known, known)}"
        )
    for name, value in given.items():
        _check_kind(name, value)
    try:
        found = msgspec.convert(dict(given), Options)
    except msgspec.ValidationError as error:
        raise OptionError(f"training options: {error}") from None
    if found.schemes is None and found.on_illegal != "error":
        raise OptionError(f"on_illegal {found.on_illegal!r} needs a scheme: scheme 'iob2'")
    check_read([n for n, v in given.items() if v is not None], msgspec.structs.asdict(found))
    return found


def options_of(settings: Options) -> dict[str, Any]:
    """Return the options that make such a run: what it reads and is not as usual."""
    values = msgspec.structs.asdict(settings)
    return {n: v for n, v in values.items() if v != DEFAULTS[n] and is_read(n, values)}


def not_there(name: str, known: Collection[str], shown: Collection[str]) -> str:
    """Return what to say of a name that is none: which are like it, else which there are.

    Parameters
    ----------
    name : str
    known : collection of str
        The names there are.
    shown : collection of str
        Those that are told where none is like it.
    """
    import difflib  # noqa: PLC0415 (only mistakes need it)

    near = difflib.get_close_matches(name, known, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"there are {', '.join(shown)}"


_KINDS = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}


def _check_kind(name: str, value: object) -> None:
    """Check that a value is of the kind of its option.

    Raises
    ------
    OptionError
        It is not; says what it may be.
    """
    kind = _hints()[name]
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise OptionError(f"{name} is {value!r}, expected {_spoken(kind)}") from None


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Options)


def _spoken(kind: Any) -> str:
    """Return what a value of a kind is: a number, one of some texts."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    return " or ".join(_KINDS[one] for one in get_args(kind) or (kind,) if one in _KINDS)
