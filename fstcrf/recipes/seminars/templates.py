"""The feature templates of the three taggers.

========  ======================================================================
TAGS      parts of speech
NAMES     entities
Features  of the field tagger, alone or with the entity label, and its options
PAPER     Table 1 of the paper
MORE      lines and their heads, word parts, neighbours, what is said elsewhere
windows   templates of columns from four tokens before to four after
LABELS    weights of each label and each pair
PAGE      of lines and their heads, rooms, runs of capitals, what is said elsewhere
WORDS     of parts of words, neighbours, wider windows
FURTHER   both: what MORE adds to the paper's windows
========  ======================================================================
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from fstcrf.corpus import Corpus, convert_column

__all__ = [
    "FURTHER", "LABELS", "MORE", "NAMES", "PAGE", "PAPER", "TAGS", "WORDS", "Features", "windows",
]  # fmt: skip


def _prefixed(text: str) -> str:
    """Prefix names by U: a bare letter U or B starts a template of CRF++."""
    return "".join(f"U{line}\n" if line != "B" else "B\n" for line in text.splitlines())


TAGS = _prefixed("""\
W:%x[-2..2,lower(word)]
X:%x[0,word]
Q:%x[-1..0,lower(word)]/%x[0..1,lower(word)]
P:%x[0,prefix(lower(word),1)]
R:%x[0,prefix(lower(word),2)]
S:%x[0,prefix(lower(word),3)]
A:%x[0,suffix(lower(word),1)]
D:%x[0,suffix(lower(word),2)]
C:%x[0,suffix(lower(word),3)]
F:%x[0,suffix(lower(word),4)]
H:%x[-1..1,short_shape(word)]
B
""")

NAMES = _prefixed("""\
W:%x[-2..2,word]
L:%x[-1..1,lower(word)]
Q:%x[-1..0,word]/%x[0..1,word]
P:%x[0,prefix(word,2)]
R:%x[0,prefix(word,3)]
S:%x[0,prefix(word,4)]
A:%x[0,suffix(word,2)]
D:%x[0,suffix(word,3)]
C:%x[0,suffix(word,4)]
H:%x[-2..2,shape(word)]
K:%x[-2..2,short_shape(word)]
J:%x[-1..0,short_shape(word)]/%x[0..1,short_shape(word)]
T:%x[-2..2,tag]
V:%x[-1..0,tag]/%x[0..1,tag]
M:%x[-2..2,pattern]
N:%x[-2..2,list]
I:%x[-1..1,time]
B
""")


@dataclass(frozen=True, slots=True)
class Features:
    """Features of the field tagger.

    Parameters
    ----------
    name : str
    alone, transfer : str
        Templates without and with the entity label.
    options : dict
        Of training.
    prefix : str
        What the names of its systems begin with.
    """

    name: str
    alone: str
    transfer: str
    options: dict[str, Any] = field(hash=False)
    prefix: str = ""

    def named(self, system: str) -> str:
        """Return the name of a system with these features."""
        return f"{self.prefix}{system}"

    def prepared(self, corpus: Corpus) -> Corpus:
        """Return messages with labels in the scheme of the options; they come in IOB2."""
        scheme = self.options["scheme"]
        return corpus if scheme == "iob2" else convert_column(corpus, "field", "iob2", scheme)


_WINDOWS = {"W": "word", "P": "pattern", "L": "list", "T": "time", "G": "tag"}


LABELS = "U\nB\n"


def windows(columns: Collection[str]) -> str:
    """Return templates of columns of the paper's Table 1: each token from -4 to 4."""
    return _prefixed("".join(f"{n}:%x[-4..4,{c}]\n" for n, c in _WINDOWS.items() if c in columns))


_TABLE1 = windows(_WINDOWS.values())
_PAIRS = "".join(f"E{n}:%y[0,ner]/%x[-4..4,{c}]\n" for n, c in _WINDOWS.items()) + "E:%y[0,ner]\n"

PAPER = Features(
    "features of the paper",
    f"{_TABLE1}{LABELS}",
    f"{_TABLE1}{_prefixed(_PAIRS)}{LABELS}",
    {"scheme": "iob2", "l2": 1.0, "max_iterations": 100},  # l2 = 1 / 2σ², for its σ² = 0.5
)

PAGE = _prefixed("""\
H:%x[-1..1,head]
HP:%x[0,head]/%x[0,place]
HW:%x[0,head]/%x[0,lower(word)]
HC:%x[0,head]/%x[0,pattern]
N:%x[-1..1,line]
O:%x[-2..2,place]
ON:%x[0,place]/%x[0,line]
NV:%x[0,line]/%x[0,run]
R:%x[-2..2,room]
RR:%x[-1..0,room]/%x[0..1,room]
V:%x[-2..2,run]
VV:%x[-1..0,run]/%x[0..1,run]
VB:%x[0,run]/%x[-1,lower(word)]
VA:%x[0,run]/%x[1,lower(word)]
K:%x[-1..1,also]
KV:%x[0,also]/%x[0,run]
""")
WORDS = _prefixed("""\
A:%x[-4..4,lower(word)]
B2:%x[-3..2,lower(word)]/%x[-2..3,lower(word)]
B3:%x[-2..0,lower(word)]/%x[-1..1,lower(word)]/%x[0..2,lower(word)]
S2:%x[0,suffix(lower(word),2)]
S3:%x[0,suffix(lower(word),3)]
P3:%x[0,prefix(lower(word),3)]
P4:%x[0,prefix(lower(word),4)]
D:%x[-2..2,shape(word)]
DD:%x[-2..1,short_shape(word)]/%x[-1..2,short_shape(word)]
DW:%x[-1..1,short_shape(word)]/%x[-1,lower(word)]
M:%x{-9..-1,lower(word)}
Q:%x{1..9,lower(word)}
""")
FURTHER = PAGE + WORDS

_MORE_PAIRS = """\
E:%y[0,ner]
EW:%y[0,ner]/%x[0,lower(word)]
EP:%y[0,ner]/%x[0,pattern]
EL:%y[0,ner]/%x[-1..1,list]
EG:%y[0,ner]/%x[0,tag]
EH:%y[0,ner]/%x[0,head]
EV:%y[0,ner]/%x[0,run]
EK:%y[0,ner]/%x[0,also]
ER:%y[0,ner]/%x[0,room]
"""

MORE = Features(
    "more features",
    f"{_TABLE1}{FURTHER}{LABELS}",
    f"{_TABLE1}{FURTHER}{_prefixed(_MORE_PAIRS)}{LABELS}",
    {"scheme": "bioes", "l2": 1.0, "max_iterations": 60},
    prefix="more features, ",
)
