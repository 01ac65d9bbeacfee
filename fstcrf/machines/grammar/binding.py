"""Label sets put into what a ``.grm`` file exports; errors name its line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from fstcrf.arrays import Bools
from fstcrf.errors import GrammarError, TooLargeError
from fstcrf.machines.grammar.acceptor import Acceptor, is_empty, only_empty
from fstcrf.machines.grammar.labels import LabelSets, Matching, nearest, only_tape
from fstcrf.machines.grammar.regular import (
    Constrained,
    Regular,
    Symbol,
    compiled,
    has_scores,
    leaves,
)


@dataclass(frozen=True, slots=True)
class Export:
    """An exported name of a file and its value."""

    name: str
    value: Regular
    line: int


def bound_export(
    export: Export, tapes: tuple[str, ...], path: str | None, short: str, sets: LabelSets
) -> tuple[Acceptor, ...]:
    """Return the acceptors of an export over label sets; all errors with file and line."""
    binding = Binding(tapes, path, sets)
    title = f"{short}:{export.line}: {export.name}"
    try:
        acceptors = binding.acceptors(export.value, title)
    except TooLargeError as error:
        message = f"export {export.name} is too large: {error}"
        if has_scores(export.value):
            message += "; are there two ways to read the same labels in a loop at different costs?"
        raise GrammarError(message, path=path, line=export.line) from None
    except GrammarError as error:
        if error.line is not None:
            raise
        message = f"export {export.name}: {error}"
        raise GrammarError(message, path=path, line=export.line) from None
    if any(map(is_empty, acceptors)):
        missing = binding.nothing(export.value)
        # The empty labelling alone may be meant; what classes without labels leave is not.
        if missing or not all(map(only_empty, filter(is_empty, acceptors))):
            message = f"export {export.name} accepts no sentence{missing}"
            raise GrammarError(message, path=path, line=export.line)
    return acceptors


@dataclass(frozen=True, slots=True)
class Binding:
    """Label sets put into the expressions of a file."""

    tapes: tuple[str, ...]
    path: str | None
    sets: LabelSets

    def acceptors(self, value: Regular, title: str) -> tuple[Acceptor, ...]:
        """Return the acceptors of an expression; a constraint may have several."""
        if isinstance(value, Constrained):
            acceptors = self.part(value)
            several = len(acceptors) > 1
            return tuple(
                replace(one, name=f"{title}: {one.name}" if several else title) for one in acceptors
            )
        read = self.read()
        labels = tuple(self.sets[tape] for tape in read)
        return (compiled(value, read, labels, self.flags, self.part, title),)

    def read(self) -> tuple[str, ...]:
        """Return the tapes whose labels the symbols of the file are."""
        if len(self.tapes) < 2:
            return (only_tape(self.sets, self.tapes[0] if self.tapes else None),)
        return tuple(only_tape(self.sets, tape) for tape in self.tapes)

    def part(self, part: Constrained) -> tuple[Acceptor, ...]:
        """Return the acceptors of a constraint within an expression."""
        try:
            return part.constraint.bind(self.sets)
        except GrammarError as error:
            if error.line is not None:
                raise
            raise GrammarError(str(error), path=self.path, line=part.line) from None

    def flags(self, symbol: Symbol) -> Bools:
        """Return the tuples of labels that a symbol stands for: bool [A], last tape fastest."""
        read = self.read()
        chosen = dict(symbol.fields)
        axes = [
            self._of(chosen.get(tape, chosen.get(None)), self.sets[name], symbol.line)
            for tape, name in zip(self.tapes or (None,), read, strict=True)
        ]
        return reduce(np.logical_and.outer, axes).reshape(-1)

    def _of(self, label: str | Matching | None, labels: tuple[str, ...], line: int) -> Bools:
        if label is None:
            return np.ones(len(labels), dtype=bool)
        if isinstance(label, Matching):
            return np.asarray([label.matches(own) for own in labels])
        if label not in labels:
            message = f"no label {label!r}{nearest(label, labels)}"
            raise GrammarError(message, path=self.path, line=line)
        return np.asarray([own == label for own in labels])

    def nothing(self, value: Regular) -> str:
        """Return which classes of an expression have no labels, for the end of a message."""
        patterns = [
            label.pattern
            for leaf in leaves(value)
            if isinstance(leaf, Symbol) and not self.flags(leaf).any()
            for _, label in leaf.fields
            if isinstance(label, Matching)
        ]
        shown = ", ".join(f'label["{pattern}"]' for pattern in dict.fromkeys(patterns))
        return f"; no label is in {shown}" if shown else ""
