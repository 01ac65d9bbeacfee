"""What does not belong into the files of models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

ODD: list[Any] = [None, -1, 0, 1, 3, 2**31, 2**40, 2**63, 1.5, "", "x", [], ["x"], [[]], {}, True]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every field of a JSON value, by the way to it."""
    pairs = enumerate(value) if isinstance(value, list) else ()
    inner: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else pairs
    return [path, *(p for key, item in inner for p in places(item, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


def odd_arrays(array: NDArray[Any]) -> list[NDArray[Any]]:
    """What might stand in an array's place."""
    found = [
        array[:0],
        array[:-1],
        np.concatenate([array, array[:1]]),
        array[::-1],
        array.reshape(-1, 1),
        array.astype(np.float32),
        array.astype(np.uint16),
        np.zeros_like(array),
        np.zeros(3),
    ]
    if array.size:
        extremes: list[Any] = [0, 1, 255]
        if array.dtype.kind == "f":
            extremes = [np.nan, np.inf, -np.inf, 1e308]
        else:
            extremes += [np.iinfo(array.dtype).min, np.iinfo(array.dtype).max]
        for extreme in extremes:
            for place in {0, array.size // 2, array.size - 1}:
                copy = array.copy()
                copy.flat[place] = extreme
                found.append(copy)
    return found
