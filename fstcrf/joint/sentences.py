"""Sentences as users hand them over, read once for all taggers of a composition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.corpus import Column, Corpus, Sentence
from fstcrf.errors import DataError
from fstcrf.features import FeatureIndex
from fstcrf.model import CRF
from fstcrf.model.reading import Data, as_sentences

if TYPE_CHECKING:
    from fstcrf.joint.composition import Composition

__all__ = ["as_corpus"]


def as_corpus(composition: Composition, sentences: Data) -> tuple[list[int], Corpus]:
    """Return the lengths of sentences, and a corpus of those that are not empty.

    Parameters
    ----------
    composition : Composition
        Rows of strings have the columns that its taggers were trained on.
    sentences : Corpus or sequence of sentences

    Raises
    ------
    DataError
        Sentences that are none; rows where the taggers were trained on different columns.
    """
    if isinstance(sentences, Corpus):
        sizes = np.diff(sentences.offsets)
        full = sentences if sizes.all() else sentences.select(np.flatnonzero(sizes))
        return sizes.tolist(), full
    taggers = composition.taggers
    columns = max((tagger.columns for tagger in taggers), key=len)
    if any(tagger.columns != columns[: len(tagger.columns)] for tagger in taggers):
        _refuse_rows(taggers, sentences)
    parsed = as_sentences(sentences, columns)
    words = [s for s in parsed if len(s)]
    if not words:
        return [0] * len(parsed), _no_tokens(taggers)
    # What is missing somewhere is missing: the tagger that needs it will say so.
    names = [n for n in words[0].columns if all(n in s for s in words)]
    return [len(s) for s in parsed], Corpus.from_sentences(words, names)


def _no_tokens(taggers: Sequence[CRF]) -> Corpus:
    """Return a corpus without sentences, with all columns that taggers may ask for."""
    names = {tape.name for tagger in taggers for tape in tagger.reads}
    for tagger in taggers:
        if isinstance(tagger.index, FeatureIndex):
            names.update(tagger.index.columns)
    nothing = Column.from_strings(())
    return Corpus(dict.fromkeys(sorted(names), nothing), np.zeros(1, dtype=np.int64))


def _refuse_rows(taggers: Sequence[CRF], sentences: Data) -> None:
    for number, sentence in enumerate(sentences):
        if len(sentence) and not isinstance(sentence, Sentence | Mapping):
            sets = "; ".join(f"{t.tape}: {', '.join(t.columns)}" for t in taggers)
            raise DataError(
                f"rows of strings, but the taggers were trained on different columns ({sets}); "
                "give mappings of column to list",
                sentence=number,
            )
