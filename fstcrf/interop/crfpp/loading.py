"""From a file of CRF++ to a tagger.

==========  ==================================================================
load_crfpp  the tagger
CRFPP_TEXT  the format of text models
CRFPP       the format of binary models
==========  ==================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError
from fstcrf.interop.crfpp.binary import is_binary, read_binary
from fstcrf.interop.crfpp.contents import Contents
from fstcrf.interop.crfpp.macros import read_pattern
from fstcrf.interop.crfpp.text import is_text, read_text
from fstcrf.interop.formats import Format, Reading
from fstcrf.interop.patterns import (
    PatternModel,
    SparseWeights,
    check_encoding,
    check_labels,
    decoded,
    shown,
    tagger,
)
from fstcrf.interop.sources import ModelSource, read_source
from fstcrf.model import CRF

__all__ = ["CRFPP", "CRFPP_TEXT", "load_crfpp"]

_UNIGRAM, _BIGRAM = b"U", b"B"


def load_crfpp(
    source: ModelSource,
    *,
    columns: Sequence[str] | None = None,
    tape: str = "label",
    encoding: str = "utf-8",
) -> CRF:
    """Read a model of CRF++, text or binary, as a tagger with the same answers.

    Parameters
    ----------
    source : path, bytes-like object or binary file
        The model, not compressed.
    columns : sequence of str, optional
        Names of the columns of the data; ``"0"``, ``"1"``, ... when absent.
    tape : str
        What the tagger writes; a column behind the others unless `columns` has it.
    encoding : str
        Of the texts in the model.

    Raises
    ------
    ModelFileError
        No model of CRF++, a damaged one, or one of another encoding.
    OptionError
        Names of columns that are too few or not distinct; an encoding that there is not; a
        source of another type.
    OSError
        The file cannot be read.
    """
    data, where = read_source(source)
    return _tagger(data, where, columns, tape, encoding)


def _tagger(
    data: bytes, where: str, columns: Sequence[str] | None, tape: str, encoding: str
) -> CRF:
    check_encoding(encoding)
    if is_binary(data):
        contents = read_binary(data, where)
    elif is_text(data):
        contents = read_text(data, where)
    else:
        raise ModelFileError(f"{where}: no model of CRF++: neither 'version: ' nor version 100")
    return tagger(_pattern_model(contents, encoding, where), columns, tape)


def _pattern_model(contents: Contents, encoding: str, where: str) -> PatternModel:
    labels = tuple(decoded(label, encoding, where, "label") for label in contents.labels)
    check_labels(labels, contents.size, where)
    attributes, first = _sorted(contents)
    is_unigram = np.array([text.startswith(_UNIGRAM) for text in attributes], dtype=bool)
    sizes = np.where(is_unigram, len(labels), len(labels) ** 2)
    _check(attributes, first, sizes, contents, where)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused later
        weights = contents.weights * contents.cost_factor
    templates = [decoded(t, encoding, where, "template") for t in contents.templates]
    return PatternModel(
        labels=labels,
        patterns=tuple(
            read_pattern(text, encoding, contents.n_columns, where) for text in templates
        ),
        attributes=attributes,
        node_first=np.where(is_unigram, first, -1),
        arc_first=np.where(is_unigram, -1, first),
        weights=SparseWeights.of(weights),
        n_columns=contents.n_columns,
        boundary="pad",
        encoding=encoding,
        size=contents.size,
        where=where,
    )


def _sorted(contents: Contents) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the attributes in the order of their texts, with the number of their first weight."""
    texts = contents.attributes
    if all(a < b for a, b in pairwise(texts)):
        return texts, contents.first
    order = sorted(range(len(texts)), key=texts.__getitem__)
    return [texts[i] for i in order], contents.first[order]


def _check(
    attributes: Sequence[bytes],
    first: NDArray[np.int64],
    sizes: NDArray[np.int64],
    contents: Contents,
    where: str,
) -> None:
    """Check that attributes are distinct and of a known kind, and that their weights exist.

    Raises
    ------
    ModelFileError
        One of them is not so.
    """
    twice = next((b for a, b in pairwise(attributes) if a == b), None)
    if twice is not None:
        raise ModelFileError(f"{where}: attribute {shown(twice)} is there twice")
    odd = next((a for a in attributes if a[:1] not in (_UNIGRAM, _BIGRAM)), None)
    if odd is not None:
        raise ModelFileError(f"{where}: attribute {shown(odd)} begins with neither U nor B")
    outside = np.flatnonzero((first < 0) | (first + sizes > len(contents.weights)))
    if len(outside):
        place = int(outside[0])
        raise ModelFileError(
            f"{where}: attribute {shown(attributes[place])} has weights {first[place]} to "
            f"{first[place] + sizes[place] - 1} of {len(contents.weights)}"
        )


def _read(data: bytes, reading: Reading) -> CRF:
    encoding = reading.encoding or "utf-8"
    return _tagger(data, reading.where, reading.columns, reading.tape, encoding)


CRFPP = Format(
    "crfpp", "a binary CRF++ model", recognises=is_binary, read=_read, loader="load_crfpp"
)
CRFPP_TEXT = Format(
    "crfpp-text", "a text model of CRF++", recognises=is_text, read=_read, loader="load_crfpp"
)
