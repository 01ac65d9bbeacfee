"""Which label histories a model has: order, scheme and what the data shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import legal_transitions
from fstcrf.model.options import Options
from fstcrf.topology import Topology, chain_topology

if TYPE_CHECKING:
    from fstcrf.grammar import Grammar

__all__ = ["structure"]


def structure(
    labels: Sequence[str],
    settings: Options,
    allowed: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    grammar: Grammar | None = None,
) -> Topology:
    """Return the topology that options and a grammar ask for.

    Parameters
    ----------
    labels : sequence of L str
    settings : Options
    allowed : bool [N, L]
        Labels that each token may have, for ``scheme="observed"``.
    offsets : int64 [B + 1]
    grammar : Grammar, optional
        Hard; intersected with the topology.

    Raises
    ------
    GrammarError
        A grammar that does not go with the labels, or has scores.
    """
    free = _chain(labels, settings, allowed, offsets)
    if grammar is None:
        return free
    from fstcrf.grammar import constrained_topology  # noqa: PLC0415 (tagging needs no grammar)

    return constrained_topology(free, grammar.bind(labels))


def _chain(
    labels: Sequence[str],
    settings: Options,
    allowed: NDArray[np.bool_],
    offsets: NDArray[np.int64],
) -> Topology:
    """Return the topology of order and scheme."""
    start = settings.start_label
    if settings.order == 2 and start is None and "O" in labels:
        start = "O"
    if settings.scheme is None:
        return chain_topology(labels, settings.order, start_label=start)
    if settings.schemes is None:
        table = _observed(allowed, offsets)
    else:
        table = legal_transitions(labels, settings.schemes[1])
    number = {label: i for i, label in enumerate(labels)}
    if start in number:
        # The first label's history is the pair of the start label and itself: it must be there.
        table[number[start]] |= table[-1]

    def legal(before: str | None, after: str | None) -> bool:
        row = len(labels) if before is None else number[before]
        column = len(labels) if after is None else number[after]
        return bool(table[row, column])

    return chain_topology(labels, settings.order, allowed=legal, start_label=start)


def _observed(allowed: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Successions that some sentence allows, with start (last row) and end (last column)."""
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
