"""CoNLL-2000 with the noun phrases of its chunks as labels.

============  ====================================
noun_phrases  the training file and the test file
TARGET        the column of the labels
LABELS        the labels, in IOB2
============  ====================================
"""

from __future__ import annotations

from fstcrf.corpus import Corpus, read_columns
from fstcrf.recipes.recipe import Setting

__all__ = ["LABELS", "TARGET", "noun_phrases"]

LABELS = ("O", "B-NP", "I-NP")
TARGET = "np"

_FILES = ("conll2000/train.txt", "conll2000/test.txt")


def noun_phrases(setting: Setting) -> tuple[Corpus, Corpus]:
    """Return the training file and the test file, with columns ``word``, ``pos`` and ``np``.

    Raises
    ------
    DataError
        A file is missing or is not what it should be.
    """
    train, test = (_read(str(setting.files(name)[0])) for name in _FILES)
    return train, test


def _read(path: str) -> Corpus:
    corpus = read_columns(path, ("word", "pos", "chunk"))
    chunks = corpus.column_lists("chunk")
    labels = [[c if c.endswith("-NP") else "O" for c in sentence] for sentence in chunks]
    return corpus.with_column(TARGET, labels)
