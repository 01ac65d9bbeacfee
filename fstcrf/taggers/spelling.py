"""Segments spelled as labels of tokens: what a tagger of segments writes on its tape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import OptionError
from fstcrf.lattices import Lattice
from fstcrf.lazy import made_once
from fstcrf.machines.topology import Topology, chain_topology
from fstcrf.ragged import Ragged
from fstcrf.text.corpus.schemes import OUTSIDE, named_scheme, span_letters

_ALONE, _FIRST, _ALONE_BEHIND, _FIRST_BEHIND, _INNER, _LAST = range(6)
# (tokens of a span, place of one, whether a span of its type stands before it)
_PLACES = ((1, 0, False), (2, 0, False), (1, 0, True), (2, 0, True), (3, 1, False), (2, 1, False))


class Spelling:
    """How segments of some types are written as labels of tokens.

    Parameters
    ----------
    types : tuple of str
        Labels of segments; "O" is that of a token outside.
    scheme : str
        One that can be written.

    Attributes
    ----------
    labels : tuple of str
        Labels of tokens.
    """

    def __init__(self, types: tuple[str, ...], scheme: str) -> None:
        self.types, self.scheme = types, scheme
        names = _names(types, scheme)
        outside = types.index(OUTSIDE) if OUTSIDE in types else -1
        if outside >= 0:
            names[outside :: len(types)] = [OUTSIDE] * len(names[outside :: len(types)])
        order = np.arange(len(names) - 1).reshape(-1, len(types)).T.ravel().tolist()
        self.labels = tuple(dict.fromkeys(names[k] for k in order))
        number = {label: k for k, label in enumerate(self.labels)}
        self._label = np.asarray([number.get(name, -1) for name in names], dtype=np.int32)
        self._outside = outside

    @made_once
    def loose(self) -> frozenset[int]:
        """Types whose labels do not show where a segment begins."""
        if self.scheme == "io":
            return frozenset(range(len(self.types)))
        return frozenset({self._outside} - {-1})

    @made_once
    def topology(self) -> Topology:
        """The labels of tokens, each a state."""
        return chain_topology(self.labels, 0)

    def ids(self, offsets: Longs, start: Longs, end: Longs, kind: Ints) -> Ints:
        """Return the label of each token of sentences, int32 [N], of segments in their order.

        Parameters
        ----------
        offsets : int64 [B + 1]
            Bounds of the sentences among the tokens.
        start, end : int64 [M]
            Tokens, numbered through.
        kind : int32 [M]
            Index into the types.
        """
        kept = kind != self._outside
        spans = start[kept], end[kept], kind[kept]
        ids: Ints = self._label[_codes(offsets, *spans, len(self.types))]
        return ids

    def written(self, start: Sequence[int], end: Sequence[int], types: Sequence[str]) -> list[str]:
        """Return the labels of the tokens of one sentence that has these segments."""
        if not start:
            return []
        kind = np.asarray([self.types.index(name) for name in types], dtype=np.int32)
        bounds = np.asarray(start, dtype=np.int64), np.asarray(end, dtype=np.int64)
        return [self.labels[k] for k in self.ids(np.array([0, end[-1]]), *bounds, kind).tolist()]

    def added(self, table: Floats, start: Longs, end: Longs, kind: Longs) -> Floats:
        """Return the sum of what the tokens of each segment have for its labels, float64 [E].

        Parameters
        ----------
        table : float64 [T, labels]
            For each label of a token; −inf: it is forbidden.
        start, end, kind : int64 [E]

        Raises
        ------
        OptionError
            A scheme in which the labels of a segment depend on the one before.
        """
        name = self._names()
        dead = np.isneginf(table)
        totals = np.zeros((2, len(table) + 1, table.shape[1]))
        np.cumsum(np.where(dead, 0.0, table), axis=0, out=totals[0, 1:])
        np.cumsum(dead, axis=0, out=totals[1, 1:])
        several, last = end - start > 1, end - 1
        value = table[start, np.where(several, name[_FIRST, kind], name[_ALONE, kind])]
        inner = name[_INNER, kind]
        between = totals[:, np.maximum(last, start + 1), inner] - totals[:, start + 1, inner]
        value = value + np.where(several, table[last, name[_LAST, kind]], 0.0)
        return np.where(between[1] > 0, -np.inf, value + between[0])

    def marginals(self, lattice: Lattice, tape: str) -> Floats:
        """Return the probability of each label at each token, [T, labels], of a tape of a lattice.

        Raises
        ------
        NoPathError
            There is no path.
        OptionError
            A scheme in which the labels of a segment depend on the one before.
        """
        spans, length = lattice.probable_spans(0.0, tape=tape), len(lattice)
        name = self._names()
        start, end, kind = spans.start, spans.end, spans.type
        total, change = np.zeros((2, length + 1, len(self.labels)))
        several = end - start > 1
        np.add.at(
            total,
            (start, np.where(several, name[_FIRST, kind], name[_ALONE, kind])),
            spans.probability,
        )
        start, end, kind = start[several], end[several], kind[several]
        share = spans.probability[several]
        np.add.at(total, (end - 1, name[_LAST, kind]), share)
        np.add.at(change, (start + 1, name[_INNER, kind]), share)
        np.add.at(change, (end - 1, name[_INNER, kind]), -share)
        return np.clip(total + np.cumsum(change, axis=0), 0.0, 1.0)[:-1]

    def _names(self) -> Ints:
        """Labels by place and type, [places, types]."""
        name = self._label[:-1].reshape(-1, len(self.types))
        if (name[[_ALONE, _FIRST]] != name[[_ALONE_BEHIND, _FIRST_BEHIND]]).any():
            raise OptionError(
                f"in scheme {self.scheme!r} the labels of a segment depend on the previous "
                "token: for known labels, biases and marginals use another scheme, such as "
                "writes='iob2'"
            )
        return name


def _names(types: Sequence[str], scheme: str) -> list[str]:
    """Return the labels of the places that tokens of spans may have, numbered as `_codes`."""
    table = named_scheme(scheme)
    names: list[str] = []
    for length, place, touches in _PLACES:
        letter = span_letters(length, table, touches=touches)[place]
        names += [f"{letter}-{name}" if name else letter for name in types]
    return [*names, OUTSIDE]


def _codes(offsets: Longs, start: Longs, end: Longs, kind: Ints, types: int) -> Longs:
    """Return the place and type of each token, place · types + type; the last is outside.

    Positions: of one token, the first, both right behind a span of the type, inside, the last;
    arguments as for `Spelling.ids`.
    """
    first_in = np.isin(start, offsets)
    behind = np.zeros(len(start), dtype=np.int64)  # 1: right behind another of its type
    behind[1:] = (start[1:] == end[:-1]) & (kind[1:] == kind[:-1]) & ~first_in[1:]
    size = end - start
    code = np.full(int(offsets[-1]), len(_PLACES) * types, dtype=np.int64)
    tokens = Ragged.from_lengths(size)
    code[tokens.ranges(start)] = _INNER * types + tokens.repeat(kind)
    code[end - 1] = _LAST * types + kind
    code[start] = (2 * behind + (size > 1)) * types + kind
    return code
