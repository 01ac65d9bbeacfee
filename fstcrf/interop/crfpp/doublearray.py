"""The trie of CRF++'s binary models: a double array as the library Darts writes it.

========  ====================================================================
UNIT      a unit of the array: base and check
entries   its keys and their values
========  ====================================================================

A node has a base b. Its child along byte c is the unit p = b + c + 1 if ``check[p] = b``, and has
the base ``base[p]``. A key ends at a node if ``check[b] = b`` and ``base[b] < 0``; its value is
``-base[b] - 1``. The root is unit 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError

__all__ = ["UNIT", "entries"]

UNIT = np.dtype([("base", "<i4"), ("check", "<u4")])
_BYTES = [bytes([byte]) for byte in range(256)]


def entries(
    units: NDArray[np.void], *, limit: int, where: str
) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the keys of a double array, sorted, and the value of each.

    Parameters
    ----------
    units : UNIT [n]
    limit : int
        Bytes that its keys may have in all.
    where : str
        Name of the file, for messages.

    Raises
    ------
    ModelFileError
        An array that is no trie, or one with longer keys.
    """
    if not len(units):
        raise ModelFileError(f"{where}: the trie is empty")
    base, check = units["base"].astype(np.int64), units["check"].astype(np.int64)
    order = np.argsort(check, kind="stable")  # units by their parent, then by their byte
    parents = check[order]
    visited = np.zeros(len(units), dtype=bool)
    nodes, texts = np.zeros(1, dtype=np.int64), [b""]
    keys: list[bytes] = []
    values: list[int] = []
    while len(nodes):
        begin = base[nodes]
        if len(np.unique(begin)) < len(begin):
            raise ModelFileError(
                f"{where}: the trie of attributes is damaged: nodes share children"
            )
        ends = _ends(base, check, begin)
        keys += [texts[i] for i in ends.tolist()]
        values += (-base[begin[ends]] - 1).tolist()
        limit -= sum(len(texts[i]) for i in ends.tolist())
        parent, children = _children(begin, parents, order)
        byte = children - begin[parent] - 1
        real = (byte > 0) & (byte < 256) & (children > 0)
        parent, nodes, byte = parent[real], children[real], byte[real]
        if visited[nodes].any():
            raise ModelFileError(f"{where}: the trie of attributes is damaged: it has a loop")
        visited[nodes] = True
        if len(nodes) * (len(texts[0]) + 1) > limit:
            raise ModelFileError(
                f"{where}: the trie of attributes is damaged: its keys are too long"
            )
        texts = [texts[i] + _BYTES[c] for i, c in zip(parent.tolist(), byte.tolist(), strict=True)]
    order_of_keys = sorted(range(len(keys)), key=keys.__getitem__)
    return [keys[i] for i in order_of_keys], np.array(values, dtype=np.int64)[order_of_keys]


def _ends(
    base: NDArray[np.int64], check: NDArray[np.int64], begin: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the nodes, by place, at which a key ends."""
    inside: NDArray[np.int64] = np.flatnonzero((begin >= 0) & (begin < len(base)))
    place = begin[inside]
    ends: NDArray[np.bool_] = (check[place] == place) & (base[place] < 0)
    return inside[ends]


def _children(
    begin: NDArray[np.int64], parents: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the units whose check is the base of a node: the place of that node, and the unit."""
    first = np.searchsorted(parents, begin)
    counts = np.searchsorted(parents, begin, side="right") - first
    parent = np.repeat(np.arange(len(begin)), counts)
    within = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts)
    return parent, order[first[parent] + within]
