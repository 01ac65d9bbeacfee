"""Files by the workers of Dask.

An unsuitable worker is refused before work begins. Workers are asked for their version by an
expression of built-ins: a function of fstcrf could not be unpickled on a machine without fstcrf.
Each worker checks once that it sees the same files for model, grammars and record; this detects
folders that are not shared.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from fstcrf.errors import ClusterError
from fstcrf.ext.cluster.connection import check_workers, distributed_package
from fstcrf.ext.cluster.work import FileOutcome, FileShare, FileTask, Heard, perform, said

if TYPE_CHECKING:
    from distributed import Client, Future

_GONE = 30.0
"""Seconds that a run waits without any worker, or without its scheduler."""
_STEP = 1.0
"""Seconds after which is looked whether workers are there."""


def through_dask(
    client: Client, tasks: Iterable[FileTask], *, hears: Heard | None = None
) -> Iterator[FileOutcome]:
    """Do tasks on workers of Dask; yield their outcomes as they end.

    The scheduler gives the task of a worker that is killed to another one, and gives up on it after
    as many as it allows (``distributed.scheduler.allowed-failures``).

    Parameters
    ----------
    client : distributed.Client
    tasks : iterable of FileTask
    hears : callable, optional
        Hears how far files are, in a thread of the client.

    Raises
    ------
    ClusterError
        No worker is left, or the scheduler is gone; a worker came without this fstcrf.
    """
    waiting, run = iter(tasks), uuid.uuid4().hex
    asked: dict[Future, FileTask] = {}
    patience, number, topic = _Patience(client), 0, f"fstcrf-{run}"
    if hears is not None:
        client.subscribe_topic(topic, _hearing(hears))
    try:
        while True:
            # Two for each thread, so that no thread waits for the network.
            for task in islice(waiting, max(2 * patience.threads - len(asked), 0)):
                key, number = f"fstcrf-{run}-{number}", number + 1
                asked[client.submit(_performed, task, topic, key=key, pure=False)] = task
            if not asked:
                return
            ended = _ended(client, list(asked))
            patience.check(idle=not ended)
            for future in ended:
                yield _outcome(client, future, asked.pop(future))
    finally:
        if client.status == "running":
            client.cancel(list(asked))
            if hears is not None:
                client.unsubscribe_topic(topic)


def _ended(client: Client, futures: list[Future]) -> list[Future]:
    """Return the futures that have ended, within a second."""
    distributed = distributed_package()
    try:
        with client.as_current():
            distributed.wait(futures, timeout=_STEP, return_when="FIRST_COMPLETED")
    except TimeoutError:
        return []
    except distributed.client.CancelledError:
        pass  # its status has the error
    return [future for future in futures if future.status != "pending"]


class _Patience:
    """The time of a run without workers, and the number of their threads."""

    def __init__(self, client: Client) -> None:
        self._client, self._alone = client, 0.0
        self.threads = max(1, sum(client.nthreads().values()))

    def check(self, *, idle: bool) -> None:
        """Check the workers if no task has ended; ClusterError if they are lost."""
        if not idle:
            self._alone = 0.0
            return
        there = {}
        if self._client.status == "running":
            try:
                there = self._client.nthreads()
            except OSError:
                there = {}
        self.threads = max(1, sum(there.values()))
        self._alone = 0.0 if there else self._alone + _STEP
        if self._alone >= _GONE:
            raise _lost("no worker is left")


def _outcome(client: Client, future: Future, task: FileTask) -> FileOutcome:
    if future.status == "finished":
        found: FileOutcome = future.result()
        return found
    if future.status in ("cancelled", "lost"):
        raise _lost("the scheduler is gone, or was started anew")
    error = future.exception()
    if isinstance(error, distributed_package().KilledWorker):
        last = getattr(error.last_worker, "address", error.last_worker)
        text = f"{task.part.source}: every worker that it was given to died, the last at {last}"
        return FileOutcome(task.part, error=text)
    check_workers(client)  # one that came later may be why
    return FileOutcome(task.part, error=f"{task.part.source}: {said(error)}")


def _lost(why: str) -> ClusterError:
    return ClusterError(f"{why}; the same command goes on from here")


def _hearing(hears: Heard) -> Callable[[tuple[Any, tuple[str, int, float | None]]], None]:
    """Return the receiver of a topic's events: a time and a message."""
    return lambda event: hears(FileShare(*event[1]))


def _performed(task: FileTask, topic: str) -> FileOutcome:
    """Do a task on a worker."""
    worker = distributed_package().get_worker()

    def told(far: FileShare) -> None:
        worker.log_event(topic, (far.name, far.sentences, far.share))

    return replace(perform(task, told), where=f"worker {worker.address}")
