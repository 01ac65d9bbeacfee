"""Tagging schemes as data; reading, writing and converting spans of labelled sentences.

=========================== ===================================================
``io``                      I inside; two spans of one type that touch become one
``iob1``                    I inside; B only where two spans of one type touch
``iob2`` (``bio``)          B starts every span, I continues
``bioes`` (``iobes``)       B starts, I continues, E ends, S is a whole span
``bilou``                   the same with L for E and U for S
``bmes``, ``bmewo``         the same as bioes with M for I; and with W for S
``conlleval``               the scorer's rules, which read all of these leniently
=========================== ===================================================

Labels that break their scheme are read in one of three ways (``illegal=``): ``"repair"``, as
conlleval does, which reads every label sequence of every scheme; ``"drop"`` keeps only well-formed
spans; ``"raise"`` raises an error.
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arguments import LabelSet, label_tuple, string_list
from fstcrf.arrays import Bools, Ints, Longs, Ragged
from fstcrf.errors import (
    DataError,
    GrammarError,
    LabelError,
    LabelWarning,
    OptionError,
    SchemeError,
    warn,
)
from fstcrf.text.corpus.corpus import Column, Corpus

OUTSIDE = "O"


@dataclass(frozen=True, slots=True)
class Scheme:
    """A tagging scheme over letters; ``O`` is also used for both ends of the sentence.

    Two neighbours are looked up as (letter, next letter, same type); ``"?"`` replaces a letter that
    the scheme does not have.

    Parameters
    ----------
    name : str
        Its name.
    letters : str
        All letters, the outside letter first.
    starts : set of (str, str, bool)
        Pairs in which the second letter begins a span.
    inside : set of (str, str, bool)
        Pairs in which the second letter continues the span of the first.
    last : set of str
        Letters that may end a span.
    strict : bool
        False for conlleval's rules, which accept every letter and every succession.
    """

    name: str
    letters: str
    starts: frozenset[tuple[str, str, bool]]
    inside: frozenset[tuple[str, str, bool]]
    last: frozenset[str]
    strict: bool = True

    def legal(self, letter: str, following: str, *, same: bool) -> bool:
        """Return whether one letter may follow another; `same`: their types are equal."""
        if not self.strict or (letter, following, same) in self.inside:
            return True
        closed = letter == OUTSIDE or letter in self.last
        return closed and (following == OUTSIDE or (letter, following, same) in self.starts)


def _pairs(*rules: tuple[str, str, str]) -> frozenset[tuple[str, str, bool]]:
    # Expand rules: these letters, then these letters, of types that are "same", "other" or "any".
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


_IO = Scheme(
    "io",
    letters="OI",
    starts=_pairs(("O?", "I", "any"), ("I", "I", "other")),
    inside=_pairs(("I", "I", "same")),
    last=frozenset("I"),
)


def _begun(name: str, letters: str) -> Scheme:
    """Return a scheme of O, B, an inside letter, and optionally end and single letters."""
    inner, end, unit = letters[2], letters[3:4], letters[4:5]
    return Scheme(
        name,
        letters,
        starts=_pairs((f"{letters}?", f"B{unit}", "any")),
        inside=_pairs((f"B{inner}", f"{inner}{end}", "same")),
        last=frozenset(end + unit or f"B{inner}"),
    )


_IOB2, _BIOES = _begun("iob2", "OBI"), _begun("bioes", "OBIES")
# conlleval's startOfChunk and endOfChunk. "?" is any other letter. Beyond the original: S is known,
# L and U are read as E and S, M and W as I and S, a B also starts a span after E and brackets, and
# O ends every span. The original miscounts these cases; on B, I, O (and on E without B) both agree.
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
    "bilou": _begun("bilou", "OBILU"),
    "bmes": _begun("bmes", "OBMES"),
    "bmewo": _begun("bmewo", "OBMEW"),
    "io": _IO,
    "conlleval": _CONLLEVAL,
}


STRICT = tuple(name for name, scheme in _SCHEMES.items() if scheme.strict)
"""Names of the schemes that labels can be written in."""


def named_scheme(scheme: str | Scheme) -> Scheme:
    """Return the scheme of a name.

    Raises
    ------
    OptionError
        No scheme has this name.
    """
    if isinstance(scheme, Scheme):
        return scheme
    try:
        return _SCHEMES[scheme]
    except KeyError:
        raise OptionError(f"scheme {scheme!r}, expected one of {', '.join(_SCHEMES)}") from None


def scheme_pair(text: str) -> tuple[str, str]:
    """Return the schemes of the labels and of the result; a single name is used for both.

    >>> scheme_pair("iob1:bioes"), scheme_pair("bio")
    (('iob1', 'bioes'), ('bio', 'bio'))
    """
    source, colon, target = text.partition(":")
    if not colon:
        target = source
    for name in (source, target):
        if name not in _SCHEMES:
            others = "" if colon else "; or two of them, such as iob1:bioes; or observed"
            raise OptionError(f"scheme {name!r}, expected one of {', '.join(STRICT)}{others}")
    if not named_scheme(target).strict:
        raise OptionError(
            f"scheme {text!r}: {target} accepts every label; expected one of {', '.join(STRICT)}"
        )
    return source, target


def split_label(label: str, scheme: Scheme) -> tuple[str, str]:
    """Return letter and type of a label, split at its first hyphen.

    A letter that the scheme does not have, or an ``O`` with a type in a strict scheme, becomes
    ``"?"``.
    """
    letter, _, kind = label.partition("-")
    if not scheme.strict:
        letter = {"L": "E", "U": "S", "M": "I", "W": "S"}.get(letter, letter)
    elif letter == OUTSIDE and label != OUTSIDE:
        return "?", kind
    return (letter if len(letter) == 1 and letter in scheme.letters else "?"), kind


@lru_cache(maxsize=32)
def tables(scheme: Scheme) -> tuple[Bools, Bools, Bools]:
    """Return starts and inside as bool [K, K, 2] and last as bool [K], indexed by letter ids.

    Letter ids are positions in ``scheme.letters``, followed by ``"?"``; the last axis is 1 for the
    same type.
    """
    letters = scheme.letters + "?"
    starts, inside = (np.zeros((len(letters), len(letters), 2), dtype=bool) for _ in range(2))
    for table, triples in ((starts, scheme.starts), (inside, scheme.inside)):
        for a, b, same in triples:
            table[letters.index(a), letters.index(b), int(same)] = True
    return starts, inside, np.asarray([letter in scheme.last for letter in letters])


def succession_tables(parts: Sequence[tuple[str, str]], scheme: Scheme) -> tuple[Bools, Bools]:
    """Return whether a span begins, and whether one continues, at a label (column) after a row.

    `parts` are letters and types of L labels, from `split_label`; both tables are bool [L + 1,
    L + 1]. The last row is the start of a sentence, the last column its end.
    """
    letter, kind = numbered_parts([*parts, (OUTSIDE, "")], scheme)
    place = letter[:, None], letter, (kind[:, None] == kind).astype(np.int64)
    starts, inside, _ = tables(scheme)
    return starts[place], inside[place]


def numbered_parts(parts: Sequence[tuple[str, str]], scheme: Scheme) -> tuple[Longs, Longs]:
    """Return the letter ids of labels, as in `tables`, and numbers of their types."""
    letters, number = scheme.letters + "?", dict[str, int]()
    letter = np.asarray([letters.index(letter) for letter, _ in parts], dtype=np.int64)
    kind = [number.setdefault(kind, len(number)) for _, kind in parts]
    return letter, np.asarray(kind, dtype=np.int64)


@lru_cache(maxsize=32)
def legal_pairs(scheme: Scheme) -> Bools:
    """Return the legal pairs of letters, bool [K, K, 2], indexed as in `tables`."""
    letters = scheme.letters + "?"
    either = (False, True)
    return np.asarray(
        [[[scheme.legal(a, b, same=same) for same in either] for b in letters] for a in letters]
    )


def legal_transitions(labels: LabelSet, scheme: str | Scheme = "iob2") -> Bools:
    """Return which label may follow which.

    Parameters
    ----------
    labels : sequence of L str, or mapping of id to str
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
    parts = known_labels(label_tuple(labels), table)
    letter, kind = numbered_parts([*parts, (OUTSIDE, "")], table)
    apart, same = (pairs[letter][:, letter] for pairs in np.moveaxis(legal_pairs(table), -1, 0))
    legal: Bools = np.where(kind[:, None] == kind, same, apart)
    return legal


def span_transitions(labels: tuple[str, ...], scheme: Scheme) -> Bools:
    """Return `legal_transitions`, after checking that the scheme has the labels and allows spans.

    A LabelWarning names labels that no legal labelling contains.
    """
    known_labels(labels, scheme)
    check_readable(labels, scheme)
    legal = legal_transitions(labels, scheme)
    inner = legal[:-1, :-1]
    occurs = _reached(inner, legal[-1, :-1]) & _reached(inner.T, legal[:-1, -1])
    if not occurs.all():
        never = [labels[k] for k in np.flatnonzero(~occurs)]
        shown = ", ".join(never[:6] + ["…"] * (len(never) > 6))
        name, other = ("bio", ", such as iob1") if scheme.name == "iob2" else (scheme.name, "")
        warn(
            f"{name} allows no labelling with {shown}, so they are never chosen; are labels "
            f"written in another scheme{other}?",
            LabelWarning,
        )
    return legal


def check_readable(labels: Sequence[str], scheme: Scheme) -> None:
    """Raise GrammarError if a strict scheme allows no span of these labels."""
    if not scheme.strict:
        return
    spanning = [label for label in labels if label != OUTSIDE]
    types = {label.partition("-")[2] for label in spanning}
    if spanning and len(spanless_types(spanning, scheme)) == len(types):
        shown = ", ".join(spanning[:6] + ["…"] * (len(spanning) > 6))
        raise GrammarError(
            f"no span can be written in {scheme.name} with the labels {shown}: no type "
            f"has both a label that begins and one that ends a span; {expected(scheme)}"
        )


def spanless_types(labels: Sequence[str], scheme: Scheme) -> list[str]:
    """Return the types that have no legal span with labels other than O."""
    parts = [(label, *split_label(label, scheme)) for label in labels]
    letters = defaultdict[str, list[str]](list)
    for _, letter, kind in parts:
        letters[kind].append(letter)
    alike = defaultdict[frozenset[str], list[str]](list)  # types with the same letters
    for kind, there in letters.items():
        alike[frozenset(there)].append(kind)
    few = {kind for kinds in alike.values() for kind in kinds[:2]}
    some = [(label, kind) for label, letter, kind in parts if kind in few and letter != "?"]
    legal = legal_transitions([label for label, _ in some], scheme)
    inner = legal[:-1, :-1]
    occurring = _reached(inner, legal[-1, :-1]) & _reached(inner.T, legal[:-1, -1])
    with_span = {some[i][1] for i in np.flatnonzero(occurring)}
    return [kind for kinds in alike.values() if with_span.isdisjoint(kinds) for kind in kinds]


def _reached(follows: Bools, first: Bools) -> Bools:
    """Return the labels that can be reached from some first ones, including these: bool [L]."""
    reached = first
    while True:
        more = reached | follows[reached].any(axis=0)
        if (more == reached).all():
            return reached
        reached = more


def known_labels(labels: Iterable[str], scheme: Scheme) -> list[tuple[str, str]]:
    """Return letter and type of each label; a label that the scheme lacks is a LabelError."""
    parts = [(label, split_label(label, scheme)) for label in labels]
    for label, (letter, _) in parts:
        if letter == "?" and scheme.strict:
            raise LabelError(f"label {label!r} is not {scheme.name}: {expected(scheme)}")
    return [part for _, part in parts]


def expected(scheme: Scheme) -> str:
    """Return the expected form of a scheme's labels, for messages."""
    return "expected O, " + ", ".join(f"{letter}-TYPE" for letter in scheme.letters[1:])


Illegal: TypeAlias = Literal["repair", "drop", "raise"]


# --- Spans ----------------------------------------------------------------------------------------


class Span(NamedTuple):
    """A stretch of tokens.

    Attributes
    ----------
    start, end : int
        First token, and the token after the last.
    type : str
        Type of the span: ``"NP"``.
    """

    start: int
    end: int
    type: str


class SpanArrays(NamedTuple):
    """Spans of many sentences, in order of their starts.

    Attributes
    ----------
    start, end : int64 [M]
        First token, and the token after the last, counted through the whole corpus.
    type : int32 [M]
        Index into `types`.
    types : tuple of str
        The distinct types of the labels; some may not occur.
    """

    start: Longs
    end: Longs
    type: Ints
    types: tuple[str, ...]


def has_spans(labels: Iterable[str]) -> bool:
    """Return whether labels are span labels, in IOB or a scheme that refines it."""
    return any(label[:2] in {"B-", "I-"} for label in labels)


def spans(
    labels: Sequence[str], scheme: str | Scheme = "iob2", *, illegal: Illegal = "repair"
) -> list[Span]:
    """Return the spans of one sentence, in order.

    Parameters
    ----------
    labels : sequence of str
        ``O``, or a letter, a hyphen and a type that may hold hyphens.
    scheme : str or Scheme
        The scheme of the labels; ``"repair"`` reads all schemes alike.
    illegal : "repair", "drop" or "raise"
        Treatment of labels that break the scheme.

    Raises
    ------
    SchemeError
        With ``illegal="raise"``: the first label that breaks the scheme, and its position.
    LabelError
        The labels are not a list, such as a string; or a label is not a string.
    OptionError
        No such scheme, or no such way to treat illegal labels.

    Examples
    --------
    >>> spans(["B-NP", "I-NP", "O", "B-VP"])
    [Span(start=0, end=2, type='NP'), Span(start=3, end=4, type='VP')]
    """
    table, labels = _reading(scheme, illegal), string_list(labels, "label")
    if illegal == "raise" and (bad := _first_illegal(labels, table)) is not None:
        raise SchemeError(bad[1], token=bad[0])
    several: list[Span] = []
    start = -1
    letter, kind = OUTSIDE, ""
    parts = [split_label(label, table) for label in labels]
    for position, (following, following_kind) in enumerate([*parts, (OUTSIDE, "")]):
        key = (letter, following, kind == following_kind)
        if start >= 0 and key not in table.inside:
            if letter in table.last:
                several.append(Span(start, position, kind))
            start = -1
        if key in table.starts:
            start = position
        letter, kind = following, following_kind
    return several


def _reading(scheme: str | Scheme, illegal: str) -> Scheme:
    table = named_scheme(scheme)
    if illegal == "repair":
        return named_scheme("conlleval")
    if illegal not in {"drop", "raise"}:
        raise OptionError(f"illegal={illegal!r}, expected 'repair', 'drop' or 'raise'")
    if not table.strict:
        raise OptionError(f"scheme {table.name!r} accepts every label; name the labels' scheme")
    return table


def _first_illegal(labels: Sequence[str], scheme: Scheme) -> tuple[int, str] | None:
    # Return the position of the first illegal label, and the reason.
    parts = [split_label(label, scheme) for label in labels]
    neighbours = itertools.pairwise([(OUTSIDE, ""), *parts, (OUTSIDE, "")])
    for position, ((letter, kind), (following, following_kind)) in enumerate(neighbours):
        if following == "?":
            return position, f"label {labels[position]!r} is not {scheme.name}: {expected(scheme)}"
        if not scheme.legal(letter, following, same=kind == following_kind):
            before = repr(labels[position - 1]) if position else "the start"
            after = repr(labels[position]) if position < len(labels) else "the end"
            message = f"{after} after {before} is not legal in {scheme.name}"
            return min(position, len(labels) - 1), message
    return None


def labels_from_spans(
    found: Iterable[tuple[int, int, str]], length: int, scheme: str | Scheme = "iob2"
) -> list[str]:
    """Return the labels of a sentence with given spans.

    Parameters
    ----------
    found : iterable of Span
        Spans that do not overlap, in any order.
    length : int
        Number of tokens.
    scheme : str or Scheme
        Scheme of the labels.

    Raises
    ------
    DataError
        Spans that overlap, are empty or leave the sentence; a span that is not (start, end, type),
        or whose type is not a name, such as `None` or "".
    OptionError
        No such scheme, or conlleval, which cannot be written.

    Examples
    --------
    >>> labels_from_spans([(0, 2, "NP"), (3, 4, "VP")], 5, "bioes")
    ['B-NP', 'E-NP', 'O', 'S-VP', 'O']
    """
    checked = [checked_span(number, span) for number, span in enumerate(found)]
    return written_spans(checked, length, scheme)


def written_spans(spans: Iterable[Span], length: int, scheme: str | Scheme) -> list[str]:
    """Return the labels of spans; a span without a type gets letters only: ``B I``."""
    table = named_scheme(scheme)
    if not table.strict:
        raise OptionError(f"scheme {table.name!r} only reads labels; name one to write")
    labels = [OUTSIDE] * length
    previous = Span(0, 0, "")
    for span in sorted(spans):
        if not 0 <= span.start < span.end <= length:
            raise DataError(f"{span} is empty or outside a sentence of {length} tokens")
        if span.start < previous.end:
            raise DataError(f"{span} overlaps {previous}")
        touches = 0 < previous.end == span.start and previous.type == span.type
        letters = span_letters(span.end - span.start, table, touches=touches)
        tail = f"-{span.type}" if span.type else ""
        labels[span.start : span.end] = [letter + tail for letter in letters]
        previous = span
    return labels


def checked_span(number: int, value: Any, *, sentence: int | None = None) -> Span:
    """Return a checked span; raise DataError for another value, or a type that cannot be named."""
    try:
        start, end, kind = value
        span = Span(operator.index(start), operator.index(end), kind)
    except (TypeError, ValueError):
        raise DataError(
            f"span {number} is {value!r}, expected (start, end, type): whole numbers and a string",
            sentence=sentence,
        ) from None
    if not isinstance(kind, str) or not kind:
        raise DataError(
            f"span {number}, {value!r}, has the type {kind!r}, expected a name", sentence=sentence
        )
    return span


def span_letters(length: int, scheme: Scheme, *, touches: bool) -> str:
    """Return the letters of a span; `touches`: a span of its type ends right before it."""
    if scheme.name == "io":
        return "I" * length
    if scheme.name == "iob1":
        return ("B" if touches else "I") + "I" * (length - 1)
    if len(scheme.letters) == 3:
        return "B" + "I" * (length - 1)
    inner, end, unit = list(scheme.letters)[2:]
    return unit if length == 1 else "B" + inner * (length - 2) + end


def convert(
    labels: Sequence[str],
    source: str | Scheme,
    target: str | Scheme,
    *,
    illegal: Illegal = "repair",
) -> list[str]:
    """Return the labels of one sentence in another scheme.

    Parameters
    ----------
    labels : sequence of str
        The labels.
    source, target : str or Scheme
        Their scheme, and the scheme of the result.
    illegal : "repair", "drop" or "raise"
        Treatment of labels that break the source scheme.

    Raises
    ------
    SchemeError, OptionError
        As `spans` and `labels_from_spans`.
    LabelError
        The labels are not a list; or a label is not a span label, such as ``NN``, and would be
        lost.

    Examples
    --------
    >>> convert(["I-NP", "I-NP", "B-NP", "O"], "iob1", "bioes")
    ['B-NP', 'E-NP', 'S-NP', 'O']
    """
    labels, conlleval = string_list(labels, "label"), named_scheme("conlleval")
    for label in labels:
        if split_label(label, conlleval)[0] == "?":
            raise LabelError(
                f"{label!r} is not a label of a span: {expected(_IOB2)}, or labels of a "
                "similar scheme"
            )
    return written_spans(spans(labels, source, illegal=illegal), len(labels), target)


def convert_column(
    corpus: Corpus,
    column: str,
    source: str | Scheme,
    target: str | Scheme,
    *,
    illegal: Illegal = "repair",
) -> Corpus:
    """Return the corpus with one column of labels in another scheme.

    Raises
    ------
    SchemeError
        With ``illegal="raise"``: the first label that breaks the scheme, with its file and line.
    DataError
        No such column.
    OptionError, LabelError
        As `convert`.
    """
    sentences = corpus.column_lists(column)
    if illegal == "raise":
        table = _reading(source, illegal)
        for number, labels in enumerate(sentences):
            if (bad := _first_illegal(labels, table)) is not None:
                place = corpus.where(int(corpus.offsets[number]) + bad[0])
                raise SchemeError(bad[1], **place)
    return corpus.with_column(
        column, [convert(labels, source, target, illegal=illegal) for labels in sentences]
    )


def span_arrays(
    column: Column,
    offsets: Longs,
    scheme: str | Scheme = "iob2",
    *,
    illegal: Literal["repair", "drop"] = "repair",
) -> SpanArrays:
    """Return the spans of a whole column of labels.

    These are the spans that `spans` returns sentence by sentence, found by indexing a table with
    all neighbouring pairs at once.

    Parameters
    ----------
    column : Column
        Labels of N tokens.
    offsets : int64 [S + 1]
        Sentence ``s`` owns the tokens ``offsets[s] : offsets[s + 1]``.
    scheme, illegal
        As in `spans`; labels are only read, so ``"raise"`` is not allowed.

    Raises
    ------
    OptionError
        As `spans`.
    """
    table = _reading(scheme, illegal)
    starts, inside, last = tables(table)
    letters = table.letters + "?"
    parts = [split_label(value, table) for value in column.values]
    types = {"": 0}
    letter_of = np.asarray([letters.index(letter) for letter, _ in parts], dtype=np.int64)
    type_of = np.asarray([types.setdefault(kind, len(types)) for _, kind in parts], dtype=np.int32)
    # One outside position after each sentence, and one before all.
    sentence = Ragged(offsets).rows()
    places = np.arange(len(sentence)) + sentence + 1
    letter = np.zeros(len(sentence) + len(offsets), dtype=np.int64)
    kind = np.zeros(len(letter), dtype=np.int32)
    letter[places], kind[places] = letter_of[column.ids], type_of[column.ids]
    key = (letter[:-1], letter[1:], (kind[:-1] == kind[1:]).astype(np.int64))
    first = np.flatnonzero(starts[key]) + 1
    breaks = np.flatnonzero(~inside[key]) + 1
    end = breaks[np.searchsorted(breaks, first, side="right")] if len(first) else first
    kept = last[letter[end - 1]] if len(first) else np.zeros(0, dtype=bool)
    first, end = first[kept], end[kept]
    token = np.cumsum(np.bincount(places, minlength=len(letter))) - 1
    return SpanArrays(token[first], token[end - 1] + 1, kind[first], tuple(types))
