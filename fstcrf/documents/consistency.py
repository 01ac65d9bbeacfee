"""Label consistency: one token sequence has one type throughout a document (Finkel et al. 2005)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np

from fstcrf.arrays import Floats, Longs
from fstcrf.corpus import Corpus, Scheme, span_arrays
from fstcrf.documents.document import (
    DeclaredModel,
    Document,
    RepeatedSequences,
    SpanTables,
    documents,
    each_a,
    finite,
    repeated_sequences,
    span_tables,
)
from fstcrf.errors import DataError, OptionError

__all__ = [
    "Consistency",
    "PairCounts",
    "Relation",
    "Violation",
    "count_pairs",
]


@dataclass(frozen=True, eq=False, slots=True)
class PairCounts:
    """Pairs of spans of one document, by their types.

    Parameters
    ----------
    types : tuple of Y str
    same : int64 [Y, Y]
        Pairs of spans with the same tokens; symmetric.
    within : int64 [Y, Y]
        Places of a span (row) whose tokens are those of another, shorter one (column).
    """

    types: tuple[str, ...]
    same: Longs
    within: Longs


def count_pairs(
    corpus: Corpus, target: str, *, column: str = "word", scheme: str | Scheme = "iob2"
) -> PairCounts:
    """Count pairs of spans with the same tokens, and of spans within others.

    Arguments as for `Consistency.estimate`.

    Raises
    ------
    DataError
        No such column, or no spans.
    """
    types = _types(corpus, target, scheme)
    number = {name: k for k, name in enumerate(types)}
    same = np.zeros((len(types), len(types)), dtype=np.int64)
    within = np.zeros_like(same)
    for document in documents(corpus):
        part = document.corpus
        tokens = part.column(column).ids.astype(np.int64)
        repeated = repeated_sequences(tokens, document.offsets)
        found = span_arrays(part.column(target), part.offsets, scheme)
        kinds = [number[found.types[kind]] for kind in found.type.tolist()]
        spans = list(zip(found.start.tolist(), found.end.tolist(), kinds, strict=True))
        whole: dict[int, Counter[int]] = defaultdict(Counter)
        for start, end, kind in spans:
            whole[repeated.of(start, end)][kind] += 1
        whole.pop(-1, None)  # what occurs once
        _add_same(whole, same)
        _add_within(spans, repeated, whole, within)
    return PairCounts(types, same, within)


def _add_same(whole: dict[int, Counter[int]], same: Longs) -> None:
    for counts in whole.values():
        for a, n in counts.items():
            for b, m in counts.items():
                same[a, b] += n * (n - 1) // 2 if a == b else n * m


def _add_within(
    spans: list[tuple[int, int, int]],
    repeated: RepeatedSequences,
    whole: dict[int, Counter[int]],
    within: Longs,
) -> None:
    for start, end, kind in spans:
        for sequence, _ in repeated.inside(start, end):
            for inner, n in whole.get(sequence, Counter()).items():
                within[kind, inner] += n


def _types(corpus: Corpus, target: str, scheme: str | Scheme) -> tuple[str, ...]:
    found = span_arrays(corpus.column(target), corpus.offsets, scheme)
    used = sorted({found.types[k] for k in np.unique(found.type).tolist()})
    if not used:
        raise DataError(f"column {target!r} holds no spans", path=corpus.source)
    return tuple(used)


# --- The model ------------------------------------------------------------------------------------

Relation = Literal["same", "within"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One type of violation.

    Parameters
    ----------
    relation : {"same", "within"}
        same: two spans have the same tokens. within: the tokens of the second, shorter one are
        among those of the first, as often as they are.
    types : (str, str)
        The types of the two spans; in any order for the relation same.
    penalty : float
        What it adds to the score of the document, natural log, for each token of the offending
        span: of either of the two, or of the shorter one. −inf is not allowed; 0 is none.
    count : int, optional
        How often it was counted, where it was estimated.

    Raises
    ------
    OptionError
        Another relation, not two types, or a penalty that is no number.
    NumericError
        A penalty that is not finite.
    """

    relation: Relation
    types: tuple[str, str]
    penalty: float
    count: int | None = None

    def __post_init__(self) -> None:
        if self.relation not in {"same", "within"}:
            raise OptionError(f"relation is {self.relation!r}, expected 'same' or 'within'")
        types: object = self.types
        if not isinstance(types, tuple) or len(types) != 2:
            raise OptionError(f"types is {types!r}, expected a tuple of two names")
        penalty = finite(f"the penalty of {self.relation} {self.types}", self.penalty)
        object.__setattr__(self, "penalty", penalty)


class _Row(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A violation as a file has it."""

    relation: Relation
    types: tuple[str, str]
    penalty: float
    count: int | None = None


@dataclass(frozen=True)
class Consistency(DeclaredModel):
    """A model of violations of label consistency.

    Parameters
    ----------
    violations : sequence of Violation
    column : str
        The column whose strings are compared.
    tape : str, optional
        The tape that it reads, where a tagger has several.

    Examples
    --------
    >>> model = Consistency([Violation("same", ("PER", "ORG"), -6.4)])
    >>> model.types
    ('ORG', 'PER')
    """

    violations: Sequence[Violation]

    def __post_init__(self) -> None:
        object.__setattr__(self, "violations", tuple(self.violations))
        if not self.violations:
            raise OptionError("a consistency model needs at least one violation")
        each_a("violations", self.violations, Violation)

    def rows(self) -> list[msgspec.Struct]:
        """Return the violations as a file has them."""
        return [_Row(v.relation, v.types, v.penalty, v.count) for v in self.violations]

    @staticmethod
    def parsed(rows: list[Any]) -> list[Violation]:
        """Return the violations of a file."""
        found = msgspec.convert(rows, list[_Row])
        return [Violation(row.relation, row.types, row.penalty, row.count) for row in found]

    @property
    def types(self) -> tuple[str, ...]:
        """The types of spans that it knows."""
        return tuple(sorted({name for v in self.violations for name in v.types}))

    @classmethod
    def estimate(
        cls,
        corpus: Corpus,
        target: str,
        *,
        column: str = "word",
        scheme: str | Scheme = "iob2",
        tape: str | None = None,
    ) -> Consistency:
        """Estimate penalties from gold labels, as tables 3 and 4 of the paper do.

        The penalty of one sequence with the types a and b is √(n_ab / N_a) √(n_ab / N_b), with N_a
        the sum of the row of a; that of an inner span of type b is n_ab / N_b, N_b the sum of its
        column. A count of 0 becomes 1. Two spans of one type violate nothing.

        Parameters
        ----------
        corpus : Corpus
            With its documents.
        target : str
            The column of gold labels.
        column : str
            The column whose strings are compared.
        scheme : str or Scheme
            Of the labels.
        tape : str, optional
            The tape that the model reads, where a tagger has several.

        Raises
        ------
        DataError
            No such column, or no spans of two types.
        """
        counts = count_pairs(corpus, target, column=column, scheme=scheme)
        return cls(list(_estimated(counts)), column, tape)

    def scaled(self, factor: float, relation: Relation | None = None) -> Consistency:
        """Return the model with its penalties, or those of one relation, times a factor.

        The factor is the model's weight in the product with the tagger.
        """
        changed = [
            replace(v, penalty=v.penalty * factor) if relation in {None, v.relation} else v
            for v in self.violations
        ]
        return Consistency(changed, self.column, self.tape)

    def with_violations(self, violations: Iterable[Violation]) -> Consistency:
        """Return the model with more violations; a later one replaces an earlier one alike."""
        kept = {_key(v): v for v in (*self.violations, *violations)}
        return Consistency(list(kept.values()), self.column, self.tape)

    def tables(self) -> tuple[Floats, Floats]:
        """Return the penalties of the relations same and within, float64 [Y, Y] each."""
        number = {name: k for k, name in enumerate(self.types)}
        same, within = (np.zeros((len(number), len(number))) for _ in range(2))
        for v in self.violations:
            a, b = number[v.types[0]], number[v.types[1]]
            if v.relation == "same":
                same[a, b] = same[b, a] = v.penalty
            else:
                within[a, b] = v.penalty
        return same, within

    def score(self, document: Document, labels: Sequence[str]) -> float:
        """Return the score of a labelling, one label for each token: the log of its penalties."""
        return self.bind(document).start(labels)

    def bind(self, document: Document) -> ConsistencyScores:
        """Return the scores of a document in Python; the kernel has its own."""
        return ConsistencyScores(self, document)


def _key(violation: Violation) -> tuple[str, tuple[str, ...]]:
    types = violation.types
    return violation.relation, tuple(sorted(types)) if violation.relation == "same" else types


def _estimated(counts: PairCounts) -> Iterable[Violation]:
    types = counts.types
    same, within = (np.maximum(table, 1) for table in (counts.same, counts.within))
    rows, columns = same.sum(axis=1), within.sum(axis=0)
    for a, first in enumerate(types):
        for b, second in enumerate(types):
            if a < b:
                n = same[a, b]
                penalty = math.log(n) - 0.5 * math.log(rows[a]) - 0.5 * math.log(rows[b])
                yield Violation("same", (first, second), penalty, int(counts.same[a, b]))
            if a != b:
                penalty = math.log(within[a, b] / columns[b])
                yield Violation("within", (first, second), penalty, int(counts.within[a, b]))


# --- Scores in Python -----------------------------------------------------------------------------

# For use beside models that are written in Python. The kernel keeps the same counts
# (csrc/agreement.h); tests compare the two.

Spans = list[tuple[int, int, int]]


class ConsistencyScores:
    """Scores of a consistency model for one document.

    Parameters
    ----------
    model : Consistency
    document : Document
    """

    def __init__(self, model: Consistency, document: Document) -> None:
        self._types = model.types
        same, within = model.tables()
        self._same, self._within = same.tolist(), within.tolist()
        tokens = document.corpus.column(model.column).ids.astype(np.int64)
        self._repeated = repeated_sequences(tokens, document.offsets)
        bounds = document.offsets
        lengths = np.diff(bounds)
        self._begin = np.repeat(bounds[:-1], lengths).tolist()
        self._end = np.repeat(bounds[1:], lengths).tolist()
        self._whole: Counter[tuple[int, int]] = Counter()
        self._part: Counter[tuple[int, int]] = Counter()
        self._number: dict[str, int] = {}
        self._known: list[str] = []
        self._reading: SpanTables | None = None
        self._labels: list[str] = []
        self._pending: tuple[int, list[str], Spans, Spans] | None = None

    def start(self, labels: Sequence[str]) -> float:
        """Return the score of labels, and remember them."""
        self._whole.clear()
        self._part.clear()
        self._labels = list(labels)
        total, at = 0.0, 0
        while at < len(labels):
            total += self._enter(self._spans(at, self._end[at], self._labels))
            at = self._end[at]
        return total

    def change(self, first: int, labels: Sequence[str]) -> float:
        """Return by how much the score changes if tokens from `first` on had these labels."""
        if not labels:
            self._pending = None
            return 0.0
        begin, end = self._begin[first], self._end[first + len(labels) - 1]
        changed = self._labels.copy()
        changed[first : first + len(labels)] = labels
        old, new = (list(self._sentences(begin, end, x)) for x in (self._labels, changed))
        common = set(old) & set(new)  # most spans stay
        old = [span for span in old if span not in common]
        new = [span for span in new if span not in common]
        self._leave(old)
        was = self._enter(old)
        self._leave(old)
        now = self._enter(new)
        self._leave(new)
        self._enter(old)
        self._pending = (first, list(labels), old, new)
        return now - was

    def keep(self) -> None:
        """Remember the labels of the last `change`."""
        if self._pending is None:
            return
        first, labels, old, new = self._pending
        self._leave(old)
        self._enter(new)
        self._labels[first : first + len(labels)] = labels
        self._pending = None

    def _sentences(self, begin: int, end: int, labels: list[str]) -> Iterator[tuple[int, int, int]]:
        while begin < end:
            yield from self._spans(begin, self._end[begin], labels)
            begin = self._end[begin]

    def _spans(self, begin: int, end: int, labels: list[str]) -> Spans:
        part = labels[begin:end]
        reading = self._tables(part)
        numbers = [self._number[label] for label in part]
        found = reading.spans(numbers, len(self._known))
        return [(begin + a, begin + b, kind) for a, b, kind in found]

    def _tables(self, labels: list[str]) -> SpanTables:
        if self._reading is None or not all(label in self._number for label in labels):
            self._known = [*self._known, *sorted(set(labels) - set(self._known))]
            self._number = {label: k for k, label in enumerate(self._known)}
            self._reading = span_tables(self._known, self._types, strict=False)
        return self._reading

    def _enter(self, spans: Spans) -> float:
        """Count spans; return what they cost together with all that are counted."""
        total = 0.0
        for start, end, kind in spans:
            own = self._repeated.of(start, end)
            if own >= 0:
                for y in range(len(self._types)):
                    total += (end - start) * (
                        self._whole[own, y] * self._same[kind][y]
                        + self._part[own, y] * self._within[y][kind]
                    )
            for number, length in self._repeated.inside(start, end):
                for y in range(len(self._types)):
                    total += length * self._whole[number, y] * self._within[kind][y]
            self._count(start, end, kind, 1)
        return total

    def _leave(self, spans: Spans) -> None:
        for start, end, kind in spans:
            self._count(start, end, kind, -1)

    def _count(self, start: int, end: int, kind: int, by: int) -> None:
        own = self._repeated.of(start, end)
        if own >= 0:
            self._whole[own, kind] += by
        for number, _ in self._repeated.inside(start, end):
            self._part[number, kind] += by
