"""What training takes of memory: counted before it starts, and given back between its stages.

Memory of long vectors. With millions of weights, vectors are what training takes. No more of them
exist than a line search needs; weights as the data sees them, and counts, are float32, where they
are that exactly anyway; pairs of L-BFGS are float32, from 2²⁰ weights on 16 bits with 11 digits,
rounded before anything is made of them (iterations of a chunker: 177 with float32, 180 with 16
bits, under l1 496 and 503; with the 8 digits of bfloat16 550). What C's allocator keeps between
stages is given back.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

LONG = 1 << 20
"""Weights from which on L-BFGS remembers 16 bits a number."""

_LOADED = 8_000_000  # bytes of modules and small arrays
_LABEL_PAIR = 40  # bytes of an arc: its ends, its slot, its score, and those of the kernel's copy
_MEMORY, _GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ExpectedMemory:
    """What a run is expected to take of memory.

    Parameters
    ----------
    peak : int
        Most resident memory of the process, bytes: what it has now, and what training adds.
    added : int
        What training adds, bytes.
    free : int or None
        What the system has left for this process, bytes; None where it does not tell.
    weights : int
        Number of weights.
    """

    peak: int
    added: int
    free: int | None
    weights: int

    @property
    def fits(self) -> bool:
        """Whether there is so much, as far as it is known."""
        return self.free is None or self.added <= self.free

    def __str__(self) -> str:
        left = "" if self.free is None else f"; {_size(max(0, self.free - self.added))} stay free"
        if not self.fits:
            left = f", {_size(self.added)} more than now; {_size(self.free or 0)} are free"
        return f"{self.weights:,} weights: training takes about {_size(self.peak)} of memory{left}"


@dataclass(frozen=True, slots=True)
class SweepCounts:
    """What the memory of a batch training depends on.

    Parameters
    ----------
    weights, attributes, tokens : int
    width : int
        Padded number of slots.
    fused : bool
        The fused kernel takes the problem: all labels known, a dense graph.
    row_entries, single_entries : int
        How often attributes with many weights occur; occurrences of others times their weights.
    shard_rows, shard_singles : int
        Attributes with many weights, and weights of others, summed over the shards that have them.
    valued : bool
        Attributes have values.
    scratch : int
        Bytes of states and arcs that a sweep takes, for each thread.
    table : int
        Bytes of the rows that weights are laid out in, where the kernel is not fused.
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

    def objective(self, shards: int, threads: int = 1) -> int:
        """Return the bytes of an objective at rest, with what it needs while it is evaluated.

        Shards that are swept have weights and gradients of their own. With threads there are three
        for each: two are in flight, and what one took stays in its allocator's arena.
        """
        value = 4 * self.valued
        # The gradient, the weights as the data sees them, the counts on gold paths.
        vectors = (8 + 4 + 4) * self.weights
        if not self.fused:
            # Of each block the design, the same by attribute, and the numbers of its attributes.
            blocks = 2 * (4 + value) * self.row_entries + 24 * self.shard_rows + 8 * self.tokens
            laid_out = 20 * self.weights + 12 * self.attributes + self.table
            return vectors + blocks + laid_out + threads * self.scratch
        entries = (4 + value) * self.row_entries + (6 + value) * self.single_entries
        numbers = 16 * self.tokens + 4 * (self.shard_rows + self.shard_singles)
        numbers += 12 * (self.row_entries + self.single_entries) // 64  # when sums are flushed
        layout = 2 * self.weights + 8 * self.attributes
        swept = min(shards, 3 * threads) if threads > 1 else 1
        numbers_of_shard = (self.shard_rows * self.width + self.shard_singles) // max(1, shards)
        scratch = 2 * 4 * swept * numbers_of_shard
        return vectors + entries + numbers + layout + scratch + threads * self.scratch

    def online(self, tables: int) -> int:
        """Return the bytes of a learner with tables of all slots of each attribute, float64.

        Beside them a byte for each cell, whether it has a weight, and some vectors of weights.
        """
        cells = self.attributes * self.width
        return (8 * tables + 1) * cells + 4 * 8 * self.weights

    def stochastic(self) -> int:
        """Return the bytes of a stochastic epoch; making its layout takes most."""
        table = 8 * min(self.attributes * self.width, 4 * self.weights)
        entries = 17 * self.row_entries + 24 * self.single_entries
        return entries + table + 18 * self.weights


def quasi_newton(weights: int, memory: int, *, vectors: int, more: int = 0) -> int:
    """Return the bytes of an optimiser with a line search.

    Parameters
    ----------
    weights : int
    memory : int
        Pairs that are remembered.
    vectors : int
        Of float64 that exist during a line search, but for the gradient being made.
    more : int
        Further bytes a weight.
    """
    pairs = 2 * memory * (2 if weights > LONG else 4)
    return weights * (pairs + 8 * vectors + more) + 24 * weights // 16


def expected(added: int | None, weights: int) -> ExpectedMemory | None:
    """Return what is expected of a run that adds so many bytes; None where it is not known."""
    now = _resident()
    if added is None or now is None:
        return None
    added += _LOADED
    return ExpectedMemory(max(now + added, _highest(now)), added, free_memory(), weights)


def label_bytes(labels: int, tokens: int) -> int:
    """Return the bytes that a graph of all label pairs, and the labels of tokens, take at least."""
    return _LABEL_PAIR * labels * labels + labels * tokens


def free_memory() -> int | None:
    """Return the bytes that this process may still take; None where the system does not tell."""
    if not _MEMORY.exists():
        return None
    lines = dict(line.split(":") for line in _MEMORY.read_text("ascii").splitlines())
    free = 1024 * int(lines["MemAvailable"].split()[0]) if "MemAvailable" in lines else None
    limit, used = _GROUP / "memory.max", _GROUP / "memory.current"
    if limit.exists() and used.exists() and (most := limit.read_text("ascii").strip()) != "max":
        left = max(0, int(most) - int(used.read_text("ascii")))
        free = left if free is None else min(free, left)
    return free


def release() -> None:
    """Give memory that was freed back to the system: glibc keeps arrays of up to 32 MB.

    For between stages whose arrays differ in size; it takes about a millisecond. Nothing happens
    with other C libraries.
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
    """Return the most that this process had so far."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return now


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
