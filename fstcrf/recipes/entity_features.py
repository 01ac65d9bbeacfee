"""The columns and templates of the recipe ``consistency``: information from the whole document."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fstcrf.recipes.report import template
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features import TemplateSet, parse_template

# --- What the rest of a document says of a word ---------------------------------------------------
#
# Its neighbours and its case at other places, beyond the paper: its local model sees four words to
# either side. Words are compared in lower case; occurrences in lower case contribute no neighbours,
# and words without an initial letter receive none.

MOST = 5
CASE = "case"


def columns(side: str) -> list[str]:
    """Return the columns of neighbours ``before`` or ``after`` other places of the word."""
    return [f"{side}{k}" for k in range(MOST)]


def elsewhere(corpus: Corpus, column: str = "word") -> Corpus:
    """Return a corpus with columns about other occurrences of its words in the same document.

    The columns are ``before`` and ``after``, and `CASE`: lower case (l), capitalised (c) or
    capitals (U), from occurrences with informative case.
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
    for side, strings in neighbours.items():
        names = columns(side)
        for k in places:
            others = dict.fromkeys(strings[j] for j in places if j != k and strings[j])
            for name, string in zip(names, others, strict=False):
                found[name][k] = string


def _neighbours(
    words: Sequence[str], bounds: Sequence[int]
) -> tuple[dict[str, list[str]], list[bool]]:
    """Return the words before and after each token, and whether its case is informative."""
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


OCCURS, REACH, NEAR = "occurs", 150, 3


def occurrences(corpus: Corpus, column: str = "word") -> Corpus:
    """Return a corpus with the column `OCCURS`: how a capitalised word occurs nearby.

    Only for words that end a name or are a whole name: a word in lower case follows. Each pattern
    is a sign, ``+`` for later places, ``-`` for earlier places, and a letter. If the previous word
    is a part of the name: p, it precedes this occurrence, too; n, another word precedes it.
    Otherwise: l or r, a name is to the left or right of this occurrence; a, neither. ``0`` for no
    such place, ``-`` for other words. Places are `NEAR` to `REACH` tokens away in the document.
    """
    words, tags = corpus.column(column).strings(), corpus.column("pos").strings()
    named = [_capitalised(w) and t.startswith("NNP") for w, t in zip(words, tags, strict=True)]
    found = ["-"] * len(words)
    for part in corpus.document_slices():
        first, end = corpus.offsets[[part.start, part.stop]].tolist()
        places: defaultdict[str, list[int]] = defaultdict(list)
        for k in range(first, end):
            places[words[k]].append(k)
        for k in range(first + 1, end - 1):
            if (
                _capitalised(words[k])
                and _in_lower_case(words[k + 1])
                and _has_letter(words[k - 1])
            ):
                near = [j for j in places[words[k]] if NEAR <= abs(j - k) < REACH]
                patterns = {_pattern(words, named, k, j, (first, end)) for j in near}
                found[k] = "".join(sorted(patterns)) or "0"
    return corpus.with_interned(OCCURS, Column.from_strings(found))


def _pattern(
    words: Sequence[str], named: Sequence[bool], k: int, j: int, bounds: tuple[int, int]
) -> str:
    sign = "+" if j > k else "-"
    before = j > bounds[0]
    if named[k - 1]:
        return sign + ("p" if before and words[j - 1] == words[k - 1] else "n")
    if before and named[j - 1]:
        return f"{sign}l"
    return f"{sign}r" if j + 1 < bounds[1] and named[j + 1] else f"{sign}a"


def _capitalised(word: str) -> bool:
    return word[:1].isupper() and not any(c.isupper() for c in word[1:])


def _in_lower_case(word: str) -> bool:
    return _has_letter(word) and not any(c.isupper() for c in word)


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


TEMPLATE = template("consistency/template")

MORE = template("consistency/more")


_PRODUCTS = template("consistency/products")
_ON_PAIRS = template("consistency/on_pairs")
_SHAPE, _KNOWN_SHAPE = "short_shape(word)", 'known_shape(word,"lower")'


@dataclass(frozen=True, slots=True)
class LocalFeatures:
    """Features of a local model: the paper's table, and optional additions."""

    known: bool = False  # also mark words by whether the training text has them in lower case
    products: bool = False  # words with the shapes of their neighbours
    occurrences: bool = False
    across: bool = False  # windows go on across the sentences of a document
    more: bool = False
    pairs: bool = False  # also use shapes and tags on pairs of labels

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> LocalFeatures:
        return cls(**{name: bool(settings[name]) for name in cls.__slots__ if name in settings})

    def template(self, train: Corpus) -> TemplateSet:
        """Return the templates, with the lower-case words of a training text."""
        text = f"{_PRODUCTS if self.products else ''}{TEMPLATE}".replace("SHAPE", _SHAPE)
        if self.pairs:
            text += _ON_PAIRS.replace("SHAPE", _SHAPE)
        if self.known:
            text = text.replace(_SHAPE, _KNOWN_SHAPE)
        if self.occurrences:
            text = f"UO:%x[0,{OCCURS}]\n{text}"
        text = f"{MORE if self.more else ''}{text}"
        if self.across:
            text = text.replace("%x", "%d")
        return parse_template(text, lists={"lower": lower_words(train)})


def lower_words(corpus: Corpus) -> list[str]:
    return sorted(word for word in corpus.column("word").values if word.islower())
