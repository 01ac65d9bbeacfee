"""Patterns as templates of ours.

=============  ===============================================================
column_names   what the columns are called
template_set   the templates of patterns
=============  ===============================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fstcrf.errors import ModelFileError, OptionError, TemplateError
from fstcrf.features import Macro, Template, TemplateSet
from fstcrf.features.derive import resolved, root
from fstcrf.interop.patterns.model import Hole, Pattern, PatternModel

__all__ = ["column_names", "template_set"]

MAX_HOLES = 64
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f]")
_LETTER = {"node": "U", "arc": "B"}


def column_names(names: Sequence[str] | None, count: int, tape: str) -> tuple[str, ...]:
    """Return the columns of the data.

    Parameters
    ----------
    names : sequence of str, optional
        Their names; ``"0"``, ``"1"``, ... when absent.
    count : int
        Columns that patterns read.
    tape : str
        The tape that is written; added behind them where it is not among them.

    Raises
    ------
    OptionError
        Too few names, or names that are empty, repeated or no line of text.
    """
    given = tuple(str(number) for number in range(count)) if names is None else tuple(names)
    if isinstance(names, str) or len(given) < count:
        raise OptionError(f"columns are {names!r}, expected names for {count} columns")
    columns = given if tape in given else (*given, tape)
    odd = [c for c in columns if not c or c.startswith("%y[") or _UNPRINTED.search(c)]
    if odd or len(set(columns)) < len(columns):
        raise OptionError(f"columns are {', '.join(map(repr, columns))}, expected distinct names")
    return columns


def template_set(model: PatternModel, names: Sequence[str]) -> TemplateSet:
    """Return the templates of the patterns that have holes or condition one label.

    Each is a family of its own: where CRF++ and Wapiti count an attribute twice because two
    patterns give it, two rows count once each. So patterns of the same text and columns get a
    number: ``U:%x[-1,0]``, ``U#2:%x[1,0]``.

    Raises
    ------
    ModelFileError
        A pattern that no template can say.
    """
    found: list[Template] = []
    seen: set[tuple[object, ...]] = set()
    for pattern in model.patterns:
        if pattern.kind == "arc" and not pattern.holes:
            continue
        try:
            found.append(_template(pattern, model, names, seen))
        except TemplateError as error:
            raise ModelFileError(f"{model.where}: pattern {pattern.text!r}: {error}") from None
    has_transitions = any(p.kind == "arc" and not p.holes for p in model.patterns)
    return TemplateSet(tuple(found), has_transitions)


def _template(
    pattern: Pattern, model: PatternModel, names: Sequence[str], seen: set[tuple[object, ...]]
) -> Template:
    if len(pattern.holes) > MAX_HOLES:
        raise TemplateError(f"reads {len(pattern.holes)} strings, expected at most {MAX_HOLES}")
    macros = [_macro(hole, names) for hole in pattern.holes]
    literals = _printed(pattern, model.encoding)
    number, marked = 1, literals
    # What makes a family: see `fstcrf.features.reader`.
    while (key := (pattern.kind, marked, tuple(m.source for m in macros))) in seen:
        number += 1
        marked = (_marked(literals[0], number), *literals[1:])
    seen.add(key)
    parts: list[str | Macro] = [marked[0]]
    for macro, literal in zip(macros, marked[1:], strict=True):
        parts += [macro, literal]
    return Template(pattern.kind, tuple(part for part in parts if part != ""))


def _macro(hole: Hole, names: Sequence[str]) -> Macro:
    column = root(hole.source)
    if not isinstance(column, int) or column >= len(names):
        raise TemplateError(f"reads column {column}, the model has {len(names)}")
    source = resolved(hole.source, names[column])
    return Macro("x", source, hole.offset, hole.offset, absolute=hole.absolute)


def _printed(pattern: Pattern, encoding: str) -> tuple[str, ...]:
    """Return the literals as text of one line, beginning with U or B; only people read them."""
    texts = [_UNPRINTED.sub(" ", t.decode(encoding, "backslashreplace")) for t in pattern.literals]
    texts[0] = texts[0].lstrip(" ")
    texts[-1] = texts[-1].rstrip(" ")
    letter = _LETTER[pattern.kind]
    texts[0] = letter + texts[0].removeprefix(letter).removeprefix(letter.lower())
    return tuple(texts)


def _marked(literal: str, number: int) -> str:
    head, colon, rest = literal.partition(":")
    return f"{head}#{number}{colon}{rest}"
