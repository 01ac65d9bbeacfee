"""Potentials of tokens whose attributes come from the token itself and from its neighbours.

Many taggers of short texts describe a token by a function of its string, and use the same function
for its neighbours, under a prefix: ``word:main``, ``previous:word:east``. Repeated computations are
therefore unnecessary: the contributions of a distinct token to the potentials of its position and
of its neighbours are cached, and the potentials of a sentence are sums of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from fstcrf.arrays import Floats, Longs, Ragged
from fstcrf.errors import OptionError
from fstcrf.lazy import made_once
from fstcrf.taggers.crf import CRF
from fstcrf.taggers.weights import WeightTable
from fstcrf.text.features import LiteralIndex

__all__ = ["NEIGHBOURS", "TokenPotentials"]

NEIGHBOURS: Mapping[int, str] = {-1: "previous:", 0: "", 1: "next:"}
"""Prefixes of the attributes of the previous and next token, in parserator's naming."""

_Key: TypeAlias = str | tuple[str, bool, bool] | None
"""A token; a token that is the first, the last one, or both; no token."""


class TokenPotentials:
    """Potentials of tokens by a function from a token to its attributes.

    Computes the same potentials as ``crf.index.design`` and the weights for sentences with all
    attributes. The rows of distinct tokens are kept; beyond `capacity` it begins anew. Not to be
    used by two threads at once.

    Parameters
    ----------
    crf : CRF
        Over attributes by name.
    attributes : callable
        Token → the attributes that it has, each with the value 1.
    views : mapping of int to str
        Which neighbours a token sees, by distance, and the prefix of their attributes; 0 is the
        token itself.
    first, last : sequence of str
        Additional attributes of the first and of the last token of a sentence.
    capacity : int
        Distinct tokens to keep between calls, each 8 · views · states bytes; those at the ends of
        sentences count for themselves.

    Raises
    ------
    OptionError
        A tagger over columns, hashed attributes or attributes of label pairs; a capacity below 1.

    Examples
    --------
    >>> import fstcrf
    >>> def attributes(token):
    ...     return [f"word:{token.lower()}", *(["digits"] if token.isdigit() else [])]
    >>> sentence = [["digits", "next:word:elm"], ["word:elm", "previous:digits"]]
    >>> crf = fstcrf.CRF.train([sentence], [["Number", "Street"]])
    >>> offsets, node = TokenPotentials(crf, attributes).node([["12", "Elm"]])
    >>> offsets.tolist(), node.shape
    ([0, 2], (2, 2))
    """

    def __init__(
        self,
        crf: CRF,
        attributes: Callable[[str], Sequence[str]],
        *,
        views: Mapping[int, str] = NEIGHBOURS,
        first: Sequence[str] = (),
        last: Sequence[str] = (),
        capacity: int = 1 << 16,
    ) -> None:
        if not isinstance(crf.index, LiteralIndex) or crf.index.hash_bits is not None:
            raise OptionError("the tagger reads columns or hashed attributes, expected named ones")
        if crf._weights.has_arc_attributes:
            raise OptionError(
                "the tagger has attributes of label pairs, expected only attributes of "
                "single labels"
            )
        if capacity < 1:
            raise OptionError(f"capacity is {capacity}, expected at least 1")
        self.crf, self.capacity = crf, capacity
        self._attributes, self._views = attributes, dict(views)
        self._ends = first, last
        self._row: dict[_Key, int] = {}
        self._table = np.empty((0, 0, 0))
        self.forget()

    def node(self, sentences: Sequence[Sequence[str]]) -> tuple[Longs, Floats]:
        """Return bounds of sentences, int64 [B + 1], and potentials of states, float64 [N, S]."""
        offsets = Ragged.from_lengths(map(len, sentences)).offsets
        row = self._rows_of(self._keys(sentences))
        place = np.flatnonzero(row)
        node = np.zeros((len(place), self._width))
        for view, distance in enumerate(self._views):
            node += self._table[view].take(row[place + distance], axis=0)
        return offsets, node

    def forget(self) -> None:
        """Forget all distinct tokens; the next ones are computed anew."""
        self._row = {None: 0}
        self._table = np.zeros((len(self._views), 1, self._width))

    # --- Distinct tokens ----------------------------------------------------------------------

    def _keys(self, sentences: Sequence[Sequence[str]]) -> list[_Key]:
        """Return tokens, those at ends marked, with gaps as wide as a token sees around them."""
        gap: list[_Key] = [None] * max(map(abs, self._views), default=0)
        keys = gap.copy()
        for tokens in sentences:
            if len(tokens) > 1:
                keys.append((tokens[0], True, False))
                keys += tokens[1:-1]
                keys.append((tokens[-1], False, True))
            elif tokens:
                keys.append((tokens[0], True, True))
            keys += gap
        return keys

    def _rows_of(self, keys: list[_Key]) -> Longs:
        """Return the rows of tokens in the table, and make missing ones; 0 in gaps."""
        try:
            return np.fromiter(map(self._row.__getitem__, keys), np.int64, len(keys))
        except KeyError:
            self._learn(keys)
        return np.fromiter(map(self._row.__getitem__, keys), np.int64, len(keys))

    def _learn(self, keys: list[_Key]) -> None:
        new = [key for key in dict.fromkeys(keys) if key not in self._row]
        first = len(self._row)
        if first + len(new) > self.capacity + 1 and first > 1:
            self.forget()
            self._learn(keys)
            return
        end = first + len(new)
        if end > self._table.shape[1]:
            larger = np.zeros((len(self._views), max(end, 2 * first), self._width))
            larger[:, :first] = self._table[:, :first]
            self._table = larger
        self._table[:, first:end] = self._spread(map(self._described, new))
        self._row.update(zip(new, range(first, end), strict=True))

    def _described(self, key: _Key) -> list[str]:
        """Return the attributes of a token, including attributes of its place."""
        if isinstance(key, tuple):
            token, is_first, is_last = key
            ends = (self._ends[0] if is_first else ()), (self._ends[1] if is_last else ())
            return [*self._attributes(token), *ends[0], *ends[1]]
        return [] if key is None else list(self._attributes(key))

    # --- From attributes to potentials --------------------------------------------------------

    @property
    def _width(self) -> int:
        return self.crf.topology.n_states

    def _spread(self, tokens: Iterable[Sequence[str]]) -> Floats:
        """Return the contributions of tokens to each view, float64 [views, tokens, S]."""
        index, weights = self._by_view
        found = weights.times(index.design([list(tokens)]).node)
        return found.reshape(-1, len(self._views), self._width).swapaxes(0, 1)

    @made_once
    def _by_view(self) -> tuple[LiteralIndex, WeightTable]:
        """The attributes without their prefixes, and their weights by view and state."""
        names = self.crf.index.attribute_strings  # type: ignore[union-attr]  # checked
        views = [_seen(names, prefix) for prefix in self._views.values()]
        number = {name: k for k, name in enumerate(dict.fromkeys(n for v in views for n in v))}
        cells = self.crf._weights.node_cells()
        row, column, weight = [], [], []
        for view, bare in enumerate(views):
            base = np.full(len(names), -1, dtype=np.int64)
            base[list(bare.values())] = [number[name] for name in bare]
            there = base[cells.row] >= 0
            row.append(base[cells.row[there]])
            column.append(cells.column[there] + view * self._width)
            weight.append(cells.weight[there])
        spread = WeightTable.of(
            np.concatenate(row),
            np.concatenate(column),
            np.concatenate(weight),
            n_rows=len(number),
            width=len(views) * self._width,
        )
        return LiteralIndex(tuple(number)), spread


def _seen(names: Sequence[str], prefix: str) -> dict[str, int]:
    """Return the attributes with a prefix, without it, and their rows."""
    return {
        name.removeprefix(prefix): row for row, name in enumerate(names) if name.startswith(prefix)
    }
