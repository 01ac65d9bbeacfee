"""Explanations of labels: the largest weights of a model, and contributions at a token."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.taggers.crf import CRF
from fstcrf.text.sentences import Data, SentenceLike, read_sentences


@dataclass(frozen=True, slots=True)
class Weight:
    """One feature.

    Parameters
    ----------
    attribute : str
        Its part of the input; empty if it reads only labels.
    slot : str
        The label, pair of labels or succession it speaks for.
    weight : float
    """

    attribute: str
    slot: str
    weight: float


@dataclass(frozen=True, slots=True)
class Push:
    """The contribution of one feature at one token.

    Parameters
    ----------
    attribute : str
    label : str
    value : float
        Natural-log score: weight times the attribute's value.
    """

    attribute: str
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The contributions to labels at one token.

    Parameters
    ----------
    token : int
    best : str
        Label in the best sequence.
    probability : dict of str to float
        Marginal probability of each label.
    emission : dict of str to float
        Sum of the pushes for each label.
    pushes : tuple of Push
        Largest absolute value first.
    """

    token: int
    best: str
    probability: dict[str, float]
    emission: dict[str, float]
    pushes: tuple[Push, ...]

    def __str__(self) -> str:
        order = sorted(self.probability, key=self.probability.__getitem__, reverse=True)
        lines = [f"token {self.token}: {self.best}"]
        lines += [
            f"  {label:12} probability {self.probability[label]:.4f}"
            f"  emission {self.emission[label]:+.3f}"
            for label in order[:3]
        ]
        shown = [push for push in self.pushes if push.label in order[:3]][:15]
        lines += [f"  {push.value:+8.3f}  {push.label:12} {push.attribute}" for push in shown]
        return "\n".join(lines)


def top_features(model: CRF, n: int) -> list[Weight]:
    """Return the n largest weights of a model, by absolute value."""
    if n < 0:
        raise OptionError(f"{n} features, expected at least 0")
    order = np.argsort(-np.abs(model.theta), kind="stable")[:n]
    return [_weight(model, int(k)) for k in order]


def _weight(model: CRF, k: int) -> Weight:
    space, topology, value = model.space, model.topology, float(model.theta[k])
    part = int(np.searchsorted(space.bounds, k, side="right")) - 1
    k -= space.bounds[part]
    if part == 0:
        row, slot = divmod(int(space.node_cells[k]), space.width)
        return Weight(model.index.attribute(row), topology.node_slot_names[slot], value)
    if part == 1:
        return Weight("", topology.arc_slot_names[space.transitions[k]], value)
    if part == 2:
        row, slot = divmod(int(space.arc_cells[k]), space.arc_width)
        return Weight(model.index.attribute(row, arc=True), topology.arc_slot_names[slot], value)
    states = space.initial if part == 3 else space.final
    where = "first label" if part == 3 else "last label"
    return Weight(where, topology.state_names[states[k]], value)


def explain(model: CRF, sentence: SentenceLike, token: int) -> Explanation:
    """Return which features pushed which label at a token, and by how much."""
    (rows,) = attributes_at(model, [sentence], token)
    pushes = [push for row, value in rows for push in pushes_of(model, row, value)]
    paths = model.lattice(sentence)
    marginal = paths.marginals()[token]
    emission = dict.fromkeys(model.labels, 0.0)
    for push in pushes:
        if push.label in emission:
            emission[push.label] += push.value
    return Explanation(
        token,
        paths.best().labels[token],
        dict(zip(model.labels, marginal.tolist(), strict=True)),
        emission,
        tuple(sorted(pushes, key=lambda push: -abs(push.value))),
    )


def attributes_at(model: CRF, sentences: Data, token: int) -> list[list[tuple[int, float]]]:
    """Return the attributes that a token of each sentence has: their rows and values."""
    data = read_sentences(model.index, sentences, model.columns, model.reads)
    short = [length for length in data.lengths if not 0 <= token < length]
    if short:
        raise OptionError(f"token {token} of a sentence of {short[0]}")
    rows = data.design(0, len(data.lengths)).node
    values = np.ones(len(rows.index)) if rows.value is None else rows.value
    found = []
    for first in itertools.accumulate(data.lengths[:-1], initial=0):
        part = slice(int(rows.indptr[first + token]), int(rows.indptr[first + token + 1]))
        found.append(list(zip(rows.index[part].tolist(), values[part].tolist(), strict=True)))
    return found


def pushes_of(model: CRF, row: int, value: float) -> list[Push]:
    """Return the contributions of an attribute with some value to each slot with a weight."""
    weights: Floats = model.tables.node[row] * value
    attribute = model.index.attribute(row)
    names = model.topology.node_slot_names
    return [Push(attribute, names[s], float(weights[s])) for s in np.flatnonzero(weights).tolist()]
