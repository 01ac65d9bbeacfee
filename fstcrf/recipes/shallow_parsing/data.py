"""CoNLL-2000 with the noun phrases of its chunks, and the features of the paper's table 1.

========  ==================================================
Data      the whole training file, a part held out, the test
read      both files
TEMPLATE  19 predicates, a constant one, the ends of sentences, label transitions
========  ==================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from fstcrf.corpus import Corpus
from fstcrf.recipes.noun_phrases import TARGET, noun_phrases
from fstcrf.recipes.recipe import Setting

__all__ = ["TARGET", "TEMPLATE", "Data", "read"]

DEV_SENTENCES = 1000

TEMPLATE = """\
BOS
EOS
U0:%x[-2..2,word]
U1:%x[-1..0,word]/%x[0..1,word]
U2:%x[-2..2,pos]
U3:%x[-2..1,pos]/%x[-1..2,pos]
U4:%x[-2..0,pos]/%x[-1..1,pos]/%x[0..2,pos]
U5
B
"""


@dataclass(frozen=True, slots=True)
class Data:
    """The parts, with columns ``word``, ``pos`` and ``np``.

    Parameters
    ----------
    whole : Corpus
        The training file.
    part, dev : Corpus
        All of it but the last 1,000 sentences, and those: the paper's held-out text, section 21
        with another tagger's POS tags, is not part of CoNLL-2000.
    test : Corpus
    """

    whole: Corpus
    part: Corpus
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
    return Data(whole, whole[:-DEV_SENTENCES], whole[-DEV_SENTENCES:], test)
