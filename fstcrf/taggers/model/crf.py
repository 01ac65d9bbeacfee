"""What a tagger is: a topology, an index of attributes, and weights; its record, its file.

A file is one of safetensors, memory-mapped on load, every part checked. Arrays: ``theta`` and the
cells of the parameter space; the topology's arrays; the index's arrays. Metadata: ``model``, names,
tapes, record of training; ``index``, the index's own metadata.
"""

from __future__ import annotations

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
from fstcrf.kernel.single import SentenceGraph
from fstcrf.lazy import LazyModule, StaticFunction, made_once
from fstcrf.machines.topology import Topology, topology_machine
from fstcrf.storage import VERSION, group, read_arrays, sound
from fstcrf.taggers.evidence import Bias, Evidence, Forced
from fstcrf.taggers.model.weights import Weights
from fstcrf.taggers.reading import Data, Run, SentenceLike, Tape, read_one, read_sentences, sized
from fstcrf.taggers.tokens import TokenTagger
from fstcrf.text.features import (
    AttributeIndex,
    FeatureFunctions,
    FeatureIndex,
    FunctionIndex,
    LiteralIndex,
)
from fstcrf.text.features.function import with_functions
from fstcrf.training.problem import ParameterSpace, Tables

if TYPE_CHECKING:
    import pynini

    from fstcrf.kernel import Budget
    from fstcrf.lattices import TapeLattice
    from fstcrf.machines import openfst, plans
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.plans import Search
    from fstcrf.taggers import JointCRF, tagged
    from fstcrf.taggers.model import Explanation, Weight, potentials, training
    from fstcrf.taggers.model import options as model_options
    from fstcrf.taggers.tagged import TaggedLattices
else:  # a tagger that is loaded does not wait for what few calls need
    model_options = LazyModule("fstcrf.taggers.model.options")
    openfst = LazyModule("fstcrf.machines.openfst")
    plans = LazyModule("fstcrf.machines.plans")
    potentials = LazyModule("fstcrf.taggers.model.potentials")
    tagged = LazyModule("fstcrf.taggers.tagged")
joint = LazyModule("fstcrf.taggers.joint")
pushes = LazyModule("fstcrf.ext.explain.pushes")

P = ParamSpec("P")


def _named_options(train: Callable[P, CRF]) -> Callable[P, CRF]:
    """Return a training function that refuses unknown options, with the nearest known one."""
    expected = signature(train)

    @wraps(train)
    def trained(*args: P.args, **options: P.kwargs) -> CRF:
        odd = sorted(options.keys() - expected.parameters.keys())
        if odd and not any(p.kind is p.VAR_KEYWORD for p in expected.parameters.values()):
            instead = model_options.not_there(
                odd[0], expected.parameters, ("those of its signature",)
            )
            raise TypeError(f"train() got an unexpected keyword argument {odd[0]!r}; {instead}")
        return train(*args, **options)

    return trained


@dataclass(frozen=True, eq=False)
class CRF(TokenTagger[list[str]]):
    """A conditional random field; made by `CRF.train` or `fstcrf.load`.

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
        Name of the tape it writes.
    columns : tuple of str
        Columns of the data it was trained on.
    reads : tuple of Tape
        Tapes it reads.
    record : TrainingRecord, optional
        How it was trained.
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
        """Return what it is made of: what was computed from that stays here."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; axis of marginals and of masks."""
        return self.topology.labels

    @made_once
    def _cannot_overflow(self) -> bool:
        """Whether no sum of weights can overflow, whatever the (float32) values of attributes."""
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
        """The tagger compiled: what its lattices share."""
        graph = self._weights.static_graph
        per_token = self._weights.has_arc_attributes
        arc = None if per_token else graph.score
        chain = plans.Chain(self.tape, self.topology, graph.initial, graph.final, arc)
        return plans.Program([chain])

    @made_once
    def _bindings(self) -> dict[Hashable, object]:
        """The model bound to labels of the tapes that it reads; kept by `potentials.bind`."""
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
        """Return how large it is, what it reads, and how it was trained."""
        record = self.record
        read = [] if isinstance(self.index, LiteralIndex) else list(self.index.columns)
        if isinstance(self.index, FunctionIndex):
            read = [f"{self.index.name}()"]
        found: dict[str, display.Cell] = {
            "reads": display.listed([*read, *(tape.name for tape in self.reads)]) or "attributes",
            "attributes": self.index.n_node_rows + self.index.n_arc_rows,
            "weights": self.space.size,
        }
        if record is None:
            return found
        best = "" if record.dev_score is None else f", held-out score {record.dev_score:.4f}"
        return {
            **found,
            "order": record.order,
            "trained on": f"{record.sentences:,} sentences, {record.tokens:,} tokens",
            "by": f"{record.options.get('method')}, {record.iterations} iterations{best}",
            "grammar": record.grammar,
        }

    # --- Making, saving -----------------------------------------------------------------------

    if TYPE_CHECKING:
        train = staticmethod(training.train_crf)
    else:  # as above
        train = StaticFunction("fstcrf.taggers.model.training", "train_crf", _named_options)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        mmap: bool | None = None,
        features: FeatureFunctions | None = None,
    ) -> CRF:
        """Read the file of a model; `fstcrf.load` reads those of any tagger.

        Parameters
        ----------
        path : path
        mmap, features
            As for `fstcrf.load`.

        Raises
        ------
        ModelFileError
            Not the file of a model, of another version, or damaged.
        OptionError
            The model needs a feature function, or has no use for one.
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
        """Return the same tagger with another name of its tape, so that it composes with others.

        Raises
        ------
        OptionError
            A name of a tape that it reads.
        """
        if any(tape == read.name for read in self.reads):
            raise OptionError(f"the tagger reads a tape {tape!r}: give its own another name")
        return replace(self, tape=tape)

    def _encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return the kind of its file, arrays and metadata."""
        return KIND, *encoded(self)

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> JointCRF[list[str]]:
        """Return the tagger under a grammar.

        Parameters
        ----------
        grammar : Grammar
        search : {"auto", "lazy", "expanded"}, optional
            How best paths are found from now on; as for `fstcrf.compose`.
        budget : Budget, optional
            When a lazy search gives up from now on, where nothing else is said. It is not saved.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels, or accepts nothing.
        """
        return self._composed.constrained(grammar, search=search, budget=budget)

    if TYPE_CHECKING:

        def __and__(self, grammar: Grammar) -> JointCRF[list[str]]: ...
        def marginals_all(self, sentences: Data, **options: object) -> list[Floats]: ...  # noqa: D102
        def lattice(self, sentence: SentenceLike, **options: object) -> TapeLattice: ...  # noqa: D102

    # --- Tagging ------------------------------------------------------------------------------

    def _lattices(
        self, sentences: Data, known: Evidence | None, *, streamed: bool = False
    ) -> TaggedLattices:
        """Return the lattice of each sentence, with what is known put in."""
        data = read_sentences(self.index, sentences, self.columns, self.reads)
        weights, program = self._weights, self._program

        def make(run: Run) -> tuple[Floats, ...]:
            design = data.design(run.first, run.end)
            node, graph = weights.node(design.node), weights.graph(design.arc)
            values = (node, graph.score) if graph.per_token else (node,)
            return values if known is None else known.added_to(program, run, values)

        checked = known is None and self._cannot_overflow
        return tagged.TaggedLattices(
            program, data.lengths, make, checked=checked, streamed=streamed
        )

    @made_once
    def _composed(self) -> JointCRF[list[str]]:
        """The composition of this tagger alone."""
        whole: JointCRF[list[str]] = joint.JointCRF((self,), (1.0,))
        return whole

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
        single = self._weights.single if plain else None
        if single is not None and sized(sentence, "a sentence"):
            return self._tagged_alone(single, sentence)
        return super().tag(sentence, forced=forced, bias=bias, search=search, budget=budget)

    def _tagged_alone(self, single: SentenceGraph, sentence: SentenceLike) -> list[str]:
        """Return the best labels of a sentence, with less to do around the kernel."""
        data = read_one(self.index, sentence, self.columns, self.reads)
        rows = data.design(0, 1).node
        path = single.viterbi(single.potentials(rows.indptr, rows.index, rows.value))
        return [self.labels[i] for i in path.tolist()]

    # --- Looking inside -----------------------------------------------------------------------

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
        weights = self.tables
        machine = topology_machine(
            self.topology, weights.transition, weights.initial, weights.final
        )
        found: pynini.Fst = openfst.to_fst(machine, arc_type)  # type: ignore[arg-type]  # it says what is wrong
        return found

    def top_features(self, n: int = 20) -> list[Weight]:
        """Return the n largest weights, by absolute value."""
        found: list[Weight] = pushes.top_features(self, n)
        return found

    def explain(self, sentence: SentenceLike, token: int) -> Explanation:
        """Return which features pushed which label at a token, and by how much."""
        found: Explanation = pushes.explain(self, sentence, token)
        return found

    def _bind(self, labels: Mapping[str, Sequence[str]] | None = None) -> potentials.Binding:
        """Return what gives potentials of sentences; see `fstcrf.taggers.model.potentials.bind`."""
        return potentials.bind(self, labels)

    def potentials(
        self,
        sentences: Data,
        first: int = 0,
        end: int | None = None,
        *,
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> potentials.Potentials:
        """Return the potentials of a run of sentences, the labels of earlier tapes left open.

        Arguments as for `fstcrf.taggers.model.potentials.potentials`.
        """
        return potentials.potentials(self, sentences, first, end, labels=labels)


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was trained, on what, and how it went; it is stored in the model.

    With the templates, which the index keeps, it says how to train the model again: `options` are
    those that the run read, by name; `target` is the column of the labels (None where they were
    given as lists), `class_weights` the weights of sentences by label. `run` is the fingerprint of
    data and options: two models have the same where one run went further than the other.
    """

    options: dict[str, bool | int | float | str | None]
    sentences: int
    tokens: int
    attributes: int
    parameters: int
    iterations: int
    best_iteration: int
    objective: float
    dev_score: float | None
    reason: str
    interrupted: bool = False
    target: str | None = None
    class_weights: dict[str, float] = {}
    grammar: str | None = None
    run: str | None = None

    @property
    def order(self) -> int:
        """How many earlier labels a label depends on."""
        return int(self.options.get("order") or 0)


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
    """Return the model that arrays and metadata describe."""
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
    # Order 0 has no use for attributes of label pairs: they are known but have no weights.
    found = (index.n_node_rows, index.n_arc_rows if topology.n_arc_slots else 0)
    if found != (header.n_node_rows, header.n_arc_rows):
        raise ModelFileError(
            f"the index has {found} rows, expected {(header.n_node_rows, header.n_arc_rows)}"
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
    # Tables have a place for every slot: a wrong number must not ask for all the memory there is.
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
        # Compared, not subtracted: a difference may overflow.
        rising = bool((cells[1:] > cells[:-1]).all())
        if len(cells) and not (rising and cells[0] >= 0 and cells[-1] < limit):
            raise ModelFileError(f"{name} is not a rising list of numbers below {limit}")
    # Rows are as wide as the kernel reads them: behind the slots there is no label.
    for name, cells, width, slots in (
        ("node_cells", space.node_cells, space.width, len(topology.node_slot_names)),
        ("arc_cells", space.arc_cells, space.arc_width, topology.n_arc_slots),
    ):
        if len(behind := cells[cells % max(width, 1) >= slots]):
            raise ModelFileError(
                f"{name} has cell {behind[0]}, which is outside the {slots} slots of its row"
            )
    return space
