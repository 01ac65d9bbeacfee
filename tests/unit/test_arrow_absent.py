"""Without pyarrow, tables are refused in one line; nothing else notices."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fstcrf
from fstcrf.errors import MissingDependencyError
from tests.support.command import failure


@pytest.fixture(autouse=True)
def _absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)


def test_tables_need_pyarrow(tmp_path: Path) -> None:
    tagger = fstcrf.CRF.train([{"word": ["a"]}], [["X"]], "U:%x[0,word]")
    with pytest.raises(MissingDependencyError, match=r"pip install 'fstcrf\[arrow\]'"):
        fstcrf.tag_batches(tagger, iter([]))
    tagger.save(tmp_path / "m.fstcrf")
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    said = failure("tag", tmp_path / "m.fstcrf", tmp_path / "in.parquet", "-o", "out.parquet")
    assert "pip install 'fstcrf[arrow]'" in said
