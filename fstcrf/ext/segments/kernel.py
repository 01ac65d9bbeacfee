"""Semi-Markov chains: segments of labels that tile sentences; sums, expectations, best segments.

Every stretch of up to D tokens may be a segment of any label; its score is a sum over its tokens
plus scores of this segment. Scores are natural logs. Rows of labels are padded to P = `padded`
columns, with arbitrary values after the labels. Phrases of lexicons are found in sentences by a
trie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, ShapeError, TooLargeError
from fstcrf.kernel.native import SLOT, array_in, array_out, check, ffi, lib
from fstcrf.kernel.rows import hash_table
from fstcrf.lazy import made_once


@dataclass(frozen=True, eq=False)
class SemiMarkov:
    """The parameters that all sentences share.

    Parameters
    ----------
    longest : int32 [L]
        Tokens of the longest segment of each label, 1 to D; longer ones have a tail.
    length : float64 [D + 2, P]
        Scores of lengths 1 to D, −inf for impossible ones; then two rows for segments with a tail:
        the score that replaces the score of a length (−inf forbids tails), and the score of each
        token of the tail.
    pair : float64 [L, P]
        Score of a label (column) after another one (row).
    initial, final : float64 [P]
    """

    longest: Ints
    length: Floats
    pair: Floats
    initial: Floats
    final: Floats

    def __post_init__(self) -> None:
        labels, width = self.pair.shape
        shapes = (self.longest.shape, self.initial.shape, self.final.shape)
        if shapes != ((labels,), (width,), (width,)) or self.length.shape[1:] != (width,):
            raise ShapeError(
                f"scores have {width} columns for {labels} labels, which does not match"
            )

    @property
    def depth(self) -> int:
        """Tokens of the longest segment without a tail, D."""
        return len(self.length) - 2

    @made_once
    def turned(self) -> Floats:
        """Score of a label (column) before another one (row), [L, P]; C points into it."""
        labels, width = self.pair.shape
        turned = np.zeros((labels, width))
        turned[:, :labels] = self.pair[:, :labels].T
        return turned

    @made_once
    def handle(self) -> Any:
        """The kernel's structure."""
        labels, width = self.pair.shape
        arrays = {"length": self.length, "pair": self.pair, "turned": self.turned}
        arrays |= {"initial": self.initial, "final": self.final}
        fields = {k: array_in(v, np.float64, v.shape, k) for k, v in arrays.items()}
        fields["longest"] = array_in(self.longest, np.int32, (labels,), "longest")
        return ffi.new("fc_semimarkov *", {"L": labels, "P": width, "D": self.depth, **fields})


class Extras(NamedTuple):
    """Scores of single segments: values at cells (s · D + d − 1) · P + l of a sentence."""

    offset: Longs  # [B + 1]
    cell: Ints
    what: Ints  # which value

    def run(self, first: int, last: int) -> Extras:
        """Return the extras of a run of sentences."""
        a, b = self.offset[[first, last]].tolist()
        cell, what = np.ascontiguousarray(self.cell[a:b]), np.ascontiguousarray(self.what[a:b])
        return Extras(self.offset[first : last + 1] - a, cell, what)


class SegmentSums(NamedTuple):
    """log Z of sentences, and expected counts of each score."""

    log_z: Floats  # [B]
    token: Floats  # [N, 3, P]
    value: Floats  # [V]
    length: Floats  # [D + 2, P]
    pair: Floats  # [L, P]
    initial: Floats  # [P]
    final: Floats  # [P]


def _text(
    machine: SemiMarkov, offset: Longs, token: Floats, extras: Extras, value: Floats
) -> tuple[Any, Floats]:
    """Return the sentences as the kernel's structure, and scratch memory for them."""
    n, width = int(offset[-1]), machine.pair.shape[1]
    longest = Ragged(offset).longest
    room = lib.fc_semimarkov_room(longest, width, machine.depth)
    if room < 0:
        raise TooLargeError(
            f"a sentence of {longest:,} tokens, segments of up to {machine.depth}: too long for "
            "memory; cut it, or allow shorter segments",
            tokens=longest,
        )
    count = len(extras.cell)
    if extras.offset.shape != offset.shape or int(extras.offset[-1]) != count:
        raise ShapeError("extras do not belong to the same sentences")
    fields = {
        "offset": array_in(offset, np.int64, offset.shape, "offset"),
        "token": array_in(token, np.float64, (n, 3, width), "token"),
        "extra": array_in(extras.offset, np.int64, offset.shape, "extra"),
        "cell": array_in(extras.cell, np.int32, (count,), "cell"),
        "what": array_in(extras.what, np.int32, (count,), "what"),
        "value": array_in(value, np.float64, value.shape, "value"),
    }
    sizes = {"B": len(offset) - 1, "N": n, "V": len(value)}
    return ffi.new("fc_segment_text *", {**sizes, **fields}), np.empty(room)


def _check(status: int, what: str, sentence: int) -> None:
    if status == lib.FC_ENUMERIC:
        whose = "a segment's own score" if sentence < 0 else f"scores of sentence {sentence}"
        raise NumericError(f"{what}: {whose}: NaN, +inf or beyond 1e300, or they add up to that")
    check(status, what, sentence)


def segment_sums(
    machine: SemiMarkov,
    offset: Longs,
    token: Floats,
    extras: Extras,
    value: Floats,
    *,
    out: Floats | None = None,
) -> SegmentSums:
    """Return log Z of each sentence, and expected counts over all of them.

    Parameters
    ----------
    machine : SemiMarkov
    offset : int64 [B + 1]
    token : float64 [N, 3, P]
        Scores of each token as the first of a segment, as any of its tokens, and as its last.
    extras : Extras
    value : float64 [V]
    out : float64 [N, 3, P], optional
        Output array for the expected counts of tokens; must differ from `token`.

    Raises
    ------
    NumericError
        Scores that are NaN, +inf or beyond 1e300, or add up to that.
    TooLargeError
        A sentence too long for memory.
    """
    if out is not None and out.shape != token.shape:
        raise ShapeError(f"out is {list(out.shape)}, expected {list(token.shape)}")
    text, work = _text(machine, offset, token, extras, value)
    sums = SegmentSums(
        np.empty(len(offset) - 1),
        np.empty_like(token) if out is None else out,
        np.zeros(len(value)),
        np.zeros_like(machine.length),
        np.zeros_like(machine.pair),
        np.zeros_like(machine.initial),
        np.zeros_like(machine.final),
    )
    where = ffi.new("int64_t *")
    status = lib.fc_semimarkov_sums(
        machine.handle,
        text,
        array_out(sums.log_z),
        array_out(sums.token),
        array_out(sums.value),
        array_out(sums.length),
        array_out(sums.pair),
        array_out(sums.initial),
        array_out(sums.final),
        len(work),
        array_out(work),
        where,
    )
    _check(status, "segment sums", where[0])
    return sums


def best_segments(
    machine: SemiMarkov, offset: Longs, token: Floats, extras: Extras, value: Floats
) -> tuple[Floats, Ints]:
    """Return the score of the best segments of each sentence, and their labels, int32 [N].

    The label is at the first token of a segment; the other tokens have −1. Arguments and errors as
    for `segment_sums`. Ties: the smaller label, then the shorter segment, at the earliest token.
    """
    text, work = _text(machine, offset, token, extras, value)
    score, label = np.empty(len(offset) - 1), np.empty(int(offset[-1]), dtype=np.int32)
    where = ffi.new("int64_t *")
    status = lib.fc_semimarkov_best(
        machine.handle, text, array_out(score), array_out(label), len(work), array_out(work), where
    )
    _check(status, "best segments", where[0])
    return score, label


# --- Phrases in sentences: stretches of tokens that a trie over numbers of strings has ------------


class PhraseTrie(NamedTuple):
    """A trie, and the weights of its nodes; node 0 is the root.

    first : int32 [strings]; child of the root for each string, 0 without one.
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
        Nodes out of range, or rows that are not ascending.
    """

    def __init__(self, tries: Sequence[PhraseTrie], *, depth: int, width: int) -> None:
        self._depth, self._width, self._count = depth, width, len(tries)
        self._held = [self._fields(k, trie) for k, trie in enumerate(tries)]
        self._tries = ffi.new("fc_phrases[]", self._held)

    def _fields(self, k: int, trie: PhraseTrie) -> dict[str, Any]:
        strings, nodes, weights = len(trie.first), len(trie.row) - 1, len(trie.label)
        far, rises = np.flatnonzero(trie.parent > 0), (np.diff(trie.row) >= 0).all()
        node = [trie.first.min(initial=0), trie.first.max(initial=0), far.max(initial=-1) + 1]
        rows = nodes > 0 and rises and trie.row[0] == 0 and trie.row[-1] == weights
        if not rows or min(node) < 0 or max(node) >= nodes:
            raise ShapeError(f"phrases {k}: a node or a row leads outside the trie")
        keys = (trie.parent[far] * strings + trie.string[far]).astype(np.uint64)
        slots = hash_table(keys, (far + 1).astype(np.int32))
        arrays = {
            "first": array_in(trie.first, np.int32, (strings,), "first"),
            "slot": array_in(slots, SLOT, slots.shape, "slots"),
            "row": array_in(trie.row, np.int64, (nodes + 1,), "row"),
            "label": array_in(trie.label, np.int32, (weights,), "label"),
            "weight": array_in(trie.weight, np.int32, (weights,), "weight"),
        }
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
