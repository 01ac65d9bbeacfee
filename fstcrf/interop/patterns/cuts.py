"""The strings that a text may hold between given literals.

=======  =====================================================================
Budget   how many cuts a model may have in all
cuts     every way to cut a text
=======  =====================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from fstcrf.errors import ModelFileError

__all__ = ["Budget", "cuts"]

_ALWAYS = 1000

Choices: TypeAlias = Sequence[Collection[bytes] | None]


class Budget:
    """How many cuts a model may have: no file may ask for more memory than its size justifies.

    Parameters
    ----------
    size : int
        Bytes of the file.
    where : str
        Its name, for messages.
    """

    def __init__(self, size: int, where: str) -> None:
        self._left = _ALWAYS + size // 2
        self._where = where

    def spend(self, count: int, pattern: str) -> None:
        """Take some away.

        Raises
        ------
        ModelFileError
            There are not so many; names the pattern.
        """
        self._left -= count
        if self._left < 0:
            raise ModelFileError(
                f"{self._where}: the texts of pattern {pattern!r} can be cut in too many ways: "
                "its places need text between them"
            )


def cuts(text: bytes, literals: Sequence[bytes], choices: Choices) -> Iterator[tuple[bytes, ...]]:
    """Yield the strings between which the literals stand, in every way there is.

    Parameters
    ----------
    text : bytes
    literals : sequence of bytes [m + 1]
        The first begins the text, the last ends it.
    choices : sequence of collection of bytes or None [m]
        What each string may be; None: anything.
    """
    first, last = literals[0], literals[-1]
    if len(literals) == 1:
        if text == first:
            yield ()
        return
    end = len(text) - len(last)
    if end < len(first) or not (text.startswith(first) and text.endswith(last)):
        return
    if len(literals) == 2:  # most patterns
        string = text[len(first) : end]
        if choices[0] is None or string in choices[0]:
            yield (string,)
        return
    latest = _latest(text, literals[1:-1], len(first), end)
    if latest is not None:
        yield from _between(
            text, len(first), end, list(zip(literals[1:-1], latest, strict=True)), choices
        )


def _latest(text: bytes, middle: Sequence[bytes], begin: int, end: int) -> list[int] | None:
    """Return the last place where each literal may stand; None where they do not fit."""
    places: list[int] = []
    for literal in reversed(middle):
        end = text.rfind(literal, begin, end)
        if end < 0:
            return None
        places.append(end)
    return places[::-1]


def _between(
    text: bytes, begin: int, end: int, middle: Sequence[tuple[bytes, int]], choices: Choices
) -> Iterator[tuple[bytes, ...]]:
    """Yield the strings from `begin` to `end`, cut at literals, each with its last place.

    But for choices, no literal is put where the others would not fit any more.
    """
    choice = choices[0]
    if not middle:
        if choice is None or text[begin:end] in choice:
            yield (text[begin:end],)
        return
    (literal, latest), place = middle[0], begin
    while (place := text.find(literal, place, latest + len(literal))) >= 0:
        if choice is None or text[begin:place] in choice:
            for rest in _between(text, place + len(literal), end, middle[1:], choices[1:]):
                yield text[begin:place], *rest
        place += 1
