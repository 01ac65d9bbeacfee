"""Penalties of spans that disagree, as the kernel reads them.

==============  =========================================
Agreement       penalties of a document, of three kinds:
SequenceTables  ... over numbered token sequences
ValueTables     ... over what spans say
WordTables      ... over the places of their last words
agreement_view  the kernel's structure
==============  =========================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.kernel.native import array_in, ffi

__all__ = ["Agreement", "SequenceTables", "ValueTables", "WordTables", "agreement_view"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class SequenceTables:
    """Penalties of spans with the same tokens, and of spans within others.

    Parameters
    ----------
    first : int64 [N + 1]
        For each token where its sequences begin in ...
    sequence : int32
        ... the numbers of the sequences of 1, 2, ... tokens from there on that occur twice or more.
    same, within : float64 [Y, Y]
        Log penalties for each token: types of one sequence; outer and inner type.
    """

    first: NDArray[np.int64]
    sequence: Ints
    same: Floats
    within: Floats


@dataclass(frozen=True, eq=False, slots=True)
class ValueTables:
    """Penalties of spans of one type whose values differ.

    Parameters
    ----------
    table : int32 [Y]
        Which of the F tables the spans of a type read, or −1.
    value : int32 [F, N, M]
        Number of the value of the span of 1, 2, ... M tokens from each token on, or −1.
    differ : float64 [Y]
        Log penalties for each token of both spans.
    """

    table: Ints
    value: NDArray[np.int32]
    differ: Floats


@dataclass(frozen=True, eq=False, slots=True)
class WordTables:
    """Penalties of the places of a span's last word that have no label of its type.

    Parameters
    ----------
    word : int32 [N]
        Number of the word, −1 where the document has it once, −2 where a token is no word.
    every : float64 [Y]
        Log penalties for each span and place.
    """

    word: Ints
    every: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Agreement:
    """Penalties of spans that disagree.

    Parameters
    ----------
    starts, inside : uint8 [L + 1, L]
        Whether a span starts at, or goes on to, the second label; row L begins a sentence.
    type : int32 [L]
        Type of the spans of a label, −1 outside.
    n_types : int
        Y.
    sequences, values, words
        What is penalised.
    """

    starts: NDArray[np.uint8]
    inside: NDArray[np.uint8]
    type: Ints
    n_types: int
    sequences: SequenceTables | None = None
    values: ValueTables | None = None
    words: WordTables | None = None


def agreement_view(
    agreement: Agreement | None, labels: int, tokens: int
) -> tuple[object, list[Any]]:
    """Return the kernel's structure, and the arrays that must live as long.

    Raises
    ------
    ShapeError
        Sizes that disagree.
    """
    if agreement is None:
        return ffi.new("fc_agreement *", {"Y": 0, "K": 0}), []
    a, types = agreement, agreement.n_types
    fields: dict[str, Any] = {
        "starts": array_in(a.starts, np.uint8, (labels + 1, labels), "starts"),
        "inside": array_in(a.inside, np.uint8, (labels + 1, labels), "inside"),
        "type": array_in(a.type, np.int32, (labels,), "type"),
    }
    parts = [_sequence_view(a.sequences or _no_sequences(tokens, types), tokens, types)]
    if a.values is not None:
        parts.append(_value_view(a.values, tokens, types))
    if a.words is not None:
        parts.append(_word_view(a.words, tokens, types))
    sizes: dict[str, int] = {"Y": types}
    for part in parts:
        fields |= part.arrays
        sizes |= part.sizes
    sizes["lowers"] = int(all(part.highest <= 0.0 for part in parts))
    return ffi.new("fc_agreement *", {**sizes, **fields}), list(fields.values())


def _no_sequences(tokens: int, types: int) -> SequenceTables:
    nothing = np.zeros((types, types))
    return SequenceTables(np.zeros(tokens + 1, np.int64), np.zeros(0, np.int32), nothing, nothing)


@dataclass(frozen=True, eq=False, slots=True)
class _View:
    """Sizes and arrays of a part of the kernel's structure, and its highest penalty."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, Any]
    highest: float


def _scratch(rows: int, types: int, name: str) -> Any:
    return array_in(np.zeros((rows, types), np.int32), np.int32, (rows, types), name, writable=True)


def _sequence_view(tables: SequenceTables, tokens: int, types: int) -> _View:
    number = int(tables.sequence.max(initial=-1)) + 1
    arrays = {
        "first": array_in(tables.first, np.int64, (tokens + 1,), "first"),
        "sequence": array_in(tables.sequence, np.int32, (int(tables.first[-1]),), "sequence"),
        "same": array_in(tables.same, np.float64, (types, types), "same"),
        "within": array_in(tables.within, np.float64, (types, types), "within"),
        "whole": _scratch(max(number, 1), types, "whole"),
        "part": _scratch(max(number, 1), types, "part"),
    }
    highest = max(float(tables.same.max(initial=0.0)), float(tables.within.max(initial=0.0)))
    return _View({"K": number}, arrays, highest)


def _value_view(tables: ValueTables, tokens: int, types: int) -> _View:
    readers, _, longest = tables.value.shape
    number = int(tables.value.max(initial=-1)) + 1
    arrays = {
        "table": array_in(tables.table, np.int32, (types,), "table"),
        "value": array_in(tables.value, np.int32, (readers, tokens, longest), "value"),
        "differ": array_in(tables.differ, np.float64, (types,), "differ"),
        "spans": _scratch(number + 1, types, "spans"),
        "tokens": _scratch(number + 1, types, "tokens"),
    }
    sizes = {"F": readers, "V": number, "M": longest}
    return _View(sizes, arrays, float(tables.differ.max(initial=0.0)))


def _word_view(tables: WordTables, tokens: int, types: int) -> _View:
    number = int(tables.word.max(initial=-1)) + 1
    word = array_in(tables.word, np.int32, (tokens,), "word")
    occurs = np.bincount(tables.word[tables.word >= 0], minlength=number).astype(np.int32)
    arrays = {
        "word": word,
        "occurs": array_in(occurs, np.int32, (number,), "occurs"),
        "every": array_in(tables.every, np.float64, (types,), "every"),
        "ending": _scratch(number, types, "ending"),
        "labelled": _scratch(number, types, "labelled"),
    }
    return _View({"W": number}, arrays, float(tables.every.max(initial=0.0)))
