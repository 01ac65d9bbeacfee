r"""Patterns of Wapiti.

============  ================================================================
read_pattern  the patterns that one line stands for
============  ================================================================

::

    u02:%x[-1,0]/%X[0,0]     attributes of labels; a capital letter: without case
    b11:%t[0,0,"^\u"]        of label pairs; ``true`` or ``false``, whether it matches
    *12:%m[0,0,"^.?.?"]      of both; what matches
    u13:%x[@1,0]             the first token of the sequence; ``@-1`` the last
"""

from __future__ import annotations

import re
from typing import Literal

from fstcrf.errors import ModelFileError, TemplateError
from fstcrf.features.bytewise import misjudges
from fstcrf.features.derive import Plain, Source, derived
from fstcrf.interop.patterns import Hole, Pattern, decoded, shown

__all__ = ["read_pattern"]

_COMMAND = re.compile(
    rb"%(?P<letter>[xXtTmM])"
    rb"\[(?P<absolute>@?)[ \t]*(?P<offset>[+-]?(?:0|[1-9][0-9]{0,8}))"
    rb",[ \t]*(?P<column>[0-9]{1,9})"
    rb'(?:,"(?P<expression>(?:[^"\\]|\\[\s\S])*)")?\]'
)
_FUNCTION = {"t": "wapiti_test", "m": "wapiti_find"}
_KINDS: dict[bytes, tuple[Literal["node", "arc"], ...]] = {
    b"u": ("node",),
    b"b": ("arc",),
    b"*": ("node", "arc"),
}


def read_pattern(data: bytes, encoding: str, where: str, *, single: bool) -> list[Pattern]:
    """Read a pattern.

    Parameters
    ----------
    data : bytes
    encoding : str
        Of its texts.
    where : str
        Name of the file, for messages.
    single : bool
        Each token is a sequence of its own.

    Returns
    -------
    list of Pattern
        One, or two where it conditions labels as well as pairs.

    Raises
    ------
    ModelFileError
        No pattern, or one that cannot be said here.
    """
    text = decoded(data, encoding, where, "pattern")
    try:
        literals, holes = _parts(data, encoding, where)
        kinds = _kinds(data, holes, single=single)
    except TemplateError as error:
        raise ModelFileError(f"{where}: pattern {text!r}: {error}") from None
    if single:
        literals = (b"u" + literals[0], *literals[1:])
    return [Pattern(kind, text, literals, holes) for kind in kinds]


def _kinds(
    data: bytes, holes: tuple[Hole, ...], *, single: bool
) -> tuple[Literal["node", "arc"], ...]:
    """Return what a pattern conditions."""
    kinds = _KINDS.get(data[:1])
    if kinds is None:
        raise TemplateError("begins with none of u, b and *")
    if single and (kinds != ("node",) or any(hole.offset or hole.absolute for hole in holes)):
        raise TemplateError("reads other tokens, but the model takes each for itself (--me)")
    return kinds


def _parts(data: bytes, encoding: str, where: str) -> tuple[tuple[bytes, ...], tuple[Hole, ...]]:
    """Return the literals and the holes of a pattern."""
    literals: list[bytes] = []
    holes: list[Hole] = []
    place = 0
    while (percent := data.find(b"%", place)) >= 0:
        found = _COMMAND.match(data, percent)
        if found is None:
            raise TemplateError(f"no command: {shown(data[percent:])}")
        literals.append(data[place:percent])
        place = found.end()
        source = _source(found, encoding, where, is_last=place == len(data))
        holes.append(Hole(source, int(found["offset"]), absolute=bool(found["absolute"])))
    return (*literals, data[place:]), tuple(holes)


def _source(found: re.Match[bytes], encoding: str, where: str, *, is_last: bool) -> Source:
    """Return what a command reads."""
    letter = found["letter"].decode()
    source: Source = Plain(int(found["column"]))
    if (letter in "xX") != (found["expression"] is None):
        raise TemplateError(f"{letter} takes {'no' if letter in 'xX' else 'an'} expression")
    if letter in "xX":
        return source if letter == "x" else derived("lower_ascii", source)
    if encoding.lower() not in ("utf-8", "utf8", "ascii"):
        raise TemplateError(f"an expression looks at bytes, and those here are {encoding}")
    expression = decoded(found["expression"], "utf-8", where, "expression")
    if letter in "mM" and misjudges(expression) and not is_last:
        raise TemplateError(
            f"{expression!r}: Wapiti may take more than matches and drop what follows"
        )
    source = derived(_FUNCTION[letter.lower()], source, [expression])
    return derived("lower_ascii", source) if letter == "M" else source
