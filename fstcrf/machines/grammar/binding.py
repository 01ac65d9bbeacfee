"""Binds the exports of a ``.grm`` file to label sets; errors name the place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from fstcrf.arrays import Bools
from fstcrf.errors import GrammarError, TooLargeError
from fstcrf.lazy import LazyModule
from fstcrf.machines.grammar import syntax
from fstcrf.machines.grammar.acceptor import Acceptor, is_empty, minimise, only_empty, trim
from fstcrf.machines.grammar.labels import LabelSets, Matching, nearest, only_tape
from fstcrf.machines.grammar.regular import (
    Bound,
    Constrained,
    Ranged,
    Regular,
    Symbol,
    compiled,
    has_scores,
    leaves,
    parts,
    rebuilt,
    writes,
)
from fstcrf.machines.grammar.syntax import Place

relations = LazyModule("fstcrf.machines.relations")  # it imports this module


@dataclass(frozen=True, slots=True)
class Export:
    """An exported name of a file and its value."""

    name: str
    value: Regular
    place: Place

    def error(self, message: str) -> GrammarError:
        """Return the error of this export."""
        return self.place.error(f"export {self.name}{message}")

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Add the place of this export to errors without a place."""
        try:
            yield
        except TooLargeError as error:
            message = f" is too large: {error}"
            if has_scores(self.value):
                message += (
                    "; are there two ways to read the same labels in a loop at different costs?"
                )
            message += (
                "; a transducer need not be deterministic: lattice @ Transducer.from_grammar(...)"
            )
            raise self.error(message) from None
        except GrammarError as error:
            if error.line is not None:
                raise
            raise self.error(f": {error}") from None


def bound_export(
    export: Export, tapes: tuple[str, ...], short: str, sets: LabelSets
) -> tuple[Acceptor, ...]:
    """Return the acceptors of an export over label sets; every error has a place."""
    binding = Binding(tapes, sets)
    title = f"{short}:{export.place.line}: {export.name}"
    with export.errors_named():
        value = binding.expanded(export.value)
        binding = binding.writing(value)
        value = binding.turned(value)
        acceptors = binding.acceptors(value, title)
        if binding.written:
            acceptors = tuple(map(binding.of_labels, acceptors))
    if any(map(is_empty, acceptors)):
        missing = binding.nothing(value)
        # An export may accept only the empty labelling on purpose, but not because classes have no
        # labels.
        if missing or not all(map(only_empty, filter(is_empty, acceptors))):
            raise export.error(f" accepts no sentence{missing}")
    return acceptors


@dataclass(frozen=True, slots=True)
class Binding:
    """The label sets of a binding, and how expressions of a file use them."""

    tapes: tuple[str, ...]  # tapes that the file names
    sets: LabelSets
    # output symbols of relations that are not labels: the only tape may have them as well
    written: tuple[str, ...] = ()

    def resolved(self, value: Regular) -> Regular:
        """Return an expression without sets of symbols and without input, output or invert."""
        value = self.expanded(value)
        return self.writing(value).turned(value)

    def expanded(self, value: Regular) -> Regular:
        """Return an expression in which sets of symbols are expanded."""

        def new(part: Regular) -> Regular | None:
            return part.expand(tuple(self._symbols(part))) if isinstance(part, Ranged) else None

        return _replaced(value, new, Ranged)

    def turned(self, value: Regular) -> Regular:
        """Return an expression in which input and output sides of relations are acceptors."""

        def new(part: Regular) -> Regular | None:
            if not isinstance(part, syntax.Turned) or part.side == "invert":
                return None
            tape, symbols = self.read()[0], self.symbols()
            machine = relations.relation(self.turned(part.part), self)
            return Bound(relations.acceptor(machine, part.side, tape, symbols), part.place)

        return _replaced(value, new, syntax.Turned)

    def writing(self, value: Regular) -> Binding:
        """Return the binding with all output symbols of the relations in an expression."""
        crosses = [part for part in parts(value) if isinstance(part, syntax.Cross)]
        if not crosses:
            return self
        labels = self.sets[self.read()[0]]
        written = {
            name: None
            for cross in crosses
            for leaf in leaves(cross.right)
            if isinstance(leaf, Symbol)
            for _, name in leaf.fields
            if isinstance(name, str) and name not in labels
        }
        return replace(self, written=tuple(written))

    def of_labels(self, acceptor: Acceptor) -> Acceptor:
        """Return an acceptor restricted to labels."""
        labels = self.sets[self.read()[0]]
        size = len(labels)
        score = None if acceptor.score is None else acceptor.score[:, :size]
        target = acceptor.target[:, :size]
        return minimise(trim(replace(acceptor, labels=(labels,), target=target, score=score)))

    def _symbols(self, ranged: Ranged) -> list[str]:
        """Return the symbols of a set that depends on the labels, in their order."""
        tape = self.read()[0] if ranged.tape is None else only_tape(self.sets, ranged.tape)
        pattern, labels = re.compile(ranged.pattern), self.sets[tape]
        if ranged.kind == "values":
            matches = [one for label in labels for one in pattern.finditer(label)]
        else:
            matches = [one for label in labels if (one := pattern.fullmatch(label))]
        group = 1 if pattern.groups and ranged.kind != "label" else 0
        symbols = list(dict.fromkeys(one[group] for one in matches if one[group] is not None))
        if not symbols:
            raise ranged.place.error(
                f'no label has a part that matches "{ranged.pattern}"'
                f"{nearest(ranged.pattern, labels)}"
            )
        return symbols

    def symbols(self) -> tuple[str, ...]:
        """Return all symbols that the only tape may have."""
        labels = self.sets[self.read()[0]]
        return (*labels, *(x for x in self.written if x not in labels))

    def acceptors(self, value: Regular, title: str) -> tuple[Acceptor, ...]:
        """Return the acceptors of an expression; several constraints have one acceptor each."""
        if all(isinstance(part, Constrained | syntax.Intersection) for part in parts(value)):
            held = (part for part in parts(value) if isinstance(part, Constrained))
            acceptors = tuple(one for part in held for one in self.part(part))
            several = len(acceptors) > 1
            return tuple(
                replace(one, name=f"{title}: {one.name}" if several else title) for one in acceptors
            )
        read = self.read()
        labels = (self.symbols(),) if self.written else tuple(self.sets[tape] for tape in read)
        return (compiled(value, read, labels, self.flags, self.part, title),)

    def read(self) -> tuple[str, ...]:
        """Return the tapes whose labels the file's symbols are."""
        if len(self.tapes) < 2:
            return (only_tape(self.sets, self.tapes[0] if self.tapes else None),)
        return tuple(only_tape(self.sets, tape) for tape in self.tapes)

    def part(self, part: Constrained) -> tuple[Acceptor, ...]:
        """Return the acceptors of a constraint within an expression."""
        try:
            sets = {self.read()[0]: self.symbols()} if self.written else self.sets
            return part.constraint.bind(sets)
        except GrammarError as error:
            if error.line is not None:
                raise
            raise part.place.error(str(error)) from None

    def flags(self, symbol: Symbol) -> Bools:
        """Return the tuples of labels that match a symbol: bool [A], last tape fastest."""
        read = self.read()
        chosen = dict(symbol.fields)
        axes = [
            self._of(chosen.get(tape, chosen.get(None)), self._labels(name), symbol)
            for tape, name in zip(self.tapes or (None,), read, strict=True)
        ]
        return reduce(np.logical_and.outer, axes).reshape(-1)

    def _labels(self, tape: str) -> tuple[str, ...]:
        return self.symbols() if self.written else self.sets[tape]

    def _of(self, label: str | Matching | None, labels: tuple[str, ...], symbol: Symbol) -> Bools:
        if label is None:
            return np.ones(len(labels), dtype=bool)
        if isinstance(label, Matching):
            return np.asarray([label.matches(candidate) for candidate in labels])
        if label not in labels:
            hint = nearest(label, labels)
            if any(_matches(label, x) for x in labels):
                hint = f'; a regular expression is written label["{label}"]'
            if symbol.filled:
                hint += f'; where there need not be one, write label["..."], here label["{label}"]'
            raise symbol.place.error(f"no label {label!r}{hint}")
        return np.asarray([candidate == label for candidate in labels])

    def nothing(self, value: Regular) -> str:
        """Return the classes of an expression that have no labels, for the end of a message."""
        patterns = [
            label.pattern
            for leaf in leaves(value)
            if isinstance(leaf, Symbol) and not self.flags(leaf).any()
            for _, label in leaf.fields
            if isinstance(label, Matching)
        ]
        shown = ", ".join(f'label["{pattern}"]' for pattern in dict.fromkeys(patterns))
        return f"; no label is in {shown}" if shown else ""


def _matches(pattern: str, label: str) -> bool:
    try:
        return re.fullmatch(pattern, label) is not None
    except (re.error, OverflowError, RecursionError):
        return False


def _replaced(
    value: Regular,
    new: Callable[[Regular], Regular | None],
    kind: type[Ranged | syntax.Turned[Any]],
) -> Regular:
    """Return an expression with parts replaced by `new`; shared parts remain shared."""
    if not any(isinstance(part, kind) for part in parts(value)):
        return value
    replaced: dict[int, Regular] = {}
    kept: list[Regular] = []  # keeps objects alive while their ids are used

    def of(part: Regular) -> Regular:
        if id(part) not in replaced:
            other = new(part)
            replaced[id(part)] = rebuilt(part, of) if other is None else _replaced(other, new, kind)
            kept.append(part)
        return replaced[id(part)]

    try:
        return of(value)
    except RecursionError:
        raise value.place.error(syntax.DEEP) from None


def together(several: Sequence[Regular], place: Place, *, intersection: bool) -> Regular:
    """Return the union of several expressions, or their intersection."""
    if not intersection:
        return several[0] if len(several) == 1 else syntax.Union(tuple(several), place)
    if any(map(writes, several)):
        raise place.error(
            "the intersection over a set contains a relation: expected expressions "
            "that write nothing"
        )
    value = several[0]
    for part in several[1:]:
        value = syntax.Intersection(value, part, place)
    return value
