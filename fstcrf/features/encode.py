"""From the strings at each template's offsets to numbers.

========== ===================================================================
Encoder    the attributes of each family, as tuples of numbers
Coder      what numbers the strings: a vocabulary, or a hash function
Entries    the attributes of one family
========== ===================================================================

What a source makes of each string of its column is a table indexed by local number (see
`Reader`), so that a derived column costs a token one gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fstcrf.features.derive import Source, is_multiple
from fstcrf.features.families import Family, Term, pad_names
from fstcrf.features.reader import Local, Reader

__all__ = ["Coder", "Encoder", "Entries"]


class Coder(Protocol):
    """Numbers the strings of a source."""

    def pads(self, names: Sequence[str]) -> NDArray[np.uint64]:
        """Return the numbers of the strings outside a sentence."""

    def codes(
        self, source: Source, strings: Sequence[str]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool]]:
        """Return the numbers of strings, and which strings have one."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The attributes of one family.

    Parameters
    ----------
    tokens : int32 [n] or None
        Token of each entry, sorted within each member; ``0 .. n - 1`` when None.
    codes : list of uint64 [n]
        Their numbers, one array per macro.
    count : int
        Number of entries, n.
    """

    tokens: NDArray[np.int32] | None
    codes: list[NDArray[np.uint64]]
    count: int


@dataclass(frozen=True, slots=True)
class _Symbols:
    """The numbers that a source gives each local number.

    Local number ``i`` has ``codes[first[i] : first[i + 1]]``. For a single-valued source
    `first` is None: ``codes[i]`` is the number if ``known[i]``, and the last entry of both
    arrays stands for local number −1.
    """

    codes: NDArray[np.uint64]
    known: NDArray[np.bool]
    first: NDArray[np.int64] | None = None

    def present(self, local: Local) -> NDArray[np.bool] | None:
        """Return where there may be a number; None for everywhere."""
        if self.first is not None:
            return None if local.complete else local.numbers >= 0
        everywhere = local.complete and bool(self.known[:-1].all())
        return None if everywhere else self.known[local.numbers]


class Encoder:
    """The attributes of families over one corpus.

    Parameters
    ----------
    reader : Reader
        The corpus.
    coder : Coder
        What numbers the strings.
    """

    def __init__(self, reader: Reader, coder: Coder) -> None:
        self.reader = reader
        self._coder = coder
        self._symbols: dict[Source, _Symbols] = {}

    def entries(self, family: Family) -> Entries:
        """Return the attributes of a family, its members one after the other."""
        found = [self._member(family, terms) for terms in family.members]
        if len(found) == 1:
            return found[0]
        tokens = np.concatenate(
            [np.arange(e.count, dtype=np.int32) if e.tokens is None else e.tokens for e in found]
        )
        codes = [np.concatenate([e.codes[i] for e in found]) for i in range(len(family.sources))]
        return Entries(tokens, codes, len(tokens))

    def _member(self, family: Family, terms: tuple[Term, ...]) -> Entries:
        pairs = list(zip(family.sources, terms, strict=True))
        symbols = [self._of(source) for source in family.sources]
        locals_ = [self.reader.at(source, term) for source, term in pairs]
        mask = self.reader.firing(family)
        for symbol, local in zip(symbols, locals_, strict=True):
            present = symbol.present(local)
            if present is not None:
                mask = present if mask is None else mask & present
        tokens = None if mask is None else np.flatnonzero(mask).astype(np.int32)
        count = self.reader.n_tokens if tokens is None else len(tokens)
        chosen = [k.numbers if tokens is None else k.numbers[tokens] for k in locals_]
        if any(symbol.first is not None for symbol in symbols):
            return _multiplied(tokens, symbols, chosen, count)
        codes = [symbol.codes[local] for symbol, local in zip(symbols, chosen, strict=True)]
        return Entries(tokens, codes, count)

    def _of(self, source: Source) -> _Symbols:
        if source not in self._symbols:
            self._symbols[source] = self._made(source)
        return self._symbols[source]

    def _made(self, source: Source) -> _Symbols:
        pads = pad_names(self.reader.reach)
        made = self.reader.made(source)
        codes, known = self._coder.codes(source, list(chain.from_iterable(made)))
        codes = np.concatenate([self._coder.pads(pads), codes])
        known = np.concatenate([np.ones(len(pads), dtype=np.bool), known])
        if not is_multiple(source):
            return _Symbols(np.append(codes, np.uint64(0)), np.append(known, np.False_))
        sizes = np.array([1] * len(pads) + [len(strings) for strings in made], dtype=np.int64)
        owner = np.repeat(np.arange(len(sizes)), sizes)[known]
        first = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner, minlength=len(sizes)), out=first[1:])
        return _Symbols(codes[known], known, first)


def _multiplied(
    tokens: NDArray[np.int32] | None,
    symbols: Sequence[_Symbols],
    chosen: Sequence[NDArray[np.int32]],
    count: int,
) -> Entries:
    """Return one entry for each choice among the strings of the multi-valued sources."""
    entry = np.arange(count)
    codes: list[NDArray[np.uint64]] = []
    for symbol, local in zip(symbols, chosen, strict=True):
        here = local[entry]
        if symbol.first is None:
            codes.append(symbol.codes[here])
            continue
        first = symbol.first[here]
        sizes = symbol.first[here + 1] - first
        copies = np.repeat(np.arange(len(entry)), sizes)
        within = np.arange(len(copies)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        codes = [code[copies] for code in codes]
        codes.append(symbol.codes[first[copies] + within])
        entry = entry[copies]
    found = entry.astype(np.int32) if tokens is None else tokens[entry]
    return Entries(found, codes, len(found))
