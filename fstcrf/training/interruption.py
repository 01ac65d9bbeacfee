"""Ctrl-C, and SIGTERM if it is handled alike, delayed to a safe point."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Delay Ctrl-C until the block is done: KeyboardInterrupt is raised after it."""
    waiting: list[int] = []

    def wait(number: int, _: FrameType | None) -> None:
        waiting.append(number)

    with handling(SIGNALS, lambda _: wait):
        yield
    if waiting:
        raise KeyboardInterrupt


@contextmanager
def patient() -> Iterator[None]:
    """Delay the first Ctrl-C until the block is done; a second one interrupts the block.

    Existing handlers are called at once; the KeyboardInterrupt that they raise is delayed.
    """
    waiting: list[KeyboardInterrupt] = []

    def waits(before: Any) -> Any:
        def wait(number: int, frame: FrameType | None) -> None:
            try:
                before(number, frame)
            except KeyboardInterrupt as error:
                if waiting:
                    raise
                waiting.append(error)

        return wait if callable(before) else before

    with handling(SIGNALS, waits):
        yield
    if waiting:
        raise KeyboardInterrupt


@contextmanager
def handling(
    signals: tuple[signal.Signals, ...], handler: Callable[[Any], signal.Handlers | Any]
) -> Iterator[None]:
    """Replace the handlers of signals in a block, except of ignored ones.

    `handler` maps the existing handler to the new one.
    """
    before = {}
    with suppress(ValueError):  # only the main thread may do this
        for number in signals:
            old = signal.getsignal(number)
            if old != signal.SIG_IGN:
                before[number] = old
                signal.signal(number, handler(old))
    try:
        yield
    finally:
        for number, old in before.items():
            with suppress(ValueError):
                signal.signal(number, signal.SIG_DFL if old is None else old)
