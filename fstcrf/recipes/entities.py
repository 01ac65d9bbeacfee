"""CoNLL-2003 with its documents and named entities.

========  ==================================
entities  one of its files, in a scheme
TARGET    the column of the labels, unless another one is asked for
========  ==================================
"""

from __future__ import annotations

from typing import Literal

from fstcrf.corpus import Corpus, convert_column, read_columns
from fstcrf.recipes.recipe import Setting

__all__ = ["TARGET", "entities"]

TARGET = "ner"


def entities(
    setting: Setting, part: str, scheme: Literal["iob2", "bioes"], target: str = TARGET
) -> Corpus:
    """Return a file of CoNLL-2003, with columns ``word``, ``pos``, ``chunk`` and the labels'.

    Parameters
    ----------
    setting : Setting
    part : str
        What comes after ``eng.`` in its name: ``train``, ``testa``, ``testb``.
    scheme : {"iob2", "bioes"}
        Of the labels; the file has IOB1.
    target : str
        What their column is called; taggers are kept under that name.

    Raises
    ------
    DataError
        The file is missing or is not what it should be.
    """
    path = setting.files(f"conll2003/eng.{part}")[0]
    corpus = read_columns(path, ("word", "pos", "chunk", target))
    return convert_column(corpus, target, "iob1", scheme)
