"""Parts in the workers of a Dask cluster.

Workers hold states, as those of process pools do: if a worker dies and Dask moves a call, the new
worker lacks the state and receives the instructions for making it. Sums are added worker to worker
by the tree.
"""

from __future__ import annotations

import itertools
import os
import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from fstcrf import kernel
from fstcrf.errors import ClusterError
from fstcrf.ext.cluster.connection import (
    ANSWER,
    VERSION,
    check_workers,
    checked,
    connected,
    distributed_package,
)
from fstcrf.ext.parts.futures import NUMBERS, HeldStates, Missing, StateStep, forget, work
from fstcrf.training.executors.executor import Add, Function, Placement, joined, shares, subtrees

if TYPE_CHECKING:
    from distributed import Client

_TRIES = 5  # of one call: workers that die repeatedly are no accident


# --- In the workers -------------------------------------------------------------------------------


class _Sent:
    """The message to states, sent as one piece: arrays that Dask splits off are unaligned."""

    def __init__(self, shared: tuple[Any, ...]) -> None:
        self.shared = shared

    def __reduce__(self) -> Any:
        return _received, (pickle.dumps(self.shared, protocol=5),)


def _received(data: bytes) -> _Sent:
    return _Sent(pickle.loads(data))  # noqa: S301 (as Dask does with all that it sends)


def _prepared(version: str, variant: str | None) -> None:
    """Refuse another version of fstcrf; choose the variant of the kernel."""
    if version != VERSION:
        raise ClusterError(f"worker {_address()} has fstcrf {VERSION}, the client {version}")
    if variant is not None and kernel.variant() != variant:
        kernel.use(variant)


def _address() -> str:
    worker: str = distributed_package().get_worker().address
    return worker


def _work(
    version: str,
    variant: str | None,
    run: str,
    steps: Any,
    items: list[tuple[int, _Sent | None]],
    asked: _Asked,
    sent: _Sent,
) -> Any:
    """Call a function on states; return `Missing`, or the result.

    Steps are sent, or a key.
    """
    _prepared(version, variant)
    steps = steps.shared if isinstance(steps, _Sent) else steps
    known = [(number, None if item is None else item.shared[0]) for number, item in items]
    function, groups, add = asked
    return work(run, steps, known, function, sent.shared, groups, add)


def _missing(found: Any) -> bool:
    return isinstance(found, Missing)


def _picked(found: Any, place: int) -> Any:
    """Return one of the sums of a worker."""
    return found if isinstance(found, Missing) else found[place]


def _joined(add: Add[Any], one: Any, other: Any) -> Any:
    """Add two sums, where both are there."""
    return Missing() if _missing(one) or _missing(other) else add(one, other)


class _Asked(NamedTuple):
    """A call to states: a function, the subtrees whose results are added, and the way of adding."""

    function: Function | None
    groups: list[tuple[int, int]] | None = None
    add: Add[Any] | None = None


# --- Here -----------------------------------------------------------------------------------------


class DaskExecutor:
    """Parts in the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler. All workers must have this version of fstcrf, and
        find files under the same names.
    workers : int, optional
        Wait for this number of workers, at least 1.
    seconds : float
        How long to wait for the scheduler; for workers twice as long.

    Raises
    ------
    MissingDependencyError
        Dask is not installed: the extra ``fstcrf[dask]`` includes it.
    OptionError
        No address.
    ClusterError
        The address does not answer, there are too few workers, or one has another version of fstcrf
        or lacks it; the message names it.
    """

    def __init__(self, client: Client | str, *, workers: int = 1, seconds: float = ANSWER) -> None:
        self.distributed = distributed_package()
        self._own = isinstance(client, str)
        self.client: Client = (
            connected(client, workers=workers, seconds=seconds)
            if isinstance(client, str)
            else checked(client, workers=workers, seconds=2 * seconds)
        )
        self._address = str(self.client.scheduler_info(n_workers=-1)["address"])
        self._variant: str | None = None
        self._slots: list[str] = []
        self._gone = False
        self._runs: list[str] = []

    def slots(self) -> list[str]:
        """Return the addresses of workers, once for each thread: places for runs of parts.

        A lost worker is replaced in its place, so that the others keep their parts.
        """
        threads = self.client.nthreads()
        here = [address for address in sorted(threads) for _ in range(threads[address])]
        if not here:
            raise ClusterError(f"{self._address} has no workers any more")
        if not self._slots:
            self._slots = here
        lost = [k for k, address in enumerate(self._slots) if address not in threads]
        if lost:
            spare = [a for a in here if a not in set(self._slots)] or here
            for k, address in zip(lost, itertools.cycle(spare), strict=False):
                self._slots[k] = address
        return self._slots

    def place(self, make: Function, items: Sequence[Any], *shared: Any) -> Placement:
        """Make the state of each item."""
        run = f"{socket.gethostname()}-{os.getpid()}-{next(NUMBERS)}"
        self._runs.append(run)
        step = StateStep(next(NUMBERS), make, shared)
        return _Elsewhere(self, run, list(items), [step]).made()

    def variants(self) -> tuple[str, ...]:
        """Return the variants of the kernel that all workers have, and this process."""
        known = [set(one) for one in self.client.run(kernel.variants).values()]
        return tuple(name for name in kernel.variants() if all(name in one for one in known))

    def use(self, variant: str) -> None:
        """Choose the variant of the kernel in all workers."""
        self._variant = variant
        kernel.use(variant)

    def told(self) -> tuple[str, str | None]:
        """Return version and variant, as each worker checks and chooses them."""
        return VERSION, self._variant

    def close(self) -> None:
        """Forget the data on workers; close the client if this executor made it."""
        for run in self._runs:
            self.forget(run)
        self._runs = []
        if self._own:
            self.client.close()

    def sent(self, shared: tuple[Any, ...]) -> Any:
        """Send values to a worker, from which the others have them.

        Not to all at once: a broadcast never ends if a worker dies meanwhile.
        """
        try:
            return self.client.scatter(_Sent(shared), hash=False)
        except (KeyError, OSError) as error:
            raise TimeoutError(f"a worker went away: {error}") from None

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """The exceptions after the loss of a worker or of the scheduler."""
        cancelled = self.distributed.client.FutureCancelledError
        return cancelled, CancelledError, self.distributed.comm.CommClosedError, TimeoutError

    def renew(self, error: BaseException, *, last: bool) -> None:
        """Wait for a worker after something was lost.

        Raises
        ------
        ClusterError
            The scheduler is lost, too, or there were too many losses.
        """
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        try:
            if self.client.status == "running" and not last:
                self.client.wait_for_workers(1, timeout=60.0)
                return
        except (OSError, TimeoutError):
            pass
        self._gone = True
        raise ClusterError(
            f"the cluster of {self._address} is gone ({reason}): start it again, and go on from "
            "the checkpoint by resume"
        ) from None

    def forget(self, run: str) -> None:
        """Let workers forget the states of a run."""
        if not self._gone and self.client.status == "running":
            with suppress(OSError):  # the workers are gone, and their data with them
                self.client.run(forget, run, None, on_error="ignore")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Elsewhere(HeldStates["DaskExecutor"]):
    """States in the workers of a cluster."""

    def made(self) -> Placement:
        """Make the states."""
        self._trying(_Asked(None), (), self._all, told=True)
        return self

    def map(self, function: Function, *shared: Any) -> Iterator[Any]:
        for found in self._trying(_Asked(function), shared, self._all):
            yield from found

    def fold(self, add: Add[Any], function: Function, *shared: Any) -> Any:
        return self._trying(_Asked(function, [], add), shared, self._sum)

    def close(self) -> None:
        self.executor.forget(self.run)

    # The way in which workers' answers return.

    def _all(self, calls: list[Any], asked: Sequence[_Asked]) -> Any:
        del asked
        return self.executor.client.gather(calls)

    def _sum(self, calls: list[Any], asked: Sequence[_Asked]) -> Any:
        """Add sums of workers by the rest of the tree, worker to worker."""
        client = self.executor.client
        sums: dict[tuple[int, int], Any] = {}
        for call, one in zip(calls, asked, strict=True):
            for place, group in enumerate(one.groups or ()):
                sums[group] = client.submit(_picked, call, place, **_own("pick"))

        def add(one: Any, other: Any) -> Any:
            return client.submit(_joined, asked[0].add, one, other, **_own("add"))

        return client.gather(joined(sums, add, 0, len(self)))

    # Calls, and again where something is lost with a worker.

    def _trying(
        self,
        asked: _Asked,
        shared: tuple[Any, ...],
        answer: Callable[[list[Any], Sequence[_Asked]], Any],
        *,
        told: bool = False,
    ) -> Any:
        executor = self.executor
        for tries in range(_TRIES):
            try:
                return self._once(asked, shared, answer, told=told)
            except executor.lost as error:
                executor.renew(error, last=tries == _TRIES - 1)
            except executor.distributed.KilledWorker as error:
                raise ClusterError(
                    "workers die one after the other at the same part: is there too little "
                    f"memory? ({str(error).splitlines()[0]})"
                ) from None
            except (ImportError, AttributeError):
                check_workers(executor.client)  # perhaps a worker that joined later
                raise
        raise AssertionError

    def _once(
        self,
        asked: _Asked,
        shared: tuple[Any, ...],
        answer: Callable[[list[Any], Sequence[_Asked]], Any],
        *,
        told: bool,
    ) -> Any:
        client, n = self.executor.client, len(self)
        slots = self.executor.slots()
        runs = shares(n, len(slots))
        places = [
            slots[k] for k in range(len(slots)) if n * k // len(slots) < n * (k + 1) // len(slots)
        ]
        every = [
            asked if asked.groups is None else asked._replace(groups=subtrees(a, b, n))
            for a, b in runs
        ]
        sent = self.executor.sent(shared)
        steps = self.executor.sent(tuple(self.steps)) if told else None
        calls = [
            self._call(place, run, one, sent, steps)
            for place, run, one in zip(places, runs, every, strict=True)
        ]
        while True:
            found = answer(calls, every)
            if not (_missing(found) or (isinstance(found, list) and any(map(_missing, found)))):
                return found
            steps = steps or self.executor.sent(tuple(self.steps))
            flags = client.gather([client.submit(_missing, call, **_own("ask")) for call in calls])
            for k, missing in enumerate(flags):
                if missing:
                    calls[k] = self._call(places[k], runs[k], every[k], sent, steps)

    def _call(self, place: str, run: tuple[int, int], asked: _Asked, sent: Any, steps: Any) -> Any:
        items = [(k, None if steps is None else _Sent((self.items[k],))) for k in range(*run)]
        key = self.steps[-1].key
        return self.executor.client.submit(
            *(_work, *self.executor.told(), self.run, key if steps is None else steps, items),
            *(asked, sent),
            **_own("work"),
            workers=[place],
            allow_other_workers=True,
        )


def _own(name: str) -> dict[str, Any]:
    """Return the options of a call that is not another one's."""
    return {"key": f"fstcrf-{name}-{os.getpid()}-{next(NUMBERS)}", "pure": False}
