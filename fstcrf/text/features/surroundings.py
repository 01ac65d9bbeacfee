"""Strings beyond the ends of a sentence, within its document: what ``%d`` of a template reads.

A corpus is cut into runs of sentences in many places. So what stands around each token is written
down while documents are whole, as columns: that of ``%d[-1,word]`` has that name and holds the word
before each token. The strings are those of ``word``; outside the document it is ``_B-1``, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fstcrf.arrays import Longs
from fstcrf.text.corpus.corpus import Column, Corpus
from fstcrf.text.features.derive import root
from fstcrf.text.features.template import TemplateSet


def surrounding_column(name: str, offset: int) -> str:
    """Return the name of the corpus column of what is at an offset in the document.

    Examples
    --------
    >>> surrounding_column("word", -1)
    '%d[-1,word]'
    """
    return f"%d[{offset},{name}]"


def is_surrounding(column: str) -> bool:
    """Tell whether a corpus column holds what is around the tokens of another one."""
    return column.startswith("%d[")


def reads_documents(templates: TemplateSet) -> bool:
    """Tell whether a template looks past the ends of a sentence."""
    return any(macro.document for template in templates for macro in template.macros)


def with_surroundings(corpus: Corpus, templates: TemplateSet) -> Corpus:
    """Return a corpus with the columns of what templates read around each token of a document.

    Columns that it has already stay as they are: the corpus may be a part of a document.

    Parameters
    ----------
    corpus : Corpus
        With its documents; without any it is one document.
    templates : TemplateSet
        Those of columns that the corpus does not have add nothing.
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
    """Return the number of what is outside the document, of the 2 · reach there are; None for text.

    Those before the document come first, the nearest one first.
    """
    sign = "_B-" if offset < 0 else "_B+"
    if not string.startswith(sign) or not string[3:].isdecimal():
        return None
    distance = int(string[3:])
    if not 1 <= distance <= abs(offset):
        return None
    return distance - 1 + (reach if offset > 0 else 0)


def surrounded(name: str, columns: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield those of the columns that hold what is around the tokens of a column, with offsets."""
    for other in columns:
        offset, comma, rest = other.removeprefix("%d[").partition(",")
        if is_surrounding(other) and comma and rest == f"{name}]":
            yield other, int(offset)


def _read(templates: TemplateSet, columns: Sequence[str]) -> Iterable[tuple[str, int]]:
    """Return columns and offsets that are read, each once; offset 0 is the token itself."""
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
    """Return the first token, and the end, of each token's document, int64 [2, N]."""
    slices = corpus.document_slices()
    first = corpus.offsets[[part.start for part in slices]]
    end = corpus.offsets[[part.stop for part in slices]]
    return np.repeat(np.stack([first, end]), end - first, axis=1)


def _moved(column: Column, offset: int, first: Longs, end: Longs) -> Column:
    place = np.arange(len(column.ids)) + offset
    # The k-th token outside is the k-th of the strings that are added.
    outside = np.where(offset < 0, first - place, place - end + 1)
    inside = outside <= 0
    ids = np.where(
        inside,
        column.ids[np.where(inside, place, 0)] if len(place) else 0,
        len(column.values) + outside - 1,
    )
    pads = [f"_B{'+' if offset > 0 else '-'}{k}" for k in range(1, abs(offset) + 1)]
    return Column(ids.astype(np.int32), (*column.values, *pads))
