r"""Labels in the strings of ``.grm`` files: ``"[B-NP][I-NP]"``, ``"[pos=NN chunk=B-NP]"``.

A backslash takes the next character as it is: ``\]`` and ``\"`` in labels that hold them, and a
blank or an equals sign where several tapes are read.
"""

from __future__ import annotations

import re

from fstcrf.errors import GrammarError
from fstcrf.grammar.labels import listed

__all__ = ["cut", "fields", "plain"]

_SYMBOL = re.compile(r"\s*\[((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_FIELD = re.compile(r"(?:[^\s\\]|\\.)+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def plain(raw: str) -> str:
    """Return text without its backslashes."""
    return _ESCAPE.sub(r"\1", raw)


def cut(raw: str) -> list[str]:
    """Return what stands between the brackets of a string, backslashes kept.

    Raises
    ------
    GrammarError
        Text outside brackets; a bracket that is not closed.
    """
    found: list[str] = []
    at = 0
    while raw[at:].strip():
        symbol = _SYMBOL.match(raw, at)
        if symbol is None:
            raise GrammarError(f'"{raw}": labels stand in brackets: "[LABEL]"')
        found.append(symbol[1])
        at = symbol.end()
    return found


def fields(
    raw: str, tapes: tuple[str, ...], *, unescape: bool = True
) -> tuple[tuple[str | None, str], ...]:
    """Return the label of each tape in what stands between two brackets.

    Parameters
    ----------
    raw : str
        A label; where there are several tapes, ``tape=label`` for each that matters.
    tapes : tuple of str
        The tapes that the file names, perhaps none.
    unescape : bool
        Take the backslashes away.

    Raises
    ------
    GrammarError
        No pair of a tape and a label; a tape that is not there or named twice.
    """
    clean = plain if unescape else str
    if len(tapes) < 2:
        return ((None, clean(raw)),)
    found: dict[str, str] = {}
    for text in _FIELD.findall(raw):
        tape, equals, label = text.partition("=")
        if not equals or tape not in tapes:
            raise GrammarError(
                f"[{raw}]: expected tape=label for some of the tapes {listed(tapes)}"
            )
        if tape in found:
            raise GrammarError(f"[{raw}]: tape {tape!r} is there twice")
        found[tape] = clean(label)
    return tuple(found.items())
