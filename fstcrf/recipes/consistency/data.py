"""CoNLL-2003 with its documents, and the features of the paper's table 2.

=========  ===================================================
Data       the three files, labels in BIOES
read       read them
TEMPLATE   the paper's features
MORE       further ones, of the same columns
=========  ===================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from fstcrf.corpus import Corpus, convert_column, read_columns
from fstcrf.recipes.recipe import Setting

__all__ = ["FILES", "MORE", "SCHEME", "TARGET", "TEMPLATE", "Data", "read"]

FILES = ("conll2003/eng.train", "conll2003/eng.testa", "conll2003/eng.testb")
TARGET, SCHEME = "ner", "bioes"

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

MORE = """\
UA0:%x[-1..1,lower(word)]
UA1:%x[0,ngrams(lower(word),1,6)]
UA2:%x{-4..-1,lower(word)}
UA3:%x{1..4,lower(word)}
UB0:%x[-1..0,lower(word)]/%x[0..1,lower(word)]
UB1:%x[-1,lower(word)]/%x[1,lower(word)]
UB2:%x[-2,word]
UB3:%x[2,word]
UB4:%x[-1..1,pos]/%x[0,short_shape(word)]
UB5:%x[0,word]/%x[0,pos]
UB6:%x[-1,word]/%x[0,short_shape(word)]
UB7:%x[1,word]/%x[0,short_shape(word)]
UC0:%x[-1..1,suffix(word,3)]
UC1:%x[-1..1,prefix(word,3)]
UC2:%x[-1..1,suffix(word,2)]
UD0:%x[-2..2,shape(word)]
UD1:%x[-1..0,shape(word)]/%x[0..1,shape(word)]
UD2:%x[-2..0,short_shape(word)]/%x[-1..1,short_shape(word)]/%x[0..2,short_shape(word)]
"""


@dataclass(frozen=True, slots=True)
class Data:
    """The three files, with columns ``word``, ``pos``, ``chunk`` and ``ner``."""

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
    return Data(*(_file(str(setting.files(name)[0])) for name in FILES))


def _file(path: str) -> Corpus:
    corpus = read_columns(path, ("word", "pos", "chunk", TARGET))
    return convert_column(corpus, TARGET, "iob1", SCHEME)
