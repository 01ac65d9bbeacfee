"""Training on the workers of Dask: the same bits as here, whatever happens to workers."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF
from fstcrf.errors import ClusterError, DataError
from fstcrf.ext.cluster.connection import connected
from fstcrf.ext.cluster.dask import DaskExecutor
from fstcrf.text.corpus import Corpus, write_columns
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.training import shards
from tests.support.command import failure, run
from tests.support.dask_cluster import Cluster
from tests.support.training import flat_train

distributed = pytest.importorskip("distributed")

COLUMNS = ("word", "label")
TEMPLATE = "U00:%x[-1,word]\nU01:%x[0,word]\nU02:%x[0,word]/%x[1,word]\nB\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts of little text; workers are told where they end."""
    monkeypatch.setattr(shards, "PART_TOKENS", 300)
    monkeypatch.setattr(shards, "START_TOKENS", 900)


@pytest.fixture
def files(tmp_path: Path) -> CorpusFiles:
    rng = np.random.default_rng(0)
    for name in ("a.txt", "b.txt.gz"):
        made = []
        for _ in range(400):
            label = rng.integers(4, size=int(rng.integers(1, 9)))
            word = np.where(rng.random(len(label)) < 0.6, label, rng.integers(90, size=len(label)))
            made.append({"word": [f"w{i}" for i in word], "label": ["ABCD"[i] for i in label]})
        write_columns(Corpus.from_sentences(made), tmp_path / name, COLUMNS)
    return CorpusFiles([tmp_path / "a.txt", tmp_path / "b.txt.gz"], COLUMNS)


def train(data: Any, **options: Any) -> CRF:
    return flat_train(data, "label", TEMPLATE, max_iterations=12, **options)


def same(one: CRF, other: CRF) -> bool:
    pairs = zip(one.index.arrays().items(), other.index.arrays().items(), strict=True)
    assert all(name == again and np.array_equal(a, b) for (name, a), (again, b) in pairs)
    return np.array_equal(one.theta, other.theta) and one.record == other.record


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler and workers that are started by hand."""
    with Cluster(tmp_path) as made:
        yield made


# --- The same bits --------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1, 2, 3])
def cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=request.param, threads_per_worker=2, dashboard_address=None
    ) as made:
        yield made


def test_any_number_of_workers_gives_the_same_bits(cluster: Any, files: CorpusFiles) -> None:
    one = train(files)
    with distributed.Client(cluster) as client, DaskExecutor(client) as executor:
        assert same(train(files, executor=executor), one)
        assert same(train(files.read(), executor=executor), one)
        sparse = train(files, l1=0.3, min_count=2)
        assert same(train(files, l1=0.3, min_count=2, executor=executor), sparse)


def test_workers_that_are_killed_cost_their_parts_only(hand: Cluster, files: CorpusFiles) -> None:
    one = train(files)
    processes = [hand.worker(), hand.worker()]
    with DaskExecutor(hand.address, workers=2, seconds=60) as executor:

        def report(progress: Any) -> None:
            if progress.iteration == 4:
                hand.processes.remove(processes[0])
                processes[0].send_signal(signal.SIGKILL)
            if progress.iteration == 6:
                hand.worker()
                executor.client.wait_for_workers(2)
                processes[1].send_signal(signal.SIGKILL)

        assert same(train(files, executor=executor, report=report), one)
    assert [process.wait() for process in processes] == [-signal.SIGKILL] * 2


def test_a_scheduler_that_dies_ends_the_run_and_another_goes_on(
    tmp_path: Path, hand: Cluster, files: CorpusFiles
) -> None:
    one, state = train(files), tmp_path / "state"
    dead: list[subprocess.Popen[bytes]] = []
    hand.worker()

    def report(progress: Any) -> None:
        if progress.iteration == 5:
            dead.append(hand.processes.pop(0))
            dead[0].kill()

    with (
        DaskExecutor(hand.address, seconds=60) as executor,
        pytest.raises(ClusterError, match=r"is gone .*go on from the checkpoint by resume"),
    ):
        train(files, executor=executor, checkpoint=state, checkpoint_every=2, report=report)
    dead[0].wait()
    (tmp_path / "other").mkdir()
    with Cluster(tmp_path / "other") as other:
        other.worker()
        with DaskExecutor(other.address, seconds=60) as executor:
            again = train(
                files, executor=executor, checkpoint=state, checkpoint_every=2, resume=True
            )
    assert same(again, one)


# --- What goes wrong ------------------------------------------------------------------------------


def test_an_address_where_nothing_answers_is_told_within_seconds(hand: Cluster) -> None:
    started = time.monotonic()
    with pytest.raises(ClusterError, match=r"no scheduler of Dask answers at tcp://127.0.0.1:9 "):
        connected("tcp://127.0.0.1:9", seconds=1.0)
    with pytest.raises(ClusterError, match="has 0 workers, 1 is needed: start them by 'dask work"):
        DaskExecutor(hand.address, seconds=1.0)
    assert time.monotonic() - started < 20


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, hand: Cluster) -> None:
    hand.worker()
    bad = tmp_path / "bad.txt"
    bad.write_text("a A\n\n" * 50 + "b\n\n")
    cut = tmp_path / "cut.txt.gz"
    write_columns(Corpus.from_sentences([{"word": ["a"], "label": ["A"]}] * 9), cut, COLUMNS)
    cut.write_bytes(cut.read_bytes()[:-12])
    with DaskExecutor(hand.address, seconds=60) as executor:
        with pytest.raises(DataError, match=r"bad.txt:101: 1 column"):
            train(CorpusFiles([bad], COLUMNS), executor=executor)
        with pytest.raises(DataError, match=r"cut.txt.gz: damaged gzip file"):
            train(CorpusFiles([cut], COLUMNS), executor=executor)
        with pytest.raises(OSError, match=r"none.txt"):
            train(CorpusFiles([tmp_path / "none.txt"], COLUMNS), executor=executor)


def test_the_command_line(tmp_path: Path, hand: Cluster, files: CorpusFiles) -> None:
    hand.worker()
    template = tmp_path / "t.tpl"
    template.write_text(TEMPLATE)
    options = ["--columns", "word,label", "--target", "label", "--template", template]
    options += ["--max-iterations", "8"]
    here, there = tmp_path / "here.fstcrf", tmp_path / "there.fstcrf"
    for output, more in ((here, []), (there, ["--set", f"dask={hand.address}"])):
        result = run("train", *files.paths, "-o", output, *options, *more)
        assert result.exit_code == 0, result.stderr
    assert here.read_bytes() == there.read_bytes()
    said = failure("train", *files.paths, "-o", there, *options, "--set", "dask=tcp://127.0.0.1:9")
    assert said.startswith("no scheduler of Dask answers at tcp://127.0.0.1:9 within 5 s")


def test_parquet_files(tmp_path: Path, files: CorpusFiles, monkeypatch: Any) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    from fstcrf.training.executors import LocalExecutor

    text = files.read()
    table = arrow.table({name: text.column_lists(name) for name in COLUMNS})
    path = tmp_path / "text.parquet"
    parquet.write_table(table, path, row_group_size=100)
    found = CorpusFiles([path])
    one = train(found)
    assert np.array_equal(one.theta, train(files).theta)
    assert same(train(found, executor=LocalExecutor()), one)
    with pytest.raises(DataError, match=r"text.parquet: no column 'pos'; there are 'word'"):
        CorpusFiles([path], ("pos",)).read()
    (tmp_path / "no.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match=r"no.parquet: no sound Parquet file"):
        CorpusFiles([tmp_path / "no.parquet"]).read()
    other = arrow.table({"word": [["a"]], "label": ["A"]})
    parquet.write_table(other, tmp_path / "flat.parquet")
    with pytest.raises(
        DataError, match=r"flat.parquet: column 'label' holds string, expected list"
    ):
        CorpusFiles([tmp_path / "flat.parquet"]).read()
