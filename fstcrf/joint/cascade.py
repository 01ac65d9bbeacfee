"""The same taggers one after the other: what a composition is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fstcrf.corpus import Column
from fstcrf.features.template import tape_column
from fstcrf.joint.relabelling import as_read
from fstcrf.joint.sentences import as_corpus
from fstcrf.model.reading import Data

if TYPE_CHECKING:
    from fstcrf.joint.composition import Composition

__all__ = ["as_corpus", "cascade"]


def cascade(composition: Composition, sentences: Data, *, threads: int = 1) -> tuple[Column, ...]:
    """Tag with one tagger after the other, each reading the labels of those before it.

    Parameters
    ----------
    composition : Composition
    sentences : Corpus or sequence of sentences
    threads : int

    Returns
    -------
    tuple of Column
        One for each tape.

    Raises
    ------
    NoPathError
        A map has no labels for those that a tagger has found.
    """
    found: dict[str, Column] = {}
    if composition.literal:  # such taggers read no tapes
        for tagger in composition.taggers:
            labels = tagger.tag_all(sentences, threads=threads)
            ids = tagger.topology.label_ids([label for one in labels for label in one])
            found[tagger.tape] = Column(np.asarray(ids, dtype=np.int32), tagger.labels)
        return tuple(found[tape] for tape in composition.tapes)
    _, corpus = as_corpus(composition, sentences)
    components = {c.tagger.tape: c for c in composition.components}
    maps = {tape_map.tape: tape_map for tape_map in composition.maps}
    for tape in composition.order:
        if tape in maps:
            found[tape] = maps[tape].decide(corpus)
        else:
            component = components[tape]
            seen = as_read(corpus, component.readings)
            found[tape] = component.tagger.tag_column(seen, threads=threads)
        corpus = corpus.with_interned(tape_column(tape), found[tape])
    return tuple(found[tape] for tape in composition.tapes)
