"""From the text of a ``.grm`` file to its parts; syntax errors with file and line."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from math import isfinite
from typing import Any, NoReturn

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, v_args
from lark.exceptions import UnexpectedToken, VisitError
from lark.tree import Meta

from fstcrf.errors import GrammarError
from fstcrf.grammar.syntax import (
    Argument,
    Call,
    Concatenation,
    Definition,
    Difference,
    Expression,
    File,
    Function,
    Name,
    Number,
    Option,
    Repetition,
    Text,
    Union,
    Weight,
    Weighted,
)

__all__ = ["parse"]

MAX_REPEATS = 1_000

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
    """Return the parts of a grammar file.

    Parameters
    ----------
    text : str
    path : str, optional
        Where it is from, for messages.

    Raises
    ------
    GrammarError
        What is no grammar, with file and line.
    """
    try:
        found = _Builder(path).transform(_parser().parse(text.removeprefix("\ufeff")))
    except UnexpectedInput as error:
        _fail(error, text, path)
    except VisitError as error:
        raise error.orig_exc from None
    assert isinstance(found, File)  # noqa: S101 - what the rule `start` gives
    return found


@lru_cache(maxsize=1)
def _parser() -> Lark:
    syntax = (files("fstcrf.grammar") / "grm.lark").read_text("utf-8")
    return Lark(syntax, parser="lalr", propagate_positions=True)


def _fail(error: UnexpectedInput, text: str, path: str | None) -> NoReturn:
    line = error.line if error.line > 0 else text.count("\n") + 1
    if isinstance(error, UnexpectedCharacters):
        found = error.char
        message = f"unexpected {found!r}"
        if found == '"':
            message = "quotes that are not closed on this line"
        elif found == "<":
            message = "expected a number between < and >"
        raise GrammarError(message, path=path, line=line) from None
    expected: set[str] = set()
    message = "the text ends too early"
    if isinstance(error, UnexpectedToken):
        expected = error.accepts or error.expected
        if error.token.type != "$END":
            message = f"unexpected {str(error.token)!r}"
            before = text[: error.token.start_pos or 0].rstrip()
            if before.endswith(">"):
                message += (
                    " behind a weight; a weight belongs to all of the expression that it ends"
                )
                message += ": put parentheses around that"
                raise GrammarError(message, path=path, line=line) from None
        else:
            line = text.rstrip().count("\n") + 1
    shown = ", ".join(sorted(_SHOWN.get(name, name.lower()) for name in expected))
    raise GrammarError(f"{message}; expected {shown}", path=path, line=line) from None


@v_args(meta=True)
class _Builder(Transformer[Token, Any]):
    """Turns the parse tree into the classes of `fstcrf.grammar.syntax`."""

    def __init__(self, path: str | None) -> None:
        super().__init__()
        self.path = path

    def start(self, _: Meta, children: list[Any]) -> File:
        tapes: tuple[str, ...] | None = None
        for names, line in (child for child in children if isinstance(child, tuple)):
            if tapes is not None:
                raise GrammarError("the tapes are named twice", path=self.path, line=line)
            if len(set(names)) < len(names):
                raise GrammarError("a tape is named twice", path=self.path, line=line)
            tapes = names
        statements = tuple(child for child in children if not isinstance(child, tuple))
        return File(self.path, tapes or (), statements)

    def tape(self, meta: Meta, names: list[Token]) -> tuple[tuple[str, ...], int]:
        return tuple(map(str, names)), meta.line

    def definition(self, meta: Meta, children: list[Any]) -> Definition:
        export, name, value = children
        return Definition(str(name), value, export is not None, meta.line)

    def local(self, meta: Meta, children: list[Any]) -> Definition:
        name, value = children
        return Definition(str(name), value, export=False, line=meta.line)

    def function(self, meta: Meta, children: list[Any]) -> Function:
        name, parameters, *body, value = children
        return Function(str(name), parameters, tuple(body), value, meta.line)

    def parameters(self, _: Meta, names: list[Token | None]) -> tuple[str, ...]:
        return tuple(str(name) for name in names if name is not None)

    def weighted(self, meta: Meta, children: list[Any]) -> Weighted:
        part, weight = children
        return Weighted(part, self._cost(weight, meta.line), meta.line)

    def union(self, meta: Meta, parts: list[Expression]) -> Union:
        return Union(tuple(parts), meta.line)

    def difference(self, meta: Meta, parts: list[Expression]) -> Difference:
        left, right = parts
        return Difference(left, right, meta.line)

    def concatenation(self, meta: Meta, parts: list[Expression]) -> Concatenation:
        return Concatenation(tuple(parts), meta.line)

    def repeated(self, meta: Meta, children: list[Any]) -> Repetition:
        part, symbol = children
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[str(symbol)]
        return Repetition(part, low, high, meta.line)

    def times(self, meta: Meta, children: list[Any]) -> Repetition:
        part, number = children
        return self._repeated(part, int(number), int(number), meta.line)

    def range(self, meta: Meta, children: list[Any]) -> Repetition:
        part, low, high = children
        return self._repeated(part, int(low), None if high is None else int(high), meta.line)

    def _repeated(self, part: Expression, low: int, high: int | None, line: int) -> Repetition:
        if max(low, high or 0) > MAX_REPEATS or (high is not None and low > high):
            bounds = f"{{{low},{'' if high is None else high}}}"
            raise GrammarError(
                f"{bounds}: expected two numbers up to {MAX_REPEATS}, the smaller one first",
                path=self.path,
                line=line,
            )
        return Repetition(part, low, high, line)

    def text(self, meta: Meta, children: list[Token]) -> Text:
        return Text(str(children[0])[1:-1], meta.line)

    def name(self, meta: Meta, children: list[Token]) -> Name:
        return Name(str(children[0]), meta.line)

    def call(self, meta: Meta, children: list[Any]) -> Call:
        name, *arguments = children
        given: list[Argument] = [argument for argument in arguments if argument is not None]
        return Call(str(name), tuple(given), meta.line)

    def number(self, meta: Meta, children: list[Token]) -> Number:
        return Number(int(children[0]), meta.line)

    def cost(self, meta: Meta, children: list[Token]) -> Weight:
        return Weight(self._cost(children[0], meta.line), meta.line)

    def _cost(self, token: Token, line: int) -> float:
        cost = float(str(token)[1:-1])
        if not isfinite(cost):
            raise GrammarError(f"{token}: expected a finite number", path=self.path, line=line)
        return cost

    def option(self, meta: Meta, children: list[Token]) -> Option:
        name, value = children
        return Option(str(name), str(value).strip('"'), meta.line)
