"""Checks of options, so that what is wrong is said before anything is sampled."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, get_args

from fstcrf.errors import NumericError, OptionError

__all__ = ["each_a", "finite", "number", "one_of", "whole_number"]


def one_of(name: str, given: object, known: Any) -> None:
    """Check an option against a literal type."""
    if given not in get_args(known):
        expected = ", ".join(map(repr, get_args(known)))
        raise OptionError(f"{name} is {given!r}, expected one of {expected}")


def whole_number(name: str, given: object, least: int) -> None:
    """Check a whole number."""
    if not isinstance(given, Integral) or int(given) < least:
        raise OptionError(f"{name} is {given!r}, expected a whole number, at least {least}")


def number(name: str, given: object) -> None:
    """Check a number."""
    if not isinstance(given, Real):
        raise OptionError(f"{name} is {given!r}, expected a number")


def finite(name: str, given: object) -> float:
    """Return a number as a float."""
    number(name, given)
    try:
        found = float(given)  # type: ignore[arg-type]
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise NumericError(f"{name} is {found}, expected a finite number")
    return found


def each_a(name: str, given: Iterable[object], *kinds: type) -> None:
    """Check the types of several things."""
    for one in given:
        if not isinstance(one, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise OptionError(f"{name} has {one!r}, expected {expected}")
