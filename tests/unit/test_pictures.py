"""The pictures under docs/ are of the lattices that docs/start/concepts.md makes."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
START = DOCS / "start"


def test_the_pictures_are_those_of_the_page() -> None:
    drawn = runpy.run_path(str(DOCS / "pictures.py"))["pictures"]()
    stored = {path.name: path.read_text("utf-8") for path in START.glob("composition-*.svg")}
    assert drawn == stored


def test_the_page_shows_every_picture() -> None:
    page = (START / "concepts.md").read_text("utf-8")
    for path in START.glob("composition-*.svg"):
        assert f"({path.name})" in page
