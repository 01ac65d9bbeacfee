"""Label consistency: one token sequence has one type throughout a document (Finkel et al. 2005)."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import msgspec
import numpy as np

from fstcrf.arrays import Floats, Longs, Ragged, distinct
from fstcrf.errors import DataError, OptionError
from fstcrf.ext.documents.document import (
    DeclaredModel,
    Document,
    SpanTables,
    check_labels,
    documents,
    each_a,
    finite,
    repeated_sequences,
    span_tables,
)
from fstcrf.text.corpus import Corpus, span_arrays


@dataclass(frozen=True, eq=False, slots=True)
class PairCounts:
    """Pairs of spans of one document, by their types."""

    types: tuple[str, ...]  # Y of them
    same: Longs  # [Y, Y]: pairs of spans with the same tokens; symmetric
    within: Longs  # [Y, Y]: places of a span (row) with the tokens of another, shorter one
    # [Y, Y]: pairs of a span (row) and a shorter one in a place that has all of its tokens
    incomplete: Longs


def count_pairs(
    corpus: Corpus, target: str, *, column: str = "word", ignore_case: bool = False
) -> PairCounts:
    """Count pairs of spans with the same tokens, and of spans within others, as `estimate` does."""
    types = _types(corpus, target)
    number = {name: k for k, name in enumerate(types)}
    same = np.zeros((len(types), len(types)), dtype=np.int64)
    within, incomplete = np.zeros_like(same), np.zeros_like(same)
    for document in documents(corpus):
        part = document.corpus
        tokens = document.compared(column, ignore_case=ignore_case)
        repeated = repeated_sequences(tokens, document.offsets)
        found = span_arrays(part.column(target), part.offsets)
        kinds = [number[found.types[kind]] for kind in found.type.tolist()]
        spans = list(zip(found.start.tolist(), found.end.tolist(), kinds, strict=True))
        whole: dict[int, Counter[int]] = defaultdict(Counter)
        for start, end, kind in spans:
            whole[repeated.of(start, end)][kind] += 1
        whole.pop(-1, None)  # what occurs once
        for counts in whole.values():
            for (a, n), (b, m) in itertools.product(counts.items(), repeat=2):
                same[a, b] += n * (n - 1) // 2 if a == b else n * m
        for start, end, kind in spans:
            for sequence, _ in repeated.inside(start, end):
                for inner, n in whole.get(sequence, Counter()).items():
                    within[kind, inner] += n
            for sequence, _ in repeated.around(start, end):
                for outer, n in whole.get(sequence, Counter()).items():
                    incomplete[outer, kind] += n
    return PairCounts(types, same, within, incomplete)


def _types(corpus: Corpus, target: str) -> tuple[str, ...]:
    found = span_arrays(corpus.column(target), corpus.offsets)
    used = sorted({found.types[k] for k in distinct(found.type).tolist()})
    if not used:
        raise DataError(f"column {target!r} holds no spans", path=corpus.source)
    return tuple(used)


# --- The model ------------------------------------------------------------------------------------

Relation = Literal["same", "within", "incomplete"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)


@dataclass(frozen=True, slots=True)
class Violation:
    """One type of violation.

    Parameters
    ----------
    relation : {"same", "within", "incomplete"}
        same: two spans have the same tokens. within: the second span is shorter, and the first
        contains its tokens at least as often. incomplete: the second span is shorter, and its
        surroundings have all tokens of the first.
    types : (str, str)
        The types of the two spans; in any order for the relation same.
    penalty : float
        The natural log that is added to the score of the document for each token of the offending
        span: of both spans for "same", of the shorter one for "within"; for "incomplete", for each
        missing token. −inf is not allowed; 0 has no effect.
    count : int, optional
        Number of occurrences, if the penalty was estimated.

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
        if self.relation not in RELATIONS:
            raise OptionError(
                f"relation is {self.relation!r}, expected 'same', 'within' or 'incomplete'"
            )
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
        The tape that the model reads, if a tagger has several.
    ignore_case : bool
        Compare strings in lower case.

    Examples
    --------
    >>> model = Consistency([Violation("same", ("PER", "ORG"), -6.4)])
    >>> model.types
    ('ORG', 'PER')
    """

    violations: Sequence[Violation]  # one of each relation and types
    ignore_case: bool = False

    def __post_init__(self) -> None:
        each_a("violations", self.violations, Violation)
        object.__setattr__(self, "violations", tuple(self.violations))
        if not self.violations:
            raise OptionError("a consistency model needs at least one violation")
        twice = Counter(map(_place, self.violations)).most_common(1)[0]
        if twice[1] > 1:
            relation, types = twice[0]
            raise OptionError(
                f"{twice[1]} violations of {relation} {types}, expected one; with_violations "
                "replaces one"
            )

    def rows(self) -> list[msgspec.Struct]:
        """Return the violations as a file has them."""
        return [_Row(v.relation, v.types, v.penalty, v.count) for v in self.violations]

    def ignoring_case(self) -> Self:
        """Return the model with strings compared in lower case."""
        return replace(self, ignore_case=True)

    def options(self) -> dict[str, bool]:
        """Return the fields of a file other than the violations."""
        return {"ignore_case": True} if self.ignore_case else {}

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
        tape: str | None = None,
        ignore_case: bool = False,
        incomplete: bool = False,
    ) -> Consistency:
        """Estimate penalties from gold labels, as tables 3 and 4 of the paper do.

        For the relation "same" with the types a and b, the penalty is √(n_ab / N_a) √(n_ab / N_b),
        with N_a the sum of row a; for an inner span of type b it is n_ab / N_b, with N_b the sum of
        its column. A count of 0 becomes 1. Two spans of one type violate nothing, except if one is
        incomplete: n_ab / (n_ab + N_a), an extension of the paper.

        Parameters
        ----------
        corpus : Corpus
            With its documents.
        target : str
            The column of gold labels. Spans are read as conlleval reads them, in any tagging
            scheme, and so are the spans of answers.
        column : str
            The column whose strings are compared.
        tape : str, optional
            The tape that the model reads, if a tagger has several.
        ignore_case : bool
            Compare strings in lower case.
        incomplete : bool
            Also estimate penalties of incomplete spans.

        Raises
        ------
        DataError
            No such column, or no spans of two types.
        """
        counts = count_pairs(corpus, target, column=column, ignore_case=ignore_case)
        found = [*_estimated(counts), *(_incomplete(counts) if incomplete else ())]
        return cls(found, column, tape, ignore_case=ignore_case)

    def scaled(self, factor: float, relation: Relation | None = None) -> Consistency:
        """Return the model with all its penalties, or only one relation's, multiplied by a factor.

        The factor is the model's weight in the product with the tagger.

        Raises
        ------
        OptionError
            A factor that is negative or not finite, which would make penalties rewards; no such
            relation.
        """
        if not 0.0 <= factor < float("inf"):
            raise OptionError(f"factor is {factor:g}, expected a number of at least 0")
        if relation is not None and relation not in RELATIONS:
            known = ", ".join(map(repr, RELATIONS))
            raise OptionError(f"relation {relation!r}, expected one of {known}")
        changed = [
            replace(v, penalty=v.penalty * factor) if relation in {None, v.relation} else v
            for v in self.violations
        ]
        return replace(self, violations=changed)

    def with_violations(self, violations: Iterable[Violation]) -> Consistency:
        """Return the model with more violations; a later one replaces an earlier one alike."""
        kept = {}
        for v in (*self.violations, *violations):
            kept[_place(v)] = v
        return replace(self, violations=list(kept.values()))

    def tables(self) -> dict[Relation, Floats]:
        """Return the penalties of each relation, float64 [Y, Y]."""
        number = {name: k for k, name in enumerate(self.types)}
        found = {relation: np.zeros((len(number), len(number))) for relation in RELATIONS}
        for v in self.violations:
            a, b = number[v.types[0]], number[v.types[1]]
            found[v.relation][a, b] = v.penalty
            if v.relation == "same":
                found[v.relation][b, a] = v.penalty
        return found

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
        return self.bind(document).start(labels)

    def bind(self, document: Document) -> ConsistencyScores:
        """Return the scores of a document in Python; the kernel has its own."""
        return ConsistencyScores(self, document)


def _place(violation: Violation) -> tuple[Relation, tuple[str, ...]]:
    """Return the key of a violation: the types of the relation "same" have no order."""
    types: tuple[str, ...] = violation.types
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


def _incomplete(counts: PairCounts) -> Iterable[Violation]:
    rows = np.maximum(counts.same, 1).sum(axis=1)
    for (a, first), (b, second) in itertools.product(enumerate(counts.types), repeat=2):
        n = int(counts.incomplete[a, b])
        penalty = math.log(max(n, 1) / (max(n, 1) + rows[a]))
        yield Violation("incomplete", (first, second), penalty, n)


# --- Scores in Python -----------------------------------------------------------------------------

# Used together with models that are written in Python. The kernel keeps the same counts
# (csrc/agreement.h); tests compare the two.

Spans = list[tuple[int, int, int]]


class ConsistencyScores:
    """Scores of a consistency model for one document."""

    def __init__(self, model: Consistency, document: Document) -> None:
        self._types = model.types
        tables = model.tables()
        self._same, self._within = tables["same"].tolist(), tables["within"].tolist()
        self._incomplete = tables["incomplete"].tolist()
        tokens = document.compared(model.column, ignore_case=model.ignore_case)
        self._repeated = repeated_sequences(tokens, document.offsets)
        bounds = document.offsets
        lengths = Ragged(bounds).lengths
        self._begin = np.repeat(bounds[:-1], lengths).tolist()
        self._end = np.repeat(bounds[1:], lengths).tolist()
        self._whole: Counter[tuple[int, int]] = Counter()
        self._part: Counter[tuple[int, int]] = Counter()
        self._short_of: Counter[tuple[int, int]] = Counter()  # tokens that spans have less
        self._number: dict[str, int] = {}
        self._known: list[str] = []
        self._reading: SpanTables | None = None
        self._labels: list[str] = []
        self._pending: tuple[int, list[str], Spans, Spans] | None = None

    def start(self, labels: Sequence[str]) -> float:
        """Return the score of labels, and remember them."""
        self._whole.clear()
        self._part.clear()
        self._short_of.clear()
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
        """Count spans; return their cost with respect to each other and to all counted spans."""
        total = 0.0
        for start, end, kind in spans:
            own = self._repeated.of(start, end)
            if own >= 0:
                for y in range(len(self._types)):
                    total += (end - start) * (
                        self._whole[own, y] * self._same[kind][y]
                        + self._part[own, y] * self._within[y][kind]
                    )
                    total += self._short_of[own, y] * self._incomplete[kind][y]
            for number, length in self._repeated.around(start, end):
                for y in range(len(self._types)):
                    lacking = length - (end - start)
                    total += lacking * self._whole[number, y] * self._incomplete[y][kind]
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
        for number, length in self._repeated.around(start, end):
            self._short_of[number, kind] += by * (length - (end - start))
