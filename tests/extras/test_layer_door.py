"""A layer of PyTorch answers as all doors do; see `tests/laws`."""

from __future__ import annotations

import pytest

from tests.laws.doors import DOORS
from tests.laws.test_doors import cells, check


@pytest.mark.parametrize(("door", "question"), cells(["layer"]))
def test_a_layer_answers_as_all_doors(door: str, question: str) -> None:
    check(DOORS[door], question)
