"""The language of ``.grm`` files: names, functions and constraints resolved.

A definition is used behind the place where it stands, and not in itself: then every expression is
regular. Costs become scores here. Each export is a constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fstcrf.errors import DataError, GrammarError, OptionError
from fstcrf.files import read_file
from fstcrf.lazy import memoised
from fstcrf.machines.grammar import constraint, syntax
from fstcrf.machines.grammar.acceptor import Acceptor, is_empty, minimise, trim
from fstcrf.machines.grammar.automata import constraint_from_machine
from fstcrf.machines.grammar.binding import Binding, Export, bound_export
from fstcrf.machines.grammar.constraint import Constraint, RuleOptions
from fstcrf.machines.grammar.labels import ANY, LabelSets, Matching, Names, Spans
from fstcrf.machines.grammar.regular import Constrained, Regular, Symbol, has_scores, leaves
from fstcrf.machines.grammar.syntax import cut, fields, plain


def read_grammar(path: str | Path) -> tuple[Constraint, ...]:
    """Read a ``.grm`` file."""
    data = read_file(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise GrammarError("a byte is not UTF-8", path=str(path), line=line) from None
    return parse_grammar(text, str(path))


def parse_grammar(text: str, path: str | None = None) -> tuple[Constraint, ...]:
    """Return the exports of a text, the same ones for the same text; `path` is for messages."""
    source: object = text  # whatever the caller passed
    if not isinstance(source, str):
        raise GrammarError(f"the grammar is {source!r}, expected text")
    # Machines come from files, which may change.
    return _parsed(text, path) if "fst" in text else _as_text(text, path)


def _parsed(text: str, path: str | None) -> tuple[Constraint, ...]:
    file = syntax.parse(text, path)
    short = "<text>" if path is None else Path(path).name
    return tuple(
        Constraint(
            f"{short}: {export.name}",
            partial(bound_export, export, file.tapes, path, short),
            language=True,
        )
        for export in _Expansion(file).exports()
    )


_kept = memoised(64)(_parsed)


@memoised(64)
def _as_text(text: str, path: str | None) -> tuple[Constraint, ...]:
    """Return the exports of a text that needs no other file: they are pickled as their text."""
    return tuple(
        Constraint(
            export.name,
            partial(_export_of, text, path, k),
            ("text", text, path, k),
            language=True,
        )
        for k, export in enumerate(_kept(text, path))
    )


def _export_of(text: str, path: str | None, number: int, sets: LabelSets) -> tuple[Acceptor, ...]:
    return _kept(text, path)[number].build(sets)


@dataclass(frozen=True, slots=True)
class Rule:
    """An export of a file whose costs may be open, ``<?>``.

    Parameters
    ----------
    name : str
    constraint : Constraint
        With a score of 1 for each match or violation, where the cost is open.
    place : (int, int) or None
        Where the open cost stands in the text.
    line : int
    """

    name: str
    constraint: Constraint
    place: tuple[int, int] | None
    line: int


def parse_rules(text: str, path: str | None = None) -> tuple[Rule, ...]:
    """Return the exports of a text in which costs may be open; `path` is for messages."""
    file = syntax.parse(text, path)
    short = "<text>" if path is None else Path(path).name
    expansion = _Expansion(file, open_costs=True)
    rules: list[Rule] = []
    for export in expansion.exports():
        value = export.value
        place = value.learned if isinstance(value, Constrained) else None
        if place is not None and any(rule.place == place for rule in rules):
            raise expansion.error(
                "two exports share one open cost, <?>: write the pattern out twice", export.line
            )
        bind = partial(bound_export, export, file.tapes, path, short)
        constraint_ = Constraint(f"{short}: {export.name}", bind)
        rules.append(Rule(export.name, constraint_, place, export.line))
    unused = expansion.open_places - {rule.place for rule in rules}
    if unused:
        line = text.count("\n", 0, min(unused)[0]) + 1
        raise expansion.error(
            "an open cost, <?>, stands in an export of its own: export NAME = each[x, <?>];", line
        )
    return tuple(rules)


def shipped_grammar(name: str) -> Path:
    """Return the path of a grammar that comes with fstcrf."""
    package = Path(__file__).resolve().parents[2]
    # Installed inside the package; in a checkout, beside it.
    folder = next(
        (f for f in (package / "grammars", package.parent / "grammars") if f.is_dir()), package
    )
    names = sorted(path.stem for path in folder.glob("*.grm"))
    if name not in names:
        close = get_close_matches(name, names, n=3) or names
        raise GrammarError(f"no grammar {name!r} comes with fstcrf; there are {', '.join(close)}")
    return folder / f"{name}.grm"


# --- Built-in names -------------------------------------------------------------------------------

MAX_EXPANDED = 50_000
"""Expressions that the functions of a file may stand for, all calls together."""

_CLASSES = ("any", "label", "optional", "spans")

_Kind = Literal["number", "names", "constraint", "file", "pattern"]

_EXAMPLES: dict[_Kind, str] = {
    "number": "2",
    "names": '"NAME"',
    "constraint": 'before["A", "B"]',
    "file": '"names.fst"',
    "pattern": '"[A]" "[B]"',
}


@dataclass(frozen=True, slots=True)
class _Form:
    """A built-in constraint: what it takes, and what makes it of that, `options` among it."""

    make: Callable[..., Constraint]
    kinds: tuple[_Kind, ...]
    options: tuple[str, ...] = ("scheme", "tape", "weight")


def _scheme(name: str) -> _Form:
    return _Form(partial(constraint.tagging_scheme, name), (), ("tape", "weight"))


def _machine(file: str, *, options: RuleOptions, folder: Path) -> Constraint:
    path = folder / file
    if "\0" in file:
        raise GrammarError(f"{file!r} has a null character, so no file is called so")
    try:
        return constraint_from_machine(path, options.tape)
    except OSError as error:
        raise GrammarError(f"{path}: {error.strerror or error}") from None
    except DataError as error:
        raise GrammarError(str(error)) from None


def _matches(pattern: Regular, *, options: RuleOptions, tapes: _Tapes) -> Constraint:
    """Return what scores each token at which a match of a pattern ends."""
    weight, names, path = options.weight, tapes[0], tapes[1]
    if weight is None:
        raise GrammarError("each needs a cost: each[x, <1.5>], or <?> where it is to be learned")
    if has_scores(pattern):
        raise GrammarError("the pattern of each has weights; its cost is that of each match")
    line = pattern.line
    around: Regular = syntax.Repetition(Symbol((), line), 0, None, line)
    anywhere: Regular = syntax.Concatenation((around, pattern), line)
    return Constraint("each[…]", partial(_each, pattern, anywhere, weight, names, path))


def _each(
    pattern: Regular,
    anywhere: Regular,
    weight: float,
    names: tuple[str, ...],
    path: str | None,
    sets: LabelSets,
) -> tuple[Acceptor, ...]:
    binding = Binding(names, path, sets)
    parts = [part for part in leaves(pattern) if isinstance(part, Constrained)]
    if any(acceptor.weighted for part in parts for acceptor in binding.part(part)):
        raise GrammarError("the pattern of each holds a soft constraint")
    (matching,) = binding.acceptors(anywhere, "each")
    if matching.final[0] > -np.inf:
        raise GrammarError("the pattern of each matches the empty sequence, so everywhere")
    if is_empty(matching):
        raise GrammarError(f"the pattern of each matches nothing{binding.nothing(pattern)}")
    ends = (matching.final > -np.inf)[matching.target] & (matching.target >= 0)
    scored = replace(
        matching, score=np.where(ends, np.float64(weight), 0.0), final=np.zeros(matching.n_states)
    )
    return (minimise(trim(scored)),)


_BUILT_IN: dict[str, _Form] = {
    "at_least": _Form(partial(constraint.counted, "at_least"), ("number", "names")),
    "at_most": _Form(partial(constraint.counted, "at_most"), ("number", "names")),
    "before": _Form(partial(constraint.about, "before"), ("names", "names")),
    "bilou": _scheme("bilou"),
    "bio": _scheme("iob2"),
    "bioes": _scheme("bioes"),
    "contiguous": _Form(constraint.contiguous, ("names",)),
    "each": _Form(_matches, ("pattern",), ("weight",)),
    "end_with": _Form(partial(constraint.about, "end_with"), ("names",)),
    "exactly": _Form(partial(constraint.counted, "exactly"), ("number", "names")),
    "fst": _Form(_machine, ("file",), ("tape",)),
    "if_present": _Form(constraint.if_present, ("names", "constraint")),
    "iob1": _scheme("iob1"),
    "never": _Form(partial(constraint.about, "never"), ("names",)),
    "requires": _Form(partial(constraint.about, "requires"), ("names", "names")),
    "start_with": _Form(partial(constraint.about, "start_with"), ("names",)),
}


_Tapes = tuple[tuple[str, ...], str | None]
"""The tapes that a file names, and its path."""


def _constrained(
    name: str, values: list[Any], options: dict[str, Any], tapes: _Tapes, folder: Path
) -> Constraint:
    """Return a built-in constraint with its arguments."""
    form = _BUILT_IN[name]
    fits = len(values) == len(form.kinds) or (name == "contiguous" and not values)
    if not fits or not all(map(_fits, values, form.kinds)):
        shown = f"[{', '.join(_EXAMPLES[kind] for kind in form.kinds)}]" if form.kinds else ""
        raise GrammarError(f"the arguments of {name} do not fit; an example: {name}{shown}")
    unknown = next((option for option in options if option not in form.options), None)
    if unknown is not None:
        raise GrammarError(f"{name} has no option {unknown!r}, only {', '.join(form.options)}")
    settings = {"tape": tapes[0][0] if len(tapes[0]) == 1 else None, **options}
    if settings.get("scheme") == "none":
        settings["scheme"] = None
    more: dict[str, Any] = {"folder": folder} if "file" in form.kinds else {}
    if "pattern" in form.kinds:
        more = {"tapes": tapes}
    return form.make(*values, options=RuleOptions(**settings), **more)


def _fits(value: object, kind: _Kind) -> bool:
    if kind in ("number", "file"):
        return isinstance(value, int if kind == "number" else str)
    if kind == "pattern":
        return not isinstance(value, int)
    return not isinstance(value, int) and (
        kind == "constraint" or not isinstance(value, Constraint)
    )


# --- Names and functions resolved -----------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Value:
    """An expression and the names that it sees; its meaning is found when it is asked for."""

    expression: syntax.Expression
    scope: _Scope
    meaning: Regular | None = None
    names: Names | None = None  # that it stands for, where it has been asked for


@dataclass(frozen=True, eq=False, slots=True)
class _Function:
    """A function and the names that its body sees."""

    function: syntax.FunctionDefinition
    scope: _Scope


@dataclass(frozen=True, eq=False, slots=True)
class _Scope:
    """The names that can be used at one place.

    Places of one file share `names`, which grows: from each, those can be seen that were there
    when it was made. A function's body has names of its own before those around the function.
    """

    names: dict[str, tuple[int, _Value | _Function]] = field(default_factory=dict)
    size: int = 0
    around: _Scope | None = None

    def get(self, name: str) -> _Value | _Function | None:
        number, meaning = self.names.get(name, (self.size, None))
        if number < self.size:
            return meaning
        return None if self.around is None else self.around.get(name)

    def with_name(self, name: str, meaning: _Value | _Function) -> _Scope:
        """Return the scope behind a definition; only the latest scope of a file has one."""
        self.names[name] = self.size, meaning
        return _Scope(self.names, self.size + 1, self.around)

    def within(self) -> _Scope:
        """Return the scope of a function's body."""
        return _Scope(around=self)

    def all_names(self) -> list[str]:
        own = list(self.names)[: self.size]
        return own if self.around is None else [*own, *self.around.all_names()]


@dataclass(eq=False)
class _Expansion:
    """The exports of a file."""

    file: syntax.File
    open_costs: bool = False
    lines: dict[str, int] = field(default_factory=dict)
    open_places: set[tuple[int, int]] = field(default_factory=set)
    expanded: int = 0  # expressions in bodies of functions, once for each call

    def exports(self) -> tuple[Export, ...]:
        for statement in self.file.statements:
            self._check_new(statement.name, self.lines, statement.line)
            self.lines[statement.name] = statement.line
        scope = _Scope()
        exports: list[Export] = []
        for statement in self.file.statements:
            if isinstance(statement, syntax.FunctionDefinition):
                self._check_function(statement)
                scope = scope.with_name(statement.name, _Function(statement, scope))
                continue
            value = _Value(statement.value, scope)
            scope = scope.with_name(statement.name, value)
            try:
                if statement.export:
                    exports.append(Export(statement.name, self.value(value), statement.line))
                elif not _only_names(statement.value):
                    self.value(value)
            except RecursionError:
                raise self.error(syntax.DEEP, statement.line) from None
        if not exports:
            raise self.error("exports nothing; write: export NAME = ...;", None)
        return tuple(exports)

    def _check_new(self, name: str, taken: Mapping[str, int], line: int) -> None:
        if name in _CLASSES or name in _BUILT_IN:
            raise self.error(f"{name!r} is built in; choose another name", line)
        if name in taken:
            raise self.error(f"{name!r} is defined twice, first in line {taken[name]}", line)

    def _check_function(self, function: syntax.FunctionDefinition) -> None:
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
        self.count(expression.line, scope)
        regular: Regular
        match expression:
            case syntax.Text(raw, line):
                regular = self.labels(raw, line)
            case syntax.Name(name, line):
                regular = self.named(name, scope, line)
            case syntax.Call():
                regular = self.called(expression, scope)
            case syntax.Concatenation(parts, line):
                resolved = tuple(self.regular(part, scope) for part in parts)
                regular = syntax.Concatenation(resolved, line)
            case syntax.Union(parts, line):
                regular = syntax.Union(tuple(self.regular(part, scope) for part in parts), line)
            case syntax.Difference(left, right, line):
                taken = self.regular(right, scope)
                if has_scores(taken):
                    raise self.error("what stands behind a minus has weights", line)
                regular = syntax.Difference(self.regular(left, scope), taken, line)
            case syntax.Repetition(part, low, high, line):
                regular = syntax.Repetition(self.regular(part, scope), low, high, line)
            case syntax.Weighted(part, cost, line):
                regular = syntax.Weighted(self.regular(part, scope), cost, line)
        return regular

    def count(self, line: int, scope: _Scope) -> None:
        """Count an expression that belongs to the body of a function."""
        self.expanded += scope.around is not None
        if self.expanded > MAX_EXPANDED:
            raise self.error(f"functions stand for more than {MAX_EXPANDED:,} expressions", line)

    def labels(self, raw: str, line: int) -> Regular:
        try:
            symbols = tuple(Symbol(fields(text, self.file.tapes), line) for text in cut(raw))
        except GrammarError as error:
            raise self.error(str(error), line) from None
        return symbols[0] if len(symbols) == 1 else syntax.Concatenation(symbols, line)

    def named(self, name: str, scope: _Scope, line: int) -> Regular:
        if name == "any":
            return Symbol((), line)
        if name in _BUILT_IN:
            return self.constraint(syntax.Call(name, (), line), scope)
        meaning = self.find(name, scope, line)
        if isinstance(meaning, _Function):
            raise self.error(f"{name!r} is a function: write {name}[...]", line)
        return self.value(meaning)

    def called(self, call: syntax.Call, scope: _Scope) -> Regular:
        if call.name in _BUILT_IN:
            return self.constraint(call, scope)
        if call.name in ("label", "optional"):
            return self.matching(call)
        if call.name in _CLASSES:
            raise self.error(f"{call.name!r} names no labels here, only in a constraint", call.line)
        meaning = self.find(call.name, scope, call.line)
        if isinstance(meaning, _Value):
            raise self.error(f"{call.name!r} is no function and takes no arguments", call.line)
        function = meaning.function
        if len(call.arguments) != len(function.parameters):
            raise self.error(
                f"{call.name} takes {len(function.parameters)} arguments, not "
                f"{len(call.arguments)}",
                call.line,
            )
        inner = meaning.scope.within()
        for name, argument in zip(function.parameters, call.arguments, strict=True):
            if isinstance(argument, syntax.Number | syntax.Cost | syntax.Option):
                raise self.error(f"{call.name} takes expressions only", call.line)
            inner = inner.with_name(name, _Value(argument, scope))
        for definition in function.body:
            inner = inner.with_name(definition.name, _Value(definition.value, inner))
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
            patterns = fields(raw.replace('\\"', '"'), self.file.tapes, unescape=False)
            classes = tuple((tape, Matching(text)) for tape, text in patterns)
        except GrammarError as error:
            raise self.error(str(error), call.line) from None
        return Symbol(classes, call.line)

    def find(self, name: str, scope: _Scope, line: int) -> _Value | _Function:
        meaning = scope.get(name)
        if meaning is not None:
            return meaning
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
        names = [*scope.all_names(), *_CLASSES, *_BUILT_IN]
        close = get_close_matches(name, names, n=3)
        hint = f"; the nearest are {', '.join(close)}" if close else ""
        raise self.error(f"{name!r} is not defined{hint}", line)

    # --- Constraints and their arguments ---------------------------------------------------------

    def constraint(self, call: syntax.Call, scope: _Scope) -> Constrained:
        folder = Path(self.file.path).parent if self.file.path else Path()
        values: list[Any] = []
        options: dict[str, Any] = {}
        learned: tuple[int, int] | None = None
        for argument in call.arguments:
            match argument:
                case syntax.Number(value):
                    values.append(value)
                case syntax.Cost(None, _, learned):
                    self._check_open(call.line)
                    self.open_places.add(learned)
                    options["weight"] = 1.0
                case syntax.Cost(cost):
                    options["weight"] = 0.0 - (cost or 0.0)
                case syntax.Option(name, value):
                    options[name] = value
                case _ if call.name == "each":
                    values.append(self.regular(argument, scope))
                case _:
                    values.append(self.argument(argument, scope, call.line))
        try:
            tapes = self.file.tapes, self.file.path
            made = _constrained(call.name, values, options, tapes, folder)
            return Constrained(made, call.line, learned)
        except (GrammarError, OptionError) as error:
            raise self.error(str(error), call.line) from None

    def _check_open(self, line: int) -> None:
        if not self.open_costs:
            raise self.error(
                "the cost <?> is open: learn it, fstcrf rules MODEL DATA FILE, or write a number",
                line,
            )

    def argument(
        self, expression: syntax.Expression, scope: _Scope, line: int
    ) -> Names | Constraint:
        names = self.names(expression, scope)
        if names is not None:
            return names
        value = self.regular(expression, scope)
        if not isinstance(value, Constrained):
            raise self.error(
                "expected labels, types, classes of labels, or a constraint here", line
            )
        return value.constraint

    def names(self, expression: syntax.Expression, scope: _Scope) -> Names | None:
        """Return the names that an expression stands for, None where it is something else."""
        names: Names | None = None
        match expression:
            case syntax.Text(raw, line):
                names = self.name_in(raw, line)
            case syntax.Name("any"):
                names = ANY
            case syntax.Name(name) if isinstance(value := scope.get(name), _Value):
                if value.names is None:
                    value.names = self.names(value.expression, value.scope)
                names = value.names
            case syntax.Call("label" | "optional" as kind, (syntax.Text(raw),), line):
                names = self.checked_class(raw, line, optional=kind == "optional")
            case syntax.Call("spans", (syntax.Text(raw),)):
                names = Spans(plain(raw))
            case syntax.Union(parts):
                names = _together([self.names(part, scope) for part in parts])
        return names

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
    flat: dict[str | Matching | Spans, None] = {}
    for names in several:
        if names is None:
            return None
        flat |= dict.fromkeys([names] if isinstance(names, str | Matching | Spans) else names)
    return tuple(flat)


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
