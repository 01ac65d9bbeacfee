"""Long work shows itself on standard error, and only there; very long sentences are pointed out."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from fstcrf.cli import progress as showing
from fstcrf.cli.progress import Meter, file_share, progress, progress_option
from fstcrf.cli.reporting import as_json
from fstcrf.cli.sources import InputFile


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "SOON", 0.01)
    monkeypatch.setattr(showing, "_BEAT", 0.01)


@contextmanager
def asked(wanted: bool | None) -> Iterator[None]:
    """Work as a command with that option does."""

    @progress_option
    def nothing() -> None: ...

    command = click.command()(nothing)
    flags = {True: ["--progress"], False: ["--no-progress"], None: []}[wanted]
    with command.make_context("some", flags):
        yield


def until(said: Callable[[], bool]) -> None:
    for _ in range(3000):
        if said():
            return
        time.sleep(0.01)
    raise AssertionError("nothing was said")


def test_what_a_meter_says() -> None:
    meter = Meter("tagging", "sentences", 200)
    assert meter.figures(3.0) == "0 %, 3 s so far"
    meter.add(50)
    assert meter.figures(2.0) == "50 of 200 sentences, 25 a second, 25 %, about 6 s left"
    assert meter.figures(6.0).endswith("25 %, about 2 s left")
    assert meter.figures(9.0).endswith("25 %, 9 s so far")
    meter.add(150)
    assert meter.figures(1000.0) == "200 of 200 sentences, 0.2 a second, 100 %, 17 min so far"
    endless = Meter("tagging", "sentences")
    endless.add(12_000)
    assert endless.figures(10.0) == "12,000 sentences, 1,200 a second, 10 s so far"
    endless.measured(lambda: 0.5)
    assert endless.figures(9000.0).endswith("50 %, about 2 h 30 min left")


def test_lines_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    before = threading.active_count()

    def counted() -> list[str]:
        heard.append(capsys.readouterr().err)
        lines = "".join(heard).splitlines(keepends=True)
        return [line for line in lines if " 1 of 4 steps" in line and line.endswith("\n")]

    with asked(True), progress("working", "steps", 4) as meter:
        meter.add()
        until(lambda: len(counted()) >= 2)  # the line of a slow start counts no step
    assert threading.active_count() == before
    line = counted()[0]
    assert line.startswith("fstcrf: working: 1 of 4 steps, ")
    assert "25 %" in line
    assert capsys.readouterr().out == ""


def test_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []

    def told() -> bool:
        heard.append(capsys.readouterr().err)
        return "\n" in "".join(heard)

    with as_json(True), asked(True), progress("working", "steps", 4) as meter:
        meter.add(2)
        until(told)
    fact = json.loads("".join(heard).splitlines()[0])
    assert fact["event"] == "progress"
    assert (fact["done"], fact["total"], fact["share"]) == (2, 4, 0.5)


@pytest.mark.parametrize("wanted", [None, False])
def test_quiet_elsewhere(wanted: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    with asked(wanted), progress("working") as meter:
        meter.add()
        assert threading.active_count() == before
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_line_that_is_too_long_keeps_what_is_left() -> None:
    meter = Meter("tagging /a/very/long/path/to/some/text.txt", "sentences", 100)
    meter.add(50)
    room = len(meter.figures()) + 20
    shown = showing._fitted(meter, room)
    assert len(shown) == room
    assert shown.startswith("…")
    assert shown.endswith(meter.figures()[-8:])
    assert "text.txt " in shown


def test_a_failure_ends_it() -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="why"), asked(True), progress("working"):
        raise ValueError("why")
    assert threading.active_count() == before


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line in place on standard error; what the work prints goes where it always goes."""
    ours, theirs = pty.openpty()
    out = io.StringIO()
    seen = b""
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "200")
        with asked(None), progress("tagging [b]x[/b]", "sentences", 4) as meter:
            meter.add()
            while b"1 of 4 sentences" not in seen:
                seen += os.read(ours, 4096)
            sys.stdout.write("label\n")
    monkeypatch.undo()
    os.close(ours)
    assert b"tagging [b]x[/b]" in seen
    assert out.getvalue() == "label\n"
    assert b"label" not in seen


def test_not_into_an_output_on_the_same_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(sys, "stdout", Terminal())
    with asked(None), progress("tagging", output="-"):
        assert threading.active_count() == before


def test_the_share_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("a\n" * 40)
    meter = Meter("tagging", "sentences")
    share = file_share(str(path), meter)
    assert share() == 0.0
    meter.line = 10
    assert share() == 0.25
    for other in ("-", str(tmp_path / "none"), str(tmp_path / "x.gz"), str(tmp_path)):
        assert file_share(other, meter)() is None


# --- Very long sentences --------------------------------------------------------------------------


def write(path: Path, lengths: list[int]) -> str:
    path.write_text("\n\n".join("\n".join(["w O"] * n) for n in lengths) + "\n")
    return str(path)


@pytest.mark.parametrize("stream", [False, True])
def test_a_very_long_sentence_is_pointed_out_once(
    tmp_path: Path, stream: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    source = InputFile(("word", "pos"))
    path = write(tmp_path / "x.txt", [3, 5_000, 5_001, 110_000, 7_000])
    found: Any = sum(map(len, source.stream(path))) if stream else len(source.read(path))
    assert found == 5
    line = 3 + 1 + 5_000 + 1 + 1
    assert capsys.readouterr().err == (
        f"fstcrf: warning: {path}:{line}: a sentence of 5,001 tokens; is a blank line missing?\n"
    )


def test_usual_sentences_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x.txt", [3, 5_000])
    InputFile(("word", "pos")).read(path)
    with gzip.open(tmp_path / "y.txt.gz", "wt") as file:
        file.write("w O\n")
    list(InputFile(("word", "pos")).stream(str(tmp_path / "y.txt.gz")))
    assert capsys.readouterr().err == ""


# --- Commands -------------------------------------------------------------------------------------
