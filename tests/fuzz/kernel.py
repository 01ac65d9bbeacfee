"""The kernel's entry points: arrays of every shape and value, drawn from bytes.

The bytes of an input are read one after the other as choices, sizes and numbers; where they end,
the rest is zeros. So an engine that changes bytes changes calls, and a shorter input is a smaller
call.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fstcrf
from fstcrf import Budget, Lattice, kernel
from fstcrf.constraints import at_most, contiguous
from fstcrf.errors import FstcrfError
from fstcrf.ext.lexicon import kernel as words
from fstcrf.kernel import Graph, SparseRows, acyclic, strings
from tests.fuzz.target import Target

__all__ = ["KERNEL", "Bytes"]

_VALUES = (0.0, -np.inf, 1.0, -1.0, 1e300, -1e300, 5e-324, 1e-300, 700.0, -750.0, np.nan, np.inf)
_INDICES = (0, 1, -1, 2**31 - 1, -(2**31), 7, 255, 65536)


class Bytes:
    """Choices, sizes and numbers out of bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """Return the next bytes, zeros behind the end."""
        found = self._data[self._at : self._at + size]
        self._at += size
        return found.ljust(size, b"\0")

    def number(self, limit: int) -> int:
        """Return a number below a limit of at most 65,536."""
        return int.from_bytes(self.take(1 if limit <= 256 else 2), "little") % limit

    def choose(self, choices: Sequence[Any]) -> Any:
        """Return one of some."""
        return choices[self.number(len(choices))]

    def value(self) -> float:
        """Return a potential: mostly a usual one."""
        kind = self.number(8)
        if kind < 6:
            return (self.number(256) - 128) / 16
        return float(self.choose(_VALUES) if kind == 6 else struct.unpack("<d", self.take(8))[0])

    def values(self, *shape: int) -> NDArray[np.float64]:
        """Return an array of potentials: a few drawn, set among a pattern of the others."""
        size = int(np.prod(shape, dtype=np.int64))
        flat = np.resize(np.frombuffer(self.take(min(size, 16) or 1), np.int8) / 16.0, size)
        for _ in range(self.number(4) if size else 0):
            flat[self.number(min(size, 65536))] = self.value()
        return flat.reshape(shape)

    def indices(self, size: int, limit: int) -> NDArray[np.int32]:
        """Return indices below a limit, now and then one that is not."""
        drawn = np.resize(np.frombuffer(self.take(min(size, 16) or 1), np.uint8), size)
        found = np.asarray(drawn % max(limit, 1), dtype=np.int32)
        if size and self.number(8) == 7:
            found[self.number(size)] = self.choose(_INDICES)
        return found

    def starts(self, parts: int, total: int) -> NDArray[np.int64]:
        """Return where parts of an array begin, now and then not in order."""
        cuts = np.sort([self.number(total + 1) for _ in range(max(parts - 1, 0))])
        found = np.asarray([0, *cuts, total], dtype=np.int64)
        if self.number(8) == 7:
            found[self.number(len(found))] = self.choose([-1, 2**62, total + 1, 0])
        return found

    def rest(self) -> bytes:
        """Return what is left."""
        found = self._data[self._at :]
        self._at = len(self._data)
        return found


def _each(*calls: Callable[[], object]) -> None:
    for call in calls:
        with contextlib.suppress(FstcrfError):
            call()


def graphs(draw: Bytes) -> None:
    states, arcs = 1 + draw.number(9), draw.number(12)
    source = target = None
    if draw.number(2):
        source, target = draw.indices(arcs, states), draw.indices(arcs, states)
    score = draw.values(states * states if source is None else arcs)
    graph = Graph(draw.values(states), draw.values(states), score, source, target)
    sentences = 1 + draw.number(4)
    tokens = draw.number(30)
    offsets, node = draw.starts(sentences, tokens), draw.values(tokens, states)
    domain = draw.choose(["auto", "log", "linear"])
    _each(
        lambda: kernel.forward_backward(graph, offsets, node, domain=domain),
        lambda: kernel.forward_backward(graph, offsets, node, weight=draw.values(sentences)),
        lambda: kernel.log_partition(graph, offsets, node, domain=domain),
        lambda: kernel.viterbi(graph, offsets, node),
        lambda: kernel.maxima(graph, offsets, node),
    )


def lattices(draw: Bytes) -> None:
    def tape(name: str, length: int) -> Any:
        size = 1 + draw.number(7)
        labels = [f"{name}{k}" for k in range(size)]
        pairs = draw.values(size, size) if draw.number(2) else None
        values = draw.values(length, size)
        return Lattice.from_arrays(labels, values, pairs, tape=name)

    length = draw.number(14)
    one: Any = tape("a", length)
    if draw.number(3) == 0:
        one = one @ tape("b", length)
    grammar = draw.number(4)
    if grammar == 1:
        one = one & contiguous(["a0", "a1"], tape="a")
    elif grammar == 2:
        one = one & at_most(1, "a0", tape="a")
    budget = Budget(1 + draw.number(2000))
    _each(
        lambda: one.best(budget=budget),
        lambda: one.nbest(1 + draw.number(20), budget=budget),
        one.log_partition,
        one.marginals,
        one.arc_marginals,
        one.max_marginals,
        one.entropy,
        lambda: one.sample(2, seed=draw.number(256)),
        lambda: fstcrf.best([one, one], threads=2),
    )


def segments(draw: Bytes) -> None:
    length, count, kinds = draw.number(12), draw.number(20), 1 + draw.number(4)
    start = draw.indices(count, length + 1)
    end = start + draw.indices(count, 5)
    pairs = draw.values(kinds, kinds) if draw.number(2) else None
    names = [f"l{k}" for k in range(kinds)]
    label, score = draw.indices(count, kinds), draw.values(count)
    made = Lattice.from_segments(length, start, end, label, score, names, pairs)
    _each(
        made.best,
        lambda: made.nbest(4),
        made.log_partition,
        made.marginals,
        made.max_marginals,
        lambda: made.sample(2),
        made.entropy,
    )


def machines(draw: Bytes) -> None:
    states, arcs = 1 + draw.number(12), draw.number(20)
    row = draw.starts(states, arcs)
    made = acyclic.Acyclic(row, draw.indices(arcs, states), draw.values(arcs), draw.values(states))
    _each(
        made.best_paths,
        lambda: made.nbest(5),
        made.log_partitions,
        made.marginals,
        made.max_marginals,
        made.lengths,
        made.entropies,
        lambda: made.sample(2, [np.random.default_rng(0)]),
    )


def orders(draw: Bytes) -> None:
    states, arcs = 1 + draw.number(12), draw.number(20)
    row, target = draw.starts(states, arcs), draw.indices(arcs, states)
    ends = np.asarray([draw.number(2) for _ in range(states)], dtype=np.bool_)
    _each(
        lambda: acyclic.topological(row, target),
        lambda: acyclic.connected(row, target, draw.number(states), ends),
    )


def rows(draw: Bytes) -> None:
    n, entries, columns, width = (
        draw.number(12),
        draw.number(30),
        1 + draw.number(20),
        draw.number(9),
    )
    value = draw.values(entries).astype(np.float32) if draw.number(2) else None
    made = SparseRows(draw.starts(n, entries), draw.indices(entries, columns), value, columns)
    _each(
        lambda: made.times(draw.values(columns, width)),
        lambda: made.times(draw.values(columns + draw.number(2), width)),
    )


def texts(draw: Bytes) -> None:
    columns = 1 + draw.number(3)
    separator, mark = draw.choose([b"", b"\t", b" ", b"||"]), draw.choose([b"", b"#", b"-D-"])
    known = [strings.Strings() for _ in range(columns)]
    _each(lambda: strings.read_lines(draw.rest(), known, separator=separator, mark=mark))


def tries(draw: Bytes) -> None:
    keys = sorted({draw.take(1 + draw.number(5)) for _ in range(draw.number(12))})
    if draw.number(8) == 7:
        keys = keys[::-1]
    text = np.frombuffer(b"".join(keys), np.uint8)
    offsets = np.cumsum([0, *map(len, keys)]).astype(np.int64)
    units = words.build_trie(offsets, text, np.arange(len(keys), dtype=np.int32))
    if draw.number(2) and len(units):  # as a foreign file may have it
        units = units.copy()
        units.view(np.uint32)[draw.number(len(units.view(np.uint32)))] = struct.unpack(
            "<I", draw.take(4)
        )[0]
    words.find_prefixes(units, draw.rest())


def emissions(draw: Bytes) -> None:
    batch, length, labels = draw.number(5), draw.number(12), 1 + draw.number(7)
    scores = draw.values(batch, length, labels)
    if draw.number(2):
        scores = scores.astype(np.float32)
    lengths = draw.indices(batch, length + 1) if draw.number(2) else None
    names = ["O", "B-X", "I-X", "B-Y", "I-Y", "S", "T"][:labels]
    grammar = fstcrf.constraints.bio() if draw.number(2) else None
    _each(
        lambda: fstcrf.decode(
            scores,
            lengths,
            labels=names,
            transitions=draw.values(labels, labels) if draw.number(2) else None,
            grammar=grammar,
            n=1 + draw.number(3),
            threads=1 + draw.number(2),
        )
    )
    steps = draw.values(labels, labels)
    made = fstcrf.Lattices.from_arrays(names, scores, steps, lengths=lengths)
    _each(made.marginals, made.log_partition)


CALLS = (graphs, lattices, segments, machines, orders, rows, texts, tries, emissions)


def call(name_of: Callable[[Bytes], None]) -> Target:
    def read(data: bytes) -> Bytes:
        return Bytes(data)

    def seeds() -> list[bytes]:
        rng = np.random.default_rng(0)
        return [b"", bytes(range(64)), *(rng.bytes(size) for size in (16, 64, 200))]

    return Target(f"kernel-{name_of.__name__}", seeds, read, name_of, refuses=FstcrfError)


KERNEL = tuple(map(call, CALLS))
