"""The conditional random field: topology, index of attributes, weights, and its file.

A model file is a safetensors file. It is memory-mapped on load, and every part is checked. Its
arrays are ``theta``, the cells of the parameter space, the arrays of the topology and those of the
index. Its metadata are ``model`` (names, tapes, record of training) and ``index``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

import msgspec
import numpy as np

from fstcrf import display
from fstcrf.arrays import Array, Floats
from fstcrf.errors import ModelFileError, OptionError
from fstcrf.lazy import LazyModule, StaticFunction, made_once
from fstcrf.machines.topology import Topology, topology_machine
from fstcrf.storage import VERSION, group, read_arrays, sound
from fstcrf.taggers.evidence import Bias, Evidence, Forced
from fstcrf.taggers.tokens import TokenTagger
from fstcrf.taggers.weights import Weights
from fstcrf.text.features import (
    AttributeIndex,
    FeatureFunctions,
    FeatureIndex,
    FunctionIndex,
    LiteralIndex,
)
from fstcrf.text.features.function import with_functions
from fstcrf.text.sentences import (
    Data,
    Run,
    SentenceLike,
    Tape,
    read_sentences,
    sized,
)
from fstcrf.training.problem import ParameterSpace, Tables
from fstcrf.training.record import TrainingRecord

if TYPE_CHECKING:
    import pynini

    from fstcrf.kernel import Budget
    from fstcrf.lattices import Lattice, TapeLattice
    from fstcrf.machines import openfst, plans
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.plans import Search
    from fstcrf.taggers import Explanation, JointCRF, Weight, potentials, tagged, training
    from fstcrf.taggers.tagged import TaggedLattices
    from fstcrf.text.corpus import Corpus
    from fstcrf.training import options as training_options
    from fstcrf.training.record import Report, TapeProbabilities
else:  # loading a tagger does not import modules that few calls need
    training_options = LazyModule("fstcrf.training.options")
    openfst = LazyModule("fstcrf.machines.openfst")
    plans = LazyModule("fstcrf.machines.plans")
    potentials = LazyModule("fstcrf.taggers.potentials")
    tagged = LazyModule("fstcrf.taggers.tagged")
    training = LazyModule("fstcrf.taggers.training")
joint = LazyModule("fstcrf.taggers.joint")
pushes = LazyModule("fstcrf.ext.explain.pushes")

P = ParamSpec("P")


def _named_options(train: Callable[P, CRF]) -> Callable[P, CRF]:
    """Return a training function whose errors suggest the option that is most similar."""
    expected = signature(train)

    @wraps(train)
    def trained(*args: P.args, **options: P.kwargs) -> CRF:
        odd = sorted(options.keys() - expected.parameters.keys())
        if odd and not any(p.kind is p.VAR_KEYWORD for p in expected.parameters.values()):
            advice = training_options.advice_on(odd[0], expected.parameters)
            raise TypeError(f"train() got an unexpected keyword argument {odd[0]!r}; {advice}")
        return train(*args, **options)

    return trained


@dataclass(frozen=True, eq=False)
class CRF(TokenTagger[list[str]]):
    """A conditional random field. `CRF.train` and `fstcrf.load` create it.

    Parameters
    ----------
    topology : Topology
        Labels, label histories and where weights attach.
    index : FeatureIndex, LiteralIndex or FunctionIndex
        Attributes of tokens and their rows.
    space : ParameterSpace
        Which weights exist.
    theta : float64 [space.size]
        The weights.
    tape : str
        Name of the tape that it writes.
    columns : tuple of str
        Columns of the training data.
    reads : tuple of Tape
        Tapes whose labels are in its attributes.
    record : TrainingRecord, optional
        Record of its training.
    """

    topology: Topology
    index: AttributeIndex
    space: ParameterSpace
    theta: Floats
    tape: str
    columns: tuple[str, ...]
    reads: tuple[Tape, ...] = ()
    record: TrainingRecord | None = None

    def __repr__(self) -> str:
        size = f"{len(self.labels)} labels, {self.space.size:,} weights"
        return f"<{type(self).__name__}: writes {self.tape}, {size}>"

    def __getstate__(self) -> dict[str, object]:
        """Return the fields, without values that are computed from them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; axis of marginals and of masks."""
        return self.topology.labels

    @made_once
    def _cannot_overflow(self) -> bool:
        """Whether sums of weights stay finite for all float32 values of attributes."""
        return float(np.abs(self.theta).max(initial=0.0)) < 1e200

    @made_once
    def tables(self) -> Tables:
        """The weights, laid out for the kernel."""
        return self.space.tables(self.theta)

    @made_once
    def _weights(self) -> Weights:
        """The weights, laid out for tagging."""
        return Weights(self.topology, self.space, self.theta)

    @made_once
    def _program(self) -> plans.Program:
        """The compiled topology, which all its lattices share."""
        graph = self._weights.static_graph
        per_token = self._weights.has_arc_attributes
        arc = None if per_token else graph.score
        chain = plans.TapeChain(self.tape, self.topology, graph.initial, graph.final, arc)
        return plans.Program([chain])

    @made_once
    def _bindings(self) -> dict[Hashable, object]:
        """Cache of `potentials.bind`: the model for open tapes and their labels."""
        return {}

    @property
    def tapes(self) -> tuple[str, ...]:
        """Name of the tape that it writes."""
        return (self.tape,)

    @property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of its tape."""
        return {self.tape: self.labels}

    def _facts(self) -> dict[str, display.Cell]:
        """Return the lines of the description: sizes, columns, training."""
        record = self.record
        read = [] if isinstance(self.index, LiteralIndex) else list(self.index.columns)
        if isinstance(self.index, FunctionIndex):
            read = [f"{self.index.name}()"]
        facts: dict[str, display.Cell] = {
            "reads": display.listed([*read, *(tape.name for tape in self.reads)]) or "attributes",
            "attributes": self.index.n_node_rows + self.index.n_arc_rows,
            "weights": self.space.size,
        }
        if record is None:
            return facts
        best = "" if record.dev_score is None else f", held-out score {record.dev_score:.4f}"
        return {
            **facts,
            "order": record.order,
            "trained on": f"{record.sentences:,} sentences, {record.tokens:,} tokens",
            "by": f"{record.options.get('method')}, {record.iterations} iterations{best}",
            "grammar": record.grammar,
        }

    # --- Training, saving ---------------------------------------------------------------------

    if TYPE_CHECKING:
        train = staticmethod(training.train_crf)
    else:
        train = StaticFunction("fstcrf.taggers.training", "train_crf", _named_options)

    def _retrained(
        self,
        corpus: Corpus,
        reads: Sequence[CRF],
        *,
        threads: int = 1,
        report: Report | None = None,
    ) -> CRF:
        """Train the tagger again on another text, with the options of its record.

        A tagger that was stopped by held-out data makes the same number of iterations. `reads` are
        the earlier taggers, which write the tapes that it reads.

        Raises
        ------
        OptionError
            The tagger has no record.
        """
        return training.retrained(self, corpus, reads, threads=threads, report=report)

    @property
    def _markov_order(self) -> int:
        """Number of earlier labels that a label depends on."""
        if self.record is not None:
            return self.record.order
        if not self.topology.n_arc_slots:
            return 0
        return 1 if self.topology.node_slots.shape[1] == 1 else 2

    def _fingerprint(self) -> str:
        """Return a hash of labels and weights."""
        digest = hashlib.sha256("\0".join(self.labels).encode())
        digest.update(np.ascontiguousarray(self.theta).data)
        return digest.hexdigest()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        mmap: bool | None = None,
        features: FeatureFunctions | None = None,
    ) -> CRF:
        """Read a model file. `fstcrf.load` reads the files of all taggers.

        Parameters
        ----------
        path : path
        mmap, features
            See `fstcrf.load`.

        Raises
        ------
        ModelFileError
            The file is no model file, has another version, or is damaged.
        OptionError
            The model needs a feature function, or does not use one.
        OSError
            The file cannot be opened.
        """
        return read(path, mapped=mmap).with_features(features, os.fspath(path))

    def with_features(self, features: FeatureFunctions | None, where: str = "model") -> CRF:
        """Return the tagger whose attributes a function computes.

        Parameters
        ----------
        features : callable or dict of str to callable, optional
            Maps a sentence to the attributes of its tokens; or a dict from the tape to it.
        where : str
            Name of the model in messages.

        Raises
        ------
        OptionError
            A template computes the attributes; or the tagger needs a function, and there is none.
        """
        index = with_functions({self.tape: self.index}, features, where)[self.tape]
        return self if index is self.index else replace(self, index=index)

    def renamed(self, tape: str) -> CRF:
        """Return the tagger with another name of its tape.

        Taggers compose if their tapes have different names.

        Raises
        ------
        OptionError
            The tagger reads a tape of this name.
        """
        if any(tape == read.name for read in self.reads):
            raise OptionError(f"the tagger reads a tape {tape!r}: give its own another name")
        return replace(self, tape=tape)

    def _encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return kind, arrays and metadata of its file."""
        return KIND, *encoded(self)

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> JointCRF[list[str]]:
        """Return the tagger under a grammar.

        Parameters
        ----------
        grammar : Grammar
        search : {"auto", "lazy", "expanded"}, optional
            Search for best paths; see `fstcrf.compose`.
        budget : Budget, optional
            Default limit of lazy searches. It is not saved.

        Raises
        ------
        GrammarError
            The grammar does not go with the labels, or rejects all labellings.
        """
        return self._composed.constrained(grammar, search=search, budget=budget)

    if TYPE_CHECKING:

        def __and__(self, grammar: Grammar) -> JointCRF[list[str]]: ...
        def marginals_all(self, sentences: Data, **options: object) -> list[Floats]: ...  # noqa: D102
        def lattice(self, sentence: SentenceLike, **options: object) -> TapeLattice: ...  # noqa: D102

    # --- Tagging ------------------------------------------------------------------------------

    def _lattices(
        self, sentences: Data, evidence: Evidence | None, *, streamed: bool = False
    ) -> TaggedLattices:
        """Return the lattice of each sentence, with the evidence in its scores."""
        data = read_sentences(self.index, sentences, self.columns, self.reads)
        weights, program = self._weights, self._program

        def make(run: Run) -> tuple[Floats, ...]:
            design = data.design(run.first, run.end)
            node, graph = weights.node(design.node), weights.graph(design.arc)
            values = (node, graph.score) if graph.per_token else (node,)
            return values if evidence is None else evidence.added_to(program, run, values)

        checked = evidence is None and self._cannot_overflow
        return tagged.TaggedLattices(
            program, data.lengths, make, checked=checked, streamed=streamed
        )

    @made_once
    def _composed(self) -> JointCRF[list[str]]:
        """The composition with this tagger as its only part."""
        composition: JointCRF[list[str]] = joint.JointCRF((self,), (1.0,))
        return composition

    def tag(
        self,
        sentence: SentenceLike,
        *,
        forced: Forced | None = None,
        bias: Bias | None = None,
        search: Search | None = None,
        budget: int | Budget | None = None,
    ) -> list[str]:
        """Return the best labels of one sentence; as for `Tagger.tag`."""
        plain = forced is None and bias is None and search is None and budget is None
        if plain and sized(sentence, "a sentence"):
            path = potentials.path_alone(self, sentence)
            if path is not None:
                return [*map(self.labels.__getitem__, path)]
        return super().tag(sentence, forced=forced, bias=bias, search=search, budget=budget)

    # --- Weights and potentials ---------------------------------------------------------------

    def to_fst(self, arc_type: str = "log64") -> pynini.Fst:
        """Return the topology as a transducer, which is the same at every token.

        An input symbol is a class of arcs with the same slots. An output symbol is a label. Weights
        are costs of transitions. The lattice of a sentence is the composition of its emissions with
        this transducer.

        Parameters
        ----------
        arc_type : {"standard", "log", "log64"}

        Raises
        ------
        MissingDependencyError
            pynini is not installed.
        """
        weights = self.tables
        machine = topology_machine(
            self.topology, weights.transition, weights.initial, weights.final
        )
        fst: pynini.Fst = openfst.to_fst(machine, arc_type)  # type: ignore[arg-type]  # it checks the type
        return fst

    def top_features(self, n: int = 20) -> list[Weight]:
        """Return the n weights with the largest absolute values."""
        weights: list[Weight] = pushes.top_features(self, n)
        return weights

    def explain(self, sentence: SentenceLike, token: int) -> Explanation:
        """Return the weight of each feature for each label at a token."""
        explanation: Explanation = pushes.explain(self, sentence, token)
        return explanation

    def _bind(self, labels: Mapping[str, Sequence[str]] | None = None) -> potentials.Binding:
        """Return the tagger bound to labels of open tapes; see `fstcrf.taggers.potentials.bind`."""
        return potentials.bind(self, labels)

    def potentials(
        self,
        sentences: Data,
        first: int = 0,
        end: int | None = None,
        *,
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> potentials.Potentials:
        """Return the potentials of sentences for all labels of open tapes.

        Arguments: as for `fstcrf.taggers.potentials.potentials`.
        """
        return potentials.potentials(self, sentences, first, end, labels=labels)

    def _averaged_lattices(self, corpus: Corpus, tapes: TapeProbabilities) -> list[Lattice]:
        """Return the lattices of a text, with potentials averaged over labels of earlier tapes.

        Arguments: as for `fstcrf.taggers.potentials.averaged_lattices`.
        """
        return potentials.averaged_lattices(self, corpus, tapes)


KIND = "fstcrf-crf"


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    labels: tuple[str, ...]
    state_names: tuple[str, ...]
    node_slot_names: tuple[str, ...]
    n_arc_slots: int
    n_node_rows: int
    n_arc_rows: int
    tape: str
    columns: tuple[str, ...]
    reads: tuple[Tape, ...]
    kind: Literal["columns", "literal", "function"]
    record: TrainingRecord | None
    empty: bool = True


_INDEXES: dict[Literal["columns", "literal", "function"], type[AttributeIndex]] = {
    "columns": FeatureIndex,
    "literal": LiteralIndex,
    "function": FunctionIndex,
}
_CELLS = ("node_cells", "transitions", "arc_cells", "initial", "final")
_CELL_TYPES = (np.int64, np.int32, np.int64, np.int32, np.int32)


def encoded(model: CRF) -> tuple[dict[str, Array], dict[str, str]]:
    """Return a model as arrays and metadata."""
    space, topology = model.space, model.topology
    arrays: dict[str, Array] = {"theta": model.theta}
    arrays |= {f"space.{name}": getattr(space, name) for name in _CELLS}
    arrays |= {f"topology.{name}": array for name, array in topology.arrays().items()}
    arrays |= {f"index.{name}": array for name, array in model.index.arrays().items()}
    header = _Header(
        labels=topology.labels,
        state_names=topology.state_names,
        node_slot_names=topology.node_slot_names,
        n_arc_slots=topology.n_arc_slots,
        n_node_rows=space.n_node_rows,
        n_arc_rows=space.n_arc_rows,
        tape=model.tape,
        columns=model.columns,
        reads=model.reads,
        kind=next(kind for kind, family in _INDEXES.items() if isinstance(model.index, family)),
        record=model.record,
        empty=topology.empty,
    )
    metadata = {
        "model": msgspec.json.encode(header).decode(),
        "index": msgspec.json.encode(model.index.metadata()).decode(),
    }
    return arrays, metadata


def read(path: str | os.PathLike[str], *, mapped: bool | None = None) -> CRF:
    """Read or map a model file."""
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION, mapped=mapped)
    return decoded(arrays, metadata, os.fspath(path))


def decoded(arrays: Mapping[str, Array], metadata: Mapping[str, str], path: str) -> CRF:
    """Return the model with these arrays and metadata; `path` is for messages."""
    with sound(path, "model"):
        return _model(arrays, metadata)


def _model(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> CRF:
    header = msgspec.json.decode(metadata["model"], type=_Header)
    topology = _topology(header, group(arrays, "topology."))
    space = _space(header, topology, group(arrays, "space."))
    theta = arrays["theta"]
    if theta.dtype != np.float64 or theta.shape != (space.size,):
        raise ModelFileError(f"theta is {list(theta.shape)}, expected {[space.size]}")
    if not np.isfinite(theta).all():
        raise ModelFileError("a weight is not finite")
    index = _INDEXES[header.kind].from_arrays(
        group(arrays, "index."), msgspec.json.decode(metadata["index"], type=dict[str, Any])
    )
    # At order 0, attributes of label pairs have rows but no weights.
    rows = (index.n_node_rows, index.n_arc_rows if topology.n_arc_slots else 0)
    if rows != (header.n_node_rows, header.n_arc_rows):
        raise ModelFileError(
            f"the index has {rows} rows, expected {(header.n_node_rows, header.n_arc_rows)}"
        )
    return CRF(
        topology, index, space, theta, header.tape, header.columns, header.reads, header.record
    )


def _topology(header: _Header, arrays: dict[str, Array]) -> Topology:
    for name, array in arrays.items():
        wanted = np.uint8 if name in {"initial", "final"} else np.int32
        if array.dtype != wanted or array.ndim != (2 if name == "node_slots" else 1):
            raise ModelFileError(f"topology {name} is {array.dtype} {list(array.shape)}")
    if not header.labels or len(set(header.labels)) != len(header.labels):
        raise ModelFileError("labels must be distinct, and at least one")
    if not arrays["node_slots"].size:
        raise ModelFileError("states without node slots")
    # Tables have an entry for each slot. A wrong number of slots must not exhaust the memory.
    if not 0 <= header.n_arc_slots <= len(arrays["source"]):
        raise ModelFileError(f"{header.n_arc_slots} slots of {len(arrays['source'])} arcs")
    if len(arrays["source"]) == len(arrays["target"]):
        arcs = arrays["source"].astype(np.int64) << 32 | arrays["target"]
        if (arcs[1:] <= arcs[:-1]).any():
            raise ModelFileError("arcs are not sorted by source and target")
    return Topology(
        labels=header.labels,
        state_names=header.state_names,
        state_label=arrays["state_label"],
        node_slots=arrays["node_slots"],
        node_slot_names=header.node_slot_names,
        source=arrays["source"],
        target=arrays["target"],
        arc_slot=arrays["arc_slot"],
        n_arc_slots=header.n_arc_slots,
        initial=arrays["initial"].astype(bool),
        final=arrays["final"].astype(bool),
        empty=header.empty,
    )


def _space(header: _Header, topology: Topology, arrays: dict[str, Array]) -> ParameterSpace:
    if header.n_node_rows < 0 or header.n_arc_rows < 0:
        raise ModelFileError("a negative number of attributes")
    space = ParameterSpace(
        topology, header.n_node_rows, header.n_arc_rows, *(arrays[name] for name in _CELLS)
    )
    limits = (
        space.n_node_rows * space.width,
        topology.n_arc_slots,
        space.n_arc_rows * space.arc_width,
        topology.n_states,
        topology.n_states,
    )
    for name, dtype, limit in zip(_CELLS, _CELL_TYPES, limits, strict=True):
        cells = arrays[name]
        if cells.dtype != dtype or cells.ndim != 1:
            raise ModelFileError(f"{name} is {cells.dtype} {list(cells.shape)}")
        # Comparisons, since differences may overflow.
        rising = bool((cells[1:] > cells[:-1]).all())
        if len(cells) and not (rising and cells[0] >= 0 and cells[-1] < limit):
            raise ModelFileError(f"{name} is not a rising list of numbers below {limit}")
    # Rows are padded for the kernel. The padding has no weights.
    for name, cells, width, slots in (
        ("node_cells", space.node_cells, space.width, len(topology.node_slot_names)),
        ("arc_cells", space.arc_cells, space.arc_width, topology.n_arc_slots),
    ):
        if len(padding := cells[cells % max(width, 1) >= slots]):
            raise ModelFileError(
                f"{name} has cell {padding[0]}, which is outside the {slots} slots of its row"
            )
    return space
