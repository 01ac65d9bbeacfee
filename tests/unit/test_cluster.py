"""Files into a folder: what becomes of each, processes that are killed, the record of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf.errors import DataError, MissingDependencyError, OptionError, RecoveryWarning
from fstcrf.ext.cluster.connection import connected
from fstcrf.ext.cluster.files import RECORD, Record, Stamp, TextFile, parts_of
from fstcrf.ext.cluster.processes import through_processes
from fstcrf.ext.cluster.work import FileOutcome, FileTask, perform
from tests.support.file_jobs import Broken, Copying


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("in", "out", "deaths"):
        Path(folder).mkdir()


def written(**texts: str) -> list[TextFile]:
    for name, text in texts.items():
        Path("in", name).write_text(text)
    return parts_of([f"in/{name}" for name in texts], "out")


def tasks(parts: list[TextFile], most: int = 1) -> list[FileTask]:
    return [FileTask(Copying("deaths", most), part) for part in parts]


# --- A file ---------------------------------------------------------------------------------------


def test_a_file_is_done_and_stamped() -> None:
    (part,) = written(a="anna")
    outcome = perform(tasks([part])[0])
    assert Path("out/a").read_text() == "ANNA"
    assert outcome.entry is not None
    assert outcome.entry.input == Stamp.of("in/a")
    assert outcome.entry.output == Stamp.of("out/a")
    assert outcome.counts["sentences"] == 1


def test_what_goes_wrong_is_told() -> None:
    bad, full = written(bad="bad", full="full")
    assert perform(tasks([bad])[0]) == FileOutcome(bad, error="in/bad: is bad")
    found = perform(tasks([full])[0])
    assert found.error == "out/full: No space left on device"
    assert found.ends
    found = perform(FileTask(Broken(), bad))
    assert (found.error, found.ends) == ("there is no model", True)
    found = perform(FileTask(Copying("deaths"), bad, version="9.9"))
    assert found.ends
    assert fstcrf.__version__ in found.error
    assert "9.9" in found.error
    Path("in/bad").unlink()
    assert perform(tasks([bad])[0]).error == "in/bad: No such file or directory"


def test_a_file_that_changes_meanwhile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = written(a="anna")
    copied = Copying.copied

    def changing(self: Copying, source: str, target: str) -> Any:
        Path(source).write_text("anna and bob")
        return copied(self, source, target)

    monkeypatch.setattr(Copying, "copied", changing)
    assert perform(FileTask(Copying("else"), part)).error == "in/a: was changed while it was read"


# --- Processes ------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_processes_do_all_files() -> None:
    parts = written(**{f"f{i}": f"text {i} slow" for i in range(4)})
    found = list(through_processes(tasks(parts), 2))
    assert {outcome.part for outcome in found} == set(parts)
    assert [Path(part.target).read_text() for part in parts] == [f"TEXT {i} SLOW" for i in range(4)]
    assert len({outcome.counts["process"] for outcome in found}) == 2
    assert os.getpid() not in {outcome.counts["process"] for outcome in found}


def test_a_process_that_is_killed_costs_its_file_a_second_try() -> None:
    parts = written(a="kill", b="anna", c="bob", d="bad")
    found = {one.part.name: one for one in through_processes(tasks(parts), 2)}
    assert {name: one.error for name, one in found.items() if one.error} == {"d": "in/d: is bad"}
    assert Path("out/a").read_text() == "KILL"
    assert len(list(Path("deaths").iterdir())) == 1


def test_a_file_that_kills_every_process_is_given_up() -> None:
    parts = written(a="kill", b="anna")
    found = {one.part.name: one for one in through_processes(tasks(parts, 9), 1)}
    assert found["b"].entry is not None
    assert (
        found["a"].error == "in/a: 3 processes in a row were killed by SIGKILL while it was tagged"
    )
    assert len(list(Path("deaths").iterdir())) == 3


@pytest.mark.thorough
def test_processes_end_with_the_run() -> None:
    parts = written(a="slow", b="slow", c="slow")
    run = through_processes(tasks(parts), 2)
    next(run)
    assert isinstance(run, Iterator)
    run.close()  # type: ignore[attr-defined]
    assert not Path("out/c").exists()


# --- Inputs ---------------------------------------------------------------------------------------


def names(inputs: list[str], folder: str = "out") -> dict[str, str]:
    return {part.name: part.source for part in parts_of(inputs, folder)}


def test_inputs_are_files_patterns_and_folders() -> None:
    Path("in/2024/x").mkdir(parents=True)
    for name in ("in/a.txt", "in/2024/b.txt", "in/2024/x/c.gz", "in/_SUCCESS", "in/.hidden"):
        Path(name).touch()
    assert names(["in/2024/b.txt", "in/a.txt"]) == {"b.txt": "in/2024/b.txt", "a.txt": "in/a.txt"}
    every = {"a.txt": "in/a.txt", "2024/b.txt": "in/2024/b.txt", "2024/x/c.gz": "in/2024/x/c.gz"}
    assert names(["in"]) == names(["in/**"]) == every
    assert names(["in/*.txt"]) == {"a.txt": "in/a.txt"}
    assert names(["i?/**/*.txt"], "elsewhere") == {
        "in/a.txt": "in/a.txt",
        "in/2024/b.txt": "in/2024/b.txt",
    }
    assert names(["in/a.txt", "in/*.txt", "in"]) == every
    assert names(["gone.txt"]) == {"gone.txt": "gone.txt"}  # its task says so


@pytest.mark.parametrize(
    ("inputs", "folder", "error", "words"),
    [
        (["in"], "in", OptionError, "/in is within the input in: give a folder elsewhere"),
        (["in"], "in/out", OptionError, "/in/out is within the input in"),
        (["in/a"], "in", OptionError, "in/a is an input: write the outputs to another folder"),
        (["in/*"], "in", OptionError, r"/in is within the input in/\*"),
        (
            ["in/a", "other/a"],
            "out",
            OptionError,
            "in/a and other/a would both be written to out/a",
        ),
        (["no*"], "out", DataError, r"no\*: no file is called like this"),
        (["deaths"], "out", DataError, "deaths: a folder without files"),
    ],
)
def test_inputs_that_cannot_be(inputs: list[str], folder: str, error: Any, words: str) -> None:
    Path("other").mkdir()
    for name in ("in/a", "other/a"):
        Path(name).touch()
    with pytest.raises(error, match=words):
        parts_of(inputs, folder)


def test_outputs_of_an_earlier_run_are_no_inputs() -> None:
    Path("in/out").mkdir()
    Path("in/a.txt").touch()
    assert names(["in/*.txt"], "in/out") == {"a.txt": "in/a.txt"}
    Path("in/out/a.txt").touch()
    with pytest.raises(OptionError, match="is within the input"):
        parts_of(["in/**/*.txt"], "in/out")


# --- The record -----------------------------------------------------------------------------------

SETTINGS = {"fstcrf": "1", "model": "m", "--nbest": 2}


def recorded(parts: list[TextFile], settings: Any = None, *, overwrite: bool = False) -> list[str]:
    """Do what is left of a folder; return its names."""
    options: Any = {"overwrite": overwrite}
    with Record.opened("out", parts, settings or SETTINGS, **options) as record:
        left = [part for part in parts if not record.has(part)]
        for task in tasks(left):
            entry = perform(task).entry
            assert entry is not None
            record.add(entry)
    return [part.name for part in left]


def test_what_is_finished_is_not_done_again() -> None:
    parts = written(a="anna", b="bob")
    assert recorded(parts) == ["a", "b"]
    assert recorded(parts) == []
    os.utime("in/a", (1, 1))  # as after copying: the content counts
    assert recorded(parts) == []
    Path("in/a").write_text("ANNE")
    assert recorded(parts) == ["a"]
    Path("out/b").unlink()
    assert recorded(parts) == ["b"]
    Path("out/b").write_text("BO")
    assert recorded(parts) == ["b"]
    assert recorded(parts, overwrite=True) == ["a", "b"]


def test_a_line_that_was_cut_short_is_forgotten() -> None:
    parts = written(a="anna", b="bob")
    recorded(parts)
    path = Path("out", RECORD)
    path.write_bytes(path.read_bytes()[:-20])
    assert recorded(parts) == ["b"]
    assert recorded(parts) == []
    path.write_bytes(path.read_bytes()[:10])  # not even the settings
    with pytest.raises(
        OptionError, match="out/a exists already, and no record shows which options produced it"
    ):
        recorded(parts)


def test_other_settings_and_strange_files_are_refused() -> None:
    parts = written(a="anna")
    recorded(parts)
    with pytest.raises(OptionError, match="out: holds files tagged with another model, --bias: "):
        recorded(parts, {"fstcrf": "1", "model": "n", "--nbest": 2, "--bias": [["O", -1.0]]})
    assert recorded(parts, {"model": "n"}, overwrite=True) == ["a"]
    assert recorded(parts, {"model": "n"}) == []
    Path("out", RECORD).write_text("nothing\n")
    with pytest.raises(DataError, match=r"tagged\.jsonl: the record of tagged files is damaged"):
        recorded(parts)
    assert recorded(parts, overwrite=True) == ["a"]


def test_a_line_of_which_the_end_reached_the_disk_first_does_not_count() -> None:
    parts = written(a="anna", b="bob")
    recorded(parts)
    path = Path("out", RECORD)
    data = path.read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1
    torn = data[:start] + bytes(9) + data[start + 9 :]
    path.write_bytes(torn)
    with pytest.warns(RecoveryWarning, match="incomplete entry"):
        assert recorded(parts) == ["b"]
    path.write_bytes(torn + data[start:])
    with pytest.raises(DataError, match="is damaged, and more follows"):
        recorded(parts)


def test_one_run_at_a_time_and_no_leftovers() -> None:
    parts = written(a="anna")
    left, other = Path("out/.a.0.tmp"), Path("out/.other.tmp")
    left.touch()
    other.touch()
    with Record.opened("out", parts, SETTINGS, overwrite=False):
        assert not left.exists()
        assert other.exists()
        with (
            pytest.raises(OptionError, match="out: another run is writing there"),
            Record.opened("out", parts, SETTINGS, overwrite=True),
        ):
            pass


def test_without_dask_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'fstcrf\[dask\]'"):
        connected("tcp://127.0.0.1:1")
