"""Feature templates as values, and their text: CRF++ syntax with the extensions of fstcrf.

The attribute of a template at a token is its text, with each macro replaced by the string at its
position: ``U05:%x[-1,word]/%x[0,word]`` gives ``U05:in/the``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Literal, NoReturn

from fstcrf.errors import TemplateError
from fstcrf.files import path_name
from fstcrf.text.features.derive import (
    FUNCTIONS,
    Derived,
    Plain,
    Source,
    derived,
    is_multiple,
    resolved,
    root,
)
from fstcrf.text.lines import read_text, text_lines

MacroKind = Literal["x", "bag", "tape", "value"]
TemplateKind = Literal["node", "arc", "bos", "eos"]

MAX_OFFSET = 1000
MAX_MEMBERS = 10_000
"""Attributes that one template may give each token: the product of the sizes of its windows."""
MAX_ATTRIBUTES = 20_000
"""... and all templates of a set together."""
_DIGITS = 9  # digits of a number in a template
_DEPTH = 50  # nested function calls
_LETTER = {"node": "U", "arc": "B"}
_FIXED = {"bos": "BOS", "eos": "EOS"}


def tape_column(tape: str) -> str:
    """Return the name of the corpus column for the labels of a tape.

    No column of a file has such a name, so ``%y[0,pos]`` never reads a gold column called ``pos``.

    Examples
    --------
    >>> tape_column("pos")
    '%y[pos]'
    """
    return f"%y[{tape}]"


@dataclass(frozen=True, slots=True)
class Macro:
    """One placeholder of a template.

    Parameters
    ----------
    kind : {"x", "bag", "tape", "value"}
        The string at an offset (``%x[..]``), each string of a window (``%x{..}``), an earlier
        tagger's label (``%y[..]``), or a number that multiplies the attribute (``%v[..]``).
    source : Plain or Derived
        The string that is read; for a tape, `Plain` with the tape's name.
    first, last : int
        Offsets; they are equal except in a bag and in a range before its expansion.
    absolute : bool
        For ``x`` only: `first` is a position in the sentence, from 1, or from its end at −1.
    document : bool
        For ``x`` and ``bag``: offsets continue past the sentence's ends, up to the ends of its
        document (``%d[..]``, ``%d{..}``).

    Raises
    ------
    TemplateError
        A tape read at another position, an empty window, a position 0 or of another kind, a tape or
        number beyond the sentence, or a source of several strings that must be a number.
    """

    kind: MacroKind
    source: Source
    first: int = 0
    last: int = 0
    absolute: bool = False
    document: bool = False

    def __post_init__(self) -> None:
        if self.document and (self.absolute or self.kind not in {"x", "bag"}):
            raise TemplateError("%d reads strings at offsets: %d[-1,word], %d{-4..-1,word}")
        if self.absolute and (self.kind != "x" or self.first != self.last or not self.first):
            raise TemplateError(
                "@ needs a single place and %x: %x[@1,word] is the first token, "
                "%x[@-1,word] the last"
            )
        if self.first > self.last:
            raise TemplateError(f"the window {self.first}..{self.last} is empty")
        if max(-self.first, self.last) > MAX_OFFSET:
            raise TemplateError(f"offsets go from {-MAX_OFFSET} to {MAX_OFFSET}")
        if self.kind == "tape" and (self.first, self.last) != (0, 0):
            raise TemplateError(
                "%y reads the label of the same position: its offset must be 0, because a joint "
                "decoder knows the other tagger's label only there"
            )
        if self.kind == "tape" and not (
            isinstance(self.source, Plain) and isinstance(self.source.column, str)
        ):
            raise TemplateError("%y takes the name of a tape: %y[0,pos]")
        if self.kind == "value" and is_multiple(self.source):
            raise TemplateError(f"{self.source} gives several strings, %v needs one number")

    def __str__(self) -> str:
        window = str(self.first) if self.first == self.last else f"{self.first}..{self.last}"
        letter = "d" if self.document else _MACRO_LETTER[self.kind]
        if self.kind == "bag":
            return f"%{letter}{{{self.first}..{self.last},{self.source}}}"
        place = "@" * self.absolute + window
        return f"%{letter}[{place},{self.source}]"

    @property
    def is_range(self) -> bool:
        """Whether it is expanded to one template per offset."""
        return self.kind != "bag" and self.first != self.last


_MACRO_LETTER: dict[MacroKind, str] = {"x": "x", "bag": "x", "tape": "y", "value": "v"}


@dataclass(frozen=True, slots=True)
class Template:
    """One template.

    Parameters
    ----------
    kind : {"node", "arc", "bos", "eos"}
        ``U`` (one label), ``B`` with macros (two labels), or the fixed attribute of the first
        or last token of a sentence.
    parts : tuple of str and Macro
        The line, cut at its macros.
    line : int, optional
        Line number in the file, for messages; ignored in comparisons.

    Raises
    ------
    TemplateError
        Parts that do not make a line of that kind, or give more attributes than `MAX_MEMBERS`.
    """

    kind: TemplateKind
    parts: tuple[str | Macro, ...] = ()
    line: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind in _FIXED:
            if self.parts:
                raise TemplateError(f"{_FIXED[self.kind]} must be the only word on its line")
            return
        letter, text = _LETTER[self.kind], str(self)
        if "\n" in text or "\r" in text or text != text.strip(" \t"):
            raise TemplateError(f"{text!r} is not one line without blanks around it")
        if not text.startswith(letter) or text in _FIXED.values():
            raise TemplateError(f"{text!r} should start with {letter}")
        if any(m.is_range for m in self.macros):
            raise TemplateError(
                f"{text!r} has a range, so it describes several templates: expand it first"
            )
        if self.kind == "arc" and not self.macros:
            raise TemplateError(f"{text!r} has no macro: write B for label transitions")
        if self.members > MAX_MEMBERS:
            raise TemplateError(_too_many(self.members, MAX_MEMBERS, f"{text!r} gives"))
        if "" in self.parts or any({type(a), type(b)} == {str} for a, b in pairwise(self.parts)):
            raise TemplateError(f"the text of {text!r} is split where there is no macro")

    def __str__(self) -> str:
        if self.kind in _FIXED:
            return _FIXED[self.kind]
        return "".join(p.replace("%", "%%") if isinstance(p, str) else str(p) for p in self.parts)

    @property
    def macros(self) -> tuple[Macro, ...]:
        """The macros, in order."""
        return tuple(p for p in self.parts if isinstance(p, Macro))

    @property
    def members(self) -> int:
        """Number of attributes of a token: the product of the sizes of its sets, ``%x{..}``."""
        return prod(m.last - m.first + 1 for m in self.macros)


def _too_many(count: int, most: int, what: str) -> str:
    shown = f"{count:,}" if count < 10**18 else "more than 10¹⁸"
    return f"{what} {shown} attributes at each token, expected up to {most:,}: use smaller windows"


@dataclass(frozen=True, slots=True)
class TemplateSet:
    """The templates of a tagger; ``str()`` gives the text that reads back as the same set.

    Parameters
    ----------
    templates : tuple of Template
        Templates with attributes.
    has_transitions : bool
        Whether pairs of labels have a separate weight (the line ``B``).
    source : str, optional
        File of the templates, for messages; ignored in comparisons.

    Raises
    ------
    TemplateError
        The same template twice, two lists of one name that differ, or more attributes than
        `MAX_ATTRIBUTES`.
    """

    templates: tuple[Template, ...] = ()
    has_transitions: bool = False
    source: str | None = field(default=None, compare=False)
    reads_documents: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether a template reads past the ends of a sentence."""

    def __post_init__(self) -> None:
        document = any(macro.document for template in self.templates for macro in template.macros)
        object.__setattr__(self, "reads_documents", document)
        seen: dict[Template, Template] = {}
        for template in self.templates:
            if template in seen:
                first = seen[template].line
                where = "" if first is None else f" of line {first}"
                raise self.error(template, f"{str(template)!r} repeats the template{where}")
            seen[template] = template
        members = 0
        for template in self.templates:
            members += template.members
            if members > MAX_ATTRIBUTES:
                what = "the templates up to here give"
                raise self.error(template, _too_many(members, MAX_ATTRIBUTES, what))
        lists: dict[str, tuple[str, ...]] = {}
        for template in self.templates:
            for name, entries in _lists(template):
                if lists.setdefault(name, entries) != entries:
                    raise self.error(template, f"two different lists are called {name!r}")

    def __iter__(self) -> Iterator[Template]:
        return iter(self.templates)

    def __len__(self) -> int:
        return len(self.templates)

    def __str__(self) -> str:
        lines = [str(t) for t in self.templates] + ["B"] * self.has_transitions
        return "".join(f"{line}\n" for line in lines)

    @property
    def columns(self) -> tuple[str | int, ...]:
        """Columns that templates read, by name (or by number before `resolved`), without tapes."""
        used = (root(m.source) for t in self for m in t.macros if m.kind != "tape")
        return tuple(dict.fromkeys(used))

    @property
    def tapes(self) -> tuple[str, ...]:
        """Tapes of earlier taggers that ``%y`` reads."""
        used = (str(root(m.source)) for t in self for m in t.macros if m.kind == "tape")
        return tuple(dict.fromkeys(used))

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """Contents of the lists of ``member`` and ``known_shape``, by their name in the text."""
        return {name: entries for t in self for name, entries in _lists(t)}

    def resolved(self, columns: Sequence[str], *, data: str | None = None) -> TemplateSet:
        """Return the templates with column numbers replaced by names, all of them checked.

        Parameters
        ----------
        columns : sequence of str
            Columns of the corpus, in order.
        data : str, optional
            Name of the corpus's source, for messages.

        Raises
        ------
        TemplateError
            A column that the corpus does not have; names the template and the columns.
        """
        plain = [c for c in columns if not c.startswith(("%y[", "%d["))]

        def name(template: Template, macro: Macro) -> str:
            column = root(macro.source)
            if macro.kind == "tape" and tape_column(str(column)) not in columns:
                raise self.error(
                    template,
                    f"{template} reads the labels of tape {column!r}, which are not given: name "
                    "the tagger that writes them in reads=",
                )
            if macro.kind == "tape" or column in plain:
                return str(column)
            if isinstance(column, int) and column < len(plain):
                return plain[column]
            raise self.error(
                template,
                f"{template} reads column {column!r}; {data or 'the corpus'} has "
                f"{', '.join(map(repr, plain)) or 'none'}",
            )

        def renamed(template: Template) -> Template:
            parts = [
                replace(p, source=resolved(p.source, name(template, p)))
                if isinstance(p, Macro)
                else p
                for p in template.parts
            ]
            return replace(template, parts=tuple(parts))

        return replace(self, templates=tuple(renamed(t) for t in self))

    def error(self, template: Template, message: str) -> TemplateError:
        """Return an error with the template's file and line."""
        return TemplateError(message, path=self.source, line=template.line)


def _lists(template: Template) -> Iterator[tuple[str, tuple[str, ...]]]:
    for macro in template.macros:
        source = macro.source
        while isinstance(source, Derived):
            if FUNCTIONS[source.function].listed:
                yield str(source.arguments[0]), source.entries
            source = source.source


# --- The text form --------------------------------------------------------------------------------
#
#   # a comment
#   U00:%x[-1,word]/%x[0,word]      strings at offsets; columns by name or number
#   U01:%x[-2..2,lower(word)]       one template per offset: U01[-2]: ... U01[2]:
#   U02:%x{-4..-1,word}             the set of the words in a window
#   U02:%d{-4..-1,word}             the same, across sentences of the document; so %d[-1,word]
#   U02:%x[@1,word]                 the sentence's first word; @-1 its last
#   U03:%y[0,pos]                   the label of an earlier tagger
#   U04:%v[0,score]                 a number, multiplies the attribute
#   B                               label transitions
#   B01:%x[0,1]                     attributes of label transitions
#   BOS                             the attribute __BOS__ of a sentence's first token

_OPEN = re.compile(r"%(?:(%)|([xyvd])\[|([xd])\{)")
_WINDOW = re.compile(r"\s*(@?)([+-]?\d+)(?:\.\.([+-]?\d+))?\s*,")
_NAME = re.compile(r"\s*([^\s,()\[\]{}\"%]+)\s*")
_QUOTED = re.compile(r'\s*"((?:[^"]|"")*)"\s*')
_INTEGER = re.compile(r"\s*(\d+)\s*")
_KINDS: dict[str, MacroKind] = {"x": "x", "y": "tape", "v": "value", "d": "x"}


def read_template(path: str | Path) -> TemplateSet:
    """Read a template file.

    Parameters
    ----------
    path : str or Path
        UTF-8 text; paths of ``member`` and ``known_shape`` lists are relative to its folder.

    Raises
    ------
    TemplateError
        A line that is not a template, with file and line; a file without templates.
    DataError
        A byte that is not UTF-8, a damaged gzip file.
    OSError
        A file that cannot be read.
    """
    place = Path(path_name(path))
    templates = parse_template(read_text(place), folder=place.parent, source=str(path))
    if not templates.templates and not templates.has_transitions:
        raise TemplateError("holds no templates", path=str(path))
    return templates


def is_template_text(template: object) -> bool:
    """Return whether a string is template text, not a file name: it has line ends or macros."""
    return isinstance(template, str) and ("\n" in template or "%" in template)


def as_templates(template: TemplateSet | str | os.PathLike[str]) -> TemplateSet:
    """Return templates unchanged, from text, or from a file; errors as for `read_template`."""
    if isinstance(template, TemplateSet):
        return template
    if is_template_text(template):
        return parse_template(str(template))
    if not os.fspath(template):
        raise TemplateError("the template is empty, expected lines, or the name of a file")
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
        Folder of the ``member`` and ``known_shape`` lists; the current folder if absent.
    lists : mapping of str to sequence of str, optional
        Contents of the lists of ``member`` and ``known_shape``; then no file is read.
    source : str, optional
        Name of the text in messages.

    Raises
    ------
    TemplateError
        A line that is not a template, with its line number.

    Examples
    --------
    >>> print(parse_template("U0:%x[-1..0,word]/%x[0..1,word]"), end="")
    U0[-1]:%x[-1,word]/%x[0,word]
    U0[0]:%x[0,word]/%x[1,word]
    """
    content: object = text  # the caller may pass another type
    if not isinstance(content, str):
        raise TemplateError(f"the template is {content!r}, expected text, or the name of a file")
    templates: list[Template] = []
    has_transitions = False
    for number, raw in enumerate(text_lines(text), start=1):
        line = raw.strip(" \t")
        if not line or line.startswith("#"):
            continue
        try:
            parts = _Scanner(line, Path(folder or "."), lists).parts()
            new = _templates(line, parts, MAX_ATTRIBUTES - len(templates))
        except TemplateError as error:
            raise TemplateError(str(error), path=source, line=number) from None
        has_transitions |= not new
        templates += [replace(t, line=number) for t in new]
    return TemplateSet(tuple(templates), has_transitions, source)


def read_list(path: str | Path) -> list[str]:
    """Read the strings of a ``member`` list: one a line, without blank lines."""
    return [line for raw in text_lines(read_text(path)) if (line := raw.strip(" \t"))]


def expanded(parts: Sequence[str | Macro]) -> list[tuple[str | Macro, ...]]:
    """Expand window ranges: one tuple of parts per offset; all ranges advance together.

    The name, which is the text before the first colon, gets the offset of the first range.
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


def _templates(line: str, parts: list[str | Macro], room: int) -> list[Template]:
    """Return the templates of a line, at most `room`; an empty list for transitions."""
    if line in ("BOS", "EOS"):
        return [Template("bos" if line == "BOS" else "eos")]
    if line[0] not in "UB":
        raise TemplateError(f"{line!r}: a template starts with U or B, a comment with #")
    if line[0] == "B" and not any(isinstance(p, Macro) for p in parts):
        return []
    kind: TemplateKind = "node" if line[0] == "U" else "arc"
    sizes = [p.last - p.first + 1 for p in parts if isinstance(p, Macro) and p.is_range]
    if max(sizes, default=1) > room:
        raise TemplateError(f"more than {MAX_ATTRIBUTES:,} templates: use smaller windows")
    return [Template(kind, variant) for variant in expanded(parts)]


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
            opened = self.match(_OPEN, "%x[, %x{, %d[, %d{, %y[, %v[ or %% for a percent sign")
            if opened[1]:
                literal += "%"
                continue
            parts += [literal] if literal else []
            literal = ""
            kind = "bag" if opened[3] else _KINDS[opened[2]]
            parts.append(self.macro(kind, document="d" in (opened[2], opened[3])))
        literal += self.line[self.at :]
        return parts + ([literal] if literal else [])

    def macro(self, kind: MacroKind, *, document: bool = False) -> Macro:
        """Read a macro after its opening bracket."""
        window = self.match(_WINDOW, "an offset, or a window a..b, and a comma")
        first = self.integer(window[2])
        last = first if window[3] is None else self.integer(window[3])
        source = self.source()
        self.expect("}" if kind == "bag" else "]")
        return Macro(kind, source, first, last, bool(window[1]), document)

    def source(self, depth: int = 0) -> Source:
        """Read a column or a function call."""
        if (text := _QUOTED.match(self.line, self.at)) is not None:
            self.at = text.end()
            return Plain(text[1].replace('""', '"'))
        name = self.match(_NAME, "a column or a function")[1]
        if self.line[self.at : self.at + 1] != "(":
            numbered = name.isascii() and name.isdecimal()
            return Plain(self.integer(name) if numbered else name)
        self.at += 1
        if depth == _DEPTH:
            raise TemplateError(f"more than {_DEPTH} functions within each other")
        return self.call(name, depth + 1)

    def call(self, function: str, depth: int) -> Source:
        """Read a function's arguments after the opening bracket."""
        source = self.source(depth)
        arguments: list[str | int] = []
        while self.line[self.at : self.at + 1] == ",":
            self.at += 1
            if (text := _QUOTED.match(self.line, self.at)) is not None:
                self.at = text.end()
                arguments.append(text[1].replace('""', '"'))
            else:
                arguments.append(self.integer(self.match(_INTEGER, 'a number or a "text"')[1]))
        self.expect(")")
        while self.line[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        signature = FUNCTIONS.get(function)
        if signature and signature.listed and signature.parameters == tuple(map(type, arguments)):
            return derived(function, source, arguments, entries=self.entries(str(arguments[0])))
        return derived(function, source, arguments)

    def entries(self, name: str) -> Sequence[str]:
        """Return the strings of a list."""
        if self.lists is not None and name in self.lists:
            return self.lists[name]
        if self.lists is not None:
            raise TemplateError(f"the list {name!r} is not among those given")
        if "\0" in name:
            raise TemplateError(
                f"the list {name!r} contains a null character, which no file name can have"
            )
        try:
            return read_list(self.folder / name)
        except OSError as error:
            raise TemplateError(f"the list {name!r}: {error.strerror or error}") from None

    def integer(self, digits: str) -> int:
        """Read a number."""
        if len(digits) > _DIGITS + 1:
            raise TemplateError(f"{digits[:20]}… is a number of more than {_DIGITS} digits")
        return int(digits)

    def match(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Read a match of a pattern, or raise an error with the expected text."""
        match = pattern.match(self.line, self.at)
        if match is None:
            self.fail(expected)
        self.at = match.end()
        return match

    def expect(self, symbol: str) -> None:
        """Read one symbol."""
        if self.line[self.at : self.at + 1] != symbol:
            self.fail(repr(symbol))
        self.at += 1

    def fail(self, expected: str) -> NoReturn:
        """Raise an error that shows the position at which the line is wrong."""
        raise TemplateError(f"{self.line!r}: expected {expected} after {self.line[: self.at]!r}")
