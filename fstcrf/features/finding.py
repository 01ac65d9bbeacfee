"""The attributes of runs of sentences, looked up by the kernel.

==============  ============================================================
PlainFamilies   the families whose keys the kernel makes itself
string_codes    the number of each token's string
sentence_codes  the same of one sentence, whose strings need not be interned
==============  ============================================================

The kernel makes the keys of families that read one string at each offset. Those that read several
(bags, n-grams), multiply by numbers, look at a place of the sentence, or need more than 63 bits are
made with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.corpus import Sentence
from fstcrf.features.derive import Plain, Source, root
from fstcrf.features.families import Family
from fstcrf.features.keys import KeyTable, Packing
from fstcrf.features.reader import Reader, remembered
from fstcrf.kernel.lookup import Firing, KeyFamily, KeyTerm, RowFinder

__all__ = ["PlainFamilies", "sentence_codes", "string_codes"]

_FIRING: dict[str, Firing] = {"node": "every", "bos": "first", "eos": "last", "arc": "inner"}


class PlainFamilies:
    """The families whose keys the kernel makes itself.

    Parameters
    ----------
    families, packings, keys
        Those of `Tables`.
    reach : int
        Distance of the farthest pad.

    Attributes
    ----------
    numbers : list of int
        Their places among the families.
    sources : list of Plain or Derived
        What they read: a column of codes for each.
    """

    def __init__(
        self,
        families: Sequence[Family],
        packings: Sequence[Packing],
        keys: Sequence[KeyTable],
        *,
        reach: int,
    ) -> None:
        self.numbers = [
            i
            for i, (family, packing) in enumerate(zip(families, packings, strict=True))
            if not (family.is_plural or family.is_absolute or family.values or packing.prefixes)
        ]
        read = [source for i in self.numbers for source in families[i].sources]
        self.sources: list[Source] = list(dict.fromkeys(read))
        place = {source: k for k, source in enumerate(self.sources)}
        made = [
            KeyFamily.of(
                _terms(families[i], packings[i], place, reach),
                keys[i].keys,
                keys[i].rows,
                firing=_FIRING[families[i].kind],
            )
            for i in self.numbers
        ]
        self.finder = RowFinder(made, reach=reach)


def _terms(family: Family, packing: Packing, place: dict[Source, int], reach: int) -> list[KeyTerm]:
    (member,) = family.members
    return [
        KeyTerm(place[source], term.offset, term.pads and reach > 0, width)
        for source, term, width in zip(family.sources, member, packing.widths, strict=True)
    ]


def string_codes(
    reader: Reader,
    sources: Sequence[Source],
    numbers: Callable[[Source, Sequence[str]], NDArray[np.int32]],
) -> NDArray[np.int32]:
    """Return the number of each token's string, −1 where it has none.

    Parameters
    ----------
    reader : Reader
        The corpus.
    sources : sequence of Plain or Derived
        Each gives one string a token.
    numbers : callable
        The numbers of distinct strings of a source.

    Returns
    -------
    int32 [sources, N]
    """
    codes = np.empty((len(sources), reader.n_tokens), dtype=np.int32)
    for source, out in zip(sources, codes, strict=True):
        column = reader.column(str(root(source)))
        plain = isinstance(source, Plain)
        strings = column.values if plain else [made[0] for made in reader.made(source)]
        np.take(numbers(source, strings), column.ids, out=out, mode="clip")
    return codes


def sentence_codes(
    sentence: Sentence,
    sources: Sequence[Source],
    numbers: Callable[[Source, Sequence[str]], NDArray[np.int32]],
) -> NDArray[np.int32]:
    """Return the number of each token's string, as `string_codes` does, int32 [sources, N]."""
    codes = np.empty((len(sources), len(sentence)), dtype=np.int32)
    for source, out in zip(sources, codes, strict=True):
        strings = sentence[str(root(source))]
        if not isinstance(source, Plain):
            make = remembered(source)
            strings = [make(string)[0] for string in strings]
        out[:] = numbers(source, strings)
    return codes
