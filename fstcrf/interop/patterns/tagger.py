"""A tagger with patterns as a CRF over columns.

=======  =====================================================================
tagger   the CRF
=======  =====================================================================
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError
from fstcrf.features import FeatureIndex
from fstcrf.interop.patterns.model import PatternModel
from fstcrf.interop.patterns.rows import sides
from fstcrf.interop.patterns.templates import column_names, template_set
from fstcrf.kernel import padded
from fstcrf.model import CRF
from fstcrf.topology import chain_topology
from fstcrf.train.problem import ParameterSpace

__all__ = ["tagger"]


def tagger(model: PatternModel, columns: Sequence[str] | None, tape: str) -> CRF:
    """Return a model as a CRF over columns, with the same answers.

    Parameters
    ----------
    model : PatternModel
    columns : sequence of str, optional
        Names of the columns of the data; ``"0"``, ``"1"``, ... when absent. `tape` follows them
        where it is not among them.
    tape : str
        Name of the tape that it writes.

    Raises
    ------
    ModelFileError
        A pattern that no template can say, texts that can be cut in too many ways, or weights that
        are not finite.
    OptionError
        Too few names, or names that are not distinct.
    """
    names = column_names(columns, model.n_columns, tape)
    if not np.isfinite(model.weights.values).all():
        raise ModelFileError(f"{model.where}: a weight is not finite")
    templates = template_set(model, names)
    node, arc = sides(model, templates)
    size = len(model.labels)
    transitions = _transitions(model)
    slots = np.flatnonzero(transitions).astype(np.int32)
    order = 1 if len(arc.attribute) or len(slots) else 0
    node_cells, node_weights = model.weights.cells(
        model.node_first[node.attribute], size, stride=padded(size)
    )
    arc_cells, arc_weights = model.weights.cells(
        model.arc_first[arc.attribute], size**2, stride=padded(size**2)
    )
    none = np.empty(0, dtype=np.int32)
    space = ParameterSpace(
        topology=chain_topology(model.labels, order),
        n_node_rows=node.tables.n_rows,
        n_arc_rows=arc.tables.n_rows,
        node_cells=node_cells,
        transitions=slots,
        arc_cells=arc_cells,
        initial=none,
        final=none,
    )
    index = FeatureIndex(templates, model.boundary, node=node.tables, arc=arc.tables)
    theta = np.concatenate([node_weights, transitions[slots], arc_weights])
    return CRF(space.topology, index, space, theta, tape, names)


def _transitions(model: PatternModel) -> NDArray[np.float64]:
    """Return the weight of each label pair by itself, float64 [L²]: of patterns without holes."""
    size = len(model.labels) ** 2
    total = np.zeros(size)
    for pattern in model.patterns:
        if pattern.kind == "node" or pattern.holes:
            continue
        place = bisect_left(model.attributes, pattern.literals[0])
        if model.attributes[place : place + 1] == [pattern.literals[0]]:
            first = model.arc_first[place : place + 1]
            cells, values = model.weights.cells(first, size, stride=size)
            total[cells] += values * (first[0] >= 0)
    return total
