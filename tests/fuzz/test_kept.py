"""Inputs are counted once, whoever runs the engine and however often."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.fuzz import kept
from tests.fuzz.coverage import Places


def test_inputs_are_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, page = tmp_path / "counts.json", tmp_path / "page.md"
    monkeypatch.setattr(kept, "PAGE", page)
    page.write_text("Before\n```console\n$ python -m tests.fuzz --counts\nold\n```\nbehind\n```\n")
    counts.write_text(json.dumps({"commit": "", "date": "", "inputs": {"rows": 1000}}))
    monkeypatch.setattr(kept, "COUNTS", counts)
    monkeypatch.setattr(kept, "_commit", lambda: "abc")
    folder = tmp_path / "run"
    for name, count in (("rows", 30), ("lines", 7)):
        Places(folder, name).count.write_bytes(struct.pack("<Q", count))
    for _ in range(2):
        kept.keep(folder)
        assert json.loads(counts.read_text())["inputs"] == {"lines": 7, "rows": 1030}
    lines = page.read_text().splitlines()
    assert [line.split()[:2] for line in lines[3:6]] == [
        ["rows", "1,030"], ["lines", "7"], ["all", "1,037"],
    ]  # fmt: skip
    assert lines[-2:] == ["behind", "```"]


def test_the_page_has_the_counts_that_are_kept(tmp_path: Path) -> None:
    assert kept.table(tmp_path) in kept.PAGE.read_text()
