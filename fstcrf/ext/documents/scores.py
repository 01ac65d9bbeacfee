"""The scores of a document: a tagger's potentials, and the tables of models for the kernel."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import LabelError, OptionError
from fstcrf.ext.documents.consistency import Consistency
from fstcrf.ext.documents.document import (
    Document,
    ViolationModel,
    read_model,
    repeated_sequences,
    span_tables,
    span_types,
)
from fstcrf.ext.documents.fields import LONGEST, Fields, last_word
from fstcrf.ext.documents.kernel import (
    Agreement,
    Labelling,
    SequenceTables,
    ValueTables,
    WordTables,
)
from fstcrf.lattices import Lattice
from fstcrf.lattices.machines import JointArrays, joint_arrays, joint_nodes
from fstcrf.taggers import CRF, JointCRF
from fstcrf.taggers.evidence import Evidence

# --- The tagger's side: potentials of joint states, multiplied out --------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class LocalScores:
    """A tagger's scores for the N tokens of a document."""

    graph: kernel.Graph  # dense, over S joint states
    node: Floats  # [N, S]
    labelling: Labelling  # of joint labels
    names: list[tuple[str, ...]]  # the tapes' labels, for each joint label

    def of_path(self, path: Ints, offsets: Longs) -> Floats:
        """Return the score of each sentence's part of a path of joint states, float64 [B]."""
        first, last = offsets[:-1], offsets[1:] - 1
        score = self.node[np.arange(len(path)), path]
        size = self.graph.n_states
        steps = self.graph.score.reshape(-1, size, size)
        later = np.setdiff1d(np.arange(len(path)), first)
        place = later if self.graph.per_token else np.zeros(len(later), dtype=np.int64)
        score[later] += steps[place, path[later - 1], path[later]]
        score[first] += self.graph.initial[path[first]]
        score[last] += self.graph.final[path[last]]
        found: Floats = np.add.reduceat(score, first)
        return found

    @classmethod
    def of(cls, lattices: Sequence[Lattice]) -> LocalScores:
        """Return the scores of nonempty lattices of one program."""
        joint = joint_arrays(lattices[0].dense)
        return _scores(lattices, joint, _labelling(joint))


class LocalModel:
    """The local model of documents: a tagger, or a composition with all multiplied out."""

    def __init__(self, tagger: CRF | JointCRF) -> None:
        self.tagger = tagger
        self.composition = tagger if isinstance(tagger, JointCRF) else tagger._composed
        if self.composition._conditional:
            raise OptionError(
                "normalize='chain' cannot be used with documents: compose with normalize='product'"
            )
        if self.composition.given:
            raise OptionError(
                f"the grammar reads the column {self.composition.given[0].tape!r}: documents need "
                "one over the tapes that are decided"
            )
        self._joint: tuple[object, JointArrays, Labelling] | None = None

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return self.composition.tapes

    def scores(self, document: Document, known: Evidence | None = None) -> LocalScores:
        """Return the tagger's scores of a nonempty document, with known labels applied."""
        several = self.composition._lattices(document.corpus, known)
        lattices = [lattice for lattice in several if len(lattice)]
        return _scores(lattices, *self._shared(lattices[0]))

    def _shared(self, lattice: Lattice) -> tuple[JointArrays, Labelling]:
        """Return the parts that all sentences share, computed from one of them."""
        shared = self._joint
        if shared is None or shared[0] is not lattice.dense.program:
            joint = joint_arrays(lattice.dense)
            shared = self._joint = (lattice.dense.program, joint, _labelling(joint))
        return shared[1], shared[2]


def _scores(lattices: Sequence[Lattice], joint: JointArrays, labelling: Labelling) -> LocalScores:
    if joint.per_token:
        parts = [joint_arrays(lattice.dense) for lattice in lattices]
        node = np.concatenate([part.node for part in parts])
        step = np.concatenate([part.step for part in parts])
    else:
        node = np.concatenate([_nodes(lattice, joint) for lattice in lattices])
        step = joint.step[0]
    size = len(joint.label)
    arcs = np.ascontiguousarray(step.reshape((*step.shape[:-2], size * size)))
    graph = kernel.Graph(joint.initial, joint.final, arcs)
    return LocalScores(graph, np.ascontiguousarray(node), labelling, joint.names)


def _nodes(lattice: Lattice, joint: JointArrays) -> Floats:
    """Return the potentials of joint states; a single tagger already has them."""
    row = lattice.dense
    if len(row.values) == 1 and row.values[0].shape[1] == len(joint.label):
        machine = row.program.machine
        if machine.residual is None and len(machine.factors) == 1:
            return row.values[0]
    return joint_nodes(row)


def _labelling(joint: JointArrays) -> Labelling:
    size, labels = len(joint.label), len(joint.names)
    label = joint.label.astype(np.int32)
    following = np.full((size + 1, labels), -1, dtype=np.int32)
    source, target = np.nonzero((joint.step > -np.inf).any(axis=0))
    following[source, label[target]] = target
    start = np.flatnonzero(joint.initial > -np.inf)
    following[size, label[start]] = start
    return Labelling(label, following)


# --- The models that come with fstcrf -------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Consistency | Fields:
    """Read a model of either kind; errors as for `Consistency.load`."""
    kinds: tuple[type[Consistency | Fields], ...] = (Consistency, Fields)
    return read_model(path, *kinds)


def tape_of(model: ViolationModel, tapes: Sequence[str]) -> str:
    """Return the tape that a model reads: the one that it names, or the only one."""
    wanted = getattr(model, "tape", None)
    if wanted is None and len(tapes) == 1:
        return tapes[0]
    if wanted not in tapes:
        asked = f"{type(model).__name__} reads no tape" if wanted is None else f"no tape {wanted!r}"
        raise OptionError(f'{asked}: give it tape= (in a file: "tape":), one of {", ".join(tapes)}')
    return str(wanted)


def check_types(model: ViolationModel, labels: Mapping[str, Sequence[str]]) -> None:
    """Check that the tagger has all types of a shipped model: unknown types would have no effect.

    The types of a model that is written in Python are unknown.
    """
    tape = tape_of(model, list(labels))
    if not isinstance(model, Consistency | Fields):
        return
    there = span_types(labels[tape])
    missing = [name for name in model.types if name not in there]
    if missing:
        types = "types" if len(missing) > 1 else "type"
        known = ", ".join(there) or "none: labels of spans are like B-PER"
        raise LabelError(
            f"no label is of the {types} {', '.join(missing)}, which the model "
            f"{type(model).__name__} names; the types of {tape} are {known}"
        )


# --- Tables for the kernel ------------------------------------------------------------------------


def in_kernel(models: Sequence[ViolationModel]) -> bool:
    """Return whether the kernel can score models: at most one of each class, on one tape."""
    kinds = [type(model) for model in models]
    tapes = {getattr(model, "tape", None) for model in models}
    return set(kinds) <= {Consistency, Fields} and len(set(kinds)) == len(kinds) and len(tapes) <= 1


def agreement(
    models: Sequence[ViolationModel], document: Document, labels: Sequence[str]
) -> Agreement | None:
    """Return the tables of models that the kernel can score, or `None` without models."""
    known = [model for model in models if isinstance(model, Consistency | Fields)]
    if not known:
        return None
    types = tuple(sorted({name for model in known for name in model.types}))
    reading = span_tables(labels, types)
    sequences, values, words = None, None, None
    for model in known:
        if isinstance(model, Consistency):
            sequences = _sequences(model, document, types)
        else:
            values = _values(model, document, types)
            words = _words(model, document, types)
    return Agreement(
        np.ascontiguousarray(reading.starts),
        np.ascontiguousarray(reading.inside),
        reading.type,
        len(types),
        sequences,
        values,
        words,
    )


def _sequences(model: Consistency, document: Document, types: Sequence[str]) -> SequenceTables:
    tokens = document.compared(model.column, ignore_case=model.ignore_case)
    repeated = repeated_sequences(tokens, document.offsets)
    place = [types.index(name) for name in model.types]
    wide = {}
    for relation, table in model.tables().items():
        wide[relation] = np.zeros((len(types), len(types)))
        wide[relation][np.ix_(place, place)] = table
    return SequenceTables(repeated.first, repeated.number, **wide)


def _values(model: Fields, document: Document, types: Sequence[str]) -> ValueTables | None:
    differing = model.differing
    if not differing:
        return None
    words, ends = document.column(model.column), document.offsets[1:]
    last = Ragged(document.offsets).repeat(ends).tolist()
    readers = {v.value: v for v in differing.values()}
    number: dict[Hashable, int] = {}
    value = np.full((len(readers), len(words), LONGEST), -1, dtype=np.int32)
    for f, said in enumerate(readers.values()):
        for start, stop in enumerate(last):
            for end in range(start + 1, min(start + LONGEST, stop) + 1):
                found = said.of(words[start:end])
                if found is not None:
                    value[f, start, end - start - 1] = number.setdefault(found, len(number))
    place = {reader: f for f, reader in enumerate(readers)}
    table = [place[differing[y].value] if y in differing else -1 for y in types]
    penalty = [differing[y].penalty if y in differing else 0.0 for y in types]
    apart = [y in differing and differing[y].counting == "values" for y in types]
    return ValueTables(
        np.asarray(table, dtype=np.int32),
        value,
        np.asarray(penalty),
        np.asarray(apart, dtype=np.uint8),
    )


def _words(model: Fields, document: Document, types: Sequence[str]) -> WordTables | None:
    unlabelled = model.unlabelled
    if not unlabelled:
        return None
    words = document.column(model.column)
    often = [word for word, n in Counter(words).items() if n > 1 and last_word([word]) is not None]
    number = {word: k for k, word in enumerate(often)}
    single = {True: -2, False: -1}
    found = [number.get(word, single[last_word([word]) is None]) for word in words]
    penalty = [unlabelled[y].penalty if y in unlabelled else 0.0 for y in types]
    return WordTables(np.asarray(found, dtype=np.int32), np.asarray(penalty))
