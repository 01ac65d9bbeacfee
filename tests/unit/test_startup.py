"""Tagging starts quickly: what it imports, and that threads do not change its answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fstcrf
from fstcrf.demo import COLUMNS, corpus_path
from fstcrf.taggers import CRF
from fstcrf.text.features import FeatureIndex

ROOT = Path(__file__).parents[2]
TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]/%x[0,word]\nU2:%x[0,suffix(word,2)]\nBOS\nEOS\nB\n"
HEAVY = ("scipy", "pynini", "pywrapfst", "rich", "numpy.ma", "safetensors", "lark", "optuna")
UNNEEDED = (
    *("cli", "ext", "recipes", "machines.grammar", "machines.openfst", "machines.plans"),
    *("taggers.pipelines.trained", "taggers.batches", "taggers.chainlattice", "taggers.composing"),
    *("lattices.lattice", "training.loop"),
)
LOOK = """
import sys
import fstcrf
model = fstcrf.load(sys.argv[1])
model.tag([("the", "DET"), ("tide", "NOUN")])
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def corpus() -> fstcrf.Corpus:
    return fstcrf.read_columns(corpus_path("train"), COLUMNS)


@pytest.fixture(scope="module")
def model(corpus: fstcrf.Corpus) -> CRF:
    return CRF.train(corpus[:200], "pos", TEMPLATE, method="perceptron", max_iterations=3)


def test_a_loaded_tagger_imports_nothing_heavy(model: CRF, tmp_path: Path) -> None:
    model.save(tmp_path / "m.fstcrf")
    result = subprocess.run(
        [sys.executable, "-c", LOOK, tmp_path / "m.fstcrf"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert set(result.stdout.split()).isdisjoint([*HEAVY, *(f"fstcrf.{m}" for m in UNNEEDED)])


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_do_not_change_the_answer(
    model: CRF, corpus: fstcrf.Corpus, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fstcrf.taggers.model.decoding.RUN_TOKENS", 500)
    one, many = (model.marginals_all(corpus, threads=n) for n in (1, threads))
    assert all(np.array_equal(a, b) for a, b in zip(one, many, strict=True))
    assert model.tag_all(corpus, threads=1) == model.tag_all(corpus, threads=threads)


def test_a_column_holds_what_lists_hold(model: CRF, corpus: fstcrf.Corpus) -> None:
    column = model.tag_column(corpus)
    assert corpus.with_interned("%0", column).column_lists("%0") == model.tag_all(corpus)


def test_potentials_are_those_of_the_full_table(model: CRF, corpus: fstcrf.Corpus) -> None:
    assert isinstance(model.index, FeatureIndex)
    rows = model.index.design(corpus[3:4]).node
    table = model.tables.node[:, : len(model.labels)]
    expected = [
        table[rows.index[a:b]].sum(axis=0)
        for a, b in zip(rows.indptr, rows.indptr[1:], strict=False)
    ]
    lattice = model.lattice(corpus[3])
    np.testing.assert_allclose(lattice.values[0], expected, rtol=1e-12, atol=1e-12)
