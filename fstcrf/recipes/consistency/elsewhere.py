"""What the rest of a document says of a word: its neighbours and its case at other places.

=========  ==============================================
MOST       neighbours on a side
columns    names of the columns
elsewhere  a corpus with these columns
=========  ==============================================

Beyond the paper: its local model sees four words to either side. Words are compared in lower case;
places in lower case lend no neighbours, and words that begin with no letter get none.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from fstcrf.corpus import Column, Corpus

__all__ = ["CASE", "MOST", "columns", "elsewhere"]

MOST = 5
CASE = "case"


def columns(side: str) -> list[str]:
    """Return the columns of neighbours ``before`` or ``after`` other places of the word."""
    return [f"{side}{k}" for k in range(MOST)]


def elsewhere(corpus: Corpus, column: str = "word") -> Corpus:
    """Return a corpus with columns of what its documents say of words elsewhere.

    Parameters
    ----------
    corpus : Corpus
        With its documents.
    column : str
        The words.

    Returns
    -------
    Corpus
        Also with `columns` of ``before`` and ``after``, empty where there are no more, and `CASE`:
        which of lower case (l), capitalised (c) and capitals (U) the word has in the document, at
        places where it is not the sentence that decides.
    """
    words = corpus.column(column).strings()
    found = {name: [""] * len(words) for side in ("before", "after") for name in columns(side)}
    found[CASE] = ["-"] * len(words)
    neighbours, telling = _neighbours(words, corpus.offsets.tolist())
    for places in _places(corpus, words):
        kinds = {_case(words[k]) for k in places if telling[k] or words[k].islower()}
        for k in places:
            found[CASE][k] = "".join(sorted(kinds)) or "-"
        named = [k for k in places if not words[k].islower()]
        if len(places) > 1:
            _lend(named, neighbours, found)
    for name, strings in found.items():
        corpus = corpus.with_interned(name, Column.from_strings(strings))
    return corpus


def _lend(
    places: Sequence[int], neighbours: dict[str, list[str]], found: dict[str, list[str]]
) -> None:
    """Give each place the neighbours of the others, those met first."""
    for side, strings in neighbours.items():
        names = columns(side)
        for k in places:
            others = dict.fromkeys(strings[j] for j in places if j != k and strings[j])
            for name, string in zip(names, others, strict=False):
                found[name][k] = string


def _neighbours(
    words: Sequence[str], bounds: Sequence[int]
) -> tuple[dict[str, list[str]], list[bool]]:
    """Return the words before and after each token, and whether its case tells something.

    The case of a first word, or of one in a sentence of capitals, tells nothing.
    """
    before, after = [""] * len(words), [""] * len(words)
    telling = [False] * len(words)
    for first, end in itertools.pairwise(bounds):
        mixed = any(c.islower() for word in words[first:end] for c in word)
        for k in range(first, end):
            before[k] = words[k - 1] if k > first else ""
            after[k] = words[k + 1] if k + 1 < end else ""
            telling[k] = mixed and k > first
    return {"before": before, "after": after}, telling


def _places(corpus: Corpus, words: Sequence[str]) -> list[list[int]]:
    """Return the places of each word that begins with a letter, in each document."""
    found: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    document = np.repeat(corpus.documents, np.diff(corpus.offsets)).tolist()
    for k, word in enumerate(words):
        if word[:1].isalpha():
            found[document[k], word.lower()].append(k)
    return list(found.values())


def _case(word: str) -> str:
    if word.islower():
        return "l"
    return "U" if word.isupper() and len(word) > 1 else "c"
