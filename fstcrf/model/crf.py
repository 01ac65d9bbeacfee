"""The CRF: a topology, an index of attributes, and weights. It tags."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arguments import real_array
from fstcrf.corpus import Column, Corpus
from fstcrf.errors import LabelError, NoPathError, OptionError, ShapeError
from fstcrf.features import FeatureIndex, LiteralIndex
from fstcrf.lattice import Lattice, Path
from fstcrf.lazy import StaticFunction
from fstcrf.model.algebra import Composable
from fstcrf.model.reading import Data, Prepared, Run, SentenceLike, Tape, read_one, read_sentences
from fstcrf.model.targets import UNKNOWN
from fstcrf.model.weights import Weights
from fstcrf.once import made_once
from fstcrf.plans import Chain, Program
from fstcrf.topology import Topology
from fstcrf.train.problem import ParameterSpace, Tables

if TYPE_CHECKING:
    import pynini

    from fstcrf.model import training
    from fstcrf.model.explain import Explanation, Weight
    from fstcrf.model.potentials import Binding, Potentials
    from fstcrf.model.record import TrainingRecord

__all__ = ["CRF"]

Floats = NDArray[np.float64]
Forced: TypeAlias = Sequence[str | None]
Bias: TypeAlias = Mapping[str, float]

_BATCH_TOKENS = 20_000


@dataclass(frozen=True, eq=False)
class CRF(Composable):
    """A conditional random field.

    Made by `CRF.train` or `fstcrf.load`.

    Parameters
    ----------
    topology : Topology
        Labels, label histories and where weights attach.
    index : FeatureIndex or LiteralIndex
        Attributes of tokens and their rows.
    space : ParameterSpace
        Which weights exist.
    theta : float64 [space.size]
        The weights.
    tape : str
        Name of the tape it writes.
    columns : tuple of str
        Columns of the data it was trained on.
    reads : tuple of Tape
        Tapes it reads.
    record : TrainingRecord, optional
        How it was trained.
    """

    topology: Topology
    index: FeatureIndex | LiteralIndex
    space: ParameterSpace
    theta: Floats
    tape: str
    columns: tuple[str, ...]
    reads: tuple[Tape, ...] = ()
    record: TrainingRecord | None = None

    def __repr__(self) -> str:
        size = f"{len(self.labels)} labels, {self.space.size:,} weights"
        return f"<CRF: writes {self.tape}, {size}>"

    # --- Making, saving -----------------------------------------------------------------------

    if TYPE_CHECKING:
        train = staticmethod(training.train_crf)
    else:  # that module imports this one
        train = StaticFunction("fstcrf.model.training", "train_crf")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        from fstcrf.model.file import save  # noqa: PLC0415 (it imports this module)

        save(self, path)

    # --- Tagging ------------------------------------------------------------------------------

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; axis of marginals and of masks."""
        return self.topology.labels

    def tag(
        self, sentence: SentenceLike, *, forced: Forced | None = None, bias: Bias | None = None
    ) -> list[str]:
        """Return the best label sequence of one sentence; ``[]`` for an empty one.

        Parameters
        ----------
        sentence : Sentence, mapping, list of rows, or list of attribute lists or feature dicts
        forced : sequence of str or None, optional
            Labels known beforehand: None or ``"_"`` where not, ``"a|b"`` for one of several.
        bias : mapping of str to float, optional
            Added to the potential of a label at every token: positive for more of it.

        Raises
        ------
        DataError
            The sentence lacks a column, or is not what it should be.
        LabelError
            An unknown label in `forced` or `bias`.
        NoPathError
            No label sequence agrees with `forced`.
        """
        if not len(sentence):
            return []
        return self.tag_all([sentence], forced=None if forced is None else [forced], bias=bias)[0]

    def tag_all(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced] | None = None,
        bias: Bias | None = None,
    ) -> list[list[str]]:
        """Return the best label sequence of each sentence.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        threads : int
            The answer does not depend on it.
        forced, bias
            As for `tag`, `forced` one for each sentence.
        """
        names = np.asarray(self.labels, dtype=object)

        def best(batch: _Batch) -> list[list[str]]:
            flat = names[self._best(batch)].tolist()
            bounds = batch.offsets.tolist()
            return [flat[a:b] for a, b in itertools.pairwise(bounds)]

        return self._each(sentences, best, threads, forced, bias)

    def tag_column(
        self,
        corpus: Corpus,
        *,
        threads: int = 1,
        forced: Sequence[Forced] | None = None,
        bias: Bias | None = None,
    ) -> Column:
        """Return the labels of a corpus as a column, faster than `tag_all` for large ones.

        Arguments as for `tag_all`.
        """
        _, found = self._runs(corpus, self._best, threads, forced, bias)
        return Column(np.concatenate([np.empty(0, dtype=np.int32), *found]), self.labels)

    def _best(self, batch: _Batch) -> NDArray[np.int32]:
        """Labels of the best paths, int32 [N]."""
        states, scores = kernel.viterbi(batch.graph, batch.offsets, batch.node)
        batch.check(scores)
        return states if self.topology.direct else self.topology.state_label[states]

    def paths_all(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced] | None = None,
        bias: Bias | None = None,
    ) -> list[Path | None]:
        """Return the best path of each sentence; None where every label sequence is forbidden.

        Arguments as for `tag_all`. Probabilities are those among the sequences that `forced`
        allows.
        """

        def best(batch: _Batch) -> list[Path | None]:
            states, scores = kernel.viterbi(batch.graph, batch.offsets, batch.node)
            log_z = kernel.log_partition(batch.graph, batch.offsets, batch.node)
            flat = [self.labels[i] for i in self.topology.state_label[states].tolist()]
            bounds = itertools.pairwise(batch.offsets.tolist())
            return [
                _path(flat[a:b], score, z) if score > -np.inf else None
                for (a, b), score, z in zip(bounds, scores.tolist(), log_z.tolist(), strict=True)
            ]

        found = self._each(sentences, best, threads, forced, bias)
        return [path if path != [] else _path([], 0.0, 0.0) for path in found]

    def marginals_all(
        self,
        sentences: Data,
        *,
        threads: int = 1,
        forced: Sequence[Forced] | None = None,
        bias: Bias | None = None,
    ) -> list[Floats]:
        """Return the probability of each label at each token, float64 [T, L] a sentence."""

        def posterior(batch: _Batch) -> list[Floats]:
            found = kernel.forward_backward(batch.graph, batch.offsets, batch.node)
            batch.check(found.log_z)
            return np.split(self.topology.label_sums(found.node), batch.offsets[1:-1])

        empty = np.empty((0, len(self.labels)))
        return [
            m if len(m) else empty for m in self._each(sentences, posterior, threads, forced, bias)
        ]

    def lattice(
        self, sentence: SentenceLike, *, forced: Forced | None = None, bias: Bias | None = None
    ) -> Lattice:
        """Return one sentence's weighted transducer; arguments as for `tag`."""
        data = read_one(self.index, sentence, self.columns, self.reads)
        if not data.lengths[0]:
            values: tuple[Floats, ...] = (np.empty((0, self.topology.n_states)),)
            if self.program.chains[0].arc is None:
                values += (np.empty((0, self.program.chains[0].n_kernel_arcs)),)
            return Lattice(self.program, values)
        run = next(data.runs(1))
        batch = self._batch(data, run, None if forced is None else [forced], self._biases(bias))
        values = (batch.node, batch.graph.score) if batch.graph.per_token else (batch.node,)
        return Lattice(self.program, values)

    @made_once
    def program(self) -> Program:
        """The tagger compiled: what its lattices share."""
        graph = self.weights.still_graph
        per_token = self.weights.has_arc_attributes
        arc = None if per_token else graph.score
        return Program([Chain(self.tape, self.topology, graph.initial, graph.final, arc)])

    def to_fst(self, arc_type: str = "log64") -> pynini.Fst:
        """Return the tagger's topology as a position-independent transducer.

        Input symbols are classes of arcs (which slots an arc sums), output symbols labels; weights
        are the costs of transitions. A sentence's emissions, composed with it, are its lattice.

        Parameters
        ----------
        arc_type : {"standard", "log", "log64"}

        Raises
        ------
        MissingDependencyError
            pynini is not installed.
        """
        from fstcrf.openfst import to_fst  # noqa: PLC0415 (few need it)
        from fstcrf.topology.transducer import topology_machine  # noqa: PLC0415

        weights = self.tables
        machine = topology_machine(
            self.topology, weights.transition, weights.initial, weights.final
        )
        found: pynini.Fst = to_fst(machine, arc_type)  # type: ignore[arg-type]
        return found

    # --- Looking inside -----------------------------------------------------------------------

    def top_features(self, n: int = 20) -> list[Weight]:
        """Return the n largest weights, by absolute value."""
        from fstcrf.model.explain import top_features  # noqa: PLC0415 (it imports this module)

        return top_features(self, n)

    def explain(self, sentence: SentenceLike, token: int) -> Explanation:
        """Return which features pushed which label at a token, and by how much."""
        from fstcrf.model.explain import explain  # noqa: PLC0415 (it imports this module)

        return explain(self, sentence, token)

    @made_once
    def tables(self) -> Tables:
        """The weights, laid out for the kernel."""
        return self.space.tables(self.theta)

    @made_once
    def weights(self) -> Weights:
        """The weights, laid out for tagging."""
        return Weights(self.topology, self.space, self.theta)

    # --- Composition --------------------------------------------------------------------------

    def bind(self, labels: Mapping[str, Sequence[str]] | None = None) -> Binding:
        """Return what gives the potentials of sentences while the labels of tapes are open.

        Parameters
        ----------
        labels : mapping of str to sequence of str, optional
            The open tapes and the labels that each may have, in the order of its axis; all tapes
            that are read with the labels of their taggers when absent. The others are columns.

        Raises
        ------
        OptionError
            A tape that the model does not read, or labels that are not distinct.
        """
        from fstcrf.model.potentials import Binding  # noqa: PLC0415 (a tagger alone needs none)

        if labels is None:
            labels = {tape.name: tape.labels for tape in self.reads}
        key = tuple((tape, tuple(axis)) for tape, axis in labels.items())
        known = self._bindings.get(key)
        return known or self._bindings.setdefault(key, Binding(self, labels))

    def potentials(
        self,
        sentences: Data,
        first: int = 0,
        end: int | None = None,
        *,
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> Potentials:
        """Return the potentials of a run of sentences, the labels of earlier tapes left open.

        For many runs of one corpus, ``crf.bind().prepare(corpus)`` does what is done per
        distinct string once.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        first, end : int
            The run, among the sentences that are not empty; all of them when absent.
        labels : mapping of str to sequence of str, optional
            As for `bind`.
        """
        data = self.bind(labels).prepare(sentences)
        count = sum(length > 0 for length in data.lengths)
        last = count if end is None else end
        if not 0 <= first <= last <= count:
            raise OptionError(f"sentences {first}:{last} of {count} that are not empty")
        return data.potentials(first, last)

    @made_once
    def _bindings(self) -> dict[tuple[tuple[str, tuple[str, ...]], ...], Binding]:
        return {}

    # --- Batches ------------------------------------------------------------------------------

    def _each(
        self,
        sentences: Data,
        answer: Any,
        threads: int,
        forced: Sequence[Forced] | None,
        bias: Bias | None,
    ) -> list[Any]:
        data, results = self._runs(sentences, answer, threads, forced, bias)
        found = iter([item for result in results for item in result])
        return [next(found) if length else [] for length in data.lengths]

    def _runs(
        self,
        sentences: Data,
        answer: Callable[[_Batch], Any],
        threads: int,
        forced: Sequence[Forced] | None,
        bias: Bias | None,
    ) -> tuple[Prepared, list[Any]]:
        """Answer run by run; the runs do not depend on the threads."""
        if threads < 1:
            raise OptionError(f"threads is {threads}, expected at least 1")
        data = read_sentences(self.index, sentences, self.columns, self.reads)
        if forced is not None and len(forced) != len(data.lengths):
            raise ShapeError(f"forced labels of {len(forced)} sentences for {len(data.lengths)}")
        added = self._biases(bias)

        def answered(run: Run) -> Any:
            return answer(self._batch(data, run, forced, added))

        runs = data.runs(_BATCH_TOKENS)
        if threads == 1:
            return data, list(map(answered, runs))
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (it imports logging)

        with ThreadPoolExecutor(threads) as pool:
            return data, list(pool.map(answered, runs))

    def _batch(
        self, data: Prepared, run: Run, forced: Sequence[Forced] | None, bias: Floats | None
    ) -> _Batch:
        design = data.design(run.first, run.end)
        graph, node = self.weights.graph(design.arc), self.weights.node(design.node)
        if bias is not None:
            node += bias
        if forced is not None:
            lengths = np.diff(run.offsets).tolist()
            pairs = zip(run.numbers.tolist(), lengths, strict=True)
            node[~np.concatenate([self._mask(forced[i], n) for i, n in pairs])] = -np.inf
        return _Batch(run.numbers, run.offsets, graph, node)

    def _biases(self, bias: Bias | None) -> Floats | None:
        if bias is None:
            return None
        values = np.zeros(len(self.labels))
        given = real_array(list(bias.values()), "bias", error=OptionError)
        values[self.topology.label_ids(bias)] = given
        if not np.isfinite(values).all():
            raise OptionError("biases must be finite; use forced labels to forbid")
        return values[self.topology.state_label]

    def _mask(self, forced: Forced, length: int) -> NDArray[np.bool_]:
        """States that forced labels allow, bool [T, S]."""
        if len(forced) != length:
            raise ShapeError(f"{len(forced)} forced labels for {length} tokens")
        mask = np.zeros((length, len(self.labels)), dtype=bool)
        index = self.topology.label_index
        for t, label in enumerate(forced):
            if label is None or label == UNKNOWN:
                mask[t] = True
                continue
            parts = [label] if label in index else label.split("|")
            if any(part not in index for part in parts):
                raise LabelError(f"token {t}: forced label {label!r} is not a label of the model")
            mask[t, [index[part] for part in parts]] = True
        return mask[:, self.topology.state_label]


@dataclass(slots=True)
class _Batch:
    """Sentences ready for the kernel: their numbers and their potentials."""

    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]
    graph: kernel.Graph
    node: Floats

    def check(self, scores: Floats) -> None:
        dead = np.flatnonzero(np.isneginf(scores))
        if len(dead):
            number = int(self.numbers[dead[0]])
            raise NoPathError("no label sequence is legal", sentence=number)


def _path(labels: Sequence[str], score: float, log_z: float) -> Path:
    probability = float(min(1.0, np.exp(score - log_z)))
    return Path(tuple(labels), score, probability, exact=True, bound=score)
