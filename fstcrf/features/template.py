"""Feature templates as values.

============= ================================================================
Macro         one hole of a template: which string, at which offset
Template      one line of a template file: text around macros
TemplateSet   the templates of a tagger, and whether it has label transitions
tape_column   name of the column that holds an earlier tagger's labels
============= ================================================================

The attribute that a template gives at a token is its text with each macro replaced by the
string found there: ``U05:%x[-1,word]/%x[0,word]`` gives ``U05:in/the``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from fstcrf.errors import TemplateError
from fstcrf.features.derive import Derived, Plain, Source, is_multiple, resolved, root

__all__ = ["Macro", "MacroKind", "Template", "TemplateKind", "TemplateSet", "tape_column"]

MacroKind = Literal["x", "bag", "tape", "value"]
TemplateKind = Literal["node", "arc", "bos", "eos"]

MAX_OFFSET = 1000
_LETTER = {"node": "U", "arc": "B"}
_FIXED = {"bos": "BOS", "eos": "EOS"}


def tape_column(tape: str) -> str:
    """Return the name of the corpus column that holds the labels of a tape.

    It is no name that a file's column would have, so ``%y[0,pos]`` never reads a gold column
    called ``pos``.

    Examples
    --------
    >>> tape_column("pos")
    '%y[pos]'
    """
    return f"%y[{tape}]"


@dataclass(frozen=True, slots=True)
class Macro:
    """One hole of a template.

    Parameters
    ----------
    kind : {"x", "bag", "tape", "value"}
        The string at an offset (``%x[..]``), each string of a window (``%x{..}``), an earlier
        tagger's label (``%y[..]``), or a number that multiplies the attribute (``%v[..]``).
    source : Plain or Derived
        The string that is read; for a tape, `Plain` with the tape's name.
    first, last : int
        Offsets, equal but for a bag and for a range that is still to be expanded.
    absolute : bool
        Of ``x`` only: not offsets but a place in the sentence, from 1 or from its end at −1.

    Raises
    ------
    TemplateError
        A tape read at another position, an empty window, a place 0 or of another kind, or a source
        of several strings where one number is expected.
    """

    kind: MacroKind
    source: Source
    first: int = 0
    last: int = 0
    absolute: bool = False

    def __post_init__(self) -> None:
        if self.absolute and (self.kind != "x" or self.first != self.last or not self.first):
            raise TemplateError("@ is for one place and %x: %x[@1,word] the first, @-1 the last")
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
        if self.kind == "bag":
            return f"%x{{{self.first}..{self.last},{self.source}}}"
        place = "@" * self.absolute + window
        return f"%{_MACRO_LETTER[self.kind]}[{place},{self.source}]"

    @property
    def is_range(self) -> bool:
        """Whether it stands for one template per offset."""
        return self.kind != "bag" and self.first != self.last


_MACRO_LETTER: dict[MacroKind, str] = {"x": "x", "tape": "y", "value": "v"}


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
        Where it was read, for messages; no part of its value.

    Raises
    ------
    TemplateError
        Parts that do not make a line of that kind.
    """

    kind: TemplateKind
    parts: tuple[str | Macro, ...] = ()
    line: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind in _FIXED:
            if self.parts:
                raise TemplateError(f"{_FIXED[self.kind]} stands alone on its line")
            return
        letter, text = _LETTER[self.kind], str(self)
        if "\n" in text or "\r" in text or text != text.strip(" \t"):
            raise TemplateError(f"{text!r} is not one line without blanks around it")
        if not text.startswith(letter) or text in _FIXED.values():
            raise TemplateError(f"{text!r} should start with {letter}")
        if any(m.is_range for m in self.macros):
            raise TemplateError(f"{text!r} stands for several templates: expand it first")
        if self.kind == "arc" and not self.macros:
            raise TemplateError(f"{text!r} has no macro: write B for label transitions")
        if "" in self.parts or any({type(a), type(b)} == {str} for a, b in _pairs(self.parts)):
            raise TemplateError(f"the text of {text!r} is cut without a macro between")

    def __str__(self) -> str:
        if self.kind in _FIXED:
            return _FIXED[self.kind]
        return "".join(p.replace("%", "%%") if isinstance(p, str) else str(p) for p in self.parts)

    @property
    def macros(self) -> tuple[Macro, ...]:
        """The macros, in order."""
        return tuple(p for p in self.parts if isinstance(p, Macro))


@dataclass(frozen=True, slots=True)
class TemplateSet:
    """The templates of a tagger; ``str()`` gives the text that reads back as the same set.

    Parameters
    ----------
    templates : tuple of Template
        Templates with attributes.
    has_transitions : bool
        Whether pairs of labels have a weight of their own (the line ``B``).
    source : str, optional
        File it was read from, for messages; no part of its value.

    Raises
    ------
    TemplateError
        The same template twice, or two lists of one name that differ.
    """

    templates: tuple[Template, ...] = ()
    has_transitions: bool = False
    source: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        seen: dict[Template, Template] = {}
        for template in self.templates:
            if template in seen:
                first = seen[template].line
                where = "" if first is None else f" of line {first}"
                raise self.error(template, f"{str(template)!r} repeats the template{where}")
            seen[template] = template
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
        """Columns that are read, by name (or by number before `resolved`), without tapes."""
        used = (root(m.source) for t in self for m in t.macros if m.kind != "tape")
        return tuple(dict.fromkeys(used))

    @property
    def tapes(self) -> tuple[str, ...]:
        """Tapes of earlier taggers that ``%y`` reads."""
        used = (str(root(m.source)) for t in self for m in t.macros if m.kind == "tape")
        return tuple(dict.fromkeys(used))

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """Contents of the ``member`` lists, by the name they have in the text."""
        return {name: entries for t in self for name, entries in _lists(t)}

    def resolved(self, columns: Sequence[str], *, data: str | None = None) -> TemplateSet:
        """Return the templates with column numbers replaced by names, all of them checked.

        Parameters
        ----------
        columns : sequence of str
            Columns of the corpus, in order.
        data : str, optional
            Where the corpus comes from, for messages.

        Raises
        ------
        TemplateError
            A column that the corpus does not have; names the template and the columns.
        """
        known = [c for c in columns if not c.startswith("%y[")]

        def name(template: Template, macro: Macro) -> str:
            column = root(macro.source)
            if macro.kind == "tape" and tape_column(str(column)) not in columns:
                raise self.error(
                    template, f"{template} reads the labels of tape {column!r}, which are not given"
                )
            if macro.kind == "tape" or column in known:
                return str(column)
            if isinstance(column, int) and column < len(known):
                return known[column]
            raise self.error(
                template,
                f"{template} reads column {column!r}; {data or 'the corpus'} has "
                f"{', '.join(map(repr, known)) or 'none'}",
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
        """Return an error that says where the template was read."""
        return TemplateError(message, path=self.source, line=template.line)


def _pairs(parts: tuple[str | Macro, ...]) -> Iterator[tuple[str | Macro, str | Macro]]:
    return pairwise(parts)


def _lists(template: Template) -> Iterator[tuple[str, tuple[str, ...]]]:
    for macro in template.macros:
        source = macro.source
        while isinstance(source, Derived):
            if source.function == "member":
                yield str(source.arguments[0]), source.entries
            source = source.source
