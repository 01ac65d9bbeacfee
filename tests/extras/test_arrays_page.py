"""The programs of the page on networks that need PyTorch or JAX, run as they stand there."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.test_docs import DOCS, blocks

PROGRAMS = [
    b.text for b in blocks((DOCS / "guides" / "network.md").read_text("utf-8")) if b.not_run
]


def ran(program: str) -> dict[str, Any]:
    """Run a program and return its names."""
    names: dict[str, Any] = {}
    exec(compile(program, "network.md", "exec"), names)
    return names


def test_the_layer_learns() -> None:
    torch.manual_seed(0)
    names = ran(PROGRAMS[0])
    assert names["loss"].item() < 60
    assert names["answer"].labels()[0][0] == "O"


def test_the_function_of_jax(capsys: pytest.CaptureFixture[str]) -> None:
    names = ran(PROGRAMS[1])
    assert float(names["value"]) == pytest.approx(6 * 1.0986123, rel=1e-5)
    assert "(3, 3)" in capsys.readouterr().out


def test_there_are_no_others() -> None:
    assert len(PROGRAMS) == 2
