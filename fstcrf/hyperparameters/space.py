"""Trials, and the space that they are taken from: values of options, templates."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fstcrf.corpus import Corpus
from fstcrf.errors import OptionError, TemplateError
from fstcrf.features import TemplateSet
from fstcrf.features.template import as_templates, is_template_text, tape_column
from fstcrf.model.options import DEFAULTS, is_read

if TYPE_CHECKING:
    import optuna

__all__ = [
    "Choice",
    "Outcome",
    "Point",
    "Range",
    "Space",
    "StepReport",
    "Template",
    "Trial",
    "check_templates",
    "has_strength",
    "named",
]

Outcome = Literal["complete", "stopped", "diverged"]


@dataclass(frozen=True, slots=True)
class Trial:
    """Options that were tried, and how they did.

    Parameters
    ----------
    number : int
        From 1.
    options : mapping of str to value
        Options of `CRF.train` that were searched, or given one value where others were searched.
    template : str or None
        Name of the template.
    score : float or None
        On held-out data, in [0, 1]: of a trial that was stopped, the last one; None of one that
        diverged before there was any.
    outcome : {"complete", "stopped", "diverged"}
        A trial is stopped where others did better at the same point.
    steps : int
        Iterations of training; with folds, the folds that were trained.
    seconds : float
    """

    number: int
    options: Mapping[str, Any]
    template: str | None
    score: float | None
    outcome: Outcome
    steps: int
    seconds: float


# --- The templates that there are to choose from --------------------------------------------------

Template = TemplateSet | str | os.PathLike[str]


def check_templates(
    templates: Mapping[str, TemplateSet],
    data: Any,
    target: str | Sequence[Sequence[str]],
    tapes: Sequence[str],
) -> None:
    """Refuse at once what only a later trial would stumble over.

    Raises
    ------
    OptionError
        Columns without a template, or attribute lists with one.
    TemplateError
        A column that is not there, or the target itself.
    """
    if not isinstance(data, Corpus):
        if templates:
            raise OptionError("a template needs columns, not attribute lists")
        return
    if not templates:
        raise OptionError("columns need a feature template: template='chunking.tpl'")
    columns = [*data.columns, *map(tape_column, tapes)]
    for name, template in templates.items():
        resolved = template.resolved(columns, data=data.source)
        if isinstance(target, str) and target in resolved.columns:
            raise TemplateError(f"{name}: a template reads the target column {target!r} itself")


def named(
    template: Template | Sequence[Template] | Mapping[str, Template] | None,
) -> dict[str, TemplateSet]:
    """Return templates by name, read.

    Raises
    ------
    OptionError
        One of them is given twice.
    TemplateError, OSError
        One that cannot be read.
    """
    if template is None:
        return {}
    if isinstance(template, Mapping):
        given = [(str(name), one) for name, one in template.items()]
    else:
        single = isinstance(template, TemplateSet | str | os.PathLike)
        several: Sequence[Any] = [template] if single else list(template)  # type: ignore[arg-type]
        given = [(_name(one, i), one) for i, one in enumerate(several, 1)]
    names = [name for name, _ in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"template {twice[0]} is given twice")
    return {name: as_templates(one) for name, one in given}


def _name(template: Template, number: int) -> str:
    if isinstance(template, TemplateSet) or is_template_text(template):
        return str(number)
    return os.fspath(template)


# --- What there is to choose from -----------------------------------------------------------------

# A point leaves these options out where its method does not read them; others are for all methods.
_STRENGTHS = ("l2", "l1", "aggressiveness", "variance", "gamma")

_DIGITS = 3  # of numbers that are drawn: more would look like knowledge


class Range(NamedTuple):
    """Numbers from `low` to `high`, as likely between 0.01 and 0.1 as between 0.1 and 1."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"


StepReport = Callable[[int, float], None]
"""Hears (step, score so far) of a trial, and may raise to stop it."""

Choice = float | int | str | bool | None | Range
Point = dict[str, Any]


@dataclass(frozen=True)
class Space:
    """The values that each option may have.

    Parameters
    ----------
    choices : mapping of str to tuple
        Values of each option of training, ranges among them; ``template`` the names of templates.
        ``method`` is there.

    Raises
    ------
    OptionError
        An option without a value, a range that is none, an option that no method reads, or nothing
        to choose between.
    """

    choices: Mapping[str, tuple[Choice, ...]]

    def __post_init__(self) -> None:
        for name, choices in self.choices.items():
            if not choices:
                raise OptionError(f"{name} has no value to try")
            for choice in choices:
                if isinstance(choice, Range):
                    _check_range(name, choice)
            self._check_reader(name)
        if self.size == 1:
            raise OptionError(
                "there is nothing to choose: every option has one value; give several, or a range"
            )

    def _check_reader(self, name: str) -> None:
        methods = self.choices["method"]
        if not any(has_strength(name, str(method)) for method in methods):
            known = ", ".join(map(repr, methods))
            raise OptionError(f"{name} is given, and is no option of method {known}")

    @property
    def size(self) -> int | None:
        """The number of points; None where there is a range."""
        if any(isinstance(choice, Range) for name in self.choices for choice in self.choices[name]):
            return None
        return sum(1 for _ in self.points())

    @property
    def varied(self) -> tuple[str, ...]:
        """The options that there is a choice of."""
        return tuple(
            name
            for name, choices in self.choices.items()
            if len(choices) > 1 or isinstance(choices[0], Range)
        )

    def names(self, method: str) -> list[str]:
        """Return the options that a method reads."""
        return [name for name in self.choices if has_strength(name, method)]

    def points(self) -> Iterator[Point]:
        """Yield every combination; a range stands for its start."""
        for method in self.choices["method"]:
            names = self.names(str(method))
            lists = [[method] if n == "method" else self.choices[n] for n in names]
            for values in itertools.product(*lists):
                yield {n: _number(n, v) for n, v in zip(names, values, strict=True)}

    def sides(self) -> Iterator[Point]:
        """Yield points in which each value occurs at least once, for checks."""
        for method in self.choices["method"]:
            names = self.names(str(method))
            first = {n: _number(n, self.choices[n][0]) for n in names} | {"method": method}
            yield first
            for name in names:
                if name != "method":
                    yield from (first | {name: _number(name, v)} for v in self.choices[name][1:])

    def start(self) -> Point:
        """Return the point nearest to the defaults of training: where a search begins."""
        method = _usual("method", self.choices["method"])
        point = {}
        for name in self.names(str(method)):
            point[name] = _number(name, _usual(name, self.choices[name]))
        return point

    def fixed(self, point: Point) -> dict[str, Any]:
        """Return a point as parameters of optuna."""
        found: dict[str, Any] = {}
        for name, value in point.items():
            choices = self.choices[name]
            place = next(i for i, choice in enumerate(choices) if _holds(choice, value))
            if len(choices) > 1:
                found[name] = str(choices[place])
            if isinstance(choices[place], Range):
                found[f"{name} in {choices[place]}"] = value
        return found

    def suggested(self, trial: optuna.Trial) -> Point:
        """Return the point that optuna suggests."""
        method = self._value(trial, "method")
        return {
            name: method if name == "method" else self._value(trial, name)
            for name in self.names(str(method))
        }

    def _value(self, trial: optuna.Trial, name: str) -> Any:
        choices = self.choices[name]
        choice = choices[0]
        if len(choices) > 1:
            labels = [str(c) for c in choices]
            choice = choices[labels.index(trial.suggest_categorical(name, labels))]
        if not isinstance(choice, Range):
            return choice
        drawn = trial.suggest_float(f"{name} in {choice}", choice.low, choice.high, log=True)
        return min(max(float(f"{drawn:.{_DIGITS}g}"), choice.low), choice.high)

    def __str__(self) -> str:
        return "; ".join(f"{n} {','.join(map(str, c))}" for n, c in self.choices.items())


def has_strength(name: str, method: str) -> bool:
    """Tell whether a method reads an option of strength; of other options it is true."""
    return name not in _STRENGTHS or is_read(name, {**DEFAULTS, "method": method})


def _check_range(name: str, given: Range) -> None:
    if not 0 < given.low < given.high < math.inf:
        raise OptionError(
            f"{name} is the range {given}, expected two numbers above 0, the smaller one first"
        )


def _usual(name: str, choices: tuple[Choice, ...]) -> Choice:
    """Return the choice that holds the default of an option, else the first."""
    usual = DEFAULTS.get(name)
    return next((c for c in choices if _holds(c, usual)), choices[0])


def _number(name: str, choice: Choice) -> Any:
    """Return a value; of a range the default of the option, or the middle."""
    if not isinstance(choice, Range):
        return choice
    usual = DEFAULTS.get(name)
    if _holds(choice, usual):
        return usual
    middle = math.sqrt(choice.low * choice.high)
    return min(max(float(f"{middle:.{_DIGITS}g}"), choice.low), choice.high)


def _holds(choice: Choice, value: Any) -> bool:
    if isinstance(choice, Range):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and choice.low <= value <= choice.high
    return choice == value and isinstance(choice, bool) == isinstance(value, bool)
