"""The drop-in beside python-crfsuite: the same answers, names and files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.ext.compat import pycrfsuite as ours
from fstcrf.ext.foreign.crfsuite import write_model
from tests.support.compat_data import sequences
from tests.support.crfsuite_models import random_model

real = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")

ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")


def trained(package: Any, path: Path, algorithm: str = "lbfgs", **params: Any) -> Any:
    trainer = package.Trainer(algorithm, params, verbose=False)
    for items, labels in zip(*sequences(11, n=80), strict=True):
        trainer.append(items, labels)
    trainer.train(str(path))
    return trainer


def opened(package: Any, path: Path) -> Any:
    tagger = package.Tagger()
    tagger.open(str(path))
    return tagger


@pytest.mark.parametrize("trainer", [real, ours])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_answers_from_one_model(algorithm: str, trainer: Any, tmp_path: Path) -> None:
    trained(trainer, tmp_path / "m", algorithm, max_iterations=10)
    theirs, mine = opened(real, tmp_path / "m"), opened(ours, tmp_path / "m")
    assert mine.labels() == theirs.labels()
    assert vars(theirs.info()) == vars(mine.info())
    for items in sequences(12)[0]:
        labels = theirs.tag(items)
        assert mine.tag(items) == labels
        assert mine.tag(ours.ItemSequence(items)) == labels
        assert mine.probability(labels) == pytest.approx(theirs.probability(labels), abs=1e-6)
        for t in range(len(items)):
            for label in mine.labels():
                expected = theirs.marginal(label, t)
                assert mine.marginal(label, t) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_ties_go_where_its_ties_go(seed: int) -> None:
    # Weights of small whole numbers: many labellings are equally good.
    model = random_model(seed)
    model.features["weight"] = np.sign(model.features["weight"])
    data = write_model(model)
    taggers = [package.Tagger() for package in (real, ours)]
    for tagger in taggers:
        tagger.open_inmemory(data)
    rng = np.random.default_rng(seed)
    for _ in range(100):
        items = [
            list(rng.choice(model.attributes, rng.integers(4))) for _ in range(rng.integers(9))
        ]
        items = [[str(name) for name in item] for item in items]
        assert taggers[1].tag(items) == taggers[0].tag(items)


def objective(path: Path, c2: float) -> float:
    """−log-likelihood + c2 · |weights|² of a model on what it was trained on."""
    tagger = opened(real, path)
    total = 0.0
    for items, labels in zip(*sequences(11, n=80), strict=True):
        tagger.set(items)
        total -= math.log(tagger.probability(labels))
    info = tagger.info()
    weights = [*info.state_features.values(), *info.transitions.values()]
    return total + c2 * float(np.square(weights).sum())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"c2": 0.1},
        {"feature.possible_states": True},
        {"feature.possible_transitions": True},
        {"feature.minfreq": 4},
    ],
)
def test_the_same_objective_and_the_same_features(params: dict[str, Any], tmp_path: Path) -> None:
    # Both stop early at their usual thresholds: here they go on to the end.
    exact = {"epsilon": 1e-7, "delta": 1e-9, **params}
    logs = [
        trained(package, tmp_path / package.__name__, **exact).logparser for package in (real, ours)
    ]
    reached = [
        objective(tmp_path / package.__name__, params.get("c2", 1.0)) for package in (real, ours)
    ]
    assert reached[1] == pytest.approx(reached[0], rel=1e-4)
    assert logs[1].last_iteration["loss"] == pytest.approx(reached[1], rel=1e-4)
    found = [opened(real, tmp_path / package.__name__).info() for package in (real, ours)]
    assert found[1].labels == found[0].labels
    for weights in ("transitions", "state_features"):
        first, second = (getattr(info, weights) for info in found)
        for feature in first.keys() | second.keys():
            assert second.get(feature, 0.0) == pytest.approx(first.get(feature, 0.0), abs=5e-3)


def test_parameters_have_the_same_names_and_defaults() -> None:
    for algorithm in ALGORITHMS:
        trainers = [package.Trainer(algorithm) for package in (real, ours)]
        names = [trainer.params() for trainer in trainers]
        assert sorted(names[1]) == sorted(names[0])
        values = [trainer.get_params() for trainer in trainers]
        assert values[1] == values[0]
        assert {n: type(v) for n, v in values[1].items()} == {
            n: type(v) for n, v in values[0].items()
        }
        assert all(trainers[1].help(name) for name in names[0])


def test_the_other_package_is_another() -> None:
    # A drop-in that something has installed in this process would be compared with itself.
    assert real.__name__ == "pycrfsuite"
    assert real.Tagger.__module__ != ours.Tagger.__module__


def test_public_names() -> None:
    public = {
        "BaseTrainer",
        "CRFSUITE_VERSION",
        "CRFSuiteError",
        "ItemSequence",
        "Tagger",
        "Trainer",
    }
    assert public <= set(dir(real)) & set(dir(ours))
    assert real.CRFSUITE_VERSION == ours.CRFSUITE_VERSION
    for name in ("BaseTrainer", "Trainer", "Tagger", "ItemSequence"):
        theirs = {n for n in dir(getattr(real, name)) if not n.startswith("_")}
        assert theirs <= set(dir(getattr(ours, name)))
    assert ours.CRFSuiteError._messages == real.CRFSuiteError._messages


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_logs_have_the_same_parts(algorithm: str, tmp_path: Path) -> None:
    logs = []
    for package in (real, ours):
        trainer = package.Trainer(algorithm, {"max_iterations": 3}, verbose=False)
        for i, (items, labels) in enumerate(zip(*sequences(13), strict=True)):
            trainer.append(items, labels, i % 4)
        trainer.train(str(tmp_path / "m"), 3)
        logs.append(trainer.logparser)
    theirs, mine = logs
    assert [e for e, *_ in mine.events if e != "iteration"] == [
        e for e, *_ in theirs.events if e != "iteration"
    ]
    assert mine.featgen_num_features == theirs.featgen_num_features
    assert set(mine.last_iteration) == set(theirs.last_iteration)
    assert set(mine.last_iteration["scores"]) == set(theirs.last_iteration["scores"])

    def first_words(log: Any, event: str) -> list[str]:
        (found,) = ((a, b) for name, a, b in log.events if name == event)
        return sorted(line.partition(":")[0] for line in log.log[slice(*found)])

    for event in ("start", "featgen_end", "end"):
        assert first_words(mine, event) == first_words(theirs, event)


def test_its_parser_reads_our_logs(tmp_path: Path) -> None:
    from pycrfsuite._logparser import TrainLogParser

    messages = trained(ours, tmp_path / "m").logparser.log
    theirs, mine = TrainLogParser(), ours._logparser.TrainLogParser()
    for message in messages:
        assert mine.feed(message) == theirs.feed(message)
        assert mine.last_log == theirs.last_log
    for name in ("iterations", "events", "featgen_percent", "training_seconds", "storing_seconds"):
        assert getattr(mine, name) == getattr(theirs, name)


# --- Values that are 0 ----------------------------------------------------------------------------


def flags(seed: int) -> list[tuple[list[dict[str, Any]], list[str]]]:
    """Return sequences whose attributes are 0 now and then, as False, 0 and 0.0, some always."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(25):
        labels = [("A", "B", "C")[k] for k in rng.integers(3, size=rng.integers(1, 6))]
        items = [
            {
                "w": f"{label.lower()}{rng.integers(3)}",
                "up": bool(rng.random() < 0.15),
                "digits": int(rng.integers(2)) if label == "A" else 0,
                "share": float(rng.choice([0.0, 0.5, -0.25])) if label == "B" else 0.0,
                "never": False,
                "deep": {"flag": label == "C", "size": np.int64(rng.integers(2))},
            }
            for label in labels
        ]
        found.append((items, labels))
    return found


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"c2": 0.1},
        {"c2": 0.05, "c1": 0.05},
        {"c2": 0.1, "feature.possible_states": True},
        {"c2": 0.1, "feature.possible_transitions": True},
        {"c2": 0.1, "feature.possible_states": True, "feature.possible_transitions": True},
        {"c2": 0.1, "feature.minfreq": 2},
        {"c2": 0.1, "feature.minfreq": 0.5, "feature.possible_transitions": True},
        {"c2": 0.1, "c1": 0.02, "feature.possible_states": True},
        {"c2": 0.1, "c1": 0.02, "feature.minfreq": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("whole", [False, True], ids=["dicts", "ItemSequence"])
def test_attributes_whose_value_is_zero_make_features(
    params: dict[str, Any], whole: bool, tmp_path: Path
) -> None:
    """As many features, the same ones, the same loss and the same marginals."""
    exact = {"epsilon": 1e-7, "delta": 1e-10, "max_iterations": 1000, **params}
    data, logs, taggers = flags(5), [], []
    for package in (real, ours):
        trainer = package.Trainer("lbfgs", exact, verbose=False)
        for items, labels in data:
            trainer.append(package.ItemSequence(items) if whole else items, labels)
        trainer.train(str(tmp_path / package.__name__))
        logs.append(trainer.logparser)
        taggers.append(opened(real, tmp_path / package.__name__))
    theirs, mine = logs
    assert mine.featgen_num_features == theirs.featgen_num_features
    assert mine.last_iteration["loss"] == pytest.approx(theirs.last_iteration["loss"], rel=1e-4)
    kept = [
        {name for name, weight in tagger.info().state_features.items() if abs(weight) > 1e-2}
        for tagger in taggers
    ]
    assert kept[1] == kept[0]
    assert any(name.startswith("up") for name, _ in kept[0])
    for items, labels in flags(6):
        for tagger in taggers:
            tagger.set(items)
        for t, label in enumerate(labels):
            expected = taggers[0].marginal(label, t)
            assert taggers[1].marginal(label, t) == pytest.approx(expected, abs=2e-3)
