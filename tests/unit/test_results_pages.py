"""The index of results names every recipe and page; benchmarks write tables beside the pages."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from fstcrf.recipes import RECIPES

PAGES = Path(__file__).parents[2] / "docs" / "measurements"
INDEX = (PAGES / "results.md").read_text("utf-8")


def test_every_recipe_is_named() -> None:
    named = re.findall(r"^\| `([\w-]+)` \|", INDEX, re.MULTILINE)
    assert set(RECIPES) <= set(named)


def test_every_page_of_results_is_linked() -> None:
    linked = set(re.findall(r"\((results-[\w-]+\.md)\)", INDEX))
    assert {page.name for page in PAGES.glob("results-*.md")} <= linked


@pytest.mark.parametrize("program", ["__main__", "accuracy", "joint", "scaling", "variable_order"])
def test_benchmarks_write_tables_of_measurements(program: str) -> None:
    page = importlib.import_module(f"tests.benchmarks.{program}").PAGE
    assert page.parent == PAGES
    assert page.is_file()
