"""The label sets that a grammar is bound to, and the meaning of names in constraints.

A name is a label, which tokens have, or a type, whose spans begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from fstcrf.arguments import LabelSet, closest, is_by_tape, label_tuple
from fstcrf.arrays import Bools
from fstcrf.errors import GrammarError, OptionError, printable
from fstcrf.lazy import made_once
from fstcrf.text.corpus.schemes import OUTSIDE, Scheme, named_scheme, split_label, succession_tables

Labels: TypeAlias = LabelSet | Mapping[str, LabelSet]
"""The labels of the only tape, or of each tape by name."""

LabelSets: TypeAlias = Mapping[str, tuple[str, ...]]


def label_sets(labels: Labels) -> dict[str, tuple[str, ...]]:
    """Return the label set of each tape; a single set belongs to the tape ``""``."""
    several: Any = labels if is_by_tape(labels) else {"": labels}
    sets: dict[str, tuple[str, ...]] = {}
    if not several:
        raise GrammarError("cannot bind the grammar: no tapes are given")
    for tape in several:
        on = f"tape {tape!r}: " if tape else ""
        sets[tape] = label_tuple(several[tape], place=on, error=GrammarError)
        if not sets[tape]:
            raise GrammarError(f"{on}cannot bind the grammar: the label set is empty")
    return sets


def only_tape(sets: LabelSets, tape: str | None) -> str:
    """Return the tape that a constraint reads: the named one, or the only one."""
    if len(sets) == 1 and (tape is None or "" in sets):
        return next(iter(sets))
    if tape is None:
        raise GrammarError(
            f"it does not name the tape that it reads, one of {listed(sets)}: give "
            "tape=..., or TAPE=FILE in the shell and in pipelines"
        )
    if tape not in sets:
        raise GrammarError(f"no tape {tape!r}; the tapes are {listed(sets)}")
    return tape


def nearest(name: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: known names that look similar."""
    candidates = list(dict.fromkeys(known))
    if close := closest(name, candidates, 3):
        return f"; the nearest are {listed(close)}"
    more = ", …" if len(candidates) > 8 else ""
    return f"; there are {listed(candidates[:8])}{more}"


def listed(names: Iterable[str]) -> str:
    """Return names in quotes, separated by commas."""
    return ", ".join(repr(name) for name in names)


# --- What a name means ----------------------------------------------------------------------------
# A label set is read under a tagging scheme. Its *span labels* are a letter of the scheme, a hyphen
# and a type: ``B-NP``, ``I-NP``. (A single letter such as ``B`` is a span label with the type
# ``""`` if every label of the set belongs to the scheme.) All others, including ``O``, are *plain*:
# they belong to no span and end the previous span.


@dataclass(frozen=True, slots=True)
class Matching:
    """The labels that a regular expression matches as a whole, within the label set.

    A constraint requires at least one such label, unless the class is optional.
    """

    pattern: str
    optional: bool = False

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise GrammarError(f"{self.pattern!r} is not a regular expression: {error}") from None

    def __str__(self) -> str:
        return f'{"optional" if self.optional else "label"}("{self.pattern}")'

    def matches(self, label: str) -> bool:
        """Return whether a label is in the class."""
        return re.fullmatch(self.pattern, label) is not None


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans of a type, even if a label has the same name."""

    type: str

    def __str__(self) -> str:
        return f'span("{self.type}")'


ANY = Matching("(?s:.*)")
"""Every label."""

Names: TypeAlias = str | Matching | Spans | Iterable["str | Matching | Spans"]
"""A label or type, a class of labels, the spans of a type, or a list of these."""


SchemeName: TypeAlias = str | Scheme | None


def label(pattern: str, *, optional: bool = False) -> Matching:
    """Return the class of labels that a regular expression matches as a whole.

    Parameters
    ----------
    pattern : str
    optional : bool
        Allow label sets without such a label.

    Raises
    ------
    GrammarError
        The pattern is not a regular expression.
    """
    return Matching(pattern, optional)


def span(kind: str) -> Spans:
    """Return the spans of a type, even if a label has the same name."""
    return Spans(kind)


def frozen(names: Names) -> str | Matching | Spans | tuple[str | Matching | Spans, ...]:
    """Return names in a form that can be iterated repeatedly."""
    if isinstance(names, str | Matching | Spans):
        return names
    value: object = names  # the caller may pass another type
    atomic = isinstance(value, bytes | bytearray) or not isinstance(value, Iterable)
    several: tuple[object, ...] = (value,) if atomic else tuple(cast("Iterable[object]", value))
    for name in several:
        if not isinstance(name, str | Matching | Spans):
            raise OptionError(
                f"{name!r} is no name: expected a label, a type, label(...), span(...), or a list"
            )
    return cast("tuple[str | Matching | Spans, ...]", several)


def shown(names: Names) -> str:
    """Return names in Python syntax."""
    if names == ANY:
        return "any"
    if isinstance(names, str):
        return printable(f'"{names}"')
    if isinstance(names, Matching | Spans):
        return printable(str(names))
    parts = [shown(name) for name in names]
    return "[" + ", ".join(parts[:4] + ["…"] * (len(parts) > 4)) + "]"


@dataclass(frozen=True)
class LabelReading:
    """A label set under a scheme."""

    labels: tuple[str, ...]
    scheme: Scheme | None  # `None`: every label is plain

    @classmethod
    def of(cls, labels: tuple[str, ...], scheme: str | Scheme | None) -> LabelReading:
        """Return the reading of labels under a scheme of this name."""
        return cls(labels, None if scheme is None else named_scheme(scheme))

    @made_once
    def parts(self) -> list[tuple[str, str] | None]:
        """Letter and type of each label; `None` for plain ones."""
        if self.scheme is None:
            return [None] * len(self.labels)
        split = [split_label(label, self.scheme) for label in self.labels]
        bare = all(letter in self.scheme.letters for letter, _ in split)
        return [
            (letter, kind) if letter in self.scheme.letters[1:] and (bare or "-" in label) else None
            for label, (letter, kind) in zip(self.labels, split, strict=True)
        ]

    @property
    def types(self) -> list[str]:
        """The types of spans, in order of appearance."""
        return list(dict.fromkeys(part[1] for part in self.parts if part is not None))

    @made_once
    def starts(self) -> Bools:
        """Whether a span begins: a label (column) after another one (row; last row: the start)."""
        size = len(self.labels)
        if self.scheme is None:
            return np.zeros((size + 1, size), dtype=bool)
        # Plain labels count as O.
        parts = [part or (OUTSIDE, "") for part in self.parts]
        typed = np.asarray([part is not None for part in self.parts])
        starts: Bools = succession_tables(parts, self.scheme)[0][:, :size] & typed
        return starts

    def units(self, names: Names) -> list[str | Spans]:
        """Return the plain labels and span types that names denote; never ``O``."""
        units: dict[str | Spans, None] = {}
        for name in _each(names):
            if isinstance(name, Spans):
                self._of_type(name.type)
                units[name] = None
                continue
            for i in np.flatnonzero(self.members(name)).tolist():
                part = self.parts[i]
                if part is not None:
                    units[Spans(part[1])] = None
                elif self.labels[i] != OUTSIDE:
                    units[self.labels[i]] = None
        return list(units)

    def runs(self, unit: str | Spans) -> Bools:
        """Return the beginnings of runs of a label, or of spans of a type: bool [L + 1, L]."""
        if isinstance(unit, Spans):
            return self.starts & self._of_type(unit.type)
        runs = np.zeros_like(self.starts)
        place = self.labels.index(unit)
        runs[:, place] = True
        runs[place, place] = False
        return runs

    def members(self, names: Names) -> Bools:
        """Return the labels that names denote, for a type all of its labels: bool [L]."""
        members = np.zeros(len(self.labels), dtype=bool)
        for name in _each(names):
            if isinstance(name, Matching):
                members |= self._of_class(name)
            elif isinstance(name, str) and name in self.labels:
                members[self.labels.index(name)] = True
            else:
                members |= self._of_type(name if isinstance(name, str) else name.type)
        return members

    def occurrences(self, names: Names) -> Bools:
        """Return the occurrences of names: a token of a label, or the first token of a span.

        An occurrence is at the second label, after the first one or at the start: bool [L + 1, L].
        """
        pairs = np.zeros_like(self.starts)
        for name in _each(names):
            if isinstance(name, Matching) or (isinstance(name, str) and name in self.labels):
                pairs |= self.members(name)
            else:
                kind = name if isinstance(name, str) else name.type
                pairs |= self.starts & self._of_type(kind)
        return pairs

    def _of_class(self, matching: Matching) -> Bools:
        members = np.asarray([matching.matches(label) for label in self.labels])
        if not members.any() and not matching.optional:
            close = nearest(matching.pattern, self.labels)
            raise GrammarError(f"no label matches {matching}{close}")
        return members

    def _of_type(self, kind: str) -> Bools:
        members = np.asarray([part is not None and part[1] == kind for part in self.parts])
        if not members.any():
            names = [*self.types, *self.labels]
            raise GrammarError(f"no label and no type {kind!r}{nearest(kind, names)}")
        return members


def _each(names: Names) -> list[str | Matching | Spans]:
    return [names] if isinstance(names, str | Matching | Spans) else list(names)
