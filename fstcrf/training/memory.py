"""Memory of training: estimated before it starts, and released between its stages.

Memory of long vectors. With millions of weights, vectors dominate the memory of training. There are
only as many vectors as a line search needs. Rounded weights and exact counts are float32. Pairs of
L-BFGS are float32; from 2²⁰ weights on they have 16 bits with 11 digits, rounded before any use
(iterations of a chunker: 177 with float32, 180 with 16 bits, under l1 496 and 503; with the 8
digits of bfloat16 550). Memory that C's allocator keeps between stages is released.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

LONG = 1 << 20
"""Number of weights from which on L-BFGS stores 16 bits a number."""

_LOADED = 8_000_000  # bytes of modules and small arrays
_LABEL_PAIR = 40  # bytes of an arc: its ends, its slot, its score, and the kernel's copy
_MEMORY, _GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ExpectedMemory:
    """Estimated memory of a run.

    Parameters
    ----------
    peak : int
        Peak resident memory of the process, bytes: present memory plus training.
    added : int
        Memory that training adds, bytes.
    free : int or None
        Memory available to this process, bytes; `None` if the system does not report it.
    weights : int
        Number of weights.
    """

    peak: int
    added: int
    free: int | None
    weights: int

    @property
    def fits(self) -> bool:
        """Whether it fits into the available memory, if this is known."""
        return self.free is None or self.added <= self.free

    def __str__(self) -> str:
        left = "" if self.free is None else f"; {_size(max(0, self.free - self.added))} stay free"
        if not self.fits:
            left = f", {_size(self.added)} more than now; {_size(self.free or 0)} are free"
        return f"{self.weights:,} weights: training takes about {_size(self.peak)} of memory{left}"


@dataclass(frozen=True, slots=True)
class SweepCounts:
    """Sizes that determine the memory of a batch training.

    Parameters
    ----------
    weights, attributes, tokens : int
    width : int
        Padded number of slots.
    fused : bool
        Whether the fused kernel sums sentences whose labels are all known.
    row_entries, single_entries : int
        Occurrences of attributes with many weights; occurrences of others times their weights.
    shard_rows, shard_singles : int
        Attributes with many weights, and weights of other attributes, summed over their shards.
    valued : bool
        Whether attributes have values.
    scratch : int
        Bytes of states and arcs of a sweep, for each thread.
    table : int
        Bytes of the rows of weights, if the kernel is not fused.
    partial : SweepCounts, optional
        Sizes of the sentences that the fused kernel does not sum, and of the weights that they use.
    """

    weights: int
    attributes: int
    tokens: int
    width: int
    fused: bool
    row_entries: int
    single_entries: int
    shard_rows: int
    shard_singles: int
    valued: bool
    scratch: int = 0
    table: int = 0
    partial: SweepCounts | None = None

    def objective(self, shards: int, threads: int = 1) -> int:
        """Return the bytes of an objective, including its evaluation.

        Each shard in a sweep has separate weights and gradients. With threads there are three for
        each: two are active, and memory of one remains in its allocator's arena.
        """
        # The gradient, the rounded weights, the counts on gold paths.
        vectors = (8 + 4 + 4) * self.weights
        if not self.fused:
            return vectors + self.general(threads)
        swept = self._swept(shards, threads)
        if self.partial is None:
            return vectors + swept
        # A gradient, weights, and their places.
        partial = (8 + 8 + 8) * self.partial.weights + self.partial.general(threads)
        return vectors + swept + partial

    def general(self, threads: int) -> int:
        """Return the bytes of the general method without vectors of all weights."""
        value = 4 * self.valued
        # For each block the design, the design by attribute, and the numbers of its attributes.
        blocks = 2 * (4 + value) * self.row_entries + 24 * self.shard_rows + 8 * self.tokens
        laid_out = 20 * self.weights + 12 * self.attributes + self.table
        return blocks + laid_out + threads * self.scratch

    def _swept(self, shards: int, threads: int) -> int:
        value = 4 * self.valued
        entries = (4 + value) * self.row_entries + (6 + value) * self.single_entries
        numbers = 16 * self.tokens + 4 * (self.shard_rows + self.shard_singles)
        numbers += 12 * (self.row_entries + self.single_entries) // 64  # schedule of flushes
        layout = 2 * self.weights + 8 * self.attributes
        swept = min(shards, 3 * threads) if threads > 1 else 1
        numbers_of_shard = (self.shard_rows * self.width + self.shard_singles) // max(1, shards)
        scratch = 2 * 4 * swept * numbers_of_shard
        return entries + numbers + layout + scratch + threads * self.scratch

    def online(self, tables: int) -> int:
        """Return the bytes of a learner with tables of all slots of each attribute, float64.

        In addition it has a byte for each cell, for the mask of weights, and some vectors of
        weights.
        """
        cells = self.attributes * self.width
        return (8 * tables + 1) * cells + 4 * 8 * self.weights

    def stochastic(self) -> int:
        """Return the bytes of a stochastic epoch; building its layout takes most."""
        table = 8 * min(self.attributes * self.width, 4 * self.weights)
        entries = 17 * self.row_entries + 24 * self.single_entries
        return entries + table + 18 * self.weights


def quasi_newton(weights: int, memory: int, *, vectors: int, more: int = 0) -> int:
    """Return the bytes of an optimiser with a line search.

    Parameters
    ----------
    weights : int
    memory : int
        Number of stored pairs.
    vectors : int
        Number of float64 vectors during a line search, except the gradient in progress.
    more : int
        Further bytes a weight.
    """
    pairs = 2 * memory * (2 if weights > LONG else 4)
    return weights * (pairs + 8 * vectors + more) + 24 * weights // 16


def expected(added: int | None, weights: int) -> ExpectedMemory | None:
    """Return the estimate for a run that adds `added` bytes; `None` if it is not known."""
    now = _resident()
    if added is None or now is None:
        return None
    added += _LOADED
    return ExpectedMemory(max(now + added, _highest(now)), added, free_memory(), weights)


def label_bytes(labels: int, tokens: int) -> int:
    """Return a lower bound for the bytes of a graph of all label pairs and the tokens' labels."""
    return _LABEL_PAIR * labels * labels + labels * tokens


def free_memory() -> int | None:
    """Return the bytes available to this process; `None` if the system does not report them."""
    if not _MEMORY.exists():
        return None
    lines = dict(line.split(":") for line in _MEMORY.read_text("ascii").splitlines())
    available = 1024 * int(lines["MemAvailable"].split()[0]) if "MemAvailable" in lines else None
    limit, used = _GROUP / "memory.max", _GROUP / "memory.current"
    if limit.exists() and used.exists() and (most := limit.read_text("ascii").strip()) != "max":
        left = max(0, int(most) - int(used.read_text("ascii")))
        available = left if available is None else min(available, left)
    return available


def release() -> None:
    """Return freed memory to the system: glibc keeps arrays of up to 32 MB.

    Call it between stages whose arrays differ in size; it takes about a millisecond. With other C
    libraries it has no effect.
    """
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _resident() -> int | None:
    status = Path("/proc/self/statm")
    if not status.exists():
        return None
    return int(status.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _highest(now: int) -> int:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return now


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
