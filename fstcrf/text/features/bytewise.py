r"""Expressions over bytes, with the syntax of Wapiti's patterns.

``.`` is any byte, ``\a \d \l \p \s \u \w`` ASCII letter, digit, lower case, punctuation, space,
upper case, letter or digit (a capital letter negates), a backslash before any other byte is that
byte; ``?`` and ``*`` after one of these; ``^`` at the start, ``$`` at the end. ``*`` matches as
little as possible.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from fstcrf.errors import TemplateError

_CLASSES = {
    "a": rb"A-Za-z",
    "d": rb"0-9",
    "l": rb"a-z",
    "p": rb"!-/:-@\[-`{-~",
    "s": rb"\t-\r ",
    "u": rb"A-Z",
    "w": rb"0-9A-Za-z",
}
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_FEW_STARS, _FEW_OPTIONS = 2, 10
_MAX_ATOMS = 200  # each may be a nested Python call


@dataclass(frozen=True, slots=True)
class _Atom:
    """A class of bytes, and its number of repetitions: one, at most one (``?``) or any (``*``)."""

    one: re.Pattern[bytes]
    repeat: str


@dataclass(frozen=True, slots=True)
class _Expression:
    atoms: tuple[_Atom, ...]
    at_start: bool
    at_end: bool

    @property
    def misjudges(self) -> bool:
        """Whether a mandatory atom, or a ``*``, follows a ``?``."""
        repeats = [atom.repeat for atom in self.atoms]
        return "?" in repeats and set(repeats[repeats.index("?") :]) != {"?"}

    @property
    def is_quick(self) -> bool:
        """Whether Python's backtracking expressions are fast for it."""
        repeats = [atom.repeat for atom in self.atoms]
        return repeats.count("*") <= _FEW_STARS and repeats.count("?") <= _FEW_OPTIONS


def lower_ascii(string: str) -> str:
    """Return the string with A to Z lowered.

    Examples
    --------
    >>> lower_ascii("ÉTÉ")
    'ÉtÉ'
    """
    return string.translate(_ASCII_LOWER)


def show(data: bytes) -> str:
    r"""Return bytes as a string; a byte that is not part of a UTF-8 character becomes ``\x..``.

    Examples
    --------
    >>> show("é".encode()[:1])
    '\\xc3'
    """
    return data.decode("utf-8", "backslashreplace")


def test(expression: str) -> Callable[[str], str]:
    """Return a function that maps a string to ``true`` if it has a match, else to ``false``."""
    parsed = _parsed(expression)
    search = _compiled(parsed).search
    if parsed.is_quick:
        return lambda string: "true" if search(_bytes(string)) else "false"
    return lambda string: "false" if _taken(parsed, _bytes(string)) is None else "true"


def find(expression: str) -> Callable[[str], str]:
    """Return the function from a string to the first match of an expression, formatted by `show`.

    It returns an empty string without a match. If `misjudges` is true, the match has the length
    that Wapiti reports, up to the end of the string.
    """
    parsed = _parsed(expression)
    if parsed.misjudges or not parsed.is_quick:
        return lambda string: show(_taken(parsed, _bytes(string)) or b"")
    search = _compiled(parsed).search

    def first_match(string: str) -> str:
        hit = search(_bytes(string))
        return show(hit.group()) if hit else ""

    return first_match


def misjudges(expression: str) -> bool:
    """Return whether Wapiti may report a match that is too long.

    Wapiti counts the bytes that it tried in vain after a ``?``.
    """
    return _parsed(expression).misjudges


def _bytes(string: str) -> bytes:
    return string.encode("utf-8", "surrogatepass")


def _parsed(expression: str) -> _Expression:
    data = _bytes(expression)
    at_start = data.startswith(b"^")
    place = int(at_start)
    atoms: list[_Atom] = []
    while place < len(data) and data[place : place + 2] != b"$":
        one = data[place : place + 1 + (data[place : place + 1] == b"\\")]
        if one in (b"*", b"?", b"\\"):
            raise TemplateError(f"{expression!r}: {show(one)} must be attached to a character")
        place += len(one)
        repeat = data[place : place + 1].decode("latin-1")
        repeat = repeat if repeat in ("*", "?") else ""
        place += len(repeat)
        atoms.append(_Atom(re.compile(_matching(one), re.DOTALL), repeat))
        if len(atoms) > _MAX_ATOMS:
            raise TemplateError(f"{expression!r} has more than {_MAX_ATOMS} parts")
    return _Expression(tuple(atoms), at_start, at_end=place < len(data))


def _matching(one: bytes) -> bytes:
    """Return Python's expression for a class of one byte."""
    if one == b".":
        return one
    letter = one[-1:].decode("latin-1")
    if len(one) == 2 and letter.lower() in _CLASSES:
        contrary = b"^" if letter.isupper() else b""
        return b"[" + contrary + _CLASSES[letter.lower()] + b"]"
    return re.escape(one[-1:])


def _compiled(expression: _Expression) -> re.Pattern[bytes]:
    repeats = {"": b"", "?": b"?", "*": b"*?"}
    body = b"".join(atom.one.pattern + repeats[atom.repeat] for atom in expression.atoms)
    start, end = rb"\A" * expression.at_start, rb"\Z" * expression.at_end
    return re.compile(start + body + end, re.DOTALL)


def _taken(expression: _Expression, data: bytes) -> bytes | None:
    """Return the match as Wapiti reports it, cut at the end of the string; None without a match."""
    matcher = _Matcher(expression, data)
    for start in (0,) if expression.at_start else range(len(data) + 1):
        matched, length = matcher.matched(0, start)
        if matched:
            return data[start : start + length]
    return None


class _Matcher:
    """Matches an expression like Wapiti, with its count of bytes."""

    def __init__(self, expression: _Expression, data: bytes) -> None:
        self._expression, self._data = expression, data
        self._matches: dict[tuple[int, int], tuple[bool, int]] = {}

    def matched(self, number: int, place: int) -> tuple[bool, int]:
        """Match the atoms from a number on; return whether they match, and the bytes counted.

        Complexity: O(atoms · bytes²) for all places together.
        """
        if number == len(self._expression.atoms):
            return not self._expression.at_end or place == len(self._data), 0
        if (number, place) not in self._matches:
            self._matches[number, place] = self._made(number, place)
        return self._matches[number, place]

    def _made(self, number: int, place: int) -> tuple[bool, int]:
        atom = self._expression.atoms[number]
        if atom.repeat == "*":
            return self._repeated(number, place)
        matched, counted = False, 1
        here = atom.one.match(self._data, place) is not None
        if here:
            matched, rest = self.matched(number + 1, place + 1)
            counted += rest
        if matched or not atom.repeat:
            return matched, counted
        # Wapiti keeps the bytes counted after this one.
        matched, rest = self.matched(number + 1, place)
        return matched, counted - 1 + rest

    def _repeated(self, number: int, place: int) -> tuple[bool, int]:
        one, counted = self._expression.atoms[number].one, 0
        while True:
            matched, rest = self.matched(number + 1, place)
            if matched:
                return True, counted + rest
            counted += 1
            if one.match(self._data, place) is None:
                return False, counted
            place += 1
