"""What is kept for the next call is bounded by bytes, not by numbers of values alone."""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from fstcrf import Lattice, Transducer
from fstcrf.arrays import Ragged
from fstcrf.lazy import MOST_BYTES, bytes_of, made_once, memoised


def test_bytes_of_arrays_in_whatever_holds_them() -> None:
    array = np.zeros(1000)
    assert bytes_of(array) == 8000
    assert bytes_of([array, array[3:], {"a": array}]) == 8000 + 3 * 32
    assert bytes_of(partial(len, array)) >= 8000
    assert bytes_of(Ragged(np.zeros(1000, np.int64))) >= 8000
    assert bytes_of("text") == bytes_of(None) == 0
    loop: list[Any] = [array]
    loop.append(loop)
    assert bytes_of(loop) == 8000 + 64


def test_few_large_values_are_kept_and_many_small_ones() -> None:
    made: list[tuple[int, int]] = []

    @memoised(64)
    def zeros(size: int, number: int) -> Any:
        made.append((size, number))
        return np.zeros(size)

    for size, kept in ((10, 64), (MOST_BYTES // 80, 9), (MOST_BYTES, 4)):
        for turn in range(2):
            made.clear()
            for number in range(99):
                zeros(size, number)
            assert len(made) == 99, turn
        made.clear()
        for number in range(99 - kept, 99):
            zeros(size, number)
        assert not made


class Grows:
    """Holds little when it is made, and much when it is asked."""

    __module__ = "fstcrf.here"

    @made_once
    def much(self) -> Any:
        return np.zeros(MOST_BYTES)


def test_what_grows_when_it_is_asked_is_counted() -> None:
    alive: list[int] = []

    @memoised(64)
    def made(number: int) -> Grows:
        return Grows()

    tracemalloc.start()
    try:
        for number in range(20):
            assert len(made(number).much) == MOST_BYTES
            alive.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert alive[-1] < 6 * 8 * MOST_BYTES


@pytest.mark.thorough
def test_transducers_that_were_dropped() -> None:
    """Each is composed once; it would hold a megabyte and more in each of several caches."""
    labels, rng = [f"s{i}" for i in range(200)], np.random.default_rng(0)
    lattice = Lattice.from_arrays(labels, np.zeros((5, 200)))

    def ask() -> None:
        source, target = rng.integers(0, 1000, (2, 2000))
        label = rng.integers(0, 200, 2000)
        machine = Transducer.from_arrays(
            source, label, label, target, None, np.zeros(1000),
            input_symbols=labels, output_symbols=labels, tape=None,
        )  # fmt: skip
        (lattice @ machine).log_partition()

    for _ in range(80):
        ask()
    gc.collect()
    keepers = [f for f in gc.get_objects() if isinstance(f, FunctionType) and _keeps(f)]
    assert keepers
    for keeper in keepers:
        values = [cell.cell_contents for cell in keeper.__closure__ or ()]
        cells = dict(zip(keeper.__code__.co_freevars, values, strict=True))
        assert len(cells["kept"]) <= 4 or sum(cells["held"].values()) <= cells["most"]
        assert cells["held"].keys() == cells["kept"].keys()


def _keeps(function: FunctionType) -> bool:
    return function.__module__ == "fstcrf.lazy" and function.__name__ == "keep"
