"""Tagging schemes as data: which letter may follow which, where spans start and end.

================= ============================================================
Scheme            a table of letters, starts, continuations and last letters
named_scheme      the scheme of a name: iob1, iob2, bioes, ... or conlleval
scheme_pair       ``iob1:iob2``, a scheme to read and one to write
STRICT            the names of schemes that labels can be written in
split_label       a label as letter and type
legal_transitions which label may follow which, start and end included
================= ============================================================

=========================== ===================================================
``iob1``                    I inside; B only where two spans of one type touch
``iob2`` (``bio``)          B starts every span, I continues
``bioes`` (``iobes``)       B starts, I continues, E ends, S is a span alone
``bilou``                   the same with L for E and U for S
``conlleval``               the scorer's rules, which read all of these leniently
=========================== ===================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fstcrf.arguments import LabelSet, label_tuple
from fstcrf.arrays import Bools
from fstcrf.errors import LabelError, OptionError

__all__ = [
    "OUTSIDE",
    "STRICT",
    "Scheme",
    "legal_transitions",
    "named_scheme",
    "scheme_pair",
    "split_label",
]

OUTSIDE = "O"


@dataclass(frozen=True, slots=True)
class Scheme:
    """A tagging scheme over letters; ``O`` also stands for both ends of the sentence.

    Two neighbours are looked up as (letter, next letter, same type); ``"?"`` stands for a letter
    that the scheme does not have.

    Parameters
    ----------
    name : str
        Its name.
    letters : str
        All letters, the outside letter first.
    starts : set of (str, str, bool)
        The second letter begins a span.
    inside : set of (str, str, bool)
        The second letter continues the span of the first.
    last : set of str
        Letters that may end a span.
    strict : bool
        False for conlleval's rules: every succession, and every letter, is accepted.
    """

    name: str
    letters: str
    starts: frozenset[tuple[str, str, bool]]
    inside: frozenset[tuple[str, str, bool]]
    last: frozenset[str]
    strict: bool = True

    def legal(self, letter: str, following: str, *, same: bool) -> bool:
        """Tell whether one letter may follow another; `same` says whether their types agree."""
        if not self.strict or (letter, following, same) in self.inside:
            return True
        closed = letter == OUTSIDE or letter in self.last
        return closed and (following == OUTSIDE or (letter, following, same) in self.starts)


def _pairs(*rules: tuple[str, str, str]) -> frozenset[tuple[str, str, bool]]:
    # A rule: these letters, then these letters, of types that are "same", "other" or "any".
    relations = {"same": (True,), "other": (False,), "any": (True, False)}
    return frozenset(
        (a, b, same)
        for before, after, relation in rules
        for a in before
        for b in after
        for same in relations[relation]
    )


_IOB1 = Scheme(
    "iob1",
    letters="OBI",
    starts=_pairs(("O?", "I", "any"), ("BI", "I", "other"), ("BI", "B", "same")),
    inside=_pairs(("BI", "I", "same")),
    last=frozenset("BI"),
)
_IOB2 = Scheme(
    "iob2",
    letters="OBI",
    starts=_pairs(("OBI?", "B", "any")),
    inside=_pairs(("BI", "I", "same")),
    last=frozenset("BI"),
)
_BIOES = Scheme(
    "bioes",
    letters="OBIES",
    starts=_pairs(("OBIES?", "BS", "any")),
    inside=_pairs(("BI", "IE", "same")),
    last=frozenset("ES"),
)
_BILOU = Scheme(
    "bilou",
    letters="OBILU",
    starts=_pairs(("OBILU?", "UB", "any")),
    inside=_pairs(("BI", "IL", "same")),
    last=frozenset("LU"),
)
# conlleval's startOfChunk and endOfChunk. "?" is any other letter. Beyond the original: S is
# known, L and U read as E and S, a B starts a span also behind E and brackets, and O ends
# every span. The original miscounts those; on B, I, O (and on E without B) both agree.
_ALL = "OBIES[].?"
_CONLLEVAL = Scheme(
    "conlleval",
    letters="OBIES[].",
    starts=_pairs(
        (_ALL, "BS[]", "any"), ("OES", "IE", "same"), (_ALL, "IE?", "other"), ("O", "IE", "any")
    ),
    inside=_pairs(("BI?", "IE.?", "same")),
    last=frozenset(_ALL),
    strict=False,
)
_SCHEMES = {
    "iob1": _IOB1,
    "iob2": _IOB2,
    "bio": _IOB2,
    "bioes": _BIOES,
    "iobes": _BIOES,
    "bilou": _BILOU,
    "conlleval": _CONLLEVAL,
}


STRICT = tuple(name for name, scheme in _SCHEMES.items() if scheme.strict)
"""Names of the schemes that labels can be written in."""


def named_scheme(scheme: str | Scheme) -> Scheme:
    """Return the scheme of a name.

    Raises
    ------
    OptionError
        There is none of that name.
    """
    if isinstance(scheme, Scheme):
        return scheme
    try:
        return _SCHEMES[scheme]
    except KeyError:
        raise OptionError(f"scheme {scheme!r}, expected one of {', '.join(_SCHEMES)}") from None


def scheme_pair(text: str) -> tuple[str, str]:
    """Return the scheme of labels and the one that they are wanted in.

    Parameters
    ----------
    text : str
        ``"iob1:iob2"``, or ``"iob2"`` where both are one.

    Raises
    ------
    OptionError
        There is none of that name, or labels cannot be written in the second.

    Examples
    --------
    >>> scheme_pair("iob1:bioes"), scheme_pair("bio")
    (('iob1', 'bioes'), ('bio', 'bio'))
    """
    source, colon, target = text.partition(":")
    if not colon:
        target = source
    named_scheme(source)
    if not named_scheme(target).strict:
        raise OptionError(
            f"scheme {text!r}: {target} accepts every label; expected one of {', '.join(STRICT)}"
        )
    return source, target


def split_label(label: str, scheme: Scheme) -> tuple[str, str]:
    """Return letter and type of a label, split at its first hyphen.

    Letters that the scheme does not have, and an ``O`` with a type in a strict scheme, come
    back as ``"?"``.
    """
    letter, _, kind = label.partition("-")
    if not scheme.strict:
        letter = {"L": "E", "U": "S"}.get(letter, letter)
    elif letter == OUTSIDE and label != OUTSIDE:
        return "?", kind
    return (letter if len(letter) == 1 and letter in scheme.letters else "?"), kind


@lru_cache(maxsize=32)
def tables(scheme: Scheme) -> tuple[Bools, Bools, Bools]:
    """Return starts and inside as bool [K, K, 2] and last as bool [K], indexed by letter ids.

    Letter ids are places in ``scheme.letters``, behind them ``"?"``; the last axis is 1 for the
    same type.
    """
    letters = scheme.letters + "?"
    starts, inside = (np.zeros((len(letters), len(letters), 2), dtype=bool) for _ in range(2))
    for table, triples in ((starts, scheme.starts), (inside, scheme.inside)):
        for a, b, same in triples:
            table[letters.index(a), letters.index(b), int(same)] = True
    return starts, inside, np.asarray([letter in scheme.last for letter in letters])


def legal_transitions(labels: LabelSet, scheme: str | Scheme = "iob2") -> Bools:
    """Tell which label may follow which.

    Parameters
    ----------
    labels : sequence of L str, or mapping of int to str
        The labels.
    scheme : str or Scheme
        Their scheme.

    Returns
    -------
    bool [L + 1, L + 1]
        From row to column. Row L is the start of a sentence, column L its end.

    Raises
    ------
    LabelError
        A label that the scheme does not have.
    OptionError
        No such scheme.

    Examples
    --------
    >>> legal_transitions(["O", "B-NP", "I-NP"]).astype(int)
    array([[1, 1, 0, 1],
           [1, 1, 1, 1],
           [1, 1, 1, 1],
           [1, 1, 0, 1]])
    """
    table = named_scheme(scheme)
    parts = [*known_labels(label_tuple(labels), table), (OUTSIDE, "")]
    return np.asarray(
        [[table.legal(a, b, same=kind_a == kind_b) for b, kind_b in parts] for a, kind_a in parts],
        dtype=bool,
    )


def known_labels(labels: Iterable[str], scheme: Scheme) -> list[tuple[str, str]]:
    """Return letter and type of each label.

    Raises
    ------
    LabelError
        A label that the scheme does not have.
    """
    parts = [(label, split_label(label, scheme)) for label in labels]
    for label, (letter, _) in parts:
        if letter == "?" and scheme.strict:
            raise LabelError(f"label {label!r} is not {scheme.name}: {expected(scheme)}")
    return [part for _, part in parts]


def expected(scheme: Scheme) -> str:
    """Return what the labels of a scheme look like, for messages."""
    return "expected O, " + ", ".join(f"{letter}-TYPE" for letter in scheme.letters[1:])
