"""Tests of what needs extras: run by ``make test-extras``, in an environment of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

if not os.environ.get("FSTCRF_EXTRAS"):
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of them."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.extras)
