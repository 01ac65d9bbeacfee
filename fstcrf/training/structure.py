"""The topology of a new model, and the parameters and weights that a warm start gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fstcrf.arrays import Bools, Floats, Longs, distinct
from fstcrf.errors import OptionError
from fstcrf.lazy import LazyModule
from fstcrf.machines.topology import Topology, chain_topology
from fstcrf.text.corpus import legal_transitions
from fstcrf.training.memory import free_memory
from fstcrf.training.options import Options
from fstcrf.training.problem import ParameterSpace

if TYPE_CHECKING:
    from fstcrf.machines import grammar as grammars
    from fstcrf.machines.grammar import Grammar
    from fstcrf.text.features import AttributeIndex, FeatureIndex
else:  # most runs have no grammar
    grammars = LazyModule("fstcrf.machines.grammar")


def structure(
    labels: Sequence[str],
    settings: Options,
    observed: Callable[[], Bools],
    grammar: Grammar | None = None,
) -> Topology:
    """Return the topology of the options, intersected with a hard grammar.

    `observed` returns the `successions` of the data, for ``scheme="observed"``.
    """
    plain = _chain(labels, settings, observed)
    if grammar is None:
        return plain
    if not isinstance(grammar, grammars.Grammar):
        raise OptionError(f"grammar is {grammar!r}, expected a Grammar, as of Grammar.from_file")
    return grammars.constrained_topology(plain, grammar.bind(labels))


def check_pairs(index: FeatureIndex, topology: Topology, settings: Options) -> None:
    """Raise OptionError if the list of weights of label pairs would not fit into memory."""
    rows, slots, available = index.n_arc_rows, topology.n_arc_slots, free_memory()
    # The complete list holds 8 bytes for each pair. The supported pairs are marked by bits.
    complete = settings.pairs == "complete"
    needed = 8 * rows * (slots if complete else -(-slots // 64))
    if available is None or needed <= available:
        return
    first = next(template for template in index.templates if template.kind == "arc")
    where = "" if first.line is None else f" of line {first.line}"
    raise OptionError(
        f"templates of label pairs, such as {str(first)!r}{where}, have {rows:,} attributes: with "
        f"{slots:,} pairs of {len(topology.labels):,} labels they take {needed / 1e9:,.1f} GB of "
        f"memory, {available / 1e9:,.1f} GB are free"
        + (": try features='supported'" if complete else ": leave these templates out")
    )


def _chain(labels: Sequence[str], settings: Options, observed: Callable[[], Bools]) -> Topology:
    if settings.scheme is None:
        table = None
    elif settings.schemes is None:
        table = observed()
    else:
        table = legal_transitions(labels, settings.schemes[1])
    return chain(labels, settings.order, table, settings.start_label)


def chain(
    labels: Sequence[str], order: int, table: Bools | None, start: str | None = None
) -> Topology:
    """Return the topology of a chain of labels.

    `table`, bool [L + 1, L + 1], is true where a label may follow another; its last row is the
    start of a sentence, its last column the end. Without it, all pairs are allowed. `start` is the
    label assumed before the first token; at order 2 its default is ``O`` if that is a label.
    """
    if order == 2 and start is None and "O" in labels:
        start = "O"
    if table is None:
        return chain_topology(labels, order, start_label=start)
    number = {label: i for i, label in enumerate(labels)}
    if start in number:
        # The history of the first token is the pair (start label, first label): allow that pair.
        table[number[start]] |= table[-1]

    def legal(before: str | None, after: str | None) -> bool:
        row = len(labels) if before is None else number[before]
        column = len(labels) if after is None else number[after]
        return bool(table[row, column])

    return chain_topology(labels, order, allowed=legal, start_label=start)


def successions(allowed: Bools, offsets: Longs) -> Bools:
    """Return which label follows which in some sentence, bool [L + 1, L + 1].

    The last row is the start of a sentence, the last column the end. `allowed`, bool [N, L], are
    the labels that each token may have.
    """
    size = allowed.shape[1]
    table = np.zeros((size + 1, size + 1), dtype=bool)
    inner = np.ones(len(allowed), dtype=bool)
    inner[offsets[:-1]] = False
    into = np.flatnonzero(inner)
    counts = allowed[into - 1].T.astype(np.float32) @ allowed[into].astype(np.float32)
    table[:size, :size] = counts > 0
    table[size, :size] = allowed[offsets[:-1]].any(axis=0)
    table[:size, size] = allowed[offsets[1:] - 1].any(axis=0)
    return table


# --- Warm start -----------------------------------------------------------------------------------


def merged_labels(known: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return the known labels, followed by the new ones."""
    return list(dict.fromkeys((*known, *labels)))


def warm_theta(
    old: ParameterSpace, weights: Floats, index: AttributeIndex, new: ParameterSpace
) -> tuple[ParameterSpace, Floats]:
    """Return the union of an earlier model's parameters and new ones, and the initial weights.

    Weights of the earlier model keep their values; new ones are 0. `index` is built on the index
    of the earlier model: rows keep their numbers.
    """
    before, after = old.topology, new.topology
    if before.node_slots.shape[1] != after.node_slots.shape[1] or (
        (before.n_arc_slots == 0) != (after.n_arc_slots == 0)
    ):
        raise OptionError("start is of another order")
    node_slot = _matching(before.node_slot_names, after.node_slot_names)
    arc_slot = _matching(before.arc_slot_names, after.arc_slot_names)
    state = _matching(before.state_names, after.state_names)
    moved = [
        _moved_cells(old.node_cells, old.width, node_slot, new.width),
        arc_slot[old.transitions],
        _moved_cells(old.arc_cells, old.arc_width, arc_slot, new.arc_width),
        state[old.initial],
        state[old.final],
    ]
    names = "node_cells", "transitions", "arc_cells", "initial", "final"
    theta = []
    parts: dict[str, Any] = {}
    for name, where, values in zip(names, moved, old.parts(weights), strict=True):
        cells = getattr(new, name)
        kept = where >= 0
        union = distinct(cells, where[kept]).astype(cells.dtype)
        start = np.zeros(len(union))
        start[np.searchsorted(union, where[kept])] = values[kept]
        parts[name] = union
        theta.append(start)
    return replace(new, n_node_rows=index.n_node_rows, **parts), np.concatenate(theta)


def _matching(old: Sequence[str], new: Sequence[str]) -> Longs:
    number = {name: i for i, name in enumerate(new)}
    return np.asarray([number.get(name, -1) for name in old], dtype=np.int64)


def _moved_cells(cells: Longs, width: int, slot: Longs, new_width: int) -> Longs:
    row, old_slot = np.divmod(cells, width)
    target = slot[old_slot] if len(slot) else old_slot
    return np.where(target >= 0, row * new_width + target, -1)
