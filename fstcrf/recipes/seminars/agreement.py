"""Fields that agree throughout a message: one of the best joint decisions, by how far it agrees.

==========  =====================================================================
Ranked      a message's best labellings of the fields, with their scores
ranked      the best labellings of each message, the entities being decided
agreeing    of each message's the one that is best with the penalties added
==========  =====================================================================

That a name which is a speaker's in one place is so in all others is no regular language: no grammar
can say it, but a list of the n best can be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from fstcrf.corpus import Corpus
from fstcrf.documents import Fields
from fstcrf.documents.document import Document, documents
from fstcrf.lattice import Lattice, nbest
from fstcrf.pipelines import TrainedPipeline

__all__ = ["Ranked", "agreeing", "ranked"]

Ranked: TypeAlias = Sequence[tuple[float, tuple[str, ...]]]

SIZE = 50


def ranked(pipeline: TrainedPipeline, corpus: Corpus) -> list[Ranked]:
    """Return the best joint decisions about the fields of each message, best first.

    The entities are those of the best decision: without that, most of a list differs in entities
    alone.

    Parameters
    ----------
    pipeline : TrainedPipeline
        Of two tasks, the second of them the fields.
    corpus : Corpus

    Raises
    ------
    NoPathError
        No decision about a message is legal.
    """
    decided = pipeline.tag_all(corpus, decode="joint")
    lattices = pipeline.composition.lattices(corpus)
    pairs = zip(lattices, decided, strict=True)
    few = nbest([_decided(lattice, entities) for lattice, (entities, _) in pairs], SIZE)
    return [[(path.score, path.labels[-1]) for path in paths] for paths in few]


def _decided(lattice: Lattice, entities: Sequence[str]) -> Lattice:
    """Return the paths that have these entities."""
    names, fields = lattice.labels
    masks = (
        np.asarray(entities)[:, None] == np.asarray(names),
        np.ones((len(lattice), len(fields)), dtype=bool),
    )
    return lattice.restrict(masks)


def agreeing(lists: Sequence[Ranked], corpus: Corpus, penalty: float) -> list[list[str]]:
    """Return the labels of each message that score best with the penalties added.

    Parameters
    ----------
    lists : sequence of Ranked
    corpus : Corpus
        Each message is a document.
    penalty : float
        Of each token of two times that differ, and of each place where a speaker's last name is
        not the speaker's, natural log.
    """
    model = Fields.seminars(penalty)
    return [
        list(_best(few, model, message))
        for few, message in zip(lists, documents(corpus), strict=True)
    ]


def _best(few: Ranked, model: Fields, message: Document) -> tuple[str, ...]:
    return max(few, key=lambda one: one[0] + model.score(message, one[1]))[1]
