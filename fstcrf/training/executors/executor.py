r"""Work on numbered parts of a text, wherever it is done: place, map, fold, close.

A *placement* is a list of states, one for each part, that stay where they were made: in this
process, in others, on other machines. Functions go to the states; what they return comes back in
the order of the parts, or is added up by one binary tree over their numbers::

    0   1   2   3   4   5         of n parts the left half are the largest power of two below n
     \ /     \ /     \ /
       \     /        |
         \ /         /            so sums have the same bits wherever the parts are
           \_______/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from fstcrf import kernel

T = TypeVar("T")
Add = Callable[[T, T], T]
Function = Callable[..., Any]
"""A function of a module, so that other processes find it; its first argument is a state."""


class Placement(Protocol):
    """States of parts, where they are."""

    def __len__(self) -> int:
        """Return the number of parts."""

    def then(self, make: Function, *shared: Any) -> Placement:
        """Replace each state by ``make(state, *shared)``; this placement is used up.

        What is shared is kept as long as the states: a state that is lost is made again from the
        beginning.
        """

    def map(self, function: Function, *shared: Any) -> Iterator[Any]:
        """Yield ``function(state, *shared)`` of each part, in order."""

    def fold(self, add: Add[Any], function: Function, *shared: Any) -> Any:
        """Return the sum of ``function(state, *shared)`` by the tree over the numbers of parts.

        `add` may change its first argument.
        """

    def close(self) -> None:
        """Forget the states."""


class Executor(Protocol):
    """Where parts are worked on."""

    def place(self, make: Function, items: Sequence[Any], *shared: Any) -> Placement:
        """Make the state ``make(item, *shared)`` of each item."""

    def variants(self) -> tuple[str, ...]:
        """Return the variants of the kernel that all workers have, slowest first."""

    def use(self, variant: str) -> None:
        """Choose the variant of the kernel in all workers, this process included."""

    def close(self) -> None:
        """Give back what the executor made: processes, connections."""


def applied(function: Function, state: Any, shared: Sequence[Any]) -> Any:
    """Return what a function makes of a state; `ready` and `rest` of it come before and after."""
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
    """Return where the left half of a tree over parts first .. end ends; it has at least two."""
    return first + (1 << (end - first - 1).bit_length() - 1)


def folded(value: Callable[[int], T], add: Add[T], first: int, end: int) -> T:
    """Return the sum over parts first .. end, depth first: few values exist at the same time."""
    if end - first == 1:
        return value(first)
    middle = left_end(first, end)
    left = folded(value, add, first, middle)
    return add(left, folded(value, add, middle, end))


def joined(sums: dict[tuple[int, int], T], add: Add[T], first: int, end: int) -> T:
    """Return the sum over parts first .. end, given those of `subtrees`, which it takes out."""
    if (first, end) in sums:
        return sums.pop((first, end))
    middle = left_end(first, end)
    left = joined(sums, add, first, middle)
    return add(left, joined(sums, add, middle, end))


def subtrees(first: int, end: int, n: int) -> list[tuple[int, int]]:
    """Return the largest subtrees of the tree over n parts that make up parts first .. end."""
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
    """Cut parts 0 .. n into a run for each worker, as even as can be; runs are not empty."""
    bounds = [n * k // workers for k in range(workers + 1)]
    return [(a, b) for a, b in pairwise(bounds) if a < b]


# --- This process ---------------------------------------------------------------------------------


class LocalExecutor:
    """Parts in this process, one after the other."""

    def place(self, make: Function, items: Sequence[Any], *shared: Any) -> Placement:
        """Make the state of each item."""
        return _Here([applied(make, item, shared) for item in items])

    def variants(self) -> tuple[str, ...]:
        """Return the variants of this machine."""
        return kernel.variants()

    def use(self, variant: str) -> None:
        """Choose the variant."""
        kernel.use(variant)

    def close(self) -> None:
        """Do nothing: nothing was opened."""


class _Here:
    def __init__(self, states: list[Any]) -> None:
        self._states = states

    def __len__(self) -> int:
        return len(self._states)

    def then(self, make: Function, *shared: Any) -> Placement:
        states, self._states = self._states, []
        for number, state in enumerate(states):
            states[number] = applied(make, state, shared)
            del state  # two of a part need not exist for longer
        return _Here(states)

    def map(self, function: Function, *shared: Any) -> Iterator[Any]:
        return (applied(function, state, shared) for state in self._states)

    def fold(self, add: Add[Any], function: Function, *shared: Any) -> Any:
        return folded(lambda k: applied(function, self._states[k], shared), add, 0, len(self))

    def close(self) -> None:
        self._states = []
