"""CoNLL-2003 with its documents, and the features of the paper's table 2.

=========  ===================================================
Data       the three files, labels in BIOES
read       read them
TEMPLATE   the paper's features
AFFIXES    further ones: lower case, affixes, pairs, words and shapes two tokens away
ELSEWHERE  of the word's other places in the document
MORE       both
=========  ===================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fstcrf.corpus import Corpus
from fstcrf.recipes.consistency.elsewhere import CASE, columns, elsewhere
from fstcrf.recipes.entities import TARGET, entities
from fstcrf.recipes.recipe import Setting

__all__ = ["AFFIXES", "ELSEWHERE", "MORE", "SCHEME", "TARGET", "TEMPLATE", "Data", "read"]

SCHEME: Literal["bioes"] = "bioes"

TEMPLATE = """\
U0:%x[-1..1,word]
U1:%x[0,ngrams(word,1,30)]
U2:%x[-1..1,pos]
U3:%x[-1..0,pos]/%x[0..1,pos]
U4:%x[-1,pos]/%x[0,pos]/%x[1,pos]
U5:%x[0,shape(word)]
U6:%x[-1..1,short_shape(word)]
U7:%x[-1..0,short_shape(word)]/%x[0..1,short_shape(word)]
U8:%x[-1,short_shape(word)]/%x[0,short_shape(word)]/%x[1,short_shape(word)]
U9:%x{-4..-1,word}
U10:%x{1..4,word}
B
"""

_NEAR = "".join(
    f"U{letter}:%x[0,{name}]\n"
    for letter, side in (("C0", "before"), ("C1", "after"))
    for name in columns(side)
)

AFFIXES = """\
UA0:%x[-1..1,lower(word)]
UA1:%x[0,ngrams(lower(word),1,30)]
UA2:%x{-4..-1,lower(word)}
UA3:%x{1..4,lower(word)}
UA4:%x[-1..0,lower(word)]/%x[0..1,lower(word)]
UA5:%x[-1,lower(word)]/%x[1,lower(word)]
UA6:%x[-2,word]
UA7:%x[2,word]
UB0:%x[-1..1,pos]/%x[0,short_shape(word)]
UB1:%x[0,word]/%x[0,pos]
UB2:%x[-1,word]/%x[0,short_shape(word)]
UB3:%x[1,word]/%x[0,short_shape(word)]
UB4:%x[-1..1,suffix(word,3)]
UB5:%x[-1..1,prefix(word,3)]
UB6:%x[-1..1,suffix(word,2)]
UB7:%x[-2..2,shape(word)]
UB8:%x[-1..0,shape(word)]/%x[0..1,shape(word)]
UB9:%x[-2..0,short_shape(word)]/%x[-1..1,short_shape(word)]/%x[0..2,short_shape(word)]
"""

ELSEWHERE = f"""\
{_NEAR}\
UC2:%x[-1..1,{CASE}]
UC3:%x[-1..1,{CASE}]/%x[-1..1,short_shape(word)]
UC4:%x[-1..0,{CASE}]/%x[-1..0,short_shape(word)]/%x[0..1,{CASE}]/%x[0..1,short_shape(word)]
"""

MORE = AFFIXES + ELSEWHERE


@dataclass(frozen=True, slots=True)
class Data:
    """The three files, with columns ``word``, ``pos``, ``chunk``, ``ner``, and `elsewhere`."""

    train: Corpus
    dev: Corpus
    test: Corpus


def read(setting: Setting) -> Data:
    """Read the files; the chunk column is not used.

    Raises
    ------
    DataError
        A file is missing or is not what it should be.
    """
    parts = ("train", "testa", "testb")
    return Data(*(elsewhere(entities(setting, part, SCHEME)) for part in parts))
