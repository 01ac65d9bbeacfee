"""The parts of a ``.grm`` file as they are written: statements and expressions, with lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Argument",
    "Call",
    "Concatenation",
    "Definition",
    "Difference",
    "Expression",
    "File",
    "Function",
    "Name",
    "Number",
    "Option",
    "Repetition",
    "Text",
    "Union",
    "Weight",
    "Weighted",
]


@dataclass(frozen=True, slots=True)
class Text:
    """Text in quotes: a sequence of labels in brackets, or a name of a constraint's argument.

    ``raw`` is what stands between the quotes, backslashes included.
    """

    raw: str
    line: int


@dataclass(frozen=True, slots=True)
class Name:
    """A defined name, a parameter, or a constraint without arguments."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number, as an argument."""

    value: int
    line: int


@dataclass(frozen=True, slots=True)
class Weight:
    """A cost as an argument: that of each violation."""

    cost: float
    line: int


@dataclass(frozen=True, slots=True)
class Option:
    """A named argument: ``tape=chunk``."""

    name: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class Call:
    """A class of labels, a constraint, or a function of the file, with its arguments."""

    name: str
    arguments: tuple[Argument, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Concatenation:
    """One after the other."""

    parts: tuple[Expression, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Union:
    """Any of these."""

    parts: tuple[Expression, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The left one where the right one is not."""

    left: Expression
    right: Expression
    line: int


@dataclass(frozen=True, slots=True)
class Repetition:
    """From `low` to `high` times; None for any number."""

    part: Expression
    low: int
    high: int | None
    line: int


@dataclass(frozen=True, slots=True)
class Weighted:
    """An expression with a cost."""

    part: Expression
    cost: float
    line: int


Expression: TypeAlias = (
    Text | Name | Call | Concatenation | Union | Difference | Repetition | Weighted
)
Argument: TypeAlias = Expression | Number | Weight | Option


@dataclass(frozen=True, slots=True)
class Definition:
    """A name and what it stands for."""

    name: str
    value: Expression
    export: bool
    line: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its parameters, definitions of its own, and its value."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Definition, ...]
    value: Expression
    line: int


@dataclass(frozen=True, slots=True)
class File:
    """A file: the tapes it reads and its statements in order. `path` is None for text."""

    path: str | None
    tapes: tuple[str, ...]
    statements: tuple[Definition | Function, ...]
