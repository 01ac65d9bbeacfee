"""The drop-in's estimator, its scores, and what scikit-learn does with it."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.errors import DataError, ModelFileError, OptionError
from tests.support.compat_data import WEATHER, sequences
from tests.support.interrupts import interrupt

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from fstcrf.ext.compat.sklearn_crfsuite import CRF, metrics, scorers
from fstcrf.ext.compat.sklearn_crfsuite.estimator import _PARAMETERS, _TRAINER_NAMES
from fstcrf.ext.compat.sklearn_crfsuite.trainer import LinePerIterationTrainer

GOLD: Any = [["x", "z", "y"], ["x", "x"]]
FOUND = [["y", "z", "y"], ["x", "y"]]


def test_scores_of_tokens() -> None:
    assert metrics.flat_fbeta_score(GOLD, FOUND, beta=1, average="macro") == pytest.approx(2 / 3)
    report = metrics.flat_classification_report(GOLD, FOUND, labels=["z"], output_dict=True)
    assert report["z"]["f1-score"] == 1


def test_scores_of_sequences() -> None:
    score: Any = metrics.sequence_accuracy_score
    assert score(GOLD, FOUND) == 0
    assert score(GOLD, GOLD) == 1
    assert score([], []) == 0
    assert (
        score([["a", "b"], ["c"], ["d"]], np.array([["a", "b"], ["d"], ["d"]], dtype=object))
        == 2 / 3
    )
    # Sequences of one length, which NumPy would compare token by token.
    assert score([["a", "b"], ["c", "d"]], [["a", "b"], ["c", "x"]]) == 1 / 2


@pytest.mark.parametrize("wrong", [[["x"]], [["x", "z"], ["x", "x"]]])
def test_sequences_that_do_not_match(wrong: Any) -> None:
    for score in (metrics.flat_accuracy_score, metrics.flat_f1_score):
        with pytest.raises(DataError):
            score(GOLD, wrong)
    with pytest.raises(DataError):
        metrics.sequence_accuracy_score(GOLD, [["x"]])


def test_fit_and_predict() -> None:
    every, target = sequences(5)
    crf = CRF("lbfgs", c2=0.1, max_iterations=50).fit(every, target)
    assert crf.score(every, target) > 0.95
    found = crf.predict(every)
    assert [list(labels) for labels in found] == [crf.predict_single(items) for items in every]
    marginals = crf.predict_marginals(every[:3])
    assert len(marginals) == 3
    for token in crf.predict_marginals_single(every[0]):
        assert list(token) == crf.classes_
        assert sum(token.values()) == pytest.approx(1)
    assert crf.training_log_ is not None
    assert crf.training_log_.last_iteration is not None


def test_fit_takes_what_can_be_gone_through_once() -> None:
    every, target = sequences(5)
    wanted = CRF(max_iterations=3).fit(every, target)
    found = CRF(max_iterations=3).fit(
        (iter(sequence) for sequence in every), iter(target), X_dev=iter(every), y_dev=iter(target)
    )
    assert found.state_features_ == wanted.state_features_
    with pytest.raises(OptionError, match="only 1 label sequences, and more of the others"):
        CRF().fit(iter(every), target[:1])
    with pytest.raises(OptionError, match="only 1 sequences, and more of the others"):
        CRF().fit(every[:1], iter(target))


def test_one_length_makes_a_table() -> None:
    items, labels = WEATHER
    found = CRF().fit([items], [labels]).predict([items, items])
    assert found.shape == (2, len(items))
    assert (found == labels).all()


def test_before_and_after_fit() -> None:
    crf: Any = CRF()
    for name in ("tagger_", "crf_", "classes_", "size_", "num_attributes_", "attributes_"):
        assert getattr(crf, name) is None
    assert crf.state_features_ is None
    assert crf.transition_features_ is None
    for ask in (crf.predict_single, crf.predict_marginals_single):
        with pytest.raises(OptionError, match="not fitted"):
            ask([["x"]])
    crf = crf.fit([WEATHER[0]], [WEATHER[1]])
    assert crf.classes_ == ["sunny", "rainy"]
    assert crf.attributes_ is not None
    assert len(crf.attributes_) == crf.num_attributes_
    assert crf.size_ == Path(str(crf.modelfile.name)).stat().st_size
    assert {label for _, label in crf.state_features_} == {"sunny", "rainy"}
    assert ("sunny", "sunny") in crf.transition_features_


def test_clone_params_and_repr() -> None:
    crf = CRF("pa", c=0.5, averaging=False, verbose=True)
    copy = clone(crf)
    assert copy.get_params() == crf.get_params()
    assert "averaging=False" in repr(copy)
    copy.set_params(algorithm="lbfgs", c=None, averaging=None, verbose=False)
    assert copy.fit([WEATHER[0]], [WEATHER[1]]).score([WEATHER[0]], [WEATHER[1]]) == 1


def test_every_parameter_reaches_the_trainer() -> None:
    values: dict[str, Any] = {
        "c1": 1,
        "linesearch": "Backtracking",
        "min_freq": 2,
        "all_possible_states": True,
    }
    trainer = CRF(**values)._get_trainer()
    assert trainer.get("linesearch") == "Backtracking"
    assert trainer.get("feature.minfreq") == 2
    assert trainer.get("feature.possible_states") is True
    names = {_TRAINER_NAMES.get(name, name) for name in _PARAMETERS}
    rest = {"algorithm", "verbose", "model_filename", "keep_tempfiles", "trainer_cls"}
    assert names | rest == set(CRF().get_params())
    with pytest.raises(OptionError, match="variance"):
        CRF("lbfgs", variance=1)._get_trainer()


def test_searches() -> None:
    every, target = sequences(6)
    search = GridSearchCV(
        CRF(max_iterations=10), {"c2": [0.1, 10.0]}, cv=2, scoring=scorers.flat_accuracy
    )
    search.fit(every, target)
    assert search.best_params_ == {"c2": 0.1}
    scores = cross_val_score(
        CRF(max_iterations=10), every, target, cv=3, scoring=scorers.sequence_accuracy
    )
    assert scores.shape == (3,)
    assert ((scores >= 0) & (scores <= 1)).all()


def test_pickles_hold_the_model() -> None:
    crf = CRF(c2=0.5).fit([WEATHER[0]], [WEATHER[1]])
    data = pickle.dumps(crf)
    name = str(crf.modelfile.name)
    del crf
    assert not Path(name).exists()
    copy = pickle.loads(data)
    assert copy.score([WEATHER[0]], [WEATHER[1]]) == 1
    assert copy.c2 == 0.5
    assert pickle.loads(pickle.dumps(CRF())).tagger_ is None


def test_temporary_files_that_are_kept() -> None:
    crf = CRF(keep_tempfiles=True).fit([WEATHER[0]], [WEATHER[1]])
    path = Path(str(crf.modelfile.name))
    del crf
    assert path.is_file()
    path.unlink()


def test_a_file_of_the_users(tmp_path: Path) -> None:
    path = str(tmp_path / "m.crfsuite")
    crf = CRF(model_filename=path)
    assert not Path(path).exists()
    crf.fit([WEATHER[0]], [WEATHER[1]])
    assert CRF(model_filename=path).predict_single(WEATHER[0]) == WEATHER[1]
    assert pickle.loads(pickle.dumps(crf)).modelfile.name == path
    other = str(tmp_path / "other.crfsuite")
    crf.set_params(model_filename=other).fit([WEATHER[0]], [WEATHER[1]])
    del crf
    assert Path(path).is_file()
    assert Path(other).is_file()


def test_held_out_sequences_make_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    every, target = sequences(7)
    crf = CRF(verbose=True, max_iterations=3)
    crf.fit(every[:30], target[:30], X_dev=every[30:], y_dev=target[30:])
    said = capsys.readouterr().out
    assert sum(line.startswith("Iter ") for line in said.splitlines()) == 3
    assert "Acc(item/seq)=" in said
    assert "Precision" in said
    CRF(max_iterations=3).fit(every, target)
    assert capsys.readouterr().out == ""


def test_bad_input() -> None:
    crf = CRF()
    with pytest.raises(OptionError, match="X_dev and y_dev must be given together"):
        crf.fit([WEATHER[0]], [WEATHER[1]], [WEATHER[0]])
    with pytest.raises(OptionError, match="1 sequences, 2 label sequences"):
        crf.fit([WEATHER[0]], [WEATHER[1]] * 2)
    with pytest.raises(DataError):
        crf.fit([WEATHER[0]], [["sunny"]])
    assert crf.tagger_ is None


@pytest.mark.thorough
def test_without_scikit_learn_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import fstcrf.ext.compat as compat\n"
        "compat.install()\n"  # what can be had
        "import pycrfsuite; assert pycrfsuite.__name__ == 'fstcrf.ext.compat.pycrfsuite'\n"
        "try: compat.sklearn_crfsuite\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "fstcrf.ext.compat.sklearn_crfsuite needs scikit-learn: pip install 'fstcrf[sklearn]'\n"
    )


def assert_not_fitted(crf: Any) -> None:
    """It can be shown, alone and in a pipeline, and says in scikit-learn's words what it is."""
    held = Pipeline([("features", FunctionTransformer()), ("crf", crf)])
    for one in (crf, held):
        assert "CRF" in repr(one)
        assert "CRF" in one._repr_html_()
        assert dir(one)
        with pytest.raises(NotFittedError):
            check_is_fitted(one)
    assert inspect.getmembers(crf)
    for ask in (crf.predict_single, crf.predict_marginals_single):
        with pytest.raises(NotFittedError, match="not fitted") as caught:
            ask([["x"]])
        assert isinstance(caught.value, (AttributeError, OptionError))


def test_an_unfitted_estimator_can_be_shown(tmp_path: Path) -> None:
    crf: Any = CRF(c2=0.5)
    assert_not_fitted(crf)
    crf.fit([WEATHER[0]], [WEATHER[1]])
    check_is_fitted(crf)
    check_is_fitted(Pipeline([("features", FunctionTransformer()), ("crf", crf)]))
    assert "CRF" in crf._repr_html_()
    assert_not_fitted(clone(crf))
    check_is_fitted(pickle.loads(pickle.dumps(crf)))
    path = tmp_path / "m.crfsuite"
    assert_not_fitted(CRF(model_filename=str(path)))
    path.write_bytes(Path(str(crf.modelfile.name)).read_bytes())
    check_is_fitted(CRF(model_filename=str(path)))


def test_a_damaged_model_can_be_shown_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.crfsuite"
    path.write_bytes(b"no model")
    crf: Any = CRF(model_filename=str(path))
    assert "CRF" in crf._repr_html_()
    assert not hasattr(crf, "classes_")
    with pytest.raises(NotFittedError):
        check_is_fitted(crf)
    with pytest.raises(ModelFileError, match=re.escape(str(path))):
        crf.predict_single([["x"]])


def test_training_that_is_interrupted_leaves_no_empty_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LinePerIterationTrainer, "train", interrupt)
    crf = CRF()
    with pytest.raises(KeyboardInterrupt):
        crf.fit([WEATHER[0]], [WEATHER[1]])
    assert_not_fitted(crf)
