"""Phrases in sentences: stretches of tokens that a trie over numbers of strings has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fstcrf.arrays import Ints, Longs
from fstcrf.errors import ShapeError, TooLargeError
from fstcrf.kernel.lookup import hash_table
from fstcrf.kernel.native import SLOT, array_in, array_out, check, ffi, lib
from fstcrf.kernel.semimarkov import Extras


class PhraseTrie(NamedTuple):
    """A trie, and the weights of its nodes; node 0 is the root.

    first : int32 [strings]; child of the root over each string, 0: none.
    parent, string : int64 [n - 1]; of node k + 1; children of the root may be left out.
    row : int64 [nodes + 1]; weights of each node.
    label, weight : int32 [weights].
    """

    first: Ints
    parent: Longs
    string: Longs
    row: Longs
    label: Ints
    weight: Ints


class PhraseFinder:
    """Tries ready to be looked up, again and again.

    Parameters
    ----------
    tries : sequence of PhraseTrie
    depth : int
        Tokens of the longest stretch, D.
    width : int
        Columns of a row of labels, P.

    Raises
    ------
    ShapeError
        Nodes outside what they may be, rows that do not rise.
    """

    def __init__(self, tries: Sequence[PhraseTrie], *, depth: int, width: int) -> None:
        self._held: list[Any] = []
        self._depth, self._width = depth, width
        self._tries = ffi.new("fc_phrases[]", [self._fields(trie) for trie in tries])
        self._count, where = len(tries), ffi.new("int64_t *")
        for k in range(len(tries)):
            if lib.fc_check_phrases(self._tries + k, where) != lib.FC_OK:
                raise ShapeError(f"phrases {k}: node or string {where[0]} leads outside the trie")

    def _fields(self, trie: PhraseTrie) -> dict[str, Any]:
        strings, nodes, weights = len(trie.first), len(trie.row) - 1, len(trie.label)
        far = np.flatnonzero(trie.parent > 0)
        keys = (trie.parent[far] * strings + trie.string[far]).astype(np.uint64)
        slots = hash_table(keys, (far + 1).astype(np.int32))
        arrays = {
            "first": array_in(trie.first, np.int32, (strings,), "first"),
            "slot": array_in(slots, SLOT, slots.shape, "slots"),
            "row": array_in(trie.row, np.int64, (nodes + 1,), "row"),
            "label": array_in(trie.label, np.int32, (weights,), "label"),
            "weight": array_in(trie.weight, np.int32, (weights,), "weight"),
        }
        self._held.append(arrays)
        sizes = {"strings": strings, "nodes": nodes, "weights": weights, "size": len(slots)}
        return {**sizes, "shift": 65 - len(slots).bit_length(), **arrays}

    def extras(self, offset: Longs, token: Ints) -> Extras:
        """Return the weights of all stretches that are phrases.

        Parameters
        ----------
        offset : int64 [B + 1]
        token : int32 [tries, N]
            Number of each token's string, below 0: it is unknown.

        Raises
        ------
        TooLargeError
            A sentence too long for memory.
        """
        sentences, tokens = len(offset) - 1, int(offset[-1])
        node = np.empty((self._count, tokens, self._depth), dtype=np.int32)
        extra, where = np.empty(sentences + 1, dtype=np.int64), ffi.new("int64_t *")
        view = array_in(offset, np.int64, offset.shape, "offset")
        status = lib.fc_find_phrases(
            self._count,
            self._tries,
            sentences,
            view,
            array_in(token, np.int32, (self._count, tokens), "token"),
            self._depth,
            array_out(node),
            array_out(extra),
            where,
        )
        check(status, "looking phrases up", where[0])
        cell, what = np.empty((2, int(extra[-1])), dtype=np.int32)
        status = lib.fc_phrase_weights(
            self._count,
            self._tries,
            sentences,
            view,
            self._depth,
            self._width,
            array_in(node, np.int32, node.shape, "node"),
            array_in(extra, np.int64, extra.shape, "extra"),
            array_out(cell),
            array_out(what),
            where,
        )
        if status == lib.FC_EFULL:
            raise TooLargeError(f"sentence {where[0]} is too long for memory: cut it")
        check(status, "weights of phrases", where[0])
        return Extras(extra, cell, what)
