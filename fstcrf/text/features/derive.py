"""The strings that a template reads at a token: a column, or strings derived from one.

All functions run once per *distinct* string of a column, never per token.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fstcrf.arguments import closest
from fstcrf.errors import TemplateError
from fstcrf.text.features import bytewise

_BARE = re.compile(r"[^\s,()\[\]{}\"%]+")
_CATEGORY_CLASS = {"Lu": "A", "Lt": "A", "Ll": "a", "Lm": "x", "Lo": "x"}
_CLASS_ORDER = "Aax0."
_RUNS = re.compile(r"(.)\1+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Plain:
    """A column without changes.

    Parameters
    ----------
    column : str or int
        Its name, or its position in the corpus, from 0.
    """

    column: str | int

    def __str__(self) -> str:
        if isinstance(self.column, int):
            return str(self.column)
        bare = _BARE.fullmatch(self.column) and not self.column.isdecimal()
        return self.column if bare else _quoted(self.column)


@dataclass(frozen=True, slots=True)
class Derived:
    """A function of a source; created by `derived`, which checks it.

    Parameters
    ----------
    function : str
        Name in `FUNCTIONS`.
    source : Plain or Derived
        Argument of the function.
    arguments : tuple of str and int
        Further arguments, as in the text of a template.
    entries : tuple of str
        The strings of a list, such as the list of ``member``, sorted; they are part of the model.
    """

    function: str
    source: Source
    arguments: tuple[str | int, ...] = ()
    entries: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        texts = [_quoted(a) if isinstance(a, str) else str(a) for a in self.arguments]
        return f"{self.function}({','.join([str(self.source), *texts])})"


Source = Plain | Derived


@dataclass(frozen=True, slots=True)
class ColumnFunction:
    """One function that templates may call."""

    # Types of the arguments after the source, `int` or `str`.
    parameters: tuple[type[int | str], ...]
    # Takes a `Derived`, returns the function from a string to a list of strings.
    make: Callable[[Derived], Callable[[str], list[str]]]
    # Whether a string may yield several strings, and so a token several attributes.
    multiple: bool = False
    # Whether its argument names a list of strings, which is read with the template.
    listed: bool = False


def derived(
    function: str,
    source: Source,
    arguments: Sequence[str | int] = (),
    *,
    entries: Sequence[str] = (),
) -> Derived:
    """Return a checked `Derived`."""
    if function not in FUNCTIONS:
        near = closest(function, FUNCTIONS)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FUNCTIONS)}"
        raise TemplateError(f"no function {function!r}; {hint}")
    types = FUNCTIONS[function].parameters
    if tuple(map(type, arguments)) != types:
        expected = ",".join(["column", *("number" if t is int else '"text"' for t in types)])
        raise TemplateError(f"{function} is called as {function}({expected})")
    if is_multiple(source):
        raise TemplateError(f"{source} gives several strings a token: it must be outermost")
    result = Derived(function, source, tuple(arguments), tuple(sorted(set(entries))))
    if any("\n" in a or "\r" in a for a in result.arguments if isinstance(a, str)):
        raise TemplateError(f"an argument of {function} contains a line break")
    FUNCTIONS[function].make(result)
    return result


def is_multiple(source: Source) -> bool:
    """Return whether a source may give several strings for one token."""
    return isinstance(source, Derived) and FUNCTIONS[source.function].multiple


def root(source: Source) -> str | int:
    """Return the column at the root of a source."""
    while isinstance(source, Derived):
        source = source.source
    return source.column


def resolved(source: Source, column: str) -> Source:
    """Return the source with the column it reads replaced."""
    if isinstance(source, Plain):
        return Plain(column)
    return replace(source, source=resolved(source.source, column))


def strings_of(source: Source) -> Callable[[str], list[str]]:
    """Return the function from a string of the column to the strings that the source derives."""
    if isinstance(source, Plain):
        return lambda string: [string]
    outer = FUNCTIONS[source.function].make(source)
    if isinstance(source.source, Plain):
        return outer
    inner = strings_of(source.source)
    return lambda string: outer(inner(string)[0])


def _quoted(text: str) -> str:
    """Return a string in double quotes, with quotes inside doubled; backslashes are not special."""
    return '"' + text.replace('"', '""') + '"'


class _Classes(dict[int, str]):
    """Maps code points to classes; entries are computed on demand."""

    def __missing__(self, code: int) -> str:
        category = unicodedata.category(chr(code))
        named = {"M": "x", "N": "0"}.get(category[0], chr(code))
        self[code] = letter = _CATEGORY_CLASS.get(category, named)
        return letter


_CLASSES = _Classes()


def _char_classes(string: str) -> str:
    """Return the string with each letter and digit replaced by its class.

    Upper and title case give ``A``, lower case ``a``, other letters and marks ``x``, numbers ``0``;
    every other character is kept.

    Examples
    --------
    >>> _char_classes("McCoy's B-52")
    "AaAaa'a A-00"
    """
    return string.translate(_CLASSES)


def _short_shape(string: str) -> str:
    return _RUNS.sub(r"\1", _char_classes(string))


def _charclass(string: str) -> str:
    present = {c if c in "Aax0" else "." for c in _char_classes(string)}
    return "".join(c for c in _CLASS_ORDER if c in present)


def _simple(function: Callable[[str], str]) -> Callable[[Derived], Callable[[str], list[str]]]:
    return lambda _: lambda string: [function(string)]


def _sizes(node: Derived) -> list[int]:
    sizes = [int(a) for a in node.arguments]
    if sizes != sorted(sizes) or sizes[0] < 1:
        raise TemplateError(f"{node}: lengths start at 1 and may not decrease")
    return sizes


def _prefix(node: Derived) -> Callable[[str], list[str]]:
    (size,) = _sizes(node)
    return lambda string: [string[:size]]


def _suffix(node: Derived) -> Callable[[str], list[str]]:
    (size,) = _sizes(node)
    return lambda string: [string[-size:]]


def _ngrams(node: Derived) -> Callable[[str], list[str]]:
    shortest, longest = _sizes(node)

    def grams(string: str) -> list[str]:
        marked = f"<{string}>"
        lengths = range(max(shortest, 2), min(longest, len(marked)) + 1)
        longer = [marked[i : i + n] for n in lengths for i in range(len(marked) - n + 1)]
        # a single boundary mark carries no information
        characters = list(string) if shortest == 1 else []
        return list(dict.fromkeys(characters + longer))

    return grams


def _pattern(node: Derived) -> re.Pattern[str]:
    try:
        return re.compile(str(node.arguments[0]))
    except (re.error, OverflowError, RecursionError) as error:
        raise TemplateError(f"{node}: not a regular expression: {error}") from None


def _match(node: Derived) -> Callable[[str], list[str]]:
    search = _pattern(node).search
    return lambda string: ["1" if search(string) else "0"]


def _find(node: Derived) -> Callable[[str], list[str]]:
    search = _pattern(node).search

    def first_match(string: str) -> list[str]:
        hit = search(string)
        return [hit.group() if hit else ""]

    return first_match


def _wapiti(
    make: Callable[[str], Callable[[str], str]],
) -> Callable[[Derived], Callable[[str], list[str]]]:
    return lambda node: _simple(make(str(node.arguments[0])))(node)


def _member(node: Derived) -> Callable[[str], list[str]]:
    entries = frozenset(node.entries)
    return lambda string: ["1" if string in entries else "0"]


def _known_shape(node: Derived) -> Callable[[str], list[str]]:
    """Mark the short shape of a word whose lower case is known: ``Turkey`` gives Aa and k."""
    entries = frozenset(node.entries)

    def shape(string: str) -> list[str]:
        low = string.lower()
        return [_short_shape(string) + "k" * (low != string and low in entries)]

    return shape


FUNCTIONS: dict[str, ColumnFunction] = {
    "lower": ColumnFunction((), _simple(str.lower)),
    "lower_ascii": ColumnFunction((), _simple(bytewise.lower_ascii)),
    "shape": ColumnFunction((), _simple(_char_classes)),
    "short_shape": ColumnFunction((), _simple(_short_shape)),
    "charclass": ColumnFunction((), _simple(_charclass)),
    "prefix": ColumnFunction((int,), _prefix),
    "suffix": ColumnFunction((int,), _suffix),
    "ngrams": ColumnFunction((int, int), _ngrams, multiple=True),
    "match": ColumnFunction((str,), _match),
    "find": ColumnFunction((str,), _find),
    "member": ColumnFunction((str,), _member, listed=True),
    "known_shape": ColumnFunction((str,), _known_shape, listed=True),
    "wapiti_test": ColumnFunction((str,), _wapiti(bytewise.test)),
    "wapiti_find": ColumnFunction((str,), _wapiti(bytewise.find)),
}
