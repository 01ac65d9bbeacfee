"""Templates as Python objects, each with its counterpart in the text form.

::

    template_set(
        window("word", -2, 2),
        at("word", -1) & at("word"),
        at(suffix(lower("word"), 3)),
        at("pos").on_transitions(),
        BOS, EOS, transitions(),
    )
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fstcrf.errors import TemplateError
from fstcrf.text.features.derive import Derived, Plain, Source, derived
from fstcrf.text.features.template import Macro, Template, TemplateSet, expanded, read_list

BOS = Template("bos")
EOS = Template("eos")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A template without a name, or several that differ by an offset.

    Parameters
    ----------
    parts : tuple of str and Macro
        The template's text after its name.
    kind : {"node", "arc"}
        Whether it conditions one label or a pair of labels.
    name : str, optional
        A name that replaces the number from `template_set`; begins with ``U`` or ``B``.
    """

    parts: tuple[str | Macro, ...]
    kind: Literal["node", "arc"] = "node"
    name: str | None = None

    def __and__(self, other: Pattern) -> Pattern:
        """Return the conjunction: both strings, with ``/`` between them."""
        values = any(all(_is_value(p) for p in side.parts) for side in (self, other))
        between: tuple[str, ...] = () if values else ("/",)
        kind: Literal["node", "arc"] = "arc" if "arc" in (self.kind, other.kind) else "node"
        return Pattern(self.parts + between + other.parts, kind, self.name or other.name)

    def on_transitions(self) -> Pattern:
        """Return the pattern on pairs of labels (``B`` instead of ``U``)."""
        return replace(self, kind="arc")

    def named(self, name: str) -> Pattern:
        """Return the pattern with an explicit name, such as ``U_word``."""
        return replace(self, name=name)


@dataclass(frozen=True, slots=True)
class _Transitions:
    """Placeholder for the line ``B``."""


def at(column: str | int | Source, offset: int = 0, *, document: bool = False) -> Pattern:
    """Return the pattern of the string at an offset.

    Parameters
    ----------
    column : str, int, Plain or Derived
        A column by name or number, or derived strings such as ``lower("word")``.
    offset : int, default 0
        Position relative to the token.
    document : bool
        Continue past the ends of the sentence, within its document (``%d``); so below.
    """
    return Pattern((Macro("x", _source(column), offset, offset, document=document),))


def window(column: str | int | Source, first: int, last: int, *, document: bool = False) -> Pattern:
    """Return one pattern per offset from `first` to `last`, both included.

    Windows joined by ``&`` move together: ``window("word", -1, 0) & window("word", 0, 1)`` are
    the pairs of adjacent words.
    """
    return Pattern((Macro("x", _source(column), first, last, document=document),))


def bag(column: str | int | Source, first: int, last: int, *, document: bool = False) -> Pattern:
    """Return the pattern of the set of strings in a window, without their positions."""
    return Pattern((Macro("bag", _source(column), first, last, document=document),))


def tape(name: str) -> Pattern:
    """Return the pattern of the label that an earlier tagger gives this position."""
    return Pattern((Macro("tape", Plain(name)),))


def value(column: str | int | Source, offset: int = 0) -> Pattern:
    """Return the pattern of a real value, a column of numbers; ``&`` multiplies by it."""
    return Pattern((Macro("value", _source(column), offset, offset),))


def bias() -> Pattern:
    """Return the pattern of an attribute that every token has."""
    return Pattern(("bias",))


def transitions() -> _Transitions:
    """Return a placeholder for label transitions in `template_set`."""
    return _Transitions()


def template_set(*items: Pattern | Template | TemplateSet | _Transitions) -> TemplateSet:
    """Return the templates, named ``U00:``, ``U01:``, ... and ``B00:``, ... by their order.

    Parameters
    ----------
    items : Pattern, Template, TemplateSet or the result of `transitions`
        The templates. A window is one item.

    Raises
    ------
    TemplateError
        The same template twice, or windows of different lengths in one pattern.

    Examples
    --------
    >>> print(template_set(at("word", -1) & at("word"), bias(), transitions()), end="")
    U00:%x[-1,word]/%x[0,word]
    U01:bias
    B
    """
    templates: list[Template] = []
    numbers = {"node": 0, "arc": 0}
    has_transitions = False
    for item in items:
        if isinstance(item, _Transitions):
            has_transitions = True
        elif isinstance(item, TemplateSet):
            templates += item.templates
            has_transitions |= item.has_transitions
        elif isinstance(item, Template):
            templates.append(item)
        else:
            letter = "U" if item.kind == "node" else "B"
            name = item.name or f"{letter}{numbers[item.kind]:02d}"
            numbers[item.kind] += 1
            parts = _merged((f"{name}:", *item.parts))
            templates += [Template(item.kind, variant) for variant in expanded(parts)]
    return TemplateSet(tuple(templates), has_transitions)


def lower(column: str | int | Source) -> Derived:
    """Return the column in lower case."""
    return derived("lower", _source(column))


def shape(column: str | int | Source) -> Derived:
    """Return each character's class: ``McCoy's-5`` gives ``AaAaa'a-0``."""
    return derived("shape", _source(column))


def short_shape(column: str | int | Source) -> Derived:
    """Return the shape with runs collapsed: ``McCoy's-52`` gives ``AaAa'a-0``."""
    return derived("short_shape", _source(column))


def charclass(column: str | int | Source) -> Derived:
    """Return the classes of characters that occur: ``McCoy's-52`` gives ``Aa0.``."""
    return derived("charclass", _source(column))


def known_shape(
    column: str | int | Source, entries: str | Path | Iterable[str], *, name: str | None = None
) -> Derived:
    """Return the short shape, marked if the string's lower case is known but it is not lower case.

    Arguments and errors as for `member`; the entries are words in lower case.
    """
    name, strings = _entries(entries, name)
    return derived("known_shape", _source(column), (name,), entries=strings)


def prefix(column: str | int | Source, size: int) -> Derived:
    """Return the first `size` characters, or all of a shorter string."""
    return derived("prefix", _source(column), (size,))


def suffix(column: str | int | Source, size: int) -> Derived:
    """Return the last `size` characters, or all of a shorter string."""
    return derived("suffix", _source(column), (size,))


def ngrams(column: str | int | Source, shortest: int, longest: int) -> Derived:
    """Return the character n-grams of ``<string>``: several attributes a token."""
    return derived("ngrams", _source(column), (shortest, longest))


def match(column: str | int | Source, pattern: str) -> Derived:
    """Return ``1`` if a regular expression is found in the string, else ``0``."""
    return derived("match", _source(column), (pattern,))


def find(column: str | int | Source, pattern: str) -> Derived:
    """Return the first match of a regular expression, or an empty string."""
    return derived("find", _source(column), (pattern,))


def member(
    column: str | int | Source, entries: str | Path | Iterable[str], *, name: str | None = None
) -> Derived:
    """Return ``1`` if the string is in a list, else ``0``.

    Parameters
    ----------
    column : str, int, Plain or Derived
        The string to look up.
    entries : str, Path or iterable of str
        A file of one string a line, or the strings themselves.
    name : str, optional
        Name of the list in the text form; the path if absent.

    Raises
    ------
    TemplateError
        Strings without a name.
    OSError
        A file that cannot be read.
    """
    name, strings = _entries(entries, name)
    return derived("member", _source(column), (name,), entries=strings)


def _entries(entries: str | Path | Iterable[str], name: str | None) -> tuple[str, list[str]]:
    if isinstance(entries, (str, Path)):
        return name or str(entries), read_list(entries)
    if not name:
        raise TemplateError("a list of strings needs a name: member(column, strings, name='...')")
    return name, list(entries)


def _source(column: str | int | Source) -> Source:
    if isinstance(column, int) and column < 0:
        raise TemplateError(f"column {column}: columns are numbered from 0")
    return Plain(column) if isinstance(column, (str, int)) else column


def _is_value(part: str | Macro) -> bool:
    return isinstance(part, Macro) and part.kind == "value"


def _merged(parts: tuple[str | Macro, ...]) -> list[str | Macro]:
    merged: list[str | Macro] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return merged
