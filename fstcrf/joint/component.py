"""What a tagger reads of a tape that is decided together with its own.

Without a relabelling a tagger reads the tape of that name, label by label. With one, it reads
another tape or a coarser label set: the label that it sees is a function of the tape's label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints
from fstcrf.corpus import Column, Corpus
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.features import LiteralIndex
from fstcrf.features.template import tape_column
from fstcrf.grammar import Acceptor
from fstcrf.model.model import Model
from fstcrf.model.potentials import Binding, Potentials, Term, bind
from fstcrf.model.reading import Data
from fstcrf.once import made_once
from fstcrf.plans import Chain, Program
from fstcrf.topology import Topology, chain_topology


@dataclass(frozen=True, eq=False, slots=True)
class Reading:
    """What is behind a name that a tagger reads.

    Parameters
    ----------
    tape : str
        A tape of the composition.
    labels : tuple of str
        The labels that the tagger sees.
    place : int32 [labels of the tape], optional
        Which of them it sees for each label of the tape; None: the labels are those of the tape.
    """

    tape: str
    labels: tuple[str, ...]
    place: Ints | None = None

    def seen(self, label: Ints) -> Ints:
        """Return the labels that the tagger sees for labels of the tape, int32."""
        return label if self.place is None else self.place[label]


@dataclass(frozen=True, eq=False, slots=True)
class Relabelling:
    """A tagger of a composition reads a tape by other labels.

    Parameters
    ----------
    reader : str
        Tape of the tagger that reads.
    read : str
        The name by which it reads.
    tape : str
        The tape that it gets.
    labels : tuple of str
        The labels that it sees.
    place : int32 [labels of the tape]
        Which of them it sees for each label of the tape.

    Raises
    ------
    ShapeError
        Places that are no numbers of labels.
    """

    reader: str
    read: str
    tape: str
    labels: tuple[str, ...]
    place: Ints

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
    """Return a corpus in which a tagger finds what it reads.

    Parameters
    ----------
    corpus : Corpus
        Labels of earlier tapes as the columns that `tape_column` names, interned by label.
    readings : mapping of str to Reading
        By the name that the tagger reads.
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


# --- Relabelling between tag sets as a tape of its own --------------------------------------------


@dataclass(frozen=True, eq=False)
class TapeMap:
    """A map from the labels of one tape to those of another, which is decided, too.

    Parameters
    ----------
    tape : str
        Name of the tape that it writes.
    labels : tuple of str
        Its labels.
    acceptor : Acceptor
        Which labels of the two tapes go together, and at what score; the tape that it reads comes
        first.
    """

    tape: str
    labels: tuple[str, ...]
    acceptor: Acceptor

    @property
    def source(self) -> str:
        """Name of the tape that it reads."""
        return self.acceptor.tapes[0]

    @cached_property
    def chain(self) -> Chain:
        """The tape that it writes: no potentials of its own."""
        return bare_chain(self.tape, chain_topology(self.labels, 1))

    def values(self, n_tokens: int) -> Floats:
        """Return its node potentials, float64 [N, L]: zero."""
        return np.zeros((n_tokens, len(self.labels)))

    def decide(self, corpus: Corpus) -> Column:
        """Return the best labels where those of the tape that it reads are given.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences; the tape that it reads as a column, interned by label.

        Raises
        ------
        NoPathError
            It has no labels for those of a sentence.
        """
        given = corpus.columns[tape_column(self.source)].ids
        values = (pinned(given, len(self.acceptor.labels[0])), self.values(len(given)))
        program = self._decider
        bound = kernel.Bound(program.machine, corpus.offsets, program.per_token(values))
        path, score = kernel.best_paths(bound)
        dead = np.flatnonzero(np.isneginf(score))
        if len(dead):
            raise NoPathError(
                f"the map to {self.tape!r} has no labels for those of {self.source!r}",
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
    """A tagger with its weight, whose reads are tapes of the composition where those are there.

    Parameters
    ----------
    tagger : Model
    weight : float
        Factor of its potentials.
    readings : mapping of str to Reading
        What it reads of tapes that are decided together with its own, by the name it reads.

    Raises
    ------
    OptionError
        It is given labels that it was not trained to read.
    """

    tagger: Model
    weight: float
    readings: Mapping[str, Reading]

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
    def weighted(self) -> Model:
        """The tagger with its weight multiplied in."""
        if self.weight == 1.0:
            return self.tagger
        return replace(self.tagger, theta=self.tagger.theta * self.weight)

    @made_once
    def chain(self) -> Chain:
        """The tagger's tape in the composition."""
        binding = self._binding
        graph = self.weighted.weights.still_graph
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

    @cached_property
    def arc_context(self) -> Context:
        """Tapes whose labels its arcs depend on."""
        contexts = [self._context(outline.context) for outline in self._binding.arc]
        return tuple(dict.fromkeys(tape for context in contexts for tape in context))

    def prepare(self, sentences: Data) -> tuple[list[int], Callable[[int, int], Values]]:
        """Return the lengths of sentences, and what gives the values of a run of the full ones.

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
