"""The page of options says what the structs declare."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "option_tables.py"


def test_the_page_is_that_of_now() -> None:
    made = runpy.run_path(str(SCRIPT))
    page = made["PAGE"].read_text("utf-8")
    assert made["renewed"](page) == page, "renew it: python docs/option_tables.py"


def test_every_option_has_a_row() -> None:
    made = runpy.run_path(str(SCRIPT))
    text = made["tables"]()
    for name in made["DEFAULTS"]:
        assert name in made["CHOICES"] or f"| `{name}` |" in text
    for methods in made["METHODS"].values():
        assert all(f"| `{name}` |" in text for name in methods)
