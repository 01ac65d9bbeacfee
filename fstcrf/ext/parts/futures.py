"""Parts in the workers of pools that have `submit`, or `apply_async`.

Workers hold states between calls, by the number of a placement. A worker may lack the requested
states, because it is new or replaced another one. It then reports this, and receives all
instructions for making them.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from fstcrf import kernel
from fstcrf.errors import ClusterError, OptionError
from fstcrf.lazy import Turns
from fstcrf.training.executors.executor import (
    Add,
    Function,
    Placement,
    applied,
    folded,
    joined,
    shares,
    subtrees,
)

E = TypeVar("E")
NUMBERS = itertools.count()
"""Of runs, of their steps: no two are the same."""
_RESTARTS = 5  # of a worker, for one call: more are no accident


class Pool(Protocol):
    """Runs functions in workers: `concurrent.futures`, `mpi4py.futures`."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Run a function in a worker."""


# --- In the workers -------------------------------------------------------------------------------


class StateStep(NamedTuple):
    """Instructions for making states, from items or from the states of the previous step."""

    key: int
    make: Function
    shared: tuple[Any, ...]


class Missing(NamedTuple):
    """The worker does not have the states."""


_HELD: dict[tuple[str, int], dict[int, Any]] = {}  # run and step → states by the number of parts
_CHANGING = Turns()  # for a pool of threads


def work(
    run: str,
    steps: Sequence[StateStep] | int,
    items: Sequence[tuple[int, Any]],
    function: Function | None,
    shared: tuple[Any, ...],
    groups: Sequence[tuple[int, int]] | None,
    add: Add[Any] | None,
) -> Any:
    """Ask states something, in a worker.

    Parameters
    ----------
    run : str
    steps : sequence of StateStep, or int
        How states are made; or the key of the last step, whose states the worker may have.
    items : sequence of (number, item)
        The parts; items are there where steps are.
    function : callable, optional
        The function to call; omitted if states are only made.
    shared : tuple
        Its further arguments.
    groups : sequence of (first, end), optional
        Subtrees that `add` sums; by default, parts are separate.
    """
    numbers = [number for number, _ in items]
    if isinstance(steps, int):
        states = _HELD.get((run, steps), {})
        held = {number: states[number] for number in numbers if number in states}
        if len(held) < len(numbers):
            return Missing()
    else:
        held = {number: _made(run, steps, number, item) for number, item in items}
    if function is None:
        return None
    if groups is None or add is None:
        return [applied(function, held[number], shared) for number in numbers]
    return [
        folded(lambda k: applied(function, held[k], shared), add, first, end)
        for first, end in groups
    ]


def _made(run: str, steps: Sequence[StateStep], number: int, item: Any) -> Any:
    """Make a state from the last existing state."""
    with _CHANGING.lock:
        last = _HELD.setdefault((run, steps[-1].key), {})
        if number in last:
            return last[number]
        state, begin = item, 0
        for place in range(len(steps) - 1, 0, -1):
            before = _HELD.get((run, steps[place - 1].key), {})
            if number in before:
                state, begin = before.pop(number), place
                break
    for step in steps[begin:]:
        state = applied(step.make, state, step.shared)
    last[number] = state
    return state


def forget(run: str, key: int | None) -> None:
    """Forget the states of a step, or of a run."""
    for held in [k for k in _HELD if k[0] == run and key in (None, k[1])]:
        del _HELD[held]


def prepare(variant: str | None) -> tuple[str, ...]:
    """Choose a variant of the kernel in a worker; return the available variants."""
    if variant is not None and kernel.variant() != variant:
        kernel.use(variant)
    return kernel.variants()


# --- Here -----------------------------------------------------------------------------------------


class _Applied:
    """A pool as of `multiprocessing`, and Ray's, seen as one with `submit`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Any:
        future = self._pool.apply_async(function, args)
        future.result = future.get
        return future


def _pool(given: Any) -> Pool:
    if hasattr(given, "submit"):
        pool: Pool = given
        return pool
    if hasattr(given, "apply_async"):
        return _Applied(given)
    raise OptionError(f"a pool is {type(given).__name__}, expected one with submit or apply_async")


class FuturesExecutor:
    """Parts in the workers of pools.

    Parameters
    ----------
    pools : pool, or sequence of pools
        With ``submit``, like pools of `concurrent.futures` and ``mpi4py.futures``, or with
        ``apply_async``, like Ray's pools. If there are several pools, each should have one worker:
        parts then stay with it. In one pool with several workers, each worker may eventually hold
        all parts.
    workers : int, optional
        Into how many runs the parts are cut; the number of pools, else of processors.

    Raises
    ------
    OptionError
        No pool.
    """

    def __init__(self, pools: Any, *, workers: int | None = None) -> None:
        several = isinstance(pools, Sequence)
        self._pools = [_pool(one) for one in (pools if several else [pools])]
        if not self._pools:
            raise OptionError("no pool of workers is given")
        usual = len(self._pools) if several else (os.cpu_count() or 1)
        self.workers = workers or usual
        if self.workers < 1:
            raise OptionError(f"workers is {self.workers}, expected at least 1")
        self._variant: str | None = None
        self._runs: list[str] = []

    def place(self, make: Function, items: Sequence[Any], *shared: Any) -> Placement:
        """Make the state of each item."""
        run = f"{os.getpid()}-{next(NUMBERS)}"
        self._runs.append(run)
        step = StateStep(next(NUMBERS), make, shared)
        return _There(self, run, list(items), [step]).made()

    def variants(self) -> tuple[str, ...]:
        """Return the variants of the kernel that all workers have, and this process."""
        names = [set(self.asked(k, prepare, (None,))) for k in range(self.workers)]
        return tuple(name for name in kernel.variants() if all(name in one for one in names))

    def use(self, variant: str) -> None:
        """Choose the variant of the kernel in all workers."""
        self._variant = variant
        kernel.use(variant)
        for k in range(self.workers):
            self.asked(k, prepare, (variant,))

    def close(self) -> None:
        """Delete the data on workers; the pools stay open."""
        for run in self._runs:
            for k in range(self.workers):
                self.asked(k, forget, (run, None))
        self._runs = []

    def begun(self, number: int, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Begin a call in the worker that has a run of parts."""
        try:
            return self._pools[number % len(self._pools)].submit(function, *args)
        except BrokenExecutor as error:  # the pool has noticed that its worker died
            future: Future[Any] = Future()
            future.set_exception(error)
            return future

    def asked(self, number: int, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Return the result of a worker."""
        return self.begun(number, function, args).result()

    def again(self, number: int, tries: int) -> None:
        """Make a worker anew that died.

        Raises
        ------
        ClusterError
            It cannot be made, or has died too often.
        """
        del number, tries
        raise ClusterError(
            "a worker died and ended its pool: continue from the checkpoint with a new pool"
        ) from None


@dataclass
class HeldStates(ABC, Generic[E]):
    """States that workers hold, by the number of a run; the client knows how each is made."""

    executor: E
    run: str
    items: list[Any]
    steps: list[StateStep]

    def __len__(self) -> int:
        return len(self.items)

    @abstractmethod
    def made(self) -> Placement:
        """Make the states."""

    def then(self, make: Function, *shared: Any) -> Placement:
        """Replace each state."""
        return replace(self, steps=[*self.steps, StateStep(next(NUMBERS), make, shared)]).made()


class _There(HeldStates["FuturesExecutor"]):
    """States in the workers of pools."""

    def made(self) -> Placement:
        for _ in self._each(None, (), None, whole=True):
            pass
        return self

    def map(self, function: Function, *shared: Any) -> Iterator[Any]:
        for _, results in self._each(function, shared, None):
            yield from results

    def fold(self, add: Add[Any], function: Function, *shared: Any) -> Any:
        sums: dict[tuple[int, int], Any] = {}
        for groups, results in self._each(function, shared, add):
            sums.update(zip(groups, results, strict=True))
        return joined(sums, add, 0, len(self))

    def close(self) -> None:
        for k in range(self.executor.workers):
            self.executor.asked(k, forget, (self.run, None))

    def _each(
        self,
        function: Function | None,
        shared: tuple[Any, ...],
        add: Add[Any] | None,
        *,
        whole: bool = False,
    ) -> Iterator[tuple[list[tuple[int, int]], Any]]:
        """Ask all workers at once; yield groups of parts and their results, in order."""
        n, executor = len(self), self.executor
        parts = shares(n, executor.workers)
        groups = [subtrees(a, b, n) if add is not None else [(a, b)] for a, b in parts]

        def call(k: int, *, told: bool) -> tuple[Any, ...]:
            first, end = parts[k]
            numbers = range(first, end)
            items = [(i, self.items[i] if told else None) for i in numbers]
            steps: Any = self.steps if told else self.steps[-1].key
            trees = groups[k] if add is not None else None
            return self.run, steps, items, function, shared, trees, add

        waiting = [executor.begun(k, work, call(k, told=whole)) for k in range(len(parts))]
        for k, first in enumerate(waiting):
            future, tries = first, 0
            while True:
                try:
                    results = future.result()
                except BrokenExecutor:
                    tries += 1
                    executor.again(k, tries)
                    future = executor.begun(k, work, call(k, told=True))
                    continue
                if not isinstance(results, Missing):
                    break
                future = executor.begun(k, work, call(k, told=True))
            yield groups[k], results


# --- Processes of this machine --------------------------------------------------------------------


class ProcessExecutor(FuturesExecutor):
    """Parts in processes of this machine; one that dies is made anew, with its parts.

    A program that makes one runs its main code under ``if __name__ == "__main__":``, as for
    `multiprocessing`.

    Parameters
    ----------
    workers : int

    Raises
    ------
    OptionError
        No worker.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise OptionError(f"workers is {workers}, expected at least 1")
        self._made = [_process() for _ in range(workers)]
        super().__init__(self._made)
        self._lost = 0

    def again(self, number: int, tries: int) -> None:
        """Make a worker anew that died."""
        if tries > _RESTARTS:
            raise ClusterError(
                f"worker {number} died {tries} times at the same work: is there too little memory?"
            ) from None
        self._made[number].shutdown(wait=False)
        self._made[number] = self._pools[number] = _process()
        self._lost += 1
        if self._variant is not None:
            self.asked(number, prepare, (self._variant,))

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(self.asked(k, os.getpid, ())) for k in range(self.workers)]

    def close(self) -> None:
        """End the processes."""
        for pool in self._made:
            pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _process() -> ProcessPoolExecutor:
    spawning = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=spawning, initializer=_attend)


def _attend() -> None:
    """Leave Ctrl-C to the process that trains, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
