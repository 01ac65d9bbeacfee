"""Answers of lattices that are not paths: spans, labels of least risk, bounds of probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple

from fstcrf.arrays import Floats, Ints
from fstcrf.errors import OptionError
from fstcrf.lattices.paths import LabelsT_co, Path
from fstcrf.text import corpus

if TYPE_CHECKING:
    from fstcrf.text.corpus import Span

Method = Literal["auto", "exact", "n-best", "sampling"]


def check_share(above: float) -> None:
    """Raise an error unless a number is a probability."""
    if not 0.0 <= above <= 1.0:
        raise OptionError(f"above is {above}, expected a probability, 0 to 1")


class SegmentCounts(NamedTuple):
    """Expected counts of the parts of a lattice: the gradient of its log Z.

    Parameters
    ----------
    arcs : float64 [E]
        The probability of each arc; E is 0 if the lattice was made from labels of tokens.
    transitions : float64 [L, L]
        The expected number of times that one label follows another on the first tape.
    initial, final : float64 [L]
        The probability of each label to be the first or the last.
    """

    arcs: Floats
    transitions: Floats
    initial: Floats
    final: Floats


@dataclass(frozen=True, eq=False, slots=True)
class ProbableSpans:
    """Spans of one sentence with their probabilities, in the order of their ends.

    Iterating gives (`Span`, probability).

    Parameters
    ----------
    start, end : int32 [M]
        First token, and the token after the last one.
    type : int32 [M]
        Index into `types`.
    probability : float64 [M]
    types : tuple of str
        The types of the tape; some may have no span.
    """

    start: Ints
    end: Ints
    type: Ints
    probability: Floats
    types: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[tuple[Span, float]]:
        columns = (self.start, self.end, self.type, self.probability)
        for start, end, kind, p in zip(*(c.tolist() for c in columns), strict=True):
            yield corpus.Span(start, end, self.types[kind]), p

    def __repr__(self) -> str:
        return f"<ProbableSpans: {len(self)} of {len(self.types)} types>"


@dataclass(frozen=True, slots=True)
class MinimumRisk(Generic[LabelsT_co]):
    """Labels with the least expected loss.

    Parameters
    ----------
    labels : tuple of str
        As `Path.labels`; with ``loss="span"`` of one tape; for lattices of segments, the segments.
    expected : float
        Expected share of correct tokens, or the ratio of expectations, between 0 and 1.
    """

    labels: LabelsT_co
    expected: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A number between two bounds.

    Parameters
    ----------
    low, high : float
    """

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The midpoint, whose error is at most half the width."""
        return (self.low + self.high) / 2

    @property
    def width(self) -> float:
        """The difference of the bounds."""
        return self.high - self.low

    def within(self, other: Interval) -> Interval:
        """Return the intersection of two intervals."""
        low = max(self.low, other.low)
        return Interval(low, max(low, min(self.high, other.high)))

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low:.4f}"
        return f"{self.middle:.4f} ± {self.width / 2:.4f}"


@dataclass(frozen=True, slots=True)
class Confidence:
    """Bounds of the probability of the best labelling under a grammar.

    Parameters
    ----------
    path : Path
        The best legal path.
    probability : Interval
        The probability of this path, given that the path is legal.
    legal : Interval
        The probability of a legal labelling under the model without the grammar.
    method : {"exact", "n-best", "sampling"}
        The method that found the bounds.
    level : float
        Probability that sampled bounds hold; 1 for other bounds, which always hold.
    """

    path: Path
    probability: Interval
    legal: Interval
    method: str
    level: float
