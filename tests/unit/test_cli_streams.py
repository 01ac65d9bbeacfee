"""What the program does where a shell has closed its streams, or where they are full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fstcrf
from tests.support.command import failure, run

TEXT = "a A\nb B\nc A\n\nb B\n\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tagger, its template and its text."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "t.txt").write_text(TEXT)
    (folder / "same.txt").write_text("A A\nB B\n")
    (folder / "t.tpl").write_text("U:%x[0,word]\nB\n")
    corpus = fstcrf.read_columns(folder / "t.txt", ["word", "y"])
    fstcrf.CRF.train(corpus, "y", folder / "t.tpl", max_iterations=3).save(folder / "m.fstcrf")
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("pool")
    (folder / "pool").symlink_to("loop")
    return folder


def _shell(command: str, folder: Path) -> tuple[int, str, str]:
    """Return status, output and messages of a line for the shell, ``F`` being the program."""
    program = f"{sys.executable} -m fstcrf"
    line = command.replace("F ", f"{program} ", 1)
    ended = subprocess.run(
        line, cwd=folder, shell=True, capture_output=True, text=True, timeout=60, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


TRAIN = "F train t.txt --columns word,y --target y --template t.tpl --max-iterations 2"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "written"),
    [
        (f"{TRAIN} -o new.fstcrf 2>&-", "new.fstcrf"),
        (f"{TRAIN} -o json.fstcrf --set log_json=true 2>&-", "json.fstcrf"),
        ("F tag m.fstcrf t.txt -o error.txt 2>&-", "error.txt"),
        ("F tag m.fstcrf t.txt -o out.txt >&-", "out.txt"),
        ("F tag m.fstcrf t.txt -o in.txt <&-", "in.txt"),
        ("F tag m.fstcrf t.txt -o all.txt <&- >&- 2>&-", "all.txt"),
    ],
)
def test_closed_streams_do_not_stop_the_work(folder: Path, command: str, written: str) -> None:
    status, out, messages = _shell(command, folder)
    assert (status, out, messages.count("\n") if "2>&-" in command else 0) == (0, "", 0)
    if written.endswith("fstcrf"):
        fstcrf.load(folder / written)
    else:
        assert (folder / written).read_text().splitlines()[0] == "a A A"


@pytest.mark.thorough
def test_output_comes_without_standard_error(folder: Path) -> None:
    status, out, _ = _shell("F tag m.fstcrf t.txt 2>&-", folder)
    assert (status, out.splitlines()[0]) == (0, "a A A")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("F --help > /dev/full", "<stdout>: No space left on device"),
        ("F info m.fstcrf > /dev/full", "<stdout>: No space left on device"),
        ("F eval m.fstcrf t.txt > /dev/full", "<stdout>: No space left on device"),
        ("F eval --pred same.txt > /dev/full", "<stdout>: No space left on device"),
        ("F info m.fstcrf t.txt --token 0 > /dev/full", "<stdout>: No space left on device"),
        ("F tag m.fstcrf t.txt > /dev/full", "<stdout>: No space left on device"),
        ("PYTHONUNBUFFERED=1 F eval m.fstcrf t.txt > /dev/full", "<stdout>: No space left"),
        ("F --help >&-", "<stdout>: Bad file descriptor"),
        ("F tag m.fstcrf t.txt >&-", "<stdout>: Bad file descriptor"),
        ("F tag m.fstcrf - <&-", "<stdin>: Bad file descriptor"),
        (f"{TRAIN} - -o x.fstcrf <&-".replace("t.txt ", ""), "<stdin>: Bad file descriptor"),
    ],
)
def test_what_cannot_be_read_or_written_is_one_line(folder: Path, command: str, told: str) -> None:
    status, _, messages = _shell(command, folder)
    assert status == 1
    assert messages.startswith("fstcrf: error: ")
    assert messages.endswith(f"{told}\n") or told in messages
    assert messages.count("\n") == 1


def test_a_link_to_itself_and_a_pipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    told = failure(*f"{TRAIN} -o loop".split()[1:])
    assert told == "loop: Too many levels of symbolic links"
    assert failure("info", "fifo") == "fifo: a pipe, expected a file: write it to one first"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (f"--method ap --set seed={2**64}", f"--set seed is {2**64}, expected a number below 2⁶³"),
        ("--set memory=1000000000000", "do not fit into memory"),
        (f"--columns word,{'x' * 5_000}", " … "),
    ],
)
def test_options_that_are_too_large_are_one_line(
    folder: Path, options: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ended = run(*f"{TRAIN} {options} -o x.fstcrf".split()[1:])
    last = ended.stderr.splitlines()[-1]
    assert ended.exit_code in (1, 2)
    assert isinstance(ended.exception, SystemExit)
    assert told in last
    assert len(last) < 800


@pytest.mark.parametrize("module", ["fstcrf", "fstcrf.cli"])
def test_ctrl_c_while_a_dataclass_is_made_is_status_130(module: str, tmp_path: Path) -> None:
    """Python ended by the signal, though the interruption had been answered."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Loader:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'fstcrf.cli.info':\n"
        "            exec('raise KeyboardInterrupt')\n"
        "sys.meta_path.insert(0, Loader())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", module, "info", "m.fstcrf"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stderr.strip() == "fstcrf: interrupted"
    assert ended.returncode == 130
