"""What the shell says of searches: that they take long, and that their answers are not proven."""

from __future__ import annotations

import threading
import warnings

import pytest

from fstcrf.cli import reporting as waiting
from fstcrf.cli.reporting import counted, place, warned, working
from fstcrf.errors import InexactWarning
from fstcrf.machines.plans import warn_unproven
from fstcrf.text.corpus import Corpus


def test_a_long_block_says_so_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "_SOON", 0.01)
    lines: list[str] = []
    enough = threading.Event()

    def heard(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            enough.set()

    monkeypatch.setattr(waiting, "say", heard)
    before = threading.active_count()
    with working("sentence 12 of 500 tokens"):
        assert enough.wait(30)
    assert threading.active_count() == before
    assert lines[:3] == [
        f"working on sentence 12 of 500 tokens: {seconds} s so far"
        for seconds in (0.01, 0.02, 0.04)
    ]
    assert capsys.readouterr().err == ""


def test_a_short_block_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with working("this"):
        pass
    assert capsys.readouterr().err == ""


def test_a_failure_ends_the_telling() -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="why"), working("this"):
        raise ValueError("why")
    assert threading.active_count() == before


def test_where_a_batch_is() -> None:
    rows = [["a"], ["b", "c", "d"], ["e", "f"]]
    batch = Corpus.from_sentences([{"word": row} for row in rows])
    assert place(batch) == "3 sentences, the longest of 3 tokens"
    assert place(batch, 2) == "sentence 3 of 3, of 2 tokens"
    assert place(batch[:1]) == "sentence 1 of 1, of 1 tokens"


def test_answers_that_are_not_proven_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with warned():
        warn_unproven(2, 9)
        with counted():
            warn_unproven(3, 9)
        warn_unproven(1, 9)
        with pytest.warns(UserWarning, match="another"):
            warnings.warn("another", UserWarning, stacklevel=1)
    err = capsys.readouterr().err.splitlines()
    assert [line.split(" answers ")[0] for line in err] == [
        "fstcrf: warning: 2 of 9",
        "fstcrf: warning: 1 of 9",
    ]
    with pytest.warns(InexactWarning):
        warn_unproven(1, 1)
