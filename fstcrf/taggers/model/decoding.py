"""Sentences through one model: its best labels, posteriors and lattices.

Sentences are decoded in runs of about so many tokens; what the runs are, and so what is answered,
does not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import items_of, real_array
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import LabelError, NoPathError, OptionError, ShapeError
from fstcrf.lattices.answer import Answer
from fstcrf.lazy import LazyModule
from fstcrf.machines.topology import Topology
from fstcrf.ragged import RUN_TOKENS, Ragged
from fstcrf.taggers.model.model import Model
from fstcrf.taggers.model.reading import (
    UNKNOWN,
    Data,
    Prepared,
    Run,
    SentenceLike,
    answered,
    read_one,
    read_sentences,
)

if TYPE_CHECKING:
    from fstcrf import lattices
    from fstcrf.machines import plans
else:
    lattices, plans = LazyModule("fstcrf.lattices"), LazyModule("fstcrf.machines.plans")

Forced: TypeAlias = Sequence[str | None]
"""Labels of a sentence that are known: None or ``"_"`` where not, ``"a|b"`` for one of several."""
Bias: TypeAlias = Mapping[str, float]
"""Added to the potential of a label at every token."""

T = TypeVar("T")

_FEW_TOKENS = 1_000
_BATCH_NUMBERS = 220_000
"""Node potentials of a run, unless it has few tokens: the next run finds their memory where this
one left it, and warm. Larger blocks are given back to the system and taken anew, page by page."""


@dataclass(slots=True)
class _Batch:
    """Sentences ready for the kernel: the number of the first, and potentials."""

    model: Model
    first: int
    offsets: Longs
    graph: kernel.Graph
    node: Floats

    def check(self, scores: Floats) -> None:
        """Raise NoPathError where a score is −inf."""
        for k in np.flatnonzero(np.isneginf(scores)).tolist()[:1]:
            number = self.first + k
            if self.offsets[k] == self.offsets[k + 1]:
                # A sentence without tokens where the tagger's structure refuses such.
                raise plans.no_path_error(self.model.program, [np.empty(0)], sentence=number)
            raise NoPathError("no label sequence is legal", sentence=number)


def tag_one(model: Model, sentence: SentenceLike) -> list[str]:
    """Return the best labels of a sentence, with less to do around the kernel."""
    single = model.weights.single
    if single is None:
        return decode(model, [sentence]).labels(0)[0]
    data = read_one(model.index, sentence, model.columns, model.reads)
    rows = data.design(0, 1).node
    path = single.viterbi(single.potentials(rows.indptr, rows.index, rows.value))
    return [model.labels[i] for i in path.tolist()]


def decode(
    model: Model,
    sentences: Data,
    *,
    threads: int = 1,
    forced: Sequence[Forced | None] | None = None,
    bias: Bias | None = None,
    strict: bool = True,
    probabilities: bool = False,
) -> Answer:
    """Return the best path of each sentence; NoPathError where one has none, if `strict`.

    Probabilities that are not asked for and looked at all the same read the sentences once more.
    """
    topology = model.topology

    def best(batch: _Batch) -> tuple[Ints, Floats, Floats | None]:
        states, scores = kernel.viterbi(batch.graph, batch.offsets, batch.node)
        if strict:
            batch.check(scores)
        ids = states if topology.direct else topology.state_label[states]
        dead = np.isneginf(scores)
        if dead.any():
            ids = np.where(Ragged(batch.offsets).repeat(dead), np.int32(-1), ids)
        return ids, scores, sums(batch) if probabilities else None

    def sums(batch: _Batch) -> Floats:
        return kernel.log_partition(batch.graph, batch.offsets, batch.node)

    data, runs = _runs(model, sentences, best, threads, forced, bias)
    scores = np.concatenate([np.empty(0), *(score for _, score, _ in runs)])

    def log_z() -> Floats:
        parts = [z for _, _, z in runs if z is not None]
        if not probabilities:
            parts = _runs(model, sentences, sums, threads, forced, bias)[1]
        return np.concatenate([np.empty(0), *parts])

    flat = np.concatenate([np.empty(0, dtype=np.int32), *(ids for ids, _, _ in runs)])
    return Answer(
        {model.tape: flat.astype(np.int32, copy=False)[None]},
        {model.tape: model.labels},
        Ragged.from_lengths(data.lengths).offsets,
        scores=scores,
        log_z=log_z,
    )


def marginals_all(
    model: Model,
    sentences: Data,
    *,
    threads: int = 1,
    forced: Sequence[Forced | None] | None = None,
    bias: Bias | None = None,
) -> list[Floats]:
    """Return the probability of each label at each token, float64 [T, L] a sentence."""

    def posterior(batch: _Batch) -> list[Floats]:
        sums = kernel.forward_backward(batch.graph, batch.offsets, batch.node)
        batch.check(sums.log_z)
        return Ragged(batch.offsets).split(model.topology.label_sums(sums.node))

    _, runs = _runs(model, sentences, posterior, threads, forced, bias)
    return [rows for run in runs for rows in run]


def lattice(
    model: Model, sentence: SentenceLike, *, forced: Forced | None = None, bias: Bias | None = None
) -> lattices.TapeLattice:
    """Return one sentence's weighted transducer; arguments as for `tag_all`."""
    data, program = read_one(model.index, sentence, model.columns, model.reads), model.program
    evidence = None if forced is None else [forced]
    added = None if bias is None else biases(model.topology, bias)
    batch = _batch(model, data, next(data.runs(1)), evidence, added)
    values = (batch.node, batch.graph.score) if batch.graph.per_token else (batch.node,)
    return lattices.Lattice(lattices.DenseRow(program, values))


# --- Runs of sentences ----------------------------------------------------------------------------


def _runs(
    model: Model,
    sentences: Data,
    answer: Callable[[_Batch], T],
    threads: int,
    forced: Sequence[Forced | None] | None,
    bias: Bias | None,
) -> tuple[Prepared, list[T]]:
    """Answer run by run."""
    data = read_sentences(model.index, sentences, model.columns, model.reads)
    if forced is not None and len(forced) != len(data.lengths):
        raise ShapeError(f"forced labels of {len(forced)} sentences for {len(data.lengths)}")
    added = None if bias is None else biases(model.topology, bias)

    def of_run(run: Run) -> T:
        return answer(_batch(model, data, run, forced, added))

    tokens = max(_FEW_TOKENS, _BATCH_NUMBERS // model.topology.n_states)
    return data, answered(data.runs(min(RUN_TOKENS, tokens)), of_run, threads)


def _batch(
    model: Model,
    data: Prepared,
    run: Run,
    forced: Sequence[Forced | None] | None,
    bias: Floats | None,
) -> _Batch:
    design = data.design(run.first, run.end)
    graph = model.weights.decoding_graph(design.arc)
    node = model.weights.node(design.node)
    if bias is not None:
        node += bias
    if forced is not None:
        lengths = Ragged(run.offsets).lengths.tolist()
        node[~np.concatenate(masks(model.topology, forced, lengths, run.first))] = -np.inf
    return _Batch(model, run.first, run.offsets, graph, node)


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
