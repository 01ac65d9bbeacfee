"""Machines of OpenFst: bytes, pynini, AT&T text.

Machines here have scores, natural logs where more is better; the weights of OpenFst are costs,
−score. They are converted in this package and nowhere else. OpenFst's symbol 0 is epsilon; symbol k
of a machine is symbol k + 1 there.
"""

from fstcrf.machines.openfst.binary import (
    ArcType,
    FstType,
    from_bytes,
    from_fst,
    has_symbols,
    pynini_module,
    to_bytes,
    to_fst,
)
from fstcrf.machines.openfst.text import EPSILON, Naming, att_text, from_att, symbols

__all__ = [
    "EPSILON",
    "ArcType",
    "FstType",
    "Naming",
    "att_text",
    "from_att",
    "from_bytes",
    "from_fst",
    "has_symbols",
    "pynini_module",
    "symbols",
    "to_bytes",
    "to_fst",
]
