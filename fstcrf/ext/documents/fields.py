"""Fields that agree throughout a document: their values, and where else a name occurs."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from fstcrf.arguments import one_of
from fstcrf.errors import OptionError
from fstcrf.ext.documents.document import (
    DeclaredModel,
    Document,
    Recounted,
    Violations,
    check_labels,
    each_a,
    finite,
    span_tables,
)

Value: TypeAlias = Callable[[Sequence[str]], Hashable]
Span: TypeAlias = tuple[int, int, str]
Counting: TypeAlias = Literal["pairs", "values"]

LONGEST = 16
"""Tokens of the longest span that has a value; longer ones agree with all."""

_NAMED_TIMES = {"noon": 1200, "midnight": 0}


def clock(words: Sequence[str]) -> int | None:
    """Return the time that words express, as hours times 100 and minutes; otherwise `None`.

    >>> clock(["3", ":", "30", "pm"]), clock(["3", "p", ".", "m", "."]), clock(["noon"])
    (330, 300, 1200)
    """
    digits = "".join(re.findall(r"\d", " ".join(words)))
    if digits:
        return int(digits if len(digits) > 2 else f"{digits}00")
    return next((_NAMED_TIMES[w.lower()] for w in words if w.lower() in _NAMED_TIMES), None)


def text(words: Sequence[str]) -> str | None:
    """Return letters and digits of words in lower case; `None` without any.

    >>> text(["Room", "-", "4", "A"])
    'room 4 a'
    """
    return " ".join(w.lower() for w in words if any(map(str.isalnum, w))) or None


VALUES: dict[str, Value] = {"clock": clock, "text": text}


def last_word(words: Sequence[str]) -> int | None:
    """Return the index of the last word with a letter, or `None`.

    >>> last_word(["Dr", ".", "Smith", ","])
    2
    """
    found = (k for k in range(len(words) - 1, -1, -1) if any(map(str.isalpha, words[k])))
    return next(found, None)


@dataclass(frozen=True, slots=True)
class Differing:
    """Two spans of one type have different values.

    Parameters
    ----------
    type : str
    value : {"clock", "text"} or callable
        The value of a span, from its tokens; `None` agrees with everything.
    penalty : float
        The natural log that is added to the score of the document, for each token of the two spans.
    counting : {"pairs", "values"}
        pairs: each two spans that differ count. values: each span counts once for every other
        value that spans of the type have, however often they have it.

    Raises
    ------
    OptionError
        An unknown value or counting, or a penalty that is no number.
    NumericError
        A penalty that is not finite.
    """

    type: str
    value: str | Value = "text"
    penalty: float = -4.0
    counting: Counting = "pairs"

    def __post_init__(self) -> None:
        one_of("counting", self.counting, Counting)
        if isinstance(self.value, str) and self.value not in VALUES:
            raise OptionError(f"no value {self.value!r}, expected one of {', '.join(VALUES)}")
        penalty = finite(f"the penalty of differing {self.type}", self.penalty)
        object.__setattr__(self, "penalty", penalty)

    def of(self, words: Sequence[str]) -> Hashable:
        """Return the value of a span with these tokens; `None` for more than `LONGEST` tokens.

        Raises
        ------
        OptionError
            The function's value cannot be hashed.
        """
        if len(words) > LONGEST:
            return None
        found = (VALUES[self.value] if isinstance(self.value, str) else self.value)(words)
        if not isinstance(found, Hashable):
            raise OptionError(
                f"the value of {self.type!r} is a {type(found).__name__}, expected something that "
                "can be hashed: a string, a number, a tuple"
            )
        return found


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """The last word of a span occurs in the document without the type of the span.

    Parameters
    ----------
    type : str
    penalty : float
        The natural log that each such place adds to the score of the document, for each such span.

    Raises
    ------
    OptionError
        A penalty that is no number.
    NumericError
        A penalty that is not finite.
    """

    type: str
    penalty: float = -4.0

    def __post_init__(self) -> None:
        penalty = finite(f"the penalty of unlabelled {self.type}", self.penalty)
        object.__setattr__(self, "penalty", penalty)


class _Row(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A violation as a file has it."""

    violation: Literal["differing", "unlabelled"]
    type: str
    penalty: float
    value: str | None = None
    counting: Counting = "pairs"


@dataclass(frozen=True)
class Fields(DeclaredModel):
    """A model of fields that agree throughout a document.

    Parameters
    ----------
    violations : sequence of Differing and Unlabelled
        At most one of each kind for a type.
    column : str
        The column that is read.
    tape : str, optional
        The tape whose labels are read, if a tagger has several.

    Raises
    ------
    OptionError
        No violations, others than those, or two of a kind for one type.

    Examples
    --------
    >>> Fields.seminars().types
    ('etime', 'speaker', 'stime')
    """

    violations: Sequence[Differing | Unlabelled]

    def __post_init__(self) -> None:
        object.__setattr__(self, "violations", tuple(self.violations))
        if not self.violations:
            raise OptionError("a model of fields needs at least one violation")
        each_a("violations", self.violations, Differing, Unlabelled)
        kinds = Counter((type(v).__name__, v.type) for v in self.violations)
        (kind, name), often = kinds.most_common(1)[0]
        if often > 1:
            raise OptionError(f"{kind} of {name!r} is there {often} times, expected once")

    def rows(self) -> list[msgspec.Struct]:
        """Return the violations as a file has them."""
        return [_row(v) for v in self.violations]

    @staticmethod
    def parsed(rows: list[Any]) -> list[Differing | Unlabelled]:
        """Return the violations of a file."""
        return [
            Unlabelled(row.type, row.penalty)
            if row.violation == "unlabelled"
            else Differing(row.type, row.value or "text", row.penalty, row.counting)
            for row in msgspec.convert(rows, list[_Row])
        ]

    @classmethod
    def seminars(
        cls, penalty: float = -4.0, *, tape: str | None = None, counting: Counting = "pairs"
    ) -> Fields:
        """Return the model of Finkel et al. (2005) for announcements of seminars.

        Start times agree, end times agree, a speaker's last name is always the speaker's. The
        penalty is the one they set by hand.

        Parameters
        ----------
        penalty : float
        tape : str, optional
        counting : {"pairs", "values"}
            How times that differ are counted.
        """
        times = [Differing(name, "clock", penalty, counting) for name in ("stime", "etime")]
        return cls([*times, Unlabelled("speaker", penalty)], tape=tape)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of spans that it reads."""
        return tuple(sorted({v.type for v in self.violations}))

    @property
    def differing(self) -> dict[str, Differing]:
        """The violations of class `Differing`, by type."""
        return {v.type: v for v in self.violations if isinstance(v, Differing)}

    @property
    def unlabelled(self) -> dict[str, Unlabelled]:
        """The violations of class `Unlabelled`, by type."""
        return {v.type: v for v in self.violations if isinstance(v, Unlabelled)}

    def score(self, document: Document, labels: Sequence[str]) -> float:
        """Return the score of a labelling, one label for each token: the log of its penalties.

        Raises
        ------
        ShapeError
            Another number of labels than tokens.
        OptionError
            Something else than a `Document`.
        """
        labels = check_labels(document, labels)
        words = document.column(self.column)
        spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for start, end, name in _spans(document, labels, self.types):
            spans[name].append((start, end))
        total = 0.0
        for name, differing in self.differing.items():
            total += differing.penalty * _tokens_that_differ(differing, words, spans[name])
        for name, unlabelled in self.unlabelled.items():
            total += unlabelled.penalty * _places_without(words, spans[name])
        return total

    def bind(self, document: Document) -> Violations:
        """Return the scores of a document in Python; the kernel has its own."""
        return Recounted(self.score).bind(document)


def _row(violation: Differing | Unlabelled) -> _Row:
    if isinstance(violation, Unlabelled):
        return _Row("unlabelled", violation.type, violation.penalty)
    if not isinstance(violation.value, str):
        raise OptionError(
            f"the value of {violation.type!r} is a function, expected a name: it cannot be saved"
        )
    return _Row("differing", violation.type, violation.penalty, violation.value, violation.counting)


def _spans(document: Document, labels: Sequence[str], types: Sequence[str]) -> Iterator[Span]:
    known = sorted(set(labels))
    number = {label: k for k, label in enumerate(known)}
    tables = span_tables(known, types, strict=False)
    for first, end in itertools.pairwise(document.offsets.tolist()):
        part = [number[label] for label in labels[first:end]]
        for a, b, kind in tables.spans(part, len(known)):
            yield first + a, first + b, types[kind]


def _tokens_that_differ(
    violation: Differing, words: Sequence[str], spans: Sequence[tuple[int, int]]
) -> int:
    said = [(violation.of(words[a:b]), b - a) for a, b in spans]
    if violation.counting == "values":
        sizes = [(value, n) for value, n in said if value is not None]
        return sum(n for _, n in sizes) * max(len({value for value, _ in sizes}) - 1, 0)
    return sum(
        n + m
        for (one, n), (other, m) in itertools.combinations(said, 2)
        if one is not None and other is not None and one != other
    )


def _places_without(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> int:
    unlabelled = Counter(words)
    for a, b in spans:
        unlabelled.subtract(words[a:b])
    last = [(a, last_word(words[a:b])) for a, b in spans]
    return sum(unlabelled[words[a + k]] for a, k in last if k is not None)
