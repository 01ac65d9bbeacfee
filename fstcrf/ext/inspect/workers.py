"""Threads that answer questions: an abandoned question is never started, or keeps its thread.

A thread cannot be ended from outside. If another one took the place of each whose asker has gone,
they would pile up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

_IDLE = 60.0  # seconds after which a thread without work ends


class _Job(NamedTuple):
    work: Callable[[], Any]
    answer: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Workers:
    """Threads that do one job after another; they end with the program, even during a job.

    Parameters
    ----------
    size : int
        How many there are at most.
    """

    def __init__(self, size: int) -> None:
        self._size, self._alive = size, 0
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Return the future result of work; if it is cancelled early, the work never starts."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        with self._lock:
            self._jobs.put(_Job(work, answer, loop))
            if self._alive < self._size:
                self._alive += 1
                threading.Thread(target=self._run, name="questions", daemon=True).start()
        return answer

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if self._jobs.empty():
                        self._alive -= 1
                        return
                continue
            if not job.answer.cancelled():
                self._answer(job)
            del job  # rather than keep a question and its answer until the next one

    def _answer(self, job: _Job) -> None:
        found: Any = None
        problem: BaseException | None = None
        try:
            found = job.work()
        except BaseException as error:  # noqa: BLE001 (whoever waits hears of it)
            problem = error
        with suppress(RuntimeError):  # the loop is closed
            job.loop.call_soon_threadsafe(_settle, job.answer, found, problem)


def _settle(answer: asyncio.Future[Any], found: Any, problem: BaseException | None) -> None:
    if answer.done():  # nobody waits
        return
    if problem is None:
        answer.set_result(found)
    else:
        answer.set_exception(problem)
