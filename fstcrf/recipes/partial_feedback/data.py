"""CoNLL-2000 with the noun phrases of its chunks, split as in the paper."""

from __future__ import annotations

from dataclasses import dataclass

from fstcrf.corpus import Corpus
from fstcrf.recipes.noun_phrases import LABELS, TARGET, noun_phrases
from fstcrf.recipes.recipe import Setting

__all__ = ["LABELS", "TARGET", "TEMPLATE", "Data", "read"]

DEV_SENTENCES = 1000

_WORDS = ["-2", "-1", "0", "1", "2", "-1 0", "0 1"]
_TAGS = ["-2", "-1", "0", "1", "2", "-2 -1", "-1 0", "0 1", "1 2", "-2 -1 0", "-1 0 1", "0 1 2"]


def _template() -> str:
    """Return the 19 predicates of Sha and Pereira (2003), table 1."""
    lines = []
    for column, windows in (("word", _WORDS), ("pos", _TAGS)):
        for number, window in enumerate(windows):
            places = "/".join(f"%x[{offset},{column}]" for offset in window.split())
            lines.append(f"U{column}{number:02}:{places}")
    return "\n".join([*lines, "B"])


TEMPLATE = _template()


@dataclass(frozen=True, slots=True)
class Data:
    """The three parts.

    Parameters
    ----------
    train, dev, test : Corpus
        Columns ``word``, ``pos`` and ``np``. Dev is the first 1,000 sentences of the training file,
        train the others.
    """

    train: Corpus
    dev: Corpus
    test: Corpus


def read(setting: Setting) -> Data:
    """Read both files.

    Raises
    ------
    DataError
        A file is missing or is not what it should be.
    """
    whole, test = noun_phrases(setting)
    return Data(whole[DEV_SENTENCES:], whole[:DEV_SENTENCES], test)
