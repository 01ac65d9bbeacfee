"""Memory does not grow: with sentences tagged, with models loaded and dropped."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fstcrf
from fstcrf import CRF, SegmentCRF, TokenDecoder
from fstcrf.constraints import contiguous
from tests.support.command import ROOT

LABELS = ["A", "B", "C"]
TRAIN = [{"word": [f"w{k}" for k in range(9)], "y": [LABELS[k % 3] for k in range(9)]}]
MB = 1 << 20
ALLOWED = 4 * MB
"""What allocators may keep beyond the first rounds; a leak of 40 bytes a sentence is more."""

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="asks /proc for the memory in use"
)


def resident() -> int:
    """Return the memory of this process that is in use, in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def grown(work: Callable[[], object], times: int, warm: int) -> int:
    """Return by how much memory grows while something is done, after it was done some times.

    The least of up to three rounds: a leak grows in each, an allocator that other tests have left
    in pieces does so once.
    """
    for _ in range(warm):
        work()
    least = 1 << 62
    for _ in range(3):
        before = resident()
        for _ in range(times):
            work()
        least = min(least, resident() - before)
        if least < ALLOWED:
            break
    return least


def test_what_grows_in_each_round_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    monkeypatch.setattr(sys.modules[__name__], "resident", lambda: 100_000 * len(kept))
    assert grown(lambda: kept.append(0), 100, warm=1) == 10_000_000
    once = iter([50 * MB, 0])
    monkeypatch.setattr(sys.modules[__name__], "resident", lambda: -next(once, 0))
    assert grown(lambda: None, 1, warm=0) < 50 * MB


@pytest.mark.thorough
@needs_proc
def test_memory_in_use_is_told() -> None:
    block = 1 << 26
    code = (
        "from tests.unit.test_memory_flat import resident; before = resident(); "
        f"block = b'x' * {block}; print(resident() - before)"
    )  # other tests leave memory that a process of many tests frees at any time
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert int(run.stdout) > block // 2


@pytest.fixture(scope="module")
def tagger() -> CRF:
    return CRF.train(TRAIN, "y", "U:%x[-1..1,word]\nB", max_iterations=3)


def sentences(n: int) -> list[dict[str, list[str]]]:
    return [{"word": [f"w{(i * 7 + k) % 13}" for k in range(1 + i % 9)]} for i in range(n)]


@pytest.mark.thorough
@needs_proc
@pytest.mark.parametrize("n", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_memory_over_many_sentences_is_flat(tagger: CRF, n: int) -> None:
    batch = sentences(1000)
    assert grown(lambda: tagger.tag_all(batch), n // 1000, warm=10) < ALLOWED


@needs_proc
@pytest.mark.thorough
@pytest.mark.parametrize("n", [600, pytest.param(100_000, marks=pytest.mark.slow)])
def test_memory_over_single_sentences_is_flat(tagger: CRF, n: int) -> None:
    under = tagger & contiguous(["A", "B"])
    given = sentences(20)

    def ask() -> None:
        for sentence in given:
            tagger.tag(sentence)
            under.tag(sentence)
            under.marginals_all([sentence])

    assert grown(ask, n // 20, warm=20) < ALLOWED


@pytest.mark.thorough
@needs_proc
@pytest.mark.parametrize("n", [50, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["tagger", "composition", "segments", "decoder"])
def test_models_that_are_dropped_leave_nothing(
    tagger: CRF, kind: str, n: int, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    given = {"word": ["w1", "w2", "w3"]}
    if kind == "decoder":
        bio = contiguous("X")
        TokenDecoder(["O", "B-X", "I-X"], "bio", grammar=bio).save(path)

        def work() -> object:
            return TokenDecoder.load(path).decode([[0.0, 1.0, 0.0]] * 3, [(0, 1), (1, 2), (2, 3)])

    elif kind == "segments":
        rows = [{"word": s["word"], "tag": [f"B-{y}" for y in s["y"]]} for s in TRAIN]
        corpus = fstcrf.Corpus.from_sentences(rows)
        SegmentCRF.train(corpus, "tag", "U:%x[0,word]", max_iterations=1).save(path)

        def work() -> object:
            return SegmentCRF.load(path).tag_all([given])

    else:
        (tagger if kind == "tagger" else tagger & contiguous(["A"])).save(path)

        def work() -> object:
            model = fstcrf.load(path)
            return model.tag(given), model.marginals_all([given])

    assert grown(work, n, warm=20) < ALLOWED
