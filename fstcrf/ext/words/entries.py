"""Entries for words that annotations have and the lattices of a lexicon do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fstcrf.ext.lexicon import Entry, Lexicon
from fstcrf.ext.words.annotation import Annotation
from fstcrf.ext.words.candidates import CandidateLabels
from fstcrf.ext.words.templates import fields_of, joined


def new_entries(
    lexicon: Lexicon, data: Sequence[Annotation], label: Sequence[int], *, least: int = 1
) -> list[Entry]:
    """Return entries for the words of annotations that their lattices do not have with that label.

    An entry has the contexts and cost of an existing dictionary word: the word that is most
    frequent in annotations among words with the same label. Its feature has the fields of the
    label; all others are ``*``.

    Parameters
    ----------
    lexicon : Lexicon
    data : sequence of Annotation
    label : sequence of int
        Fields that make a label.
    least : int
        Words that lattices lack fewer times are left out; so are words whose label no annotated
        dictionary word has.
    """
    labels = CandidateLabels(lexicon, label)
    there: dict[str, Counter[int]] = {}
    absent: Counter[tuple[str, str]] = Counter()
    for one in data:
        lattice = _words_by_place(lexicon, labels, one.text)
        for word in one.words:
            if word.label is None:
                continue
            numbers = lattice.get((word.start, word.end, word.label))
            if numbers is None:
                absent[one.text[word.start : word.end], word.label] += 1
                continue
            known = [n for n in numbers if n < lexicon.n_known]
            if known:
                cost = lexicon.entries(np.asarray(known, dtype=np.int32))["cost"]
                there.setdefault(word.label, Counter())[known[int(np.argmin(cost))]] += 1
    found = sorted((-times, surface, name) for (surface, name), times in absent.items())
    return [
        _like(lexicon, surface, there[name].most_common(1)[0][0], label)
        for times, surface, name in found
        if -times >= least and name in there
    ]


def _words_by_place(
    lexicon: Lexicon, labels: CandidateLabels, text: str
) -> dict[tuple[int, int, str], list[int]]:
    """Return the candidate words of a text by their characters and label."""
    words = lexicon.candidates(text)
    found: dict[tuple[int, int, str], list[int]] = {}
    columns = (column.tolist() for column in (words.start, words.end, words.word))
    for s, e, n in zip(*columns, strict=True):
        found.setdefault((s, e, labels[n]), []).append(n)
    return found


def _like(lexicon: Lexicon, surface: str, word: int, label: Sequence[int]) -> Entry:
    row = lexicon.entries(np.asarray([word], dtype=np.int32))[0]
    fields = fields_of(lexicon.feature(word))
    kept = [text if k in label else "*" for k, text in enumerate(fields)]
    return Entry(surface, int(row["left"]), int(row["right"]), int(row["cost"]), joined(kept))
