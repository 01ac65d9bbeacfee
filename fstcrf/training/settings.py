"""Settings of objectives and optimisers: structs whose fields have a range and a description.

A field has the form ``memory: Annotated[int, Meta(ge=1, description="steps that are kept")] = 10``.
Checks, the command line and the tables of the docs are derived from it; `Needs` lists other options
that must be set for it to be read. Names in backquotes are options.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.training.optimiser import Objective, Optimiser
from fstcrf.training.problem import ParameterSpace, Problem

P = TypeVar("P", bound="Penalised")

_KINDS = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}


@dataclass(frozen=True, eq=False)
class Needs:
    """A condition on other options for a field to be read, and its description."""

    holds: Callable[[Mapping[str, Any]], bool]
    text: str


FROM_ZERO = "is for the stochastic epochs of a run that starts from zero, not from start="
"""Description for `Needs` of these options."""


_TOO_LARGE = 1 << 63  # limit of the training record in a model file


@dataclass(frozen=True)
class SettingField:
    """One setting: its range, its meaning, its default."""

    name: str
    kind: Any
    default: Any
    meta: Meta
    needs: tuple[Needs, ...] = ()

    @property
    def types(self) -> tuple[Any, ...]:
        """The types of its values, without `None`."""
        if get_origin(self.kind) is Literal:
            return (self.kind,)
        return tuple(k for k in get_args(self.kind) or (self.kind,) if k is not type(None))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The allowed values, if it is a choice."""
        return get_args(self.types[0]) if get_origin(self.types[0]) is Literal else ()

    @property
    def optional(self) -> bool:
        """Whether it may be `None`."""
        return type(None) in get_args(self.kind)

    @property
    def described_kind(self) -> str:
        """Description of the type: a number, one of some strings."""
        if self.choices:
            return f"one of {', '.join(map(repr, self.choices))}"
        return " or ".join(_KINDS[kind] for kind in self.types)

    @property
    def described_range(self) -> str:
        """Description of the range of numbers."""
        number = "a finite number" if float in self.types else ""
        if self.meta.gt is not None:
            return f"{number} above {self.meta.gt}".strip()
        if self.meta.ge is not None:
            return f"{number} of at least {self.meta.ge}" if number else f"at least {self.meta.ge}"
        return number

    def checked(self, value: Any) -> Any:
        """Return a value, converted to its type.

        Raises
        ------
        OptionError
            The value is of another type, or out of range.
        """
        try:
            converted = msgspec.convert(value, self.kind)
        except (msgspec.ValidationError, UnicodeEncodeError):
            raise OptionError(f"{self.name} is {value!r}, expected {self.described_kind}") from None
        if (
            isinstance(converted, int | float)
            and not isinstance(converted, bool)
            and not self.choices
        ):
            low, above = self.meta.ge, self.meta.gt
            within = (low is None or converted >= low) and (above is None or converted > above)
            if not (math.isfinite(converted) and within):
                raise OptionError(f"{self.name} is {value}, expected {self.described_range}")
            if isinstance(converted, int) and converted >= _TOO_LARGE:
                raise OptionError(f"{self.name} is {value}, expected a number below 2⁶³")
        return converted


_KNOWN: dict[type, dict[str, SettingField]] = {}


def fields_of(settings: type) -> dict[str, SettingField]:
    """Return the annotated fields of a struct by their names."""
    annotated = _KNOWN.get(settings)
    if annotated is None:
        annotated = _KNOWN.setdefault(settings, dict(_read(settings)))
    return annotated


def _read(settings: type) -> Iterator[tuple[str, SettingField]]:
    hints = get_type_hints(settings, include_extras=True)
    for field in fields(settings):
        if get_origin(hints[field.name]) is Annotated:
            kind, meta, *needs = get_args(hints[field.name])
            yield field.name, SettingField(field.name, kind, field.default, meta, tuple(needs))


def spoken(value: object) -> str:
    """Return a value in readable form: 1e-5, 0.5, 1000, wolfe."""
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A struct of settings; creating one checks its fields.

    `fields_set` has the names of the fields that the caller set.
    """

    name: ClassVar[str]
    flat_names: ClassVar[Mapping[str, str]] = {}  # the option's name outside the struct, if another
    fields_set: ClassVar[frozenset[str]] = frozenset()  # each struct shadows it

    def __init_subclass__(cls) -> None:
        """Keep the short `__repr__`, which `dataclass` replaces unless the class has it."""
        if "__repr__" not in vars(cls):
            cls.__repr__ = Settings.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Return the call with the fields that are set: ``Chain(order=2)``."""
        names = [field.name for field in fields(self) if field.name in self.fields_set]
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    def __new__(cls, *positional: object, **named: object) -> Self:
        """Remember which fields are set."""
        struct = super().__new__(cls)
        first = [field.name for field in fields(cls) if field.init and not field.kw_only]
        names = frozenset((*first[: len(positional)], *named))
        object.__setattr__(struct, "fields_set", names)
        return struct

    def __post_init__(self) -> None:
        for field in fields_of(type(self)).values():
            object.__setattr__(self, field.name, field.checked(getattr(self, field.name)))


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """The input of an optimiser: problem, parameters, start.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [space.size]
        Initial weights.
    objective : ObjectiveSettings
    seed, threads : int
    """

    problem: Problem
    space: ParameterSpace
    theta: Floats
    objective: ObjectiveSettings
    seed: int = 0
    threads: int = 1


class ObjectiveSettings(Settings, ABC):
    """Settings of an objective, for any method of training."""

    @abstractmethod
    def function(self, run: TrainingRun, l2: float) -> Objective:
        """Return the objective of a run."""


MaxIterations: TypeAlias = Annotated[int, Meta(ge=1, description="most iterations")]


@dataclass(frozen=True, kw_only=True)
class Iterating(Settings):
    """Settings of iterations."""

    max_iterations: MaxIterations = 1000


class MethodSettings(Iterating, ABC):
    """Settings of an optimiser, which they make."""

    @property
    def free_of_units(self) -> bool:
        """Whether the result of a run is independent of the units of feature values."""
        return False

    @abstractmethod
    def optimiser(self, run: TrainingRun) -> Optimiser:
        """Return the optimiser of a run."""

    def memory_of(self, run: TrainingRun) -> int | None:
        """Return the peak memory of a run, in bytes; `None` if it is not estimated."""
        del run
        return None


Delta: TypeAlias = Annotated[
    float,
    Meta(ge=0, description="stop when `period` iterations gained less than X times the objective"),
]


@dataclass(frozen=True, kw_only=True)
class Penalised(Iterating):
    """Settings of methods for a penalised objective."""

    l2: Annotated[
        float, Meta(ge=0, description="strength of the penalty l2 · |weights|² (CRFsuite's c2)")
    ] = 0.5
    delta: Delta = 1e-5
    period: Annotated[int, Meta(ge=1, description="iterations that `delta` looks back")] = 10


def divided(settings: P, unit: float) -> P:
    """Return settings with penalties divided by `unit`."""
    names = [name for name in ("l1", "l2") if name in fields_of(type(settings))]
    return replace(settings, **{name: getattr(settings, name) / unit for name in names})


def gained_little(values: Sequence[float], settings: Penalised) -> bool:
    """Return whether the last `period` values are hardly below the previous one."""
    if len(values) <= settings.period:
        return False
    old, new = values[-settings.period - 1], values[-1]
    return old - new < settings.delta * abs(new)


@dataclass(frozen=True, kw_only=True)
class Converging(Penalised):
    """Settings of methods whose iterations use all sentences."""

    epsilon: Annotated[
        float, Meta(ge=0, description="stop when |gradient| < X · max(1, |weights|)")
    ] = 1e-5
