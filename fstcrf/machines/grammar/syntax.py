"""The text of a ``.grm`` file → its statements and expressions, with lines; syntax errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar

from fstcrf.errors import GrammarError
from fstcrf.machines.grammar.labels import listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lark import Lark, Token, UnexpectedInput
    from lark.tree import Meta


@dataclass(frozen=True, slots=True)
class Text:
    """Text in quotes: a sequence of labels in brackets, or a name of a constraint's argument."""

    raw: str  # between the quotes, backslashes included
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
class Cost:
    """A cost as an argument: that of each violation, or match; None where it is to be learned."""

    cost: float | None
    line: int
    place: tuple[int, int]  # where it stands in the text


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


# What expressions are made of, over leaves as they are written or as they are resolved.

_Leaf = TypeVar("_Leaf")


@dataclass(frozen=True, slots=True)
class Concatenation(Generic[_Leaf]):
    """One after the other; without parts, the empty sequence."""

    parts: tuple[Tree[_Leaf], ...]
    line: int


@dataclass(frozen=True, slots=True)
class Union(Generic[_Leaf]):
    """Any of these."""

    parts: tuple[Tree[_Leaf], ...]
    line: int


@dataclass(frozen=True, slots=True)
class Difference(Generic[_Leaf]):
    """The left one where the right one is not."""

    left: Tree[_Leaf]
    right: Tree[_Leaf]
    line: int


@dataclass(frozen=True, slots=True)
class Repetition(Generic[_Leaf]):
    """From `low` to `high` times; None for any number."""

    part: Tree[_Leaf]
    low: int
    high: int | None
    line: int


@dataclass(frozen=True, slots=True)
class Weighted(Generic[_Leaf]):
    """An expression with a cost, the negative of a natural-log score, as OpenFst has it."""

    part: Tree[_Leaf]
    cost: float
    line: int


Tree: TypeAlias = (
    _Leaf
    | Concatenation[_Leaf]
    | Union[_Leaf]
    | Difference[_Leaf]
    | Repetition[_Leaf]
    | Weighted[_Leaf]
)
_Written: TypeAlias = Text | Name | Call
Expression: TypeAlias = Tree[_Written]
Argument: TypeAlias = Expression | Number | Cost | Option


@dataclass(frozen=True, slots=True)
class Definition:
    """A name and what it stands for."""

    name: str
    value: Expression
    export: bool
    line: int


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
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
    statements: tuple[Definition | FunctionDefinition, ...]


# --- Labels in strings ----------------------------------------------------------------------------
# ``"[B-NP][I-NP]"``, ``"[pos=NN chunk=B-NP]"``. A backslash takes the next character as it is:
# ``\]`` and ``\"`` in labels that hold them, and a blank or an equals sign where several tapes are
# read.

_SYMBOL = re.compile(r"\s*\[((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_FIELD = re.compile(r"(?:[^\s\\]|\\.)+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def plain(raw: str) -> str:
    """Return text without its backslashes."""
    return _ESCAPE.sub(r"\1", raw)


def cut(raw: str) -> list[str]:
    """Return what stands between the brackets of a string, backslashes kept."""
    symbols: list[str] = []
    at = 0
    end = len(raw.rstrip())
    while at < end:
        symbol = _SYMBOL.match(raw, at)
        if symbol is None:
            raise GrammarError(f'"{raw}": labels stand in brackets: "[LABEL]"')
        symbols.append(symbol[1])
        at = symbol.end()
    return symbols


def fields(
    raw: str, tapes: tuple[str, ...], *, unescape: bool = True
) -> tuple[tuple[str | None, str], ...]:
    """Return the label of each tape in what stands between two brackets.

    That is a label; where the file names several tapes, ``tape=label`` for each that matters.
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


# --- Parsing --------------------------------------------------------------------------------------

MAX_REPEATS = 1_000
_DIGITS = 20  # of a whole number

_SHOWN = {
    "NAME": "a name",
    "STRING": 'labels in quotes: "[LABEL]"',
    "WEIGHT": "a weight: <2.5>",
    "INTEGER": "a number",
    "REPEAT": "* + or ?",
    "EXPORT": "export",
    "$END": "the end",
    "LSQB": "'['",
    "RSQB": "']'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "EQUAL": "'='",
    "SEMICOLON": "';'",
    "VBAR": "'|'",
    "MINUS": "'-'",
}


def parse(text: str, path: str | None = None) -> File:
    """Return the parts of a grammar file; `path` is for messages."""
    from lark import UnexpectedInput  # noqa: PLC0415 - slow to import, only such text needs it

    try:
        tree = _parser().parse(text.removeprefix("\ufeff"))
    except UnexpectedInput as error:
        _fail(error, text, path)
    try:
        file: File = _Builder(path).built(tree)
    except RecursionError:
        raise GrammarError(DEEP, path=path, line=_deepest_line(text)) from None
    return file


DEEP = "an expression is nested too deeply: give its parts names, in definitions of their own"


def _deepest_line(text: str) -> int:
    """Return the line of the first place with the most open parentheses and brackets."""
    depth = most = 0
    line = number = 1
    for character in _QUOTED.sub(lambda found: " " * len(found[0]), text):
        number += character == "\n"
        depth += (character in "([{") - (character in ")]}")
        if depth > most:
            most, line = depth, number
    return line


_QUOTED = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|#[^\n]*')


@lru_cache(maxsize=1)
def _parser() -> Lark:
    from lark import Lark  # noqa: PLC0415

    syntax = (files("fstcrf.machines.grammar") / "grm.lark").read_text("utf-8")
    return Lark(syntax, parser="lalr", propagate_positions=True)


def _fail(error: UnexpectedInput, text: str, path: str | None) -> NoReturn:
    from lark import UnexpectedCharacters, UnexpectedToken  # noqa: PLC0415

    line = error.line if error.line > 0 else text.count("\n") + 1
    if isinstance(error, UnexpectedCharacters):
        message = {
            '"': "quotes that are not closed on this line",
            "<": "expected a number between < and >",
        }.get(error.char, f"unexpected {error.char!r}")
        raise GrammarError(message, path=path, line=line) from None
    expected: set[str] = set()
    message = "the text ends too early"
    if isinstance(error, UnexpectedToken):
        expected = error.accepts or error.expected
        if error.token.type == "$END":
            line = text.rstrip().count("\n") + 1
        else:
            message = f"unexpected {str(error.token)!r}"
            if text[: error.token.start_pos or 0].rstrip().endswith(">"):
                raise GrammarError(
                    f"{message} behind a weight; a weight belongs to all of the expression that "
                    "it ends: put parentheses around that",
                    path=path,
                    line=line,
                ) from None
    shown = ", ".join(sorted(_SHOWN.get(name, name.lower()) for name in expected))
    raise GrammarError(f"{message}; expected {shown}", path=path, line=line) from None


_REPEATED: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

# What becomes of the rules of ``grm.lark``: children, line → what it is.
_BUILT: dict[str, Callable[[list[Any], int], Any]] = {
    "tape": lambda names, line: (tuple(map(str, names)), line),
    "definition": lambda c, line: Definition(str(c[1]), c[2], c[0] is not None, line),
    "local": lambda c, line: Definition(str(c[0]), c[1], export=False, line=line),
    "function": lambda c, line: FunctionDefinition(str(c[0]), c[1], tuple(c[2:-1]), c[-1], line),
    "parameters": lambda names, _: tuple(str(name) for name in names if name is not None),
    "union": lambda parts, line: Union(tuple(parts), line),
    "difference": lambda parts, line: Difference(parts[0], parts[1], line),
    "concatenation": lambda parts, line: Concatenation(tuple(parts), line),
    "repeated": lambda c, line: Repetition(c[0], *_REPEATED[c[1]], line),
    "text": lambda c, line: Text(str(c[0])[1:-1], line),
    "name": lambda c, line: Name(str(c[0]), line),
    "call": lambda c, line: Call(str(c[0]), tuple(x for x in c[1:] if x is not None), line),
    "option": lambda c, line: Option(str(c[0]), str(c[1]).strip('"'), line),
}


@dataclass(frozen=True, slots=True)
class _Builder:
    """Turns the parse tree into the classes above: a method for each rule that needs a check."""

    path: str | None

    def built(self, node: Any) -> Any:
        if node is None or isinstance(node, str):  # a token is a string
            return node
        children = [self.built(child) for child in node.children]
        if node.data in _BUILT:
            return _BUILT[node.data](children, node.meta.line)
        return getattr(self, node.data)(node.meta, children)

    def start(self, _: Meta, children: list[Any]) -> File:
        tapes: tuple[str, ...] | None = None
        for names, line in (child for child in children if isinstance(child, tuple)):
            if tapes is not None:
                raise self._error("the tapes are named twice", line)
            if len(set(names)) < len(names):
                raise self._error("a tape is named twice", line)
            tapes = names
        statements = tuple(child for child in children if not isinstance(child, tuple))
        return File(self.path, tapes or (), statements)

    def number(self, meta: Meta, children: list[Any]) -> Number:
        return Number(self._integer(children[0], meta.line), meta.line)

    def times(self, meta: Meta, children: list[Any]) -> Repetition[_Written]:
        part, number = children
        return self.range(meta, [part, number, number])

    def range(self, meta: Meta, children: list[Any]) -> Repetition[_Written]:
        part, first, last = children
        low = self._integer(first, meta.line)
        high = None if last is None else self._integer(last, meta.line)
        if max(low, high or 0) > MAX_REPEATS or (high is not None and low > high):
            bounds = f"{{{low},{'' if high is None else high}}}"
            raise self._error(
                f"{bounds}: expected two numbers up to {MAX_REPEATS}, the smaller one first",
                meta.line,
            )
        return Repetition(part, low, high, meta.line)

    def weighted(self, meta: Meta, children: list[Any]) -> Weighted[_Written]:
        part, weight = children
        return Weighted(part, self._cost(weight, meta.line), meta.line)

    def cost(self, meta: Meta, children: list[Token]) -> Cost:
        token = children[0]
        open_ = str(token)[1:-1].strip() == "?"
        cost = None if open_ else self._cost(token, meta.line)
        return Cost(cost, meta.line, (token.start_pos or 0, token.end_pos or 0))

    def _cost(self, token: Token, line: int) -> float:
        text = str(token)[1:-1].strip()
        if text == "?":
            raise self._error(
                "<?> is the cost of a pattern or constraint: each[x, <?>], at_most[1, x, <?>]", line
            )
        cost = float(text)
        if not isfinite(cost):
            raise self._error(f"{token}: expected a finite number", line)
        return cost

    def _integer(self, token: Token, line: int) -> int:
        if len(token) > _DIGITS:
            raise self._error(f"{token[:20]}… is a number of more than {_DIGITS} digits", line)
        return int(token)

    def _error(self, message: str, line: int) -> GrammarError:
        return GrammarError(message, path=self.path, line=line)
