"""Sentences through one model: its lattices, its best labels, and observed labels and biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from fstcrf.arguments import items_of, real_array
from fstcrf.arrays import Bools, Floats
from fstcrf.errors import LabelError, OptionError, ShapeError
from fstcrf.lazy import LazyModule
from fstcrf.machines.topology import Topology
from fstcrf.taggers.model.model import Model
from fstcrf.taggers.model.reading import UNKNOWN, Data, Run, SentenceLike, read_one, read_sentences

if TYPE_CHECKING:
    from fstcrf.machines.plans import Program
    from fstcrf.taggers.model import tagged
else:
    tagged = LazyModule("fstcrf.taggers.model.tagged")

Forced: TypeAlias = Sequence[str | None]
"""Labels of a sentence that are known: None or ``"_"`` where not, ``"a|b"`` for one of several."""
Bias: TypeAlias = Mapping[str, float]
"""Added to the potential of a label at every token."""


class Evidence(Protocol):
    """Observed labels and biases; see `fstcrf.taggers.known.Known`."""

    def applied(self, program: Program, run: Run, values: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """Return the potentials of a run of sentences with what is known put in."""


def tag_one(model: Model, sentence: SentenceLike) -> list[str]:
    """Return the best labels of a sentence, with less to do around the kernel."""
    single = model.weights.single
    if single is None:
        return lattices_of(model, [sentence], streamed=True).best_labels().labels(0)[0]
    data = read_one(model.index, sentence, model.columns, model.reads)
    rows = data.design(0, 1).node
    path = single.viterbi(single.potentials(rows.indptr, rows.index, rows.value))
    return [model.labels[i] for i in path.tolist()]


def lattices_of(
    model: Model, sentences: Data, known: Evidence | None = None, *, streamed: bool = False
) -> tagged.TaggedLattices:
    """Return the lattices of sentences, with what is known of their labels put in.

    `streamed`: potentials are dropped after each question, and made anew for the next one.
    """
    data = read_sentences(model.index, sentences, model.columns, model.reads)
    weights, program = model.weights, model.program

    def make(run: Run) -> tuple[Floats, ...]:
        design = data.design(run.first, run.end)
        node, graph = weights.node(design.node), weights.graph(design.arc)
        values = (node, graph.score) if graph.per_token else (node,)
        return values if known is None else known.applied(program, run, values)

    checked = known is None and model.cannot_overflow
    return tagged.TaggedLattices(program, data.lengths, make, checked=checked, streamed=streamed)


def biases(topology: Topology, bias: Bias) -> Floats:
    """Return what is added to the potential of each state, float64 [S]."""
    if not isinstance(bias, Mapping):
        raise OptionError(f"bias is {bias!r}, expected a mapping of labels to numbers")
    values = np.zeros(topology.n_labels)
    given = real_array(list(bias.values()), "bias", error=OptionError)
    values[topology.label_ids(list(bias))] = given
    if not np.isfinite(values).all():
        raise OptionError("biases must be finite; use forced labels to forbid")
    return values[topology.state_label]


def masks(
    topology: Topology, forced: Sequence[Forced | None], lengths: Sequence[int], first: int
) -> list[Bools]:
    """Return `mask` of the sentences of these lengths, of which the first has this number."""
    several = len(forced) > 1
    return [
        mask(topology, forced[number], length, number if several else None)
        for number, length in enumerate(lengths, first)
    ]


def mask(
    topology: Topology, forced: Forced | None, length: int, sentence: int | None = None
) -> Bools:
    """Return the states that known labels of a sentence allow, bool [T, S]; all without any.

    Messages name the number of the sentence.
    """
    if forced is None:
        return np.ones((length, topology.n_states), dtype=bool)
    place = "" if sentence is None else f"sentence {sentence}, "
    expected = "a list with a label or None for each token"
    given: Any = items_of(forced, f"{place}the forced labels are", expected)
    if not hasattr(given, "__len__"):  # it can be read only once
        raise LabelError(f"{place}the forced labels are {given!r}, expected {expected}")
    if len(given) != length:
        raise ShapeError(f"{place}{len(given)} forced labels for {length} tokens")
    allowed = np.zeros((length, topology.n_labels), dtype=bool)
    index = topology.label_index
    for t, label in enumerate(given):
        if label is not None and not isinstance(label, str):
            raise LabelError(f"{place}token {t}: forced label {label!r} is no string")
        if label is None or label == UNKNOWN:
            allowed[t] = True
            continue
        parts = [label] if label in index else label.split("|")
        if any(part not in index for part in parts):
            what = f"{place}token {t}: forced label {label!r}"
            raise LabelError(f"{what} is not a label of the model")
        allowed[t, [index[part] for part in parts]] = True
    return allowed[:, topology.state_label]
