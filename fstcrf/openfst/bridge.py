"""pynini's machines: there and back, through OpenFst's bytes rather than arc by arc."""

from __future__ import annotations

from typing import Any

from fstcrf.errors import DataError, OptionError
from fstcrf.lazy import optional
from fstcrf.openfst.binary import ArcType, from_bytes, to_bytes
from fstcrf.openfst.machine import Machine, connect

__all__ = ["from_fst", "pynini_module", "to_fst"]


def pynini_module() -> Any:
    """Import pynini.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    return optional(  # 700 MB that few need
        "pynini",
        "pynini is needed for this and not installed: `pip install pynini` has wheels for "
        "Linux on x86-64 only; elsewhere: `conda install -c conda-forge pynini`",
    )


def to_fst(machine: Machine, arc_type: ArcType = "log64") -> Any:
    """Return a machine as a ``pynini.Fst``, with its symbol tables.

    Parameters
    ----------
    machine : Machine
    arc_type : {"standard", "log", "log64"}
        ``"standard"`` (tropical) for best paths, ``"log64"`` for sums; weights are −score, in
        float32 but for log64.

    Raises
    ------
    MissingDependencyError
        pynini is not installed.
    OptionError, NumericError
        As `to_bytes`.
    """
    if machine.start < 0:  # OpenFst may crash on states without a start
        machine = connect(machine)
    # Of const bytes pynini makes a vector machine sooner than of vector bytes.
    return pynini_module().Fst.read_from_string(to_bytes(machine, arc_type, fst_type="const"))


def from_fst(fst: Any) -> Machine:
    """Read a ``pynini.Fst`` (or pywrapfst's), whatever its arcs, with its symbol tables.

    Raises
    ------
    MissingDependencyError
        pynini is not installed.
    OptionError
        It is no such machine.
    DataError
        It is in a state of error, or has weights that are no costs.
    """
    pynini_module()
    import pywrapfst  # noqa: PLC0415 (comes with pynini)

    if not isinstance(fst, pywrapfst.Fst):
        raise OptionError(f"expected a pynini.Fst, not {type(fst).__name__}")
    if fst.properties(pywrapfst.ERROR, test=False):
        raise DataError("the Fst is in a state of error: what made it has failed")
    return from_bytes(pywrapfst.convert(fst, "const").write_to_string())
