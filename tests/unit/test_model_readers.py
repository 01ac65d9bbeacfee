"""Which options a run reads: what is given and not read is refused, and nothing else is."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from fstcrf import CRF
from fstcrf.cli.train import train
from fstcrf.errors import OptionError
from fstcrf.ext.compat.pycrfsuite.parameters import ALGORITHMS, options
from fstcrf.ext.papers.errors import MCE
from fstcrf.ext.papers.gpd import ErrorLBFGS
from fstcrf.ext.tune import tune
from fstcrf.taggers.pipelines import Task, read_pipeline
from fstcrf.taggers.training import train_crf
from fstcrf.training import Chain, Run
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.methods import METHODS, OBJECTIVES
from fstcrf.training.options import (
    DEFAULTS,
    FLAT_NAMES,
    STRUCTS,
    Options,
    checked_options,
    fields_named,
    flat_options,
    is_read,
    options_of,
    stored_options,
    structured,
)
from fstcrf.training.settings import fields_of
from tests.support.command import failure
from tests.support.training import flat_train

SENTENCES = [
    {"word": ["the", "dog", "ran"], "y": ["B-X", "I-X", "O"]},
    {"word": ["ran", "home"], "y": ["O", "B-X"]},
]
TEMPLATE = "U:%x[0,word]\nB\n"
RUNS = [(objective, method) for objective, methods in METHODS.items() for method in methods]
CALIBRATION = [name for name in DEFAULTS if name.startswith("calibration_")]

IGNORED: list[tuple[dict[str, Any], str]] = [
    *(
        ({"method": method, "l2": l2}, f"l2 needs method 'lbfgs' or .* or 'asgd', not '{method}'")
        for method in ("ap", "pa", "arow", "perceptron")
        for l2 in (0.1, 0.5)
    ),
    ({"l1": 0.1, "line_search": "backtracking"}, "line_search needs a run without l1"),
    ({"l1": 0.1, "line_search": "wolfe"}, "line_search needs a run without l1"),
    ({"l1": 0.1, "stochastic_epochs": 3}, "stochastic_epochs needs a run without l1"),
    *(({name: 3}, f"{name} needs method 'l2sgd' or 'asgd', not 'lbfgs'") for name in CALIBRATION),
    *(
        (
            {"method": "quickprop", name: 3},
            f"{name} needs method 'l2sgd' or 'asgd', not 'quickprop'",
        )
        for name in CALIBRATION
    ),
    *(
        ({"objective": "mce", "stochastic_epochs": 0, name: 3}, f"{name} needs stochastic_epochs")
        for name in ("first_rate", "batch", "halving")
    ),
    ({"method": "quickprop", "stochastic_epochs": 3}, "stochastic_epochs needs method 'lbfgs'"),
    ({"objective": "mce", "method": "gpd", "epsilon": 0.1}, "epsilon needs method 'lbfgs' or"),
    ({"method": "pa", "pa_variant": "PA", "aggressiveness": 2.0}, "aggressiveness needs pa_var"),
    ({"start_label": "O"}, "start_label needs order 2, not 1"),
    ({"order": 0, "transitions": "all"}, "transitions needs an order above 0"),
    ({"objective": "mce-f", "psi": 1.0}, "psi needs objective 'mce', not 'mce-f'"),
    ({"objective": "mce", "l1": 0.0}, "l1 needs objective 'likelihood', not 'mce'"),
    ({"memory": 10, "method": "gis"}, "memory needs method 'lbfgs', not 'gis'"),
    ({"passing": "best", "candidates": 5}, "candidates needs passing 'nbest', not 'best'"),
    ({"patience": 10}, "patience is for the held-out data of dev=, and there is none"),
]


@pytest.mark.parametrize(("given", "message"), IGNORED)
def test_an_option_that_would_be_ignored_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        flat_train(SENTENCES, "y", TEMPLATE, **given)
    assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match=message):
        Task("y", SENTENCES, TEMPLATE, options=given)


def test_toml_and_command_line_refuse_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text("the B-X\ndog I-X\n\n")
    Path("t.tpl").write_text(TEMPLATE)
    task = '[task.y]\ndata = ["t.txt"]\ncolumns = ["word", "y"]\ntemplate = "t.tpl"\n'
    Path("t.toml").write_text(f'{task}method = "ap"\nl2 = 0.5\n')
    with pytest.raises(OptionError, match=r"t.toml.*l2 needs method .*, not 'ap'"):
        read_pipeline("t.toml")
    train = ["train", "none.txt", "-o", "m", "--target", "y", "--template", "t.tpl"]
    line = failure(*train, "--method", "ap", "--l2", 0.5, status=2)
    assert line.startswith("--l2 needs --method 'lbfgs' or ")
    assert line.endswith("not 'ap'")
    line = failure(*train, "--set", "patience=10", status=2)
    assert line == "--set patience is for the held-out data of --dev, and there is none"


@pytest.mark.parametrize(("objective", "method"), RUNS)
def test_defaults_are_read_by_every_run(objective: str, method: str) -> None:
    settings = checked_options({"objective": objective, "method": method})
    expected = Options(objective=OBJECTIVES[objective](), method=METHODS[objective][method]())
    assert settings == expected
    unset = dict.fromkeys(("psi", "epsilon", "stochastic_epochs", "first_rate"))
    assert checked_options({**unset, "objective": objective, "method": method}) == settings


@pytest.mark.parametrize("name", [n for n in DEFAULTS if n not in ("objective", "method")])
def test_every_option_is_read_by_some_run(name: str) -> None:
    others: list[dict[str, Any]] = [{}, {"order": 2}, {"passing": "nbest"}, {"psi": 1.0}]
    assert any(
        is_read(name, {**DEFAULTS, "objective": objective, "method": method, **other})
        for (objective, method), other in itertools.product(RUNS, others)
    )


CHANGED: dict[str, Any] = {
    "l2": 2.0,
    "l1": 1.0,
    "epsilon": 0.5,
    "delta": 0.5,
    "period": 2,
    "memory": 1,
    "line_search": "backtracking",
    "max_line_search": 1,
    "preconditioned": 1,
    "stochastic_epochs": 2,
    "calibration_rate": 1e-3,
    "calibration_factor": 8.0,
    "calibration_sentences": 1,
    "calibration_candidates": 1,
    "calibration_trials": 1,
    "pa_variant": "PA-II",
    "aggressiveness": 0.01,
    "error_sensitive": False,
    "averaging": False,
    "variance": 0.1,
    "gamma": 0.1,
    "smoothing": "logistic",
    "steepness": 3.0,
    "offset": 0.5,
    "psi": 1.0,
    "f_gamma": 3.0,
    "span_end": "next",
    "growth": 3.0,
    "first_rate": 1e-3,
    "batch": 1,
    "halving": 0.5,
}


def noisy() -> list[dict[str, list[str]]]:
    rng = np.random.default_rng(3)
    return [
        {
            "word": [f"w{i}" for i in rng.integers(5, size=6)],
            "y": [("B-X", "I-X", "O")[i] for i in rng.integers(3, size=6)],
        }
        for _ in range(12)
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(("objective", "method"), RUNS)
def test_what_a_run_does_not_read_changes_nothing_and_is_refused(
    objective: str, method: str
) -> None:
    """An option that a method has no field for has no part in the run."""
    fixed: dict[str, Any] = {"objective": objective, "method": method, "max_iterations": 6}
    data = noisy()
    usual = flat_train(data, "y", TEMPLATE, **fixed).theta
    kept: list[Options] = []
    for name, value in CHANGED.items():
        values = {**DEFAULTS, **fixed, name: value}
        if is_read(name, values):
            continue
        with pytest.raises(OptionError, match=f"^{name} needs "):
            flat_train(data, "y", TEMPLATE, **{**fixed, name: value})
        # As earlier versions kept it: a record may have what its run did not read.
        forced = stored_options({**fixed, name: value})
        if forced in kept:
            continue
        kept.append(forced)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fstcrf.taggers.training.checked_options", lambda _, s=forced, **__: s)
            assert np.array_equal(CRF.train(data, "y", TEMPLATE).theta, usual), name


def test_what_a_warm_start_leaves_unread() -> None:
    start = CRF.train(SENTENCES, "y", TEMPLATE, max_iterations=2)
    for given in (
        {"stochastic_epochs": 2},
        {"objective": "mce", "batch": 2},
        {"objective": "mce", "first_rate": 0.3},
    ):
        with pytest.raises(OptionError, match="that starts from zero, not from start="):
            flat_train(SENTENCES, "y", TEMPLATE, start=start, **given)
    CRF.train(
        SENTENCES,
        "y",
        TEMPLATE,
        start=start,
        objective="mce",
        method=ErrorLBFGS(stochastic_epochs=1, batch=2, max_iterations=2),
    )


def test_a_checkpoint_that_is_nowhere_has_no_interval() -> None:
    with pytest.raises(OptionError, match="checkpoint_every needs a checkpoint to write to"):
        CRF.train(SENTENCES, "y", TEMPLATE, run=Run(checkpoint_every=5))


def test_options_of_a_run_make_it_again() -> None:
    for given, _ in IGNORED:  # as earlier versions kept them
        settings = stored_options(given)
        again = checked_options(options_of(given))
        assert again == settings
        assert options_of(settings.named()) == options_of(given)
    assert options_of({"method": "ap", "l2": 3.0}) == {"method": "ap"}


def test_labels_that_are_not_passed_on() -> None:
    checked_options({"passing": "best", "jackknife": None}, reads=False, dev=False)
    for given in ({"jackknife": 3}, {"passing": "nbest"}, {"passing": "nbest", "candidates": 3}):
        with pytest.raises(OptionError, match=r"(passing|jackknife) is for the taggers of reads="):
            checked_options(given, reads=False)


# --- Structs, signatures --------------------------------------------------------------------------


def test_the_signature_is_short_and_its_options_are_those_of_the_structs() -> None:
    hints = get_type_hints(train_crf, localns={"Grammar": Any})
    parameters = inspect.signature(train_crf).parameters
    assert len(parameters) == 16
    assert get_args(get_args(hints["objective"])[0]) == tuple(OBJECTIVES)
    known = [method for methods in METHODS.values() for method in methods]
    assert get_args(get_args(hints["method"])[0]) == tuple(dict.fromkeys(known))
    for name in ("order", "scheme", "l2", "max_iterations"):
        kinds = {one.kind | None for one in fields_named(name)}
        assert kinds == {hints[name]}, name
    text = train_crf.__doc__ or ""
    for name in parameters:
        assert f"\n    {name} : " in text


FIRST: dict[str, Any] = {
    "target": "y", "features": TEMPLATE, "structure": None, "reads": [], "dev": SENTENCES,
    "run": None,
}  # fmt: skip
"""Argument → a bare value, which is the struct with this first field."""


@pytest.mark.parametrize("argument", STRUCTS)
def test_structs_are_options_with_flat_names(argument: str) -> None:
    struct, bare = STRUCTS[argument], FIRST[argument]
    positional = [field.name for field in dataclasses.fields(struct) if not field.kw_only]
    assert len(positional) == (bare is not None)
    if bare is not None:
        assert flat_options({argument: struct(bare)}) == flat_options({argument: bare})
    text = struct.__doc__ or ""
    for field in dataclasses.fields(struct):
        assert field.name in fields_of(struct) or f"\n    {field.name} : " in text
        option = struct.flat_names.get(field.name, field.name)
        assert option in FLAT_NAMES
    for odd in (struct, *([] if bare is not None else [3, "x", {}])):  # the class itself
        with pytest.raises(OptionError, match=rf"{argument} is .*, expected {struct.__name__}"):
            flat_options({argument: odd})
    for other in STRUCTS.values():
        if other is not struct:
            with pytest.raises(OptionError, match=rf"{argument} is {other.__name__}\(\), exp"):
                flat_options({argument: other()})


def test_what_is_given_twice_is_refused() -> None:
    for arguments, option in (
        ({"order": 1, "structure": Chain(order=1)}, "order"),
        ({"scheme": "io", "structure": Chain(scheme="io")}, "scheme"),
        ({"l2": 0.5, "method": LBFGS(l2=0.5)}, "l2"),
        ({"max_iterations": 5, "method": LBFGS(max_iterations=5)}, "max_iterations"),
    ):
        call: Any = CRF.train
        with pytest.raises(OptionError, match=f"^{option} is given twice, as an option and in"):
            call(SENTENCES, "y", TEMPLATE, **arguments)
    found = CRF.train(SENTENCES, "y", TEMPLATE, order=0, l2=0.1, structure=Chain(ends=True))
    assert found.record is not None
    assert (found.record.options["order"], found.record.options["ends"]) == (0, True)


@pytest.mark.parametrize(
    "flat",
    [
        {"target": "y", "threads": 2, "pairs": "complete", "l2": 0.1, "memory": 3},
        {"dev": SENTENCES, "patience": 3, "objective": "mce", "method": "gpd", "psi": 2.0},
        {"template": TEMPLATE, "boundary": "skip", "class_weights": {"O": 2.0}, "tape": "t"},
    ],
)
def test_flat_names_and_structs_are_the_same_call(flat: dict[str, Any]) -> None:
    again = flat_options(structured(flat))
    assert {**again, "method": None, "objective": None} == {
        **flat,
        "method": None,
        "objective": None,
    }
    with pytest.raises(OptionError, match="memory needs method 'lbfgs', not 'ap'"):
        structured({"method": "ap", "memory": 3})


def test_every_option_has_a_flag() -> None:
    flags = {option for parameter in train.params for option in parameter.opts}
    for name in set(DEFAULTS) - {"partial"}:
        assert f"--{name.replace('_', '-')}" in flags


@pytest.mark.parametrize(("objective", "method"), RUNS)
def test_every_field_has_a_meaning_and_a_default_in_range(objective: str, method: str) -> None:
    for settings in (OBJECTIVES[objective], METHODS[objective][method]):
        made = settings()
        for name, field in fields_of(settings).items():
            assert field.meta.description, name
            assert getattr(made, name) == field.default, name
            assert settings(**{name: field.default}) == made


def test_settings_are_given_as_structs_too() -> None:
    fixed: dict[str, Any] = {"max_iterations": 6}
    by_name = flat_train(noisy(), "y", TEMPLATE, memory=2, l2=1.0, **fixed)
    method = LBFGS(memory=2, l2=1.0, max_iterations=6)
    by_struct = CRF.train(noisy(), "y", TEMPLATE, method=method)
    assert np.array_equal(by_name.theta, by_struct.theta)
    assert by_name.record is not None
    assert by_struct.record is not None
    assert by_name.record.options == by_struct.record.options
    settings = checked_options({"objective": MCE(psi=2.0), "method": ErrorLBFGS()})
    assert settings.named()["psi"] == 2.0


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"method": LBFGS(memory=5), "memory": 5},
        r"memory is given twice, as an option and in method=LBFGS\(...\)",
    ),
    (
        {"objective": "mce", "method": LBFGS()},
        "method is LBFGS, expected ErrorLBFGS for objective 'mce'",
    ),
    (
        {"method": LBFGS(l1=1.0, line_search="backtracking")},
        "line_search needs a run without l1",
    ),
    ({"method": 3}, "method is 3, expected one of 'lbfgs', 'cg'"),
    ({"objective": "mce", "method": "ap"}, "'ap', which is for objective 'likelihood'"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        flat_train(SENTENCES, "y", TEMPLATE, **given)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("memory", 0, "memory is 0, expected at least 1"),
        ("memory", "5", "memory is '5', expected a whole number"),
        ("l1", -1.0, "l1 is -1.0, expected a finite number of at least 0"),
        ("l2", np.inf, "l2 is inf, expected a finite number of at least 0"),
        ("delta", np.nan, "delta is nan, expected a finite number of at least 0"),
        ("line_search", "x", "line_search is 'x', expected one of 'wolfe', 'backtracking'"),
    ],
)
def test_a_struct_checks_its_fields(name: str, value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        LBFGS(**{name: value})


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_parameters_of_crfsuite_are_never_refused(name: str) -> None:
    """CRFsuite ignores in silence, and so do its drop-ins."""
    known = ALGORITHMS[name]
    values = {n: p.default for n, p in known.parameters.items()}
    changes: list[dict[str, Any]] = [{}, {"c1": 0.5}, {"type": 0}]
    for change in changes:
        if set(change) <= set(values):
            assert checked_options(options(known, {**values, **change})).method.name == known.method


def test_a_search_has_no_penalty_that_leaves_an_option_unread() -> None:
    pytest.importorskip("optuna", reason="the extra fstcrf[tune] is not installed")
    fixed: dict[str, Any] = {"order": 1, "trials": 2, "max_iterations": 2}
    found = tune(noisy(), "y", TEMPLATE, dev=noisy(), line_search="backtracking", **fixed)
    assert found.varied == ("l2",)
    with pytest.raises(OptionError, match="line_search needs a run without l1"):
        tune(noisy(), "y", TEMPLATE, dev=noisy(), line_search="wolfe", l1=[0.0, 1.0], **fixed)
    with pytest.raises(OptionError, match="patience is for the held-out data"):
        tune(noisy(), "y", TEMPLATE, folds=2, patience=3, **fixed)
