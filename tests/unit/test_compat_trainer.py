"""The drop-in's trainer: data, parameters, model files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.errors import DataError, ModelFileError, NumericError, OptionError
from fstcrf.ext.compat import sklearn_crfsuite
from fstcrf.ext.compat.pycrfsuite import BaseTrainer, CRFSuiteError, Tagger, Trainer
from fstcrf.ext.compat.pycrfsuite.items import ItemError
from fstcrf.ext.compat.pycrfsuite.parameters import ALGORITHMS, algorithm, options
from fstcrf.ext.foreign import crfsuite, written
from fstcrf.training.options import checked_options
from tests.support.compat_data import WEATHER, sequences


def about(**more: Any) -> Trainer:
    """Return a trainer that knows the weather."""
    trainer = Trainer(verbose=False, **more)
    trainer.append(*WEATHER)
    return trainer


def opened(path: Path) -> Tagger:
    tagger = Tagger()
    tagger.open(path)
    return tagger


def test_held_out_sequences_are_not_trained_on(tmp_path: Path) -> None:
    files = []
    for held_out in (True, False):
        trainer = Trainer(verbose=False)
        for i, (items, labels) in enumerate(zip(*sequences(4), strict=True)):
            if held_out or i % 4:
                trainer.append(items, labels, int(i % 4 == 0))
        trainer.train(tmp_path / "m", holdout=1 if held_out else -1)
        info = opened(tmp_path / "m").info()
        files.append({**info.state_features, **info.transitions})
    # Labels and attributes are numbered otherwise, so sums are taken in another order.
    assert files[0] == pytest.approx(files[1], abs=2e-3)


def test_no_data_makes_a_model_that_knows_nothing(tmp_path: Path) -> None:
    trainer = Trainer(verbose=False)
    trainer.train(tmp_path / "m")
    assert (tmp_path / "m").read_bytes()[:12] == b"lCRF" + (4236).to_bytes(4, "little") + b"FOMC"
    assert trainer.logparser is not None
    assert "prepare_error" in [event for event, _, _ in trainer.logparser.events]


def test_labels_without_attributes(tmp_path: Path) -> None:
    trainer = Trainer(verbose=False)
    trainer.append([[]], ["a"])
    trainer.append([], [])
    trainer.train(tmp_path / "m")
    assert opened(tmp_path / "m").tag([["x"], []]) == ["a", "a"]


def test_clear(tmp_path: Path) -> None:
    trainer = about()
    trainer.clear()
    with pytest.raises(DataError, match="append sequences after clear"):
        trainer.train(tmp_path / "m")
    trainer.append([["x"]], ["new"])
    trainer.train(tmp_path / "m")
    assert opened(tmp_path / "m").labels() == ["new"]


def test_no_file_is_written_for_an_empty_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trainer = BaseTrainer(verbose=False)
    trainer.append(*WEATHER)
    trainer.train("")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_noticed_before_training(tmp_path: Path) -> None:
    trainer = about()
    with pytest.raises(FileNotFoundError):
        trainer.train(tmp_path / "absent" / "m")
    assert trainer.logparser is None


def test_divergence_has_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*_args: Any, **_options: Any) -> None:
        raise NumericError("the objective is inf")

    monkeypatch.setattr("fstcrf.ext.compat.pycrfsuite.trainer.fit", diverge)
    trainer = about()
    with pytest.raises(CRFSuiteError, match="Overflow") as caught:
        trainer.train(tmp_path / "m")
    assert caught.value.code == -(2**31) + 5
    assert isinstance(caught.value.__cause__, NumericError)


@pytest.mark.parametrize(
    ("items", "labels", "error"),
    [
        ([["a"]], ["x", "y"], DataError),
        ([["a"], ["b"]], ["x"], DataError),
        ([["a"]], [1], ItemError),
        ([["a"]], [None], ItemError),
        ([["a"]], None, ItemError),
        (["a"], ["x"], ItemError),
        ([{"a": None}], ["x"], ItemError),
        (None, ["x"], ItemError),
    ],
)
def test_what_is_refused_leaves_the_data_as_it_was(
    items: Any, labels: Any, error: type[Exception], tmp_path: Path
) -> None:
    trainer = Trainer(verbose=False)
    trainer.append([["good"]], ["fine"])
    with pytest.raises(error):
        trainer.append(items, labels)
    trainer.train(tmp_path / "m")
    assert opened(tmp_path / "m").labels() == ["fine"]


def test_groups_are_whole_numbers(tmp_path: Path) -> None:
    trainer = Trainer(verbose=False)
    trainer.append(*WEATHER, group=np.int64(1))  # type: ignore[arg-type]
    for bad in ("1", 1.5, None):
        with pytest.raises(TypeError):
            trainer.append(*WEATHER, bad)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no sequence has this group"):
        trainer.train(tmp_path / "m", holdout=5)


# --- Parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALGORITHMS)
def test_defaults_are_options_of_training(name: str) -> None:
    trainer = Trainer(name.upper())
    values = trainer.get_params()
    assert trainer.params() == list(values)
    assert checked_options(options(ALGORITHMS[name], values)).method.name == name
    trainer.set_params(values)
    assert trainer.get_params() == values
    assert all(trainer.help(parameter).endswith(".") for parameter in values)


def test_every_parameter_reaches_an_option() -> None:
    changed = {
        "feature.minfreq": (2, "min_frequency", 2.0),
        "feature.possible_states": (True, "pairs", "complete"),
        "feature.possible_transitions": ("1", "transitions", "all"),
        "c1": ("0.5", "l1", 0.5),
        "c2": (2, "l2", 2.0),
        "max_iterations": (7.0, "max_iterations", 7),
        "num_memories": (3, "memory", 3),
        "epsilon": (1e-3, "epsilon", 1e-3),
        "period": (4, "period", 4),
        "delta": (1e-2, "delta", 1e-2),
        "linesearch": ("StrongBacktracking", "line_search", "strong-backtracking"),
        "max_linesearch": (9, "max_line_search", 9),
        "calibration.eta": (0.2, "calibration_rate", 0.2),
        "calibration.rate": (3, "calibration_factor", 3.0),
        "calibration.samples": (50, "calibration_sentences", 50),
        "calibration.candidates": (4, "calibration_candidates", 4),
        "calibration.max_trials": (6, "calibration_trials", 6),
        "type": (2, "pa_variant", "PA-II"),
        "c": (0.1, "aggressiveness", 0.1),
        "error_sensitive": (False, "error_sensitive", False),
        "averaging": (0, "averaging", False),
        "variance": (2.0, "variance", 2.0),
        "gamma": (0.5, "gamma", 0.5),
    }
    seen = set()
    for name, known in ALGORITHMS.items():
        for parameter in known.parameters:
            value, option, expected = changed[parameter]
            trainer = Trainer(name, {parameter: value})
            settings = checked_options(options(known, trainer.get_params()))
            assert settings.named()[option] == expected
            seen.add(parameter)
    assert seen == set(changed)


def test_selecting_restores_defaults_and_a_bad_name_changes_nothing() -> None:
    trainer = Trainer("averaged-perceptron")
    assert "c2" not in trainer.params()
    trainer.select("lbfgs")
    trainer.set("c2", 5)
    for bad in (("foo",), ("lbfgs", "tree"), (None,)):
        with pytest.raises(OptionError):
            trainer.select(*bad)
    assert trainer.get("c2") == 5
    trainer.select("passive-aggressive")
    assert algorithm("pa").method == "pa"
    trainer.select("lbfgs")
    assert trainer.get("c2") == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("c2", "abc"),
        ("c2", None),
        ("max_iterations", 2.7),
        ("max_iterations", None),
        ("max_iterations", float("inf")),
        ("feature.possible_states", "true"),
        ("feature.possible_states", 2),
        ("linesearch", "Newton"),
        ("linesearch", 3),
        ("foo", 1),
    ],
)
def test_values_that_crfsuite_would_read_as_something_else(name: str, value: Any) -> None:
    trainer = Trainer()
    before = trainer.get_params()
    with pytest.raises(OptionError, match=name):
        trainer.set(name, value)
    assert trainer.get_params() == before
    with pytest.raises(OptionError):
        Trainer("pa").set("type", 3)


def test_values_out_of_range_are_named_as_their_users_know_them(tmp_path: Path) -> None:
    trainer = about(params={"c2": -1})
    with pytest.raises(OptionError, match=r"c2 is -1\.0"):
        trainer.train(tmp_path / "m")
    for ask in (trainer.get, trainer.help):
        with pytest.raises(OptionError, match="no parameter 'foo'"):
            ask("foo")


def test_no_limit_and_no_period(tmp_path: Path) -> None:
    trainer = about(params={"max_iterations": 0, "period": 0})
    trainer.train(tmp_path / "m")
    assert trainer.logparser is not None
    assert len(trainer.logparser.iterations) > 3


# --- One limit of labels --------------------------------------------------------------------------


def _by_trainer(items: Any, y: Any, path: Path) -> None:
    trainer = Trainer("lbfgs", {"max_iterations": 1}, verbose=False)
    for one, labels in zip(items, y, strict=True):
        trainer.append(one, labels)
    trainer.train(path)


def _by_estimator(items: Any, y: Any, path: Path) -> None:
    sklearn_crfsuite.CRF(model_filename=str(path), max_iterations=1).fit(items, y)


def _by_export(items: Any, y: Any, path: Path) -> None:
    path.write_bytes(written(fstcrf.CRF.train(items, y, max_iterations=1), "crfsuite"))


@pytest.mark.parametrize("write", [_by_trainer, _by_estimator, _by_export])
def test_what_is_written_can_be_opened(
    write: Callable[[Any, Any, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 6
    monkeypatch.setattr(crfsuite, "MOST_LABELS", most)
    path = tmp_path / "m.crfsuite"
    for labels in (most, most + 1):
        items = [[[f"w={i}"], ["w=x"]] for i in range(labels)]
        y = [[f"L{i}", "L0"] for i in range(labels)]
        if labels > most:
            path.unlink()
            with pytest.raises(OptionError, match=f"^{labels} labels, but .* {most} at most"):
                write(items, y, path)
            assert not path.exists()
            continue
        write(items, y, path)
        assert len(opened(path).tag(items[0])) == 2
        assert len(fstcrf.load_crfsuite(path).labels) == labels
        monkeypatch.setattr(crfsuite, "MOST_LABELS", most - 1)
        with pytest.raises(ModelFileError, match=f"m.crfsuite: {labels} labels, but"):
            fstcrf.load_crfsuite(path)
        monkeypatch.setattr(crfsuite, "MOST_LABELS", most)
