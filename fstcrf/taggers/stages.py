"""The stages of a chain: one tagger each, with the labels of all earlier tapes observed.

The chain rule multiplies conditional probabilities, p(tape 1) · p(tape 2 | tape 1) · ... A stage
computes the log of one factor, the score of a path minus log Z, for given labels of the earlier
tapes. Weights, grammars and evidence change which labels are chosen, but not log Z. So a stage has
two machines: `plain`, the tagger, for log Z, and `legal`, the weighted tagger under its grammar. A
`relaxed` stage lacks the rules over several tapes, which make `legal` slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import TooLargeError
from fstcrf.kernel.rows import SentenceRows
from fstcrf.kernel.single import SentenceGraph
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import Program, plan_of, scaled
from fstcrf.taggers.component import (
    Component,
    ObservedTape,
    as_read,
    bare_chain,
    merged,
    pinned,
)
from fstcrf.taggers.potentials import Binding, bind, check_closed
from fstcrf.text.corpus import Column, Corpus, Sentence
from fstcrf.text.features import FeatureIndex
from fstcrf.text.features.template import tape_column

if TYPE_CHECKING:
    from fstcrf.taggers.crf import CRF


@dataclass(frozen=True, eq=False)
class StagePotentials:
    """Potentials of one tagger for B sentences, given the labels of the earlier tapes.

    Parameters
    ----------
    offsets : int64 [B + 1]
    node : float64 [N, S]
    arcs : tuple of float64 [N, arcs]
        One array if arc potentials differ from token to token, else ().
    observed : tuple of int32 [N]
        Labels of the tapes in `Stage.observed`.
    evidence_scores : float64 [N, S], optional
        Evidence, added to the weighted potentials; −inf for labels that it excludes.
    mask : float64 [N, S], optional
        Scores of the conjuncts in `Stage.local`, also added to the weighted potentials.
    relabelled : callable, optional
        Node potentials of tokens for other labels of the earlier tapes, as in `PreparedPotentials`.
    """

    offsets: Longs
    node: Floats
    arcs: tuple[Floats, ...]
    observed: tuple[Ints, ...]
    evidence_scores: Floats | None = None
    mask: Floats | None = None
    relabelled: Callable[[Longs, Ints], Floats] | None = None

    def select(self, sentences: Longs) -> StagePotentials:
        """Return the potentials of some sentences; a sentence may occur repeatedly."""
        if np.array_equal(sentences, np.arange(len(self.offsets) - 1)):
            return self
        rows = Ragged(self.offsets)
        tokens = rows.entries(sentences)
        return StagePotentials(
            rows.select(sentences).offsets,
            self.node.take(tokens, axis=0),
            tuple(arc.take(tokens, axis=0) for arc in self.arcs),
            tuple(ids.take(tokens) for ids in self.observed),
            None if self.evidence_scores is None else self.evidence_scores.take(tokens, axis=0),
            None if self.mask is None else self.mask.take(tokens, axis=0),
        )


@dataclass(frozen=True, eq=False)
class Stage(Component):
    """A component with observed earlier tapes: one conditional probability of a chain.

    Its `weight` is 1, so that potentials and log Z are the tagger's.

    Parameters
    ----------
    exponent : float
        Weight of the tagger in the composition: exponent of its conditional probability.
    conjuncts : tuple of Acceptor
        The grammar over its tape, earlier tapes and columns.
    earlier : tuple of CRF
        Taggers of the earlier tapes, in the order of the chain.
    columns : tuple of ObservedTape
        Columns that the grammar reads.
    """

    exponent: float
    conjuncts: tuple[Acceptor, ...]
    earlier: tuple[CRF, ...]
    columns: tuple[ObservedTape, ...]

    @property
    def binding(self) -> Binding:
        """The tagger, bound to no labels: the tapes that it reads are observed columns."""
        return bind(self.tagger, {})

    @made_once
    def local(self) -> tuple[Acceptor, ...]:
        """Conjuncts without memory over several tapes: they only mask labels, token by token."""
        return tuple(a for a in self.conjuncts if _is_local(a) and self.tagger.tape in a.tapes)

    @made_once
    def multiplied(self) -> tuple[Acceptor, ...]:
        """All other conjuncts, which become part of the machine."""
        return tuple(a for a in self.conjuncts if a not in self.local)

    @made_once
    def hard(self) -> tuple[Acceptor, ...]:
        """Multiplied conjuncts over several tapes that reject labellings, and score none."""
        return tuple(a for a in self.multiplied if len(a.tapes) > 1 and not a.weighted)

    @made_once
    def relaxed(self) -> Stage:
        """The stage without its `hard` conjuncts: its best scores are upper bounds."""
        if not self.hard:
            return self
        return replace(self, conjuncts=tuple(a for a in self.conjuncts if a not in self.hard))

    @made_once
    def _read(self) -> tuple[tuple[ObservedTape, ...], tuple[Acceptor, ...]]:
        """Observed tapes that `multiplied` conjuncts read, and these, over merged labels."""
        tapes = [ObservedTape(t.tape, t.labels) for t in self.earlier]
        earlier, conjuncts = merged(tapes, self.multiplied)
        read = {tape for acceptor in conjuncts for tape in acceptor.tapes}
        return (*earlier, *(column for column in self.columns if column.tape in read)), conjuncts

    @property
    def observed(self) -> tuple[ObservedTape, ...]:
        """The observed tapes that `multiplied` conjuncts read."""
        return self._read[0]

    @made_once
    def plain(self) -> Program:
        """The tagger without weight and grammar; its log Z normalises the conditional."""
        return self.relaxed.plain if self.hard else Program([self.chain])

    @made_once
    def legal(self) -> Program:
        """The weighted tagger under its grammar; observed tapes are its first axes."""
        if self.exponent == 1.0 and not self.multiplied:
            return self.plain
        weighted = self.plain.scaled(self.exponent, grammar=False).chains
        chains = [*(tape.chain for tape in self.observed), *weighted]
        return Program(chains, (), self._read[1], "auto" if self.hard else "expanded")

    # --- Potentials ---------------------------------------------------------------------------

    def potentials(self, corpus: Corpus) -> StagePotentials:
        """Return the potentials of sentences whose earlier tapes are columns of the corpus."""
        prepared = self.binding.prepare(as_read(corpus, self.readings))
        node, *arcs = self.inputs(prepared.potentials(0, len(corpus)))
        ids = self.observed_ids(corpus)
        return StagePotentials(
            corpus.offsets,
            node,
            tuple(arcs),
            self.observed_labels(ids),
            mask=self.mask(ids) if self.local else None,
            relabelled=prepared.relabelled,
        )

    def observed_ids(self, corpus: Corpus) -> dict[str, Ints]:
        """Return the labels of the earlier tapes and of `columns`, int32 [N] each."""
        columns = {column.tape: column.ids(corpus) for column in self.columns}
        tapes = {t.tape: corpus.columns[tape_column(t.tape)].ids for t in self.earlier}
        return columns | tapes

    def observed_labels(self, ids: Mapping[str, Ints]) -> tuple[Ints, ...]:
        """Return the merged labels of the `observed` tapes, given the results of `observed_ids`."""
        columns = {column.tape for column in self.columns}  # their labels are merged already
        return tuple(
            ids[tape.tape]
            if tape.place is None or tape.tape in columns
            else tape.place[ids[tape.tape]]
            for tape in self.observed
        )

    def obeys(self, ids: Mapping[str, Ints], offsets: Longs) -> Bools:
        """Return whether labellings obey the `hard` conjuncts, bool [P].

        `ids` are the labels of the observed tapes and of the stage's tape, int32 [N] each.
        """
        legal = np.ones(len(offsets) - 1, dtype=bool)
        for acceptor in self.hard:
            labels = tuple(ids[tape] for tape in acceptor.tapes)
            legal &= _accepts(acceptor, labels, offsets)
        return legal

    def mask(self, ids: Mapping[str, Ints]) -> Floats:
        """Return the scores of `local` conjuncts for each state, float64 [M, S].

        `ids` are labels of observed tapes at M tokens, int32 [M].
        """
        state_label, total = self.tagger.topology.state_label, np.zeros(())
        for acceptor, table in zip(self.local, self._tables, strict=True):
            total = total + table[tuple(ids[t] for t in acceptor.tapes if t != self.tagger.tape)]
        return total[:, state_label]

    @made_once
    def _tables(self) -> list[Floats]:
        """Scores of `local` conjuncts, the labels of the stage's tape on the last axis."""
        return [
            np.moveaxis(_scores(acceptor)[0], acceptor.tapes.index(self.tagger.tape), -1)
            for acceptor in self.local
        ]

    def seen(self, labels: Sequence[Ints]) -> list[Ints]:
        """Return the labels that the tagger sees on each tape it reads.

        `labels` has one array for each earlier tape, int32 [M].
        """
        ids = {tagger.tape: tape_ids for tagger, tape_ids in zip(self.earlier, labels, strict=True)}
        readings = [self.readings[tape.name] for tape in self.tagger.reads]
        return [reading.seen(ids[reading.tape]) for reading in readings]

    def scored(self, node: Floats, *added: Floats | None) -> Floats:
        """Return the node scores by which labels are chosen: weighted, plus masks and evidence."""
        node = scaled(node, self.exponent)
        return sum([scores for scores in added if scores is not None], start=node)

    # --- Dependence on earlier tapes ----------------------------------------------------------

    @made_once
    def depends_on_earlier(self) -> bool:
        """Whether the labels of any earlier tape change potentials or legal labels."""
        observed = {tape.tape for tape in self.observed}
        return any(self.reads_tape(t.tape) or t.tape in observed for t in self.earlier)

    def reads_tape(self, tape: str) -> bool:
        """Whether potentials or masks depend on an earlier tape."""
        read = any(reading.tape == tape for reading in self.readings.values())
        return read or any(tape in acceptor.tapes for acceptor in self.local)

    @made_once
    def rescorable(self) -> bool:
        """Whether earlier labels change only node potentials, so single tokens can be rescored."""
        static = not self.observed and self.plain.chains[0].arc is not None
        inside = all(tape.name in self.readings for tape in self.tagger.reads)
        return static and inside and self.binding.relabels

    # --- Batches for the kernel ---------------------------------------------------------------

    def log_z(self, potentials: StagePotentials) -> Floats:
        """Return log Z of the tagger, float64 [B]."""
        return kernel.log_partitions(self.plain_batch(potentials))

    def plain_batch(self, potentials: StagePotentials) -> kernel.Bound:
        """Return the tagger with these potentials."""
        values = self.plain.per_token((potentials.node, *potentials.arcs))
        return kernel.Bound(
            self.plain.machine, potentials.offsets, values, checked=self.cannot_overflow
        )

    def legal_batch(self, potentials: StagePotentials) -> kernel.Bound:
        """Return the weighted tagger under its grammar and evidence, with these potentials."""
        added = potentials.evidence_scores, potentials.mask
        if self.legal is self.plain and all(scores is None for scores in added):
            return self.plain_batch(potentials)
        pairs = zip(potentials.observed, self.observed, strict=True)
        observed = [pinned(ids, len(tape.kept)) for ids, tape in pairs]
        arcs = [scaled(arc, self.exponent) for arc in potentials.arcs]
        values = self.legal.per_token((*observed, self.scored(potentials.node, *added), *arcs))
        machine = self.legal.decoder.machine
        return kernel.Bound(machine, potentials.offsets, values, checked=self.cannot_overflow)

    @made_once
    def cannot_overflow(self) -> bool:
        """Whether no sum of weights overflows, for any float32 values of attributes."""
        return float(np.abs(self.tagger.theta).max(initial=0.0)) * max(1.0, self.exponent) < 1e200

    def labels(self, path: Ints) -> Ints:
        """Return the labels of the stage's tape along joint states; −1 remains −1."""
        order, topology = self.legal.order, self.tagger.topology
        machine = self.legal.decoder.machine
        states = (
            path if len(order) == 1 else machine.axis_states(path)[order.index(self.tagger.tape)]
        )
        if topology.direct:
            return states
        return np.where(states < 0, -1, topology.state_label[states])

    # --- One sentence, without a batch --------------------------------------------------------

    @made_once
    def sentence_graph(self) -> SentenceGraph | None:
        """The tagger for `chain.tag_one`; it exists since a batch of one costs more than its paths.

        It is missing under weights and grammars, and if features need more than the sentence.
        """
        index, weights = self.tagger.index, self.tagger._weights
        reads = self.depends_on_earlier or not self.earlier
        if not (self.rescorable and reads) or self.conjuncts or self.legal is not self.plain:
            return None
        if not isinstance(index, FeatureIndex) or index.templates.reads_documents:
            return None
        return weights.dense_sentence_graph

    def sentence_rows(self, sentence: Sentence) -> Callable[[Sequence[Ints]], SentenceRows]:
        """Return the function from labels of the earlier tapes, int32 [T] each, to attributes.

        It exists so that `chain.tag_one` needs no corpus. There must be a `sentence_graph`.
        """
        rows = self.binding.of_one(sentence)
        return lambda labels: rows(self.seen(labels))


def stages_of(
    components: Sequence[Component],
    order: Sequence[str],
    conjuncts: Sequence[Acceptor],
    columns: Sequence[ObservedTape] = (),
) -> tuple[Stage, ...]:
    """Return the stages of a composition in the order of decoding.

    Each conjunct belongs to the last of its tapes, or to the first stage if it reads only columns.
    """
    parts = {component.tagger.tape: component for component in components}
    last = [max((order.index(t) for t in a.tapes if t in parts), default=0) for a in conjuncts]
    stages = []
    for k, tape in enumerate(order):
        rules = tuple(a for a, place in zip(conjuncts, last, strict=True) if place == k)
        read = {t for acceptor in rules for t in acceptor.tapes}
        part, earlier = parts[tape], tuple(parts[t].tagger for t in order[:k])
        check_closed(part.tagger, part.readings)
        observed = tuple(column for column in columns if column.tape in read)
        stages.append(Stage(part.tagger, 1.0, part.readings, part.weight, rules, earlier, observed))
    return tuple(stages)


def usual_cost(stages: Sequence[Stage], labellings: int) -> tuple[int, int]:
    """Return the cost of the first search of a chain, in estimated nanoseconds a token.

    Parameters
    ----------
    stages : sequence of Stage
    labellings : int
        Budget: labellings of the first tape that are scored.

    Returns
    -------
    least, usual : int
        If the first labels are proven to be the best, and if the search uses its budget.
    """
    each = [_best_and_log_z(stage.relaxed) for stage in stages]
    return sum(each), sum(each) + labellings * sum(each[1:])


def worst_cost_under_rules(stages: Sequence[Stage], labellings: int) -> int:
    """Return the cost of the second search of a chain, under hard rules over several tapes."""
    completed = [plan_of(stage.legal).most for stage in stages if stage.hard]
    later = sum(_best_and_log_z(stage.relaxed) for stage in stages[1:])
    return labellings * (later + max(completed)) if completed else 0


def _best_and_log_z(stage: Stage) -> int:
    return plan_of(stage.legal).most + plan_of(stage.plain).most


def largest_gains(acceptors: Sequence[Acceptor], longest: int) -> Floats:
    """Return upper bounds of the scores that acceptors add to labellings of 0, 1, ... tokens.

    Returns
    -------
    float64 [longest + 1]
        −inf if one of them accepts no labelling of that length.
    """
    total = np.zeros(longest + 1)
    for acceptor in acceptors:
        target = acceptor.target.reshape(acceptor.n_states, -1)
        score = _scores(acceptor).reshape(target.shape)
        suffix = acceptor.final  # best score from each state to the end
        total[0] += suffix[0]
        for length in range(1, longest + 1):
            suffix = (score + suffix[target]).max(axis=1)
            total[length] += suffix[0]
    return total


def _scores(acceptor: Acceptor) -> Floats:
    """Return the scores of all arcs, −inf for missing arcs, [Q, L1, ...]."""
    score = 0.0 if acceptor.score is None else acceptor.score
    return np.where(acceptor.target >= 0, score, -np.inf)


def _accepts(acceptor: Acceptor, labels: tuple[Ints, ...], offsets: Longs) -> Bools:
    """Return whether an acceptor accepts labellings, bool [P]; labels int32 [N] for each tape."""
    symbol = np.ravel_multi_index(labels, acceptor.target.shape[1:])
    target = acceptor.target.reshape(acceptor.n_states, -1)
    first, end = offsets[:-1], offsets[1:]
    state = np.zeros(len(first), np.int64)
    for token in range(int((end - first).max(initial=0))):
        rows = np.flatnonzero((first + token < end) & (state >= 0))
        state[rows] = target[state[rows], symbol[first[rows] + token]]
    accepted: Bools = (state >= 0) & (acceptor.final[state] > -np.inf)
    return accepted


def _is_local(acceptor: Acceptor) -> bool:
    """Whether an acceptor reads several tapes and has a single state, so no memory."""
    return len(acceptor.tapes) > 1 and len(acceptor.final) == 1 and acceptor.final[0] == 0.0


def with_tape(corpus: Corpus, tagger: CRF, ids: Ints) -> Corpus:
    """Return a corpus with the tape of a tagger as a column, given its label numbers."""
    return corpus.with_interned(tape_column(tagger.tape), Column(ids, tagger.labels))


# --- Whether a grammar over several tapes accepts any labelling -----------------------------------


def grammar_program(
    taggers: Sequence[CRF], conjuncts: Sequence[Acceptor], columns: Sequence[ObservedTape] = ()
) -> Program | None:
    """Return the product, without potentials, of the tapes that a grammar connects.

    Conjuncts over one other tape are left out, since the stage of that tape has them. Returns None
    unless some conjunct reads several tapes.
    """
    joint = {t for acceptor in conjuncts if len(acceptor.tapes) > 1 for t in acceptor.tapes}
    if not joint:
        return None
    chains = [bare_chain(t.tape, t.topology) for t in taggers if t.tape in joint]
    chains += [column.chain for column in columns if column.tape in joint]
    return Program(chains, (), [a for a in conjuncts if joint.issuperset(a.tapes)], "expanded")


def possible_lengths(program: Program | None, lengths: Longs) -> Bools:
    """Return whether a program accepts some labelling of each length, bool [B].

    True for all lengths if there is no program, or if its product is too large to expand.
    """
    possible = np.ones(len(lengths), dtype=bool)
    if program is None:
        return possible
    try:
        machine = program.machine
    except TooLargeError:
        return possible
    sizes, place = np.unique(lengths, return_inverse=True)
    for number, size in enumerate(sizes.tolist()):
        values = tuple(np.zeros((size, *shape)) for shape in program.input_shapes())
        batch = kernel.Bound(machine, np.asarray([0, size]), program.per_token(values))
        possible[place == number] = kernel.best_paths(batch)[1][0] > -np.inf
    return possible
