"""A text cut into parts, each of which is summed by itself; their sums are added by a binary tree.

How many there are is a function of the tokens alone, and where they end one of the sentences, so
that a sum has the same bits whatever computes it: threads, processes, machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Longs
from fstcrf.ragged import Ragged
from fstcrf.training.executors.executor import folded
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.support import observed_counts

PART_TOKENS = 1 << 20
"""Most tokens of a part, but for its last sentence."""

START_TOKENS = 1 << 19
"""Tokens of the share of a text that stochastic epochs begin with, about."""


def part_count(tokens: int) -> int:
    """Return how many parts a text has: a power of two."""
    return 1 << max(0, (tokens - 1) // PART_TOKENS).bit_length()


def part_bounds(offsets: Longs) -> list[int]:
    """Cut sentences into runs of about equally many tokens; a very long one makes fewer of them."""
    return Ragged(offsets).cut(part_count(int(offsets[-1])))


def parts_of(problem: Problem) -> list[Problem]:
    """Return the parts of a problem: itself, where there is one."""
    bounds = part_bounds(problem.offsets)
    if len(bounds) == 2:
        return [problem]
    return [problem.part(first, end)[1] for first, end in pairwise(bounds)]


def added(one: Floats, other: Floats) -> Floats:
    """Add an array to another, in place where that can be written to."""
    return np.add(one, other, out=one if one.flags.writeable else None)


def observed_sum(parts: Sequence[Problem], space: ParameterSpace) -> Floats:
    """Return the feature counts of the gold paths, those of parts added by the tree."""
    return folded(lambda k: observed_counts(parts[k], space), added, 0, len(parts))


def start_step(tokens: int) -> int:
    """Return k: stochastic epochs that come first take every k-th sentence."""
    return max(1, -(-tokens // START_TOKENS))


def start_sentences(first: int, end: int, step: int) -> Iterator[int]:
    """Return those of the sentences first .. end that such epochs take."""
    return iter(range(-(-first // step) * step, end, step))


def digest(problem: Problem) -> bytes:
    """Return a hash of the data of a part."""
    arrays: list[NDArray[np.generic]] = [problem.offsets, problem.weight]
    arrays.append(np.packbits(problem.allowed))
    for rows in (problem.node, problem.arc):
        if rows is not None:
            arrays += [rows.indptr, rows.index]
            arrays += [] if rows.value is None else [rows.value]
    state = hashlib.sha256()
    for array in arrays:
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).data if array.size else b"")
    return state.digest()
