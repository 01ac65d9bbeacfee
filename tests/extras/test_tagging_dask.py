"""``fstcrf tag`` by workers of Dask and processes: real ones, some of them killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf.ext.cluster.files import RECORD
from tests.support.command import failure, run, start
from tests.support.dask_cluster import Cluster

pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
pytest.importorskip("distributed")

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]

SENTENCES = [["Anna", "Lee", "met", "Bob"], [], ["it", "rained"], ["Bob", "slept", "."]]
LABELS = [["B-PER", "I-PER", "O", "B-PER"], [], ["O", "O"], ["B-PER", "O", "O"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "m.fstcrf"
    data = [{"word": words} for words in SENTENCES]
    fstcrf.CRF.train(data, LABELS, "U:%x[0,word]\nU1:%x[-1,word]\nB", l2=0.1).save(path)
    return str(path)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("dask")) as one:
        one.worker()
        one.worker()
        yield one


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()


def parts(count: int, copies: int = 1) -> None:
    for k in range(count):
        table = pa.table({"id": range(k, k + 4 * copies), "tokens": SENTENCES * copies})
        pq.write_table(table, f"in/{k:02}.parquet", row_group_size=3)


def same(folder: str, other: str) -> bool:
    """Are two folders the same but for their records?"""
    found = [
        {p.name: p.read_bytes() for p in Path(f).rglob("*.*") if not p.name.startswith(".")}
        for f in (folder, other)
    ]
    return bool(found[0]) and found[0] == found[1]


def waited(until: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def outputs(folder: str) -> list[str]:
    return sorted(p.name for p in Path(folder).glob("*.parquet"))


# --- The same, whoever does it --------------------------------------------------------------------


def test_workers_and_processes_write_the_same(cluster: Cluster, model: str) -> None:
    parts(5)
    Path("in/text.txt").write_text("Anna\nslept\n\n")
    for folder, how in (
        ("here", []),
        ("processes", ["--workers", "2"]),
        ("dask", ["--set", f"dask={cluster.address}"]),
    ):
        result = run("tag", model, "in", "-o", folder, *how)
        assert result.exit_code == 0, result.stderr
        assert result.stderr == f"fstcrf: {folder}: 6 files, 21 sentences\n"
    assert same("here", "processes")
    assert same("here", "dask")
    found = pq.read_table("here/02.parquet").to_pydict()
    assert (found["labels"], found["id"]) == (LABELS, [2, 3, 4, 5])
    again = run("tag", model, "in", "-o", "processes", "--set", f"dask={cluster.address}")
    assert again.stderr == "fstcrf: processes: 0 files, 0 sentences, 6 were finished before\n"


def test_progress_counts_within_files(
    cluster: Cluster, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fstcrf.cli.progress.SOON", 0.1)
    monkeypatch.setattr("fstcrf.cli.progress._LONGEST", 0.1)
    parts(1)
    table = pq.read_table("in/00.parquet")
    pq.write_table(pa.concat_tables([table] * 100_000), "in/00.parquet")
    Path("in/text.txt").write_text("Anna\nslept\n\n" * 200_000)
    result = run("tag", model, "in", "-o", "out", "--set", f"dask={cluster.address}", "--progress")
    assert result.exit_code == 0, result.stderr
    found = re.findall(r"tagging 2 files: ([0-9,]+) sentences, .* (\d+) %", result.stderr)
    assert len({sentences for sentences, _ in found}) > 2
    shares = [int(share) for _, share in found]
    assert shares == sorted(shares)
    assert result.stderr.endswith("out: 2 files, 600,000 sentences\n")


def test_options_reach_the_workers(cluster: Cluster, model: str) -> None:
    parts(2)
    Path("g.grm").write_text('export G = at_most[1, "PER"];\n')
    options = ("--grammar", "g.grm", "--probabilities", "--min-confidence", "0.6")
    for folder, how in (("here", []), ("dask", ["--set", f"dask={cluster.address}"])):
        result = run("tag", model, "in", "-o", folder, *options, *how)
        assert result.exit_code == 0, result.stderr
    assert same("here", "dask")
    assert pq.read_table("here/00.parquet")["labels"].to_pylist() != LABELS


def test_files_that_fail_are_named(cluster: Cluster, model: str) -> None:
    parts(2)
    pq.write_table(pa.table({"id": [1], "words": [["Anna"]]}), "in/02.parquet")
    pq.write_table(pa.table({"id": [1], "text": ["Anna slept"]}), "in/03.parquet")
    Path("in/04.parquet").touch()
    Path("in/05.parquet").write_bytes(Path("in/00.parquet").read_bytes()[:-30])
    pq.write_table(pa.table({"tokens": [[["Anna"]]]}), "in/06.parquet")
    pq.write_table(pa.table({"tokens": pa.array([], pa.list_(pa.string()))}), "in/07.parquet")
    pq.write_table(pa.table({"other": ["x"], "tokens": [["Anna"]]}), "in/08.parquet")
    there = ["--set", f"dask={cluster.address}"]
    for folder, how in (("out", there), ("here", ["--workers", "1"])):
        result = run("tag", model, "in", "-o", folder, *how)
        assert result.exit_code == 1
        assert outputs(folder) == ["00.parquet", "01.parquet", "07.parquet", "08.parquet"]
        *told, last = result.stderr.splitlines()
        assert last.startswith(
            "fstcrf: error: 5 of 9 files could not be tagged (see the errors above)"
        )
        for name, why in (
            ("02", "the sentences are in column words, but in tokens in earlier files: "),
            ("03", "the sentences are in column text, but in tokens in earlier files: "),
            ("04", "no sound Parquet file: "),
            ("05", "no sound Parquet file: "),
            ("06", "'word' is list"),
        ):
            assert len([x for x in told if f"in/{name}.parquet" in x and why in x]) == 1, told
        warned = "2 files have other columns than the first; each output has those of its input"
        assert told[-1] == f"fstcrf: warning: {warned}"
        assert len(told) == 6
    assert same("out", "here")
    assert len(pq.read_table("out/07.parquet")) == 0
    assert pq.read_table("out/08.parquet").schema.names[:2] == ["other", "tokens"]


# --- Workers that are killed ----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["dask", "processes"])
def test_the_files_of_a_worker_that_is_killed_are_done_again(
    cluster: Cluster, model: str, how: str
) -> None:
    parts(12, 2000)
    who = ["--set", f"dask={cluster.address}"] if how == "dask" else ["--workers", "2"]
    process = start("tag", model, "in", "-o", "out", *who)
    waited(lambda: len(outputs("out")) >= 2)
    if how == "dask":
        victim = cluster.processes.pop()
        victim.kill()
        victim.wait()
    else:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
    assert len(outputs("out")) < 12
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    assert told == "fstcrf: out: 12 files, 96,000 sentences\n"
    if how == "dask":
        cluster.worker()
    assert run("tag", model, "in", "-o", "here").exit_code == 0
    assert same("out", "here")
    assert not list(Path("out").glob(".*.tmp"))


def test_a_client_that_is_killed_leaves_what_is_done(cluster: Cluster, model: str) -> None:
    parts(12, 2000)
    process = start("tag", model, "in", "-o", "out", "--set", f"dask={cluster.address}")
    waited(lambda: len(outputs("out")) >= 2)
    process.kill()
    process.communicate()
    result = run("tag", model, "in", "-o", "out", "--set", f"dask={cluster.address}")
    assert result.exit_code == 0, result.stderr
    assert "were finished before" in result.stderr
    assert len(outputs("out")) == 12


def test_a_scheduler_that_dies_ends_the_run(tmp_path: Path, model: str) -> None:
    parts(12, 2000)
    with Cluster(tmp_path) as other:
        other.worker()
        process = start("tag", model, "in", "-o", "out", "--set", f"dask={other.address}")
        record = Path("out", RECORD)
        waited(lambda: record.exists() and record.read_bytes().count(b"\n") > 1)
        scheduler = other.processes.pop(0)
        scheduler.kill()
        scheduler.wait()
        _, told = process.communicate(timeout=90)
    assert process.returncode == 1
    assert told == (
        "fstcrf: error: the scheduler is gone, or was started anew; the same command goes on from "
        "here\n"
    )
    assert "were finished before" in run("tag", model, "in", "-o", "out").stderr


# --- Clusters that are not as they should be ------------------------------------------------------


def test_an_address_where_nothing_answers(model: str) -> None:
    parts(1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = time.monotonic()
    told = failure("tag", model, "in", "-o", "out", "--set", f"dask=tcp://127.0.0.1:{port}")
    assert told.startswith(f"no scheduler of Dask answers at tcp://127.0.0.1:{port} within 5 s: ")
    assert time.monotonic() - started < 20
    assert not Path("out").exists()
    told = failure("tag", model, "in", "-o", "out", "--set", "dask=nowhere", status=2)
    assert told.startswith(
        "'nowhere' is not the address of a scheduler, expected for example tcp://"
    )


@pytest.mark.parametrize(
    ("preload", "words"),
    [
        (None, "the scheduler at {address} has 0 workers, 1 is needed: start them by 'dask worker"),
        ("import fstcrf; fstcrf.__version__ = '9.9'", "has fstcrf 9.9, here is {version}: "),
        (
            "import sys; sys.modules['fstcrf'] = None",
            "has no fstcrf (import of fstcrf halted; None in sys.modules), ",
        ),
    ],
)
def test_unfit_workers_are_refused(
    tmp_path: Path, model: str, preload: str | None, words: str
) -> None:
    parts(1)
    with Cluster(tmp_path) as other:
        if preload is not None:
            other.worker("--preload", preload)
        told = failure("tag", model, "in", "-o", "out", "--set", f"dask={other.address}")
        if preload is not None:
            assert told.startswith(f"worker {other.workers()[0]} ")
        assert words.format(address=other.address, version=fstcrf.__version__) in told
    assert not Path("out").exists()


def test_a_model_that_changes_is_refused(cluster: Cluster, model: str) -> None:
    from fstcrf.ext.cluster.client import through_dask
    from fstcrf.ext.cluster.command import _TagJob
    from fstcrf.ext.cluster.connection import connected
    from fstcrf.ext.cluster.files import parts_of
    from fstcrf.ext.cluster.work import FileTask

    parts(1)
    (part,) = parts_of(["in"], "out")
    job = _TagJob(model, (), None, ((model, "0" * 64),))
    with connected(cluster.address) as client:
        (outcome,) = through_dask(client, [FileTask(job, part)])
    assert outcome.ends
    assert outcome.where.startswith("worker tcp://")
    assert outcome.error is not None
    assert outcome.error.startswith(f"{model}: differs from the file on the machine that started")
