"""CoNLL-2003 with its documents and named entities.

========  ==================================
entities  one of its files, in a scheme
TARGET    the column of the labels
========  ==================================
"""

from __future__ import annotations

from typing import Literal

from fstcrf.corpus import Corpus, convert_column, read_columns
from fstcrf.recipes.recipe import Setting

__all__ = ["TARGET", "entities"]

TARGET = "ner"


def entities(setting: Setting, part: str, scheme: Literal["iob2", "bioes"]) -> Corpus:
    """Return a file of CoNLL-2003, with columns ``word``, ``pos``, ``chunk`` and ``ner``.

    Parameters
    ----------
    setting : Setting
    part : str
        What comes after ``eng.`` in its name: ``train``, ``testa``, ``testb``.
    scheme : {"iob2", "bioes"}
        Of the labels; the file has IOB1.

    Raises
    ------
    DataError
        The file is missing or is not what it should be.
    """
    path = setting.files(f"conll2003/eng.{part}")[0]
    corpus = read_columns(path, ("word", "pos", "chunk", TARGET))
    return convert_column(corpus, TARGET, "iob1", scheme)
