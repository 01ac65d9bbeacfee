"""The pictures under docs/ are of the lattices that docs/guides/composition.md makes."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = DOCS / "guides"


def test_the_pictures_are_those_of_the_page() -> None:
    drawn = runpy.run_path(str(DOCS / "pictures.py"))["pictures"]()
    stored = {path.name: path.read_text("utf-8") for path in GUIDES.glob("composition-*.svg")}
    assert drawn == stored


def test_the_page_shows_every_picture() -> None:
    page = (GUIDES / "composition.md").read_text("utf-8")
    for path in GUIDES.glob("composition-*.svg"):
        assert f"({path.name})" in page
