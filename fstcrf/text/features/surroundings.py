"""Strings beyond the ends of a sentence, within its document, which ``%d`` in a template reads.

Many functions cut a corpus into runs of sentences. So the strings around each token are stored as
columns while documents are whole: the column ``%d[-1,word]`` has the word before each token. Its
strings are strings of ``word``; outside the document they are ``_B-1``, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fstcrf.arrays import Longs
from fstcrf.text.corpus.corpus import Column, Corpus
from fstcrf.text.features.derive import root
from fstcrf.text.features.template import TemplateSet


def surrounding_column(name: str, offset: int) -> str:
    """Return the name of the corpus column for an offset in the document.

    Examples
    --------
    >>> surrounding_column("word", -1)
    '%d[-1,word]'
    """
    return f"%d[{offset},{name}]"


def is_surrounding(column: str) -> bool:
    """Return whether a corpus column has the strings around the tokens of another column."""
    return column.startswith("%d[")


def reads_documents(templates: TemplateSet) -> bool:
    """Return whether a template reads past the ends of a sentence."""
    return any(macro.document for template in templates for macro in template.macros)


def with_surroundings(corpus: Corpus, templates: TemplateSet) -> Corpus:
    """Return a corpus with added columns of the strings that templates read around tokens.

    Existing columns are kept: the corpus may be a part of a document.

    Parameters
    ----------
    corpus : Corpus
        A corpus of whole documents; without document numbers it is one document.
    templates : TemplateSet
        Templates over missing columns add no column.
    """
    if not reads_documents(templates):
        return corpus
    columns = dict(corpus.columns)
    document: Longs | None = None
    for name, offset in _read(templates, tuple(columns)):
        if (made := surrounding_column(name, offset)) in columns:
            continue
        if document is None:
            document = _bounds(corpus)
        columns[made] = _moved(columns[name], offset, *document)
    return corpus if document is None else corpus.changed(columns=columns)


def pad_number(string: str, offset: int, reach: int) -> int | None:
    """Return the number of a pad string, one of 2 · reach; `None` for text.

    Pads before the document have the first numbers, the nearest one first.
    """
    sign = "_B-" if offset < 0 else "_B+"
    if not string.startswith(sign) or not string[3:].isdecimal():
        return None
    distance = int(string[3:])
    if not 1 <= distance <= abs(offset):
        return None
    return distance - 1 + (reach if offset > 0 else 0)


def surrounded(name: str, columns: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield the columns that have strings around the tokens of a column, with their offsets."""
    for other in columns:
        offset, comma, rest = other.removeprefix("%d[").partition(",")
        if is_surrounding(other) and comma and rest == f"{name}]":
            yield other, int(offset)


def _read(templates: TemplateSet, columns: Sequence[str]) -> Iterable[tuple[str, int]]:
    """Return the columns and offsets that templates read, each once; offset 0 is the token."""
    plain = [name for name in columns if not name.startswith(("%y[", "%d["))]
    places: dict[tuple[str, int], None] = {}
    for macro in (macro for template in templates for macro in template.macros if macro.document):
        column = root(macro.source)
        numbered = isinstance(column, int) and column < len(plain)
        name = plain[int(column)] if numbered else str(column)
        if name in plain:
            offsets = range(macro.first, macro.last + 1)
            places |= dict.fromkeys((name, offset) for offset in offsets if offset)
    return places


def _bounds(corpus: Corpus) -> Longs:
    """Return the first and the end token of each token's document, int64 [2, N]."""
    slices = corpus.document_slices()
    first = corpus.offsets[[part.start for part in slices]]
    end = corpus.offsets[[part.stop for part in slices]]
    return np.repeat(np.stack([first, end]), end - first, axis=1)


def _moved(column: Column, offset: int, first: Longs, end: Longs) -> Column:
    place = np.arange(len(column.ids)) + offset
    # The k-th token outside has the k-th of the added strings.
    outside = np.where(offset < 0, first - place, place - end + 1)
    inside = outside <= 0
    ids = np.where(
        inside,
        column.ids[np.where(inside, place, 0)] if len(place) else 0,
        len(column.values) + outside - 1,
    )
    pads = [f"_B{'+' if offset > 0 else '-'}{k}" for k in range(1, abs(offset) + 1)]
    return Column(ids.astype(np.int32), (*column.values, *pads))
