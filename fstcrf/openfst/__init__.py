"""Machines of OpenFst as flat arrays: bytes, pynini, AT&T text, drawings.

==================================  ==========================================================
Machine                             states, arcs and scores of a transducer
connect                             without what lies on no path
EPSILON, symbols                    symbol 0, and the symbols of labels
to_bytes, from_bytes                OpenFst's binary format
to_fst, from_fst, pynini_module     pynini's machines
att_text, from_att                  the text of fstprint and fstcompile
dot_text, svg                       drawings by graphviz
sausage_machine                     a chain lattice as a machine
==================================  ==========================================================

A `Machine` has scores, natural logs where more is better; the weights of OpenFst are costs, −score.
They are converted in this package and nowhere else. Symbol 0 is epsilon; label k is symbol k + 1.
"""

from fstcrf.openfst.att import att_text, from_att
from fstcrf.openfst.binary import ArcType, FstType, from_bytes, to_bytes
from fstcrf.openfst.bridge import from_fst, pynini_module, to_fst
from fstcrf.openfst.drawing import dot_text, svg
from fstcrf.openfst.machine import EPSILON, Machine, connect, symbols
from fstcrf.openfst.sausage import sausage_machine

__all__ = [
    "EPSILON",
    "ArcType",
    "FstType",
    "Machine",
    "att_text",
    "connect",
    "dot_text",
    "from_att",
    "from_bytes",
    "from_fst",
    "pynini_module",
    "sausage_machine",
    "svg",
    "symbols",
    "to_bytes",
    "to_fst",
]
