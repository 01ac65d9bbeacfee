"""Ctrl-C, and SIGTERM where it is taken like it, at a time that suits."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let an impatient Ctrl-C wait until the block is done: KeyboardInterrupt comes after it."""
    waiting: list[int] = []

    def wait(number: int, _: FrameType | None) -> None:
        waiting.append(number)

    with handling(SIGNALS, lambda _: wait):
        yield
    if waiting:
        raise KeyboardInterrupt


@contextmanager
def patient() -> Iterator[None]:
    """Let the first Ctrl-C wait until the block is done; a second one ends the block.

    Handlers that are there are called at once; what waits is the KeyboardInterrupt that they raise.
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
    """Handle signals otherwise in a block, those that are ignored excepted.

    `handler` maps the handler that there is to the one of the block.
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
