"""Probabilities put right on held-out data: a curve for each type, or a temperature of scores.

- isotonic: the monotone function that is closest to the observations (Zadrozny and Elkan 2002),
  linear between its knots, and never 0 or 1; scikit-learn finds it.
- log-odds: log-odds divided by one number for each type, the one with the largest likelihood (after
  Guo et al. 2017). It needs far less data, and keeps the order of probabilities strictly between 0
  and 1.

`fit_temperature` is about scores instead: a model's potentials divided by one number, so that the
held-out labels get the largest likelihood. Best labels stay, probabilities change.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import items_of, real_array
from fstcrf.arrays import Floats
from fstcrf.errors import (
    DataError,
    LabelError,
    ModelFileError,
    NumericError,
    OptionError,
    ShapeError,
)
from fstcrf.ext.calibration.events import Events
from fstcrf.files import atomic_write, path_name
from fstcrf.lattices import Lattice, log_partition
from fstcrf.lattices.paths import labels_by_tape
from fstcrf.lazy import optional

Kind: TypeAlias = Literal["isotonic", "log-odds"]

FORMAT = "fstcrf-calibration"
VERSION = 1
_NEEDED = "isotonic calibration needs scikit-learn: pip install fstcrf[sklearn]"
_LEAST = 1e-9
"""Probabilities are kept this far from 0 and 1 where log-odds are needed."""
_WIDEST = math.log(100.0)
"""Divisors and temperatures are looked for from 1/100 to 100."""


class Isotonic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A monotone function of probabilities, linear between its knots and constant beyond them.

    Parameters
    ----------
    x, y : tuple of float
        Knots, rising; probabilities.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __call__(self, probability: Floats) -> Floats:
        """Return calibrated probabilities."""
        return np.asarray(np.interp(probability, self.x, self.y), dtype=np.float64)

    def check(self) -> None:
        """Raise DataError if the knots are not a monotone function of probabilities."""
        x, y = np.asarray(self.x), np.asarray(self.y)
        inside = all(bool(((a >= 0.0) & (a <= 1.0)).all()) for a in (x, y))
        rising = bool((np.diff(x) >= 0).all() and (np.diff(y) >= 0).all())
        if not (len(x) and len(x) == len(y) and inside and rising):
            raise DataError("the knots of a curve are not rising probabilities")


class LogOdds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Log-odds divided by a number.

    Parameters
    ----------
    divisor : float
        Above 1: the model is too sure.
    """

    divisor: float

    def __call__(self, probability: Floats) -> Floats:
        """Return calibrated probabilities; 0 and 1 stay."""
        with np.errstate(divide="ignore", over="ignore"):
            odds = np.log(probability) - np.log1p(-probability)
            return np.asarray(1.0 / (1.0 + np.exp(-odds / self.divisor)), dtype=np.float64)

    def check(self) -> None:
        """Raise DataError if the divisor is invalid."""
        if not 0.0 < self.divisor < math.inf:
            raise DataError(f"divisor is {self.divisor}, expected a number above 0")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"kind": "method"}):
    format: str
    version: int
    kind: Kind
    types: dict[str, Any]
    others: Any


@dataclass(frozen=True)
class Calibration:
    """Calibration of a model's probabilities, type by type.

    Parameters
    ----------
    kind : {"isotonic", "log-odds"}
    curves : mapping of str to Isotonic or LogOdds
        Curves of single types.
    others : Isotonic or LogOdds
        The curve of all other types.

    Examples
    --------
    >>> events = Events.of([0.9, 0.9, 0.9, 0.1], [True, False, True, False])
    >>> calibration = Calibration.fit(events, "log-odds")
    >>> float(calibration([0.9], [""]).round(2)[0])
    0.75
    """

    kind: Kind
    curves: Mapping[str, Isotonic | LogOdds]
    others: Isotonic | LogOdds

    def __post_init__(self) -> None:
        object.__setattr__(self, "curves", MappingProxyType(dict(self.curves)))
        _check_kind(self.kind)
        for one in (*self.curves.values(), self.others):
            one.check()

    def __reduce__(self) -> tuple[object, ...]:
        return Calibration, (self.kind, dict(self.curves), self.others)

    @classmethod
    def fit(cls, events: Events, kind: Kind = "isotonic", *, least: int = 50) -> Calibration:
        """Return the calibration that fits probabilities to the frequencies of held-out events.

        Parameters
        ----------
        events : Events
        kind : {"isotonic", "log-odds"}
        least : int
            Minimum number of events (with at least one right and one wrong) for a curve of a type;
            other types share the curve of all events.

        Raises
        ------
        OptionError
            Another kind; no events, only right events, or only wrong events.
        MissingDependencyError
            isotonic needs scikit-learn.
        """
        _check_kind(kind)
        right = int(events.correct.sum())
        if not 0 < right < len(events):
            raise OptionError(
                f"{len(events)} events, {right} of them correct: calibration needs correct and "
                "wrong ones; lower `above`, or take more held-out data"
            )
        fitted = _isotonic if kind == "isotonic" else _odds
        curves = {}
        for name in events.types:
            mine = events.of_type(name)
            if len(mine) >= least and 0 < mine.correct.sum() < len(mine):
                curves[name] = fitted(mine)
        return cls(kind, curves, fitted(events))

    @classmethod
    def crossed(
        cls, events: Events, kind: Kind = "isotonic", *, folds: int = 5, least: int = 50
    ) -> Events:
        """Return the events, each calibrated on the other folds: an estimate for new data.

        Parameters
        ----------
        events : Events
            In the order of their sentences; folds are runs of them.
        kind, least
            As for `fit`.
        folds : int

        Raises
        ------
        OptionError
            Fewer than two folds; as for `fit`, of some fold.
        """
        if folds < 2:
            raise OptionError(f"folds is {folds}, expected at least 2")
        p = np.empty(len(events))
        names = np.asarray(events.types, dtype=object)[events.type]
        for part in np.array_split(np.arange(len(events)), folds):
            others = np.delete(np.arange(len(events)), part)
            rest = cls.fit(events.taken(others), kind, least=least)
            p[part] = rest(events.probability[part], names[part].tolist())
        return Events(p, events.correct, events.type, events.types, events.missed)

    def __call__(self, probability: ArrayLike, types: Sequence[str]) -> Floats:
        """Return the calibrated probability of each span, or label.

        Parameters
        ----------
        probability : [M]
        types : sequence of M str

        Returns
        -------
        float64 [M]

        Raises
        ------
        ShapeError
            Another number of types.
        NumericError
            A value that is not a probability.
        """
        p = real_array(probability, "probability")
        if p.shape != (len(types),):
            raise ShapeError(f"probability is {list(p.shape)}, expected [{len(types)}]")
        if not bool(((p >= 0.0) & (p <= 1.0 + 1e-9)).all()):
            raise NumericError("a probability is outside 0 to 1")
        p = np.minimum(p, 1.0)
        names = np.asarray(types, dtype=object)
        out = np.empty(len(p))
        for name in dict.fromkeys(types):
            mine = names == name
            out[mine] = self.curves.get(name, self.others)(p[mine])
        return out

    def applied(self, events: Events) -> Events:
        """Return the same events with calibrated probabilities."""
        names = [events.types[k] for k in events.type.tolist()]
        p = self(events.probability, names)
        return Events(p, events.correct, events.type, events.types, events.missed)

    # --- Files --------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the contents of a file: plain dicts, lists, strings and numbers."""
        found: dict[str, Any] = msgspec.to_builtins(
            _File(FORMAT, VERSION, self.kind, dict(self.curves), self.others)
        )
        return found

    @classmethod
    def from_json(cls, value: Any, *, where: str = "calibration") -> Calibration:
        """Return the calibration that `to_json` gave.

        Raises
        ------
        ModelFileError
            Not such a value, or of another version.
        """
        try:
            if isinstance(value, Mapping) and value.get("format", FORMAT) != FORMAT:
                raise ModelFileError(f"{where}: holds {value['format']!r}, expected {FORMAT!r}")
            if isinstance(value, Mapping) and value.get("version", VERSION) != VERSION:
                raise ModelFileError(
                    f"{where}: version {value['version']!r}, this fstcrf reads {VERSION}"
                )
            file = msgspec.convert(_as_now(value), _File)
            of: Any = Isotonic if file.kind == "isotonic" else LogOdds
            curves = {name: msgspec.convert(one, of) for name, one in file.types.items()}
            return cls(file.kind, curves, msgspec.convert(file.others, of))
        except (msgspec.ValidationError, DataError) as error:
            raise ModelFileError(f"{where}: not a sound calibration: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file, whole or not at all.

        Raises
        ------
        OSError
            It cannot be written.
        """
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read a file of `save`.

        Raises
        ------
        ModelFileError
            Not such a file, or of another version.
        OSError
            It cannot be opened.
        """
        return cls.from_json(read_json(path), where=os.fspath(path))


def _as_now(value: Any) -> Any:
    """Rename the entries of older files, in which log-odds were called a temperature."""
    if not isinstance(value, Mapping) or value.get("method") != "temperature":
        return value

    def curve(old: Any) -> Any:
        given = isinstance(old, Mapping) and "temperature" in old
        return {"divisor": old["temperature"]} if given else old

    types = value.get("types")
    curves = {k: curve(one) for k, one in types.items()} if isinstance(types, Mapping) else types
    return {**value, "method": "log-odds", "types": curves, "others": curve(value.get("others"))}


def _check_kind(kind: str) -> None:
    if kind not in get_args(Kind):
        raise OptionError(f"calibration is {kind!r}, expected {' or '.join(get_args(Kind))}")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write JSON that people can read; the file appears complete or not at all."""
    with atomic_write(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the contents of a JSON file; ModelFileError if it is not JSON."""
    try:
        return msgspec.json.decode(Path(path_name(path)).read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelFileError(f"{os.fspath(path)}: not valid JSON: {error}") from None


def _isotonic(events: Events) -> Isotonic:
    isotonic = optional("sklearn.isotonic", _NEEDED)
    found = isotonic.IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    found.fit(events.probability, events.correct.astype(np.float64))
    y, fitted = np.asarray(found.y_thresholds_), found.predict(events.probability)
    # Events that never or always occurred follow the rule of succession: 0 and 1 are for certain
    # events.
    never, always = int((fitted <= 0.0).sum()), int((fitted >= 1.0).sum())
    low = min(1.0 / (never + 2), y[y > 0.0].min(initial=1.0))
    high = max(1.0 - 1.0 / (always + 2), y[y < 1.0].max(initial=0.0))
    y = np.where(y <= 0.0, low, np.where(y >= 1.0, high, y))
    return Isotonic(tuple(found.X_thresholds_.tolist()), tuple(y.tolist()))


def _odds(events: Events) -> LogOdds:
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 (slow to import)

    p = np.clip(events.probability, _LEAST, 1.0 - _LEAST)
    odds = np.where(events.correct, 1.0, -1.0) * (np.log(p) - np.log1p(-p))

    def loss(log_t: float) -> float:
        return float(np.logaddexp(0.0, -odds * math.exp(-log_t)).sum())

    found = minimize_scalar(loss, bounds=(-_WIDEST, _WIDEST), method="bounded")
    return LogOdds(math.exp(float(found.x)))


def fit_temperature(lattices: Sequence[Lattice], gold: Sequence[Any], *, threads: int = 1) -> float:
    """Return the temperature, the divisor of scores; above 1, the model is overconfident.

    It maximises the likelihood of the gold labels, which is concave in its inverse. Use it as
    ``lattice.weighted(1 / temperature)``, as the temperature of a `fstcrf.TokenDecoder` whose own
    was 1, or as the ``weights`` of a composition, 1 / temperature. Best labels stay.

    Parameters
    ----------
    lattices : sequence of B Lattice
    gold : sequence of B label sequences
        For several tapes, a tuple of label sequences for each lattice.
    threads : int

    Returns
    -------
    float
        1/100 to 100.

    Raises
    ------
    ShapeError
        Another number of sentences, or of labels than tokens.
    LabelError
        A label that a lattice does not have.
    DataError
        Gold labels that a lattice forbids.
    OptionError
        No token at all.
    """
    gold = list(items_of(gold, "the gold labels are", "those of each sentence"))
    if len(gold) != len(lattices):
        raise ShapeError(f"{len(gold)} gold sentences for {len(lattices)} lattices")
    if not sum(map(len, lattices)):
        raise OptionError("no token to fit a temperature on")
    one, two = (_gold_scores(lattices, gold, factor, threads) for factor in (1.0, 2.0))
    scaled = math.fsum((two - one).tolist())  # the part of the scores that the factor multiplies
    fixed = math.fsum(one.tolist()) - scaled  # the grammar's

    def loss(log_t: float) -> float:
        factor = math.exp(-log_t)
        log_z = log_partition([x.weighted(factor) for x in lattices], threads=threads)
        return math.fsum(log_z.tolist()) - factor * scaled - fixed

    from scipy.optimize import minimize_scalar  # noqa: PLC0415 (slow to import)

    found = minimize_scalar(loss, bounds=(-_WIDEST, _WIDEST), method="bounded")
    return math.exp(float(found.x))


def _gold_scores(
    lattices: Sequence[Lattice], gold: Sequence[Any], factor: float, threads: int
) -> Floats:
    """Return the score of each gold labelling under potentials times a factor."""
    mine = [lattice.weighted(factor) for lattice in lattices]
    only: list[Lattice] = []
    for lattice, labels in zip(mine, gold, strict=True):
        try:
            only.append(
                lattice._with_row(lattice.row.clamped(labels_by_tape(labels, lattice.tapes)))
            )
        except (LabelError, ShapeError) as error:
            raise type(error)(f"sentence {len(only)}: {error}") from None
    scores = log_partition(only, threads=threads)
    for number in np.flatnonzero(np.isneginf(scores)).tolist()[:1]:
        row, token, what = mine[number].row, None, "the lattice forbids the gold labels"
        if (chain := row.as_chain) is not None:
            why = chain.illegal(chain.masks(labels_by_tape(gold[number], chain.tapes)), number)
            token, what = why.position, why.reason
        raise DataError(
            f"{what}; if they are in another tagging scheme, convert them; otherwise leave the "
            "sentence out",
            sentence=number,
            token=token,
        )
    return scores
