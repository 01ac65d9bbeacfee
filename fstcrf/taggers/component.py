"""Taggers as parts of a composition, and the tapes that they and a grammar read.

Readings. A tagger reads the tape of a given name label by label. With a relabelling it reads
another tape, or coarser labels: the label that it sees is a function of the label on the tape.

Conditioned potentials. A tagger that reads an earlier tape has potentials for every label of that
tape. The index knows which pairs of a predicate and a label occurred in training. A predicate is a
row of a sparse table over (label, state), so one lookup for each template and one sum give the
potentials of a token under all labels (`bind`).

Observed columns (`ObservedTape`). A grammar that names a column of the text is bound to the strings
of that column in training. Strings that no conjunct distinguishes become one label (`merged`), so a
rule about one part of speech needs an axis of two labels. A sentence fixes the labels of that axis
by potentials of 0 and −∞. In a product the axis is one more chain; under the chain rule it is one
of the observed tapes of a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import GrammarError, NoPathError, OptionError, ShapeError
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor, Grammar
from fstcrf.machines.plans import Program, TapeChain
from fstcrf.machines.topology import Topology, chain_topology
from fstcrf.taggers.potentials import Binding, Potentials, Term, bind
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features import FeatureIndex
from fstcrf.text.features.template import tape_column
from fstcrf.text.sentences import Data, Tape

if TYPE_CHECKING:
    from fstcrf.taggers.crf import CRF


@dataclass(frozen=True, eq=False, slots=True)
class Reading:
    """A tape of the composition, and the labels that a tagger sees in place of its labels."""

    tape: str
    labels: tuple[str, ...]  # visible to the tagger
    place: Ints | None = None  # [labels of the tape] number of the visible label

    def seen(self, label: Ints) -> Ints:
        """Return the visible labels, int32, for labels of the tape."""
        return label if self.place is None else self.place[label]


@dataclass(frozen=True, eq=False, slots=True)
class Relabelling:
    """A reading in which a tagger sees other labels than the labels on the tape."""

    reader: str  # tape that the tagger writes
    read: str  # name of the tape in its templates
    tape: str  # tape of the composition that it reads under this name
    labels: tuple[str, ...]  # visible to the tagger
    place: Ints  # int32 [labels of the tape] number of the visible label

    def __post_init__(self) -> None:
        place = self.place
        sound = place.dtype == np.int32 and place.ndim == 1 and len(self.labels) > 0
        if not sound or (place.size and not 0 <= place.min() <= place.max() < len(self.labels)):
            raise ShapeError(
                f"the relabelling of {self.tape!r} for {self.reader!r} needs int32 [L] numbers "
                f"below {len(self.labels)}"
            )

    @property
    def reading(self) -> Reading:
        """The reading, without the names of the reader."""
        return Reading(self.tape, self.labels, self.place)


def same_tape(read: Tape, label_sets: Mapping[str, tuple[str, ...]]) -> Reading | None:
    """Return the reading of a tape under its own name; `None` if the composition lacks the tape."""
    labels = label_sets.get(read.name)
    if labels is None or labels == read.labels or not set(labels) <= set(read.labels):
        return None if labels is None else Reading(read.name, labels)
    # A tagger numbers the labels that it saw in training, and the tape has fewer labels.
    place = np.array([read.labels.index(label) for label in labels], dtype=np.int32)
    return Reading(read.name, read.labels, place)


def as_read(corpus: Corpus, readings: Mapping[str, Reading]) -> Corpus:
    """Return a corpus with one column for each relabelled tape, under the name that is read.

    Labels of earlier tapes are the columns that `tape_column` names, with label numbers as ids.
    """
    columns = corpus.columns
    for read, reading in readings.items():
        if reading.place is not None:
            ids = reading.place[columns[tape_column(reading.tape)].ids]
            corpus = corpus.with_interned(tape_column(read), Column(ids, reading.labels))
    return corpus


# --- Tapes with observed labels -------------------------------------------------------------------


def bare_chain(tape: str, topology: Topology) -> TapeChain:
    """Return a chain with the arcs of a topology, all with the score 0."""
    size = topology.n_states
    arc = np.full(size * size if topology.dense else len(topology.source), -np.inf)
    arc[topology.kernel_arcs()] = 0.0
    return TapeChain(
        tape,
        topology,
        np.where(topology.initial, 0.0, -np.inf),
        np.where(topology.final, 0.0, -np.inf),
        arc,
    )


def pinned(label: Ints, size: int) -> Floats:
    """Return node potentials, float64 [N, size]: 0 for the observed label, −inf for all others."""
    out = np.full((len(label), size), -np.inf)
    out[np.arange(len(label)), label] = 0.0
    return out


OTHER = "<other>"
"""The label of strings that do not occur in training."""


@dataclass(frozen=True, eq=False)
class ObservedTape:
    """A column of the text as a tape that a grammar may read. No tagger decides its labels.

    Parameters
    ----------
    tape : str
        Name of the column.
    labels : tuple of str
        Strings of the column in training; the last label represents all other strings.
    place : int32 [labels], optional
        Number of the merged label of each label; `None` if no labels are merged.
    """

    tape: str
    labels: tuple[str, ...]
    place: Ints | None = None

    @classmethod
    def of(cls, tape: str, strings: Sequence[str]) -> ObservedTape:
        """Return the tape of a column, given its strings in training."""
        return cls(tape, (*strings, OTHER) if OTHER not in strings else tuple(strings))

    @made_once
    def kept(self) -> tuple[str, ...]:
        """The merged labels, each named after the first label that was merged into it."""
        if self.place is None:
            return self.labels
        first = {int(k): i for i, k in reversed(list(enumerate(self.place.tolist())))}
        return tuple(self.labels[first[k]] for k in range(len(first)))

    @made_once
    def chain(self) -> TapeChain:
        """The tape as a chain of order 0."""
        return bare_chain(self.tape, chain_topology(self.kept, 0))

    def read(self, strings: Sequence[str]) -> tuple[str, ...]:
        """Return the label of each string."""
        return tuple(string if string in self._number else OTHER for string in strings)

    def values(self, corpus: Corpus, tokens: slice) -> Floats:
        """Return the node potentials of tokens, float64 [N, kept]; −inf for unobserved labels.

        Raises
        ------
        DataError
            The corpus has no such column.
        """
        return pinned(self.ids(corpus)[tokens], len(self.kept))

    def ids(self, corpus: Corpus) -> Ints:
        """Return the number of the merged label of each token, int32 [N].

        Raises
        ------
        DataError
            The corpus has no such column.
        """
        column, number = corpus.column(self.tape), self._number
        label = np.asarray([number.get(v, number[OTHER]) for v in column.values], dtype=np.int32)
        label = label if self.place is None else self.place[label]
        return label[column.ids]

    @made_once
    def _number(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}


def observed(
    indexes: Iterable[object], tapes: Collection[str], declared: Iterable[ObservedTape] = ()
) -> list[ObservedTape]:
    """Return the columns that the indexes of taggers read as observed tapes.

    Tapes in `declared` are returned unchanged. Columns with the name of a tape are left out.
    """
    columns = {tape.tape: tape for tape in declared}
    strings: dict[str, dict[str, None]] = {}
    for index in indexes:
        if isinstance(index, FeatureIndex):
            for column, values in index.observed().items():
                strings.setdefault(column, {}).update(dict.fromkeys(values))
    for column, several in strings.items():
        if column not in columns and column not in tapes:
            columns[column] = ObservedTape.of(column, tuple(several))
    return list(columns.values())


def bound(
    grammar: Grammar,
    sets: Mapping[str, tuple[str, ...]],
    columns: Callable[[], Sequence[ObservedTape]],
) -> list[Acceptor]:
    """Return the acceptors of a grammar over tapes and observed columns.

    Columns are read only if the grammar names one of them.

    Raises
    ------
    GrammarError
        A constraint that names neither a tape nor a column.
    """
    conjuncts: list[Acceptor] = []
    for part in grammar.constraints:
        try:
            conjuncts += part.bind(sets)
        except GrammarError as error:
            read = {tape.tape: tape.labels for tape in columns()}
            # Columns remedy one error only: that a constraint names a column.
            if not any(f"no tape {name!r}" in str(error) for name in read):
                raise
            conjuncts += part.bind({**sets, **read})
    return conjuncts


def grouped(
    conjuncts: Sequence[Acceptor], tapes: Sequence[str], maps: Collection[str] = ()
) -> dict[str, tuple[Acceptor, ...]]:
    """Return the conjuncts of a grammar by the decided tape that each reads.

    A conjunct that reads observed columns only belongs to the first tape.

    Parameters
    ----------
    conjuncts : sequence of Acceptor
    tapes : sequence of str
        Tapes that taggers write, in the order of decoding.
    maps : collection of str
        Tapes that maps write.

    Raises
    ------
    OptionError
        A conjunct over several decided tapes, or over a tape that a map writes.
    """
    groups: dict[str, tuple[Acceptor, ...]] = {}
    for acceptor in conjuncts:
        decided = [tape for tape in acceptor.tapes if tape in tapes or tape in maps]
        if len(decided) > 1 or any(tape in maps for tape in decided):
            over = f"several tapes, {', '.join(decided)}"
            over = over if len(decided) > 1 else f"the tape of a map, {decided[0]}"
            raise OptionError(
                f"{acceptor.name} reads {over}, so taggers that decide one after the other "
                "cannot obey it; decide all tapes together: decode='joint' of a pipeline, "
                "tag_all of a composition, --decode joint in the shell"
            )
        (tape,) = decided or tapes[:1]
        groups[tape] = (*groups.get(tape, ()), acceptor)
    return groups


def merged(
    observed_tapes: Sequence[ObservedTape], conjuncts: Sequence[Acceptor]
) -> tuple[tuple[ObservedTape, ...], tuple[Acceptor, ...]]:
    """Merge labels of observed tapes that no conjunct distinguishes.

    Returns
    -------
    tapes : tuple of ObservedTape
        Without the tapes that no conjunct reads.
    conjuncts : tuple of Acceptor
        The grammar over the merged labels.
    """
    tapes = []
    for tape in observed_tapes:
        readers = [acceptor for acceptor in conjuncts if tape.tape in acceptor.tapes]
        if not readers:
            continue
        rows = np.concatenate([_label_behaviour(a, tape.tape) for a in readers], axis=1)
        _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # merged labels keep the order of their first labels
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        smaller = replace(tape, place=rank[place.reshape(-1)])
        tapes.append(smaller)
        conjuncts = [_with_labels(acceptor, smaller, np.sort(first)) for acceptor in conjuncts]
    return tuple(tapes), tuple(conjuncts)


def _label_behaviour(acceptor: Acceptor, tape: str) -> Floats:
    """Return all targets and scores of the arcs of each label of a tape, [labels, ...]."""
    axis = 1 + acceptor.tapes.index(tape)
    size = acceptor.target.shape[axis]
    flat = np.moveaxis(acceptor.target, axis, 0).reshape(size, -1).astype(np.float64)
    if acceptor.score is None:
        return flat
    return np.concatenate([flat, np.moveaxis(acceptor.score, axis, 0).reshape(size, -1)], axis=1)


def _with_labels(acceptor: Acceptor, merged_tape: ObservedTape, taken: Longs) -> Acceptor:
    """Return an acceptor restricted to the labels `taken` of an observed tape."""
    if merged_tape.tape not in acceptor.tapes:
        return acceptor
    k = acceptor.tapes.index(merged_tape.tape)
    score = acceptor.score
    return replace(
        acceptor,
        labels=(*acceptor.labels[:k], merged_tape.kept, *acceptor.labels[k + 1 :]),
        target=np.ascontiguousarray(acceptor.target.take(taken, axis=k + 1)),
        score=None if score is None else np.ascontiguousarray(score.take(taken, axis=k + 1)),
    )


# --- Maps between label sets, with a tape for the output ------------------------------------------


@dataclass(frozen=True, eq=False)
class TapeMap:
    """A map from the labels of one tape to labels of a second tape, which it writes."""

    tape: str  # output tape
    labels: tuple[str, ...]  # of the output tape
    acceptor: Acceptor  # accepts pairs of labels at a score: input tape, output tape

    @property
    def source(self) -> str:
        """Name of the input tape."""
        return self.acceptor.tapes[0]

    @made_once
    def chain(self) -> TapeChain:
        """The output tape as a chain without scores."""
        return bare_chain(self.tape, chain_topology(self.labels, 1))

    def values(self, n_tokens: int) -> Floats:
        """Return zeros, the node potentials of the output tape, float64 [N, L]."""
        return np.zeros((n_tokens, len(self.labels)))

    def decide(self, corpus: Corpus) -> Column:
        """Return the best output labels for the input labels of a corpus, ids being label numbers.

        Raises
        ------
        NoPathError
            The map has no output for the labels of a sentence.
        """
        ids = corpus.columns[tape_column(self.source)].ids
        values = (pinned(ids, len(self.acceptor.labels[0])), self.values(len(ids)))
        program = self._decider
        batch = kernel.Bound(program.machine, corpus.offsets, program.per_token(values))
        path, score = kernel.best_paths(batch)
        dead = np.flatnonzero(np.isneginf(score))
        if len(dead):
            raise NoPathError(
                f"the map to {self.tape!r} has no output for the labels of tape {self.source!r}",
                sentence=int(dead[0]),
            )
        states = program.machine.axis_states(path)[program.order.index(self.tape)]
        return Column(states.astype(np.int32), self.labels)

    @made_once
    def _decider(self) -> Program:
        source = bare_chain(self.source, chain_topology(self.acceptor.labels[0], 1))
        return Program([source, self.chain], (), (self.acceptor,), "expanded")


# --- A tagger as part of a composition ------------------------------------------------------------

Context = tuple[str, ...]
Values = tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class Component:
    """A tagger of a composition.

    Parameters
    ----------
    tagger : CRF
    weight : float
        Factor of its potentials.
    readings : mapping of str to Reading
        Tapes of the composition that the tagger reads, by their names in its templates.

    Raises
    ------
    OptionError
        A tape with labels that the tagger did not see in training.
    """

    tagger: CRF
    weight: float
    readings: Mapping[str, Reading]

    def __post_init__(self) -> None:
        trained = {tape.name: set(tape.labels) for tape in self.tagger.reads}
        for read, reading in self.readings.items():
            new = [label for label in reading.labels if label not in trained[read]]
            if new:
                raise OptionError(
                    f"the tagger of {self.tagger.tape!r} was trained to read a tape {read!r} "
                    f"without the labels {', '.join(map(repr, new[:5]))}: put a map between them, "
                    "compose(earlier, map, later)"
                )

    @made_once
    def weighted(self) -> CRF:
        """The tagger, its weights multiplied by `weight`."""
        if self.weight == 1.0:
            return self.tagger
        return replace(self.tagger, theta=self.tagger.theta * self.weight)

    @made_once
    def chain(self) -> TapeChain:
        """The tagger's tape in the composition."""
        binding = self.binding
        graph = self.weighted._weights.static_graph
        any_token = self._any_token()
        shared = not any(outline.per_token for outline in binding.arc)
        tables = [
            self._on_tapes(term)
            for outline, term in zip(binding.node, any_token.node, strict=True)
            if not outline.per_token
        ]
        return TapeChain(
            name=self.tagger.tape,
            topology=self.tagger.topology,
            initial=graph.initial,
            final=graph.final,
            arc=self._summed(any_token.arc)[0] if shared else None,
            arc_context=self.arc_context,
            node_contexts=tuple(self._context(o.context) for o in binding.node if o.per_token),
            tables=tuple((term.context, term.values[0]) for term in tables),
        )

    @made_once
    def arc_context(self) -> Context:
        """Tapes on whose labels the arc potentials depend."""
        contexts = [self._context(outline.context) for outline in self.binding.arc]
        return tuple(dict.fromkeys(tape for context in contexts for tape in context))

    def prepare(self, sentences: Data) -> tuple[list[int], Callable[[int, int], Values]]:
        """Return the lengths of sentences, and a function from (first, end) to `inputs`."""
        prepared = self.binding.prepare(sentences)
        return prepared.lengths, lambda first, end: self.inputs(prepared.potentials(first, end))

    def inputs(self, potentials: Potentials) -> Values:
        """Return the input arrays of the chain: node terms, then arcs if these differ by token."""
        terms = zip(potentials.node, self.binding.node, strict=True)
        nodes = tuple(self._on_tapes(term).values for term, outline in terms if outline.per_token)
        if self.chain.arc is not None:
            return nodes
        arcs = self._summed(potentials.arc)
        return (*nodes, np.broadcast_to(arcs, (len(nodes[0]), *arcs.shape[1:])))

    @property
    def binding(self) -> Binding:
        """The weighted tagger, bound to the labels of the tapes that it reads."""
        return bind(self.weighted, {read: r.labels for read, r in self.readings.items()})

    def _any_token(self) -> Potentials:
        """Return the potentials of one token, for the terms that are the same at every token."""
        index = self.weighted.index
        if not isinstance(index, FeatureIndex):
            return self.binding.of_any_token()
        # The string does not matter; the column "" makes a token if the templates read no column.
        sentence = {name: ["0"] for name in ("", *index.columns)}
        sentence |= {t.name: [t.labels[0]] for t in self.tagger.reads}
        return self.binding.prepare([sentence]).potentials(0, 1)

    # --- From the names that the tagger reads to tapes ----------------------------------------

    def _context(self, reads: Context) -> Context:
        return tuple(dict.fromkeys(self.readings[read].tape for read in reads))

    def _on_tapes(self, term: Term) -> Term:
        """Return a term whose axes are labels of tapes instead of the labels that are seen."""
        values = term.values
        axes: list[str] = []
        for read in term.context:
            reading, axis = self.readings[read], len(axes) + 1
            if reading.place is not None:
                values = values.take(reading.place, axis=axis)
            if reading.tape in axes:  # the tagger reads one tape under two names
                values = _diagonal(values, axes.index(reading.tape) + 1, axis)
            else:
                axes.append(reading.tape)
        return Term(tuple(axes), values)

    def _summed(self, terms: Sequence[Term]) -> Floats:
        """Add up terms over the tapes that any of them depends on: [N or 1, L, ..., X]."""
        total: Floats | float = 0.0
        for term in map(self._on_tapes, terms):
            sizes = dict(zip(term.context, term.values.shape[1:], strict=False))
            order = [term.context.index(t) for t in self.arc_context if t in sizes]
            moved = term.values.transpose(0, *(1 + k for k in order), term.values.ndim - 1)
            shape = (len(moved), *(sizes.get(t, 1) for t in self.arc_context), moved.shape[-1])
            total = total + moved.reshape(shape)
        return np.asarray(total)


def _diagonal(values: Floats, first: int, second: int) -> Floats:
    """Return the entries with equal numbers on two axes, without the second axis."""
    return np.moveaxis(np.diagonal(values, axis1=first, axis2=second), -1, first)
