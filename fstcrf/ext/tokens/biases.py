"""The possible steps between labels in a tagging scheme, and the bias of each kind of step.

The six biases are the same as in ``viterbi_calibration.json``, a file of openai/privacy-filter.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from fstcrf.arguments import real_number
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import DataError, OptionError
from fstcrf.ext.calibration.curves import read_json, write_json
from fstcrf.lazy import made_once
from fstcrf.machines.topology import check_pairs
from fstcrf.text.corpus.schemes import (
    OUTSIDE,
    Scheme,
    check_readable,
    known_labels,
    legal_pairs,
    numbered_parts,
)

_PREFIX = "transition_bias_"


@dataclass(frozen=True, slots=True)
class TransitionBiases:
    """The additions to the score of a path (natural log) for each kind of step between labels.

    Parameters
    ----------
    background_stay : float
        O, then O.
    background_to_start : float
        O, then the first label of a span: more of it finds more spans.
    inside_to_continue : float
        Within a span, to a label that does not end the span.
    inside_to_end : float
        Within a span, to E (L); of schemes without such labels no step is one.
    end_to_background : float
        The last label of a span, then O.
    end_to_start : float
        The last label of a span, then the first of another.

    Raises
    ------
    OptionError
        A value that is not a finite number.
    """

    background_stay: float = 0.0
    background_to_start: float = 0.0
    inside_to_continue: float = 0.0
    inside_to_end: float = 0.0
    end_to_background: float = 0.0
    end_to_start: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = real_number(getattr(self, field.name), field.name)
            if not math.isfinite(value):
                raise OptionError(f"{field.name} is {value}, expected a finite number")
            object.__setattr__(self, field.name, value)

    @classmethod
    def of(cls, biases: TransitionBiases | Mapping[str, float] | None) -> TransitionBiases:
        """Return biases from a mapping of their names, with or without ``transition_bias_``.

        Raises
        ------
        OptionError
            Another name, or a value that is not a finite number.
        """
        if biases is None:
            return cls()
        if isinstance(biases, cls):
            return biases
        if not isinstance(biases, Mapping):
            raise OptionError("biases are a mapping of names to numbers, or TransitionBiases")
        named = {str(name).removeprefix(_PREFIX): value for name, value in biases.items()}
        known = [field.name for field in fields(cls)]
        odd = next((name for name in named if name not in known), None)
        if odd is not None or len(named) < len(biases):
            which = "a bias twice" if odd is None else f"no bias {odd!r}"
            raise OptionError(f"biases: {which}; they are {', '.join(known)}")
        return cls(**named)

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], operating_point: str = "default"
    ) -> TransitionBiases:
        """Read one operating point of a ``viterbi_calibration.json``.

        Raises
        ------
        DataError
            No such file, no such operating point, a bias that is missing, unknown or no number.
        OSError
            It cannot be opened.
        """
        points = _points(path)
        if operating_point not in points:
            raise DataError(
                f"no operating point {operating_point!r}; the operating points are "
                f"{', '.join(points) or 'none'}",
                path=os.fspath(path),
            )
        point = points[operating_point]
        biases = point.get("biases") if isinstance(point, Mapping) else None
        wanted = {_PREFIX + field.name for field in fields(cls)}
        if not isinstance(biases, Mapping) or set(biases) != wanted:
            raise DataError(
                f"operating point {operating_point!r}: expected biases with the keys "
                f"{', '.join(sorted(wanted))}",
                path=os.fspath(path),
            )
        numbers = (int, float)
        for name, value in biases.items():
            if not isinstance(value, numbers) or isinstance(value, bool):
                raise DataError(f"{name} is {value!r}, expected a number", path=os.fspath(path))
        return cls.of(biases)

    def write(self, path: str | os.PathLike[str], operating_point: str = "default") -> None:
        """Write them as an operating point of a ``viterbi_calibration.json``.

        Other operating points and other contents of an existing file are kept.

        Raises
        ------
        DataError
            The file that is there is something else.
        OSError
            It cannot be written.
        """
        whole: dict[str, Any] = {}
        if os.path.exists(path):  # noqa: PTH110 (the path may be any str)
            _points(path)
            whole = read_json(path)
        points = whole.setdefault("operating_points", {})
        kept = points.get(operating_point)
        point = dict(kept) if isinstance(kept, Mapping) else {}
        points[operating_point] = point | {"biases": self.to_dict(_PREFIX)}
        write_json(path, whole)

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the biases by name."""
        return {prefix + name: value for name, value in asdict(self).items()}


def _points(path: str | os.PathLike[str]) -> dict[str, Any]:
    whole = read_json(path)
    points = whole.get("operating_points") if isinstance(whole, dict) else None
    if not isinstance(points, dict):
        raise DataError("no operating_points: not a viterbi_calibration.json", path=os.fspath(path))
    return points


@dataclass(frozen=True, eq=False)
class Steps:
    """Scores of steps between labels; −inf if the scheme forbids them.

    A score depends on the letters of two labels and on whether their types agree: scores of label
    pairs are only computed by `between`.

    Parameters
    ----------
    table : float64 [K, K, 2]
        Of letters, then of other types and the same type.
    letter, kind : int64 [L]
        Numbers of each label's letter and type.
    """

    table: Floats
    letter: Longs
    kind: Longs

    def scores(self, before: Longs, after: Longs) -> Floats:
        """Return the scores of steps from labels to labels."""
        same = self.kind[before] == self.kind[after]
        found: Floats = self.table[self.letter[before], self.letter[after], same * 1]
        return found

    @made_once
    def between(self) -> Floats:
        """Scores of all steps, from row to column: float64 [L, L]."""
        check_pairs(len(self.letter))
        every = np.arange(len(self.letter))
        return self.scores(every[:, None], every)

    @property
    def first(self) -> Floats:
        """Whether a label may begin a document: 0 or −inf, float64 [L]."""
        return self._ends(np.isfinite(self.table[0, self.letter, 0]))

    @property
    def last(self) -> Floats:
        """Whether a label may end a document: 0 or −inf, float64 [L]."""
        return self._ends(np.isfinite(self.table[self.letter, 0, 0]))

    def _ends(self, legal: Bools) -> Floats:
        return np.where(legal, 0.0, -np.inf)


def steps(
    labels: tuple[str, ...], scheme: Scheme, biases: TransitionBiases, temperature: float
) -> Steps:
    """Return the biases of allowed steps in a scheme, divided by a temperature.

    Raises
    ------
    LabelError
        A label that the scheme does not have.
    GrammarError
        The scheme allows no span of these labels.
    """
    letter, kind = numbered_parts(known_labels(labels, scheme), scheme)
    check_readable(labels, scheme)
    table = np.where(legal_pairs(scheme), 0.0, -np.inf)
    for i, a in enumerate(scheme.letters):
        for j, b in enumerate(scheme.letters):
            for same in (False, True):
                table[i, j, same * 1] += _bias(a, b, scheme, biases, same=same)
    return Steps(table / temperature, letter, kind)


def _bias(a: str, b: str, scheme: Scheme, biases: TransitionBiases, *, same: bool) -> float:
    if a == OUTSIDE:
        return biases.background_stay if b == OUTSIDE else biases.background_to_start
    if (a, b, same) in scheme.inside:
        closing = b in scheme.last and (b, b, True) not in scheme.inside
        return biases.inside_to_end if closing else biases.inside_to_continue
    return biases.end_to_background if b == OUTSIDE else biases.end_to_start
