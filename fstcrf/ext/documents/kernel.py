"""Gibbs sampling of a document: a graph for its sentences, penalties of spans that disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fstcrf.arrays import Bools, Bytes, Floats, Ints, Longs
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.kernel.graphs import Graph, GraphCall, viterbi
from fstcrf.kernel.native import array_in, array_out, check, ffi, frozen, lib


@dataclass(frozen=True, eq=False, slots=True)
class SequenceTables:
    """Penalties of spans with the same tokens, and of spans within others.

    From ``sequence[first[n]]`` on are the numbers of the sequences of 1, 2, ... tokens from token n
    on that occur twice or more.
    """

    first: Longs  # [N + 1]
    sequence: Ints
    same: Floats  # [Y, Y] log penalties for each token, by the types of one sequence
    within: Floats  # [Y, Y] outer and inner type
    # [Y, Y] longer and shorter type, for each token that a span in a place of a sequence lacks
    incomplete: Floats


@dataclass(frozen=True, eq=False, slots=True)
class ValueTables:
    """Penalties of spans of one type whose values differ."""

    table: Ints  # [Y] which of the F tables the spans of a type read, or −1
    value: Ints  # [F, N, M] value of the span of 1, 2, ... M tokens from each token on, or −1
    differ: Floats  # [Y] log penalties for each token of both spans
    apart: Bytes  # [Y] each span for each other value instead


@dataclass(frozen=True, eq=False, slots=True)
class WordTables:
    """Penalties of the places of a span's last word that have no label of its type."""

    word: Ints  # [N] −1 if the document has it once, −2 for a token without a word
    every: Floats  # [Y] log penalties for each span and place


@dataclass(frozen=True, eq=False, slots=True)
class Agreement:
    """Penalties of spans that disagree."""

    starts: Bytes  # [L + 1, L] a span starts at the second label; row L begins a sentence
    inside: Bytes  # [L + 1, L] the second label continues the span
    type: Ints  # [L] −1 outside
    n_types: int  # Y
    sequences: SequenceTables | None = None
    values: ValueTables | None = None
    words: WordTables | None = None


def agreement_view(agreement: Agreement | None, labels: int, tokens: int) -> tuple[Any, list[Any]]:
    """Return the kernel's structure, and the arrays that must live as long."""
    if agreement is None:
        return ffi.new("fc_agreement *", {"Y": 0, "K": 0}), []
    a, types = agreement, agreement.n_types
    fields: dict[str, Any] = {
        "starts": array_in(a.starts, np.uint8, (labels + 1, labels), "starts"),
        "inside": array_in(a.inside, np.uint8, (labels + 1, labels), "inside"),
        "type": array_in(a.type, np.int32, (labels,), "type"),
    }
    nothing = np.zeros((types, types))
    first, sequence = np.zeros(tokens + 1, np.int64), np.zeros(0, np.int32)
    none = SequenceTables(first, sequence, nothing, nothing, nothing)
    parts = [_sequence_view(a.sequences or none, tokens, types)]
    if a.values is not None:
        parts.append(_value_view(a.values, tokens, types))
    if a.words is not None:
        parts.append(_word_view(a.words, tokens, types))
    sizes: dict[str, int] = {"Y": types}
    for part in parts:
        fields |= part.arrays
        sizes |= part.sizes
    sizes["lowers"] = int(all(part.highest <= 0.0 for part in parts))
    return ffi.new("fc_agreement *", {**sizes, **fields}), list(fields.values())


@dataclass(frozen=True, eq=False, slots=True)
class _View:
    """Sizes and arrays of a part of the kernel's structure, and its highest penalty."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, Any]
    highest: float


def _scratch(rows: int, types: int, name: str) -> Any:
    return array_in(np.zeros((rows, types), np.int32), np.int32, (rows, types), name, writable=True)


def _sequence_view(tables: SequenceTables, tokens: int, types: int) -> _View:
    number = int(tables.sequence.max(initial=-1)) + 1
    arrays = {
        "first": array_in(tables.first, np.int64, (tokens + 1,), "first"),
        "sequence": array_in(tables.sequence, np.int32, (int(tables.first[-1]),), "sequence"),
        "same": array_in(tables.same, np.float64, (types, types), "same"),
        "within": array_in(tables.within, np.float64, (types, types), "within"),
        "whole": _scratch(max(number, 1), types, "whole"),
        "part": _scratch(max(number, 1), types, "part"),
        "incomplete": array_in(tables.incomplete, np.float64, (types, types), "incomplete"),
        "short_of": _scratch(max(number, 1), types, "short_of"),
    }
    every = (tables.same, tables.within, tables.incomplete)
    highest = max(float(table.max(initial=0.0)) for table in every)
    return _View({"K": number, "cuts": int(tables.incomplete.any())}, arrays, highest)


def _value_view(tables: ValueTables, tokens: int, types: int) -> _View:
    readers, _, longest = tables.value.shape
    number = int(tables.value.max(initial=-1)) + 1
    arrays = {
        "table": array_in(tables.table, np.int32, (types,), "table"),
        "value": array_in(tables.value, np.int32, (readers, tokens, longest), "value"),
        "differ": array_in(tables.differ, np.float64, (types,), "differ"),
        "apart": array_in(tables.apart, np.uint8, (types,), "apart"),
        "distinct": array_in(
            np.zeros(types, np.int32), np.int32, (types,), "distinct", writable=True
        ),
        "spans": _scratch(number + 1, types, "spans"),
        "tokens": _scratch(number + 1, types, "tokens"),
    }
    sizes = {"F": readers, "V": number, "M": longest}
    return _View(sizes, arrays, float(tables.differ.max(initial=0.0)))


def _word_view(tables: WordTables, tokens: int, types: int) -> _View:
    number = int(tables.word.max(initial=-1)) + 1
    word = array_in(tables.word, np.int32, (tokens,), "word")
    occurs = np.bincount(tables.word[tables.word >= 0], minlength=number).astype(np.int32)
    arrays = {
        "word": word,
        "occurs": array_in(occurs, np.int32, (number,), "occurs"),
        "every": array_in(tables.every, np.float64, (types,), "every"),
        "ending": _scratch(number, types, "ending"),
        "labelled": _scratch(number, types, "labelled"),
    }
    return _View({"W": number}, arrays, float(tables.every.max(initial=0.0)))


# --- Sweeps of Gibbs sampling over a document -----------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Labelling:
    """Which label a state has, and which state follows from a label."""

    label: Ints  # [S]
    following: Ints  # [S + 1, L] −1 if impossible; row S begins a sentence

    @property
    def n_labels(self) -> int:
        """Number of labels, L."""
        return int(self.following.shape[1])

    def is_direct(self, graph: Graph) -> bool:
        """Return whether states are labels, and follow from them wherever that is possible."""
        if not np.array_equal(self.label, np.arange(self.n_labels)):
            return False
        steps = np.append(graph.score, graph.initial).reshape(self.following.shape) > -np.inf
        direct = np.where(steps | (self.following >= 0), self.label, -1)
        return np.array_equal(self.following, direct)


@dataclass(slots=True, eq=False)
class MarkovChain:
    """The current state of a chain of samples."""

    path: Ints  # [N] states, changed in place
    best: Ints  # [N] of those before the first sweep, or after one of the sweeps
    best_score: float = -np.inf


class Gibbs:
    """A document that is swept over; one thread at a time.

    The graph is dense, no sentence is empty; without `agreement` sentences do not depend on each
    other.
    """

    def __init__(
        self,
        graph: Graph,
        offsets: Longs,
        node: Floats,
        labelling: Labelling,
        agreement: Agreement | None = None,
    ) -> None:
        if graph.source is not None:
            raise ShapeError("the graph is sparse, expected a dense one")
        offsets = frozen(offsets)
        self.graph, self.offsets, self.node, self.labelling = graph, offsets, node, labelling
        self._call = GraphCall(graph, offsets, node)
        states, labels = graph.n_states, labelling.n_labels
        memory = [
            array_in(labelling.label, np.int32, (states,), "label"),
            array_in(labelling.following, np.int32, (states + 1, labels), "following"),
        ]
        fields = {"L": labels, "label": memory[0], "next": memory[1]}
        if not graph.per_token and labelling.is_direct(graph):
            turned = np.ascontiguousarray(graph.score.reshape(states, states).T)
            memory.append(array_in(turned, np.float64, turned.shape, "score"))
            fields["turned"] = memory[2]
        self._labelling = ffi.new("fc_labelling *", fields)
        self._memory = [memory]
        self._agreement, arrays = agreement_view(agreement, labels, int(offsets[-1]))
        self._memory.append(arrays)
        size, no = ffi.new("int64_t *"), ffi.NULL
        inputs = self._call.machine, self._call.batch, self._labelling, self._agreement
        status = lib.fc_gibbs(*inputs, 0, no, no, no, no, no, no, no, no, size)
        check(status, "gibbs", size[0])
        self._work = ffi.from_buffer("double[]", np.empty(size[0]))

    @property
    def n_draws(self) -> int:
        """Uniform numbers of a sweep: one for each token and each sentence."""
        return int(self.offsets[-1]) + len(self.offsets) - 1

    def viterbi(self) -> Ints:
        """Return the best states of the graph, without models, int32 [N].

        Raises
        ------
        NoPathError
            A sentence has no legal label sequence.
        """
        path, score = viterbi(self.graph, self.offsets, self.node)
        dead = np.flatnonzero(np.isneginf(score))
        if len(dead):
            raise NoPathError("no label sequence is legal", sentence=int(dead[0]))
        return path

    def sweep(
        self, chain: MarkovChain, temperatures: Floats, whole: Bools, uniform: Floats
    ) -> Floats:
        """Sweep over the document, changing a chain in place; return its score after each, [n].

        At temperature 0 the best label is taken; `whole`, bool [n], are the sweeps that draw whole
        sentences rather than tokens; `uniform`, [n, draws], are numbers in [0, 1).
        """
        n, tokens = len(temperatures), int(self.offsets[-1])
        if not (np.isfinite(temperatures).all() and (temperatures >= 0).all()):
            raise OptionError("temperatures must be finite and at least 0")
        score = np.empty(n)
        best = ffi.new("double *", chain.best_score)
        kinds = np.ascontiguousarray(whole, dtype=np.uint8)
        where = ffi.new("int64_t *")
        status = lib.fc_gibbs(
            self._call.machine,
            self._call.batch,
            self._labelling,
            self._agreement,
            n,
            array_in(temperatures, np.float64, (n,), "temperatures"),
            array_in(kinds, np.uint8, (n,), "whole"),
            array_in(uniform, np.float64, (n, self.n_draws), "uniform"),
            array_in(chain.path, np.int32, (tokens,), "path", writable=True),
            array_out(score),
            array_in(chain.best, np.int32, (tokens,), "best", writable=True),
            best,
            self._work,
            where,
        )
        check(status, "gibbs", where[0])
        chain.best_score = best[0]
        return score
