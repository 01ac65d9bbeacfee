"""Sentences that rules are learnt from: gold labels, kinds of tokens, and gold counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged, distinct
from fstcrf.errors import DataError, LabelError, OptionError, TooLargeError
from fstcrf.ext.rules.kernel import Counter, Counts, counting_bytes, expected_steps
from fstcrf.ext.rules.patterns import CountingAutomaton, kinds_of
from fstcrf.machines.grammar.labels import listed, nearest
from fstcrf.machines.plans import TapeChain
from fstcrf.machines.topology import Topology
from fstcrf.taggers.batches import as_corpus, with_tokens
from fstcrf.taggers.component import bare_chain
from fstcrf.taggers.crf import CRF
from fstcrf.taggers.joint import JointCRF
from fstcrf.text.corpus import Corpus
from fstcrf.text.sentences import Data
from fstcrf.training.memory import free_memory

OnMissing = Literal["error", "skip"]


@dataclass(frozen=True, eq=False)
class RuleSentences:
    """Sentences to learn from, and the counts of rules in their gold labels.

    Parameters
    ----------
    corpus : Corpus
    gold : int32 [N]
        Labels, numbers of the tagger's.
    kind : int32 [N]
        Kinds of tokens, as the automaton distinguishes them.
    counts : float64 [open costs]
        How often each rule counts in the gold labels.
    score : float
        Score of the gold labels by the rules whose costs are not open, added up.
    skipped : int
        Sentences that were left out.
    """

    corpus: Corpus
    gold: Ints
    kind: Ints
    counts: Floats
    score: float
    skipped: int


def one_tagger(tagger: CRF | JointCRF) -> JointCRF:
    """Return a tagger as a composition of one.

    Raises
    ------
    OptionError
        Several taggers.
    """
    whole = tagger if isinstance(tagger, JointCRF) else JointCRF((tagger,), (1.0,))
    if len(whole.taggers) > 1 or whole.maps:
        raise OptionError(
            "rules are learned on top of one tagger, not of several: learn them before you compose"
        )
    return whole


def rule_sentences(
    whole: JointCRF,
    automaton: CountingAutomaton,
    data: Data,
    target: str | None,
    on_missing: OnMissing,
) -> RuleSentences:
    """Return the sentences that can be learned from.

    Raises
    ------
    DataError
        No sentence; no such column; gold labels that are forbidden, unless they are to be skipped.
    LabelError
        A gold label that the tagger does not have, likewise.
    TooLargeError
        The automaton and the tagger together exceed the available memory.
    """
    tagger = whole.taggers[0]
    column = gold_column(tagger, target)
    _, corpus = with_tokens(as_corpus(whole, _with_column(data, column)))
    if not len(corpus):
        raise DataError("no sentences to learn from", path=corpus.source)
    _check_memory(automaton, tagger.topology, corpus.offsets)
    gold = _gold(corpus, column, tagger.labels, on_missing)
    ids = {given.tape: given.ids(corpus) for given in automaton.given}
    kind = kinds_of(automaton.given, ids, corpus.n_tokens)
    found = _gold_sums(automaton, tagger.topology, corpus.offsets, gold, kind)
    allowed = found.log_z > -np.inf
    counts = automaton.counted(found.read, found.ended)
    score, lost = math.fsum(found.log_z[allowed].tolist()), np.flatnonzero(~allowed)
    if not len(lost):
        return RuleSentences(corpus, gold, kind, counts, score, 0)
    if on_missing == "error" or not allowed.any():
        raise DataError(
            f"the gold labels of {len(lost):,} of {len(allowed):,} sentences are "
            "forbidden by the hard rules or the tagger's structure, this sentence is "
            "the first: correct the labels, or leave these sentences out with "
            "on_missing='skip'",
            **corpus.where(int(corpus.offsets[lost[0]])),
        )
    kept = Ragged(corpus.offsets).repeat(allowed)
    chosen = corpus.select(np.flatnonzero(allowed))
    return RuleSentences(chosen, gold[kept], kind[kept], counts, score, len(lost))


def gold_column(tagger: CRF, target: str | None) -> str:
    """Return the column of gold labels: the given one, or the target of the tagger's training."""
    if target is not None:
        return target
    record = tagger.record
    return tagger.tape if record is None or record.target is None else record.target


def _with_column(data: Data, name: str) -> Data:
    """Return the data, which must have a column."""
    if isinstance(data, Corpus):
        if name not in data.columns:
            there = ", ".join(map(str, data.columns))
            raise DataError(f"no column {name!r}: the columns are {there}", path=data.source)
        return data
    return Corpus.from_sentences([sentence for sentence in data if len(sentence)])


def _gold(corpus: Corpus, target: str, labels: tuple[str, ...], on_missing: OnMissing) -> Ints:
    """Return the gold label of each token; −1 for labels that the tagger lacks."""
    column = corpus.column(target)
    number = {label: i for i, label in enumerate(labels)}
    used = set(distinct(column.ids).tolist())
    odd = [v for i, v in enumerate(column.values) if v not in number and i in used]
    if odd and on_missing == "error":
        raise LabelError(
            f"gold label {odd[0]!r} is not a label of the tagger, expected one of "
            f"{listed(labels)}{nearest(odd[0], labels)}"
        )
    place = np.asarray([number.get(value, -1) for value in column.values], dtype=np.int32)
    return place[column.ids]


def _gold_sums(
    automaton: CountingAutomaton, topology: Topology, offsets: Longs, gold: Ints, kind: Ints
) -> Counts:
    """Return the rules' counts in the gold labels; log Z is −inf for forbidden gold labels."""
    chain = bare_chain("", topology)
    assert chain.arc is not None  # noqa: S101 (as it is made)
    node = np.where(topology.state_label == gold[:, None], 0.0, -np.inf)
    free = np.zeros(len(automaton.patterns))
    beside = counter(automaton, chain, all_pairs(topology, chain.arc), free)
    return expected_steps(beside, offsets, node, kind)


def _check_memory(automaton: CountingAutomaton, topology: Topology, offsets: Longs) -> None:
    """Refuse rules whose states, multiplied by the tagger's, exceed the memory."""
    longest, states = Ragged(offsets).longest, automaton.target.shape[1]
    needed = counting_bytes(longest, topology.n_states, states)
    free = free_memory()
    if free is not None and needed > free:
        raise TooLargeError(
            f"{automaton.sizes} have {states:,} states together, and the tagger has "
            f"{topology.n_states}: a sentence of {longest:,} tokens takes {needed / 1e9:,.1f} GB "
            f"of memory, {free / 1e9:,.1f} GB are free; use fewer rules, or shorter ones"
        )


# --- A chain beside the automaton -----------------------------------------------------------------


def all_pairs(topology: Topology, arcs: Floats) -> Floats:
    """Lay out potentials of the kernel's arcs, [..., arcs], by pairs of states, [..., S, S]."""
    size = topology.n_states
    found = np.full((*arcs.shape[:-1], size * size), -np.inf)
    pairs = topology.source.astype(np.int64) * size + topology.target
    found[..., pairs] = arcs[..., topology.kernel_arcs()]
    return found.reshape(*arcs.shape[:-1], size, size)


def counter(
    automaton: CountingAutomaton, chain: TapeChain, arc: Floats, weights: Floats
) -> Counter:
    """Return the automaton under weights for a chain, arcs float64 [S, S] or [N, S, S]."""
    step, end = automaton.scored(weights)
    return Counter(
        chain.topology.state_label.astype(np.int32),
        arc,
        chain.initial,
        chain.final,
        automaton.target,
        step,
        end,
    )
