"""Of two processes that write the same the second is refused; one that was killed is no bar."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fstcrf import CRF
from fstcrf.errors import OptionError
from fstcrf.files import held
from fstcrf.training import Run
from tests.support.command import failure, run, start

TEXT = "the D\ndog N\n\na D\ncat N\n\n"
OPTIONS = ("--columns", "word,label", "--target", "label", "--template", "t.tpl")
PIPELINE = """
[task.label]
data = "t.txt"
columns = ["word", "label"]
template = "t.tpl"
"""
HOLDER = """
import sys, time
from fstcrf.files import held
with held(sys.argv[1], "training"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text(TEXT)
    Path("t.tpl").write_text("U0:%x[0,word]\nB\n")


def holder(path: str) -> subprocess.Popen[str]:
    """Start a process that holds a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def waited(until: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_one_process_holds_a_file_and_its_death_frees_it() -> None:
    process = holder("m.fstcrf")
    with (
        pytest.raises(
            OptionError,
            match=rf"m.fstcrf: another training writes there .process {process.pid} on ",
        ),
        held("m.fstcrf", "training"),
    ):
        pass
    killed(process)
    assert Path(".m.fstcrf.lock").exists()
    with held("m.fstcrf", "training"):
        assert Path(".m.fstcrf.lock").read_text().startswith(f"process {os.getpid()} on ")
        with pytest.raises(OptionError, match="another training"), held("./m.fstcrf", "training"):
            pass
    assert not Path(".m.fstcrf.lock").exists()


def test_links_are_followed_and_devices_are_free() -> None:
    Path("there").mkdir()
    Path("here.fstcrf").symlink_to(Path("there", "m.fstcrf"))
    with held("here.fstcrf", "training"):
        assert Path("there", ".m.fstcrf.lock").exists()
    with held("/dev/null", "training"), held("/dev/null", "training"):
        pass


def test_a_checkpoint_is_of_one_run() -> None:
    data, gold = [{"word": ["a", "b"]}], [["A", "B"]]
    process = holder("state")
    with pytest.raises(OptionError, match="state: another training writes there"):
        CRF.train(data, gold, "U0:%x[0,word]\n", run=Run(checkpoint="state"))
    killed(process)
    CRF.train(data, gold, "U0:%x[0,word]\n", run=Run(checkpoint="state"), max_iterations=2)
    assert not list(Path().glob(".*.lock"))


def test_two_trainings_into_one_output() -> None:
    first = holder("m.fstcrf")
    said = failure("train", "t.txt", "-o", "m.fstcrf", *OPTIONS, status=2)
    assert said.startswith(f"m.fstcrf: another training writes there (process {first.pid} on ")
    elsewhere = run("train", "t.txt", "-o", "other.fstcrf", *OPTIONS)
    assert elsewhere.exit_code == 0, elsewhere.stderr
    killed(first)
    first = holder("other.fstcrf.checkpoint")
    said = failure("train", "t.txt", "-o", "other.fstcrf", *OPTIONS, status=2)
    assert said.startswith("other.fstcrf.checkpoint: another training writes there")
    killed(first)
    assert run("train", "t.txt", "-o", "other.fstcrf", *OPTIONS).exit_code == 0


def test_two_searches_and_two_pipelines() -> None:
    options = (*OPTIONS, "--folds", 2, "--trials", 1, "--journal", "j.jsonl", "-o", "m.fstcrf")
    for path in ("m.fstcrf", "j.jsonl"):
        first = holder(path)
        said = failure("tune", "t.txt", *options, status=2)
        assert said.startswith(f"{path}: another tuning writes there (process {first.pid} on ")
        killed(first)
    assert run("tune", "t.txt", *options).exit_code == 0
    Path("p.toml").write_text(PIPELINE)
    Path("folder").mkdir()
    first = holder("folder")
    said = failure("train", "p.toml", "-o", "folder", status=2)
    assert said.startswith(f"folder: another training writes there (process {first.pid} on ")
    killed(first)
    found = run("train", "p.toml", "-o", "folder")
    assert found.exit_code == 0, found.stderr
    assert not list(Path().glob(".*.lock"))


@pytest.mark.thorough
def test_two_commands_at_once() -> None:
    Path("t.txt").write_text(TEXT * 8_000)
    options = (*OPTIONS, "--workers", 1, "--set", "stochastic_epochs=0")
    first = start("train", "t.txt", "-o", "m.fstcrf", *options)
    waited(lambda: Path(".m.fstcrf.lock").exists() and bool(Path(".m.fstcrf.lock").read_text()))
    first.send_signal(signal.SIGSTOP)
    said = failure("train", "t.txt", "-o", "m.fstcrf", *options, status=2)
    assert f"process {first.pid} " in said
    killed(first)
    again = run("train", "t.txt", "-o", "m.fstcrf", *options)
    assert again.exit_code == 0, again.stderr
    for name in range(8):
        Path(f"in{name}.txt").write_text(TEXT * 8_000)
    names = sorted(map(str, Path().glob("in*.txt")))
    tagging = start("tag", "m.fstcrf", *names, "-o", "out/")
    record = Path("out", ".fstcrf-tagged.jsonl")
    waited(lambda: record.exists() and record.read_bytes().count(b"\n") > 1)
    tagging.send_signal(signal.SIGSTOP)
    said = failure("tag", "m.fstcrf", *names, "-o", "out/", status=2)
    assert said == "out/: another run is writing there"
    killed(tagging)
    again = run("tag", "m.fstcrf", *names, "-o", "out/")
    assert again.exit_code == 0, again.stderr
    assert "were finished before" in again.stderr
