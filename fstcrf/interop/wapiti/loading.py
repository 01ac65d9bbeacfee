"""From a file of Wapiti to a tagger.

===========  =================================================================
load_wapiti  the tagger
WAPITI       the format
===========  =================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError
from fstcrf.features import LiteralIndex
from fstcrf.features.derive import root
from fstcrf.interop.formats import Format, Reading, check_tape
from fstcrf.interop.patterns import (
    PatternModel,
    check_encoding,
    check_labels,
    decoded,
    shown,
    tagger,
)
from fstcrf.interop.sources import BOM, ModelSource, read_source
from fstcrf.interop.wapiti.commands import read_pattern
from fstcrf.interop.wapiti.contents import Contents, read_contents
from fstcrf.kernel import padded
from fstcrf.model import CRF
from fstcrf.topology import chain_topology
from fstcrf.train.problem import ParameterSpace

__all__ = ["WAPITI", "load_wapiti"]

_MEMM, _LAST_KIND = 1, 2
_MOST_COLUMNS = 1000
_HAS_NODE, _HAS_ARC = b"u*", b"b*"


def load_wapiti(
    source: ModelSource,
    *,
    columns: Sequence[str] | None = None,
    tape: str = "label",
    encoding: str = "utf-8",
) -> CRF:
    """Read a model of Wapiti as a tagger with the same answers.

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

    Returns
    -------
    CRF
        Over columns; a model without patterns reads lists of attributes instead.

    Raises
    ------
    ModelFileError
        No model of Wapiti, a damaged one, one of another encoding, or one that no CRF equals: a
        MEMM with label pairs, or attributes of label pairs without patterns.
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
    contents = read_contents(data, where)
    labels = tuple(decoded(label, encoding, where, "label") for label in contents.labels)
    check_labels(labels, contents.size, where)
    node_first, arc_first = _numbering(contents, len(labels), where)
    if contents.kind > _LAST_KIND:
        raise ModelFileError(f"{where}: a model of kind {contents.kind}, expected 0, 1 or 2")
    pairs = arc_first[arc_first >= 0]
    has_pairs = bool(np.any(contents.weights.counts(pairs, len(labels) ** 2)))
    if contents.kind == _MEMM and has_pairs:
        raise ModelFileError(
            f"{where}: a MEMM, which is normalised at every token: no CRF equals it"
        )
    if not contents.patterns:
        if has_pairs:
            raise ModelFileError(
                f"{where}: no patterns, but weights of attributes of label pairs: those cannot be "
                "given token by token"
            )
        return _literal(contents, labels, node_first, tape, encoding, where)
    patterns = [
        pattern
        for text in contents.patterns
        for pattern in read_pattern(text, encoding, where, single=contents.single)
    ]
    order = sorted(range(len(contents.observations)), key=contents.observations.__getitem__)
    read = [root(hole.source) for pattern in patterns for hole in pattern.holes]
    model = PatternModel(
        labels=labels,
        patterns=tuple(patterns),
        attributes=[contents.observations[i] for i in order],
        node_first=node_first[order],
        arc_first=arc_first[order],
        weights=contents.weights,
        n_columns=_columns(read, where),
        boundary="wapiti",
        encoding=encoding,
        size=contents.size,
        where=where,
    )
    return tagger(model, columns, tape)


def _numbering(
    contents: Contents, n_labels: int, where: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each observation's first weight on labels and on pairs, −1 for none.

    Raises
    ------
    ModelFileError
        An observation that is there twice or begins with another letter, or a weight without one.
    """
    texts = contents.observations
    if len(set(texts)) < len(texts):
        raise ModelFileError(f"{where}: an observation is there twice")
    odd = next((text for text in texts if text[:1] not in (b"u", b"b", b"*")), None)
    if odd is not None:
        raise ModelFileError(f"{where}: observation {shown(odd)} begins with none of u, b and *")
    has_node = np.array([text[0] in _HAS_NODE for text in texts], dtype=bool)
    has_arc = np.array([text[0] in _HAS_ARC for text in texts], dtype=bool)
    sizes = has_node * np.int64(n_labels) + has_arc * np.int64(n_labels**2)
    first = np.cumsum(sizes) - sizes
    numbers, total = contents.weights.numbers, int(sizes.sum())
    if len(numbers) and numbers[-1] >= total:
        raise ModelFileError(f"{where}: weight {numbers[-1]}, the observations have {total}")
    return np.where(has_node, first, -1), np.where(has_arc, first + has_node * n_labels, -1)


def _columns(read: Sequence[object], where: str) -> int:
    """Return how many columns there must be."""
    last = max((column for column in read if isinstance(column, int)), default=0)
    if last >= _MOST_COLUMNS:
        raise ModelFileError(f"{where}: column {last}, expected one below {_MOST_COLUMNS}")
    return last + 1


def _literal(
    contents: Contents,
    labels: tuple[str, ...],
    node_first: NDArray[np.int64],
    tape: str,
    encoding: str,
    where: str,
) -> CRF:
    """Return a model without patterns: its attributes are what the caller says of a token.

    Raises
    ------
    ModelFileError
        Texts of another encoding, or weights that are not finite.
    """
    check_tape(tape)
    size, weights = len(labels), contents.weights
    if not np.isfinite(weights.values).all():
        raise ModelFileError(f"{where}: a weight is not finite")
    used = np.flatnonzero((node_first >= 0) & (weights.counts(node_first, size) > 0))
    names = [
        decoded(contents.observations[i][contents.single :], encoding, where, "observation")
        for i in used.tolist()
    ]
    cells, theta = weights.cells(node_first[used], size, stride=padded(size))
    none = np.empty(0, dtype=np.int32)
    space = ParameterSpace(
        topology=chain_topology(labels, 0),
        n_node_rows=len(names),
        n_arc_rows=0,
        node_cells=cells,
        transitions=none,
        arc_cells=none.astype(np.int64),
        initial=none,
        final=none,
    )
    return CRF(space.topology, LiteralIndex(names), space, theta, tape, ())


def _recognised(head: bytes) -> bool:
    return head.removeprefix(BOM).startswith(b"#mdl#")


def _read(data: bytes, reading: Reading) -> CRF:
    encoding = reading.encoding or "utf-8"
    return _tagger(data, reading.where, reading.columns, reading.tape, encoding)


WAPITI = Format(
    "wapiti", "a Wapiti model", recognises=_recognised, read=_read, loader="load_wapiti"
)
