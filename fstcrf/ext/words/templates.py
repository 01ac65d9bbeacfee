"""Features of words and of neighbours, in MeCab's language: ``feature.def`` and ``rewrite.def``.

A word's feature is fields with commas between them. A template is a line::

    UNIGRAM U01:%F[0],%F?[7]       of a word
    BIGRAM B01:%L[0]/%R[0],%R[1]   of a word and the next word

======  ===========================================================================
%F[n]   field n of the word, from 0; with ?, a field * or empty makes no feature
%u      all its fields
%t      kind of its first character, as a number
%L[n]   field n of the first word of two, %R[n] of the second; ? as above
%r %l   all fields of the first word, all fields of the second
%w      fstcrf only: the word itself, if it is in a dictionary
%n      fstcrf only: its number of characters, at most 8
======  ===========================================================================

A field that a word does not have makes no feature. %F, %L and %R refer to fields after rewriting by
the three sections of ``rewrite.def``.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fstcrf.errors import DataError
from fstcrf.lazy import made_once
from fstcrf.text.lines import read_text, text_lines

BOUNDARY = "BOS/EOS"
"""The first field of both ends of a text."""
MOST_CHARACTERS = 8
_ABSENT = ("*", "")
_BLANKS = " \t"
_OPERATORS = {"UNIGRAM": "Futwn", "BIGRAM": "LRlr"}
_PART = re.compile(r"%(?:([FLR])(\??)\[(\d+)\]|([utwnlr]))|\\(.)|([^%\\]+)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "s": " ", "\\": "\\"}


def fields_of(feature: str) -> list[str]:
    """Return the fields of a feature."""
    return next(csv.reader([feature])) if '"' in feature else feature.split(",")


def joined(fields: Sequence[str]) -> str:
    """Return fields as a feature."""
    return ",".join('"' + f.replace('"', '""') + '"' if {",", '"'} & {*f} else f for f in fields)


class TemplatePart(NamedTuple):
    """A piece of a template: an operator with the number of a field, or "" with literal text."""

    operator: str
    text: str = ""
    field: int = -1
    present: bool = False  # an absent field makes no feature


class WordSeen(NamedTuple):
    """The properties of a word that templates read."""

    fields: Sequence[str]
    kind: int
    surface: str | None  # only of a dictionary word
    characters: int


@dataclass(frozen=True)
class WordTemplate:
    """A template of words or of neighbours, in pieces."""

    source: str
    parts: tuple[TemplatePart, ...]

    def of_word(self, word: WordSeen) -> str | None:
        """Return the feature of a word, or `None`."""
        return self._spelled(self.parts, word.fields, word)

    def first(self, fields: Sequence[str]) -> str | None:
        """Return the first word's part of a pair's feature; `None` if there is no feature."""
        return self._spelled(self._of("Lr"), fields)

    def second(self, fields: Sequence[str]) -> str | None:
        """Return the second word's part of a pair's feature; `None` if there is no feature."""
        return self._spelled(self._of("Rl"), fields)

    def _of(self, operators: str) -> tuple[TemplatePart, ...]:
        return tuple(part for part in self.parts if part.operator and part.operator in operators)

    def _spelled(
        self, parts: Sequence[TemplatePart], fields: Sequence[str], word: WordSeen | None = None
    ) -> str | None:
        found = []
        for part in parts:
            if not part.operator:
                text: str | None = part.text
            elif part.field >= 0:
                text = fields[part.field] if part.field < len(fields) else None
                if part.present and text in _ABSENT:
                    text = None
            else:
                text = _whole(part.operator, fields, word)
            if text is None:
                return None
            found.append(text)
        # for a pair, fields stay separate: the template has the text between them
        return "".join(found) if word is not None else "\x1f".join(found)


def _whole(operator: str, fields: Sequence[str], word: WordSeen | None) -> str | None:
    if word is None or operator == "u":
        return joined(fields)
    if operator == "t":
        return str(word.kind)
    return word.surface if operator == "w" else str(min(word.characters, MOST_CHARACTERS))


@dataclass(frozen=True)
class WordTemplates:
    """The templates of a ``feature.def``: templates of words and templates of neighbours."""

    unigrams: tuple[WordTemplate, ...]
    bigrams: tuple[WordTemplate, ...]

    @classmethod
    def parse(cls, text: str, source: str = "template") -> WordTemplates:
        """Read the lines of a ``feature.def``.

        Raises
        ------
        DataError
            An invalid line, or no template at all; the message names the line.
        """
        found: dict[str, list[WordTemplate]] = {name: [] for name in _OPERATORS}
        for number, line in _rows(text):
            fields = _halves(line)
            if len(fields) != 2 or fields[0] not in found:
                raise DataError(
                    f"{line[:40]!r}, expected UNIGRAM or BIGRAM and a template",
                    path=source,
                    line=number,
                )
            template = WordTemplate(fields[1], _parts(fields[1], source, number))
            known = _OPERATORS[fields[0]]
            for part in template.parts:
                if part.operator and part.operator not in known:
                    wanted = " ".join(f"%{c}" for c in known)
                    raise DataError(
                        f"{fields[0]} with %{part.operator}, expected {wanted}",
                        path=source,
                        line=number,
                    )
            found[fields[0]].append(template)
        if not any(found.values()):
            raise DataError("no template: expected lines UNIGRAM … or BIGRAM …", path=source)
        return cls(tuple(found["UNIGRAM"]), tuple(found["BIGRAM"]))

    @classmethod
    def given(cls, template: WordTemplates | str | os.PathLike[str]) -> WordTemplates:
        """Return templates from themselves, from text, or from a file."""
        if isinstance(template, WordTemplates):
            return template
        if isinstance(template, str) and ("\n" in template or " " in template.strip()):
            return cls.parse(template)
        return cls.parse(_read(template), os.fspath(template))

    def __str__(self) -> str:
        pairs = (("UNIGRAM", self.unigrams), ("BIGRAM", self.bigrams))
        return "".join(f"{name} {one.source}\n" for name, several in pairs for one in several)

    def uses(self, operator: str) -> bool:
        """Return whether a template of words has an operator."""
        return any(part.operator == operator for one in self.unigrams for part in one.parts)

    @made_once
    def fields(self) -> int:
        """The number of fields that all templates need."""
        parts = [part for one in (*self.unigrams, *self.bigrams) for part in one.parts]
        return max((part.field + 1 for part in parts), default=0)


def _parts(template: str, source: str, line: int) -> tuple[TemplatePart, ...]:
    found: list[TemplatePart] = []
    at = 0
    while at < len(template):
        piece = _PART.match(template, at)
        if piece is None:
            raise DataError(
                f"{template[at : at + 6]!r} in a template, expected %F[n], %L[n], %R[n] (with ? "
                "before the bracket or not), %u, %t, %w, %n, %l or %r",
                path=source,
                line=line,
            )
        operator, absent, field, whole, escaped, text = piece.groups()
        if operator:
            found.append(TemplatePart(operator, field=int(field), present=bool(absent)))
        elif whole:
            found.append(TemplatePart(whole))
        else:
            found.append(TemplatePart("", text or _ESCAPES.get(escaped, escaped)))
        at = piece.end()
    return tuple(found)


# --- Rewriting ------------------------------------------------------------------------------------


class RewriteRule(NamedTuple):
    """The required fields of a word, and their replacement.

    size : int
        Fields that there must be.
    wanted : tuple of (int, frozenset)
        Fields that must be one of some strings.
    result : tuple of tuple
        The pieces of each new field: text, or the number of an old field from 0.
    """

    size: int
    wanted: tuple[tuple[int, frozenset[str]], ...]
    result: tuple[tuple[str | int, ...], ...]


_SECTIONS = {"[unigram rewrite]": 0, "[left rewrite]": 1, "[right rewrite]": 2}
_REFERENCE = re.compile(r"\$(\d+)")


@dataclass(frozen=True)
class Rewrites:
    """Rules that rewrite a word's fields: for itself, for the previous and for the next word.

    In each section, the first matching rule applies. A section without rules leaves fields as they
    are.
    """

    unigram: tuple[RewriteRule, ...] = ()
    left: tuple[RewriteRule, ...] = ()
    right: tuple[RewriteRule, ...] = ()
    source: str = ""

    @classmethod
    def parse(cls, text: str, source: str = "rewrite.def") -> Rewrites:
        """Read the sections of a ``rewrite.def``.

        Raises
        ------
        DataError
            A line outside sections, or one that is no rule; names it.
        """
        rules: list[list[RewriteRule]] = [[], [], []]
        section = -1
        for number, line in _rows(text):
            if line.strip(_BLANKS) in _SECTIONS:
                section = _SECTIONS[line.strip(_BLANKS)]
                continue
            fields = _halves(line)
            if section < 0 or len(fields) != 2:
                raise DataError(
                    f"{line[:40]!r}, expected a section ({', '.join(_SECTIONS)}) or a pattern "
                    "and its replacement",
                    path=source,
                    line=number,
                )
            rules[section].append(_rule(fields[0], fields[1], source, number))
        return cls(tuple(rules[0]), tuple(rules[1]), tuple(rules[2]), source=text)

    @classmethod
    def given(cls, rewrite: Rewrites | str | os.PathLike[str] | None) -> Rewrites:
        """Return rules from existing rules, text or a file, or an empty list."""
        if rewrite is None or rewrite == "":
            return cls()
        if isinstance(rewrite, Rewrites):
            return rewrite
        if isinstance(rewrite, str) and "\n" in rewrite:
            return cls.parse(rewrite)
        return cls.parse(_read(rewrite), os.fspath(rewrite))

    def applied(self, fields: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return the fields of a word as it is for itself, to its left and to its right.

        Raises
        ------
        DataError
            No rule fits.
        """
        return tuple(
            tuple(fields) if not rules else _rewritten(rules, fields)
            for rules in (self.unigram, self.left, self.right)
        )

    @made_once
    def fields(self) -> int:
        """The number of fields that all rules need."""
        rules = (*self.unigram, *self.left, *self.right)
        return max((rule.size for rule in rules), default=0)


def _rule(pattern: str, result: str, source: str, line: int) -> RewriteRule:
    found = [(k, _accepted(text)) for k, text in enumerate(fields_of(pattern))]
    outcome = tuple(map(_pieces, fields_of(result)))
    if any(piece == -1 for pieces in outcome for piece in pieces):
        raise DataError("$0 in a rule: fields are counted from $1", path=source, line=line)
    return RewriteRule(
        len(found), tuple((k, some) for k, some in found if some is not None), outcome
    )


def _pieces(text: str) -> tuple[str | int, ...]:
    parts = _REFERENCE.split(text)  # text and numbers in turns
    return tuple(int(p) - 1 if k % 2 else p for k, p in enumerate(parts) if p)


def _accepted(pattern: str) -> frozenset[str] | None:
    if pattern.startswith("*"):
        return None
    several = pattern.startswith("(") and pattern.endswith(")") and len(pattern) >= 3
    return frozenset([pattern, *(pattern[1:-1].split("|") if several else ())])


def _rewritten(rules: Sequence[RewriteRule], fields: Sequence[str]) -> tuple[str, ...]:
    size = len(fields)
    for rule in rules:
        if rule.size > size or any(fields[k] not in some for k, some in rule.wanted):
            continue
        try:
            return tuple(
                "".join([p if isinstance(p, str) else fields[p] for p in pieces])
                for pieces in rule.result
            )
        except IndexError:
            raise DataError(f"a rule refers to a field that {joined(fields)!r} has not") from None
    raise DataError(f"no rule rewrites the feature {joined(fields)!r}: end sections with *")


def _rows(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text_lines(text), start=1):
        if line.strip(_BLANKS) and not line.startswith("#"):
            yield number, line


def _halves(line: str) -> list[str]:
    """Return the first field of a line, and the rest."""
    return re.split(r"[ \t]+", line.strip(_BLANKS), maxsplit=1)


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return read_text(path)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=os.fspath(path)) from None
