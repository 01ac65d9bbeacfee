"""The attributes of each token, as sparse rows.

A *row* is the number of an attribute: its row in the weight matrix ``[rows, slots]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Ints, Longs, Ragged, Singles
from fstcrf.errors import ShapeError
from fstcrf.kernel import SparseRows


@dataclass(frozen=True, slots=True)
class Design:
    """The design matrix of a corpus.

    Parameters
    ----------
    node : SparseRows [N, node attributes]
        Attributes of single labels (templates ``U``).
    arc : SparseRows [N, arc attributes] or None
        Attributes of label pairs (templates ``B`` with macros): row ``t`` belongs to the pair of
        labels at ``t - 1`` and ``t``, so first tokens of sentences have no attributes. `None` if no
        template has such attributes.
    """

    node: SparseRows
    arc: SparseRows | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Attributes from one template family, sorted by token."""

    tokens: Ints | None  # [n]: token of each entry; ``0 .. N - 1`` if `None`
    rows: Ints  # [n]: attribute of each entry
    values: Singles | None = None  # [n]: value of each entry; all 1 if `None`


def assembled(n_tokens: int, blocks: Sequence[Block], n_rows: int) -> SparseRows:
    """Join blocks to sparse rows: within a token, the entries of earlier blocks come first.

    Complexity: O(n_tokens · blocks + entries).
    """
    counts = np.zeros(n_tokens, dtype=np.int64)
    for block in blocks:
        counts += 1 if block.tokens is None else np.bincount(block.tokens, minlength=n_tokens)
    indptr = Ragged.from_lengths(counts).offsets
    rows = np.empty(int(indptr[-1]), dtype=np.int32)
    values = None
    if any(block.values is not None for block in blocks):
        values = np.ones(len(rows), dtype=np.float32)
    cursor = indptr[:-1].copy()
    for block in blocks:
        place, used = _places(block.tokens, cursor)
        rows[place] = block.rows
        if values is not None and block.values is not None:
            values[place] = block.values
        cursor += used
    return SparseRows(indptr, rows, values, n_rows)


def _places(tokens: Ints | None, cursor: Longs) -> tuple[Longs, Longs | int]:
    """Return the positions of a block's entries, and the number of entries of each token."""
    if tokens is None:
        return cursor.copy(), 1
    used = Ragged.from_rows(tokens, len(cursor))
    first = cursor - used.offsets[:-1]  # minus the entries of earlier tokens
    return first[tokens] + np.arange(len(tokens)), used.lengths


def check_order(order: Ints, n_rows: int) -> Ints:
    """Return a renumbering of rows, checked to be a permutation."""
    order = np.ascontiguousarray(order, dtype=np.int32)
    seen = np.zeros(n_rows, dtype=bool)
    if order.shape == (n_rows,) and not np.any((order < 0) | (order >= n_rows)):
        seen[order] = True
    if order.shape != (n_rows,) or not seen.all():
        raise ShapeError(f"order is {list(order.shape)}, expected a permutation of {n_rows} rows")
    return order
