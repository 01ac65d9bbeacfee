"""CRFsuite's training parameters: names, types, defaults, and what each becomes in fstcrf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fstcrf.errors import OptionError
from fstcrf.model.options import DEFAULTS, is_read

__all__ = ["ALGORITHMS", "Algorithm", "Parameter", "algorithm", "flag", "options"]

Value = int | float | bool | str

_UNLIMITED = 2**31 - 1
_LINE_SEARCHES = {
    "MoreThuente": "wolfe",
    "Backtracking": "backtracking",
    "StrongBacktracking": "strong-backtracking",
}
_PA_VARIANTS = {0: "PA", 1: "PA-I", 2: "PA-II"}
_ORDINARY_PERIOD = 10


def flag(value: Any) -> bool:
    """Return a switch, which is 0 or 1 in CRFsuite.

    Raises
    ------
    ValueError
        Something else.
    """
    if str(value) not in {"0", "1", "True", "False"}:
        raise ValueError("expected True or False, 1 or 0")
    return str(value) in {"1", "True"}


def _whole(value: Any) -> int:
    """Return an int, also of a float that is one."""
    number = float(value)
    if number != int(number):
        raise ValueError("expected a whole number")
    return int(number)


def _counted(value: Any) -> float:
    """Return a whole number as a float, which is how python-crfsuite shows this one."""
    return float(_whole(value))


def _line_search(value: Any) -> str:
    if value not in _LINE_SEARCHES:
        raise ValueError(f"expected one of {', '.join(_LINE_SEARCHES)}")
    return str(value)


def _variant(value: Any) -> int:
    number = _whole(value)
    if number not in _PA_VARIANTS:
        raise ValueError("expected 0, 1 or 2")
    return number


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an algorithm.

    Parameters
    ----------
    name : str
        As CRFsuite calls it.
    read : callable
        A value in any form → value; raises ValueError.
    default : int, float, bool or str
    help : str
    option : str
        The option of `CRF.train` that it sets.
    becomes : callable, optional
        Value → value of that option.
    """

    name: str
    read: Callable[[Any], Value]
    default: Value
    help: str
    option: str
    becomes: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm.

    Parameters
    ----------
    method : str
        As `CRF.train` calls it, and the short name in CRFsuite.
    title : str
        In logs of CRFsuite.
    parameters : dict of str to Parameter
    names : tuple of str
        Other names.
    """

    method: str
    title: str
    parameters: dict[str, Parameter]
    names: tuple[str, ...] = ()


def _named(*parameters: Parameter) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in parameters}


_SHARED = (
    Parameter(
        "feature.minfreq",
        float,
        0.0,
        "Features (attribute and label, or label and label) that occur less often are left out.",
        "min_frequency",
    ),
    Parameter(
        "feature.possible_states",
        flag,
        False,  # noqa: FBT003 (a default)
        "Weights for all pairs of attribute and label, not only for those that occur.",
        "features",
        {False: "supported", True: "complete"}.get,
    ),
    Parameter(
        "feature.possible_transitions",
        flag,
        False,  # noqa: FBT003
        "Weights for all pairs of labels, not only for those that occur.",
        "transitions",
        {False: "observed", True: "all"}.get,
    ),
)
_C2 = Parameter("c2", float, 1.0, "Coefficient of L2 regularisation: c2 · |weights|².", "l2")


def _epsilon(text: str, default: float = 0.0) -> Parameter:
    return Parameter("epsilon", float, default, text, "epsilon")


def _iterations(limit: int, what: str) -> Parameter:
    # For L-BFGS 0 means no limit in CRFsuite.
    unlimited = limit == _UNLIMITED
    return Parameter(
        "max_iterations",
        _whole,
        limit,
        f"At most so many {what}.",
        "max_iterations",
        (lambda n: n or _UNLIMITED) if unlimited else None,
    )


def _period(what: str) -> Parameter:
    return Parameter("period", _whole, 10, f"How many {what} are compared by delta.", "period")


def _delta(default: float) -> Parameter:
    text = "Stop when the last `period` lowered the objective by less than this, relatively."
    return Parameter("delta", float, default, text, "delta")


_LBFGS = (
    *_SHARED,
    Parameter("c1", float, 0.0, "Coefficient of L1 regularisation: c1 · Σ|weight|.", "l1"),
    _C2,
    _iterations(_UNLIMITED, "iterations"),
    Parameter("num_memories", _whole, 6, "Pairs of vectors that L-BFGS keeps.", "memory"),
    _epsilon("Stop when |gradient| is less than this times |weights|.", 1e-5),
    _period("iterations"),
    _delta(1e-5),
    Parameter(
        "linesearch",
        _line_search,
        "MoreThuente",
        "Line search: MoreThuente (strong Wolfe conditions), Backtracking (Wolfe condition) or "
        "StrongBacktracking (strong Wolfe condition).",
        "line_search",
        _LINE_SEARCHES.get,
    ),
    Parameter("max_linesearch", _whole, 20, "At most so many trials a search.", "max_line_search"),
)
_L2SGD = (
    *_SHARED,
    _C2,
    _iterations(1000, "epochs"),
    _period("epochs"),
    _delta(1e-6),
    Parameter("calibration.eta", float, 0.1, "First learning rate to try.", "calibration_rate"),
    Parameter(
        "calibration.rate",
        float,
        2.0,
        "Factor between one learning rate that is tried and the next.",
        "calibration_factor",
    ),
    Parameter(
        "calibration.samples",
        _counted,
        1000.0,
        "Sequences on which learning rates are tried.",
        "calibration_sentences",
        int,
    ),
    Parameter(
        "calibration.candidates",
        _whole,
        10,
        "Learning rates that are to do well before the search for a better one ends.",
        "calibration_candidates",
    ),
    Parameter(
        "calibration.max_trials", _whole, 20, "At most so many trials.", "calibration_trials"
    ),
)
_AP = (
    *_SHARED,
    _iterations(100, "epochs"),
    _epsilon("Stop when the share of wrong labels is less than this."),
)
_MEAN_LOSS = "Stop when the mean loss of a sequence is less than this."
_PA = (
    *_SHARED,
    Parameter(
        "type",
        _variant,
        1,
        "0: PA, no slack; 1: PA-I, linear slack; 2: PA-II, quadratic slack.",
        "pa_variant",
        _PA_VARIANTS.get,
    ),
    Parameter("c", float, 1.0, "Aggressiveness: weight of the slack.", "aggressiveness"),
    Parameter(
        "error_sensitive",
        flag,
        True,  # noqa: FBT003
        "The cost of a labelling grows with the number of its wrong labels.",
        "error_sensitive",
    ),
    Parameter(
        "averaging",
        flag,
        True,  # noqa: FBT003
        "Take the average of the weights over all updates.",
        "averaging",
    ),
    _iterations(100, "epochs"),
    _epsilon(_MEAN_LOSS),
)
_AROW = (
    *_SHARED,
    Parameter("variance", float, 1.0, "Variance of each weight at the start.", "variance"),
    Parameter("gamma", float, 1.0, "Loss against change of the weights.", "gamma"),
    _iterations(100, "epochs"),
    _epsilon(_MEAN_LOSS),
)

ALGORITHMS = {
    "lbfgs": Algorithm("lbfgs", "L-BFGS optimization", _named(*_LBFGS)),
    "l2sgd": Algorithm("l2sgd", "Stochastic Gradient Descent (SGD)", _named(*_L2SGD)),
    "ap": Algorithm("ap", "Averaged perceptron", _named(*_AP), ("averaged-perceptron",)),
    "pa": Algorithm("pa", "Passive Aggressive", _named(*_PA), ("passive-aggressive",)),
    "arow": Algorithm("arow", "Adaptive Regularization of Weights (AROW)", _named(*_AROW)),
}


def algorithm(name: str, kind: str = "crf1d") -> Algorithm:
    """Return an algorithm by any of its names, in any case.

    Raises
    ------
    OptionError
        There is none of this name.
    """
    wanted = str(name).lower()
    for known in ALGORITHMS.values():
        if wanted in {known.method, *known.names} and kind == "crf1d":
            return known
    raise OptionError(
        f"algorithm {name!r} of type {kind!r}, expected one of {', '.join(ALGORITHMS)}, of 'crf1d'"
    )


def options(chosen: Algorithm, values: Mapping[str, Value]) -> dict[str, Any]:
    """Return values of parameters as options of `CRF.train`."""
    found: dict[str, Any] = {"method": chosen.method, "partial": False}
    for name, parameter in chosen.parameters.items():
        value = values[name]
        found[parameter.option] = value if parameter.becomes is None else parameter.becomes(value)
    if chosen.method == "lbfgs":
        found["stochastic_epochs"] = 0  # every iteration is one of L-BFGS, as logs say
    if values.get("period") == 0:  # CRFsuite's way to say that only epsilon ends training
        found["period"], found["delta"] = _ORDINARY_PERIOD, 0.0
    every = {**DEFAULTS, **found}  # CRFsuite ignores the line search where there is an L1 penalty
    return {name: value for name, value in found.items() if is_read(name, every)}
