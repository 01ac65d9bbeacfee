"""Parts of a text in this process, in pools and in processes: the same bits as without any."""

from __future__ import annotations

import gzip
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, kernel
from fstcrf.constraints import at_most
from fstcrf.errors import DataError, OptionError, SchemeError, TemplateError
from fstcrf.ext.parts import texts as spread
from fstcrf.ext.parts import training as distributed
from fstcrf.ext.parts.futures import FuturesExecutor, ProcessExecutor
from fstcrf.ext.parts.spool import ArrayFile, Spool
from fstcrf.text.corpus import collection, read_columns, write_columns
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.text.corpus.corpus import Corpus
from fstcrf.text.features import counting
from fstcrf.training import Run, shards
from fstcrf.training.executors.executor import LocalExecutor
from tests.support.training import flat_train

COLUMNS = ("word", "number", "label")
TEMPLATE = """
U00:%x[-1,word]
U01:%x[0,word]/%x[1,word]
U02:%x{-2..2,word}
B
"""
LONG = "U03:" + "/".join(f"%x[{i},word]" for i in range(-4, 5)) + "\n"  # beyond 63 bits
WORDS = [f"w{i}" for i in range(120)]


def corpus(seed: int, sentences: int, labels: str = "ABC") -> Corpus:
    """Words that tell a label in part."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(sentences):
        n = int(rng.integers(1, 9))
        label = rng.integers(len(labels), size=n)
        word = np.where(rng.random(n) < 0.6, label * 17, rng.integers(len(WORDS), size=n))
        made.append(
            {
                "word": [WORDS[i] for i in word],
                "number": [f"{x:.2f}" for x in rng.random(n)],
                "label": [labels[i] for i in label],
            }
        )
    return Corpus.from_sentences(made)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts and pieces of little text."""
    monkeypatch.setattr(shards, "PART_TOKENS", 300)
    monkeypatch.setattr(shards, "START_TOKENS", 900)
    monkeypatch.setattr(collection, "PIECE_BYTES", 4000)
    monkeypatch.setattr(spread, "_GIVEN_TOKENS", 500)
    monkeypatch.setattr(spread, "_BLOCK_TOKENS", 128)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CorpusFiles:
    """A text in two files, the second compressed."""
    folder = tmp_path_factory.mktemp("text")
    one, two = folder / "one.txt", folder / "two.txt.gz"
    write_columns(corpus(1, 280), one, COLUMNS)
    write_columns(corpus(2, 120), two, COLUMNS)
    return CorpusFiles([one, two], COLUMNS)


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(2) as executor:
        yield executor


def train(data: Any, template: str = TEMPLATE, **options: Any) -> CRF:
    return flat_train(data, "label", template, **{"max_iterations": 6, **options})


def same(one: CRF, other: CRF) -> bool:
    """Are two models the same, bit for bit."""
    pairs = zip(one.index.arrays().items(), other.index.arrays().items(), strict=True)
    assert all(name == again and np.array_equal(a, b) for (name, a), (again, b) in pairs)
    return np.array_equal(one.theta, other.theta) and one.record == other.record


# --- The same bits --------------------------------------------------------------------------------

RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "without a start": {"stochastic_epochs": 0},
    "with a start": {"stochastic_epochs": 3},
    "l1": {"l1": 0.2},
    "frequent": {"min_count": 2, "min_frequency": 1.5},
    "hashed": {"hash_bits": 9},
    "order 2": {"order": 2, "boundary": "skip"},
    "ends": {"ends": True, "pairs": "complete", "transitions": "all", "min_count": 3},
    "observed": {"scheme": "observed"},
    "arcs": {"template": "U:%x[0,word]\nB\nB1:%x[0,word]\n"},
    "values": {"template": "U1:%x[0,word]\nU2:%v[0,number]\nU3:%x[0,word]%v[-1,number]\nB\n"},
    "long keys": {"template": TEMPLATE + LONG},
    "class weights": {"class_weights": {"A": 2.5, "B": 0.3}},
    "grammar": {"grammar": at_most(40, "A")},
    "grammar, with a start": {"grammar": at_most(40, "A"), "stochastic_epochs": 3},
}
SOME = ["plain", "l1", "arcs", "long keys", "values"]


@cache
def without_parts(files: CorpusFiles, name: str = "plain") -> CRF:
    """Return the tagger that is trained without an executor."""
    return train(files, **RUNS[name])


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNS)
def test_parts_here_give_the_same_bits(name: str, files: CorpusFiles) -> None:
    given: dict[str, Any] = {"executor": LocalExecutor(), **RUNS[name]}
    assert same(train(files, **given), without_parts(files, name))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in SOME)) for name in RUNS]
)
def test_texts_and_limits_of_memory_give_the_same_bits(name: str, files: CorpusFiles) -> None:
    one, options = without_parts(files, name), RUNS[name]
    assert same(train(files.read(), executor=LocalExecutor(), **options), one)
    assert same(train(files, memory_limit=1 << 30, **options), one)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOME)
def test_processes_give_the_same_bits(
    name: str, files: CorpusFiles, processes: ProcessExecutor
) -> None:
    assert same(train(files, executor=processes, **RUNS[name]), without_parts(files, name))


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_any_number_of_workers_gives_the_same_bits(workers: int, files: CorpusFiles) -> None:
    one = without_parts(files)
    with ThreadPoolExecutor(workers) as pool:
        assert same(train(files, executor=FuturesExecutor(pool, workers=workers)), one)
        assert same(train(files, executor=FuturesExecutor([pool] * workers)), one)


class Applying:
    """A pool as of multiprocessing, and Ray's."""

    def apply_async(self, function: Any, args: tuple[Any, ...]) -> Any:
        value = function(*args)

        class Found:
            def get(self) -> Any:
                return value

        return Found()


def test_a_pool_may_have_apply_async(files: CorpusFiles) -> None:
    executor = FuturesExecutor(Applying(), workers=2)
    assert same(train(files, executor=executor), without_parts(files))
    executor.close()
    with pytest.raises(OptionError, match="a pool is int, expected one with submit"):
        FuturesExecutor(3)


@pytest.mark.thorough
def test_partial_labels_weights_and_sequences(files: CorpusFiles) -> None:
    text = files.read()
    labels = text.column_lists("label")
    labels[3] = ["_"] * len(labels[3])
    labels[300] = ["A|B"] * len(labels[300])
    weights = np.random.default_rng(0).random(len(text))
    options: dict[str, Any] = {"weights": weights, "max_iterations": 8, "partial": True}
    one = flat_train(text, labels, TEMPLATE, **options)
    for more in ({"executor": LocalExecutor()}, {"memory_limit": 1 << 30}):
        assert same(flat_train(text, labels, TEMPLATE, **options, **more), one)


@pytest.mark.thorough
def test_threads_and_held_out_text(files: CorpusFiles) -> None:
    dev = corpus(9, 60)
    one = train(files, dev=dev)
    assert same(train(files, dev=dev, threads=2), one)
    assert same(train(files, dev=dev, threads=2, executor=LocalExecutor()), one)


@pytest.mark.parametrize("on_illegal", ["repair", "skip"])
def test_labels_under_a_scheme(tmp_path: Path, on_illegal: str) -> None:
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(300):
        labels = rng.choice(["B-X", "I-X", "O", "B-Y", "I-Y"], size=int(rng.integers(1, 6)))
        rows += [f"{rng.choice(WORDS)} 1 {label}" for label in labels] + [""]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(rows) + "\n")
    files = CorpusFiles([path], COLUMNS)
    with pytest.raises(SchemeError, match=r"text.txt:\d+: .*illegal labels"):
        train(files, scheme="iob2", executor=LocalExecutor())
    options: dict[str, Any] = {"scheme": "iob2:bioes", "on_illegal": on_illegal}
    with pytest.warns(UserWarning, match="sentences, whose labels are no iob2") as plain:
        one = train(files, **options)
    with pytest.warns(UserWarning, match="sentences, whose labels are no iob2") as spoken:
        other = train(files, executor=LocalExecutor(), **options)
    assert same(other, one)
    assert str(plain[0].message) == str(spoken[0].message)


def test_a_label_that_one_part_has(tmp_path: Path) -> None:
    write_columns(corpus(1, 300), tmp_path / "a.txt", COLUMNS)
    write_columns(corpus(2, 50, "ABZ"), tmp_path / "b.txt", COLUMNS)
    files = CorpusFiles([tmp_path / "a.txt", tmp_path / "b.txt"], COLUMNS)
    other = train(files, executor=LocalExecutor())
    assert other.labels == ("A", "B", "C", "Z")
    assert same(other, train(files))


def test_conllu_in_pieces(tmp_path: Path) -> None:
    rows = []
    for k, sentence in enumerate(corpus(3, 300)):
        rows.append(f"# sent_id = {k}")
        for i, (word, label) in enumerate(zip(sentence["word"], sentence["label"], strict=True), 1):
            rows.append(f"{i}\t{word}\t_\t{label}\t_\t_\t_\t_\t_\t_")
        rows.append("")
    (tmp_path / "a.conllu").write_text("\n".join(rows) + "\n")
    with gzip.open(tmp_path / "b.conllu.gz", "wt") as file:
        file.write("\n".join(rows) + "\n")
    files = CorpusFiles([tmp_path / "a.conllu", tmp_path / "b.conllu.gz"])
    template = "U1:%x[0,form]\nU2:%x[-1,form]\nB\n"
    one = CRF.train(files, "upos", template, max_iterations=5)
    other = CRF.train(files, "upos", template, max_iterations=5, run=Run(executor=LocalExecutor()))
    assert same(other, one)


# --- Pieces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [None, "\r\n", "\r"])
@pytest.mark.parametrize("chunk", [1, 3, 1 << 16])
@pytest.mark.parametrize("size", [1, 7, 50, 100_000])
def test_pieces_are_the_whole(
    tmp_path: Path, monkeypatch: Any, size: int, chunk: int, end: str | None
) -> None:
    monkeypatch.setattr(collection, "PIECE_BYTES", size)
    monkeypatch.setattr(collection, "CHUNK_BYTES", chunk)
    text = "a 1 x\nb 2 y\n\n\n \nc 3 x\r\n\r\nd 4 y\n\ne 5 x"
    text = text if end is None else text.replace("\r", "").replace("\n", end)
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode())
    files = CorpusFiles([path], COLUMNS)
    found = [files.read_piece(piece) for piece in files.pieces(str(path))]
    sentences = [list(s["word"]) for part in found for s in part]
    assert sentences == [["a", "b"], ["c"], ["d"], ["e"]]


def test_an_error_in_a_piece_names_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a 1 x\n\n" * 900 + "b 2\n" + "\na 1 x\n" * 50)
    files = CorpusFiles([path], COLUMNS)
    with pytest.raises(DataError, match=r"text.txt:1801: 2 columns, expected 3") as here:
        files.read()
    with pytest.raises(DataError) as there:
        train(files, executor=LocalExecutor())
    assert str(there.value) == str(here.value)


# --- Counting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [16, 4096, 1 << 20])
def test_keys_are_counted_exactly_in_files(tmp_path: Path, budget: int) -> None:
    rng = np.random.default_rng(0)
    drawn: list[list[int]] = [[], []]
    with counting.KeyCounter(2, budget=budget, folder=str(tmp_path)) as counter:
        count(counter, drawn, rng)
        for family in range(2):
            for least in (1, 14):
                keys, counts = np.unique(np.asarray(drawn[family], np.uint64), return_counts=True)
                assert np.array_equal(counter.frequent(family, least), keys[counts >= least])
        assert not list(tmp_path.iterdir())  # files have no names


def count(counter: counting.KeyCounter, drawn: list[list[int]], rng: np.random.Generator) -> None:
    for _ in range(30):
        found = []
        for family in range(2):
            keys = rng.integers(1 << 62, size=90) if family else rng.integers(200, size=90)
            drawn[family] += keys.tolist()
            unique, counts = np.unique(keys.astype(np.uint64), return_counts=True)
            found.append((unique, counts.astype(np.int64)))
        counter.add(found)


# --- What goes wrong ------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_worker_that_is_killed_costs_its_parts_only(files: CorpusFiles) -> None:
    one = without_parts(files)
    with ProcessExecutor(2) as executor:
        pids, killed = executor.pids, list[int]()

        def report(progress: Any) -> None:
            if progress.iteration in (2, 4):
                killed.append(executor.pids[number := progress.iteration // 4])
                last = executor._made[number].submit(time.sleep, 60)
                os.kill(killed[-1], signal.SIGKILL)
                assert not number or last.exception()  # the pool notices it before the next call

        assert same(train(files, executor=executor, report=report), one)
        assert len(set(killed)) == 2
        assert not set(killed) & set(executor.pids)
        assert set(killed) & set(pids)


@pytest.mark.thorough
def test_a_run_goes_on_from_its_checkpoint_with_other_workers(
    tmp_path: Path, files: CorpusFiles, processes: ProcessExecutor
) -> None:
    one = without_parts(files)
    path = tmp_path / "state"
    train(files, checkpoint=path, max_iterations=4, executor=LocalExecutor())
    assert same(train(files, checkpoint=path, resume=True, executor=processes), one)
    other = tmp_path / "other"
    train(files, checkpoint=other, max_iterations=4)
    assert same(train(files, checkpoint=other, resume=True, memory_limit=1 << 30), one)


def test_the_variant_of_the_kernel_is_kept_on_resuming(
    tmp_path: Path, files: CorpusFiles, processes: ProcessExecutor
) -> None:
    path, usual = tmp_path / "state", kernel.variant()
    kernel.use("base")
    try:
        train(files, checkpoint=path, max_iterations=4)
        one = train(files)
    finally:
        kernel.use(usual)
    assert same(train(files, checkpoint=path, resume=True, executor=processes), one)
    assert kernel.variant() == usual

    class Old(LocalExecutor):
        def variants(self) -> tuple[str, ...]:
            return ("v9",)

    with pytest.raises(OptionError, match="kernel variant 'base', which not all workers have"):
        train(files, checkpoint=path, resume=True, executor=Old())


def test_what_needs_all_of_the_text_is_refused(
    files: CorpusFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = LocalExecutor()
    with pytest.raises(OptionError, match="method 'asgd' needs all of the text in memory"):
        train(files, executor=here, method="asgd")
    with pytest.raises(OptionError, match="objective 'mce' needs all of the text in memory"):
        train(files, executor=here, objective="mce")
    with pytest.raises(OptionError, match="start needs all of the text in memory"):
        train(files, executor=here, start=train(files, max_iterations=1))
    with pytest.raises(OptionError, match="attribute lists are trained on in memory"):
        CRF.train([[["a"]]], [["x"]], "U:%x[0,word]", run=Run(executor=here))
    with pytest.raises(OptionError, match="a memory limit of 1 MiB"):
        train(files, memory_limit=1 << 20)
    with pytest.raises(OptionError, match=r"a memory limit of 1\.5 KiB is too low: one part"):
        train(files, memory_limit=1536)
    monkeypatch.setattr(distributed, "_ENTRY_BYTES", 10**6)
    with pytest.raises(OptionError, match="a memory limit of 256 MiB is too low: one part"):
        train(files, memory_limit=1 << 28)
    with pytest.raises(TemplateError, match="a template reads the target column 'label' itself"):
        train(files, "U:%x[0,label]\n", executor=here)
    with pytest.raises(TemplateError, match="reads the labels of 'pos', and reads= lacks"):
        train(files, "U:%y[0,pos]\n", executor=here)
    with pytest.raises(OptionError, match="workers is 0"):
        ProcessExecutor(0)


def test_files_that_do_not_go_together(tmp_path: Path) -> None:
    write_columns(corpus(1, 30), tmp_path / "a.txt", COLUMNS)
    here = LocalExecutor()
    with pytest.raises(OptionError, match="files are columns and conllu"):
        CorpusFiles([tmp_path / "a.txt", tmp_path / "b.conllu"], COLUMNS)
    with pytest.raises(OptionError, match="need names of their columns"):
        CorpusFiles([tmp_path / "a.txt"])
    with pytest.raises(TemplateError, match=r"a.txt"):
        train(CorpusFiles([tmp_path / "a.txt"], COLUMNS), "U:%x[0,pos]\n", executor=here)
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(DataError, match="no sentence to train on"):
        train(CorpusFiles([tmp_path / "empty.txt"], COLUMNS), executor=here)
    both = CorpusFiles([tmp_path / "empty.txt", tmp_path / "a.txt"], COLUMNS)
    alone = CorpusFiles([tmp_path / "a.txt"], COLUMNS)
    assert same(train(both, executor=here), train(alone))
    with pytest.raises(OSError, match=r"none.txt"):
        train(CorpusFiles([tmp_path / "none.txt"], COLUMNS), executor=here)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system cannot be told")
def test_files_of_parts_are_read_ahead_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    tell = os.posix_fadvise

    def recorded(file: int, start: int, size: int, advice: int) -> None:
        told.append((start, size))
        tell(file, start, size, advice)

    monkeypatch.setattr(os, "posix_fadvise", recorded)
    open_ones = Path("/proc/self/fd")
    before = len([*open_ones.iterdir()]) if open_ones.exists() else 0
    spool = Spool(str(tmp_path))
    given = np.arange(100_000)
    found, nothing = spool.put(given, None)
    assert nothing is None
    assert not list(tmp_path.iterdir())
    spool.ready()
    assert spool._reader is not None
    spool._reader.join()
    assert [start for start, _ in told] == [*range(0, given.nbytes, told[0][1])]
    for _ in range(2):  # it may rest before all is read, and be asked again
        spool.ready()
        spool.rest()
        assert np.array_equal(found, given)
    del found, spool
    if before:
        assert len([*open_ones.iterdir()]) == before


def test_a_full_disk_names_folder_and_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, array: Any) -> None:
        with self._blamed():
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(ArrayFile, "append", full)
    with pytest.raises(DataError, match=r"cannot be kept there on .*: No space left"):
        train(corpus(1, 30), memory_limit=1 << 30)


def test_read_columns_is_what_files_read(files: CorpusFiles) -> None:
    text = files.read()
    first = read_columns(str(files.paths[0]), COLUMNS)
    assert text[: len(first)].column_lists("word") == first.column_lists("word")
