"""Lattices from arrays of scores: checks, and one program for equal transitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fstcrf.arguments import LabelSet, label_tuple, real_array
from fstcrf.errors import NumericError, ShapeError
from fstcrf.once import memoised
from fstcrf.plans import Chain, Program
from fstcrf.topology import Topology, chain_topology

__all__ = ["array_lattice", "potentials"]

Floats = NDArray[np.float64]


def array_lattice(
    labels: LabelSet,
    emissions: ArrayLike,
    transitions: ArrayLike | None,
    initial: ArrayLike | None,
    final: ArrayLike | None,
    tape: str,
) -> tuple[Program, tuple[Floats, ...]]:
    """Return the program and the values of `Lattice.from_arrays`."""
    names = label_tuple(labels)
    size = len(names)
    node = potentials(emissions, "emissions", [(None, size)])
    ends = [
        np.zeros(size) if e is None else potentials(e, name, [(size,)])
        for name, e in (("initial", initial), ("final", final))
    ]
    if transitions is None:
        return _program(names, tape, np.zeros(size**2).tobytes(), *_bytes(ends)), (node,)
    shapes: list[tuple[int | None, ...]] = [(size, size), (max(len(node) - 1, 0), size, size)]
    arcs = potentials(transitions, "transitions", shapes)
    if arcs.ndim == 2:
        return _program(names, tape, arcs.tobytes(), *_bytes(ends)), (node,)
    moving = np.zeros((len(node), size * size))  # row t: the arcs into token t
    moving[1:] = arcs.reshape(len(arcs), size * size)
    return _program(names, tape, None, *_bytes(ends)), (node, moving)


def _bytes(arrays: Sequence[Floats]) -> list[bytes]:
    return [a.tobytes() for a in arrays]


@memoised(64)
def _program(
    labels: tuple[str, ...], tape: str, arc: bytes | None, initial: bytes, final: bytes
) -> Program:
    """Return the program of these potentials; the same one for the same numbers."""
    chain = Chain(
        name=tape,
        topology=free_topology(labels),
        initial=np.frombuffer(initial),
        final=np.frombuffer(final),
        arc=None if arc is None else np.frombuffer(arc),
    )
    return Program([chain])


@lru_cache(maxsize=32)
def free_topology(labels: tuple[str, ...]) -> Topology:
    """Return the topology in which every label may follow every other."""
    return chain_topology(labels, 1)


def potentials(values: ArrayLike, name: str, shapes: list[tuple[int | None, ...]]) -> Floats:
    """Return a copy of an array of potentials, checked.

    Raises
    ------
    ShapeError
        Another shape, or no array of real numbers.
    NumericError
        NaN or +inf; −inf is a legal "never".
    """
    array = real_array(values, name)  # a copy: a lattice does not change behind its answers
    fits = any(
        len(shape) == array.ndim
        and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
        for shape in shapes
    )
    if not fits:
        wanted = " or ".join(
            f"[{', '.join('T' if n is None else str(n) for n in shape)}]" for shape in shapes
        )
        raise ShapeError(f"{name} is {list(array.shape)}, expected {wanted}")
    if not (array < np.inf).all():
        place = np.argwhere(~(array < np.inf))[0].tolist()
        raise NumericError(f"{name} has NaN or +inf at {place}; -inf is the way to forbid")
    return array
