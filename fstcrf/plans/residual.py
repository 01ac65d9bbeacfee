"""What is left of a grammar when all that looks at neighbouring labels only is folded away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import TooLargeError
from fstcrf.grammar import Acceptor, contradiction_error, intersect, is_empty, minimise, on_tapes

__all__ = ["MAX_RESIDUAL", "kernel_residual", "multiplied"]

MAX_RESIDUAL = 4096
"""States of a residual automaton that may be expanded."""

_MAX_ENTRIES = 50_000_000

Ints = NDArray[np.int32]


def multiplied(
    conjuncts: Sequence[Acceptor], order: Sequence[str], limit: int = MAX_RESIDUAL
) -> Acceptor:
    """Return one minimal acceptor for the conjunction of several.

    Parameters
    ----------
    conjuncts : sequence of Acceptor
        At least one.
    order : sequence of str
        All tapes; the result reads those it needs in this order.
    limit : int
        States that it may have.

    Raises
    ------
    TooLargeError
        More than `limit` states.
    ContradictionError
        They contradict each other: together they accept nothing.
    """

    def product(a: Acceptor, b: Acceptor) -> Acceptor:
        return minimise(intersect(a, b, limit=limit))

    try:
        whole = reduce(product, conjuncts)
    except TooLargeError:
        raise TooLargeError(
            f"the grammar has more than {limit:,} states when its {len(conjuncts)} conjuncts are "
            "multiplied out, which log Z, marginals, samples and normalize='chain' need; best and "
            "n-best paths of a product do not, and confidence() bounds their probabilities"
        ) from None
    if is_empty(whole):
        raise contradiction_error(conjuncts)
    labels = dict(zip(whole.tapes, whole.labels, strict=True))
    tapes = tuple(t for t in order if t in labels)
    return on_tapes(whole, tapes, tuple(labels[t] for t in tapes))


def kernel_residual(
    acceptor: Acceptor, axes: Sequence[str], places: Mapping[str, Ints], last_label: Ints
) -> kernel.Residual:
    """Return an acceptor as the kernel runs it: an edge for each pair of states.

    Parameters
    ----------
    acceptor : Acceptor
        Its tapes in the order of the axes.
    axes : sequence of str
        Tapes of the axes.
    places : mapping of str to int32 [outer]
        Label of each tape but the last at each outer index.
    last_label : int32 [S]
        Label of each state of the last axis.
    """
    with_last = acceptor.tapes[-1] == axes[-1]
    outer = acceptor.tapes[:-1] if with_last else acceptor.tapes
    sizes = tuple(len(ls) for ls in acceptor.labels[: len(outer)])
    rows = int(np.prod(sizes, dtype=np.int64))
    last = last_label if with_last else np.zeros(1, dtype=np.int32)
    target = acceptor.target.reshape(acceptor.n_states, rows, -1)[:, :, last]
    score = np.zeros(()) if acceptor.score is None else acceptor.score
    score = np.broadcast_to(score, acceptor.target.shape).reshape(acceptor.n_states, rows, -1)
    score = score[:, :, last]
    pairs = [(q, int(r)) for q in range(acceptor.n_states) for r in np.unique(target[q]) if r >= 0]
    if len(pairs) * target[0].size > _MAX_ENTRIES:
        raise TooLargeError(
            f"the grammar {acceptor.name} has {len(pairs):,} edges over {target[0].size:,} "
            "combinations of labels: too many to run; let it read fewer tapes"
        )
    value = np.stack([np.where(target[q] == r, score[q], -np.inf) for q, r in pairs])
    initial = np.full(acceptor.n_states, -np.inf)
    initial[0] = 0.0
    ends = np.asarray(pairs, dtype=np.int32)
    place = None
    if outer:
        place = np.ravel_multi_index([places[t] for t in outer], sizes).astype(np.int32)
    return kernel.Residual(
        n_states=acceptor.n_states,
        source=ends[:, 0].copy(),
        target=ends[:, 1].copy(),
        rows=rows,
        width=len(last) if with_last else 1,
        value=np.ascontiguousarray(value),
        initial=initial,
        final=np.ascontiguousarray(acceptor.final),
        place=place,
    )
