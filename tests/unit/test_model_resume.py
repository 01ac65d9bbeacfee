"""CRF.train over time: held-out data, Ctrl-C, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus
from fstcrf.errors import LabelWarning, ModelFileError
from fstcrf.storage import read_arrays, write_arrays
from fstcrf.training import Progress
from fstcrf.training.loop import KIND, VERSION
from tests.support.interrupts import interrupt_at
from tests.unit.test_model_training import SENTENCES, TEMPLATE, train

METHODS = [
    *("lbfgs", "cg", "preconditioned-cg", "mixed-cg", "gis", "quickprop"),
    *("l2sgd", "asgd", "ap", "pa", "arow", "perceptron"),
]

UNPENALISED = ["ap", "pa", "arow", "perceptron"]


# --- Held-out data ----------------------------------------------------------------------------


def noisy(seed: int, n: int) -> list[dict[str, Any]]:
    """Labels that words tell only in part."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        length = int(rng.integers(2, 7))
        labels = rng.integers(3, size=length)
        words = np.where(rng.random(length) < 0.7, labels, rng.integers(3, size=length))
        rare = rng.integers(1000, size=length)
        sentences.append(
            {
                "word": [f"w{i}" for i in words],
                "rare": [f"r{i}" for i in rare],
                "y": ["ABC"[i] for i in labels],
            }
        )
    return sentences


NOISY = "U1:%x[0,word]\nU2:%x[0,rare]\nU3:%x[-1,rare]\nB\n"


@pytest.mark.parametrize("method", METHODS)
def test_the_best_iteration_on_held_out_data_is_kept(method: str) -> None:
    data, dev = noisy(0, 40), noisy(1, 60)
    told: list[Progress] = []
    penalty = {} if method in UNPENALISED else {"l2": 1e-4}
    model = train(
        data, "y", NOISY, dev=dev, report=told.append, patience=3, method=method, **penalty
    )
    assert model.record is not None
    scores = [p.dev for p in told if p.dev is not None]
    assert len(scores) == len(told) == model.record.iterations
    assert model.record.dev_score == max(scores)
    assert model.record.best_iteration == 1 + scores.index(max(scores))
    predicted = model.tag_all(dev)
    correct = sum(
        a == b for p, s in zip(predicted, dev, strict=True) for a, b in zip(p, s["y"], strict=True)
    )
    assert correct / sum(len(s["y"]) for s in dev) == pytest.approx(max(scores), rel=1e-12)


def test_the_score_of_spans_is_f() -> None:
    told: list[Progress] = []
    dev = [{"word": ["the", "dog"], "y": ["B-X", "I-X"]}, {"word": ["ran"], "y": ["B-X"]}]
    model = train(dev=dev, report=told.append, max_iterations=4)
    found = fstcrf.evaluate_spans([s["y"] for s in dev], model.tag_all(dev)).f
    assert model.record is not None
    assert model.record.dev_score == pytest.approx(found)


def test_held_out_forms() -> None:
    labels = [s["y"] for s in SENTENCES]
    expected = train(dev=SENTENCES, max_iterations=4).record
    assert train(dev=Corpus.from_sentences(SENTENCES), max_iterations=4).record == expected
    listed = train(target=labels, dev=SENTENCES, dev_target=labels, max_iterations=4).record
    assert expected is not None
    assert listed == msgspec.structs.replace(expected, target=None)
    unseen = [{"word": ["new"], "y": ["B-NEW"]}, {"word": [], "y": []}]
    with pytest.warns(LabelWarning, match=r"B-NEW \(1\)$"):
        record = train(dev=unseen, max_iterations=2).record
    assert record is not None
    assert record.dev_score == 0.0, "a label that training never saw is an error"


def test_a_checkpoint_without_its_position(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    train(checkpoint=path, checkpoint_every=1, max_iterations=2)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    for position in ({}, {"position": "{}"}, {"position": "[" * 100_000}):
        rest = {k: v for k, v in metadata.items() if k not in {"position", "format", "crc32"}}
        del rest["version"]
        write_arrays(path, arrays, rest | position, kind=KIND, version=VERSION)
        with pytest.raises(ModelFileError, match="not a sound checkpoint"):
            train(checkpoint=path, resume=True, max_iterations=2)


# --- Ctrl-C, checkpoints ----------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupt_keeps_the_model_so_far(method: str, tmp_path: Path) -> None:
    data = noisy(0, 30)
    model = train(data, "y", NOISY, method=method, report=interrupt_at(3), keep_on_interrupt=True)
    assert model.record is not None
    assert model.record.interrupted
    assert model.record.reason == "interrupted after iteration 3"
    expected = train(data, "y", NOISY, method=method, max_iterations=3)
    assert np.array_equal(model.theta, expected.theta)
    model.save(tmp_path / "model")
    assert CRF.load(tmp_path / "model").record == model.record
    with pytest.raises(KeyboardInterrupt):
        train(data, "y", NOISY, method=method, report=interrupt_at(3))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((method, {}) for method in METHODS),
        ("lbfgs", {"l1": 0.05}),
        # Amid stochastic epochs and behind them: units of the weights are those where they ended.
        *(("lbfgs", {"stochastic_epochs": 2, "stop": stop}) for stop in (1, 3, 6)),
        *(("lbfgs", {"objective": "mce", "stop": stop}) for stop in (2, 6)),
        ("gpd", {"objective": "mce"}),
        ("quickprop", {"objective": "mce"}),
        ("lbfgs", {"dev": noisy(1, 10), "patience": 50}),
        *(
            pytest.param(method, options, marks=[pytest.mark.slow] * (method != "lbfgs"))
            for method in METHODS
            for options in ({"order": 2}, {"ends": True, "transitions": "all"})
        ),
    ],
)
def test_resume(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    options = {**options}
    stop = options.pop("stop", 5)
    common: dict[str, Any] = {
        "data": noisy(0, 30),
        "template": NOISY,
        "method": method,
        "max_iterations": 9,
        **({"gamma": 100.0} if method == "arow" else {}),  # else it is done too soon
        **options,
    }
    every: list[Progress] = []
    whole = train(**common, report=every.append)
    path = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        train(**common, checkpoint=path, checkpoint_every=2, report=interrupt_at(stop))
    told: list[Progress] = []
    resumed = train(**common, checkpoint=path, resume=True, report=told.append)
    steps = [[(p.iteration, p.value, p.dev) for p in run] for run in (told, every)]
    assert steps[0] == steps[1][stop:]
    assert np.array_equal(resumed.theta, whole.theta)
    assert resumed.record == whole.record
    again = train(**common, checkpoint=path, resume=True)
    assert np.array_equal(again.theta, whole.theta)
    assert again.record == whole.record


OTHER_RUNS: dict[str, dict[str, Any]] = {
    "words": {"data": [*SENTENCES[:2], {"word": ["ran", "ran"], "y": ["O", "O"]}]},
    "labels": {"data": [*SENTENCES[:2], {"word": ["ran"], "y": ["B-X"]}]},
    "template": {"template": "U1:%x[0,word]\nB\n"},
    "values": {"template": "U1:%x[0,word]\nU2:%v[0,n]\nB\n"},
    "arcs": {"template": TEMPLATE + "B1:%x[0,word]\n"},
    "method": {"method": "perceptron"},
    "l2": {"l2": 0.25},
    "seed": {"seed": 1},
    "order": {"order": 2},
    "weights": {"weights": [1.0, 1.0, 2.0]},
    "ends": {"ends": True},
    "dev": {"dev": SENTENCES[:1]},
    "warm start": {"start": CRF},
}


@pytest.mark.parametrize("change", OTHER_RUNS.values(), ids=OTHER_RUNS)
def test_a_checkpoint_of_another_run_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "state"
    train(checkpoint=path, max_iterations=2)
    if "start" in change:
        change = {"start": train(l2=3.0, max_iterations=1)}
    if "n]" in str(change):
        change = {
            **change,
            "data": [{**s, "n": ["1.5"] * len(s["y"])} for s in SENTENCES],
        }
    with pytest.raises(ModelFileError, match="run with other data or options"):
        train(**change, checkpoint=path, resume=True)


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_whose_arrays_do_not_fit(method: str, tmp_path: Path) -> None:
    """Left out, of another shape, or of numbers that cannot be: refused before a step is made."""
    path = tmp_path / "checkpoint"
    options: dict[str, Any] = {"method": method, "max_iterations": 2, "checkpoint": path}
    train(**options)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    rest = {key: metadata[key] for key in ("fingerprint", "position", "variant")}

    def refused(changed: dict[str, Any]) -> None:
        write_arrays(path, changed, rest, kind=KIND, version=VERSION)
        with pytest.raises(ModelFileError, match="not a sound"):
            train(**options | {"max_iterations": 3}, resume=True)

    for name, array in arrays.items():
        if name in ("least", "optimiser.values"):
            continue
        refused({key: value for key, value in arrays.items() if key != name})
        if array.size > 1 and name != "optimiser.order":
            refused({**arrays, name: array.ravel()[:-1].copy()})
    if "optimiser.order" in arrays:
        refused({**arrays, "optimiser.order": np.asarray([77])})


def test_a_checkpoint_of_other_values_is_refused(tmp_path: Path) -> None:
    def numbers(value: str) -> Sequence[Any]:
        return [{"n": [value, "2"], "y": ["X", "Y"]}]

    path = tmp_path / "state"
    options: dict[str, Any] = {"template": "U:%v[0,n]\nB", "checkpoint": path, "resume": True}
    train(numbers("1"), **options)
    with pytest.raises(ModelFileError, match="run with other data or options"):
        train(numbers("3"), **options)


def test_a_checkpoint_is_no_model(tmp_path: Path) -> None:
    train(checkpoint=tmp_path / "state")
    with pytest.raises(ModelFileError, match="fstcrf-checkpoint"):
        CRF.load(tmp_path / "state")
    train().save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="fstcrf-crf"):
        train(checkpoint=tmp_path / "model", resume=True)
