"""Attributes that depend on labels which are not known yet.

========== =====================================================================
divided    the families of an index, by the open tapes that they read
Predicates conditioned attributes as pairs: what a token has, and the labels
========== =====================================================================

In a joint decoder the label of an earlier tape is a state, not a column: the tape is *open*. An
attribute of ``U:%y[0,pos]/%x[0,word]`` is then the pair of a predicate, "this word is *in*", which
a token has or has not, and a label. The keys of an index say which pairs there are. So a token's
predicates are looked up once, whatever the number of labels, and only pairs that exist are
touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fstcrf.features.derive import Plain
from fstcrf.features.families import Family
from fstcrf.features.hashed import Hashed
from fstcrf.features.keys import Codes, KeyTable, Packing, distinct
from fstcrf.features.tables import Tables, Vocabularies
from fstcrf.features.template import tape_column

__all__ = ["Predicates", "divided", "is_constant"]

Context = tuple[str, ...]
Labels = Mapping[str, Sequence[str]]


def divided(side: Tables | Hashed, tapes: Sequence[str]) -> dict[Context, Tables | Hashed]:
    """Return the families of one side of an index, by the open tapes that they read together.

    Parameters
    ----------
    side : Tables or Hashed
        The attributes of labels, or of label pairs.
    tapes : sequence of str
        The open tapes. Each context lists some of them in this order; () reads none.

    Returns
    -------
    dict
        Context → the same attributes in the same rows, those of other families left out. For
        looking up; its number of rows means nothing.
    """
    places: dict[Context, list[int]] = {}
    for place, family in enumerate(side.families):
        context = tuple(tape for tape in tapes if tape_column(tape) in family.columns)
        places.setdefault(context, []).append(place)
    return {context: _chosen(side, chosen) for context, chosen in places.items()}


def is_constant(side: Tables | Hashed, context: Context) -> bool:
    """Tell whether families have the same attributes at every token, given these tapes' labels."""
    columns = set(map(tape_column, context))
    return all(family.columns <= columns for family in side.families)


def _chosen(side: Tables | Hashed, places: Sequence[int]) -> Tables | Hashed:
    families = tuple(side.families[i] for i in places)
    if isinstance(side, Hashed):
        return replace(side, families=families)
    packings = tuple(side.packings[i] for i in places)
    return Tables(families, side.vocabularies, packings, tuple(side.keys[i] for i in places))


@dataclass(frozen=True, slots=True)
class Predicates:
    """Conditioned attributes as pairs of a predicate and labels.

    Parameters
    ----------
    tables : Tables
        The predicates: the families without the tapes that they read; rows are predicates.
    row : int32 [n]
        Row of each conditioned attribute, each once.
    predicate : int32 [n]
        Its predicate.
    label : int64 [n]
        Number of its labels: of the context's label tuples, the last tape fastest.
    """

    tables: Tables
    row: NDArray[np.int32]
    predicate: NDArray[np.int32]
    label: NDArray[np.int64]

    @classmethod
    def of(cls, tables: Tables, context: Context, labels: Labels) -> Predicates:
        """Take conditioned attributes apart.

        Parameters
        ----------
        tables : Tables
            Families that read the tapes of the context, as `divided` gives them.
        context : tuple of str
        labels : mapping of str to sequence of str
            Labels of each tape, in the order of their numbers. Attributes of other labels are
            left out.
        """
        axes = {Plain(tape_column(tape)): tuple(labels[tape]) for tape in context}
        families, packings, keys = [], [], []
        found: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]] = []
        total = 0
        for family, packing, table in zip(
            tables.families, tables.packings, tables.keys, strict=True
        ):
            codes = packing.unpack(table.keys)
            label = _label_numbers(family, codes, len(table), axes, tables.vocabularies)
            used = np.flatnonzero(label >= 0)
            kept = [i for i, source in enumerate(family.sources) if source not in axes]
            rest = [codes[i][used] for i in kept]
            short = Packing.fitted([packing.widths[i] for i in kept], rest)
            unique, inverse, _ = distinct(short.pack(rest, len(used))[0], short.bits)
            numbers = np.arange(total, total + len(unique), dtype=np.int32)
            total += len(unique)
            families.append(_without(family, kept))
            packings.append(short)
            keys.append(KeyTable(unique, numbers))
            found.append((table.rows[used], numbers[inverse], label[used]))
        row, predicate, label = (np.concatenate(part) for part in zip(*found, strict=True))
        bare = Tables(tuple(families), tables.vocabularies, tuple(packings), tuple(keys))
        return cls(bare, row, predicate, label)


def _label_numbers(
    family: Family,
    codes: Codes,
    count: int,
    axes: Mapping[Plain, tuple[str, ...]],
    vocabularies: Vocabularies,
) -> NDArray[np.int64]:
    """Return the number of each attribute's labels, −1 where no labels give the attribute."""
    number = np.zeros(count, dtype=np.int64)
    possible = np.ones(count, dtype=np.bool)
    for source, labels in axes.items():
        # One place more, the last, for labels that the index does not know: their number is −1.
        place_of = np.full(vocabularies.size(source) + 1, -1, dtype=np.int64)
        place_of[vocabularies.numbers(source, labels)] = np.arange(len(labels))
        # A template may read the label twice: it is the same.
        place = place_of[codes[family.sources.index(source)]]
        possible &= place >= 0
        number = number * len(labels) + place
    return np.where(possible, number, -1)


def _without(family: Family, kept: Sequence[int]) -> Family:
    """Return a family with some of its strings only."""
    members = (tuple(terms[i] for i in kept) for terms in family.members)
    return replace(
        family,
        literals=(family.literals[0], *(family.literals[i + 1] for i in kept)),
        sources=tuple(family.sources[i] for i in kept),
        members=tuple(dict.fromkeys(members)),
    )
