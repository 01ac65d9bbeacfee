"""Which options of training a run reads, by its objective, its method and its other options.

================  ==================================================================
METHODS           objective → the methods that train it
is_read           does a run read an option
check_read        refuse options that were given and are not read
check_given       the same of those that taggers, held-out data or a start decide
================  ==================================================================

What is given and not read would be ignored in silence. An option that is not in the tables here is
read by every run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from fstcrf.errors import OptionError

__all__ = ["BATCH_METHODS", "METHODS", "check_given", "check_read", "is_read"]

_CONJUGATE = ("cg", "preconditioned-cg", "mixed-cg")
BATCH_METHODS = ("lbfgs", *_CONJUGATE, "gis", "quickprop")
"""Methods whose steps take all sentences."""

_ERRORS = ("lbfgs", "quickprop", "gpd")

METHODS: Mapping[str, tuple[str, ...]] = {
    "likelihood": (*BATCH_METHODS, "l2sgd", "ap", "pa", "arow", "perceptron"),
    "mce": _ERRORS,
    "mce-f": _ERRORS,
}
"""Objective → the methods that train it."""

_Readers = Mapping[str, tuple[str, ...]]
_MCE: _Readers = {"mce": _ERRORS}


def _of(likelihood: tuple[str, ...] = (), errors: tuple[str, ...] = ()) -> _Readers:
    return {"likelihood": likelihood, "mce": errors, "mce-f": errors}


_CALIBRATION = (
    "calibration_rate",
    "calibration_factor",
    "calibration_sentences",
    "calibration_candidates",
    "calibration_trials",
)
_EPOCHS = ("batch", "halving")  # of gpd

_READ_BY: Mapping[str, _Readers] = {
    "l2": _of((*BATCH_METHODS, "l2sgd"), _ERRORS),
    "l1": _of(("lbfgs",)),
    "epsilon": _of((*BATCH_METHODS, "ap", "pa", "arow"), ("lbfgs", "quickprop")),
    **dict.fromkeys(("delta", "period"), _of((*BATCH_METHODS, "l2sgd"), _ERRORS)),
    **dict.fromkeys(("memory", "line_search"), _of(("lbfgs",), ("lbfgs",))),
    "max_line_search": _of(("lbfgs", *_CONJUGATE), ("lbfgs",)),
    "preconditioned": _of(("mixed-cg",)),
    "growth": _of(("quickprop",), ("quickprop",)),
    "stochastic_epochs": _of(("lbfgs",), ("lbfgs", "quickprop")),
    **dict.fromkeys(_CALIBRATION, _of(("l2sgd",), _ERRORS)),
    **dict.fromkeys(_EPOCHS, _of((), _ERRORS)),
    **dict.fromkeys(("pa_variant", "aggressiveness", "error_sensitive", "averaging"), _of(("pa",))),
    **dict.fromkeys(("variance", "gamma"), _of(("arow",))),
    **dict.fromkeys(("steepness", "offset"), _of((), _ERRORS)),
    **dict.fromkeys(("smoothing", "psi", "competitors"), _MCE),
    "f_gamma": {"mce-f": _ERRORS},
}
"""Option → objective → the methods that read it; the options that are not here all methods read."""


def _without_l1(values: Mapping[str, Any]) -> bool:
    return bool(values["l1"] == 0)


def _with_epochs(values: Mapping[str, Any]) -> bool:
    return values["method"] not in ("lbfgs", "quickprop") or values["stochastic_epochs"] != 0


_NEEDS: Mapping[str, tuple[Callable[[Mapping[str, Any]], bool], str]] = {
    "line_search": (_without_l1, "a run without l1: OWL-QN has a line search of its own"),
    "stochastic_epochs": (_without_l1, "a run without l1: OWL-QN begins without them"),
    **dict.fromkeys(
        (*_CALIBRATION, *_EPOCHS),
        (_with_epochs, "stochastic_epochs above 0, or method 'gpd': it is about their steps"),
    ),
    "aggressiveness": (
        lambda values: values["pa_variant"] != "PA",
        "pa_variant 'PA-I' or 'PA-II', not 'PA'",
    ),
    "competitors": (
        lambda values: values["psi"] is not None,
        "a finite psi: without one only the best counts",
    ),
    "candidates": (lambda values: values["passing"] == "nbest", "passing 'nbest', not {passing!r}"),
    "start_label": (lambda values: values["order"] == 2, "order 2, not {order}"),
    "transitions": (lambda values: values["order"] != 0, "an order above 0"),
}
"""Option → what other options must be for it to be read, and how that is said."""


def is_read(name: str, values: Mapping[str, Any]) -> bool:
    """Tell whether a run reads an option.

    Parameters
    ----------
    name : str
    values : mapping of str to value
        Of all options, with their defaults.
    """
    return _unread(name, values) is None


def check_read(given: Collection[str], values: Mapping[str, Any]) -> None:
    """Refuse options that were given and that the run does not read.

    Parameters
    ----------
    given : collection of str
        Names of the options that were given; defaults are not.
    values : mapping of str to value
        Of all options.

    Raises
    ------
    OptionError
        Names the methods, the objectives or the other options that it needs.
    """
    for name in values:
        needed = _unread(name, values) if name in given else None
        if needed is not None:
            raise OptionError(f"{name} needs {needed}")


def _unread(name: str, values: Mapping[str, Any]) -> str | None:
    """Return what an option needs, for it to be read; None where it is."""
    objective, method = values["objective"], values["method"]
    readers = _READ_BY.get(name)
    if readers is not None:
        methods = readers.get(objective, ())
        if not methods:
            objectives = _either(o for o in METHODS if readers.get(o))
            return f"objective {objectives}, not {objective!r}"
        if method not in methods:
            return f"method {_either(methods)}, not {method!r}"
    holds, text = _NEEDS.get(name, (None, ""))
    return None if holds is None or holds(values) else text.format_map(values)


def _either(names: Any) -> str:
    return " or ".join(map(repr, names))


def check_given(
    given: Collection[str],
    values: Mapping[str, Any],
    *,
    reads: bool,
    dev: bool,
    warm_start: bool,
) -> None:
    """Refuse options that were given for what is not there.

    Parameters
    ----------
    given : collection of str
        Names of the options that were given.
    values : mapping of str to value
        Of all options.
    reads, dev, warm_start : bool
        Are earlier taggers read; is there held-out data; does the run start from a model.

    Raises
    ------
    OptionError
        They say how labels are passed on where none are read, when held-out data ends training
        where there is none, or how a run from zero begins where it starts from a model.
    """
    for name in ("jackknife", "passing", "candidates"):
        if name in given and values[name] not in (None, "best") and not reads:
            raise OptionError(f"{name} is for the taggers of reads=, and there are none")
    if "patience" in given and not dev:
        raise OptionError("patience is for the held-out data of dev=, and there is none")
    if not warm_start or values["method"] not in ("lbfgs", "quickprop"):
        return
    begins: tuple[str, ...] = ()
    if values["objective"] == "likelihood":
        begins = ("stochastic_epochs",)
    elif values["stochastic_epochs"] is None:  # asked for, they are made there, too
        begins = (*_CALIBRATION, *_EPOCHS)
    for name in begins:
        if name in given:
            raise OptionError(
                f"{name} is for the stochastic epochs of a run that starts from zero, "
                "not from warm_start"
            )
