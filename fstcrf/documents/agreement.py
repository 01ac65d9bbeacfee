"""The shipped models (Consistency, Fields) as a tagger, the kernel and a file have them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from fstcrf.documents.consistency import Consistency
from fstcrf.documents.document import Document, repeated_sequences, span_tables, span_types
from fstcrf.documents.fields import LONGEST, Fields, last_word
from fstcrf.documents.violations import ViolationModel, read_model
from fstcrf.errors import LabelError, OptionError
from fstcrf.kernel.gibbs import Agreement, SequenceTables, ValueTables, WordTables

__all__ = [
    "agreement",
    "check_types",
    "in_kernel",
    "load",
    "tape_of",
]


def load(path: str | os.PathLike[str]) -> Consistency | Fields:
    """Read a model of either kind; errors as for `Consistency.load`."""
    kinds: tuple[type[Consistency | Fields], ...] = (Consistency, Fields)
    return read_model(path, *kinds)


def tape_of(model: ViolationModel, tapes: Sequence[str]) -> str:
    """Return the tape that a model reads.

    Raises
    ------
    OptionError
        It names none of several, or one that there is not.
    """
    wanted = getattr(model, "tape", None)
    if wanted is None and len(tapes) == 1:
        return tapes[0]
    if wanted not in tapes:
        asked = f"{type(model).__name__} reads no tape" if wanted is None else f"no tape {wanted!r}"
        raise OptionError(f'{asked}: give it tape= (in a file: "tape":), one of {", ".join(tapes)}')
    return str(wanted)


def check_types(model: ViolationModel, labels: Mapping[str, Sequence[str]]) -> None:
    """Check that the tagger has all types that a shipped model names: others count nothing.

    Nobody knows the types of a model that is written in Python.

    Raises
    ------
    LabelError
        It lacks one.
    OptionError
        As for `tape_of`.
    """
    tape = tape_of(model, list(labels))
    if not isinstance(model, Consistency | Fields):
        return
    there = span_types(labels[tape])
    missing = [name for name in model.types if name not in there]
    if missing:
        types = "types" if len(missing) > 1 else "type"
        known = ", ".join(there) or "none: labels of spans are like B-PER"
        raise LabelError(
            f"no label is of the {types} {', '.join(missing)}, which the model "
            f"{type(model).__name__} names; the types of {tape} are {known}"
        )


# --- Tables for the kernel ------------------------------------------------------------------------


def in_kernel(models: Sequence[ViolationModel]) -> bool:
    """Return whether the kernel can score models: at most one of either kind, of one tape."""
    kinds = [type(model) for model in models]
    tapes = {getattr(model, "tape", None) for model in models}
    return set(kinds) <= {Consistency, Fields} and len(set(kinds)) == len(kinds) and len(tapes) <= 1


def agreement(
    models: Sequence[ViolationModel], document: Document, labels: Sequence[str]
) -> Agreement | None:
    """Return the tables of models that the kernel can score; None without models.

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
    single = {True: -2, False: -1}
    found = [number.get(word, single[last_word([word]) is None]) for word in words]
    penalty = [unlabelled[y].penalty if y in unlabelled else 0.0 for y in types]
    return WordTables(np.asarray(found, dtype=np.int32), np.asarray(penalty))
