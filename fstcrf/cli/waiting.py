"""A long search says on standard error that it is working.

=======  ==================================================
working  a block that says so where it takes longer
place    where a batch is, and how long its sentences are
=======  ==================================================
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fstcrf.cli.failures import say

if TYPE_CHECKING:
    from fstcrf.corpus import Corpus

__all__ = ["place", "working"]

_SOON = 2.0
"""Seconds after which something is said; again each time that the time has doubled."""


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what the block is working on, where it takes longer than some seconds."""
    done = threading.Event()

    def tell() -> None:
        seconds = _SOON
        wait = seconds
        while not done.wait(wait):
            say(f"working on {what}: {seconds:g} s so far")
            wait, seconds = seconds, 2 * seconds

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def place(batch: Corpus, sentence: int | None = None) -> str:
    """Return what is to be said of one sentence of a batch, or of the longest of all of them."""
    import numpy as np

    lengths = np.diff(batch.offsets)
    longest = int(lengths.argmax()) if sentence is None else sentence
    where = batch.where(int(batch.offsets[longest]))
    at = f" (line {where['line']:,})" if "line" in where else ""
    size = f"{lengths[longest]:,} tokens{at}"
    if len(batch) == 1 or sentence is not None:
        return f"sentence {longest + 1:,} of {len(batch):,}, of {size}"
    return f"{len(batch):,} sentences, the longest of {size}"
