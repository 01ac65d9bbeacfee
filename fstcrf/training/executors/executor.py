r"""Work on numbered parts of a text, in any process: place, map, fold, close.

A *placement* is a list of states, one for each part, which stay where they were created: in this
process, in others, or on other machines. Functions are sent to the states. Their results are
returned in the order of the parts, or added by one binary tree over part numbers::

    0   1   2   3   4   5         of n parts the left half are the largest power of two below n
     \ /     \ /     \ /
       \     /        |
         \ /         /            so sums have the same bits wherever the parts are
           \_______/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from fstcrf import kernel

T = TypeVar("T")
Add = Callable[[T, T], T]
Function = Callable[..., Any]
"""A function of a module, so that other processes find it; its first argument is a state."""


class Placement(Protocol):
    """The states of parts, in their processes."""

    def __len__(self) -> int:
        """Return the number of parts."""

    def then(self, make: Function, *shared: Any) -> Placement:
        """Replace each state by ``make(state, *shared)``; the old placement becomes invalid.

        Shared values are kept as long as the states: a lost state is recomputed from the beginning.
        """

    def map(self, function: Function, *shared: Any) -> Iterator[Any]:
        """Yield ``function(state, *shared)`` of each part, in order."""

    def fold(self, add: Add[Any], function: Function, *shared: Any) -> Any:
        """Return the sum of ``function(state, *shared)`` by the tree over the numbers of parts.

        `add` may change its first argument.
        """

    def close(self) -> None:
        """Discard the states."""


class Executor(Protocol):
    """Runs functions on parts."""

    def place(self, make: Function, items: Sequence[Any], *shared: Any) -> Placement:
        """Create the state ``make(item, *shared)`` of each item."""

    def variants(self) -> tuple[str, ...]:
        """Return the variants of the kernel that all workers have, slowest first."""

    def use(self, variant: str) -> None:
        """Choose the variant of the kernel in all workers, including this process."""

    def close(self) -> None:
        """Release the executor's resources: processes, connections."""


def applied(function: Function, state: Any, shared: Sequence[Any]) -> Any:
    """Return a function of a state, between the calls of its `ready` and `rest`, if it has them."""
    ready, rest = getattr(state, "ready", None), getattr(state, "rest", None)
    if ready is not None:
        ready()
    try:
        return function(state, *shared)
    finally:
        if rest is not None:
            rest()


# --- The tree -------------------------------------------------------------------------------------


def left_end(first: int, end: int) -> int:
    """Return the end of the left half of a tree over at least two parts first .. end."""
    return first + (1 << (end - first - 1).bit_length() - 1)


def folded(value: Callable[[int], T], add: Add[T], first: int, end: int) -> T:
    """Return the sum over parts first .. end, depth first: few values exist at a time."""
    if end - first == 1:
        return value(first)
    middle = left_end(first, end)
    left = folded(value, add, first, middle)
    return add(left, folded(value, add, middle, end))


def joined(sums: dict[tuple[int, int], T], add: Add[T], first: int, end: int) -> T:
    """Return the sum over parts first .. end from the sums of `subtrees`, which are removed."""
    if (first, end) in sums:
        return sums.pop((first, end))
    middle = left_end(first, end)
    left = joined(sums, add, first, middle)
    return add(left, joined(sums, add, middle, end))


def subtrees(first: int, end: int, n: int) -> list[tuple[int, int]]:
    """Return the largest subtrees of the tree over n parts that cover parts first .. end."""
    trees: list[tuple[int, int]] = []

    def visit(a: int, b: int) -> None:
        if first <= a and b <= end:
            trees.append((a, b))
        elif a < end and first < b and b - a > 1:
            middle = left_end(a, b)
            visit(a, middle)
            visit(middle, b)

    visit(0, n)
    return trees


def shares(n: int, workers: int) -> list[tuple[int, int]]:
    """Split parts 0 .. n into nonempty, nearly equal runs, at most one for each worker."""
    bounds = [n * k // workers for k in range(workers + 1)]
    return [(a, b) for a, b in pairwise(bounds) if a < b]


# --- This process ---------------------------------------------------------------------------------


class LocalExecutor:
    """Runs parts in this process, one after the other."""

    def place(self, make: Function, items: Sequence[Any], *shared: Any) -> Placement:
        """Create the state of each item."""
        return local(applied(make, item, shared) for item in items)

    def variants(self) -> tuple[str, ...]:
        """Return the variants of this machine."""
        return kernel.variants()

    def use(self, variant: str) -> None:
        """Choose the variant."""
        kernel.use(variant)

    def close(self) -> None:
        """Return; there are no resources to release."""


def local(states: Iterable[object]) -> Placement:
    """Return a placement of states in this process."""
    return _Here([*states])


class _Here:
    def __init__(self, states: list[Any]) -> None:
        self._states = states

    def __len__(self) -> int:
        return len(self._states)

    def then(self, make: Function, *shared: Any) -> Placement:
        states, self._states = self._states, []
        for number, state in enumerate(states):
            states[number] = applied(make, state, shared)
            del state  # so that two states of a part do not exist longer than needed
        return _Here(states)

    def map(self, function: Function, *shared: Any) -> Iterator[Any]:
        return (applied(function, state, shared) for state in self._states)

    def fold(self, add: Add[Any], function: Function, *shared: Any) -> Any:
        return folded(lambda k: applied(function, self._states[k], shared), add, 0, len(self))

    def close(self) -> None:
        self._states = []
