"""``fstcrf tag`` of many files into a folder: the same bytes as one by one, and what goes wrong."""

from __future__ import annotations

import errno
import gzip
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf.cli.files import FileTagger
from fstcrf.ext.cluster.command import _TagJob
from fstcrf.ext.cluster.files import TextFile
from fstcrf.ext.cluster.work import FileTask, perform
from tests.support.command import done, failure, run, start
from tests.support.joint_cases import taggers

TEXT = "Anna N\nmet V\nBob N\n\nit P\nrained V\n\n"
NAMES = ("a.txt", "b.txt", "deep/c.txt.gz")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.fstcrf"
    sentences = [{"word": ["Anna", "met", "Bob"], "pos": ["N", "V", "N"]}]
    gold = [["B-PER", "O", "B-PER"]]
    fstcrf.CRF.train(sentences, gold, "U:%x[0,word]\nU1:%x[0,pos]\nB", l2=0.1).save(path)
    return path


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.fstcrf").write_bytes(model.read_bytes())
    Path("in/deep").mkdir(parents=True)
    for k, name in enumerate(NAMES):
        text = (TEXT * (k + 1)).encode()
        Path("in", name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)


def tagged() -> dict[str, bytes]:
    """Return what is in the folder of outputs, unpacked."""
    found = {}
    for path in sorted(Path("out").rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            data = path.read_bytes()
            found[str(path.relative_to("out"))] = (
                gzip.decompress(data) if path.suffix == ".gz" else data
            )
    return found


def one_by_one(*options: object) -> dict[str, bytes]:
    return {name: done("tag", "m.fstcrf", f"in/{name}", *options).encode() for name in NAMES}


def test_outputs_replace_no_model(model: Path) -> None:
    Path("out").mkdir()
    Path("out/a.txt").write_bytes(model.read_bytes())
    line = failure("tag", "out/a.txt", "in", "-o", "out", status=2)
    assert line.startswith("--output out/a.txt would overwrite an input")
    assert Path("out/a.txt").read_bytes() == model.read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("how", "options"),
    [((), ()), (("--threads", 2), ()), (("--workers", 2), ("--nbest", 2, "--bias", "O=-1"))],
)
def test_a_folder_is_the_same_as_its_files(how: tuple[Any, ...], options: tuple[Any, ...]) -> None:
    result = run("tag", "m.fstcrf", "in", "-o", "out", *options, *how)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines()[-1] == "fstcrf: out: 3 files, 12 sentences"
    assert tagged() == one_by_one(*options)
    assert result.stdout == ""


def test_what_is_finished_is_left_out() -> None:
    ask = ("tag", "m.fstcrf", "in", "-o", "out/")
    done(*ask)
    Path("in/b.txt").write_text("Bob N\n")
    result = run(*ask)
    assert result.stderr == "fstcrf: out/: 1 file, 1 sentences, 2 were finished before\n"
    assert tagged()["b.txt"] == b"Bob N B-PER\n"
    assert run(*ask, "--threads", 2, "--workers", 1).exit_code == 0
    for more, what in ((("--nbest", 2), "--nbest"), (("--bias", "O=1"), "--bias")):
        assert failure(*ask, *more, status=2) == (
            f"out/: holds files tagged with another {what}: give another folder, or --set "
            "overwrite=true"
        )
    assert done(*ask, "--nbest", 2, "--set", "overwrite=true") == ""
    assert tagged()["a.txt"].count(b"# ") == 4
    fstcrf.load("m.fstcrf").save("n.fstcrf")  # type: ignore[attr-defined]
    sentences = [{"word": ["a"], "pos": ["b"]}]
    fstcrf.CRF.train(sentences, [["X"]], "U:%x[0,word]\nU1:%x[0,pos]").save("m.fstcrf")
    assert "with another model: " in failure(*ask, "--nbest", 2, status=2)


def test_files_that_options_name_count_by_content() -> None:
    Path("g.grm").write_text('export G = at_most[2, "PER"];\n')
    ask = ("tag", "m.fstcrf", "in", "-o", "out", "--grammar")
    done(*ask, "g.grm")
    Path("h.grm").write_bytes(Path("g.grm").read_bytes())
    assert "3 were finished before" in run(*ask, "h.grm", "--workers", 1).stderr
    Path("h.grm").write_text('export G = at_most[3, "PER"];\n')
    assert "another --grammar" in failure(*ask, "h.grm", status=2)


@pytest.mark.thorough
@pytest.mark.parametrize("how", [(), ("--workers", 2)])
def test_files_that_fail_are_named_and_the_others_done(how: tuple[Any, ...]) -> None:
    Path("in/a.txt").write_bytes(b"Anna\nmet V\n")
    Path("in/empty.txt").touch()
    Path("in/z.txt.gz").write_bytes(gzip.compress(TEXT.encode())[:-9])
    result = run("tag", "m.fstcrf", "in", "gone.txt", "-o", "out", *how)
    assert result.exit_code == 1
    *told, last = result.stderr.splitlines()
    assert last == (
        "fstcrf: error: 3 of 6 files could not be tagged (see the errors above); "
        "to try again, run the same command"
    )
    for name, why in (
        ("gone.txt", "No such file or directory"),
        ("in/a.txt:1", ""),
        ("in/z.txt.gz", "damaged gzip file"),
    ):
        assert len([line for line in told if line.startswith(f"fstcrf: {name}: {why}")]) == 1
    assert len(told) == 3
    assert set(tagged()) == {"b.txt", "deep/c.txt.gz", "empty.txt"}
    assert tagged()["empty.txt"] == b""
    assert not list(Path("out").rglob(".*.tmp"))


def test_a_full_disk_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tag, asked = FileTagger.tag, []

    def full(self: FileTagger, path: str, output: str) -> Any:
        asked.append(path)
        if len(asked) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), output)
        return tag(self, path, output)

    monkeypatch.setattr(FileTagger, "tag", full)
    assert failure("tag", "m.fstcrf", "in", "-o", "out") == (
        "out/b.txt: No space left on device; to continue, run the same command again"
    )
    assert set(tagged()) == {"a.txt"}
    monkeypatch.setattr(FileTagger, "tag", tag)
    assert "1 were finished before" in run("tag", "m.fstcrf", "in", "-o", "out").stderr


@pytest.mark.parametrize(
    ("arguments", "words", "status"),
    [
        (["in"], "several files are tagged into a folder: -o FOLDER/", 2),
        (["in/a.txt", "in/b.txt"], "several files are tagged into a folder", 2),
        (["in", "-o", "in"], "is within the input in: give a folder elsewhere", 2),
        (["in/*.txt", "-o", "in"], "is within the input", 2),
        (["in/a.txt", "-o", "in"], "in/a.txt is an input", 2),
        (["no*", "-o", "out"], "no*: no file is called like this", 1),
        (["-", "in/a.txt", "-o", "out"], "standard input cannot be tagged into a folder", 2),
        (["in", "-o", "out", "--workers", "2", "--set", "dask=x:1"], "--set dask and --workers", 2),
        (["in", "-o", "out", "--workers", "0"], "0 is not in the range x>=1", 2),
        (["in/a.txt", "-o", "a.out", "--set", "overwrite=true"], "--set overwrite is for files", 2),
        (["in", "-o", "out", "--tape", "x"], "--tape x: the tapes are", 2),
        (["in", "-o", "out", "--calibration", "x"], "--calibration is for --min-confidence", 2),
        (["in", "-o", "m.fstcrf/x/"], "m.fstcrf", 1),
    ],
)
def test_wrong_usage_is_told_before_work(arguments: list[str], words: str, status: int) -> None:
    assert words in failure("tag", "m.fstcrf", *arguments, status=status)
    assert not Path("out").exists()


def test_workers_that_see_other_folders_are_refused() -> None:
    record = str(Path("out/.fstcrf-tagged.jsonl"))
    job = _TagJob("m.fstcrf", (), None, (), record=(record, b"settings"))
    outcome = perform(FileTask(job, TextFile("in/a.txt", "out/a.txt", "a.txt", 1)))
    assert outcome.ends
    assert outcome.error.startswith(
        "out: this is not the folder of the machine that started the run: "
    )
    assert not Path("out").exists()


def test_strange_files_are_not_replaced() -> None:
    Path("out").mkdir()
    Path("out/b.txt").write_text("mine")
    told = failure("tag", "m.fstcrf", "in", "-o", "out", status=2)
    assert told.startswith(
        "out/b.txt exists already, and no record shows which options produced it"
    )
    assert set(tagged()) == {"b.txt"}
    done("tag", "m.fstcrf", "in", "-o", "out", "--set", "overwrite=true")
    assert tagged() == one_by_one()


@pytest.mark.thorough
def test_warnings_and_outcomes_are_told_once() -> None:
    Path("never.grm").write_text('export G = exactly[9, "PER"];\n')
    options = ("--grammar", "never.grm", "--on-no-path", "skip")
    result = run("tag", "m.fstcrf", "in", "-o", "out", *options, "--workers", 2)
    assert result.stderr.splitlines() == [
        "fstcrf: 12 sentences tagged _: no label sequence is legal",
        "fstcrf: out: 3 files, 12 sentences",
    ]
    assert tagged() == one_by_one(*options)


def test_progress_is_told_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fstcrf.cli.progress.SOON", 0.0)
    result = run("tag", "m.fstcrf", "in", "-o", "out", "--progress")
    *told, last = result.stderr.splitlines()
    assert told
    assert all(line.startswith("fstcrf: tagging 3 files: ") for line in told)
    assert last == "fstcrf: out: 3 files, 12 sentences"


@pytest.mark.thorough
def test_progress_within_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fstcrf.cli.progress.SOON", 0.05)
    monkeypatch.setattr("fstcrf.cli.progress._LONGEST", 0.05)
    monkeypatch.setattr("fstcrf.cli.progress._TOLD", 0.0)  # other processes would keep theirs
    Path("large").mkdir()
    Path("large/text.txt").write_text(TEXT * 100_000)
    result = run("tag", "m.fstcrf", "large", "-o", "out", "--progress")
    assert result.exit_code == 0, result.stderr
    told = [line for line in result.stderr.splitlines() if " sentences, " in line]
    found = [re.search(r"tagging 1 files: ([0-9,]+) sentences, .* (\d+) %, about", s) for s in told]
    shares = [int(one[2]) for one in found if one is not None]
    assert shares
    assert shares == sorted(shares)
    assert min(shares) < 100


@pytest.mark.thorough
def test_a_composition_with_documents(tmp_path: Path) -> None:
    first, second = taggers("pair")
    (fstcrf.compose(first, second)).save("joint.fstcrf")
    Path("words").mkdir()
    for name in "ab":
        Path("words", name).write_text("Anna\nmet\n\nBob\n")
    done("tag", "joint.fstcrf", "words", "-o", "out", "--columns", "word", "--workers", 2)
    for name in "ab":
        alone = done("tag", "joint.fstcrf", f"words/{name}", "--columns", "word")
        assert tagged()[name].decode() == alone


@pytest.mark.thorough
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_ended_goes_on(stop: signal.Signals) -> None:
    for k in range(60):
        Path(f"in/more{k:02}.txt").write_text(TEXT * 2000)
    process = start("tag", "m.fstcrf", "in", "-o", "out", "--workers", 2)
    deadline = time.monotonic() + 60
    while len(tagged()) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(stop)
    _, told = process.communicate(timeout=60)
    if stop == signal.SIGTERM:
        assert process.returncode == 130
        assert told.splitlines()[-1] == "fstcrf: interrupted"
        assert not list(Path("out").rglob(".*.tmp"))
    before = len(tagged())
    assert 5 <= before < 63
    result = run("tag", "m.fstcrf", "in", "-o", "out")
    assert result.exit_code == 0, result.stderr
    assert "were finished before" in result.stderr
    assert len(tagged()) == 63
    assert tagged()["more07.txt"] == done("tag", "m.fstcrf", "in/more07.txt").encode()
