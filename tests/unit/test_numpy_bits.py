"""Which answers depend on NumPy: those that are promised not to, where its loops are others."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, SegmentCRF
from fstcrf.ext.lexicon import Characters, Entry, Lexicon
from fstcrf.ext.rules import learn_rules
from fstcrf.ext.words import Annotation, LatticeCRF, Words
from fstcrf.training.preconditioning import units_of
from tests.support.training import flat_train
from tests.support.wordlists import KINDS, RANGES, UNKNOWN

ROOT = Path(__file__).parents[2]
TEMPLATE = "U1:%x[0,word]\nU2:%x[0,rare]\nU3:%x[-1,rare]\nB\n"
LABELS = ("O", "B-X", "I-X", "B-Y")
METHODS = ("cg", "preconditioned-cg", "l2sgd", "asgd", "ap", "pa", "arow", "perceptron")


def sentences(n: int, seed: int, longest: int = 20) -> list[dict[str, Any]]:
    generator, found = np.random.default_rng(seed), []
    for _ in range(n):
        size = int(generator.integers(1, longest))
        label = np.minimum(generator.integers(4, size=size), np.arange(1, size + 1) * 3)
        word = np.where(generator.random(size) < 0.7, label, generator.integers(4, size=size))
        found.append(
            {
                "word": [f"w{k}" for k in word],
                "rare": [f"r{k}" for k in generator.integers(200, size=size)],
                "y": [LABELS[k] for k in label],
            }
        )
    return found


def half_hidden(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    hidden = [["_" if k % 3 else y for k, y in enumerate(s["y"])] for s in data]
    return [{**s, "y": labels} for s, labels in zip(data, hidden, strict=True)]


def words() -> LatticeCRF:
    entries = [
        Entry("ab", 0, 0, 100, "N,x"),
        Entry("a", 1, 1, 90, "V,x"),
        Entry("b", 2, 2, 80, "P,x"),
    ]
    matrix = np.arange(9, dtype=np.int16).reshape(3, 3) * 50
    lexicon = Lexicon.from_entries(entries, matrix, Characters.of_kinds(KINDS, RANGES), UNKNOWN)
    data = [
        Annotation.of_words([("a", "V"), ("b", "P"), ("ab", "N")]),
        Annotation.of_words([("ab", "N"), ("a", "V")]),
    ]
    template = "UNIGRAM A:%F[0]\nUNIGRAM B:%w\nBIGRAM C:%L[0]/%R[0]\n"
    return LatticeCRF.train(
        data, template, structure=Words(lexicon, costs="scaled"), l2=0.1, max_iterations=6
    )


def trained_by(train: Callable[..., CRF], method: str) -> Any:
    return train(method=method, max_iterations=4).theta


def promised() -> dict[str, Callable[[], Any]]:
    """Return arrays that depend on no NumPy, by what they are."""
    data = sentences(150, 1)
    whole = Corpus.from_sentences(data)

    def train(text: Any = data, **options: Any) -> CRF:
        return flat_train(text, "y", TEMPLATE, **{"max_iterations": 14, **options})

    model = train()
    ruled = model & fstcrf.constraints.at_most(2, "B-X")
    rules = 'export SAME = each["[O][O]", <?>];'
    return {
        "l-bfgs": lambda: model.theta,
        "with stochastic epochs": lambda: train(sentences(1100, 2, 6)).theta,
        "l1": lambda: train(l1=0.2).theta,
        "partial": lambda: train(half_hidden(data)).theta,
        "order 2": lambda: train(order=2, max_iterations=5).theta,
        **{name: partial(trained_by, train, name) for name in METHODS},
        "segments": lambda: (
            SegmentCRF.train(whole, "y", "U0:%x[0,word]\nB", max_iterations=6).theta
        ),
        "segments in stages": lambda: (
            SegmentCRF.train(
                Corpus.from_sentences(sentences(2100, 3, 6)),
                "y",
                "U0:%x[0,word]\nB",
                max_iterations=3,
            ).theta
        ),
        "words": lambda: words().weights.words,
        "rules": lambda: list(learn_rules(model, whole, rules).weights.values()),
        "labels": lambda: model.decode(whole).flat,
        "scores": lambda: model.decode(whole, n=3).scores,
        "probabilities of labels": lambda: np.concatenate(model.marginals_all(whole)),
        "log Z": lambda: [model.lattice(s).log_partition() for s in data[:40]],
        "entropy": lambda: [model.lattice(s).entropy() for s in data[:40]],
        "under a grammar": lambda: np.concatenate(ruled.marginals_all(data[:40])),
    }


def digests() -> dict[str, str]:
    """Return digests of what is promised, and one of what NumPy computes by itself."""
    drawn = np.random.default_rng(0).normal(size=(2, 9999))
    alone = [np.exp(drawn), np.log(np.abs(drawn)), drawn[0] @ drawn[1], drawn.sum(axis=1)]
    arrays = {name: make() for name, make in promised().items()} | {
        "NumPy": np.concatenate([np.ravel(one) for one in alone])
    }
    return {
        name: hashlib.sha256(np.ascontiguousarray(found).tobytes()).hexdigest()
        for name, found in arrays.items()
    }


def plainest() -> dict[str, str]:
    """Return an environment in which NumPy takes the loops of the oldest processors."""
    own = import_module("numpy._core._multiarray_umath")
    there = [name for name in own.__cpu_dispatch__ if own.__cpu_features__.get(name)]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(there), "OPENBLAS_CORETYPE": "Nehalem"}


def elsewhere(environment: dict[str, str]) -> dict[str, str]:
    code = (
        "import json; from tests.unit.test_numpy_bits import digests; print(json.dumps(digests()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.thorough
def test_what_is_promised_depends_on_no_numpy() -> None:
    here, there = elsewhere({}), elsewhere(plainest())
    if here["NumPy"] == there["NumPy"]:
        pytest.skip("NumPy has one way to compute here")
    assert [name for name in here if here[name] != there[name]] == ["NumPy"]


@pytest.mark.parametrize("power", [0, 13, 22, 63])
def test_units_are_powers_of_the_curvature(power: int) -> None:
    curvature = np.geomspace(1e-9, 1e12, 1000)
    assert np.allclose(units_of(curvature.copy(), power), curvature ** (-power / 64), rtol=1e-14)
