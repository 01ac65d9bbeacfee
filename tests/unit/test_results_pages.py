"""The index of results names every recipe and every page that a recipe has written."""

from __future__ import annotations

import re
from pathlib import Path

from fstcrf.recipes import RECIPES

PAGES = Path(__file__).parents[2] / "docs" / "measurements"
INDEX = (PAGES / "results.md").read_text("utf-8")


def test_every_recipe_is_named() -> None:
    named = re.findall(r"^\| `([\w-]+)` \|", INDEX, re.MULTILINE)
    assert set(RECIPES) <= set(named)


def test_every_page_of_results_is_linked() -> None:
    linked = set(re.findall(r"\((results-[\w-]+\.md)\)", INDEX))
    assert {page.name for page in PAGES.glob("results-*.md")} <= linked
