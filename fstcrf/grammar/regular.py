"""Regular expressions over labels, names and functions resolved, not yet bound to label sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from fstcrf.grammar.grammar import Grammar
from fstcrf.grammar.reading import Matching

__all__ = [
    "Choice",
    "Part",
    "Regular",
    "Scored",
    "Sequence",
    "Symbol",
    "Times",
    "Without",
    "has_scores",
    "leaves",
]


@dataclass(frozen=True, eq=False, slots=True)
class Symbol:
    """One token: for each tape that matters its label, or the class of its labels.

    The tape is None where only one is read.
    """

    fields: tuple[tuple[str | None, str | Matching], ...]
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """What a constraint accepts."""

    grammar: Grammar
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Sequence:
    """One after the other; without parts, the empty sequence."""

    parts: tuple[Regular, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """Any of these."""

    parts: tuple[Regular, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Without:
    """The left one where the right one is not."""

    left: Regular
    right: Regular


@dataclass(frozen=True, eq=False, slots=True)
class Times:
    """From `low` to `high` times; None for any number."""

    part: Regular
    low: int
    high: int | None


@dataclass(frozen=True, eq=False, slots=True)
class Scored:
    """An expression with a natural-log score."""

    part: Regular
    score: float


Regular: TypeAlias = Symbol | Part | Sequence | Choice | Without | Times | Scored


def leaves(expression: Regular) -> Iterator[Symbol | Part]:
    """Yield each symbol and constraint of an expression once, however often it is used."""
    for part in _parts(expression):
        if isinstance(part, Symbol | Part):
            yield part


def has_scores(expression: Regular) -> bool:
    """Tell whether an expression scores some of its sequences itself, not by a constraint."""
    return any(isinstance(part, Scored) for part in _parts(expression))


def _parts(expression: Regular) -> Iterator[Regular]:
    seen: set[int] = set()
    stack = [expression]
    while stack:
        here = stack.pop()
        if id(here) not in seen:
            seen.add(id(here))
            yield here
            stack.extend(reversed(_children(here)))


def _children(expression: Regular) -> tuple[Regular, ...]:
    match expression:
        case Sequence(parts) | Choice(parts):
            return parts
        case Without(left, right):
            return left, right
        case Times(part) | Scored(part):
            return (part,)
        case _:
            return ()
