"""Label consistency: one token sequence has one type throughout a document (Finkel et al. 2005).

===========  ================================================================
Violation    one type of violation: what it counts, its penalty
Consistency  a model of such violations, declared or estimated from a corpus
===========  ================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Corpus, Scheme
from fstcrf.documents.counting import PairCounts, count_pairs
from fstcrf.documents.document import Document
from fstcrf.documents.options import each_a, finite
from fstcrf.documents.written import Written
from fstcrf.errors import OptionError

if TYPE_CHECKING:
    from fstcrf.documents.agreeing import Agreeing

__all__ = ["Consistency", "Relation", "Violation"]

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


@dataclass(frozen=True)
class Consistency(Written):
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
    column: str = "word"
    tape: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "violations", tuple(self.violations))
        if not self.violations:
            raise OptionError("a consistency model needs at least one violation")
        each_a("violations", self.violations, Violation)

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

    def tables(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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

    def bind(self, document: Document) -> Agreeing:
        """Return the scores of a document in Python; the kernel has its own."""
        from fstcrf.documents.agreeing import Agreeing  # noqa: PLC0415 (it imports this module)

        return Agreeing(self, document)


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
