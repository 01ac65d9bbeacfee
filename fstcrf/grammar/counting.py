"""Proofs by counting that a sentence is too short or too long for constraints together.

Twelve labels that must each occur do not fit eleven tokens. The product of twelve constraints shows
that, too, but it has 4096 states. Counting needs each constraint alone: how many tokens it still
wants, how many it still allows, and which labels change that. Weights of the constraints for which
the sum comes to too much, whatever the labels, are a proof; the best ones solve a linear program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.grammar.acceptor import Acceptor, Floats, Ints
from fstcrf.grammar.reading import Flags

__all__ = ["overfull", "wanted"]

MAX_STATES = 2_000
"""Larger acceptors are not counted."""

_REJECTED = -10_000
"""Change by a label that no state takes: less than all others together can make up for."""

_MARGIN = 1e-6


class _Account(NamedTuple):
    """A quantity of an acceptor that labels change.

    Parameters
    ----------
    owner : int
    due : float
        How much it must fall at least from the start to an end; negative: how much it may rise.
    change : float64 [L]
        How much a token of each label lets it fall at most: by one, or by nothing.
    """

    owner: int
    due: float
    change: Floats


def overfull(
    acceptors: Sequence[Acceptor], allowed: Mapping[str, Flags]
) -> tuple[Acceptor, ...] | None:
    """Return acceptors that a sentence cannot satisfy together, None where counting shows nothing.

    Parameters
    ----------
    acceptors : sequence of Acceptor
        Trim and minimal; those of several tapes are not looked at.
    allowed : mapping of str to bool [T, L]
        For each tape, the labels that each token may have.

    Returns
    -------
    tuple of Acceptor or None
        In their order; not always as few as can be.
    """
    for tape, mask in allowed.items():
        of_tape = [a for a in acceptors if a.tapes == (tape,) and a.n_states <= MAX_STATES]
        accounts = [x for i, a in enumerate(of_tape) for x in _accounts(i, a)]
        used = _proof(accounts, mask) if accounts else None
        if used is not None:
            owners = {accounts[k].owner for k in used}
            return tuple(a for i, a in enumerate(of_tape) if i in owners)
    return None


def wanted(acceptor: Acceptor) -> Ints:
    """Return the fewest tokens from each state to an end, int32 [Q]; −1 where there is none."""
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    found = np.where(acceptor.final > -np.inf, 0, -1).astype(np.int32)
    tokens = 0
    while True:
        there = np.append(found >= 0, False)  # the last one is that of −1
        new = there[flat].any(axis=1) & (found < 0)
        if not new.any():
            return found
        tokens += 1
        found[new] = tokens


def _accounts(owner: int, acceptor: Acceptor) -> list[_Account]:
    flat = acceptor.target
    if not (acceptor.final > -np.inf).any():
        return []
    found = []
    for level in (wanted(acceptor), -_allowed(acceptor)):
        fall = np.where(flat >= 0, level[:, None] - level[flat], _REJECTED).max(axis=0)
        due = level[0] - level[acceptor.final > -np.inf].max()
        if due or fall.any():
            found.append(_Account(owner, float(due), fall.astype(np.float64)))
    return found


def _allowed(acceptor: Acceptor) -> Ints:
    """Return from each state how many tokens may have a label that leads on for good, int32 [Q]."""
    # Imported here: slow to import, and only errors need it.
    from scipy.sparse import coo_array  # noqa: PLC0415
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    flat, states = acceptor.target, acceptor.n_states
    source, symbol = np.nonzero(flat >= 0)
    target = flat[source, symbol]
    graph = coo_array((np.ones(len(source)), (source, target)), shape=(states, states))
    _, component = connected_components(graph, connection="strong")
    onward = component[source] != component[target]
    consumed = np.ones(flat.shape[1], dtype=bool)
    consumed[symbol[~onward]] = False
    # No loop has such a label: the longest ways are found in as many rounds as there are states.
    found = np.zeros(states, dtype=np.int32)
    for _ in range(states):
        nearer = found.copy()
        np.maximum.at(nearer, source, consumed[symbol] + found[target])
        if np.array_equal(nearer, found):
            break
        found = nearer
    return found


def _proof(accounts: Sequence[_Account], mask: Flags) -> list[int] | None:
    """Return the accounts of a proof: weighted, they must fall by more than the tokens let them."""
    from scipy.optimize import linprog  # noqa: PLC0415 (slow to import)

    due = np.asarray([account.due for account in accounts])
    change = np.column_stack([account.change for account in accounts])
    kinds, times = np.unique(mask, axis=0, return_counts=True)
    # Variables: a weight of each account, and the most that a token of each kind changes.
    rows: list[Floats] = []
    for k, kind in enumerate(kinds):
        most = np.unique(change[kind], axis=0)
        ends = np.zeros((len(most), len(kinds)))
        ends[:, k] = -1.0
        rows.append(np.column_stack([most, ends]))
    table = np.concatenate(rows)
    solved = linprog(
        np.concatenate([-due, times]),
        A_ub=table,
        b_ub=np.zeros(len(table)),
        bounds=[(0.0, 1.0)] * len(due) + [(None, None)] * len(kinds),
        method="highs",
    )
    if solved.x is None:
        return None
    weight = np.where(solved.x[: len(due)] > _MARGIN, solved.x[: len(due)], 0.0)
    if weight @ due - _most(weight, change, kinds, times) <= _MARGIN * len(mask):
        return None
    return np.flatnonzero(weight).tolist()


def _most(weight: Floats, change: Floats, kinds: Flags, times: NDArray[np.int64]) -> float:
    """Return by how much the accounts can fall in a sentence; checks what the solver says."""
    value = change @ weight
    return float(sum(n * value[kind].max() for kind, n in zip(kinds, times.tolist(), strict=True)))
