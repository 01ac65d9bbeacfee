"""What the kernel needs to know of a document: the shipped models as tables.

===========  ==================================================
agreement    tables of models for one document
in_kernel    whether models can be written as tables
===========  ==================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from fstcrf.documents.consistency import Consistency
from fstcrf.documents.document import Document
from fstcrf.documents.fields import LONGEST, Fields, last_word
from fstcrf.documents.sequences import repeated_sequences
from fstcrf.documents.spans import span_tables
from fstcrf.documents.violations import ViolationModel
from fstcrf.kernel.agreement import Agreement, SequenceTables, ValueTables, WordTables

__all__ = ["agreement", "in_kernel"]


def in_kernel(models: Sequence[ViolationModel]) -> bool:
    """Return whether the kernel can score models: at most one of either kind, of one tape."""
    kinds = [type(model) for model in models]
    tapes = {getattr(model, "tape", None) for model in models}
    return set(kinds) <= {Consistency, Fields} and len(set(kinds)) == len(kinds) and len(tapes) <= 1


def agreement(
    models: Sequence[ViolationModel], document: Document, labels: Sequence[str]
) -> Agreement | None:
    """Return the tables of models that the kernel can score; None without models.

    Parameters
    ----------
    models : sequence of ViolationModel
    document : Document
    labels : sequence of str
        All labels.

    Raises
    ------
    LabelError
        No label is of a type that the models know.
    """
    known = [model for model in models if isinstance(model, Consistency | Fields)]
    if not known:
        return None
    types = tuple(sorted({name for model in known for name in model.types}))
    reading = span_tables(labels, types)
    sequences, values, words = None, None, None
    for model in known:
        if isinstance(model, Consistency):
            sequences = _sequences(model, document, types)
        else:
            values = _values(model, document, types)
            words = _words(model, document, types)
    return Agreement(
        np.ascontiguousarray(reading.starts),
        np.ascontiguousarray(reading.inside),
        reading.type,
        len(types),
        sequences,
        values,
        words,
    )


def _sequences(model: Consistency, document: Document, types: Sequence[str]) -> SequenceTables:
    tokens = document.corpus.column(model.column).ids.astype(np.int64)
    repeated = repeated_sequences(tokens, document.offsets)
    place = [types.index(name) for name in model.types]
    found = []
    for table in model.tables():
        wide = np.zeros((len(types), len(types)))
        wide[np.ix_(place, place)] = table
        found.append(wide)
    return SequenceTables(repeated.first, repeated.number, found[0], found[1])


def _values(model: Fields, document: Document, types: Sequence[str]) -> ValueTables | None:
    differing = model.differing
    if not differing:
        return None
    words, ends = document.column(model.column), document.offsets[1:]
    last = np.repeat(ends, np.diff(document.offsets)).tolist()
    readers = {v.value: v for v in differing.values()}
    number: dict[Hashable, int] = {}
    value = np.full((len(readers), len(words), LONGEST), -1, dtype=np.int32)
    for f, said in enumerate(readers.values()):
        for start, stop in enumerate(last):
            for end in range(start + 1, min(start + LONGEST, stop) + 1):
                found = said.of(words[start:end])
                if found is not None:
                    value[f, start, end - start - 1] = number.setdefault(found, len(number))
    place = {reader: f for f, reader in enumerate(readers)}
    table = [place[differing[y].value] if y in differing else -1 for y in types]
    penalty = [differing[y].penalty if y in differing else 0.0 for y in types]
    return ValueTables(np.asarray(table, dtype=np.int32), value, np.asarray(penalty))


def _words(model: Fields, document: Document, types: Sequence[str]) -> WordTables | None:
    unlabelled = model.unlabelled
    if not unlabelled:
        return None
    words = document.column(model.column)
    often = [word for word, n in Counter(words).items() if n > 1 and last_word([word]) is not None]
    number = {word: k for k, word in enumerate(often)}
    alone = {True: -2, False: -1}
    found = [number.get(word, alone[last_word([word]) is None]) for word in words]
    penalty = [unlabelled[y].penalty if y in unlabelled else 0.0 for y in types]
    return WordTables(np.asarray(found, dtype=np.int32), np.asarray(penalty))
