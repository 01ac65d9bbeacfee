"""The trie in which CRF++ looks attributes up: a double array, as the library Darts has it.

A node has a base b. Its child along byte c is the unit p = b + c + 1, with check[p] = b and the
child's base as base[p]. A key that ends at a node is the unit b itself: check[b] = b and
base[b] = −value − 1. The root's base is the base of unit 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Longs, Ragged

UNIT = np.dtype([("base", "<i4"), ("check", "<u4")])
_REACH = 257  # units from a base to the last of its children, and one
_WINDOW = 1024


class _Arcs(NamedTuple):
    """The arcs of a trie's nodes, sorted by node: to a child, or to the end of a key."""

    node: Longs  # [E]
    code: Longs  # [E]: 0 if a key ends, else byte + 1; ascending within a node
    child: Longs  # [E]: the child; −value − 1 if a key ends


def double_array(keys: Sequence[bytes], values: Longs) -> NDArray[np.void]:
    """Return the units of the double array that maps keys to values.

    Parameters
    ----------
    keys : sequence of bytes
        Sorted, distinct and nonempty, without zero bytes.
    values : int64 [n]
        From 0 to 2³¹ − 2.
    """
    arcs, n_nodes = _trie(keys, values)
    bounds = np.searchsorted(arcs.node, np.arange(n_nodes + 1))
    sizes = Ragged(bounds).lengths
    base = np.zeros(n_nodes, dtype=np.int64)
    end = _place_many(base, arcs, bounds, np.flatnonzero(sizes > 1))
    # Nodes with one arc fit anywhere: consecutive slots by descending code give ascending bases.
    alone = np.flatnonzero(sizes == 1)
    code = arcs.code[bounds[alone]]
    order = np.argsort(-code, kind="stable")
    base[alone[order]] = end + _REACH + np.arange(len(alone)) - code[order]
    units = np.zeros(end + 2 * _REACH + len(alone) + 1, dtype=UNIT)
    slot = base[arcs.node] + arcs.code
    units["check"][slot] = base[arcs.node]
    units["base"][slot] = np.where(arcs.code > 0, base[np.maximum(arcs.child, 0)], arcs.child)
    units["base"][0] = base[0]
    return units


def _trie(keys: Sequence[bytes], values: Longs) -> tuple[_Arcs, int]:
    """Return the arcs of the trie of keys and the number of its nodes; the root is node 0."""
    path, count = [0], 1
    parents: list[int] = []  # of the first new node of each key
    fresh: list[int] = []  # new nodes of each key
    ends: list[int] = []
    tails: list[bytes] = []
    before = b""
    for key in keys:
        shared = _shared(before, key)
        parents.append(path[shared])
        tails.append(key[shared:])
        fresh.append(len(key) - shared)
        path[shared + 1 :] = range(count, count + fresh[-1])
        count += fresh[-1]
        ends.append(path[len(key)])
        before = key
    child = np.arange(1, count, dtype=np.int64)
    parent = child - 1
    parent[Ragged.from_lengths(fresh).offsets[:-1]] = parents
    code = np.frombuffer(b"".join(tails), dtype=np.uint8).astype(np.int64) + 1
    node = np.concatenate([parent, np.asarray(ends, dtype=np.int64)])
    code = np.concatenate([code, np.zeros(len(keys), dtype=np.int64)])
    target = np.concatenate([child, -values - 1])
    order = np.lexsort((code, node))
    return _Arcs(node[order], code[order], target[order]), count


def _shared(a: bytes, b: bytes) -> int:
    """Return the number of common first bytes of two keys."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _place_many(base: Longs, arcs: _Arcs, bounds: Longs, nodes: Longs) -> int:
    """Place the bases of nodes with several arcs by first fit; return the end of their units.

    All nodes have different bases, and all arcs have different units.
    """
    size = 1 << 16
    used, taken = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    used[0] = taken[0] = True
    end, start = 1, 1
    widest = nodes[np.argsort(-(bounds[nodes + 1] - bounds[nodes]), kind="stable")]
    for node in widest.tolist():
        codes = arcs.code[bounds[node] : bounds[node + 1]]
        begin = start
        while True:
            if begin + _WINDOW + _REACH > len(used):
                used, taken = (np.concatenate([a, np.zeros_like(a)]) for a in (used, taken))
            free = _fitting(used, taken, codes, begin)
            place = int(free.argmax())
            if free[place]:
                break
            begin += _WINDOW
        start = max(start, begin - 4 * _WINDOW)  # earlier slots are nearly full
        base[node] = begin + place
        used[begin + place + codes] = True
        taken[begin + place] = True
        end = max(end, begin + place + int(codes[-1]) + 1)
    return end


def _fitting(used: Bools, taken: Bools, codes: Longs, begin: int) -> Bools:
    """Return which bases of a window leave all codes free."""
    blocked = taken[begin : begin + _WINDOW].copy()
    for code in codes.tolist():
        blocked |= used[begin + code : begin + code + _WINDOW]
    return ~blocked
