"""Resolves names, functions, sets, imports and constraints of a ``.grm`` file to its exports.

A definition can be used only after it, and not in itself: then every expression is regular. Costs
become scores here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from fstcrf.arguments import LARGEST_SCORE, closest
from fstcrf.errors import DataError, GrammarError, OptionError
from fstcrf.files import check_regular, resolved
from fstcrf.machines.grammar import syntax
from fstcrf.machines.grammar.binding import Export, together
from fstcrf.machines.grammar.builtin import BUILT_IN, constrained
from fstcrf.machines.grammar.constraint import Constraint
from fstcrf.machines.grammar.labels import ANY, Matching, Names, Spans, listed, nearest
from fstcrf.machines.grammar.regular import Constrained, Ranged, Regular, Symbol, has_scores, writes
from fstcrf.machines.grammar.syntax import Place, cut, fields, filled, plain, read_text

MAX_EXPANDED = 50_000
"""Largest number of expressions from function calls of a file."""


# --- What names stand for -------------------------------------------------------------------------

_CLASSES = ("any", "label", "optional", "spans")
_TURNED: dict[str, syntax.Side] = {"input": "input", "output": "output", "invert": "invert"}
_SETS = ("label", "parts", "values")

_ELSEWHERE = {
    "CDRewrite": "make one by pynini.cdrewrite and read it by Transducer.from_fst",
    "Optimize": "every export is the smallest machine already",
    "Reverse": "Transducer.from_grammar(...).reverse() has it",
    "StringFile": "Transducer.from_pairs takes pairs of strings",
    "Closure": "write x*",
    "Concat": "write x y",
    "Difference": "write x - y",
    "Invert": "write invert[x]",
    "Union": "write x | y",
}


@dataclass(eq=False, slots=True)
class _Value:
    """An expression and its scope; its value is computed on demand."""

    expression: syntax.Expression
    scope: _Scope
    parameter: bool = False
    meaning: Regular | None = None
    names: Names | None = None  # names it denotes, if already computed


@dataclass(frozen=True, eq=False, slots=True)
class _Argument:
    """The argument of a parameter: a symbol, or a number."""

    value: str | int


@dataclass(frozen=True, eq=False, slots=True)
class _Function:
    """A function and its scope."""

    function: syntax.FunctionDefinition
    scope: _Scope


@dataclass(frozen=True, eq=False, slots=True)
class _Imported:
    """Another file: its exports and functions."""

    meanings: Mapping[str, _Meaning]


_OfOne: TypeAlias = syntax.Repetition[Any] | syntax.Weighted[Any] | syntax.Turned[Any]
_OfTwo: TypeAlias = (
    syntax.Intersection[Any] | syntax.Difference[Any] | syntax.Cross[Any] | syntax.Composition[Any]
)
_Meaning: TypeAlias = _Value | _Argument | _Function | _Imported


@dataclass(frozen=True, eq=False, slots=True)
class _Scope:
    """The names that can be used at one place.

    Places of one file share `names`, which grows: each place sees the names that existed when its
    scope was made. A function's body has local names before the surrounding ones.
    """

    names: dict[str, tuple[int, _Meaning]] = field(default_factory=dict)
    size: int = 0
    outer: _Scope | None = None

    def get(self, name: str) -> _Meaning | None:
        file, _, inner = name.partition(".")
        if inner:
            other = self.get(file)
            return other.meanings.get(inner) if isinstance(other, _Imported) else None
        number, meaning = self.names.get(name, (self.size, None))
        if number < self.size:
            return meaning
        return None if self.outer is None else self.outer.get(name)

    def with_name(self, name: str, meaning: _Meaning) -> _Scope:
        """Return the scope after a definition; only the latest scope of a file is extended."""
        self.names[name] = self.size, meaning
        return _Scope(self.names, self.size + 1, self.outer)

    def child(self) -> _Scope:
        """Return the scope of a function's body."""
        return _Scope(outer=self)

    def all_names(self) -> list[str]:
        names = list(self.names)[: self.size]
        for name in tuple(names):
            meaning = self.names[name][1]
            if isinstance(meaning, _Imported):
                names += [f"{name}.{inner}" for inner in meaning.meanings]
        return names if self.outer is None else [*names, *self.outer.all_names()]


@dataclass(eq=False)
class Expansion:
    """Computes the exports of a file."""

    file: syntax.File
    weights: Mapping[str, float] = field(default_factory=dict)  # of ``<?name>``; 0 for other names
    open_costs: bool = False  # costs may be ``<?>``
    importing: tuple[Path, ...] = ()  # the chain of importing files
    folder: Path | None = None  # of the first file
    folders: tuple[Path, ...] = ()  # other folders that imports may name
    # all imported files
    imports: dict[Path, tuple[syntax.File, _Imported]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    open_costs_met: dict[tuple[int, int], Place] = field(default_factory=dict)
    named_costs: dict[str, Place] = field(default_factory=dict)
    expanded: int = 0  # expressions in bodies of functions, counted per call

    def exports(self) -> tuple[Export, ...]:
        """Return the exports of the file."""
        exports = [
            Export(name, self._value(value), self.places[name])
            for name, value, export in self._defined()
            if export and isinstance(value, _Value)
        ]
        if not exports:
            message = "exports nothing; write: export NAME = ...;"
            raise GrammarError(message, path=self.file.path)
        return tuple(exports)

    def imported(self) -> _Imported:
        """Return the definitions that other files can use."""
        return _Imported({name: meaning for name, meaning, export in self._defined() if export})

    def check_weights(self) -> None:
        """Refuse costs for names that do not exist."""
        for name, cost in self.weights.items():
            if not abs(cost) <= LARGEST_SCORE:
                raise OptionError(
                    f"the cost <?{name}> is {cost}, expected a finite number of at most "
                    f"{LARGEST_SCORE:g} in size"
                )
            if name not in self.named_costs:
                raise GrammarError(
                    f"weights: no cost <?{name}>{nearest(name, self.named_costs)}",
                    path=self.file.path,
                )

    def _defined(self) -> list[tuple[str, _Meaning, bool]]:
        """Return each name, its meaning, and whether it is exported; checks everything."""
        for statement in self.file.statements:
            self._check_new(statement.name, self.places, statement.place)
            self.places[statement.name] = statement.place
        scope = _Scope()
        defined: list[tuple[str, _Meaning, bool]] = []
        for statement in self.file.statements:
            meaning: _Meaning
            seen = True
            match statement:
                case syntax.Import():
                    meaning, seen = self._other(statement), False
                case syntax.FunctionDefinition():
                    self._check_function(statement)
                    meaning = _Function(statement, scope)
                case syntax.Definition(value=value, export=seen):
                    meaning = _Value(value, scope)
                    if seen or not _only_names(value):
                        self._check_meaning(meaning, statement.place)
            scope = scope.with_name(statement.name, meaning)
            defined.append((statement.name, meaning, seen))
        return defined

    def _check_meaning(self, value: _Value, place: Place) -> None:
        try:
            self._value(value)
        except RecursionError:
            raise place.error(syntax.DEEP) from None

    def _other(self, statement: syntax.Import) -> _Imported:
        place = statement.place
        try:
            chain = (*self.importing, resolved(self.file.path or ""))
            path = self._allowed(statement.file)
            target = resolved(path)
        except (GrammarError, OSError) as error:
            raise place.error(str(error)) from None
        if target in chain:
            files = " → ".join(one.name for one in (*chain, path))
            raise place.error(f"files import each other: {files}")
        if target not in self.imports:
            self.imports[target] = self._read(path, chain, place)
        file, other = self.imports[target]
        if file.tapes and file.tapes != self.file.tapes:
            raise place.error(f"{path} reads the tapes {listed(file.tapes)}, this file does not")
        return other

    def _allowed(self, name: str) -> Path:
        """Return the path of a file that this one names; GrammarError for a forbidden file."""
        if "\0" in name:
            raise GrammarError(f"{name!r} contains a null character, which no file name can have")
        parent = Path(self.file.path or "").parent
        try:
            self.folder = self.folder or resolved(parent)
            target = resolved(parent / name)
        except OSError as error:
            raise GrammarError(f"{parent / name}: {error.strerror or error}") from None
        if not any(target.is_relative_to(folder) for folder in (self.folder, *self.folders)):
            raise GrammarError(
                f"{name!r} is outside of {self.folder}, the folder of the file that is read first: "
                "expected a file in that folder or below it; folders= allows others"
            )
        return parent / name

    def _read(
        self, path: Path, chain: tuple[Path, ...], place: Place
    ) -> tuple[syntax.File, _Imported]:
        """Read and expand a file at its first import."""
        try:
            check_regular(path)
            text = read_text(path)
        except GrammarError:
            raise  # it has a place in that file
        except DataError as error:
            raise place.error(str(error)) from None
        except OSError as error:
            raise place.error(f"{path}: {error.strerror or error}") from None
        file = syntax.parse(text, str(path))
        if file.tapes and file.tapes != self.file.tapes:
            return file, _Imported({})  # it will be refused
        other = Expansion(
            syntax.File(file.path, self.file.tapes, file.statements),
            self.weights,
            importing=chain,
            folder=self.folder,
            folders=self.folders,
            imports=self.imports,
            named_costs=self.named_costs,
        )
        return file, other.imported()

    def _check_new(self, name: str, taken: Mapping[str, Place], place: Place) -> None:
        if name in _CLASSES or name in BUILT_IN:
            raise place.error(f"{name!r} is built in; choose another name")
        if name in taken:
            raise place.error(f"{name!r} is defined twice, first in line {taken[name].line}")

    def _check_function(self, function: syntax.FunctionDefinition) -> None:
        local_names: dict[str, Place] = {}
        for name in function.parameters:
            self._check_new(name, local_names, function.place)
            local_names[name] = function.place
        for definition in function.body:
            self._check_new(definition.name, local_names, definition.place)
            local_names[definition.name] = definition.place

    def _value(self, value: _Value) -> Regular:
        if value.meaning is None:
            value.meaning = self._regular(value.expression, value.scope)
        return value.meaning

    # --- As sets of label sequences, and as relations --------------------------------------------

    def _several(self, parts: tuple[syntax.Expression, ...], scope: _Scope) -> tuple[Regular, ...]:
        return tuple(self._regular(part, scope) for part in parts)

    def _regular(  # noqa: PLR0911 (a case for each kind of expression)
        self, expression: syntax.Expression, scope: _Scope
    ) -> Regular:
        place = expression.place
        self._count(place, scope)
        match expression:
            case syntax.Text(raw):
                return self._labels(raw, place, scope)
            case syntax.Name(name):
                return self._named(name, scope, place)
            case syntax.Call():
                return self._called(expression, scope)
            case syntax.Quantified():
                return self._quantified(expression, scope)
            case syntax.Concatenation(parts):
                return syntax.Concatenation(self._several(parts, scope), place)
            case syntax.Union(parts):
                return syntax.Union(self._several(parts, scope), place)
            case syntax.Repetition() | syntax.Weighted() | syntax.Turned():
                return self._changed(expression, self._regular(expression.part, scope), scope)
            case _:
                left = self._regular(expression.left, scope)
                return self._joined(expression, left, self._regular(expression.right, scope))

    def _changed(self, expression: _OfOne, part: Regular, scope: _Scope) -> Regular:
        """Return the result of repetition, a cost or a side on an expression."""
        place = expression.place
        match expression:
            case syntax.Repetition(_, low, high):
                first = self._times(low, scope, place)
                last = None if high is None else self._times(high, scope, place)
                syntax.check_range(first, last, place)
                return syntax.Repetition(part, first, last, place)
            case syntax.Weighted(_, cost):
                if isinstance(cost, str):
                    self.named_costs.setdefault(cost, place)
                    cost = self.weights.get(cost, 0.0)
                return syntax.Weighted(part, cost, place)
            case _:
                return self._turned(part, expression.side, place)

    def _joined(self, expression: _OfTwo, left: Regular, right: Regular) -> Regular:
        place = expression.place
        match expression:
            case syntax.Composition() if writes(left) or writes(right):
                return syntax.Composition(left, right, place)
            case syntax.Composition():
                return syntax.Intersection(left, right, place)
            case syntax.Cross():
                self._check_no_relation(":", left, right, place)
                if len(self.file.tapes) > 1:
                    raise place.error(
                        "a relation reads one tape and writes one; this file names "
                        f"{listed(self.file.tapes)}"
                    )
                return syntax.Cross(left, right, place)
            case syntax.Intersection():
                self._check_no_relation("&", left, right, place)
                return syntax.Intersection(left, right, place)
            case _:
                self._check_no_relation("-", left, right, place)
                if has_scores(right):
                    raise place.error(
                        "the right side of a minus has weights, expected an expression without "
                        "weights"
                    )
                return syntax.Difference(left, right, place)

    def _check_no_relation(self, sign: str, left: Regular, right: Regular, place: Place) -> None:
        if writes(left) or writes(right):
            raise place.error(
                f"an operand of {sign!r} is a relation, expected expressions that write "
                "nothing: use input[x] for the input side of a relation x, or output[x] "
                "for its output side"
            )

    def _turned(self, part: Regular, side: syntax.Side, place: Place) -> Regular:
        return syntax.Turned(part, side, place) if writes(part) else part

    def _times(self, number: int | str, scope: _Scope, place: Place) -> int:
        """Return a number of repetitions, which may be a parameter's value."""
        if isinstance(number, int):
            return number
        meaning = self._find(number, scope, place)
        if isinstance(meaning, _Argument) and isinstance(meaning.value, int):
            return meaning.value
        raise place.error(f"{number!r} is no number")

    def _quantified(self, expression: syntax.Quantified, scope: _Scope) -> Regular:
        """Return the expressions of a quantifier, one for each symbol of a set."""
        place = expression.place

        def body(symbol: str) -> Regular:
            inner = scope.child().with_name(expression.name, _Argument(symbol))
            return self._regular(expression.body, inner)

        if isinstance(expression.symbols, tuple):
            symbols = [self._symbol_in(text.raw, scope, place) for text in expression.symbols]
            bodies = [body(symbol) for symbol in dict.fromkeys(symbols)]
            return together(bodies, place, intersection=expression.is_intersection)
        pattern, tape = self._set_of(expression.symbols, scope)
        kind = expression.symbols.name
        one = body("_")  # so that errors are found before labels are known
        expand = partial(self._bodies, expression, scope)
        return Ranged(kind, pattern, tape, expand, one, place)

    def _bodies(
        self, expression: syntax.Quantified, scope: _Scope, symbols: tuple[str, ...]
    ) -> Regular:
        """Return the expressions of a quantifier over known symbols."""
        listed_ = tuple(syntax.Text(_escaped(x), expression.place) for x in symbols)
        explicit = syntax.Quantified(
            expression.name, listed_, expression.body, expression.is_intersection, expression.place
        )
        before = self.expanded
        try:
            return self._quantified(explicit, scope)
        finally:
            self.expanded = before

    def _set_of(self, call: syntax.Call, scope: _Scope) -> tuple[str, str | None]:
        """Return the pattern of a set of symbols, and the tape of the labels."""
        texts = [x.raw for x in call.arguments if isinstance(x, syntax.Text)]
        fits = len(texts) == len(call.arguments) == (2 if call.name == "values" else 1)
        if call.name not in _SETS or not fits:
            raise call.place.error(
                f'{call.name}[…] is not a set of symbols, expected one such as {{"NP", '
                '"VP"}, parts["B-(.*)"], label["B-.*"], or values["tape", "Case=([^|]*)"]'
            )
        pattern = self._pattern(texts[-1], scope, call.place)
        _class(pattern, call.place)
        tape = texts[0] if len(texts) == 2 else None
        if tape is None and len(self.file.tapes) > 1:
            raise call.place.error(
                f"the grammar reads the tapes {listed(self.file.tapes)}: name one of them, "
                'as in values["tape", "Case=([^|]*)"]'
            )
        if tape is not None and self.file.tapes and tape not in self.file.tapes:
            raise call.place.error(f"no tape {tape!r}; the tapes are {listed(self.file.tapes)}")
        return pattern, tape

    def _count(self, place: Place, scope: _Scope) -> None:
        self.expanded += scope.outer is not None
        if self.expanded > MAX_EXPANDED:
            raise place.error(f"the functions expand to more than {MAX_EXPANDED:,} expressions")

    def _labels(self, raw: str, place: Place, scope: _Scope) -> Regular:
        text = self._filled(raw, scope, place)
        try:
            tapes, made = self.file.tapes, text != raw
            symbols = tuple(Symbol(fields(one, tapes), place, made) for one in cut(text))
        except GrammarError as error:
            raise place.error(str(error)) from None
        return symbols[0] if len(symbols) == 1 else syntax.Concatenation(symbols, place)

    def _filled(
        self, raw: str, scope: _Scope, place: Place, escaped: Callable[[str], str] | None = None
    ) -> str:
        """Return text with names in braces replaced by symbols of parameters and sets."""
        escape = escaped or _escaped

        def symbol(name: str) -> str | None:
            meaning = scope.get(name)
            if isinstance(meaning, _Argument):
                return escape(str(meaning.value))
            if not isinstance(meaning, _Value) or not meaning.parameter:
                return None
            names = self._names(syntax.Name(name, place), scope)
            if not isinstance(names, str):
                raise place.error(f'{{{name}}} must be replaced by one label or type, such as "NP"')
            return escape(names)

        return filled(raw, symbol)

    def _pattern(self, raw: str, scope: _Scope, place: Place) -> str:
        return self._filled(raw, scope, place, re.escape).replace('\\"', '"')

    def _named(self, name: str, scope: _Scope, place: Place) -> Regular:
        if name == "any":
            return Symbol((), place)
        if name in BUILT_IN:
            return self._constraint(syntax.Call(name, (), place), scope)
        match meaning := self._find(name, scope, place):
            case _Function():
                raise place.error(f"{name!r} is a function: write {name}[...]")
            case _Imported():
                raise place.error(f"{name!r} is a file: write {name}.NAME")
            case _Argument(str(symbol)):
                return self._labels(f"[{_escaped(symbol)}]", place, scope)
            case _Argument():
                raise place.error(f"{name!r} is a number, expected an expression")
            case _:
                return self._value(meaning)

    def _called(self, call: syntax.Call, scope: _Scope) -> Regular:
        place = call.place
        if call.name in BUILT_IN:
            return self._constraint(call, scope)
        if call.name in ("label", "optional"):
            return self._matching(call, scope)
        if call.name in _CLASSES:
            raise place.error(f"{call.name!r} names no labels here, only in a constraint")
        if call.name in _TURNED and scope.get(call.name) is None:
            if len(call.arguments) == 1:
                part = call.arguments[0]
                if not isinstance(part, syntax.Number | syntax.Cost | syntax.Option):
                    side = _TURNED[call.name]
                    return self._turned(self._regular(part, scope), side, place)
            raise place.error(f"{call.name} takes one relation: {call.name}[x]")
        meaning = self._find(call.name, scope, place)
        if not isinstance(meaning, _Function):
            raise place.error(f"{call.name!r} is not a function and takes no arguments")
        return self._applied(meaning, call, scope)

    def _applied(self, function: _Function, call: syntax.Call, scope: _Scope) -> Regular:
        place, callee = call.place, function.function
        if len(call.arguments) != len(callee.parameters):
            raise place.error(
                f"{call.name} takes {len(callee.parameters)} arguments, not {len(call.arguments)}"
            )
        inner = function.scope.child()
        for name, argument in zip(callee.parameters, call.arguments, strict=True):
            inner = inner.with_name(name, self._passed(argument, scope))
        for definition in callee.body:
            inner = inner.with_name(definition.name, _Value(definition.value, inner))
        return self._regular(callee.value, inner)

    def _passed(self, argument: syntax.Argument, scope: _Scope) -> _Meaning:
        """Return the value of a parameter: a symbol or number may be passed on."""
        match argument:
            case syntax.Number(value):
                return _Argument(value)
            case syntax.Cost() | syntax.Option():
                raise argument.place.error("a function takes expressions and numbers only")
            case syntax.Name(name) if isinstance(meaning := scope.get(name), _Argument):
                return meaning
            case _:
                return _Value(argument, scope, parameter=True)

    def _matching(self, call: syntax.Call, scope: _Scope) -> Symbol:
        place = call.place
        match call.arguments:
            case (syntax.Text(raw),):
                pass
            case _:
                raise place.error(
                    f'{call.name} takes a regular expression in quotes: {call.name}["B-.*"]; a '
                    f'parameter is written in braces: {call.name}["B-{{t}}"]'
                )
        try:
            patterns = fields(self._pattern(raw, scope, place), self.file.tapes, unescape=False)
            classes = tuple((tape, Matching(text)) for tape, text in patterns)
        except GrammarError as error:
            raise place.error(error.message) from None
        return Symbol(classes, place)

    def _find(self, name: str, scope: _Scope, place: Place) -> _Meaning:
        meaning = scope.get(name)
        if meaning is not None:
            return meaning
        later = self.places.get(name)
        if later is not None and later[1:] < place[1:]:
            raise place.error(
                f"{name!r} is used in its own definition; a grammar cannot be recursive: "
                "write its levels out, or nest transducers with Transducer.replace"
            )
        if later is not None:
            raise place.error(
                f"{name!r} is used before its definition in line {later.line} is complete: "
                "define it in an earlier line"
            )
        if name in _ELSEWHERE:
            raise place.error(f"{name!r} is not defined: {_ELSEWHERE[name]}")
        file, _, inner = name.partition(".")
        if isinstance(other := scope.get(file), _Imported):
            raise place.error(f"{file} exports no {inner!r}{nearest(inner, other.meanings)}")
        names = [*scope.all_names(), *_CLASSES, *_TURNED, *BUILT_IN]
        close = closest(name, names, 3)
        hint = f"; the nearest are {', '.join(close)}" if close else ""
        raise place.error(f"{name!r} is not defined{hint}")

    # --- Constraints and their arguments ---------------------------------------------------------

    def _constraint(self, call: syntax.Call, scope: _Scope) -> Constrained:
        values: list[Any] = []
        options: dict[str, Any] = {}
        learned: tuple[int, int] | None = None
        for argument in call.arguments:
            match argument:
                case syntax.Number(value):
                    values.append(value)
                case syntax.Cost(None, place, learned):
                    self._check_open(place)
                    self.open_costs_met[learned] = place
                    options["weight"] = 1.0
                case syntax.Cost(cost):
                    options["weight"] = 0.0 - (cost or 0.0)
                case syntax.Option(name, value):
                    options[name] = value
                case _ if call.name == "each":
                    values.append(self._regular(argument, scope))
                case _:
                    values.append(self._argument(argument, scope))
        try:
            made = constrained(call.name, values, options, self.file.tapes, self._allowed)
            return Constrained(made, call.place, learned)
        except (GrammarError, OptionError) as error:
            raise call.place.error(str(error)) from None

    def _check_open(self, place: Place) -> None:
        if not self.open_costs:
            raise place.error(
                "the cost <?> has no value yet: learn it with fstcrf train --structure rules, or "
                "write a number"
            )

    def _argument(self, expression: syntax.Expression, scope: _Scope) -> Names | Constraint | int:
        match expression:
            case syntax.Name(name) if isinstance(meaning := scope.get(name), _Argument):
                return meaning.value
        names = self._names(expression, scope)
        if names is not None:
            return names
        value = self._regular(expression, scope)
        if not isinstance(value, Constrained):
            raise expression.place.error(
                "expected labels, types, classes of labels, or a constraint here"
            )
        return value.constraint

    def _names(  # noqa: PLR0911 (as above)
        self, expression: syntax.Expression, scope: _Scope
    ) -> Names | None:
        """Return the names that an expression denotes; `None` for other expressions."""
        match expression:
            case syntax.Text(raw, place):
                return self._symbol_in(raw, scope, place)
            case syntax.Name("any"):
                return ANY
            case syntax.Name(name):
                value = scope.get(name)
                if isinstance(value, _Argument):
                    return str(value.value)
                if not isinstance(value, _Value):
                    return None
                if value.names is None:
                    value.names = self._names(value.expression, value.scope)
                return value.names
            case syntax.Call("label" | "optional" as kind, (syntax.Text(raw),), place):
                pattern = self._pattern(raw, scope, place)
                return _class(pattern, place, optional=kind == "optional")
            case syntax.Call("spans", (syntax.Text(raw, place),)):
                return Spans(plain(self._filled(raw, scope, place)))
            case syntax.Union(parts):
                return _together([self._names(part, scope) for part in parts])
            case _:
                return None

    def _symbol_in(self, raw: str, scope: _Scope, place: Place) -> str:
        """Return the label or type of a text."""
        text = self._filled(raw, scope, place)
        if not text.startswith("["):
            return plain(text)
        try:
            texts = [plain(one) for one in cut(text)]
        except GrammarError as error:
            raise place.error(str(error)) from None
        if len(texts) != 1:
            raise place.error(f'"{raw}": expected one label here')
        return texts[0]


_SPECIAL = re.compile(r'([\\\]\[\s="{}])')


def _class(pattern: str, place: Place, *, optional: bool = False) -> Matching:
    """Return the class of a pattern; errors have a place."""
    try:
        return Matching(pattern, optional)
    except GrammarError as error:
        raise place.error(error.message) from None


def _escaped(symbol: str) -> str:
    return _SPECIAL.sub(r"\\\1", symbol)


def _together(several: list[Names | None]) -> Names | None:
    flat: dict[str | Matching | Spans, None] = {}
    for names in several:
        if names is None:
            return None
        flat |= dict.fromkeys([names] if isinstance(names, str | Matching | Spans) else names)
    return tuple(flat)


def _only_names(expression: syntax.Expression) -> bool:
    """Return whether an expression is a name for constraints, or several: "NP" | "VP"."""
    match expression:
        case syntax.Text(raw):
            return not raw.startswith("[")
        case syntax.Union(parts):
            return all(_only_names(part) for part in parts)
        case syntax.Call("spans"):
            return True
        case _:
            return False
