"""Explanations of labels in a composition: contributions of each tagger, and of couplings.

Each tape is looked at while the others have the best labels of the joint decision. Its labels are
pushed by its own tagger, and by the taggers that read it: a feature that reads a tape couples the
two, and counts on both sides. Under ``normalize="chain"`` these are scores before each tagger is
normalised. Features of label pairs are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Floats, Ints
from fstcrf.errors import OptionError
from fstcrf.ext.explain.pushes import attributes_at, pushes_of
from fstcrf.lattices import Answer
from fstcrf.taggers import JointCRF
from fstcrf.taggers.batches import as_corpus
from fstcrf.taggers.component import Component, as_read
from fstcrf.taggers.evidence import Request
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features.template import tape_column
from fstcrf.text.sentences import Data, SentenceLike

_LABELS, _PUSHES = 3, 15
"""How much of a tape is printed."""


@dataclass(frozen=True, slots=True)
class JointPush:
    """The contribution of one feature of one tagger to a label.

    Parameters
    ----------
    tagger : str
        Tape of the tagger whose feature it is.
    attribute : str
    label : str
        Label of the tape that is explained, or a pair of them.
    value : float
        Natural-log score: the tagger's weight in the composition, times the feature's, times the
        attribute's value.
    given : tuple of (str, str)
        Other tapes that the feature looks at, and their best labels: it couples tapes. Empty for a
        feature that reads only the input.
    """

    tagger: str
    attribute: str
    label: str
    value: float
    given: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TapeExplanation:
    """Contributions to labels of a tape at one token, given the best labels of other tapes.

    Parameters
    ----------
    best : str
        Label in the best joint labelling.
    probability : dict of str to float
        Marginal probability of each label, over all tapes; under ``normalize="chain"`` its
        tagger's probability, given the best labels of the tapes that it reads.
    emission : dict of str to float
        Sum of the pushes for each label.
    pushes : tuple of JointPush
        Largest absolute value first.
    """

    best: str
    probability: dict[str, float]
    emission: dict[str, float]
    pushes: tuple[JointPush, ...]

    def __str__(self) -> str:
        order = sorted(self.probability, key=self.probability.__getitem__, reverse=True)[:_LABELS]
        lines = [
            f"  {label:12} probability {self.probability[label]:.4f}"
            f"  emission {self.emission[label]:+.3f}"
            for label in order
        ]
        for push in [push for push in self.pushes if push.label in order][:_PUSHES]:
            given = ", ".join(f"{tape} {label}" for tape, label in push.given)
            told = f"{push.tagger}: {push.attribute}" + (f"  given {given}" if given else "")
            lines.append(f"  {push.value:+8.3f}  {push.label:12} {told}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class JointExplanation:
    """Contributions to labels at one token, tape by tape.

    Parameters
    ----------
    token : int
    tapes : dict of str to TapeExplanation
    """

    token: int
    tapes: dict[str, TapeExplanation]

    def __str__(self) -> str:
        return "\n".join(
            f"token {self.token}, tape {tape}: {found.best}\n{found}"
            for tape, found in self.tapes.items()
        )


def explain(
    composition: JointCRF, sentence: SentenceLike, token: int, decided: Answer | None = None
) -> JointExplanation:
    """Return which features of which tagger pushed which label at a token, and by how much.

    `decided` has the taggers' sequential decisions: features then contribute only to the tape of
    their tagger.
    """
    answer = decided or composition._decode(Request([sentence]))
    if not 0 <= token < answer.offsets[-1]:
        raise OptionError(f"token {token} of a sentence of {answer.offsets[-1]}")
    best = {tape: tuple(answer[tape].labels(0)[0]) for tape in composition.tapes}
    case = _Case(composition, sentence, best, token)
    pushes: dict[str, list[JointPush]] = {tape: [] for tape in composition.tapes}
    for component in composition._components:
        for tape, push in case.pushes(component):
            if decided is None or tape == component.tagger.tape:
                pushes[tape].append(push)
    if decided is None:
        chances = case.probabilities()
    else:
        chances = {tape: decided.marginals(tape)[0][token] for tape in best}
    return JointExplanation(
        token, {tape: _explained(case, tape, chances[tape], pushes[tape]) for tape in best}
    )


def _explained(case: _Case, tape: str, chances: Floats, pushes: list[JointPush]) -> TapeExplanation:
    known = case.composition.label_sets[tape]
    emission = dict.fromkeys(known, 0.0)
    for push in pushes:
        if push.label in emission:
            emission[push.label] += push.value
    return TapeExplanation(
        case.best[tape][case.token],
        dict(zip(known, chances.tolist(), strict=True)),
        emission,
        tuple(sorted(pushes, key=lambda push: -abs(push.value))),
    )


class _Case:
    """One token of a sentence whose tapes have their best labels."""

    def __init__(
        self,
        composition: JointCRF,
        sentence: SentenceLike,
        best: Mapping[str, tuple[str, ...]],
        token: int,
    ) -> None:
        self.composition, self.sentence, self.best, self.token = composition, sentence, best, token
        self.ids = {tape: self._numbers(tape, labels) for tape, labels in best.items()}
        self.corpus: Corpus | None = None  # of attribute lists: their taggers read no tapes
        if not composition._literal:
            corpus = as_corpus(composition, [sentence])
            for tape, ids in self.ids.items():
                column = Column(ids, composition.label_sets[tape])
                corpus = corpus.with_interned(tape_column(tape), column)
            self.corpus = corpus

    def pushes(self, component: Component) -> Iterator[tuple[str, JointPush]]:
        """Yield the tapes that the features of a tagger push, and how."""
        tagger, own = component.weighted, component.tagger.tape
        here = attributes_at(tagger, self._seen(component), self.token)[0]
        depends: dict[str, set[int]] = {}
        for tape in dict.fromkeys(reading.tape for reading in component.readings.values()):
            each = self._under_every_label(component, tape)
            common = set.intersection(*({row for row, _ in rows} for rows in each))
            depends[tape] = {row for rows in each for row, _ in rows} - common
            mine = (own, self.best[own][self.token])
            slots = self._slots(component)
            for label, rows in zip(self.composition.label_sets[tape], each, strict=True):
                for row, value in rows:
                    score = float(tagger.tables.node[row][slots].sum()) * value
                    if row in depends[tape] and score:
                        name = tagger.index.attribute(row)
                        others = self._given(depends, row, tape)
                        yield tape, JointPush(own, name, label, score, (mine, *others))
        for row, value in here:
            given = self._given(depends, row, own)
            for push in pushes_of(tagger, row, value):
                yield own, JointPush(own, push.attribute, push.label, push.value, given)

    def probabilities(self) -> dict[str, Floats]:
        """Return the probability of each label of each tape."""
        composition = self.composition
        if composition._conditional:
            return {
                c.tagger.tape: c.tagger.marginals_all(self._seen(c))[0][self.token]
                for c in composition._components
            }
        lattice = composition._lattices([self.sentence])[0]
        return {tape: lattice.marginals(tape)[self.token] for tape in composition.tapes}

    def _seen(self, component: Component, corpus: Corpus | None = None) -> Data:
        """Return the sentence as a tagger reads it."""
        data = corpus or self.corpus
        return [self.sentence] if data is None else as_read(data, component.readings)

    def _under_every_label(self, component: Component, tape: str) -> list[list[tuple[int, float]]]:
        """Return the attributes of the token for each label that a tape could have there."""
        assert self.corpus is not None  # noqa: S101 (a tagger that reads a tape reads columns)
        known = self.composition.label_sets[tape]
        ids = np.tile(self.ids[tape], (len(known), 1))
        ids[:, self.token] = np.arange(len(known))
        column = Column(ids.ravel(), known)
        copies = self.corpus.select([0] * len(known)).with_interned(tape_column(tape), column)
        return attributes_at(component.weighted, self._seen(component, copies), self.token)

    def _slots(self, component: Component) -> Ints:
        """Return the slots of the state that a tagger's best labels have at the token."""
        topology = component.tagger.topology
        ids = self.ids[component.tagger.tape]
        states = topology.paths(ids, np.asarray([0, len(ids)], dtype=np.int64))
        slots: Ints = topology.node_slots[states[self.token]]
        return slots

    def _given(
        self, depends: Mapping[str, set[int]], row: int, but: str
    ) -> tuple[tuple[str, str], ...]:
        """Return the tapes that an attribute looks at, and their best labels."""
        tapes = [tape for tape, rows in depends.items() if row in rows and tape != but]
        return tuple((tape, self.best[tape][self.token]) for tape in tapes)

    def _numbers(self, tape: str, labels: tuple[str, ...]) -> Ints:
        number = {label: k for k, label in enumerate(self.composition.label_sets[tape])}
        return np.asarray([number[label] for label in labels], dtype=np.int32)
