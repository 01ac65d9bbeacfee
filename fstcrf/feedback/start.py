"""Where learning from rewards begins: taggers whose weights do not depend on gold labels.

=========  =================================================================
untrained  a tagger that knows labels and attributes and nothing else
completed  a tagger in which every attribute has a weight for every label
=========  =================================================================

Which weights a trained tagger has depends on the labels of its training text. Where a reward is all
that is known of a label, any label may turn out to be right, so every weight must be there.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fstcrf.arguments import LabelSet, label_tuple
from fstcrf.corpus import Corpus, legal_transitions
from fstcrf.errors import DataError, OptionError
from fstcrf.features import (
    FeatureIndex,
    LiteralIndex,
    TemplateSet,
    is_literal,
    parse_template,
    read_template,
)
from fstcrf.model import CRF
from fstcrf.topology import Topology, chain_topology
from fstcrf.train import ParameterSpace

__all__ = ["completed", "untrained"]


def untrained(
    data: Any,
    labels: LabelSet,
    template: TemplateSet | str | os.PathLike[str] | None = None,
    *,
    order: int = 1,
    scheme: str | None = None,
    start_label: str | None = None,
    ends: bool = False,
    boundary: Literal["pad", "skip"] = "pad",
    min_count: int = 1,
    hash_bits: int | None = None,
    tape: str = "label",
) -> CRF:
    """Return a tagger to which all labellings are alike.

    Parameters
    ----------
    data : Corpus or sequence of sentences
        Where attributes come from; labels in it are not read.
    labels : sequence of str, or mapping of int to str
    template : TemplateSet, text or path
        Feature templates; required for columns.
    order, scheme, start_label, ends, boundary, min_count, tape
        As for `CRF.train`.
    hash_bits : int, optional
        Hash attributes into 2^k rows: then those that `data` does not have are learnt, too.

    Raises
    ------
    DataError, OptionError, TemplateError
        What is given is not what it must be.
    """
    topology = _topology(labels, order, scheme, start_label)
    index, columns = _index(data, template, boundary, min_count, hash_bits)
    empty = np.empty(0, dtype=np.int32)
    space = ParameterSpace(
        topology,
        index.n_node_rows,
        index.n_arc_rows,
        np.empty(0, dtype=np.int64),
        empty,
        np.empty(0, dtype=np.int64),
        np.flatnonzero(topology.initial).astype(np.int32) if ends else empty,
        np.flatnonzero(topology.final).astype(np.int32) if ends else empty,
    )
    return completed(CRF(topology, index, space, np.zeros(space.size), tape, columns))


def completed(model: CRF) -> CRF:
    """Return a tagger with the same weights, in which all others are there as well, as zeros.

    Parameters
    ----------
    model : CRF

    Raises
    ------
    OptionError
        Templates for pairs of labels and the input, which samples do not train.
    """
    old, topology = model.space, model.topology
    if old.n_arc_rows:
        raise OptionError("the template has B features of the input, which samples do not train")
    slots = np.arange(len(topology.node_slot_names))
    rows = np.arange(old.n_node_rows, dtype=np.int64)[:, None] * old.width
    cells = (rows + slots).ravel()
    transitions = np.arange(topology.n_arc_slots, dtype=np.int32)
    space = replace(old, node_cells=cells, transitions=transitions)
    return replace(model, space=space, theta=space.collect(old.tables(model.theta)), record=None)


def _topology(
    labels: LabelSet,
    order: int,
    scheme: str | None,
    start_label: str | None,
) -> Topology:
    names = label_tuple(labels)
    if order == 2 and start_label is None and "O" in names:
        start_label = "O"
    if scheme is None:
        return chain_topology(names, order, start_label=start_label)
    table = legal_transitions(names, scheme)
    number = {label: i for i, label in enumerate(names)}

    def legal(before: str | None, after: str | None) -> bool:
        row = len(names) if before is None else number[before]
        return bool(table[row, len(names) if after is None else number[after]])

    return chain_topology(names, order, allowed=legal, start_label=start_label)


def _index(
    data: Any,
    template: TemplateSet | str | os.PathLike[str] | None,
    boundary: Literal["pad", "skip"],
    min_count: int,
    hash_bits: int | None,
) -> tuple[FeatureIndex | LiteralIndex, tuple[str, ...]]:
    if not isinstance(data, Corpus):
        full = [sentence for sentence in data if len(sentence)]
        if not full:
            raise DataError("no sentence to take attributes from")
        if is_literal(full[0]):
            if template is not None:
                raise OptionError("a template needs columns, not attribute lists")
            literal, _ = LiteralIndex.build(full, min_count=min_count, hash_bits=hash_bits)
            return literal, ()
        data = Corpus.from_sentences(full)
    if template is None:
        raise OptionError("columns need a feature template: template='chunking.tpl'")
    if not isinstance(template, TemplateSet):
        text = isinstance(template, str) and ("\n" in template or "%" in template)
        template = parse_template(str(template)) if text else read_template(Path(template))
    index, _ = FeatureIndex.build(
        data, template, boundary=boundary, min_count=min_count, hash_bits=hash_bits
    )
    return index, tuple(data.columns)
