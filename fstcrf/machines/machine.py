"""The record that all transducers are: arrays of arcs and ends, symbols, tapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, Self, TypeVar

import numpy as np

from fstcrf.arguments import (
    check_array,
    check_named,
    check_range,
    check_scores,
    one_of,
    symbol_tuple,
)
from fstcrf.arrays import Floats, Ints
from fstcrf.errors import OptionError, ShapeError
from fstcrf.kernel.native import frozen

Semiring = Literal["log", "tropical"]


@dataclass(frozen=True, eq=False)
class Machine:
    """States and weighted arcs of a transducer; a path begins in state 0.

    `Transducer` documents the fields, and adds operators and constructors. The functions of
    `fstcrf.machines.algebra`, `fstcrf.machines.languages` and `fstcrf.machines.openfst` take any
    machine, and return one of the same class.

    Parameters
    ----------
    source, input, output, target, score, final, input_symbols, output_symbols
        As for `Transducer`.
    semiring, tape, reads, named
        As for `Transducer`.

    Raises
    ------
    ShapeError, LabelError, NumericError, OptionError
        As for `Transducer`.
    """

    source: Ints
    input: Ints
    output: Ints
    target: Ints
    score: Floats
    final: Floats
    input_symbols: tuple[str, ...]
    output_symbols: tuple[str, ...]
    semiring: Semiring = "log"
    tape: str | None = "output"
    reads: str | None = None
    named: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("semiring", self.semiring, Semiring)
        for name in ("input_symbols", "output_symbols"):
            object.__setattr__(self, name, symbol_tuple(name, getattr(self, name)))
        for name in ("tape", "reads"):
            if not isinstance(getattr(self, name), str | None):
                raise OptionError(f"{name} is {getattr(self, name)!r}, expected a string or None")
        if not np.size(self.final):
            raise ShapeError("transducer: final is empty, expected the score of each state")
        for name in ("source", "input", "output", "target", "score"):
            dtype = np.float64 if name == "score" else np.int32
            check_array("transducer", name, getattr(self, name), dtype, np.size(self.source))
        check_array("transducer", "final", self.final, np.float64, np.size(self.final))
        for name, limit, least in (
            ("source", len(self.final), 0),
            ("target", len(self.final), 0),
            ("input", len(self.input_symbols), -1),
            ("output", len(self.output_symbols), -1),
        ):
            check_range("transducer", name, getattr(self, name), limit, least)
        for name in ("score", "final"):
            check_scores("transducer", name, getattr(self, name))
        check_named("transducer", self.named, len(self.source) + len(self.final))
        self._freeze()
        if self.tape is None and not self.is_acceptor:
            raise OptionError("the transducer is not an acceptor: name the tape that it writes")

    def _freeze(self) -> None:
        """Replace writable arrays by read-only copies."""
        output = None if self.output is self.input else frozen(self.output)
        for name in ("source", "input", "target", "score", "final"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        object.__setattr__(self, "output", self.input if output is None else output)
        named = {name: frozen(uses) for name, uses in self.named.items()}
        object.__setattr__(self, "named", MappingProxyType(named))

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """Pickles and copies are made anew: NumPy's own would be writable."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return type(self), (*(values | {"named": dict(self.named)}).values(),)

    def __repr__(self) -> str:
        reads = "the last tape" if self.reads is None else self.reads
        what = f"an acceptor of {reads}" if self.tape is None else f"{reads} → {self.tape}"
        name, states, arcs = type(self).__name__, len(self.final), len(self.source)
        return f"<{name}: {what}; {states:,} states, {arcs:,} arcs, {self.semiring}>"

    @property
    def is_acceptor(self) -> bool:
        """Every arc writes the symbol that it reads."""
        same = self.input is self.output or bool(np.array_equal(self.input, self.output))
        return same and self.input_symbols == self.output_symbols


M = TypeVar("M", bound=Machine)
