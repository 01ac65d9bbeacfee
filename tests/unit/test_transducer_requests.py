"""What the guide on transducers says can be asked: each call is answered, or refused as it says."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fstcrf.errors import EpsilonCycleError, OptionError, ShapeError
from tests.test_docs import blocks

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "transducers.md"
ROW = re.compile(
    r"^\| (?P<wanted>[^|]+) \| `(?P<call>[^|]+)` \| (?P<answer>[^|]+) \|$", re.MULTILINE
)
TABLE = PAGE.read_text(encoding="utf-8").split("## What can be asked")[1].split("\n## ")[0]
ROWS = [match.groupdict() for match in ROW.finditer(TABLE)]
REFUSED = {
    "in a circle": EpsilonCycleError,
    "one for each token": ShapeError,
    "chain rule": OptionError,
}


@cache
def names() -> dict[str, Any]:
    """Return what the page has made where the table stands."""
    text = PAGE.read_text(encoding="utf-8")
    before = text[: text.index(TABLE)] + TABLE
    found: dict[str, Any] = {}
    for block in blocks(before):
        if block.language == "python":
            exec(compile(block.text, f"{PAGE.name}:{block.line}", "exec"), found)
    return found


def test_no_more_than_seven_are_refused() -> None:
    assert len(ROWS) == 23
    assert sum(row["answer"] != "answered" for row in ROWS) <= 7


@pytest.mark.parametrize("row", ROWS, ids=[row["wanted"] for row in ROWS])
def test_a_request_is_answered_or_refused_as_the_guide_says(row: dict[str, str]) -> None:
    call, answer = row["call"], row["answer"]
    if "to_fst" in call:
        pytest.importorskip("pynini", reason="pynini is not installed", exc_type=ImportError)
    if answer == "answered":
        assert eval(call, dict(names())) is not None
        return
    error = next(error for words, error in REFUSED.items() if words in answer)
    with pytest.raises(error):
        eval(call, dict(names()))
