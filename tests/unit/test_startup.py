"""Tagging starts quickly: what it imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fstcrf
from fstcrf.demo import COLUMNS, corpus_path
from fstcrf.taggers import CRF

ROOT = Path(__file__).parents[2]
TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]/%x[0,word]\nU2:%x[0,suffix(word,2)]\nBOS\nEOS\nB\n"
HEAVY = ("scipy", "pynini", "pywrapfst", "rich", "numpy.ma", "safetensors", "lark", "optuna")
UNNEEDED = (
    *("cli", "ext", "recipes", "machines.grammar", "machines.openfst", "machines.plans"),
    *("ext.pipelines.trained", "taggers.batches", "taggers.tagmaps"),
    *("lattices.lattice", "training.loop"),
)
LOOK = """
import sys
import fstcrf
model = fstcrf.load(sys.argv[1])
model.tag([("the", "DET"), ("tide", "NOUN")])
print(*sys.modules)
"""


def test_a_loaded_tagger_imports_nothing_heavy(tmp_path: Path) -> None:
    corpus = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:200]
    model = CRF.train(corpus, "pos", TEMPLATE, method="perceptron", max_iterations=3)
    model.save(tmp_path / "m.fstcrf")
    result = subprocess.run(
        [sys.executable, "-c", LOOK, tmp_path / "m.fstcrf"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert set(result.stdout.split()).isdisjoint([*HEAVY, *(f"fstcrf.{m}" for m in UNNEEDED)])
