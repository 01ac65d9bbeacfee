"""Tokens of an address and their attributes, as the model inside usaddress knows them.

The model was trained on these tokens and attributes, so they must be the same to the letter; tests
compare them with usaddress's own. What is here makes each in one pass over a token and leaves out
what is false, which has no weight.

================  ===========================================
tokens_of         the tokens of an address
TokenAttributes   the attributes of a token
FIRST, LAST       attributes of the tokens at the ends
================  ===========================================
"""

from __future__ import annotations

import re
from collections.abc import Container

__all__ = ["FIRST", "LAST", "TokenAttributes", "tokens_of"]

FIRST, LAST = ("address.start",), ("address.end",)

# Brackets before a word, its characters, punctuation behind it; # and & stand alone.
_TOKEN = re.compile(r"\(*\b[^\s,;#&()]+[.,;)\n]*|[#&]")
_AMPERSAND = re.compile("&#38;|&amp;")
_INSIDE = re.compile(r".[^\n]*?[^.\w]")  # something after the first character that is punctuation
_WHOLE = frozenset("&#½")
_ASCII_DIGITS = frozenset("0123456789")
_VOWELS = frozenset("aeiou")


def tokens_of(address: str) -> list[str]:
    """Return the tokens of an address, as ``usaddress.tokenize`` does.

    Examples
    --------
    >>> tokens_of("(Apt #5), 12 Elm St. &amp; Oak")
    ['(Apt', '#', '5),', '12', 'Elm', 'St.', '&', 'Oak']
    """
    return _TOKEN.findall(_AMPERSAND.sub("&", address) if "&" in address else address)


class TokenAttributes:
    """The attributes of a token, as python-crfsuite writes those of ``usaddress.tokenFeatures``.

    Parameters
    ----------
    directions, street_types : container of str
        ``usaddress.DIRECTIONS`` and ``usaddress.STREET_NAMES``.

    Examples
    --------
    >>> TokenAttributes({"n"}, {"st"})("St.,")
    ['abbrev', 'digits:no_digits', 'word:st', 'length:w:2', 'endsinpunc:,', 'street_name']
    """

    def __init__(self, directions: Container[str], street_types: Container[str]) -> None:
        self.directions, self.street_types = directions, street_types

    def __call__(self, token: str) -> list[str]:
        """Return the attributes of a token; each has the value 1."""
        bare = token if token in _WHOLE else _bare(token)
        word = bare.lower().replace(".", "")
        found = ["abbrev"] if bare.endswith(".") else []
        found.append(_digits(bare))
        if word.isdigit():
            zeros = word[len(word.rstrip("0")) :]
            found += [f"trailing.zeros:{zeros}", f"length:d:{len(word)}"]
        else:
            found += [f"word:{word}", f"length:w:{len(word)}"]
        if not token.isalnum() and _INSIDE.match(token):
            found.append(f"endsinpunc:{token[-1]}")
        if word in self.directions:
            found.append("directional")
        if word in self.street_types:
            found.append("street_name")
        if not _VOWELS.isdisjoint(word[1:]):
            found.append("has.vowels")
        return found


def _bare(token: str) -> str:
    """Remove what is no word character before a token, and behind it but for full stops."""
    if token.isalnum():
        return token
    start, end = 0, len(token)
    while start < end and not _is_word(token[start]):
        start += 1
    while end > start and not (token[end - 1] == "." or _is_word(token[end - 1])):
        end -= 1
    return token[start:end]


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _digits(bare: str) -> str:
    if bare.isdigit():
        return "digits:all_digits"
    return "digits:no_digits" if _ASCII_DIGITS.isdisjoint(bare) else "digits:some_digits"
