"""Sentences whose scores would take too much memory, in blocks.

One backward pass keeps a row for each block; the forward pass recomputes the rows of one block at a
time. This costs a third more work; memory grows with the square root of the length; the bits are
the same. Python checks for Ctrl-C between blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.arrays import Floats, Ints, Ragged
from fstcrf.errors import NumericError
from fstcrf.kernel.machines import Bound, allocated
from fstcrf.kernel.native import CALL_STEPS, array_in, array_out, check, ffi, lib

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData


LONG_BYTES = 128_000_000
"""Bytes of scratch from which on a sentence is processed in blocks."""

LONG_STEPS = 2_000_000_000
"""The same limit in multiply-adds: a second or two."""

_SHORTEST = 64


@dataclass(frozen=True, eq=False, slots=True)
class Suffixes:
    """The rows of the backward recursion of a sentence that are kept."""

    kind: int  # ``lib.FC_BEST``, ``lib.FC_SUM`` or ``lib.FC_LOGS``
    row: Floats  # [blocks, cells] suffix of the first token of each block
    total: float  # log Z, or the best score


def portions(batch: Bound) -> Iterator[tuple[slice, slice, Bound | LongSentence]]:
    """Yield portions of a batch, with sentences and tokens: short runs, or a long sentence."""
    bounds = batch.bounds
    for first, end in runs(batch):
        tokens = slice(int(bounds[first]), int(bounds[end]))
        long = end == first + 1 and is_long(batch, tokens.stop - tokens.start)
        portion = LongSentence(batch, first) if long else batch.part(first, end)
        yield slice(first, end), tokens, portion


def runs(batch: Bound, times: int = 1) -> Iterator[tuple[int, int]]:
    """Yield bounds of runs of sentences that keep a call of the kernel short.

    `times` is the cost relative to a best path. A sentence that is processed in blocks is a
    separate run.
    """
    cost = batch.machine.steps * times
    if batch.n_tokens * cost <= CALL_STEPS and not is_long(batch, batch.longest):
        yield 0, batch.n_sentences
        return
    most, first, tokens = max(1, CALL_STEPS // cost), 0, 0
    for k, length in enumerate(Ragged(batch.bounds).lengths.tolist()):
        if k > first and (tokens + length > most or is_long(batch, length)):
            yield first, k
            first, tokens = k, 0
        tokens += length
        if is_long(batch, length):
            yield first, k + 1
            first, tokens = k + 1, 0
    if first < batch.n_sentences:
        yield first, batch.n_sentences


def is_long(batch: Bound, tokens: int) -> bool:
    """Return whether a sentence of `tokens` tokens is processed in blocks."""
    size = 8 * int(lib.fc_machine_work(batch.view, 0, tokens))
    return size > LONG_BYTES or tokens * batch.machine.steps > LONG_STEPS


class LongSentence:
    """One sentence of a batch, in blocks of `size` tokens: √(T / 2), at least 64, if absent."""

    def __init__(self, batch: Bound, sentence: int, size: int | None = None) -> None:
        self.batch = batch
        self.first, self._end = batch.bounds[sentence : sentence + 2].tolist()
        self.n_tokens = self._end - self.first
        self.size = size or max(_SHORTEST, math.isqrt(self.n_tokens // 2))
        self.starts = range(0, self.n_tokens, self.size)
        machine = batch.machine
        self.cells = machine.n_residual * machine.outer * (-(-machine.width // 8) * 8)
        self._before = np.empty(self.cells)
        size = int(lib.fc_machine_work(batch.view, 0, self.size + 1))
        work = allocated(size, f"a block of {self._what}", self.n_tokens)
        self.work = ffi.from_buffer("double[]", work)

    @property
    def _what(self) -> str:
        return f"a sentence of {self.n_tokens:,} tokens, {self.cells:,} states at each"

    # --- Questions ----------------------------------------------------------------------------

    def best(self) -> tuple[Ints, float]:
        """Return the best path, int32 [T], and its score; −1 and −inf without a path."""
        path = np.full(self.n_tokens, -1, dtype=np.int32)
        suffixes = self.suffixes(lib.FC_BEST)
        if suffixes is None or suffixes.total == -np.inf:
            return path, -np.inf
        states, residual = array_out(path), ffi.new("int32_t *")
        for block in self.blocks(suffixes):
            status = lib.fc_block_paths(
                *(self.batch.view, block, 1, self.n_tokens, ffi.NULL),
                *(states + block.t, residual, self.work),
            )
            check(status, "best")
        return path, suffixes.total

    def sums(self, domains: tuple[int, ...] | None = None) -> Suffixes:
        """Return the sums of a sentence, in the first domain that can represent them."""
        for kind in domains or (lib.FC_SUM, lib.FC_LOGS):
            suffixes = self.suffixes(kind)
            if suffixes is not None:
                return suffixes
        raise NumericError("the linear domain cannot hold a sentence")

    def marginals(
        self,
        node: tuple[Floats, ...],
        arc: tuple[Floats | None, ...] | None = None,
        *,
        entropy: bool = False,
        domains: tuple[int, ...] | None = None,
    ) -> tuple[float, float]:
        """Write posteriors into `node`, [T, S_c] each, and into `arc`, [T, arcs], unless `None`.

        For an `arc` of shape [arcs], the sum over all tokens is added to it.

        Return log Z and the entropy (0 if it is not requested).
        """
        kinds = domains or (lib.FC_SUM, lib.FC_LOGS)
        for k, kind in enumerate(kinds):
            suffixes = self.suffixes(kind)
            if suffixes is None:
                continue
            nats = self._posteriors(suffixes, node, arc, entropy=entropy)
            if nats is not None:
                return suffixes.total, nats
            if k + 1 == len(kinds):
                break
        raise NumericError("the linear domain cannot hold a sentence")

    def max_marginals(self, node: tuple[Floats, ...]) -> None:
        """Write the score of the best path through each state, float64 [T, S_c] for each axis."""
        suffixes = self.suffixes(lib.FC_BEST)
        if suffixes is None or suffixes.total == -np.inf:
            for rows in node:
                rows[:] = -np.inf
            return
        self._posteriors(suffixes, node, None, entropy=False)

    def sample(self, uniform: Floats) -> Ints:
        """Return samples for uniform numbers [n, T], int32 [n, T]; −1 without a path."""
        path = np.full(uniform.shape, -1, dtype=np.int32)
        suffixes = self.sums()
        if suffixes.total == -np.inf or not len(uniform):
            return path
        states, numbers = array_out(path), array_in(uniform, np.float64, uniform.shape, "uniform")
        residual = array_out(np.zeros(len(uniform), dtype=np.int32))
        for block in self.blocks(suffixes):
            status = lib.fc_block_paths(
                *(self.batch.view, block, len(uniform), self.n_tokens, numbers + block.t),
                *(states + block.t, residual, self.work),
            )
            check(status, "sample")
        return path

    # --- Blocks -------------------------------------------------------------------------------

    def suffixes(self, kind: int) -> Suffixes | None:
        """Run the backward recursion; return `None` if the domain cannot represent the sentence."""
        row = allocated(len(self.starts) * self.cells, self._what, self.n_tokens)
        row = row.reshape(-1, self.cells)
        total = ffi.new("double[2]")
        for k in range(len(self.starts) - 1, -1, -1):
            after = row[k + 1] if k + 1 < len(self.starts) else None
            block = self._block(k, kind, after)
            out = array_out(row[k])
            status = lib.fc_block_suffix(self.batch.view, block, out, total, self.work)
            if status == lib.FC_ERANGE:
                return None
            check(status, "suffixes")
            if total[0] == -np.inf:
                break
        return Suffixes(kind, row, float(total[0]))

    def blocks(self, suffixes: Suffixes) -> Iterator[CData]:
        """Yield the blocks in order, as C reads them."""
        for k in range(len(self.starts)):
            after = suffixes.row[k + 1] if k + 1 < len(self.starts) else None
            yield self._block(k, suffixes.kind, after)

    def _block(self, k: int, kind: int, after: Floats | None) -> CData:
        start = self.starts[k]
        kept = None if after is None else array_out(after)
        before = array_out(self._before)
        block = ffi.new(
            "fc_block *",
            {
                "first": self.first + start,
                "n": min(self.size, self.n_tokens - start),
                "t": start,
                "kind": kind,
                "after": ffi.NULL if kept is None else kept,
                "before": before,
            },
        )
        self._held = (kept, before)  # kept alive for the current block
        return block

    def _posteriors(
        self,
        suffixes: Suffixes,
        node: tuple[Floats, ...],
        arc: tuple[Floats | None, ...] | None,
        *,
        entropy: bool,
    ) -> float | None:
        """Run the forward pass; return the entropy, or `None` if the domain fails."""
        arcs = arc or (None,) * len(node)
        tables = [a for a in arcs if a is not None and a.ndim == 2]
        for rows in tables:
            rows[0] = 0.0
        if suffixes.total == -np.inf:
            for rows in (*node, *tables):
                rows[:] = 0.0
            return 0.0
        nats, sums = ffi.new("double *"), [a for a in arcs if a is not None and a.ndim == 1]
        rooms = [np.empty((self.size + 1, len(a))) for a in sums]
        totals = [np.zeros_like(a) for a in sums]
        for block in self.blocks(suffixes):
            room = iter(rooms)
            status = lib.fc_block_marginals(
                self.batch.view,
                block,
                [array_out(a) + block.t * a.shape[1] for a in node],
                [
                    ffi.NULL
                    if a is None
                    else array_out(next(room))
                    if a.ndim == 1
                    else array_out(a) + block.t * a.shape[1]
                    for a in arcs
                ],
                nats if entropy else ffi.NULL,
                self.work,
            )
            if status == lib.FC_ERANGE:
                return None
            check(status, "marginals")
            end = min(block.n + 1, self.n_tokens - block.t)
            totals = [a + part[1:end].sum(axis=0) for a, part in zip(totals, rooms, strict=True)]
        for a, total in zip(sums, totals, strict=True):
            np.add(a, total, out=a)
        return float(nats[0])
