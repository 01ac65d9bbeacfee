"""What a tagger reads of a tape that is decided together with its own.

Without a relabelling a tagger reads the tape of that name, label by label. With one, it reads
another tape or a coarser label set: the label that it sees is a function of the tape's label.

Conditioned potentials. A tagger that reads an earlier tape has potentials for every label of it.
The index knows which pairs of a predicate and a label training has seen; a predicate is a row of
a sparse table over (label, state), so that one lookup a template and one sum give a token's
potentials under all labels (`taggers/potentials.py`).

Observed columns (`taggers/component.py`: `ObservedTape`). A grammar that names a column of the text
is bound to the strings that training saw there. Compiled, strings that no conjunct tells
apart are one label (`merged`), so a rule about one part of speech costs an axis of two, however
many there are; a sentence pins the axis by potentials of 0 and −∞. In products it is one more
chain, under the chain rule it stands beside the earlier tapes that a stage's grammar reads.
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
from fstcrf.machines.plans import Chain, Program
from fstcrf.machines.topology import Topology, chain_topology
from fstcrf.taggers.potentials import Binding, Potentials, Term, bind
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features import FeatureIndex, LiteralIndex
from fstcrf.text.features.template import tape_column
from fstcrf.text.sentences import Data

if TYPE_CHECKING:
    from fstcrf.taggers.crf import CRF


@dataclass(frozen=True, eq=False, slots=True)
class Reading:
    """What is behind a name that a tagger reads."""

    tape: str  # of the composition
    labels: tuple[str, ...]  # that the tagger sees
    place: Ints | None = None  # [labels of the tape] which it sees for each; None: the same

    def seen(self, label: Ints) -> Ints:
        """Return the labels that the tagger sees for labels of the tape, int32."""
        return label if self.place is None else self.place[label]


@dataclass(frozen=True, eq=False, slots=True)
class Relabelling:
    """A tagger of a composition reads a tape by other labels."""

    reader: str  # tape of the tagger that reads
    read: str  # the name by which it reads
    tape: str  # that it gets
    labels: tuple[str, ...]  # that it sees
    place: Ints  # [labels of the tape] which of them it sees for each

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
        """The same without the names of the reader."""
        return Reading(self.tape, self.labels, self.place)


def as_read(corpus: Corpus, readings: Mapping[str, Reading]) -> Corpus:
    """Return a corpus in which a tagger finds what it reads, given by the name that it reads.

    Labels of earlier tapes are the columns that `tape_column` names, interned by label.
    """
    found = corpus
    for read, reading in readings.items():
        if reading.place is not None:
            ids = reading.place[corpus.columns[tape_column(reading.tape)].ids]
            found = found.with_interned(tape_column(read), Column(ids, reading.labels))
    return found


# --- Tapes whose labels are given -----------------------------------------------------------------


def bare_chain(tape: str, topology: Topology) -> Chain:
    """Return the chain of a tape without potentials."""
    size = topology.n_states
    arc = np.full(size * size if topology.dense else len(topology.source), -np.inf)
    arc[topology.kernel_arcs()] = 0.0
    return Chain(
        tape,
        topology,
        np.where(topology.initial, 0.0, -np.inf),
        np.where(topology.final, 0.0, -np.inf),
        arc,
    )


def pinned(label: Ints, size: int) -> Floats:
    """Return potentials of labels, float64 [N, size]: 0 for the given one, −inf for others."""
    out = np.full((len(label), size), -np.inf)
    out[np.arange(len(label)), label] = 0.0
    return out


OTHER = "<other>"
"""The label of strings that were not there in training."""


@dataclass(frozen=True, eq=False)
class ObservedTape:
    """A column that was observed in training, as a tape that a grammar may read.

    Nothing is decided there: its labels are the strings of the column.

    Parameters
    ----------
    tape : str
        Name of the column.
    labels : tuple of str
        Its strings; the last label stands for all others.
    place : int32 [labels], optional
        Which of fewer labels each of them counts as; None: each as itself.
    """

    tape: str
    labels: tuple[str, ...]
    place: Ints | None = None

    @classmethod
    def of(cls, tape: str, strings: Sequence[str]) -> ObservedTape:
        """Return the tape of a column with these strings in training."""
        return cls(tape, (*strings, OTHER) if OTHER not in strings else tuple(strings))

    @made_once
    def kept(self) -> tuple[str, ...]:
        """The labels that count: those that count as one are called by the first of them."""
        if self.place is None:
            return self.labels
        first = {int(k): i for i, k in reversed(list(enumerate(self.place.tolist())))}
        return tuple(self.labels[first[k]] for k in range(len(first)))

    @made_once
    def chain(self) -> Chain:
        """The tape: no potentials of its own."""
        return bare_chain(self.tape, chain_topology(self.kept, 0))

    def read(self, strings: Sequence[str]) -> tuple[str, ...]:
        """Return the label of each string."""
        return tuple(string if string in self._number else OTHER for string in strings)

    def values(self, corpus: Corpus, tokens: slice) -> Floats:
        """Return the node potentials of tokens, float64 [N, kept]: −inf for what is not there.

        Raises
        ------
        DataError
            The corpus has no such column.
        """
        return pinned(self.ids(corpus)[tokens], len(self.kept))

    def ids(self, corpus: Corpus) -> Ints:
        """Return the label of each token, int32 [N], of those that count.

        Raises
        ------
        DataError
            The corpus has no such column.
        """
        column, known = corpus.column(self.tape), self._number
        label = np.asarray([known.get(v, known[OTHER]) for v in column.values], dtype=np.int32)
        label = label if self.place is None else self.place[label]
        return label[column.ids]

    @made_once
    def _number(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}


def observed(
    indexes: Iterable[object], tapes: Collection[str], known: Iterable[ObservedTape] = ()
) -> list[ObservedTape]:
    """Return the columns that taggers read, with the strings of training, as tapes to be given.

    Those `known` stay as they are; what is called like a tape is none of them.
    """
    found = {tape.tape: tape for tape in known}
    strings: dict[str, dict[str, None]] = {}
    for index in indexes:
        if isinstance(index, FeatureIndex):
            for column, values in index.observed().items():
                strings.setdefault(column, {}).update(dict.fromkeys(values))
    for column, several in strings.items():
        if column not in found and column not in tapes:
            found[column] = ObservedTape.of(column, tuple(several))
    return list(found.values())


def bound(
    grammar: Grammar,
    sets: Mapping[str, tuple[str, ...]],
    columns: Callable[[], Sequence[ObservedTape]],
) -> list[Acceptor]:
    """Return the acceptors of a grammar over tapes and, where it names them, over given columns.

    Raises
    ------
    GrammarError
        A part that goes with neither.
    """
    found: list[Acceptor] = []
    for part in grammar.constraints:
        try:
            found += part.bind(sets)
        except GrammarError as error:
            given = {tape.tape: tape.labels for tape in columns()}
            # Only of a column that it names: of what is wrong otherwise, columns are no remedy.
            if not any(f"no tape {name!r}" in str(error) for name in given):
                raise
            found += part.bind({**sets, **given})
    return found


def grouped(
    conjuncts: Sequence[Acceptor], tapes: Sequence[str], maps: Collection[str] = ()
) -> dict[str, tuple[Acceptor, ...]]:
    """Return the parts of a grammar by the tape that each is about; given columns may be read.

    Parameters
    ----------
    conjuncts : sequence of Acceptor
    tapes : sequence of str
        Those that taggers decide, one after the other.
    maps : collection of str
        Those that maps decide.

    Raises
    ------
    OptionError
        A part over several tapes, or over one that a map decides.
    """
    found: dict[str, tuple[Acceptor, ...]] = {}
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
        found[tape] = (*found.get(tape, ()), acceptor)
    return found


def merged(
    given: Sequence[ObservedTape], conjuncts: Sequence[Acceptor]
) -> tuple[tuple[ObservedTape, ...], tuple[Acceptor, ...]]:
    """Return given tapes, and a grammar, with labels as one that no part of it tells apart.

    Tapes that no part reads are left out.
    """
    tapes = []
    for one in given:
        reading = [k for k, acceptor in enumerate(conjuncts) if one.tape in acceptor.tapes]
        if not reading:
            continue
        rows = np.concatenate([_told(conjuncts[k], one.tape) for k in reading], axis=1)
        _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # in the order of their first labels
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        mine = replace(one, place=rank[place.reshape(-1)])
        tapes.append(mine)
        taken = np.sort(first)
        conjuncts = [_with_labels(acceptor, mine, taken) for acceptor in conjuncts]
    return tuple(tapes), tuple(conjuncts)


def _told(acceptor: Acceptor, tape: str) -> Floats:
    """Return what an acceptor makes of each label of a tape, [labels, ...]."""
    axis = 1 + acceptor.tapes.index(tape)
    size = acceptor.target.shape[axis]
    flat = np.moveaxis(acceptor.target, axis, 0).reshape(size, -1).astype(np.float64)
    if acceptor.score is None:
        return flat
    return np.concatenate([flat, np.moveaxis(acceptor.score, axis, 0).reshape(size, -1)], axis=1)


def _with_labels(acceptor: Acceptor, given: ObservedTape, taken: Longs) -> Acceptor:
    """Return an acceptor with some labels of a given tape alone."""
    if given.tape not in acceptor.tapes:
        return acceptor
    k = acceptor.tapes.index(given.tape)
    score = acceptor.score
    return replace(
        acceptor,
        labels=(*acceptor.labels[:k], given.kept, *acceptor.labels[k + 1 :]),
        target=np.ascontiguousarray(acceptor.target.take(taken, axis=k + 1)),
        score=None if score is None else np.ascontiguousarray(score.take(taken, axis=k + 1)),
    )


# --- Relabelling between tag sets as a tape of its own --------------------------------------------


@dataclass(frozen=True, eq=False)
class TapeMap:
    """A map from the labels of one tape to those of another, which is decided, too."""

    tape: str  # that it writes
    labels: tuple[str, ...]
    acceptor: Acceptor  # which labels of the two go together, at what score; first the tape read

    @property
    def source(self) -> str:
        """Name of the tape that it reads."""
        return self.acceptor.tapes[0]

    @made_once
    def chain(self) -> Chain:
        """The tape that it writes: no potentials of its own."""
        return bare_chain(self.tape, chain_topology(self.labels, 1))

    def values(self, n_tokens: int) -> Floats:
        """Return its node potentials, float64 [N, L]: zero."""
        return np.zeros((n_tokens, len(self.labels)))

    def decide(self, corpus: Corpus) -> Column:
        """Return the best labels where those of the tape that it reads are given.

        They are a column, interned by label; NoPathError where it has no labels for those of a
        sentence.
        """
        given = corpus.columns[tape_column(self.source)].ids
        values = (pinned(given, len(self.acceptor.labels[0])), self.values(len(given)))
        program = self._decider
        bound = kernel.Bound(program.machine, corpus.offsets, program.per_token(values))
        path, score = kernel.best_paths(bound)
        dead = np.flatnonzero(np.isneginf(score))
        if len(dead):
            raise NoPathError(
                (f"the map to {self.tape!r} has no output for the labels of tape {self.source!r}"),
                sentence=int(dead[0]),
            )
        ids = program.machine.axis_states(path)[program.order.index(self.tape)]
        return Column(ids.astype(np.int32), self.labels)

    @made_once
    def _decider(self) -> Program:
        source = bare_chain(self.source, chain_topology(self.acceptor.labels[0], 1))
        return Program([source, self.chain], (), (self.acceptor,), "expanded")


# --- A tagger as part of a composition ------------------------------------------------------------

Context = tuple[str, ...]
Values = tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class Component:
    """A tagger with its weight, whose reads are tapes of the composition where those are there."""

    tagger: CRF
    weight: float  # factor of its potentials
    readings: Mapping[str, Reading]  # of tapes decided together with its own

    def __post_init__(self) -> None:
        known = {tape.name: set(tape.labels) for tape in self.tagger.reads}
        for read, reading in self.readings.items():
            new = [label for label in reading.labels if label not in known[read]]
            if new:
                raise OptionError(
                    f"the tagger of {self.tagger.tape!r} was trained to read a tape {read!r} "
                    f"without the labels {', '.join(map(repr, new[:5]))}: put a map between them, "
                    "compose(earlier, map, later)"
                )

    @made_once
    def weighted(self) -> CRF:
        """The tagger with its weight multiplied in."""
        if self.weight == 1.0:
            return self.tagger
        return replace(self.tagger, theta=self.tagger.theta * self.weight)

    @made_once
    def chain(self) -> Chain:
        """The tagger's tape in the composition."""
        binding = self._binding
        graph = self.weighted.weights.static_graph
        any_token = self._any_token()
        shared = not any(outline.per_token for outline in binding.arc)
        tables = [
            self._on_tapes(term)
            for outline, term in zip(binding.node, any_token.node, strict=True)
            if not outline.per_token
        ]
        return Chain(
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
        """Tapes whose labels its arcs depend on."""
        contexts = [self._context(outline.context) for outline in self._binding.arc]
        return tuple(dict.fromkeys(tape for context in contexts for tape in context))

    def prepare(self, sentences: Data) -> tuple[list[int], Callable[[int, int], Values]]:
        """Return the lengths of sentences, and what gives the values of a run of them.

        The values are one array for each input of the chain, in the program's order.
        """
        binding = self._binding
        prepared = binding.prepare(sentences)
        per_token = [outline.per_token for outline in binding.node]
        own_arcs = self.chain.arc is None

        def values(first: int, end: int) -> Values:
            found = prepared.potentials(first, end)
            terms = [t for t, m in zip(found.node, per_token, strict=True) if m]
            nodes = [self._on_tapes(term).values for term in terms]
            if not own_arcs:
                return tuple(nodes)
            arcs = self._summed(found.arc)
            return (*nodes, np.broadcast_to(arcs, (len(nodes[0]), *arcs.shape[1:])))

        return prepared.lengths, values

    @property
    def _binding(self) -> Binding:
        """The tagger bound to the labels that it sees; taggers keep their bindings."""
        return bind(self.weighted, {read: r.labels for read, r in self.readings.items()})

    def _any_token(self) -> Potentials:
        """Return the potentials of some token, for those that do not depend on it."""
        index = self.weighted.index
        if isinstance(index, LiteralIndex):
            return self._binding.prepare([[[]]]).potentials(0, 1)
        # A number will do everywhere; the first column makes it a token where no other is read.
        sentence = {name: ["0"] for name in ("", *index.columns)}
        sentence |= {t.name: [t.labels[0]] for t in self.tagger.reads}
        return self._binding.prepare([sentence]).potentials(0, 1)

    # --- From the names that the tagger reads to tapes ----------------------------------------

    def _context(self, reads: Context) -> Context:
        return tuple(dict.fromkeys(self.readings[read].tape for read in reads))

    def _on_tapes(self, term: Term) -> Term:
        """Return a term by the labels of the composition's tapes rather than those it sees."""
        values = term.values
        axes: list[str] = []
        for read in term.context:
            reading, axis = self.readings[read], len(axes) + 1
            if reading.place is not None:
                values = values.take(reading.place, axis=axis)
            if reading.tape in axes:  # one tape read by two names: both labels are known at once
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
    """Return the entries whose numbers agree on two axes, the second axis gone."""
    return np.moveaxis(np.diagonal(values, axis1=first, axis2=second), -1, first)
