"""Training on counts of errors: through `CRF.train` and the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fstcrf
import tests.support.command as program
from fstcrf.demo import COLUMNS, corpus_path, template_path
from fstcrf.errors import DataError, OptionError
from fstcrf.text.corpus import Corpus
from fstcrf.training.record import TrainingRecord
from tests.support.training import flat_train


@pytest.fixture(scope="module")
def data() -> Corpus:
    return fstcrf.read_columns(corpus_path("train"), COLUMNS)[:60]


@pytest.fixture(scope="module")
def likely(data: Corpus) -> fstcrf.CRF:
    return train(data, max_iterations=4)


def train(data: Corpus, **options: Any) -> fstcrf.CRF:
    return flat_train(data, "field", template_path("field"), scheme="iob2", **options)


def saved_record(path: Path) -> TrainingRecord | None:
    model = fstcrf.load(path)
    assert isinstance(model, fstcrf.CRF)
    return model.record


def score(model: fstcrf.CRF, data: Corpus) -> float:
    return fstcrf.evaluate_spans(data.column_lists("field"), model.tag_all(data)).f


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("objective", "method"),
    [
        ("mce", "lbfgs"),
        ("mce", "quickprop"),
        ("mce", "gpd"),
        ("mce-f", "gpd"),
        ("mce-f", "lbfgs"),
        ("mce-f", "quickprop"),
    ],
)
def test_the_data_is_learnt(data: Corpus, objective: str, method: str) -> None:
    options: dict[str, Any] = {"objective": objective, "method": method, "l2": 0.01}
    values: list[float] = []
    told = lambda progress: values.append(progress.value)  # noqa: E731
    model = train(data, max_iterations=25, report=told, **options)
    assert values[-1] < 0.7 * values[0]
    assert score(model, data) > 0.85
    assert model.record is not None
    assert model.record.options["objective"] == objective


def test_a_warm_start_goes_on_from_the_likelihood(data: Corpus, likely: fstcrf.CRF) -> None:
    model = train(
        data, objective="mce-f", method="quickprop", start=likely, max_iterations=10, l2=0.1
    )
    assert score(likely, data) < score(model, data)
    assert model.theta.shape == likely.theta.shape


@pytest.mark.thorough
def test_the_likelihood_in_three_ways(data: Corpus) -> None:
    ends = [
        train(data, max_iterations=400, delta=1e-9, **options).record
        for options in (
            {"stochastic_epochs": 0},
            {"method": "quickprop"},
            {
                "objective": "mce",
                "psi": 1.0,
                "competitors": "sum",
                "smoothing": "logistic",
                "stochastic_epochs": 0,
            },
        )
    ]
    assert all(record is not None for record in ends)
    first, *others = [record.objective for record in ends if record is not None]
    assert others == pytest.approx([first] * 2, rel=1e-4)


def test_a_saved_model_keeps_its_options(likely: fstcrf.CRF, data: Corpus, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "objective": "mce",
        "psi": 2.5,
        "steepness": 0.5,
        "max_iterations": 2,
    }
    model = train(data, start=likely, **options)
    model.save(tmp_path / "m.fstcrf")
    record = saved_record(tmp_path / "m.fstcrf")
    assert record is not None
    assert (record.options["psi"], record.options["steepness"]) == (2.5, 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "mce", "method": "gis"}, "objective 'mce' is trained by 'lbfgs'"),
        ({"objective": "mce-f", "l1": 0.1}, "l1 needs objective 'likelihood'"),
        ({"method": "gpd"}, "'gpd', which is for objective 'mce' or 'mce-f'"),
        ({"psi": 2.0}, "psi needs objective 'mce', not 'likelihood'"),
        ({"objective": "mce-f", "psi": 2.0}, "psi needs objective 'mce'"),
        ({"objective": "mce", "f_gamma": 2.0}, "f_gamma needs objective 'mce-f'"),
        ({"objective": "mce", "psi": 0.0}, "psi is 0"),
        ({"objective": "mce", "competitors": "sum"}, "competitors needs a finite psi"),
        ({"objective": "mce", "steepness": 0.0}, "steepness is 0"),
        ({"objective": "mce", "offset": float("nan")}, "offset is nan"),
        ({"objective": "mce", "growth": 2.0}, "growth needs method 'quickprop'"),
        ({"objective": "mce", "method": "quickprop", "growth": 1.0}, "growth is 1"),
        ({"objective": "mce", "batch": 0}, "batch is 0"),
        ({"objective": "mce", "method": "gpd", "halving": 0.0}, "halving is 0"),
        ({"objective": "mce-f", "f_gamma": -1.0}, "f_gamma is -1"),
        ({"objective": "f1"}, "objective"),
    ],
)
def test_options_that_do_not_go_together(
    data: Corpus, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        train(data, **options)


def test_labels_that_are_no_spans(data: Corpus) -> None:
    with pytest.raises(OptionError, match="no label is part of one"):
        fstcrf.CRF.train(data, "pos", template_path("pos"), objective="mce-f")


@pytest.mark.parametrize("objective", ["likelihood", "mce-f"])
def test_held_out_data_without_a_gold_segment(data: Corpus, objective: str) -> None:
    nothing = data.with_column("field", [["O"] * len(x) for x in data.column_lists("field")])
    with pytest.raises(DataError, match="held-out data has no gold segment"):
        train(data, dev=nothing, objective=objective)


def test_the_command(tmp_path: Path) -> None:
    first, second = tmp_path / "map.fstcrf", tmp_path / "f.fstcrf"
    common = ["train", str(corpus_path("train")), "--columns", ",".join(COLUMNS)]
    common += ["--target", "field", "--template", str(template_path("field"))]
    program.done(*common, "--max-iterations", "5", "-o", str(first))
    options = ["--objective", "mce-f", "--method", "quickprop", "--set", "f_gamma=2"]
    program.run(
        *common, *options, "--set", f"start={first!s}", "--max-iterations", "2", "-o", str(second)
    )
    record = saved_record(second)
    assert record is not None
    assert (record.options["objective"], record.options["f_gamma"]) == ("mce-f", 2.0)
