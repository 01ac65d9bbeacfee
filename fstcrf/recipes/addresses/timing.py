"""How long addresses take: usaddress and parsers in turns, so that noise hits all of them.

==========  ==========================================
Timing      medians of processor time
timed       measure usaddress and parsers
seconds_of  measure some work
==========  ==========================================
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fstcrf.recipes.addresses.parser import AddressParser
from fstcrf.recipes.addresses.peer import Peer

__all__ = ["Timing", "seconds_of", "timed"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of the processor for all addresses, one thread; medians.

    Parameters
    ----------
    tag : float
        ``usaddress.tag``, one address after the other.
    first, again, single : list of float
        Each parser: all at once, when it has not seen any token before; all at once, again; one
        after the other, again.
    """

    tag: float
    first: list[float]
    again: list[float]
    single: list[float]

    def of(self, place: int) -> dict[str, float]:
        """Return the seconds of one parser."""
        return {
            "first time": self.first[place],
            "again": self.again[place],
            "one by one": self.single[place],
        }


def timed(
    peer: Peer, parsers: Sequence[AddressParser], addresses: Sequence[str], rounds: int
) -> Timing:
    """Measure usaddress and parsers in turns."""
    tag: list[float] = []
    first: list[list[float]] = [[] for _ in parsers]
    again: list[list[float]] = [[] for _ in parsers]
    single: list[list[float]] = [[] for _ in parsers]
    for _ in range(rounds):
        tag.append(seconds_of(lambda: peer.tag_all(addresses)))
        for k, parser in enumerate(parsers):
            parser.potentials.forget()
            first[k].append(seconds_of(lambda p=parser: p.parse_all(addresses)))  # type: ignore[misc]
            again[k].append(seconds_of(lambda p=parser: p.parse_all(addresses)))  # type: ignore[misc]
            single[k].append(seconds_of(lambda p=parser: list(map(p.parse, addresses))))  # type: ignore[misc]
    middle = statistics.median
    return Timing(middle(tag), *(list(map(middle, of)) for of in (first, again, single)))


def seconds_of(work: Callable[[], object]) -> float:
    """Return the processor seconds of some work.

    Python's search for circular garbage rests meanwhile, as in timeit.
    """
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        work()
        return time.process_time() - started
    finally:
        gc.enable()
