"""What is measured on: column files, templates, and the options that both sides share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

L2 = 0.5

Attributes = Literal["tutorial", "words", "crf++"]

TUTORIAL = """\
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]/%x[1,0]
U10:%x[-2,1]
U11:%x[-1,1]
U12:%x[0,1]
U13:%x[1,1]
U14:%x[2,1]
U15:%x[-2,1]/%x[-1,1]
U16:%x[-1,1]/%x[0,1]
U17:%x[0,1]/%x[1,1]
U18:%x[1,1]/%x[2,1]
U20:%x[-2,1]/%x[-1,1]/%x[0,1]
U21:%x[-1,1]/%x[0,1]/%x[1,1]
U22:%x[0,1]/%x[1,1]/%x[2,1]
BOS
EOS
B
"""

WORDS = """\
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
U11:%x[0,prefix(0,1)]
U12:%x[0,prefix(0,2)]
U13:%x[0,prefix(0,3)]
U14:%x[0,prefix(0,4)]
U21:%x[0,suffix(0,1)]
U22:%x[0,suffix(0,2)]
U23:%x[0,suffix(0,3)]
U24:%x[0,suffix(0,4)]
U31:%x[0,shape(0)]
U32:%x[0,short_shape(0)]
BOS
EOS
B
"""

CRFPP = TUTORIAL.replace("BOS\nEOS\n", "")  # which it cannot read

TEMPLATES: dict[Attributes, str] = {"tutorial": TUTORIAL, "words": WORDS, "crf++": CRFPP}


@dataclass(frozen=True, slots=True)
class Task:
    """What a tagger is trained on.

    Parameters
    ----------
    path : str
        A column file.
    columns : tuple of str
        Names of its columns; the words first, for "tutorial" the POS tags second.
    target : str
    attributes : {"tutorial", "words", "crf++"}
    separator : str, optional
        Between columns; any run of spaces and tabs when absent.
    """

    path: str
    columns: tuple[str, ...]
    target: str
    attributes: Attributes
    separator: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return the fields, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, fields: dict[str, Any]) -> Task:
        """Read what `plain` gave, after JSON."""
        return cls(**{**fields, "columns": tuple(fields["columns"])})
