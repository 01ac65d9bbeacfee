"""What training is expected to take of memory, and sets of slots that take little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from fstcrf import CRF
from fstcrf.errors import MemoryWarning, OptionError
from fstcrf.ext.papers.errors import MCE
from fstcrf.taggers import training
from fstcrf.training import Chain, Run, memory, structure
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.memory import ExpectedMemory, SweepCounts, free_memory, quasi_newton
from fstcrf.training.support import SlotSets

linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")

DATA = [{"word": ["a", "b", "a"]}, {"word": ["b"]}]
GOLD = [["X", "Y", "X"], ["Y"]]


@linux
def test_it_is_told_before_training() -> None:
    told: list[ExpectedMemory] = []
    iterations: list[int] = []

    def expect(found: ExpectedMemory) -> None:
        assert not iterations
        told.append(found)

    CRF.train(
        DATA,
        GOLD,
        "U:%x[0,word]\nB",
        run=Run(expect=expect, report=lambda progress: iterations.append(progress.iteration)),
    )
    (found,) = told
    assert iterations
    assert found.weights == 4
    assert found.peak > found.added > 0
    assert found.fits
    assert str(found).startswith("4 weights: training takes about ")


@linux
def test_what_it_raises_ends_the_call() -> None:
    def refuse(found: ExpectedMemory) -> None:
        raise MemoryError(str(found))

    with pytest.raises(MemoryError, match="4 weights"):
        CRF.train(DATA, GOLD, "U:%x[0,word]\nB", run=Run(expect=refuse))
    CRF.train(
        DATA, GOLD, "U:%x[0,word]\nB", run=Run(expect=refuse), objective=MCE(psi=1.0)
    )  # not counted


@linux
def test_too_little_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 1_000_000)
    with pytest.warns(MemoryWarning, match="more than now; 1 MB are free"):
        CRF.train(DATA, GOLD, "U:%x[0,word]\nB")


def test_too_many_labels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "free_memory", lambda: 100_000_000)
    gold = [[f"L{i}" for i in range(3000)]]
    with pytest.raises(OptionError, match=r"3,000 labels, such as 'L0': .* 0\.1 GB are free"):
        CRF.train([{"word": ["a"] * 3000}], gold, "U:%x[0,word]\nB")


@pytest.mark.parametrize("features", ["complete", "supported"])
def test_attributes_of_too_many_label_pairs_are_refused(
    features: Literal["complete", "supported"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structure, "free_memory", lambda: 100_000)
    gold = [[f"L{i}" for i in range(50)]]
    data = [{"word": [f"w{i}" for i in range(400)]}]
    with pytest.raises(
        OptionError, match=r"such as 'B:%x\[0,word\]' of line 2, have 399 .* pairs of 50"
    ):
        CRF.train(
            data, [gold[0] * 8], "U:%x[0,word]\nB:%x[0,word]", structure=Chain(pairs=features)
        )


def counts(**given: int) -> SweepCounts:
    plain = {
        "weights": 1000,
        "attributes": 500,
        "tokens": 300,
        "width": 8,
        "row_entries": 2000,
        "single_entries": 1500,
        "shard_rows": 100,
        "shard_singles": 900,
    }
    sizes: dict[str, Any] = {**plain, **given}
    return SweepCounts(**sizes, fused=True, valued=False)


@pytest.mark.parametrize(
    "name", ["weights", "attributes", "tokens", "row_entries", "single_entries", "shard_singles"]
)
def test_more_of_anything_takes_more(name: str) -> None:
    assert counts(**{name: 10_000}).objective(16) > counts().objective(16)


def test_threads_sweep_shards_of_their_own() -> None:
    one, two, many = (counts().objective(16, threads) for threads in (1, 2, 99))
    shard = 2 * 4 * (8 * 100 + 900) // 16
    assert two - one == pytest.approx(5 * shard, abs=64)
    assert many - one == pytest.approx(15 * shard, abs=64)


def test_pairs_are_those_that_iterations_make() -> None:
    told: list[ExpectedMemory] = []
    for most in (2, 30):
        CRF.train(
            *(DATA, GOLD, "U:%x[0,word]\nB"),
            method=LBFGS(stochastic_epochs=0, max_iterations=most),
            run=Run(expect=told.append),
        )
    assert told[0].added < told[1].added


def test_long_vectors_are_remembered_in_16_bits() -> None:
    short, long = (quasi_newton(n, 10, vectors=5) / n for n in (memory.LONG, memory.LONG + 1))
    assert short - long == pytest.approx(40, abs=0.1)


def slow(*options: str) -> list[object]:
    """Cases of the long tests: each takes seconds in a process of its own."""
    return [pytest.param(one, marks=pytest.mark.slow) for one in options]


@linux
@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        "max_iterations=8, l2=0.5, stochastic_epochs=0, threads=2",
        "max_iterations=4, l2=0.5, method='asgd'",
        *slow(
            "max_iterations=14, l1=1.0, l2=0.0",
            "max_iterations=3, order=2, stochastic_epochs=0",
            "max_iterations=14, l2=0.5, stochastic_epochs=0",
            "max_iterations=2, method='perceptron'",
            "max_iterations=2, method='ap'",
            "max_iterations=2, method='pa'",
            "max_iterations=2, method='arow'",
            "max_iterations=2, method='l2sgd'",
            "max_iterations=3, method='cg'",
            "max_iterations=3, method='preconditioned-cg'",
            "max_iterations=3, method='quickprop'",
            "max_iterations=3, method='gis'",
            "max_iterations=3, order=2, method='asgd'",
            "max_iterations=3, scheme='bio', stochastic_epochs=0",
        ),
    ],
)
def test_the_peak_is_as_expected(options: str) -> None:
    peak_is_as_expected(options, sentences=800, values=9000)


@linux
@pytest.mark.thorough
@pytest.mark.parametrize("objective", ["mce-f", *slow("mce")])
@pytest.mark.parametrize(
    "options",
    [
        "max_iterations=4, stochastic_epochs=1, method='quickprop'",
        *slow(
            "max_iterations=12, stochastic_epochs=1",
            "max_iterations=4, stochastic_epochs=0, method='quickprop'",
            "max_iterations=1, method='gpd'",
        ),
    ],
)
def test_the_peak_of_error_counts_is_as_expected(objective: str, options: str) -> None:
    peak_is_as_expected(f"objective={objective!r}, {options}", sentences=200, values=2000)


def peak_is_as_expected(options: str, *, sentences: int, values: int) -> None:
    """Attributes that occur once or twice, in a process of its own."""
    script = f"""
import numpy as np
from pathlib import Path
from fstcrf import CRF
from fstcrf.training.options import structured
rng, told = np.random.default_rng(0), []
data = [[[f"{{k}}={{v}}" for k, v in enumerate(rng.integers(0, {values}, 60))] for _ in range(25)]
        for _ in range({sentences})]
labels = {6 if "order" in options else 20}
gold = [[f"B-{{k}}" for k in rng.integers(0, labels, 25)] for _ in data]
CRF.train(data, **structured(dict(target=gold, expect=told.append, {options})))
lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(told[0].peak / (1024 * int(lines["VmHWM"].split()[0])))  # ru_maxrss begins with the parent's
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("rows", "slots", "width"), [(50, 5, 8), (30, 70, 72), (20, 200, 200), (9, 1, 8), (1, 64, 64)]
)
def test_sets_of_slots(rows: int, slots: int, width: int) -> None:
    rng = np.random.default_rng(rows)
    row, slot = rng.integers(0, rows, 300), rng.integers(0, slots, 300)
    made = SlotSets(rows, slots)
    made.add(row.astype(np.int32), slot)
    cells = np.unique(row * width + slot)
    assert np.array_equal(made.cells(width), cells)
    again = SlotSets.of(cells, rows, slots, width)
    rank, there = again.ranks(row, slot)
    first = np.searchsorted(cells, np.arange(rows + 1) * width)
    assert there.all()
    assert np.array_equal(cells[first[row] + rank], row * width + slot)
    other, its = rng.integers(0, rows, 300), rng.integers(0, slots, 300)
    assert np.array_equal(again.ranks(other, its)[1], np.isin(other * width + its, cells))


def test_free_memory_is_known_here() -> None:
    free = free_memory()
    assert free is None or free > 0
