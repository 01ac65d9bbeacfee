"""CRFsuite's training parameters: names, types, defaults, and their meaning in fstcrf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fstcrf.errors import OptionError
from fstcrf.training.options import DEFAULTS, is_read

Value = int | float | bool | str

_UNLIMITED = 2**31 - 1
_LINE_SEARCHES = {
    "MoreThuente": "wolfe",
    "Backtracking": "backtracking",
    "StrongBacktracking": "strong-backtracking",
}
_PA_VARIANTS = {0: "PA", 1: "PA-I", 2: "PA-II"}
_ORDINARY_PERIOD = 10


def flag(value: object) -> bool:
    """Return a switch, which is 0 or 1 in CRFsuite."""
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
    """A parameter of an algorithm."""

    name: str  # as CRFsuite calls it
    read: Callable[[Any], Value]  # A value in any form → value; raises ValueError
    default: Value
    option: str  # the option of `CRF.train` that it sets
    help: str
    becomes: Callable[[Any], Any] | None = None  # value → value of that option


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm."""

    method: str  # as `CRF.train` calls it, and the short name in CRFsuite
    title: str  # in logs of CRFsuite
    parameters: dict[str, Parameter]
    names: tuple[str, ...] = ()  # other names


# Name, parser, default, option of `CRF.train`, help, conversion to that option.
_SHARED = (
    Parameter("feature.minfreq", float, 0.0, "min_frequency",
        "Features (attribute and label, or label and label) that occur less often are left out."),
    Parameter("feature.possible_states", flag, False, "pairs",  # noqa: FBT003
        "Weights for all pairs of attribute and label, not only for those that occur.",
        {False: "supported", True: "complete"}.get),
    Parameter("feature.possible_transitions", flag, False, "transitions",  # noqa: FBT003
        "Weights for all pairs of labels, not only for those that occur.",
        {False: "observed", True: "all"}.get),
)  # fmt: skip
_C2 = Parameter("c2", float, 1.0, "l2", "Coefficient of L2 regularisation: c2 · |weights|².")


def _epsilon(text: str, default: float = 0.0) -> Parameter:
    return Parameter("epsilon", float, default, "epsilon", text)


def _epochs(limit: int) -> Parameter:
    return Parameter("max_iterations", _whole, limit, "max_iterations", "At most so many epochs.")


def _stopping(what: str, delta: float) -> tuple[Parameter, Parameter]:
    text = "Stop when the last `period` lowered the objective by less than this, relatively."
    return (
        Parameter("period", _whole, 10, "period", f"How many {what} are compared by delta."),
        Parameter("delta", float, delta, "delta", text),
    )


_LBFGS = (
    *_SHARED,
    Parameter("c1", float, 0.0, "l1", "Coefficient of L1 regularisation: c1 · Σ|weight|."),
    _C2,
    # 0 means no limit.
    Parameter("max_iterations", _whole, _UNLIMITED, "max_iterations",
        "At most so many iterations.", lambda n: n or _UNLIMITED),
    Parameter("num_memories", _whole, 6, "memory", "Pairs of vectors that L-BFGS keeps."),
    _epsilon("Stop when |gradient| is less than this times |weights|.", 1e-5),
    *_stopping("iterations", 1e-5),
    Parameter("linesearch", _line_search, "MoreThuente", "line_search",
        "Line search: MoreThuente (strong Wolfe conditions), Backtracking (Wolfe condition) or "
        "StrongBacktracking (strong Wolfe condition).", _LINE_SEARCHES.get),
    Parameter("max_linesearch", _whole, 20, "max_line_search", "At most so many trials a search."),
)  # fmt: skip
_L2SGD = (
    *_SHARED,
    _C2,
    _epochs(1000),
    *_stopping("epochs", 1e-6),
    Parameter("calibration.eta", float, 0.1, "calibration_rate", "First learning rate to try."),
    Parameter("calibration.rate", float, 2.0, "calibration_factor",
        "Factor between one learning rate that is tried and the next."),
    Parameter("calibration.samples", _counted, 1000.0, "calibration_sentences",
        "Sequences on which learning rates are tried.", int),
    Parameter("calibration.candidates", _whole, 10, "calibration_candidates",
        "Learning rates that are to do well before the search for a better one ends."),
    Parameter(
        "calibration.max_trials", _whole, 20, "calibration_trials", "At most so many trials."
    ),
)  # fmt: skip
_AP = (*_SHARED, _epochs(100), _epsilon("Stop when the share of wrong labels is less than this."))
_MEAN_LOSS = _epsilon("Stop when the mean loss of a sequence is less than this.")
_PA = (
    *_SHARED,
    Parameter("type", _variant, 1, "pa_variant",
        "0: PA, no slack; 1: PA-I, linear slack; 2: PA-II, quadratic slack.", _PA_VARIANTS.get),
    Parameter("c", float, 1.0, "aggressiveness", "Aggressiveness: weight of the slack."),
    Parameter("error_sensitive", flag, True, "error_sensitive",  # noqa: FBT003
        "The cost of a labelling grows with the number of its wrong labels."),
    Parameter("averaging", flag, True, "averaging",  # noqa: FBT003
        "Take the average of the weights over all updates."),
    _epochs(100),
    _MEAN_LOSS,
)  # fmt: skip
_AROW = (
    *_SHARED,
    Parameter("variance", float, 1.0, "variance", "Variance of each weight at the start."),
    Parameter("gamma", float, 1.0, "gamma", "Loss against change of the weights."),
    _epochs(100),
    _MEAN_LOSS,
)


def _algorithm(
    method: str, title: str, parameters: tuple[Parameter, ...], *names: str
) -> Algorithm:
    return Algorithm(method, title, {known.name: known for known in parameters}, names)


ALGORITHMS = {
    known.method: known
    for known in (
        _algorithm("lbfgs", "L-BFGS optimization", _LBFGS),
        _algorithm("l2sgd", "Stochastic Gradient Descent (SGD)", _L2SGD),
        _algorithm("ap", "Averaged perceptron", _AP, "averaged-perceptron"),
        _algorithm("pa", "Passive Aggressive", _PA, "passive-aggressive"),
        _algorithm("arow", "Adaptive Regularization of Weights (AROW)", _AROW),
    )
}


def algorithm(name: str, kind: str = "crf1d") -> Algorithm:
    """Return an algorithm by any of its names, in any case."""
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
        found["stochastic_epochs"] = 0  # all iterations are L-BFGS iterations, as logs state
    if values.get("period") == 0:  # CRFsuite's notation for: only epsilon ends training
        found["period"], found["delta"] = _ORDINARY_PERIOD, 0.0
    every = {**DEFAULTS, **found}  # CRFsuite ignores the line search with an L1 penalty
    return {name: value for name, value in found.items() if is_read(name, every)}
