"""Worker processes of this machine. One that is killed is started again, and so is its file.

`ProcessExecutor` does not serve here: its pools report neither progress nor the way in which a
process died, and Ctrl-C would wait for unfinished files.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from typing import Any

from fstcrf.ext.cluster.work import FileOutcome, FileShare, FileTask, Heard, perform

_TRIES = 3
"""Processes that a file may take with it."""


def through_processes(
    tasks: Iterable[FileTask], count: int, *, hears: Heard | None = None
) -> Iterator[FileOutcome]:
    """Do tasks in separate processes; yield their outcomes as they end.

    Parameters
    ----------
    tasks : iterable of FileTask
    count : int
        Processes.
    hears : callable, optional
        Hears how far files are.
    """
    waiting = iter(tasks)
    workers: list[_Worker] = []
    try:
        for _ in range(count):
            task = next(waiting, None)
            if task is not None:
                workers.append(_Worker(task))
        while workers:
            for ready in connection.wait([worker.ours for worker in workers]):
                worker = next(one for one in workers if one.ours is ready)
                outcome = worker.heard()
                if isinstance(outcome, FileShare) and hears is not None:
                    hears(outcome)
                if not isinstance(outcome, FileOutcome):
                    continue
                yield outcome
                task = next(waiting, None)
                if task is None:
                    workers.remove(worker)
                    worker.close()
                else:
                    worker.give(task)
    finally:
        for worker in workers:
            worker.process.terminate()
            worker.close()


class _Worker:
    """A process with a task; another process when that is killed."""

    def __init__(self, task: FileTask) -> None:
        self._start()
        self.give(task)

    def _start(self) -> None:
        # The child inherits nothing from this process except the pipe: no threads, locks or files.
        context = get_context("spawn")
        self.ours, theirs = context.Pipe()
        self.process: Any = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, task: FileTask) -> None:
        self._task, self._tries = task, 1
        self._send()

    def _send(self) -> None:
        try:
            self.ours.send(self._task)
        except BrokenPipeError:  # killed while it was idle
            self.close()
            self._start()
            self.ours.send(self._task)

    def heard(self) -> FileOutcome | FileShare | None:
        """Return the outcome or the progress of the task; `None` if it is restarted."""
        try:
            outcome: FileOutcome | FileShare = self.ours.recv()
        except (EOFError, ConnectionResetError):
            return self._lost()
        if isinstance(outcome, FileShare):
            return outcome
        return replace(outcome, where=f"process {self.process.pid}")

    def _lost(self) -> FileOutcome | None:
        self.close()
        end = _ended(self.process.exitcode)
        self._start()
        if self._tries == _TRIES:
            text = (
                f"{self._task.part.source}: {_TRIES} processes in a row {end} while it was tagged"
            )
            return FileOutcome(self._task.part, error=text)
        self._tries += 1
        self._send()
        return None

    def close(self) -> None:
        self.ours.close()
        self.process.join()


def _ended(code: int) -> str:
    return f"were killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"


def _serve(asked: Connection) -> None:
    """Do tasks from a pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides
    while True:
        try:
            task = asked.recv()
        except EOFError:
            return
        asked.send(perform(task, asked.send))
