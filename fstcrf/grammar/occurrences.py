"""Constraints on what occurs in a sentence: how often, in which order, where.

A *name* in them is

- a label of the set: it occurs at every token that has it;
- otherwise a type: it occurs where a span of that type begins, once a span;
- ``label("B-.*")``, a class: the labels that the regular expression matches as a whole;
- ``spans("NP")``: the spans of a type, also where a label is called ``NP``;
- a list of these: each of them occurs.

Spans are read as conlleval reads them, which understands all schemes of B, I, E, S (L, U) and
repairs labels that break them. ``scheme=`` names another; with None there are no types.

All are hard, or soft with ``weight=``: then each violation adds that natural-log score. ``tape=``
names the tape where there are several.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.corpus.schemes import Scheme
from fstcrf.errors import OptionError
from fstcrf.grammar import rules
from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.constraint import checked_weight
from fstcrf.grammar.grammar import Grammar
from fstcrf.grammar.labels import LabelSets, only_tape
from fstcrf.grammar.monitor import Rule, monitor
from fstcrf.grammar.reading import ANY, Flags, Names, Reading, SchemeName, Spans, frozen, shown

__all__ = [
    "at_least",
    "at_most",
    "before",
    "contiguous",
    "end_with",
    "exactly",
    "never",
    "requires",
    "start_with",
]

MAX_COUNT = 10_000
"""A count is a state, and machines of so many states that are a chain take seconds to bind."""


def at_most(
    k: int,
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """At most k occurrences; softly, each further one is a violation.

    Examples
    --------
    >>> once = at_most(1, "NP").bound(["O", "B-NP", "I-NP"])
    >>> once.accepts(["B-NP", "I-NP", "O"]), once.accepts(["B-NP", "O", "B-NP"])
    (True, False)
    """
    return _counting(f"at_most({k}, ", rules.at_most, k, name, _How(tape, scheme, weight))


def at_least(
    k: int,
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """At least k occurrences; softly, each missing one is a violation."""
    return _counting(f"at_least({k}, ", rules.at_least, k, name, _How(tape, scheme, weight))


def exactly(
    k: int,
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """Exactly k occurrences; softly, each further or missing one is a violation."""
    return _counting(f"exactly({k}, ", rules.exactly, k, name, _How(tape, scheme, weight))


def before(
    first: Names,
    second: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """No occurrence of the first after one of the second; either may be absent.

    Softly, each occurrence of the first that comes too late is a violation.
    """
    return _about("before(", rules.before(), [first, second], _How(tape, scheme, weight))


def requires(
    name: Names,
    other: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """Where the first name occurs in a sentence, the other does too, before it or after it.

    Softly, a sentence with the first and without the other is one violation.
    """
    return _about("requires(", rules.requires(), [name, other], _How(tape, scheme, weight))


def never(
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """No token has such a label, or a label of such a type; softly, each one is a violation."""
    how = _How(tape, scheme, weight, tokens=True)
    return _about("never(", rules.never(), [name], how)


def start_with(
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """Begin with such a label, or a label of such a type."""
    how = _How(tape, scheme, weight, tokens=True)
    return _about("start_with(", rules.start_with(), [name], how)


def end_with(
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """End with such a label, or a label of such a type."""
    how = _How(tape, scheme, weight, tokens=True)
    return _about("end_with(", rules.end_with(), [name], how)


def contiguous(
    labels: Names = ANY,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """Each of these labels in at most one run of tokens, each type in at most one span.

    A span label stands for its type here: ``contiguous(["O", "B-NP", "I-NP"])`` is one span of NP.
    ``O`` never counts. Each label, or type, is an acceptor of its own. Softly, each run after the
    first is a violation. With ``scheme=None``, labels such as ``B-NP`` are labels like any other.
    """
    how, chosen = _How(tape, scheme, checked_weight(weight)), frozen(labels)
    once = rules.at_most(1)

    def build(sets: LabelSets) -> tuple[Acceptor, ...]:
        reading = how.reading(sets)
        return tuple(
            how.monitored(
                f'contiguous("{unit.type if isinstance(unit, Spans) else unit}")',
                once,
                sets,
                [reading.runs(unit)],
            )
            for unit in reading.units(chosen)
        )

    return Grammar.of(f"contiguous({'' if chosen == ANY else shown(chosen)})", build)


@dataclass(frozen=True, slots=True)
class _How:
    """What all of these constraints may be told beyond what they are about."""

    tape: str | None
    scheme: Scheme | str | None
    weight: float | None
    tokens: bool = False
    """Look at every token, not only where spans begin."""

    def reading(self, sets: LabelSets) -> Reading:
        return Reading.of(sets[only_tape(sets, self.tape)], self.scheme)

    def events(self, names: Sequence[Names], sets: LabelSets) -> list[Flags]:
        reading = self.reading(sets)
        if not self.tokens:
            return [reading.occurrences(name) for name in names]
        times = (len(reading.labels) + 1, 1)
        return [np.tile(reading.members(name), times) for name in names]

    def monitored(
        self, title: str, rule: Rule, sets: LabelSets, events: Sequence[Flags]
    ) -> Acceptor:
        tape = only_tape(sets, self.tape)
        return monitor(rule, events, tape, sets[tape], self.weight, title)


def _counting(what: str, rule: Callable[[int], Rule], k: int, name: Names, how: _How) -> Grammar:
    try:
        count = operator.index(k)
    except TypeError:
        count = -1
    if not 0 <= count <= MAX_COUNT:
        raise OptionError(f"{what}…): expected a whole number from 0 to {MAX_COUNT}")
    return _about(what, rule(count), [name], how)


def _about(what: str, rule: Rule, names: Sequence[Names], how: _How) -> Grammar:
    chosen = [frozen(name) for name in names]
    title = f"{what}{', '.join(shown(name) for name in chosen)})"
    checked_weight(how.weight)

    def build(sets: LabelSets) -> tuple[Acceptor, ...]:
        return (how.monitored(title, rule, sets, how.events(chosen, sets)),)

    return Grammar.of(title, build)
