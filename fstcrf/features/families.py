"""Templates grouped into families that share attributes.

========== ==================================================================
Family     templates of the same text and columns, at one or several offsets
Term       one string that a member of a family reads
families   the families of a set of templates
sources    what families read
Boundary   what a string outside the sentence is: ``pad`` or ``skip``
padding    the farthest offset at which it is padded
pad_names  the strings outside the sentence: ``_B-1``, ``_B+1``, ...
========== ==================================================================

An attribute is a text. ``U:%x[-1,word]`` and ``U:%x[1,word]`` give the same text for the same
word, so they share their attributes, as in CRF++; a bag ``U:%x{-4..-1,word}`` is such a family
of four members. Templates of equal text that read *different* columns stay apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

from fstcrf.features.derive import Plain, Source, is_multiple, root, strings_of
from fstcrf.features.template import Macro, Template, TemplateKind, TemplateSet, tape_column

__all__ = [
    "BOUNDARIES",
    "Boundary",
    "Family",
    "Term",
    "families",
    "pad_names",
    "pad_texts",
    "padding",
    "sources",
]


Boundary = Literal["pad", "skip", "wapiti"]
BOUNDARIES = ("pad", "skip", "wapiti")
_FARTHEST = 4  # Wapiti has one name for all that is farther outside
_FIXED_TEXT = {"bos": "__BOS__", "eos": "__EOS__"}


class Term(NamedTuple):
    """One string that a member reads.

    Parameters
    ----------
    offset : int
        Position relative to the token.
    pads : bool
        Whether a position outside the sentence may give ``_B-1``; in a bag it gives nothing.
    absolute : bool
        The offset is a place in the sentence instead, from 1 or from its end at −1.
    """

    offset: int
    pads: bool
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """Templates that share attributes.

    Parameters
    ----------
    kind : {"node", "arc", "bos", "eos"}
        Of its templates.
    literals : tuple of str [m + 1]
        Text around the strings of an attribute.
    sources : tuple of Plain or Derived [m]
        Where each string comes from; a tape is a column of the name that `tape_column` gives.
    values : tuple of Macro
        Numbers that multiply the attribute.
    members : tuple of tuple of Term [m]
        Offsets of each member.
    """

    kind: TemplateKind
    literals: tuple[str, ...]
    sources: tuple[Source, ...] = ()
    values: tuple[Macro, ...] = ()
    members: tuple[tuple[Term, ...], ...] = ((),)

    @property
    def identity(self) -> str:
        """Text that tells the family from others, whatever its offsets."""
        return "\0".join([*self.literals, *map(str, self.sources), *map(str, self.values)])

    def attribute(self, strings: Sequence[str]) -> str:
        """Return the text of the attribute that has these strings."""
        pairs = zip(strings, self.literals[1:], strict=True)
        return self.literals[0] + "".join(s + literal for s, literal in pairs)

    def readings(self, attribute: str) -> Iterator[tuple[str, ...]]:
        """Yield the strings that an attribute may consist of, in every way it can be cut."""
        if attribute.startswith(self.literals[0]):
            yield from _cuts(attribute[len(self.literals[0]) :], self.literals[1:])

    @property
    def columns(self) -> set[str]:
        """Columns of the corpus that are read."""
        read = (*self.sources, *(macro.source for macro in self.values))
        return {str(root(source)) for source in read}

    @property
    def is_plural(self) -> bool:
        """Whether a token may get several of its attributes, or one of them twice."""
        return len(self.members) > 1 or any(is_multiple(s) for s in self.sources)

    @property
    def is_absolute(self) -> bool:
        """Whether it reads a place of the sentence, the same for all its tokens."""
        return any(term.absolute for member in self.members for term in member)


def families(templates: TemplateSet, *, arc: bool) -> tuple[Family, ...]:
    """Return the families of the templates on labels, or on label pairs, in their order."""
    members: dict[Family, list[tuple[Term, ...]]] = {}
    for template in templates:
        if (template.kind == "arc") == arc:
            family = _family(template)
            members.setdefault(family, []).extend(_members(template))
    return tuple(
        Family(f.kind, f.literals, f.sources, f.values, tuple(dict.fromkeys(terms)))
        for f, terms in members.items()
    )


def padding(boundary: Boundary, group: Iterable[Family]) -> int:
    """Return the largest distance at which a string is padded; 0 where nothing is."""
    terms = [t for family in group for member in family.members for t in member if t.pads]
    return max((abs(t.offset) for t in terms), default=0) if boundary != "skip" else 0


def sources(group: Iterable[Family]) -> list[Source]:
    """Return what families read, each source once."""
    return list(dict.fromkeys(source for family in group for source in family.sources))


def pad_names(distance: int, boundary: Boundary = "pad") -> list[str]:
    """Return the names of the positions before the sentence, then of those after it.

    Examples
    --------
    >>> pad_names(2)
    ['_B-1', '_B-2', '_B+1', '_B+2']
    >>> pad_names(5, "wapiti")[3:7]
    ['_x-4', '_x-#', '_x+1', '_x+2']
    """
    places = [str(i) for i in range(1, distance + 1)]
    if boundary == "wapiti":
        places[_FARTHEST:] = ["#"] * len(places[_FARTHEST:])
    letter = "x" if boundary == "wapiti" else "B"
    return [f"_{letter}{sign}{place}" for sign in "-+" for place in places]


def pad_texts(source: Source, distance: int, boundary: Boundary) -> list[str]:
    """Return the text of each pad in an attribute; Wapiti derives strings from pads as well."""
    names = pad_names(distance, boundary)
    if boundary != "wapiti" or is_multiple(source):
        return names
    make = strings_of(source)
    return [make(name)[0] for name in names]


def _family(template: Template) -> Family:
    """Return the family of a template, its members left out."""
    if template.kind in _FIXED_TEXT:
        return Family(template.kind, (_FIXED_TEXT[template.kind],))
    literals = [""]
    sources: list[Source] = []
    for part in template.parts:
        if isinstance(part, str):
            literals[-1] += part
        elif part.kind != "value":
            sources.append(_source(part))
            literals.append("")
    values = tuple(m for m in template.macros if m.kind == "value")
    return Family(template.kind, tuple(literals), tuple(sources), values)


def _members(template: Template) -> list[tuple[Term, ...]]:
    choices = [
        [Term(offset, m.kind == "x", m.absolute) for offset in range(m.first, m.last + 1)]
        for m in template.macros
        if m.kind != "value"
    ]
    return list(product(*choices))


def _cuts(text: str, literals: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the strings between which the literals stand, the last literal at the end."""
    if not literals:
        if not text:
            yield ()
        return
    head, *rest = literals
    place = len(text) - len(head) if not rest else 0
    while 0 <= (place := text.find(head, place)) <= len(text):
        for strings in _cuts(text[place + len(head) :], tuple(rest)):
            yield text[:place], *strings
        place += 1


def _source(macro: Macro) -> Source:
    if macro.kind == "tape":
        return Plain(tape_column(str(root(macro.source))))
    return macro.source
