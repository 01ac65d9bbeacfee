"""Grids of parameters: a few of all combinations, and all of them in `make test-long`."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import pytest


def grid(*axes: Sequence[Any], few: Collection[tuple[Any, ...]]) -> list[Any]:
    """Return all combinations as parameters of a test; all but a few are slow."""
    every = list(itertools.product(*axes))
    assert set(few) <= set(every)
    return [pytest.param(*one, marks=[] if one in few else pytest.mark.slow) for one in every]
