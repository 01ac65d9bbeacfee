"""The same taggers one after the other: what a composition is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fstcrf.corpus import Column, Corpus
from fstcrf.features.template import tape_column
from fstcrf.model.jackknife import ordered
from fstcrf.model.reading import Data, as_sentences

if TYPE_CHECKING:
    from fstcrf.joint.composition import Composition

__all__ = ["as_corpus", "cascade"]


def as_corpus(composition: Composition, sentences: Data) -> tuple[list[int], Corpus]:
    """Return the lengths of sentences, and a corpus of those that are not empty."""
    if isinstance(sentences, Corpus):
        sizes = np.diff(sentences.offsets)
        full = sentences if sizes.all() else sentences.select(np.flatnonzero(sizes))
        return sizes.tolist(), full
    parsed = as_sentences(sentences, composition.taggers[0].columns)
    return [len(s) for s in parsed], Corpus.from_sentences([s for s in parsed if len(s)])


def cascade(composition: Composition, sentences: Data, *, threads: int = 1) -> tuple[Column, ...]:
    """Tag with one tagger after the other, each reading the labels of those before it."""
    _, corpus = as_corpus(composition, sentences)
    found: dict[str, Column] = {}
    for tagger in ordered(composition.taggers, [t.tape for t in composition.taggers]):
        found[tagger.tape] = tagger.tag_column(corpus, threads=threads)
        corpus = corpus.with_interned(tape_column(tagger.tape), found[tagger.tape])
    return tuple(found[tagger.tape] for tagger in composition.taggers)
