"""Property bits of OpenFst that can be told from the arrays in a pass or two.

OpenFst believes what a file says of its machine, so only what was computed here is said. The rest
stays unknown: OpenFst finds it out when it needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fstcrf.openfst.machine import Machine

__all__ = ["EXPANDED", "MUTABLE", "properties"]

EXPANDED = 1 << 0
MUTABLE = 1 << 1

# Each has its opposite in the next bit.
_ACCEPTOR = 1 << 16
_I_DETERMINISTIC = 1 << 18
_O_DETERMINISTIC = 1 << 20
_EPSILONS = 1 << 22
_I_EPSILONS = 1 << 24
_O_EPSILONS = 1 << 26
_I_LABEL_SORTED = 1 << 28
_O_LABEL_SORTED = 1 << 30
_WEIGHTED = 1 << 32
_TOP_SORTED = 1 << 38
_ACYCLIC = 1 << 35
_INITIAL_ACYCLIC = 1 << 37
_UNWEIGHTED_CYCLES = 1 << 47


def properties(machine: Machine) -> int:
    """Return the property bits that are known of a machine."""
    free_in, free_out = machine.ilabel == 0, machine.olabel == 0
    same_state = machine.source[1:] == machine.source[:-1]
    known = _either(_ACCEPTOR, yes=machine.is_acceptor)
    known |= _either(_EPSILONS, yes=bool((free_in & free_out).any()))
    known |= _either(_I_EPSILONS, yes=bool(free_in.any()))
    known |= _either(_O_EPSILONS, yes=bool(free_out.any()))
    known |= _sorted(machine.ilabel, same_state, _I_LABEL_SORTED, _I_DETERMINISTIC)
    known |= _sorted(machine.olabel, same_state, _O_LABEL_SORTED, _O_DETERMINISTIC)
    known |= _either(_WEIGHTED, yes=_weighted(machine))
    upwards = bool((machine.target > machine.source).all())
    known |= _either(_TOP_SORTED, yes=upwards)
    return known | (_ACYCLIC | _INITIAL_ACYCLIC | _UNWEIGHTED_CYCLES if upwards else 0)


def _either(bit: int, *, yes: bool) -> int:
    return bit if yes else bit << 1


def _sorted(
    label: NDArray[np.int32], same_state: NDArray[np.bool_], in_order: int, deterministic: int
) -> int:
    """Order and determinism of one side; of labels without order, the latter is not known."""
    before, after = label[:-1], label[1:]
    if (same_state & (after < before)).any():
        return _either(in_order, yes=False)
    repeats = bool((same_state & (after == before)).any())
    return _either(in_order, yes=True) | _either(deterministic, yes=not repeats)


def _weighted(machine: Machine) -> bool:
    """Tell whether an arc or an end costs something; what is forbidden does not count."""
    weights = (machine.score, machine.final)
    return any(bool(((x != 0.0) & (x > -np.inf)).any()) for x in weights)
