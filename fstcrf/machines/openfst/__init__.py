"""Machines of OpenFst as flat arrays: bytes, pynini, AT&T text, drawings.

`FstArrays` have scores, natural logs where more is better; the weights of OpenFst are costs,
−score. They are converted in this package and nowhere else. Symbol 0 is epsilon; label k is symbol
k + 1.
"""

from fstcrf.machines.openfst.binary import (
    ArcType,
    FstType,
    from_bytes,
    from_fst,
    pynini_module,
    to_bytes,
    to_fst,
)
from fstcrf.machines.openfst.machine import (
    EPSILON,
    FstArrays,
    by_graphviz,
    connect,
    dot_text,
    quoted,
    sausage_machine,
    svg,
    symbols,
    without_gaps,
)
from fstcrf.machines.openfst.text import att_text, from_att, from_names

__all__ = [
    "EPSILON",
    "ArcType",
    "FstArrays",
    "FstType",
    "att_text",
    "by_graphviz",
    "connect",
    "dot_text",
    "from_att",
    "from_bytes",
    "from_fst",
    "from_names",
    "pynini_module",
    "quoted",
    "sausage_machine",
    "svg",
    "symbols",
    "to_bytes",
    "to_fst",
    "without_gaps",
]
