"""The text form of templates: CRF++ syntax and what fstcrf adds to it.

================ =============================================================
parse_template   templates from a string
read_template    templates from a file
as_templates     templates in any of their forms
expanded         one template per offset of a window range
read_list        the strings of a ``member`` list
================ =============================================================

::

    # a comment
    U00:%x[-1,word]/%x[0,word]      strings at offsets; columns by name or number
    U01:%x[-2..2,lower(word)]       one template per offset: U01[-2]: ... U01[2]:
    U02:%x{-4..-1,word}             the set of the words in a window
    U02:%x[@1,word]                 the sentence's first word; @-1 its last
    U03:%y[0,pos]                   the label of an earlier tagger
    U04:%v[0,score]                 a number, multiplies the attribute
    B                               label transitions
    B01:%x[0,1]                     attributes of label transitions
    BOS                             the attribute __BOS__ of a sentence's first token
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from fstcrf.errors import DataError, TemplateError
from fstcrf.features.derive import FUNCTIONS, Plain, Source, derived
from fstcrf.features.template import Macro, MacroKind, Template, TemplateKind, TemplateSet

__all__ = [
    "as_templates",
    "expanded",
    "is_template_text",
    "parse_template",
    "read_list",
    "read_template",
]

_OPEN = re.compile(r"%(?:(%)|([xyv])\[|x(\{))")
_WINDOW = re.compile(r"\s*(@?)([+-]?\d+)(?:\.\.([+-]?\d+))?\s*,")
_NAME = re.compile(r"\s*([^\s,()\[\]{}\"%]+)\s*")
_QUOTED = re.compile(r'\s*"((?:[^"]|"")*)"\s*')
_INTEGER = re.compile(r"\s*(\d+)\s*")
_KINDS: dict[str, MacroKind] = {"x": "x", "y": "tape", "v": "value"}


def read_template(path: str | Path) -> TemplateSet:
    """Read a template file.

    Parameters
    ----------
    path : str or Path
        UTF-8 text; ``member`` lists are found relative to its folder.

    Raises
    ------
    TemplateError
        A line that is no template, with file and line; a file without any.
    DataError
        A byte that is not UTF-8.
    OSError
        A file that cannot be read.
    """
    text = "\n".join(_read_lines(Path(path)))
    templates = parse_template(text, folder=Path(path).parent, source=str(path))
    if not templates.templates and not templates.has_transitions:
        raise TemplateError("holds no templates", path=str(path))
    return templates


def is_template_text(template: object) -> bool:
    """Tell whether this is a template rather than the name of its file: it has lines or macros."""
    return isinstance(template, str) and ("\n" in template or "%" in template)


def as_templates(template: TemplateSet | str | os.PathLike[str]) -> TemplateSet:
    """Return templates as they are, from text, or from a file; errors as for `read_template`."""
    if isinstance(template, TemplateSet):
        return template
    if is_template_text(template):
        return parse_template(str(template))
    return read_template(Path(template))


def parse_template(
    text: str,
    *,
    folder: str | Path | None = None,
    lists: Mapping[str, Sequence[str]] | None = None,
    source: str | None = None,
) -> TemplateSet:
    """Parse the text of a template file.

    Parameters
    ----------
    text : str
        Lines of templates.
    folder : str or Path, optional
        Where the files of ``member`` lists are; the current folder when absent.
    lists : mapping of str to sequence of str, optional
        Contents of the ``member`` lists; then no file is read.
    source : str, optional
        Name of the text in messages.

    Raises
    ------
    TemplateError
        A line that is no template, with its line number.

    Examples
    --------
    >>> print(parse_template("U0:%x[-1..0,word]/%x[0..1,word]"), end="")
    U0[-1]:%x[-1,word]/%x[0,word]
    U0[0]:%x[0,word]/%x[1,word]
    """
    templates: list[Template] = []
    has_transitions = False
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        try:
            parts = _Scanner(line, Path(folder or "."), lists).parts()
            new = _templates(line, parts)
        except TemplateError as error:
            raise TemplateError(str(error), path=source, line=number) from None
        has_transitions |= not new
        templates += [replace(t, line=number) for t in new]
    return TemplateSet(tuple(templates), has_transitions, source)


def read_list(path: str | Path) -> list[str]:
    """Read the strings of a ``member`` list: one a line, blank lines left out.

    Raises
    ------
    DataError
        A byte that is not UTF-8.
    OSError
        A file that cannot be read.
    """
    return [line for raw in _read_lines(Path(path)) if (line := raw.strip(" \t\r"))]


def expanded(parts: Sequence[str | Macro]) -> list[tuple[str | Macro, ...]]:
    """Expand window ranges: one tuple of parts per offset, all ranges moving together.

    The name, which is the text before the first colon, gets the offset of the first range.

    Raises
    ------
    TemplateError
        Ranges of different lengths.
    """
    ranges = [p for p in parts if isinstance(p, Macro) and p.is_range]
    if not ranges:
        return [tuple(parts)]
    if len({m.last - m.first for m in ranges}) > 1:
        lengths = ", ".join(f"{m.first}..{m.last}" for m in ranges)
        raise TemplateError(f"the windows {lengths} have different lengths; they move together")

    def at(step: int) -> tuple[str | Macro, ...]:
        moved = [
            replace(p, first=p.first + step, last=p.first + step)
            if isinstance(p, Macro) and p.is_range
            else p
            for p in parts
        ]
        return (_marked(moved[0], ranges[0].first + step), *moved[1:])

    return [at(step) for step in range(ranges[0].last - ranges[0].first + 1)]


def _marked(name: str | Macro, offset: int) -> str | Macro:
    if isinstance(name, Macro):
        return name
    head, colon, rest = name.partition(":")
    return f"{head}[{offset}]{colon}{rest}"


def _templates(line: str, parts: list[str | Macro]) -> list[Template]:
    """Return the templates of a line; none for label transitions."""
    if line in ("BOS", "EOS"):
        return [Template("bos" if line == "BOS" else "eos")]
    if line[0] not in "UB":
        raise TemplateError(f"{line!r}: a template starts with U or B, a comment with #")
    if line[0] == "B" and not any(isinstance(p, Macro) for p in parts):
        return []
    kind: TemplateKind = "node" if line[0] == "U" else "arc"
    return [Template(kind, variant) for variant in expanded(parts)]


def _read_lines(path: Path) -> list[str]:
    lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    texts: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise DataError("a byte is not UTF-8", path=str(path), line=number) from None
    return texts


@dataclass(slots=True)
class _Scanner:
    """Reads one line from left to right."""

    line: str
    folder: Path
    lists: Mapping[str, Sequence[str]] | None
    at: int = 0

    def parts(self) -> list[str | Macro]:
        """Return the line cut at its macros."""
        parts: list[str | Macro] = []
        literal = ""
        while (percent := self.line.find("%", self.at)) >= 0:
            literal += self.line[self.at : percent]
            self.at = percent
            opened = self.match(_OPEN, "%x[, %x{, %y[, %v[ or %% for a percent sign")
            if opened[1]:
                literal += "%"
                continue
            parts += [literal] if literal else []
            literal = ""
            parts.append(self.macro("bag" if opened[3] else _KINDS[opened[2]]))
        literal += self.line[self.at :]
        return parts + ([literal] if literal else [])

    def macro(self, kind: MacroKind) -> Macro:
        """Read a macro after its opening bracket."""
        window = self.match(_WINDOW, "an offset, or a window a..b, and a comma")
        first = int(window[2])
        last = first if window[3] is None else int(window[3])
        source = self.source()
        self.expect("}" if kind == "bag" else "]")
        return Macro(kind, source, first, last, absolute=bool(window[1]))

    def source(self) -> Source:
        """Read a column or a function call."""
        if (text := _QUOTED.match(self.line, self.at)) is not None:
            self.at = text.end()
            return Plain(text[1].replace('""', '"'))
        name = self.match(_NAME, "a column or a function")[1]
        if self.line[self.at : self.at + 1] != "(":
            return Plain(int(name) if name.isascii() and name.isdecimal() else name)
        self.at += 1
        return self.call(name)

    def call(self, function: str) -> Source:
        """Read a function's arguments after the opening bracket."""
        source = self.source()
        arguments: list[str | int] = []
        while self.line[self.at : self.at + 1] == ",":
            self.at += 1
            if (text := _QUOTED.match(self.line, self.at)) is not None:
                self.at = text.end()
                arguments.append(text[1].replace('""', '"'))
            else:
                arguments.append(int(self.match(_INTEGER, 'a number or a "text"')[1]))
        self.expect(")")
        while self.line[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if function == "member" and FUNCTIONS["member"].parameters == tuple(map(type, arguments)):
            return derived(function, source, arguments, entries=self.entries(str(arguments[0])))
        return derived(function, source, arguments)

    def entries(self, name: str) -> Sequence[str]:
        """Return the strings of a list."""
        if self.lists is not None and name in self.lists:
            return self.lists[name]
        if self.lists is not None:
            raise TemplateError(f"the list {name!r} is not among those given")
        try:
            return read_list(self.folder / name)
        except OSError as error:
            raise TemplateError(f"the list {name!r}: {error.strerror or error}") from None

    def match(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Read what a pattern matches, or say what was expected."""
        found = pattern.match(self.line, self.at)
        if found is None:
            self.fail(expected)
        self.at = found.end()
        return found

    def expect(self, symbol: str) -> None:
        """Read one symbol."""
        if self.line[self.at : self.at + 1] != symbol:
            self.fail(repr(symbol))
        self.at += 1

    def fail(self, expected: str) -> NoReturn:
        """Raise an error that shows how far the line could be read."""
        raise TemplateError(f"{self.line!r}: expected {expected} after {self.line[: self.at]!r}")
