"""The strings that fill holes, numbered as an index numbers them.

=======  =====================================================================
Strings  numbers of the strings that one source gives
=======  =====================================================================
"""

from __future__ import annotations

from fstcrf.features.bytewise import show
from fstcrf.features.derive import Derived, Source
from fstcrf.features.reader import Boundary, pad_names, pad_texts
from fstcrf.interop.patterns.model import Hole

__all__ = ["Strings"]


class Strings:
    """The strings that one source gives, numbered as they are met, behind the pads.

    Parameters
    ----------
    source : Plain or Derived
    reach : int
        Distance of the farthest pad.
    boundary : {"pad", "wapiti"}
        What the pads are.
    encoding : str
    """

    def __init__(self, source: Source, reach: int, boundary: Boundary, encoding: str) -> None:
        self._numbers: dict[str, int] = {}
        self._reach, self._encoding = reach, encoding
        self._has_halves = _has_halves(source)
        self._is_test = isinstance(source, Derived) and source.function == "wapiti_test"
        self._pads: dict[bytes, list[int]] = {}
        texts = pad_texts(source, reach, boundary)
        for number, text in enumerate(texts):
            self._pads.setdefault(text.encode(), []).append(number)
        pairs = zip(texts, pad_names(reach, boundary), strict=True)
        self._names = {text.encode() for text, name in pairs if text == name}

    @property
    def choices(self) -> tuple[bytes, ...] | None:
        """What the strings may be; None: anything."""
        return (b"true", b"false") if self._is_test else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The strings, in the order of their numbers."""
        return tuple(self._numbers)

    def numbers(self, piece: bytes, hole: Hole) -> tuple[int, ...]:
        """Return the numbers that a piece of an attribute's text stands for.

        Those of the pads that the hole can meet and that have this text, and that of the string,
        unless it is the very name of such a pad. None where no string of this encoding has these
        bytes.
        """
        pads: tuple[int, ...] = ()
        if piece in self._pads:
            # As many as its offset, on one side: so it is for places of the sentence as well.
            first = 0 if hole.offset < 0 else self._reach
            met = range(first, first + abs(hole.offset))
            pads = tuple(number for number in self._pads[piece] if number in met)
            if pads and piece in self._names:
                return pads
        try:
            text = show(piece) if self._has_halves else piece.decode(self._encoding)
        except UnicodeDecodeError:
            return pads
        number = self._numbers.setdefault(text, len(self._numbers))
        return (*pads, 2 * self._reach + number)


def _has_halves(source: Source) -> bool:
    """Return whether a source may give a part of a character."""
    while isinstance(source, Derived):
        if source.function == "wapiti_find":
            return True
        source = source.source
    return False
