"""From the text of a ``.grm`` file to statements and expressions with places; syntax errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar

from fstcrf.arguments import LARGEST_SCORE
from fstcrf.errors import DataError, GrammarError
from fstcrf.machines.grammar.labels import listed
from fstcrf.text import lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lark import Lark, Token, UnexpectedInput


class Place(NamedTuple):
    """A place in a grammar: a file, `None` for text, a line and a column, both from 1."""

    path: str | None
    line: int
    column: int

    def error(self, message: str) -> GrammarError:
        """Return an error for this place."""
        return GrammarError(message, path=self.path, line=self.line, column=self.column)


@dataclass(frozen=True, slots=True)
class Text:
    """Text in quotes: a sequence of labels in brackets, or a name of a constraint's argument."""

    raw: str  # between the quotes, with backslashes
    place: Place


@dataclass(frozen=True, slots=True)
class Name:
    """A defined name, a parameter, or a constraint without arguments."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number, as an argument."""

    value: int
    place: Place


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost as an argument, for each violation or match; `None` if it is learned."""

    cost: float | None
    place: Place
    span: tuple[int, int]  # its start and end in the text


@dataclass(frozen=True, slots=True)
class Option:
    """A named argument: ``tape=chunk``."""

    name: str
    value: str
    place: Place


@dataclass(frozen=True, slots=True)
class Call:
    """A class of labels, a constraint, or a function of the file, with its arguments."""

    name: str
    arguments: tuple[Argument, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Quantified:
    """The union, or intersection, of an expression for each symbol of a set."""

    name: str  # name of the symbol in the body
    symbols: tuple[Text, ...] | Call
    body: Expression
    is_intersection: bool
    place: Place


# Nodes of expressions, over leaves before or after names are resolved.

_Leaf = TypeVar("_Leaf")


@dataclass(frozen=True, slots=True)
class _OfSeveral(Generic[_Leaf]):
    parts: tuple[Tree[_Leaf], ...]
    place: Place


class Concatenation(_OfSeveral[_Leaf]):
    """Parts in sequence; without parts, the empty sequence."""


class Union(_OfSeveral[_Leaf]):
    """Any of these."""


@dataclass(frozen=True, slots=True)
class _OfTwo(Generic[_Leaf]):
    left: Tree[_Leaf]
    right: Tree[_Leaf]
    place: Place


class Intersection(_OfTwo[_Leaf]):
    """The intersection of both; scores add."""


class Difference(_OfTwo[_Leaf]):
    """The left language without the right one."""


@dataclass(frozen=True, slots=True)
class Repetition(Generic[_Leaf]):
    """`low` to `high` repetitions; `None`: any number; a name is a parameter."""

    part: Tree[_Leaf]
    low: int | str
    high: int | str | None
    place: Place


@dataclass(frozen=True, slots=True)
class Weighted(Generic[_Leaf]):
    """An expression with a cost, the negative of a natural-log score, or the name of one."""

    part: Tree[_Leaf]
    cost: float | str
    place: Place


class Cross(_OfTwo[_Leaf]):
    """A relation: reads the left language and writes the right one."""


class Composition(_OfTwo[_Leaf]):
    """A relation: the right one reads the output of the left one."""


Side: TypeAlias = Literal["input", "output", "invert"]


@dataclass(frozen=True, slots=True)
class Turned(Generic[_Leaf]):
    """The input side or the output side of a relation, or the inverted relation."""

    part: Tree[_Leaf]
    side: Side
    place: Place


Tree: TypeAlias = (
    _Leaf
    | Concatenation[_Leaf]
    | Union[_Leaf]
    | Intersection[_Leaf]
    | Difference[_Leaf]
    | Repetition[_Leaf]
    | Weighted[_Leaf]
    | Cross[_Leaf]
    | Composition[_Leaf]
    | Turned[_Leaf]
)
_Written: TypeAlias = Text | Name | Call | Quantified
Expression: TypeAlias = Tree[_Written]
Argument: TypeAlias = Expression | Number | Cost | Option


@dataclass(frozen=True, slots=True)
class Import:
    """The exports and functions of another file, under a name."""

    file: str
    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class Definition:
    """A name and its value."""

    name: str
    value: Expression
    export: bool
    place: Place


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """A function: its parameters, local definitions, and its value."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Definition, ...]
    value: Expression
    place: Place


Statement: TypeAlias = Import | Definition | FunctionDefinition


@dataclass(frozen=True, slots=True)
class File:
    """A file: the tapes it reads and its statements in order.

    `path` is `None` for text.
    """

    path: str | None
    tapes: tuple[str, ...]
    statements: tuple[Statement, ...]


# --- Labels in strings ----------------------------------------------------------------------------
# ``"[B-NP][I-NP]"``, ``"[pos=NN chunk=B-NP]"``. A backslash quotes the next character: ``\]`` and
# ``\"`` in labels with these characters, and a blank or an equals sign if there are several tapes.

_SYMBOL = re.compile(r"\s*\[((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_FIELD = re.compile(r"(?:[^\s\\]|\\.)+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def plain(raw: str) -> str:
    """Return text without backslashes."""
    return _ESCAPE.sub(r"\1", raw)


def cut(raw: str) -> list[str]:
    """Return the text of each pair of brackets in a string, with backslashes."""
    symbols: list[str] = []
    at = 0
    end = len(raw.rstrip())
    while at < end:
        symbol = _SYMBOL.match(raw, at)
        if symbol is None:
            raise GrammarError(f'"{raw}": a label must be in brackets: "[LABEL]"')
        symbols.append(symbol[1])
        at = symbol.end()
    return symbols


def fields(
    raw: str, tapes: tuple[str, ...], *, unescape: bool = True
) -> tuple[tuple[str | None, str], ...]:
    """Return the label of each tape in the text between two brackets.

    The text is a label; if the file names several tapes, it is ``tape=label`` for each relevant
    tape.
    """
    clean = plain if unescape else str
    if len(tapes) < 2:
        return ((None, clean(raw)),)
    labels: dict[str, str] = {}
    for text in _FIELD.findall(raw):
        tape, equals, label = text.partition("=")
        if not equals or tape not in tapes:
            raise GrammarError(
                f"[{raw}]: expected tape=label for some of the tapes {listed(tapes)}"
            )
        if tape in labels:
            raise GrammarError(f"[{raw}]: tape {tape!r} is there twice")
        labels[tape] = clean(label)
    return tuple(labels.items())


_BRACES = re.compile(r"\\.|\{([A-Za-z_][A-Za-z0-9_]*)\}", re.DOTALL)


def filled(raw: str, symbol: Callable[[str], str | None]) -> str:
    """Return text with names in braces replaced by symbols; unknown names remain in braces."""

    def put(match_: re.Match[str]) -> str:
        name = match_[1]
        value = None if name is None else symbol(name)
        return match_[0] if value is None else value

    return _BRACES.sub(put, raw)


# --- Parsing --------------------------------------------------------------------------------------

MAX_REPEATS = 1_000
_DIGITS = 20  # digits of an integer

_SHOWN = {
    "NAME": "a name",
    "QUALIFIED": "",  # also a name
    "EACH": "",
    "STRING": 'labels in quotes: "[LABEL]"',
    "WEIGHT": "a weight: <2.5>",
    "INTEGER": "a number",
    "REPEAT": "* + or ?",
    "EXPORT": "export",
    "IMPORT": "import",
    "__ANON_0": "'=>'",
    "$END": "the end",
    "LSQB": "'['",
    "RSQB": "']'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "COLON": "':'",
    "EQUAL": "'='",
    "SEMICOLON": "';'",
    "VBAR": "'|'",
    "MINUS": "'-'",
    "AT": "'@'",
    "AMPERSAND": "'&'",
    "TILDE": "'~'",
}

_UNFINISHED = {
    '"': "quotes that are not closed on this line",
    "<": "expected a number between < and >",
}
_INSTEAD = {
    "'": 'expected double quotes: "[LABEL]"',
    "!": "a complement is written ~x",
    "^": "a complement is written ~x",
    "$": "what contains x is written any* x any*",
    "/": "rewrite rules: make one by pynini.cdrewrite and read it by Transducer.from_fst",
}


def read_text(path: str | Path) -> str:
    """Read the text of a ``.grm`` file."""
    try:
        return lines.read_text(path)
    except DataError as error:
        raise GrammarError(error.message, path=str(path), line=error.line) from None


def parse(text: str, path: str | None = None) -> File:
    """Return the parsed grammar file; `path` is for messages."""
    from lark import UnexpectedInput  # noqa: PLC0415 - slow to import, only such text needs it

    try:
        tree = _parser().parse(lines.unix_lines(text.removeprefix("\ufeff")))
    except UnexpectedInput as error:
        _fail(error, text, path)
    try:
        file: File = _Builder(path).built(tree)
    except RecursionError:
        raise _deepest(text, path).error(DEEP) from None
    return file


DEEP = "an expression is nested too deeply: give its parts names, in definitions of their own"


def _deepest(text: str, path: str | None) -> Place:
    """Return the first place with the most open parentheses and brackets."""
    depth = most = 0
    place = Place(path, 1, 1)
    lines = _QUOTED.sub(lambda match_: " " * len(match_[0]), text).split("\n")
    for number, line in enumerate(lines, 1):
        for column, character in enumerate(line, 1):
            depth += (character in "([{") - (character in ")]}")
            if depth > most:
                most, place = depth, Place(path, number, column)
    return place


_QUOTED = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|#[^\n]*')


@lru_cache(maxsize=1)
def _parser() -> Lark:
    from lark import Lark  # noqa: PLC0415

    syntax = (files("fstcrf.machines.grammar") / "grm.lark").read_text("utf-8")
    return Lark(syntax, parser="lalr", propagate_positions=True)


def _fail(error: UnexpectedInput, text: str, path: str | None) -> NoReturn:
    from lark import UnexpectedCharacters, UnexpectedToken  # noqa: PLC0415

    lines = text.rstrip().split("\n")
    place = Place(path, error.line, error.column)
    if isinstance(error, UnexpectedCharacters):
        hint = _INSTEAD.get(error.char)
        message = f"unexpected {error.char!r}{'' if hint is None else f'; {hint}'}"
        raise place.error(_UNFINISHED.get(error.char, message)) from None
    expected: set[str] = set()
    message = "the text ends too early"
    if not isinstance(error, UnexpectedToken) or error.token.type == "$END":
        place = Place(path, len(lines), len(lines[-1]) + 1)
    if isinstance(error, UnexpectedToken):
        expected = error.accepts or error.expected
        if error.token.type != "$END":
            message = f"unexpected {str(error.token)!r}"
            if text[: error.token.start_pos or 0].rstrip().endswith(">"):
                raise place.error(
                    f"{message} after a weight; a weight ends the whole expression before it: "
                    "put the expression and its weight in parentheses"
                ) from None
    if isinstance(error, UnexpectedToken) and error.token.type == "COLON":
        message += "; ':' binds less than '|', so each pair has parentheses: (x : y) | (z : w)"
    names = {_SHOWN.get(name, name.lower()) for name in expected}
    raise place.error(f"{message}; expected {', '.join(sorted(filter(None, names)))}") from None


_REPEATED: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

# Builders for the rules of ``grm.lark``: (children, place) → node.
_BUILT: dict[str, Callable[[list[Any], Place], Any]] = {
    "import_": lambda c, at: Import(plain(str(c[1])[1:-1]), str(c[2]), at),
    "tape": lambda names, at: (tuple(map(str, names)), at),
    "definition": lambda c, at: Definition(str(c[1]), c[2], c[0] is not None, at),
    "local": lambda c, at: Definition(str(c[0]), c[1], export=False, place=at),
    "function": lambda c, at: FunctionDefinition(str(c[0]), c[1], tuple(c[2:-1]), c[-1], at),
    "parameters": lambda names, _: tuple(str(name) for name in names if name is not None),
    "union": lambda parts, at: Union(tuple(parts), at),
    "intersection": lambda parts, at: Intersection(parts[0], parts[1], at),
    "difference": lambda parts, at: Difference(parts[0], parts[1], at),
    "complement": lambda parts, at: _complement(parts[0], at),
    "concatenation": lambda parts, at: Concatenation(tuple(parts), at),
    "repeated": lambda c, at: Repetition(c[0], *_REPEATED[c[1]], at),
    "cross": lambda parts, at: Cross(parts[0], parts[1], at),
    "composition": lambda parts, at: Composition(parts[0], parts[1], at),
    "restriction": lambda parts, at: _restriction(tuple(parts), at),
    "reference": lambda names, _: str(names[0]),
    "text": lambda c, at: Text(str(c[0])[1:-1], at),
    "name": lambda c, at: Name(c[0], at),
    "listed": lambda c, at: tuple(Text(str(x)[1:-1], at) for x in c),
    "symbols": lambda c, _: c[0],
    "quantified": lambda c, at: Quantified(str(c[1]), c[2], c[3], str(c[0]) == "all", at),
    "call": lambda c, at: Call(c[0], tuple(x for x in c[1:] if x is not None), at),
    "option": lambda c, at: Option(str(c[0]), str(c[1]).strip('"'), at),
}


def _complement(part: Expression, at: Place) -> Expression:
    return Difference(Repetition(Name("any", at), 0, None, at), part, at)


def _restriction(parts: Sequence[Expression | None], at: Place) -> Expression:
    """Return the sequences whose matches of the first all follow the second and precede the third.

    That is ``~(~(any* l) a any* | any* a ~(r any*))``.
    """
    part, left, right = parts
    anything: Expression = Repetition(Name("any", at), 0, None, at)

    def then(*several: Expression | None) -> Expression:
        return Concatenation(tuple(x for x in several if x is not None), at)

    broken = [
        then(_complement(then(anything, left), at), part, anything) if left is not None else None,
        then(anything, part, _complement(then(right, anything), at)) if right is not None else None,
    ]
    return _complement(Union(tuple(x for x in broken if x is not None), at), at)


@dataclass(frozen=True, slots=True)
class _Builder:
    """Turns the parse tree into the classes above; rules with checks have methods."""

    path: str | None

    def built(self, node: Any) -> Any:
        if node is None or isinstance(node, str):  # a token is a string
            return node
        children = [self.built(child) for child in node.children]
        meta = node.meta
        place = Place(self.path, getattr(meta, "line", 0), getattr(meta, "column", 0))
        if node.data in _BUILT:
            return _BUILT[node.data](children, place)
        return getattr(self, node.data)(place, children)

    def start(self, _: Place, children: list[Any]) -> File:
        tapes: tuple[str, ...] | None = None
        statements: list[Statement] = []
        for child in children:
            if not isinstance(child, tuple):
                statements.append(child)
                continue
            names, place = child
            if tapes is not None:
                raise place.error("the tapes are named twice")
            if len(set(names)) < len(names):
                raise place.error("a tape is named twice")
            tapes = names
        return File(self.path, tapes or (), tuple(statements))

    def number(self, place: Place, children: list[Any]) -> Number:
        return Number(_integer(children[0], place), place)

    def times(self, place: Place, children: list[Any]) -> Repetition[_Written]:
        part, number = children
        return self.range(place, [part, number, number])

    def at_most(self, place: Place, children: list[Any]) -> Repetition[_Written]:
        return self.range(place, [children[0], "0", children[1]])

    def range(self, place: Place, children: list[Any]) -> Repetition[_Written]:
        part, first, last = children
        low, high = _bound(first, place), None if last is None else _bound(last, place)
        return Repetition(part, low, high, place)

    def weighted(self, place: Place, children: list[Any]) -> Weighted[_Written]:
        part, weight = children
        text = str(weight)[1:-1].strip()
        if text == "?":
            raise place.error(
                "<?> can only be the cost of a pattern or constraint, as in each[x, <?>] "
                "or at_most[1, x, <?>]; name an open cost here: <?name>"
            )
        return Weighted(part, text[1:] if text[0] == "?" else _cost(weight, place), place)

    def cost(self, place: Place, children: list[Token]) -> Cost:
        token = children[0]
        text = str(token)[1:-1].strip()
        if text[0] == "?" and text != "?":
            raise place.error(f"{token}: a named cost must follow an expression: x {token}")
        cost = None if text == "?" else _cost(token, place)
        return Cost(cost, place, (token.start_pos or 0, token.end_pos or 0))


def _cost(token: Token, place: Place) -> float:
    cost = float(str(token)[1:-1])
    if not abs(cost) <= LARGEST_SCORE:
        raise place.error(f"{token}: expected a number of at most {LARGEST_SCORE:g} in size")
    return cost


def _bound(token: str, place: Place) -> int | str:
    return _integer(token, place) if token.isdigit() else str(token)


def _integer(token: str, place: Place) -> int:
    if len(token) > _DIGITS:
        raise place.error(f"{token[:20]}… is a number of more than {_DIGITS} digits")
    return int(token)


def check_range(low: int, high: int | None, place: Place) -> None:
    """Refuse numbers of repetitions that are too large, or in the wrong order."""
    if max(low, high or 0) > MAX_REPEATS or (high is not None and low > high):
        bounds = f"{{{low},{'' if high is None else high}}}"
        raise place.error(f"{bounds}: expected two numbers up to {MAX_REPEATS}, the smaller first")
