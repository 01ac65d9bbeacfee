"""Names, functions and constraints of a ``.grm`` file resolved, before any label set is known.

A definition is used behind the place where it stands, and not in itself: then every expression is
regular. Costs become scores here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from fstcrf.errors import GrammarError, OptionError
from fstcrf.grammar import syntax
from fstcrf.grammar.builtin import CLASSES, CONSTRAINTS, Given, constrained
from fstcrf.grammar.grammar import Grammar
from fstcrf.grammar.reading import ANY, Matching, Names, Spans
from fstcrf.grammar.regular import (
    Choice,
    Part,
    Regular,
    Scored,
    Sequence,
    Symbol,
    Times,
    Without,
    has_scores,
)
from fstcrf.grammar.strings import cut, fields, plain

__all__ = ["Export", "expanded"]


@dataclass(frozen=True, slots=True)
class Export:
    """An exported name of a file and its value."""

    name: str
    value: Regular
    line: int


@dataclass(eq=False, slots=True)
class _Value:
    """An expression and the names that it sees; its meaning is found when it is asked for."""

    expression: syntax.Expression
    scope: Mapping[str, _Value | _Function]
    meaning: Regular | None = None


@dataclass(frozen=True, eq=False, slots=True)
class _Function:
    """A function and the names that its body sees."""

    function: syntax.Function
    scope: Mapping[str, _Value | _Function]


_Scope = Mapping[str, _Value | _Function]


def expanded(file: syntax.File) -> tuple[Export, ...]:
    """Return the exports of a file.

    Raises
    ------
    GrammarError
        A name that is not defined, or only later, or twice; arguments that do not fit; text that
        is no label; a file without exports.
    """
    return _Expansion(file).exports()


@dataclass(eq=False)
class _Expansion:
    file: syntax.File
    lines: dict[str, int] = field(default_factory=dict)

    def exports(self) -> tuple[Export, ...]:
        for statement in self.file.statements:
            self._check_new(statement.name, self.lines, statement.line)
            self.lines[statement.name] = statement.line
        scope: dict[str, _Value | _Function] = {}
        found: list[Export] = []
        for statement in self.file.statements:
            if isinstance(statement, syntax.Function):
                self._check_function(statement)
                scope[statement.name] = _Function(statement, dict(scope))
                continue
            value = _Value(statement.value, dict(scope))
            scope[statement.name] = value
            if statement.export:
                found.append(Export(statement.name, self.value(value), statement.line))
            elif not _only_names(statement.value):
                self.value(value)
        if not found:
            raise self.error("exports nothing; write: export NAME = ...;", None)
        return tuple(found)

    def _check_new(self, name: str, taken: Mapping[str, int], line: int) -> None:
        if name in CLASSES or name in CONSTRAINTS:
            raise self.error(f"{name!r} is built in; choose another name", line)
        if name in taken:
            raise self.error(f"{name!r} is defined twice, first in line {taken[name]}", line)

    def _check_function(self, function: syntax.Function) -> None:
        own: dict[str, int] = {}
        for name in function.parameters:
            self._check_new(name, own, function.line)
            own[name] = function.line
        for definition in function.body:
            self._check_new(definition.name, own, definition.line)
            own[definition.name] = definition.line

    def value(self, value: _Value) -> Regular:
        if value.meaning is None:
            value.meaning = self.regular(value.expression, value.scope)
        return value.meaning

    # --- As sets of label sequences --------------------------------------------------------------

    def regular(self, expression: syntax.Expression, scope: _Scope) -> Regular:
        found: Regular
        match expression:
            case syntax.Text(raw, line):
                found = self.labels(raw, line)
            case syntax.Name(name, line):
                found = self.named(name, scope, line)
            case syntax.Call():
                found = self.called(expression, scope)
            case syntax.Concatenation(parts):
                found = Sequence(tuple(self.regular(part, scope) for part in parts))
            case syntax.Union(parts):
                found = Choice(tuple(self.regular(part, scope) for part in parts))
            case syntax.Difference(left, right, line):
                taken = self.regular(right, scope)
                if has_scores(taken):
                    raise self.error("what stands behind a minus has weights", line)
                found = Without(self.regular(left, scope), taken)
            case syntax.Repetition(part, low, high):
                found = Times(self.regular(part, scope), low, high)
            case syntax.Weighted(part, cost):
                found = Scored(self.regular(part, scope), score_of(cost))
        return found

    def labels(self, raw: str, line: int) -> Regular:
        try:
            symbols = tuple(Symbol(fields(text, self.file.tapes), line) for text in cut(raw))
        except GrammarError as error:
            raise self.error(str(error), line) from None
        return symbols[0] if len(symbols) == 1 else Sequence(symbols)

    def named(self, name: str, scope: _Scope, line: int) -> Regular:
        if name == "any":
            return Symbol((), line)
        if name in CONSTRAINTS:
            return self.constraint(syntax.Call(name, (), line), scope)
        found = self.find(name, scope, line)
        if isinstance(found, _Function):
            raise self.error(f"{name!r} is a function: write {name}[...]", line)
        return self.value(found)

    def called(self, call: syntax.Call, scope: _Scope) -> Regular:
        if call.name in CONSTRAINTS:
            return self.constraint(call, scope)
        if call.name in ("label", "optional"):
            return self.matching(call)
        if call.name in CLASSES:
            raise self.error(f"{call.name!r} names no labels here, only in a constraint", call.line)
        found = self.find(call.name, scope, call.line)
        if isinstance(found, _Value):
            raise self.error(f"{call.name!r} is no function and takes no arguments", call.line)
        function = found.function
        if len(call.arguments) != len(function.parameters):
            raise self.error(
                f"{call.name} takes {len(function.parameters)} arguments, not "
                f"{len(call.arguments)}",
                call.line,
            )
        inner = dict(found.scope)
        for name, argument in zip(function.parameters, call.arguments, strict=True):
            if isinstance(argument, syntax.Number | syntax.Weight | syntax.Option):
                raise self.error(f"{call.name} takes expressions only", call.line)
            inner[name] = _Value(argument, scope)
        for definition in function.body:
            inner[definition.name] = _Value(definition.value, dict(inner))
        return self.regular(function.value, inner)

    def matching(self, call: syntax.Call) -> Symbol:
        match call.arguments:
            case (syntax.Text(raw),):
                pass
            case _:
                raise self.error(
                    f'{call.name} takes a regular expression in quotes: {call.name}["B-.*"]',
                    call.line,
                )
        try:
            found = fields(raw.replace('\\"', '"'), self.file.tapes, unescape=False)
            classes = tuple((tape, Matching(text)) for tape, text in found)
        except GrammarError as error:
            raise self.error(str(error), call.line) from None
        return Symbol(classes, call.line)

    def find(self, name: str, scope: _Scope, line: int) -> _Value | _Function:
        if name in scope:
            return scope[name]
        later = self.lines.get(name)
        if later is not None and later < line:
            raise self.error(
                f"{name!r} is used in its own definition; no grammar is recursive", line
            )
        if later is not None:
            raise self.error(
                f"{name!r} is defined in line {later}, behind or around its use; define it before",
                line,
            )
        known = [*scope, *CLASSES, *CONSTRAINTS]
        close = get_close_matches(name, known, n=3)
        hint = f"; the nearest are {', '.join(close)}" if close else ""
        raise self.error(f"{name!r} is not defined{hint}", line)

    # --- Constraints and their arguments ---------------------------------------------------------

    def constraint(self, call: syntax.Call, scope: _Scope) -> Part:
        tape = self.file.tapes[0] if len(self.file.tapes) == 1 else None
        folder = Path(self.file.path).parent if self.file.path else Path()
        given = Given([], {}, tape, folder)
        for argument in call.arguments:
            match argument:
                case syntax.Number(value):
                    given.values.append(value)
                case syntax.Weight(cost):
                    given.options["weight"] = score_of(cost)
                case syntax.Option(name, value):
                    given.options[name] = value
                case _:
                    given.values.append(self.argument(argument, scope, call.line))
        try:
            return Part(constrained(call.name, given), call.line)
        except (GrammarError, OptionError) as error:
            raise self.error(str(error), call.line) from None

    def argument(self, expression: syntax.Expression, scope: _Scope, line: int) -> Names | Grammar:
        names = self.names(expression, scope)
        if names is not None:
            return names
        value = self.regular(expression, scope)
        if not isinstance(value, Part):
            raise self.error(
                "expected labels, types, classes of labels, or a constraint here", line
            )
        return value.grammar

    def names(self, expression: syntax.Expression, scope: _Scope) -> Names | None:
        """Return the names that an expression stands for, None where it is something else."""
        found: Names | None = None
        match expression:
            case syntax.Text(raw, line):
                found = self.name_in(raw, line)
            case syntax.Name("any"):
                found = ANY
            case syntax.Name(name) if isinstance(value := scope.get(name), _Value):
                found = self.names(value.expression, value.scope)
            case syntax.Call("label" | "optional" as kind, (syntax.Text(raw),), line):
                found = self.checked_class(raw, line, optional=kind == "optional")
            case syntax.Call("spans", (syntax.Text(raw),)):
                found = Spans(plain(raw))
            case syntax.Union(parts):
                found = _together([self.names(part, scope) for part in parts])
        return found

    def checked_class(self, raw: str, line: int, *, optional: bool) -> Matching:
        try:
            return Matching(raw.replace('\\"', '"'), optional)
        except GrammarError as error:
            raise self.error(str(error), line) from None

    def name_in(self, raw: str, line: int) -> Names:
        if not raw.startswith("["):
            return plain(raw)
        try:
            texts = [plain(text) for text in cut(raw)]
        except GrammarError as error:
            raise self.error(str(error), line) from None
        if len(texts) != 1:
            raise self.error(f'"{raw}": expected one label here', line)
        return texts[0]

    def error(self, message: str, line: int | None) -> GrammarError:
        return GrammarError(message, path=self.file.path, line=line)


def _together(several: list[Names | None]) -> Names | None:
    flat: list[str | Matching | Spans] = []
    for names in several:
        if names is None:
            return None
        flat += [names] if isinstance(names, str | Matching | Spans) else list(names)
    return tuple(flat)


def score_of(cost: float) -> float:
    """Return the natural-log score of a cost, as OpenFst writes weights."""
    return 0.0 - cost


def _only_names(expression: syntax.Expression) -> bool:
    """Tell whether an expression is a name for constraints, or several: "NP" | "VP"."""
    match expression:
        case syntax.Text(raw):
            return not raw.startswith("[")
        case syntax.Union(parts):
            return all(_only_names(part) for part in parts)
        case syntax.Call("spans"):
            return True
        case _:
            return False
