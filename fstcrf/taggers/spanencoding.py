"""Segments encoded as labels of tokens, in a tagging scheme such as IOB2.

A tagger of segments writes these labels on its tape, so that its answers look like the answers of a
tagger of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import OptionError
from fstcrf.lattices import Lattice
from fstcrf.lazy import made_once
from fstcrf.machines.topology import Topology, chain_topology
from fstcrf.text.corpus.schemes import OUTSIDE, named_scheme, span_letters

_SINGLE, _FIRST, _SINGLE_TOUCHING, _FIRST_TOUCHING, _INNER, _LAST = range(6)
# (tokens of the span, place of the token in it, whether it directly follows a span of its type)
_PLACES = ((1, 0, False), (2, 0, False), (1, 0, True), (2, 0, True), (3, 1, False), (2, 1, False))


class SpanEncoding:
    """The encoding of segments as labels of tokens.

    Parameters
    ----------
    types : tuple of str
        Labels of segments; "O" is the label of a token outside of segments.
    scheme : str
        Name of a tagging scheme that can be written, such as "iob2".

    Attributes
    ----------
    labels : tuple of str
        The labels of tokens.
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
        """The topology of order 0 over the labels of tokens."""
        return chain_topology(self.labels, 0)

    def ids(self, offsets: Longs, start: Longs, end: Longs, kind: Ints) -> Ints:
        """Return the label of each token of B sentences, int32 [N].

        Parameters
        ----------
        offsets : int64 [B + 1]
            Bounds of the sentences among the tokens.
        start, end : int64 [M]
            Tokens of each segment, in ascending order, numbered across sentences.
        kind : int32 [M]
            Type of each segment, an index into `types`.
        """
        kept = kind != self._outside
        spans = start[kept], end[kept], kind[kept]
        ids: Ints = self._label[_codes(offsets, *spans, len(self.types))]
        return ids

    def written(self, start: Sequence[int], end: Sequence[int], types: Sequence[str]) -> list[str]:
        """Return the labels of the tokens of a sentence that these segments cover."""
        if not start:
            return []
        kind = np.asarray([self.types.index(name) for name in types], dtype=np.int32)
        bounds = np.asarray(start, dtype=np.int64), np.asarray(end, dtype=np.int64)
        return [self.labels[k] for k in self.ids(np.array([0, end[-1]]), *bounds, kind).tolist()]

    def added(self, table: Floats, start: Longs, end: Longs, kind: Longs) -> Floats:
        """Return the summed scores of the labels of each segment's tokens, float64 [E].

        Parameters
        ----------
        table : float64 [T, labels]
            Score of each label at each token; −inf forbids it.
        start, end, kind : int64 [E]
            Tokens and type of each segment.

        Raises
        ------
        OptionError
            The labels of a segment depend on the previous segment, as in scheme "iob1".
        """
        label = self._label_of_place()
        dead = np.isneginf(table)
        totals = np.zeros((2, len(table) + 1, table.shape[1]))
        np.cumsum(np.where(dead, 0.0, table), axis=0, out=totals[0, 1:])
        np.cumsum(dead, axis=0, out=totals[1, 1:])
        several, last = end - start > 1, end - 1
        value = table[start, np.where(several, label[_FIRST, kind], label[_SINGLE, kind])]
        inner = label[_INNER, kind]
        between = totals[:, np.maximum(last, start + 1), inner] - totals[:, start + 1, inner]
        value = value + np.where(several, table[last, label[_LAST, kind]], 0.0)
        return np.where(between[1] > 0, -np.inf, value + between[0])

    def marginals(self, lattice: Lattice, tape: str) -> Floats:
        """Return the probability of each label at each token of a lattice's tape, [T, labels].

        Raises
        ------
        NoPathError
            The lattice has no path.
        OptionError
            The labels of a segment depend on the previous segment, as in scheme "iob1".
        """
        spans, length = lattice.probable_spans(0.0, tape=tape), len(lattice)
        label = self._label_of_place()
        start, end, kind = spans.start, spans.end, spans.type
        total, change = np.zeros((2, length + 1, len(self.labels)))
        several = end - start > 1
        first = np.where(several, label[_FIRST, kind], label[_SINGLE, kind])
        np.add.at(total, (start, first), spans.probability)
        start, end, kind = start[several], end[several], kind[several]
        share = spans.probability[several]
        np.add.at(total, (end - 1, label[_LAST, kind]), share)
        np.add.at(change, (start + 1, label[_INNER, kind]), share)
        np.add.at(change, (end - 1, label[_INNER, kind]), -share)
        return np.clip(total + np.cumsum(change, axis=0), 0.0, 1.0)[:-1]

    def _label_of_place(self) -> Ints:
        """Return the label for each place and type, [places, types]."""
        label = self._label[:-1].reshape(-1, len(self.types))
        if (label[[_SINGLE, _FIRST]] != label[[_SINGLE_TOUCHING, _FIRST_TOUCHING]]).any():
            raise OptionError(
                f"in scheme {self.scheme!r} the labels of a segment depend on the previous "
                "token: for known labels, biases and marginals use another scheme, such as "
                "writes='iob2'"
            )
        return label


def _names(types: Sequence[str], scheme: str) -> list[str]:
    """Return the label for each place and type, in the order of `_codes`."""
    table = named_scheme(scheme)
    names: list[str] = []
    for length, place, touches in _PLACES:
        letter = span_letters(length, table, touches=touches)[place]
        names += [f"{letter}-{name}" if name else letter for name in types]
    return [*names, OUTSIDE]


def _codes(offsets: Longs, start: Longs, end: Longs, kind: Ints, types: int) -> Longs:
    """Return place · types + type of each token; tokens outside of spans have the last code.

    The places are listed in `_PLACES`. `SpanEncoding.ids` explains the parameters.
    """
    first_in = np.isin(start, offsets)
    touching = np.zeros(len(start), dtype=np.int64)  # 1: directly after a span of its type
    touching[1:] = (start[1:] == end[:-1]) & (kind[1:] == kind[:-1]) & ~first_in[1:]
    size = end - start
    code = np.full(int(offsets[-1]), len(_PLACES) * types, dtype=np.int64)
    tokens = Ragged.from_lengths(size)
    code[tokens.ranges(start)] = _INNER * types + tokens.repeat(kind)
    code[end - 1] = _LAST * types + kind
    code[start] = (2 * touching + (size > 1)) * types + kind
    return code
