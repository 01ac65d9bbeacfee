"""A path through a lattice: its labels, score, probability, and the positions of its segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import numpy as np

from fstcrf.arguments import items_of
from fstcrf.arrays import Floats, Longs
from fstcrf.errors import LabelError, OptionError
from fstcrf.lazy import LazyModule
from fstcrf.text import corpus

_MOST_SHOWN = 20  # tokens of a path in `repr`

Labels: TypeAlias = tuple[Any, ...]
"""A tuple of str; for several tapes, a tuple of such tuples."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from fstcrf import display
    from fstcrf.text.corpus import Span

    LabelsT_co = TypeVar("LabelsT_co", bound=Labels, default=Labels, covariant=True)
else:  # only type checkers read the default of a type variable
    display = LazyModule("fstcrf.display")
    from typing import TypeVar

    LabelsT_co = TypeVar("LabelsT_co", bound=Labels, covariant=True)


def shown_tapes(names: Sequence[str], tapes: Sequence[str]) -> tuple[str, ...]:
    """Return some of the tapes `names`; OptionError if one is missing or repeated."""
    if isinstance(tapes, str) or not tapes or len(set(tapes)) < len(tapes):
        raise OptionError(f"tapes is {tapes!r}, expected names of tapes, each once")
    odd = [tape for tape in tapes if tape not in names]
    if odd:
        raise OptionError(f"no tape {odd[0]!r}: the tapes are {', '.join(names)}")
    return tuple(tapes)


def labels_of_tapes(labels: Sequence[tuple[str, ...]]) -> Labels:
    """Return the labels of some tapes as `Path.labels`: without an outer tuple for one tape."""
    return tuple(labels) if len(labels) > 1 else labels[0]


def share(score: float, log_z: float) -> float:
    """Return exp(score − log Z), at most 1 in spite of rounding; 0 for −inf, NaN for NaN."""
    return float(np.exp(np.minimum(0.0, score - log_z))) if score > -np.inf else 0.0


def shares(scores: Floats, log_z: Floats) -> Floats:
    """Return `share` of arrays: exp(score − log Z), at most 1; log Z is broadcast."""
    dead = np.isneginf(scores)
    logs = np.where(dead, -np.inf, scores) - np.where(dead, 0.0, log_z)
    return np.where(dead, 0.0, np.exp(np.minimum(0.0, logs)))


@dataclass(frozen=True, slots=True)
class Positions:
    """Positions of the labels of one tape on a path.

    Parameters
    ----------
    starts, ends : tuple of int
        First token of each segment, and the token after its last.
    arcs : int64 [k]
        Number of the input arc of each segment; −1 if it has no input arc.
    output : bool
        The labels are not segments: a transducer writes them at boundaries. `starts` and `ends`
        are these boundaries.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    arcs: Longs = field(compare=False)
    output: bool = False


def made_spans(start: Iterable[int], end: Iterable[int], names: Iterable[str]) -> tuple[Span, ...]:
    """Return spans from columns. `tuple.__new__` makes thousands of them faster."""
    return tuple(map(partial(tuple.__new__, corpus.Span), zip(start, end, names, strict=True)))


class _LazySlot:
    """A slot for a number, or for a function that computes it when it is first read."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def __get__(self, path: object, owner: type | None = None) -> Any:
        if path is None:
            return self
        value = self._slot.__get__(path, owner)
        if callable(value):
            value = value()
            self._slot.__set__(path, value)
        return value

    def __set__(self, path: object, value: object) -> None:
        self._slot.__set__(path, value)


@dataclass(frozen=True, slots=True)
class Path(Generic[LabelsT_co]):
    """One label sequence through a lattice, or one sequence of segments.

    ``path[tape]`` are the labels of a tape by name.

    Parameters
    ----------
    labels : tuple of str
        For several tapes, a tuple with such a tuple for each tape.
    score : float
        Sum of its potentials (natural log).
    probability : float
        exp(score − log Z), computed when it is first read. NaN if the grammar is too large to
        multiply out (`Lattice.confidence` then has bounds), or if a tropical transducer has no
        deterministic form.
    exact : bool
        The path is proven to be the best: no search has reached its budget.
    bound : float
        Upper bound of the scores of all label sequences (natural log).
    places : tuple of (Positions or None)
        Positions of the labels of each tape, for lattices with segments or with a tape that a
        transducer writes. ``None`` for a tape with a label for each token.
    tapes : tuple of str
        Names of the tapes.
    """

    labels: LabelsT_co
    score: float
    probability: float
    exact: bool
    bound: float
    places: tuple[Positions | None, ...] = ()
    tapes: tuple[str, ...] = field(default=(), compare=False)

    def __getitem__(self, tape: str) -> tuple[str, ...]:
        """Return the labels of a tape.

        Raises
        ------
        OptionError
            There is no such tape.
        """
        if tape not in self.tapes:
            raise OptionError(f"no tape {tape!r}: the tapes are {', '.join(self.tapes)}")
        labels: Labels = self.labels
        return labels[self.tapes.index(tape)] if len(self.tapes) > 1 else labels

    @property
    def segments(self) -> tuple[Span, ...]:
        """The segments of the first tape that has segments; ``type`` is the label."""
        labels: Labels = self.labels
        if labels and not isinstance(labels[0], str):
            labels = labels[self.places.index(self._placed) if self._placed is not None else 0]
        if self._placed is None:
            return made_spans(range(len(labels)), range(1, len(labels) + 1), labels)
        return made_spans(self._placed.starts, self._placed.ends, labels)

    @property
    def arcs(self) -> Longs:
        """Number of the input arc of each segment, int64 [k]; −1 if it has no input arc."""
        return np.zeros(0, dtype=np.int64) if self._placed is None else self._placed.arcs

    @property
    def _placed(self) -> Positions | None:
        return next((p for p in self.places if p is not None and not p.output), None)

    @property
    def positions(self) -> dict[str, tuple[int, ...]]:
        """For each tape that a transducer writes, the boundary of each label, 0 to T."""
        both = zip(self.tapes, self.places, strict=bool(self.places))
        return {tape: p.ends for tape, p in both if p is not None and p.output}

    def __repr__(self) -> str:
        if self._placed is not None:
            listed = ", ".join(f"{s.start}:{s.end} {s.type}" for s in self.segments[:12])
            more = ", …" if len(self.segments) > 12 else ""
            return (
                f"<Path: {listed}{more}; score {self.score:.6g}, "
                f"probability {self.probability:.4g}>"
            )
        values = f"score={self.score!r}, probability={self.probability!r}, exact={self.exact!r}"
        return f"Path(labels={_short(self.labels)}, {values}, bound={self.bound!r})"

    def _repr_html_(self) -> str:
        """Return the labels for notebooks, a row for each tape."""
        several = bool(self.labels) and not isinstance(self.labels[0], str)
        rows = {str(k): row for k, row in enumerate(self.labels)} if several else {"": self.labels}
        facts: dict[str, display.Cell] = {
            "score": display.number(self.score),
            "probability": self.probability,
        }
        proven = None if self.exact else f"not proven; none scores more than {self.bound:.4g}"
        return display.picture(display.facts({**facts, "best": proven}), display.sequences(rows))


def labels_by_tape(labels: Any, tapes: Sequence[str]) -> Any:
    """Return labels of each tape, in their order, from a path or a mapping of tapes to labels.

    Other labels are returned unchanged. A tape that is missing has ``None``: any labels.

    Raises
    ------
    OptionError
        The lattice does not have a tape.
    """
    if isinstance(labels, Path):
        if len(tapes) == 1 and any(p is not None and not p.output for p in labels.places):
            return labels.segments
        rows = labels.labels if len(labels.tapes) > 1 else [labels.labels]
        labels = dict(zip(labels.tapes, rows, strict=True))
    if not isinstance(labels, Mapping):
        listed = items_of(labels, "the labels are", "a list of labels or segments")
        rows = list(listed) if len(tapes) > 1 and isinstance(listed, list | tuple) else []
        if any(x is None for x in rows) and not any(isinstance(x, str) for x in rows):
            raise LabelError(
                "the labels of a tape are None: to leave a tape unknown, omit it from the mapping"
            )
        return listed
    unknown = next((tape for tape in labels if tape not in tapes), None)
    if unknown is not None:
        raise OptionError(f"no tape {unknown!r}: the tapes are {', '.join(tapes)}")
    by_tape = tuple(labels.get(tape) for tape in tapes)
    return by_tape if len(tapes) > 1 else by_tape[0]


Path.probability = _LazySlot(vars(Path)["probability"])  # type: ignore[assignment,misc]


def _short(labels: Labels) -> str:
    """Return labels as text; the text of a long sentence is cut."""
    if labels and not isinstance(labels[0], str):
        return f"({', '.join(map(_short, labels))})"
    if len(labels) <= _MOST_SHOWN:
        return repr(labels)
    first = ", ".join(map(repr, labels[:_MOST_SHOWN]))
    return f"({first}, … {len(labels):,} tokens)"
