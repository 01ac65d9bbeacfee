"""The program itself: help, versions, exit statuses, failures, start-up."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest

import fstcrf
from fstcrf.cli import main
from fstcrf.cli import reporting as failures
from fstcrf.cli.main import COMMANDS as LISTED
from fstcrf.demo import COLUMNS, corpus_path
from fstcrf.errors import LabelError, OptionError
from fstcrf.taggers import CRF
from tests.support.command import ROOT, done, failure, run, start
from tests.support.interrupts import interrupt

COMMANDS = list(LISTED)


def test_version_and_help() -> None:
    assert done("--version") == f"fstcrf {fstcrf.__version__}\n"
    text = done("--help")
    listed = [line.split()[0] for line in text.splitlines() if re.match("  [a-z]+ +[A-Z]", line)]
    assert listed == COMMANDS
    assert done("-h") == text


def test_wrong_usage_is_one_line_and_status_two() -> None:
    assert failure(status=2).startswith("no command is given: try fstcrf demo")
    assert failure("tga", status=2) == (
        "no such command 'tga'; did you mean 'tag'? (see 'fstcrf --help')"
    )
    assert failure("xyzzy", status=2).startswith("no such command 'xyzzy'; there are train, tag,")
    assert "Missing argument" in failure("tag", status=2)
    assert "(see 'fstcrf tag --help')" in failure("tag", "m", "--frob", status=2)


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        (OptionError("l2 is -1"), "l2 is -1", 2),
        (LabelError("unknown label 'X'"), "unknown label 'X'", 1),
        (OSError(28, "No space left on device", "m"), "m: No space left on device", 1),
        (OSError(28, "No space left on device"), "<stdout>: No space left on device", 1),
        (OSError("odd"), "odd", 1),
        (MemoryError(), "out of memory", 1),
        (KeyboardInterrupt(), "interrupted", 130),
        (BrokenPipeError(), "", 1),
        (
            ZeroDivisionError("oh"),
            "this should not happen: ZeroDivisionError: oh (set FSTCRF_DEBUG",
            1,
        ),
    ],
)
def test_every_exception_has_a_message_and_a_status(
    error: BaseException, message: str, status: int
) -> None:
    found = failures.as_failure(error)
    assert found.exit_code == status
    assert found.message.startswith(message)


def test_an_interruption_that_python_wraps_is_one() -> None:
    """It was an unforeseen error: Ctrl-C while a module was imported."""
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = KeyboardInterrupt()
    found = failures.as_failure(error)
    assert (found.message, found.exit_code) == ("interrupted", 130)


def test_an_unforeseen_exception_has_no_traceback_unless_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("fstcrf.cli.info.load_deciding", fail)
    result = run("info", tmp_path)
    assert result.exit_code == 1
    assert result.stderr == (
        "fstcrf: error: this should not happen: ZeroDivisionError: a b "
        "(set FSTCRF_DEBUG=1 for a traceback)\n"
    )
    monkeypatch.setenv("FSTCRF_DEBUG", "1")
    assert isinstance(run("info", tmp_path).exception, ZeroDivisionError)


def test_an_interrupted_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fstcrf.cli.info.load_deciding", interrupt)
    for debug in ("", "1"):
        monkeypatch.setenv("FSTCRF_DEBUG", debug)
        result = run("info", "m")
        assert result.exit_code == 130
        assert result.stderr.strip() == "fstcrf: interrupted"


@pytest.mark.thorough
def test_sigterm_removes_temporary_files(tmp_path: Path) -> None:
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:50]
    CRF.train(data, "pos", "U:%x[0,word]\nB\n", max_iterations=2).save(tmp_path / "m")
    with start("tag", tmp_path / "m", "-o", tmp_path / "out", stdin=subprocess.PIPE) as process:
        while not [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")]:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.stdin is not None
        process.stdin.close()  # else a signal just before a read waits for the read
        assert process.wait(timeout=60) == 130
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_handlers_are_put_back_and_only_set_in_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with failures.interruptible():
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == before
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(run("--version").exit_code))
    thread.start()
    thread.join()
    assert codes == [0]


def test_without_standalone_mode_exceptions_reach_the_caller() -> None:
    with pytest.raises(click.UsageError):
        main.main(["frob"], standalone_mode=False)
    assert main.main(["info", "-h"], standalone_mode=False) == 0


HEAVY = {"scipy", "pynini", "pywrapfst", "rich", "safetensors.torch", "torch", "hypothesis"}
COMPOSED = {"fstcrf.taggers.tagmaps", "fstcrf.ext.tune.weights", "fstcrf.ext.pipelines.trained"}
OTHERS = {
    *("fstcrf.ext.documents.tagger", "fstcrf.ext.foreign.conversion", "fstcrf.ext.tune"),
    *(
        "fstcrf.machines.grammar.syntax",
        "fstcrf.machines.grammar.language",
        "fstcrf.machines.grammar.automata",
    ),
    *(
        "fstcrf.machines.openfst",
        "fstcrf.lattices.acyclic",
        "fstcrf.training.loop",
        "fstcrf.training.options",
    ),
}
LOOK = """
import sys
from fstcrf.cli import main
assert "numpy" not in sys.modules
main.main(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""


def test_tagging_imports_nothing_heavy(tmp_path: Path) -> None:
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:50]
    CRF.train(data, "pos", "U:%x[0,word]\nB\n", max_iterations=2).save(tmp_path / "m")
    result = subprocess.run(
        [sys.executable, "-c", LOOK, "tag", tmp_path / "m"],
        input="the\n",
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.stdout.startswith("the ")
    assert (HEAVY | COMPOSED | OTHERS).isdisjoint(result.stderr.split())
