"""The negative log-likelihood of given labels with its gradients, for layers in networks.

The gradient of log Z for a score is the expected number of times that paths have it: expected
labels, arcs and ends. The expected numbers of one path, or of all paths with the known labels, are
subtracted. One tape or several, whose scores add up and which may be coupled, under a grammar.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from fstcrf.arrays import Array, Bools, Floats, Ints
from fstcrf.errors import NoPathError, NumericError, OptionError, TooLargeError
from fstcrf.kernel import EmissionRows, ExpandedChain, Graph, Sums, forward_backward
from fstcrf.lattices import Lattices, product
from fstcrf.lattices.answer import Answer
from fstcrf.lattices.emissions.batch import ArrayLattices
from fstcrf.lattices.emissions.reading import Scores
from fstcrf.lattices.emissions.structure import ChainParameters, LegalStates, joint_structure
from fstcrf.lattices.engine import Tape
from fstcrf.lazy import given_state, made_once
from fstcrf.machines.grammar import Grammar

__all__: list[str] = []  # only the layers for PyTorch and JAX use it

Tapes = tuple[tuple[str, tuple[str, ...]], ...]
"""Name and labels of each tape."""


class LabelLoss(NamedTuple):
    """Negative log-likelihood of a batch and its gradients.

    loss : float64 [B]; 0 for a skipped sentence.
    skipped : bool [B]; without a path, or its labels are illegal.
    emissions : tuple of [B, T, L]; for each tape, with the dtype of its scores, 0 beyond the end.
    chains : tuple of ChainParameters; one for each tape.
    couplings : dict of pairs of tapes to float64 [L, L].
    """

    loss: Floats
    skipped: Bools
    emissions: tuple[Array, ...]
    chains: tuple[ChainParameters, ...]
    couplings: dict[tuple[str, str], Floats]


@dataclass(frozen=True, eq=False)
class Heads:
    """The heads of a network for the same tokens, composed.

    Parameters
    ----------
    tapes : tuple of (str, tuple of str)
        Name and labels of each head.
    pairs : tuple of (str, str)
        Tapes whose labels at one token are coupled.
    grammar : Grammar, optional
        Over these tapes.

    Raises
    ------
    OptionError
        Pairs that are not two different tapes.
    GrammarError
        A grammar of other tapes or labels.
    TooLargeError
        More joint states than a layer multiplies out.
    """

    tapes: Tapes
    pairs: tuple[tuple[str, str], ...] = ()
    grammar: Grammar | None = None

    __getstate__ = given_state

    def __post_init__(self) -> None:
        names = [name for name, _ in self.tapes]
        wrong = next((pair for pair in self.pairs if pair not in permutations(names, 2)), None)
        if wrong is not None:
            raise OptionError(f"coupling {wrong}: expected two of {', '.join(names)}")
        if self.structure is None:
            raise TooLargeError(
                "the labels of all heads under the grammar make too many joint states for a layer: "
                "fewer labels, or a grammar that remembers less"
            )

    @made_once
    def structure(self) -> LegalStates | None:
        """Joint states."""
        return joint_structure(self.tapes, self.grammar)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Labels of each tape."""
        return tuple(len(labels) for _, labels in self.tapes)

    def emitter(self, chains: Sequence[ChainParameters]) -> ExpandedChain:
        """Return the joint chain with the scores of all tapes added."""
        assert self.structure is not None  # noqa: S101 (checked when made)
        return self.structure.emitter(chains)

    def joint_scores(
        self, scores: Sequence[Scores], couplings: Mapping[tuple[str, str], Floats]
    ) -> Scores:
        """Return the scores of joint labels, [N, L of all tapes]; unchanged for one tape."""
        if len(scores) == 1:
            return scores[0]
        sizes, count = self.sizes, len(self.sizes)
        rows = [s.rows[s.inside] if s.rows.ndim == 3 else s.rows for s in scores]
        total = np.zeros((len(rows[0]), *sizes), dtype=np.result_type(*rows))
        for k, own in enumerate(rows):
            total += own.reshape(len(own), *(sizes[k] if c == k else 1 for c in range(count)))
        names = [name for name, _ in self.tapes]
        for (one, other), table in couplings.items():
            i, j = names.index(one), names.index(other)
            shape = [sizes[c] if c in (i, j) else 1 for c in range(count)]
            total += (table if i < j else table.T).reshape(shape).astype(total.dtype)
        flat = total.reshape(len(total), math.prod(sizes))
        return Scores(flat, scores[0].lengths, scores[0].width)

    def joint_tags(self, tags: Sequence[Ints]) -> Ints:
        """Return joint labels, int32 [B, T]; −1 if a label of any tape is unknown."""
        if len(tags) == 1:
            return tags[0]
        known = np.logical_and.reduce([t >= 0 for t in tags])
        joint = np.ravel_multi_index(tuple(np.where(known, t, 0) for t in tags), self.sizes)
        found: Ints = np.where(known, joint, -1).astype(np.int32)
        return found

    def joint_mask(self, tags: Sequence[Ints]) -> Bools:
        """Return which joint labels have the known ones, bool [B, T, L of all tapes]."""
        allowed = np.ones((*tags[0].shape, *self.sizes), dtype=bool)
        for k, (own, size) in enumerate(zip(tags, self.sizes, strict=True)):
            fits = (own[:, :, None] < 0) | (own[:, :, None] == np.arange(size))
            shape = [size if c == k else 1 for c in range(len(self.sizes))]
            allowed &= fits.reshape(*own.shape, *shape)
        return allowed.reshape(*tags[0].shape, -1)

    def lattices(
        self,
        scores: Sequence[Scores],
        chains: Sequence[ChainParameters],
        couplings: Mapping[tuple[str, str], Floats],
    ) -> Lattices[Any]:
        """Return the lattices of sentences, for questions beyond the kernel's sums."""
        tapes = [Tape(name, labels, segments=False) for name, labels in self.tapes]
        if len(tapes) == 1:
            return ArrayLattices(scores[0], tapes[0], chains[0], self.grammar)
        names = [tape.name for tape in tapes]
        tables = {(names.index(a), names.index(b)): t for (a, b), t in couplings.items()}
        parts = map(ArrayLattices, scores, tapes, chains)
        rows = [product(several, coupling=tables) for several in zip(*parts, strict=True)]
        whole = Lattices(rows)
        return whole if self.grammar is None else whole & self.grammar


class _Found(NamedTuple):
    """Log Z, the scores of the labels, and expectations minus the expectations under the labels."""

    log_z: Floats
    given: Floats
    sums: Sums


def likelihood(
    heads: Heads,
    scores: Sequence[Scores],
    chains: Sequence[ChainParameters],
    couplings: Mapping[tuple[str, str], Floats],
    tags: Sequence[Ints] | Bools,
    *,
    skip: bool = False,
    gradients: bool = True,
    threads: int = 1,
) -> LabelLoss:
    """Return the negative log-likelihood of labels, and its gradients.

    Parameters
    ----------
    heads : Heads
    scores : sequence of Scores
        One for each tape, of the same sentences.
    chains : sequence of ChainParameters
        Of each tape.
    couplings : mapping of (str, str) to float64 [L, L]
        For each of the pairs.
    tags : sequence of int32 [B, T], or bool [B, T, L of all tapes]
        Labels of each tape, −1 where not known: then all labels are summed over. Or the joint
        labels that there may be.
    skip : bool
        A sentence without a path, or with illegal labels, has loss and gradient 0.
    gradients : bool
        Without them all of these are empty.
    threads : int

    Raises
    ------
    NoPathError
        Such a sentence, with its number, and `skip` is false.
    NumericError
        NaN or +inf.
    """
    joint, emitter = heads.joint_scores(scores, couplings), heads.emitter(chains)
    gold, allowed = _given_labels(heads, joint, tags)
    ask = _Question(emitter, gradients, threads)
    try:
        found = ask.answer(joint, gold, allowed)
    except NumericError:
        for own, (_, labels) in zip(scores, heads.tapes, strict=True):
            own.check_numbers(labels)
        raise
    skipped = ~(found.given > -np.inf)
    if not skipped.any():
        return _result(heads, found, found.log_z - found.given, skipped, found.sums.node)
    if not skip:
        b = int(np.flatnonzero(skipped)[0])
        if found.log_z[b] > -np.inf:
            single = [one.select(np.asarray([b])) for one in scores]
            row = heads.lattices(single, chains, couplings)[0].row
            raise row.illegal(_masks(tags, b, len(row), heads.sizes), b)
        if not joint.lengths[b]:
            reason = "it has no tokens, and the grammar does not accept the empty labelling"
            raise NoPathError(reason, sentence=b)
        raise NoPathError("every label sequence is forbidden", sentence=b)
    kept = ~skipped
    some = ask.answer(joint.select(kept), gold[kept], None if allowed is None else allowed[kept])
    loss = np.zeros(len(kept))
    loss[kept] = some.log_z - some.given
    node = some.sums.node
    if gradients:
        wide = np.zeros((len(kept), joint.width, node.shape[2]), dtype=node.dtype)
        wide[kept, : node.shape[1]] = node
        node = wide
    return _result(heads, some, loss, skipped, node)


def _masks(
    tags: Sequence[Ints] | Bools, sentence: int, length: int, sizes: Sequence[int]
) -> list[Bools]:
    """Return the labels that each token of a sentence may have, bool [T, L] of each tape."""
    if isinstance(tags, np.ndarray):
        return [tags[sentence, :length]]
    own = [(one[sentence, :length, None], size) for one, size in zip(tags, sizes, strict=True)]
    return [(ids < 0) | (ids == np.arange(size)) for ids, size in own]


def _given_labels(
    heads: Heads, joint: Scores, tags: Sequence[Ints] | Bools
) -> tuple[Ints, Bools | None]:
    """Return joint labels, and the possible joint labels if some are unknown."""
    if isinstance(tags, np.ndarray):
        return np.zeros(tags.shape[:2], dtype=np.int32), tags
    if any((own < 0).any() and (own[joint.inside] < 0).any() for own in tags):
        return np.zeros(tags[0].shape, dtype=np.int32), heads.joint_mask(tags)
    return heads.joint_tags(tags), None


@dataclass(frozen=True, eq=False)
class _Question:
    """A question about a batch."""

    emitter: ExpandedChain
    gradients: bool
    threads: int

    def answer(self, joint: Scores, gold: Ints, allowed: Bools | None) -> _Found:
        rows = self.rows(joint)
        sums = self.sums(rows, joint)
        if allowed is None:
            labels = np.ascontiguousarray(gold[:, : joint.width], dtype=np.int32)
            return _Found(sums.log_z, rows.score_labels(labels, sums), sums)
        some = joint.masked(allowed[:, : joint.width][joint.inside])
        own = self.sums(self.rows(some), some)
        pairs = zip(sums[2:], own[2:], strict=True)
        node, arc, begin, end = (np.subtract(one, other) for one, other in pairs)
        left = Sums(sums.log_z, sums.left, node, arc, begin, end)
        return _Found(sums.log_z, own.log_z, left)

    def rows(self, joint: Scores) -> EmissionRows:
        return EmissionRows(self.emitter, joint.rows, joint.sentences, joint.width, self.threads)

    def sums(self, rows: EmissionRows, joint: Scores) -> Sums:
        """Return the sums of all sentences; sums that overflow are computed in the log domain."""
        sums = rows.sums(posteriors=self.gradients, arcs=self.gradients)
        if not sums.left.any():
            return sums
        emitter, rest = self.emitter, joint.select(sums.left)
        graph = Graph(emitter.initial, emitter.final, emitter.arc.reshape(-1))
        states = np.ascontiguousarray(rest.flat[:, emitter.label])
        found = forward_backward(graph, rest.offsets, states, domain="log")
        sums.log_z[sums.left] = found.log_z
        if self.gradients:
            label = np.zeros((len(states), emitter.n_labels))
            np.add.at(label.T, emitter.label, found.node.T)
            sums.node[sums.left, : rest.width] = rest.padded(label)
            sums.arc[...] += found.arc.reshape(sums.arc.shape)
            sums.begin[...] += found.node[rest.offsets[:-1]].sum(axis=0)
            sums.end[...] += found.node[rest.offsets[1:] - 1].sum(axis=0)
        return sums._replace(left=np.zeros_like(sums.left))


def _result(heads: Heads, found: _Found, loss: Floats, skipped: Bools, node: Array) -> LabelLoss:
    """Return the gradients by tape from the gradients of joint labels and states."""
    if not found.sums.arc.size:
        return LabelLoss(loss, skipped, (), (), {})
    structure, sums, sizes = heads.structure, found.sums, heads.sizes
    assert structure is not None  # noqa: S101 (checked when made)
    if structure.plain:
        chain = ChainParameters(sums.arc, sums.begin, sums.end)
        return LabelLoss(loss, skipped, (node,), (chain,), {})
    chains = []
    for label, size in zip(structure.label, sizes, strict=True):
        hot = (label[:, None] == np.arange(size)).astype(np.float64)
        arcs = hot.T @ sums.arc @ hot
        chains.append(ChainParameters(arcs, hot.T @ sums.begin, hot.T @ sums.end))
    if len(sizes) == 1:
        return LabelLoss(loss, skipped, (node,), tuple(chains), {})
    cells = node.reshape(*node.shape[:2], *sizes)
    axes = range(len(sizes))
    emissions = tuple(cells.sum(axis=tuple(a + 2 for a in axes if a != k)) for k in axes)
    total = cells.sum(axis=(0, 1), dtype=np.float64)
    names = [name for name, _ in heads.tapes]
    couplings = {}
    for one, other in heads.pairs:
        i, j = names.index(one), names.index(other)
        table = total.sum(axis=tuple(a for a in axes if a not in (i, j)))
        couplings[one, other] = table if i < j else table.T
    return LabelLoss(loss, skipped, emissions, tuple(chains), couplings)


# --- What else a layer is asked -------------------------------------------------------------------


def best_labels(
    heads: Heads,
    scores: Sequence[Scores],
    chains: Sequence[ChainParameters],
    couplings: Mapping[tuple[str, str], Floats],
    *,
    threads: int = 1,
) -> Answer:
    """Return the best labels of every tape; parameters as for `likelihood`."""
    joint, emitter = heads.joint_scores(scores, couplings), heads.emitter(chains)
    rows = EmissionRows(emitter, joint.rows, joint.sentences, joint.width, threads)
    path, best = rows.best()
    kept = [ChainParameters(*(part.copy() for part in chain)) for chain in chains]
    tables = {pair: table.copy() for pair, table in couplings.items()}
    parts = np.unravel_index(np.maximum(path, 0), heads.sizes)
    names = [name for name, _ in heads.tapes]
    flat = {
        name: np.where(path < 0, -1, part).astype(np.int32)[None]
        for name, part in zip(names, parts, strict=True)
    }
    question = _Question(emitter, gradients=False, threads=threads)
    return Answer(
        flat,
        dict(heads.tapes),
        joint.offsets,
        scores=best,
        log_z=lambda: question.sums(rows, joint).log_z,
        posterior=lambda: heads.lattices(scores, kept, tables).posterior(None, threads),
        width=joint.width,
    )


def label_probabilities(
    heads: Heads,
    scores: Sequence[Scores],
    chains: Sequence[ChainParameters],
    couplings: Mapping[tuple[str, str], Floats],
    *,
    threads: int = 1,
) -> tuple[Array, ...]:
    """Return the probability of each label of every tape, [B, T, L]; parameters as above."""
    joint, emitter = heads.joint_scores(scores, couplings), heads.emitter(chains)
    question = _Question(emitter, gradients=True, threads=threads)
    sums = question.sums(question.rows(joint), joint)
    return _result(heads, _Found(sums.log_z, sums.log_z, sums), sums.log_z, sums.left, sums.node)[2]
