"""CRFsuite's models as taggers, and taggers as CRFsuite's models."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import ModelFileError, OptionError
from fstcrf.features import LiteralIndex
from fstcrf.interop.crfsuite.model import (
    FEATURE,
    MAGIC,
    STATE,
    TRANSITION,
    CRFsuiteModel,
    read_model,
    write_model,
)
from fstcrf.interop.formats import TAPE, Format, ModelSource, ReadOptions, check_tape, read_source
from fstcrf.joint import CRF
from fstcrf.kernel import padded
from fstcrf.topology import Topology
from fstcrf.train.problem import ParameterSpace

__all__ = ["CRFSUITE", "as_tagger", "export", "load_crfsuite"]

_MOST_LABELS = 2000


def load_crfsuite(source: ModelSource, *, tape: str = TAPE, where: str | None = None) -> CRF:
    """Read a model of CRFsuite (python-crfsuite, sklearn-crfsuite) as a tagger.

    It tags lists of attribute lists or feature dicts, as python-crfsuite does, with the same
    labels and probabilities. Where several label sequences are equally good, the tagger takes the
    label that is first in `CRF.labels` at the earliest token where they differ; CRFsuite at the
    latest.

    Parameters
    ----------
    source : path, bytes-like object or binary file
        The model, not compressed.
    tape : str
        Name of the tape that the tagger writes, for compositions.
    where : str, optional
        What messages call `source`.

    Raises
    ------
    ModelFileError
        Not a model of CRFsuite, or damaged; says which part.
    OptionError
        A source of another type; an empty name for the tape.
    OSError
        The file cannot be read.
    """
    data, name = read_source(source, where)
    return as_tagger(read_model(data, name), tape=tape, where=name)


def as_tagger(model: CRFsuiteModel, *, tape: str = TAPE, where: str = "model") -> CRF:
    """Return a model as a tagger.

    Raises
    ------
    ModelFileError
        An attribute that is there twice; no labels, or more than can be handled.
    OptionError
        An empty name for the tape.
    """
    check_tape(tape)
    labels = len(model.labels)
    if not labels:
        raise ModelFileError(f"{where}: no labels: a model that was trained on no data")
    if labels > _MOST_LABELS:
        raise ModelFileError(f"{where}: {labels} labels, at most {_MOST_LABELS} can be handled")
    try:
        index = LiteralIndex.from_text(model.attribute_text, model.attribute_offsets)
    except ModelFileError as error:
        raise ModelFileError(f"{where}: damaged: {error}") from None
    topology = _complete_topology(model.labels)
    node_cells, node = _cells(model.of_type(STATE), padded(labels))
    transitions, arc = _last(model.of_type(TRANSITION), labels)
    none = np.empty(0, dtype=np.int32)
    space = ParameterSpace(
        topology,
        model.n_attributes,
        0,
        node_cells,
        transitions.astype(np.int32),
        np.empty(0, dtype=np.int64),
        none,
        none,
    )
    return CRF(topology, index, space, np.concatenate([node, arc]), tape, ())


def _complete_topology(labels: tuple[str, ...]) -> Topology:
    """Return the topology of order 1 that has all arcs: ``chain_topology(labels)``, quicker."""
    n = len(labels)
    states = np.arange(n, dtype=np.int32)
    every = np.ones(n, dtype=bool)
    return Topology(
        labels=labels,
        state_names=labels,
        state_label=states,
        node_slots=states[:, None],
        node_slot_names=labels,
        source=np.repeat(states, n),
        target=np.tile(states, n),
        arc_slot=np.arange(n * n, dtype=np.int32),
        n_arc_slots=n * n,
        initial=every,
        final=every,
    )


def _numbers(features: NDArray[Any], width: int) -> Longs:
    cells: Longs = features["src"].astype(np.int64) * width + features["dst"]
    return cells


def _cells(features: NDArray[Any], width: int) -> tuple[Longs, Floats]:
    """Return the rising cells ``src * width + dst`` and their weights; repeated ones add up."""
    cells, weights = _numbers(features, width), features["weight"].astype(np.float64)
    if (cells[1:] > cells[:-1]).all():
        return cells, weights
    order = np.argsort(cells, kind="stable")
    cells, weights = cells[order], weights[order]
    first = np.flatnonzero(np.diff(cells, prepend=-1))
    return cells[first], np.add.reduceat(weights, first)


def _last(features: NDArray[Any], width: int) -> tuple[Longs, Floats]:
    """Return the rising cells and their weights; of repeated ones the last counts."""
    cells = _numbers(features, width)
    order = np.argsort(cells, kind="stable")
    cells = cells[order]
    last = np.flatnonzero(np.diff(cells, append=-1))
    return cells[last], features["weight"][order[last]].astype(np.float64)


# --- Taggers as models ----------------------------------------------------------------------------


def export(crf: CRF) -> CRFsuiteModel:
    """Return a tagger as a model of CRFsuite, which gives the same labels and probabilities.

    Weights of 0 and attributes without weights are left out, as CRFsuite does. Attributes of
    templates go as their texts, such as ``U05:in/the``: whoever tags with CRFsuite must make the
    same texts.

    Raises
    ------
    OptionError
        The format cannot say what the tagger does; says what, and what to do.
    """
    _check_sayable(crf)
    node, transition, _, _, _ = crf.space.parts(crf.theta)
    rows, slots = np.divmod(crf.space.node_cells, crf.space.width)
    arcs = crf.space.transitions.astype(np.int64)
    source, target = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
    if len(arcs):
        by_slot = np.argsort(crf.topology.arc_slot, kind="stable")[arcs]
        source, target = crf.topology.source[by_slot], crf.topology.target[by_slot]
    kept, pairs = np.flatnonzero(node), np.flatnonzero(transition)
    used, numbers = np.unique(rows[kept], return_inverse=True)
    features = np.empty(len(kept) + len(pairs), dtype=FEATURE)
    for part, kind, src, dst, weight in (
        (slice(None, len(kept)), STATE, numbers, slots[kept], node[kept]),
        (slice(len(kept), None), TRANSITION, source[pairs], target[pairs], transition[pairs]),
    ):
        mine = features[part]
        mine["type"], mine["src"], mine["dst"], mine["weight"] = kind, src, dst, weight
    return CRFsuiteModel.of(crf.labels, _texts(crf, used), features)


def _check_sayable(crf: CRF) -> None:
    """Check that CRFsuite's format can say what a tagger does."""
    if not isinstance(crf, CRF):
        raise OptionError(
            f"CRFsuite's format holds one tagger, got {type(crf).__name__}: it has no place for "
            "grammars and compositions; export the tagger itself, such as model.taggers[0], and "
            "constrain it where it tags"
        )
    topology, space = crf.topology, crf.space
    _, _, arc, initial, final = space.parts(crf.theta)
    complete = (
        len(topology.source) == topology.n_states**2
        and bool(topology.initial.all())
        and bool(topology.final.all())
    )
    if not topology.direct:
        problem = "the tagger is of order 2: train it with order=1"
    elif not complete:
        problem = (
            "the tagger forbids label sequences, which the format cannot: train it without scheme= "
            "and grammar=, and constrain it where it tags"
        )
    elif initial.any() or final.any():
        problem = "the tagger has weights of first and last labels: train it without ends="
    elif arc.any():
        problem = "the tagger has attributes of label pairs: train it without those templates"
    elif crf.index.hash_bits is not None:
        problem = "the attributes are hashed, so nobody knows their texts: train without hash_bits="
    else:
        return
    raise OptionError(f"CRFsuite's format has no place for this: {problem}")


def _texts(crf: CRF, rows: Longs) -> list[str]:
    """Return the texts of attributes."""
    if isinstance(crf.index, LiteralIndex):
        strings = crf.index.attribute_strings
        return [strings[row] for row in rows.tolist()]
    texts = crf.index.attributes(rows)
    repeated = [text for text, count in Counter(texts).items() if count > 1]
    if repeated:  # "a/b" and "c", "a" and "b/c"
        raise OptionError(
            f"CRFsuite's format has no place for this: {len(repeated)} texts of attributes mean "
            f"two, such as {repeated[0]!r}: its strings hold what separates them in the template"
        )
    return texts


def _read(data: bytes, options: ReadOptions) -> CRF:
    if options.columns is not None or options.encoding not in (None, "utf-8"):
        raise OptionError(
            f"{options.where}: a CRFsuite model reads lists of attributes in UTF-8: it has no "
            "columns to name, and no other encoding"
        )
    return load_crfsuite(data, tape=options.tape, where=options.where)


CRFSUITE = Format(
    "crfsuite",
    "a CRFsuite model",
    recognises=lambda head: head.startswith(MAGIC),
    read=_read,
    loader="load_crfsuite",
    suffix=".crfsuite",
    write=lambda tagger: write_model(export(tagger)),
)
