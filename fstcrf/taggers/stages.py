"""One tagger of a chain: its paths and its normaliser, given the labels of earlier tapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import TooLargeError
from fstcrf.kernel.single import SentenceGraph
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import Program, scaled
from fstcrf.machines.topology import chain_topology
from fstcrf.ragged import Ragged
from fstcrf.taggers.component import Component, ObservedTape, Reading, as_read, bare_chain, pinned
from fstcrf.taggers.potentials import bind
from fstcrf.text.corpus import Column, Corpus, Sentence
from fstcrf.text.features import LiteralIndex
from fstcrf.text.features.surroundings import reads_documents
from fstcrf.text.features.template import tape_column

if TYPE_CHECKING:
    from fstcrf.taggers.crf import CRF


@dataclass(frozen=True, eq=False)
class StagePotentials:
    """Potentials of one tagger for some sentences, earlier tapes given.

    Parameters
    ----------
    offsets : int64 [B + 1]
    node : float64 [N, S]
    arc : float64 [N, arcs], optional
        Where tokens have arc potentials of their own.
    fixed : tuple of int32 [N]
        Labels of the tapes, and of the columns, that the tagger's grammar reads beside its own.
    told : float64 [N, S], optional
        What evidence adds to the potentials once these are weighted, −inf where a label is shut. It
        chooses among labellings; normalisers do not know of it.
    mask : float64 [N, S], optional
        The same of grammars that look at one token alone.
    relabelled : callable, optional
        Node potentials of tokens under other labels of earlier tapes, by what the tagger reads; as
        `PreparedPotentials` has it.
    """

    offsets: Longs
    node: Floats
    arc: Floats | None
    fixed: tuple[Ints, ...]
    evidence_scores: Floats | None = None
    mask: Floats | None = None
    relabelled: Callable[[Longs, Ints], Floats] | None = None

    def of(self, sentences: Longs) -> StagePotentials:
        """Return the potentials of some of the sentences."""
        if np.array_equal(sentences, np.arange(len(self.offsets) - 1)):
            return self
        tokens = repeated(self.offsets, sentences)
        return StagePotentials(
            bounds_of(self.offsets, sentences),
            self.node.take(tokens, axis=0),
            None if self.arc is None else self.arc.take(tokens, axis=0),
            tuple(f.take(tokens) for f in self.fixed),
            None if self.evidence_scores is None else self.evidence_scores.take(tokens, axis=0),
            None if self.mask is None else self.mask.take(tokens, axis=0),
        )


@dataclass(frozen=True, eq=False)
class Stage:
    """One tagger of a chain.

    Parameters
    ----------
    tagger : CRF
    weight : float
    conjuncts : tuple of Acceptor
        What the grammar says of its tape and of earlier ones.
    earlier : tuple of CRF
        The taggers before it.
    readings : mapping of str to Reading
        What it reads of their tapes, by the name it reads.
    columns : tuple of ObservedTape
        Columns that its grammar reads.
    """

    tagger: CRF
    weight: float
    conjuncts: tuple[Acceptor, ...]
    earlier: tuple[CRF, ...]
    readings: Mapping[str, Reading]
    columns: tuple[ObservedTape, ...] = ()

    @made_once
    def local(self) -> tuple[Acceptor, ...]:
        """Parts of the grammar that read labels of several tapes at one token alone: masks."""
        own = self.tagger.tape
        return tuple(a for a in self.conjuncts if _is_local(a) and own in a.tapes)

    @made_once
    def multiplied(self) -> tuple[Acceptor, ...]:
        """The other parts, which are multiplied in."""
        return tuple(a for a in self.conjuncts if a not in self.local)

    @made_once
    def fixed(self) -> tuple[CRF, ...]:
        """Earlier taggers whose tapes are multiplied in."""
        read = {tape for acceptor in self.multiplied for tape in acceptor.tapes}
        return tuple(tagger for tagger in self.earlier if tagger.tape in read)

    @made_once
    def fixed_columns(self) -> tuple[ObservedTape, ...]:
        """Columns that are multiplied in."""
        read = {tape for acceptor in self.multiplied for tape in acceptor.tapes}
        return tuple(column for column in self.columns if column.tape in read)

    @made_once
    def free(self) -> Program:
        """The tagger alone: its normaliser is that of its conditional probability."""
        return Program([self._closed.chain])

    @made_once
    def legal(self) -> Program:
        """The tagger, weighted and under its grammar; the tapes that are given come first."""
        if self.weight == 1.0 and not self.multiplied:
            return self.free
        own = self.free.scaled(self.weight, grammar=False).chains
        given = [bare_chain(t.tape, chain_topology(t.labels, 1)) for t in self.fixed]
        given += [column.chain for column in self.fixed_columns]
        return Program([*given, *own], (), self.multiplied, "expanded")

    def given(self, corpus: Corpus) -> StagePotentials:
        """Return the potentials of sentences that have the earlier tapes as columns."""
        prepared = bind(self.tagger, {}).prepare(as_read(corpus, self.readings))
        found = prepared.potentials(0, len(corpus))
        (node,), arc = found.node, None
        if self.free.chains[0].arc is None:
            (term,) = found.arc
            arc = np.broadcast_to(term.values, (len(node.values), *term.values.shape[1:]))
        tapes = tuple(_label_ids(corpus, tagger) for tagger in self.fixed)
        fixed = (*tapes, *(column.ids(corpus) for column in self.fixed_columns))
        mask = None
        if self.local:
            labels = [_label_ids(corpus, tagger) for tagger in self.earlier]
            mask = self.mask(labels, self.observed(corpus))
        made = prepared.relabelled
        return StagePotentials(corpus.offsets, node.values, arc, fixed, mask=mask, relabelled=made)

    def observed(self, corpus: Corpus) -> dict[str, Ints]:
        """Return the labels of columns, int32 [N] each."""
        return {column.tape: column.ids(corpus) for column in self.columns}

    def mask(self, labels: Sequence[Ints], observed: Mapping[str, Ints]) -> Floats:
        """Return what grammars of one token say there of each state, float64 [M, S].

        Parameters
        ----------
        labels : sequence of int32 [M]
            For each earlier tape.
        observed : mapping of str to int32 [M]
            For each column.
        """
        ids = dict(observed) | dict(zip((t.tape for t in self.earlier), labels, strict=True))
        state_label, total = self.tagger.topology.state_label, np.zeros(())
        for acceptor, table in zip(self.local, self._tables, strict=True):
            total = total + table[tuple(ids[t] for t in acceptor.tapes if t != self.tagger.tape)]
        return total[:, state_label]

    @made_once
    def _tables(self) -> list[Floats]:
        """What each of the local parts says; the labels of the own tape come last."""
        return [
            np.moveaxis(_scores(acceptor)[0], acceptor.tapes.index(self.tagger.tape), -1)
            for acceptor in self.local
        ]

    def relabelled(self, given: StagePotentials, tokens: Longs, labels: Sequence[Ints]) -> Floats:
        """Return the node potentials of tokens under other labels of the earlier tapes.

        Parameters
        ----------
        given : StagePotentials
            What `given` says of the sentences.
        tokens : int64 [M]
        labels : sequence of int32 [M]
            For each earlier tape.

        Returns
        -------
        float64 [M, S]
        """
        assert given.relabelled is not None  # noqa: S101 (as `moves` says)
        of = {tagger.tape: mine for tagger, mine in zip(self.earlier, labels, strict=True)}
        seen = [self.readings[tape.name] for tape in self.tagger.reads]
        ids = [reading.seen(of[reading.tape]) for reading in seen]
        shape = len(ids), len(tokens)
        return given.relabelled(tokens, np.asarray(ids, dtype=np.int32).reshape(shape))

    def reads(self, tape: str) -> bool:
        """Whether the tagger reads a tape."""
        return any(reading.tape == tape for reading in self.readings.values())

    @made_once
    def depends_on_earlier(self) -> bool:
        """Whether anything depends on earlier tapes."""
        return any(self.reads_tape(tagger.tape) for tagger in self.earlier) or bool(self.fixed)

    def reads_tape(self, tape: str) -> bool:
        """Whether potentials or masks depend on an earlier tape."""
        return self.reads(tape) or any(tape in acceptor.tapes for acceptor in self.local)

    @made_once
    def rescorable(self) -> bool:
        """Whether earlier tapes change node potentials alone, which can be had token by token."""
        static = not (self.fixed or self.fixed_columns) and self.free.chains[0].arc is not None
        inside = all(tape.name in self.readings for tape in self.tagger.reads)
        return static and inside and bind(self.tagger, {}).relabels

    @made_once
    def single(self) -> SentenceGraph | None:
        """The tagger laid out for sentences that come one at a time; None: these need more."""
        index, weights = self.tagger.index, self.tagger.weights
        asks = self.depends_on_earlier or not self.earlier
        if not (self.rescorable and asks) or self.conjuncts or self.legal is not self.free:
            return None
        if isinstance(index, LiteralIndex) or reads_documents(index.templates):
            return None
        return weights.single_dense

    def of_one(self, sentence: Sentence, labels: Sequence[Ints]) -> Floats:
        """Return the node potentials of a sentence, float64 [T, S], where there is a `single`.

        `labels`, int32 [T], are those of each earlier tape.
        """
        of = {tagger.tape: mine for tagger, mine in zip(self.earlier, labels, strict=True)}
        seen = [self.readings[tape.name] for tape in self.tagger.reads]
        ids = [reading.seen(of[reading.tape]) for reading in seen]
        return bind(self.tagger, {}).of_one(sentence, ids)

    # --- Answers ------------------------------------------------------------------------------

    def log_z(self, given: StagePotentials) -> Floats:
        """Return log Z of the tagger alone, float64 [B]."""
        return kernel.log_partitions(self.free_bound(given))

    def free_bound(self, given: StagePotentials) -> kernel.Bound:
        """Return the tagger alone with these potentials."""
        values = (given.node,) if given.arc is None else (given.node, given.arc)
        per_token = self.free.per_token(values)
        return kernel.Bound(
            self.free.machine, given.offsets, per_token, checked=self.cannot_overflow
        )

    def legal_bound(self, given: StagePotentials) -> kernel.Bound:
        """Return the tagger, weighted and under its grammar, with these potentials."""
        if self.legal is self.free and given.evidence_scores is None and given.mask is None:
            return self.free_bound(given)
        own = [self.chosen(given.node, given.evidence_scores, given.mask)]
        if given.arc is not None:
            own.append(scaled(given.arc, self.weight))
        sizes = [len(tagger.labels) for tagger in self.fixed]
        sizes += [len(column.kept) for column in self.fixed_columns]
        fixed = [pinned(label, size) for label, size in zip(given.fixed, sizes, strict=True)]
        per_token = self.legal.per_token((*fixed, *own))
        return kernel.Bound(
            self.legal.machine, given.offsets, per_token, checked=self.cannot_overflow
        )

    @made_once
    def cannot_overflow(self) -> bool:
        """Whether no sum of weights can overflow, whatever the (float32) values of attributes."""
        return float(np.abs(self.tagger.theta).max(initial=0.0)) * max(1.0, self.weight) < 1e200

    def chosen(self, node: Floats, *added: Floats | None) -> Floats:
        """Return node potentials as they count in the choice of labels: weighted, and added to."""
        node = scaled(node, self.weight)
        return sum([more for more in added if more is not None], start=node)

    def labels(self, path: Ints) -> Ints:
        """Return the labels of the tagger's own tape along joint states; −1 stays."""
        machine, order, topology = self.legal.machine, self.legal.order, self.tagger.topology
        states = (
            path if len(order) == 1 else machine.axis_states(path)[order.index(self.tagger.tape)]
        )
        if topology.direct:
            return states
        return np.where(states < 0, -1, topology.state_label[states])

    @made_once
    def _closed(self) -> Component:
        return Component(self.tagger, 1.0, {})


def stages_of(
    components: Sequence[Component],
    order: Sequence[str],
    conjuncts: Sequence[Acceptor],
    columns: Sequence[ObservedTape] = (),
) -> tuple[Stage, ...]:
    """Return the taggers of a composition in the order in which they are decided.

    What the grammar says of columns alone is left to the first of them.
    """
    parts = {component.tagger.tape: component for component in components}
    found = []
    for k, tape in enumerate(order):
        mine = tuple(
            acceptor
            for acceptor in conjuncts
            if max((order.index(t) for t in acceptor.tapes if t in parts), default=0) == k
        )
        read = {t for acceptor in mine for t in acceptor.tapes}
        part, earlier = parts[tape], tuple(parts[t].tagger for t in order[:k])
        given = tuple(column for column in columns if column.tape in read)
        found.append(Stage(part.tagger, part.weight, mine, earlier, part.readings, given))
    return tuple(found)


def largest_gains(acceptors: Sequence[Acceptor], longest: int) -> Floats:
    """Return a bound on what acceptors add to a labelling of 0, 1, ... tokens.

    Returns
    -------
    float64 [longest + 1]
        −inf where one of them accepts none of that length.
    """
    total = np.zeros(longest + 1)
    for acceptor in acceptors:
        target = acceptor.target.reshape(acceptor.n_states, -1)
        score = _scores(acceptor).reshape(target.shape)
        ahead = acceptor.final
        total[0] += ahead[0]
        for length in range(1, longest + 1):
            ahead = (score + ahead[target]).max(axis=1)
            total[length] += ahead[0]
    return total


def _scores(acceptor: Acceptor) -> Floats:
    """Return what steps score, −inf where there is none, [Q, L1, ...]."""
    score = 0.0 if acceptor.score is None else acceptor.score
    return np.where(acceptor.target >= 0, score, -np.inf)


def _is_local(acceptor: Acceptor) -> bool:
    """Whether an acceptor reads several tapes, and nothing but one token."""
    return len(acceptor.tapes) > 1 and len(acceptor.final) == 1 and acceptor.final[0] == 0.0


def with_tape(corpus: Corpus, tagger: CRF, ids: Ints) -> Corpus:
    """Return a corpus with the labels that a tagger is taken to have given."""
    return corpus.with_interned(tape_column(tagger.tape), Column(ids, tagger.labels))


def repeated(offsets: Longs, sentences: Longs) -> Longs:
    """Return the tokens of sentences, one after the other; a sentence may be there twice."""
    return Ragged(offsets).entries(sentences)


def bounds_of(offsets: Longs, sentences: Longs) -> Longs:
    """Return the offsets of sentences put one after the other."""
    return Ragged(offsets).select(sentences).offsets


def _label_ids(corpus: Corpus, tagger: CRF) -> Ints:
    column = corpus.columns[tape_column(tagger.tape)]
    ids: Ints = np.asarray(tagger.topology.label_ids(column.values)[column.ids], dtype=np.int32)
    return ids


# --- Whether a grammar over several tapes leaves any labelling ------------------------------------


def skeleton(
    taggers: Sequence[CRF], conjuncts: Sequence[Acceptor], columns: Sequence[ObservedTape] = ()
) -> Program | None:
    """Return the tapes that a grammar connects, without potentials; None where it connects none.

    What it says of a single other tape is left to the tagger of that tape.
    """
    joint = {t for acceptor in conjuncts if len(acceptor.tapes) > 1 for t in acceptor.tapes}
    if not joint:
        return None
    chains = [bare_chain(t.tape, t.topology) for t in taggers if t.tape in joint]
    chains += [column.chain for column in columns if column.tape in joint]
    return Program(chains, (), [a for a in conjuncts if joint.issuperset(a.tapes)], "expanded")


def possible_lengths(program: Program | None, lengths: Longs) -> Bools:
    """Return whether there is a labelling of so many tokens at all, bool [B].

    Where the product is too large to look, there may be.
    """
    found = np.ones(len(lengths), dtype=bool)
    if program is None:
        return found
    try:
        machine = program.machine
    except TooLargeError:
        return found
    sizes, place = np.unique(lengths, return_inverse=True)
    for number, size in enumerate(sizes.tolist()):
        values = tuple(np.zeros((size, *shape)) for shape in program.input_shapes())
        bound = kernel.Bound(machine, np.asarray([0, size]), program.per_token(values))
        found[place == number] = kernel.best_paths(bound)[1][0] > -np.inf
    return found
