"""The feature templates of the three taggers.

=======  ===================================================================
TAGS     parts of speech
NAMES    entities
FIELDS   Table 1 of the paper, alone or with the entity label
=======  ===================================================================
"""

from __future__ import annotations

__all__ = ["ALONE", "NAMES", "TAGS", "TRANSFER"]

TAGS = """\
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
"""

NAMES = """\
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
"""

_WINDOWS = {"W": "word", "P": "pattern", "L": "list", "T": "time", "G": "tag"}
_INPUT = [f"{name}:%x[-4..4,{column}]" for name, column in _WINDOWS.items()]
_PAIRS = [f"E{name}:%y[0,ner]/%x[-4..4,{column}]" for name, column in _WINDOWS.items()]

# A bare letter U or B starts a template of CRF++; the names above follow it.
ALONE = "\n".join([*(f"U{line}" for line in _INPUT), "U", "B", ""])
TRANSFER = "\n".join([*(f"U{line}" for line in (*_INPUT, *_PAIRS, "E:%y[0,ner]")), "U", "B", ""])


def _prefixed(text: str) -> str:
    lines = text.splitlines()
    return "\n".join([*(f"U{line}" for line in lines if line != "B"), "B", ""])


TAGS, NAMES = _prefixed(TAGS), _prefixed(NAMES)
