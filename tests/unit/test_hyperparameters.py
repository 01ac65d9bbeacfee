"""Options of training chosen on held-out data: the space, the search, journals, bad input."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.demo import COLUMNS, corpus_path, template_path
from fstcrf.errors import (
    DataError,
    MissingDependencyError,
    NumericError,
    OptionError,
    TemplateError,
)
from fstcrf.evaluate import evaluate_spans
from fstcrf.ext.tune import Range, Trial, Tuning, tune
from fstcrf.ext.tune.study import Point, Pruner, Space, StepReport, Study
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus
from tests.support.interrupts import interrupt
from tests.support.training import flat_train

pytest.importorskip("optuna", reason="the extra fstcrf[tune] is not installed")

SMALL = "U0:%x[0,word]\nB\n"
LARGE = "U0:%x[0,word]\nU1:%x[0,pos]\nU2:%x[-1,pos]/%x[0,pos]\nB\n"
WIDE: Mapping[str, Any] = {"method": ("lbfgs",), "l2": (Range(0.001, 1000.0),)}


def part(name: str, size: int) -> Corpus:
    return fstcrf.read_columns(corpus_path(name), COLUMNS)[:size]


@pytest.fixture(scope="module")
def data() -> Corpus:
    return part("train", 120)


@pytest.fixture(scope="module")
def dev() -> Corpus:
    return part("dev", 50)


def quick(data: Corpus, template: Any = SMALL, **options: Any) -> Tuning:
    """A search whose trials take little."""
    return tune(data, "field", template, **{"order": 1, "max_iterations": 12, **options})


def timeless(trials: tuple[Trial, ...]) -> list[Trial]:
    return [replace(trial, seconds=0.0) for trial in trials]


# --- The space ----------------------------------------------------------------------------------


def space(**choices: Any) -> Space:
    return Space({"method": ("lbfgs",), **choices})


def test_points_say_nothing_of_options_that_the_method_does_not_read() -> None:
    both = Space({"method": ("lbfgs", "pa"), "l2": (0.1, 1.0), "aggressiveness": (0.5, 2.0)})
    points = list(both.points())
    assert len(points) == 4
    assert all(("l2" in p) == (p["method"] == "lbfgs") for p in points)
    assert all(("aggressiveness" in p) == (p["method"] == "pa") for p in points)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"l2": ()}, "l2 has no value"),
        ({"l2": (Range(0.0, 1.0),)}, "l2 is the range 0..1, expected two numbers above 0"),
        ({"l2": (Range(2.0, 1.0),)}, "the smaller one first"),
        ({"l2": (Range(1.0, math.inf),)}, "l2 is the range"),
        ({"l2": (Range(math.nan, 1.0),)}, "l2 is the range"),
        ({"l2": (0.5,)}, "only one value"),
        ({"method": ("ap", "perceptron"), "l2": (0.5, 1.0)}, "l2 is given, and is no option"),
    ],
)
def test_spaces_that_are_none(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        space(**choices)


# --- The search, over functions that need no training --------------------------------------------


def study(
    over: Space | None = None,
    *,
    seed: int = 0,
    pruner: Pruner = "none",
    journal: Path | None = None,
    resume: bool = False,
) -> Study:
    return Study(
        over or Space(WIDE),
        seed=seed,
        pruner=pruner,
        step="iteration",
        journal=journal,
        resume=resume,
        search={"seed": str(seed)},
    )


def bowl(point: Point, report_step: StepReport) -> tuple[float, int]:
    """1 at l2 = 20, less elsewhere; nearly there after some iterations."""
    top = 1 / (1 + math.log(point["l2"] / 20.0) ** 2)
    for iteration in range(1, 31):
        report_step(iteration, top * (1 - 0.5**iteration))
    return top, 30


def searched(
    trials: int, evaluate: Callable[[Point, StepReport], Any] = bowl, **given: Any
) -> Study:
    made = study(**given)
    for _ in range(trials):
        made.run(evaluate)
    return made


def test_a_seed_repeats_a_search_and_another_does_not() -> None:
    one, again, other = (searched(8, seed=s).trials for s in (3, 3, 4))
    assert timeless(one) == timeless(again)
    assert timeless(one)[1:] != timeless(other)[1:]


def test_a_finite_space_is_tried_once_from_end_to_end() -> None:
    over = Space({"method": ("lbfgs", "pa"), "l2": (1.0, 10.0, 20.0), "order": (1, 2)})
    made = study(over)
    assert made.limit(100) == over.size == 8
    assert made.limit(3) == 3
    for _ in range(8):
        made.run(lambda _point, _told: (0.5, 1))
    tried = [{**t.options} for t in made.trials]
    assert tried[0] == over.start()
    assert sorted(map(repr, tried)) == sorted(map(repr, over.points()))


def test_a_point_is_not_tried_again_while_there_are_others() -> None:
    over = Space({"method": ("lbfgs", "perceptron"), "order": (0, 1), "l2": (Range(0.1, 1.0),)})
    made = study(over)
    for _ in range(12):
        made.run(lambda point, _: (1.0 if point["method"] == "perceptron" else 0.0, 1))
    margin = [t.options["order"] for t in made.trials if t.options["method"] == "perceptron"]
    assert len(margin) <= 4


@pytest.mark.parametrize("pruner", ["median", "halving"])
def test_poor_candidates_stop_early(pruner: Pruner) -> None:
    found = searched(20, pruner=pruner).trials
    stopped = [t for t in found if t.outcome == "stopped"]
    whole = [t for t in found if t.outcome == "complete"]
    assert len(stopped) >= 5
    assert all(t.steps < 30 for t in stopped)
    assert max(t.score or 0.0 for t in whole) > max(t.score or 0.0 for t in stopped)


def test_what_ended_sooner_counts_later() -> None:
    """A trial is compared with those that needed fewer iterations for what they reached."""
    lengths = iter([5, 5, 5, 5, 40])

    def steady(_: Point, report_step: StepReport) -> tuple[float, int]:
        n = next(lengths)
        score = 0.5 if n == 5 else 0.4
        for iteration in range(1, n + 1):
            report_step(iteration, score)
        return score, n

    last = searched(5, steady, pruner="median").trials[-1]
    assert (last.outcome, last.steps) == ("stopped", 20)


def test_divergence_is_an_outcome() -> None:
    def diverges(point: Point, report_step: StepReport) -> tuple[float, int]:
        if point["l2"] < 1.0:
            raise NumericError("inf")
        return bowl(point, report_step)

    found = searched(12, diverges).trials
    assert {t.outcome for t in found} == {"complete", "diverged"}
    assert all((t.score is None) == (t.outcome == "diverged") for t in found)


# --- Journals -------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("pruner", ["median", "halving", "none"])
def test_a_search_that_goes_on_is_one_in_one_go(tmp_path: Path, pruner: Pruner) -> None:
    whole = searched(14, pruner=pruner)
    journal = tmp_path / "search.log"
    searched(5, pruner=pruner, journal=journal)
    second = study(pruner=pruner, journal=journal, resume=True)

    def interrupted(point: Point, report_step: StepReport) -> tuple[float, int]:
        report_step(9, 0.5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        second.run(interrupted)
    third = study(pruner=pruner, journal=journal, resume=True)
    assert len(third.trials) == 5
    for _ in range(9):
        third.run(bowl)
    assert timeless(third.trials) == timeless(whole.trials)


@pytest.mark.parametrize("left", [0, 5, 40])
def test_a_journal_of_which_only_a_part_of_the_first_line_is_there(
    tmp_path: Path, left: int
) -> None:
    journal = tmp_path / "search.log"
    searched(2, journal=journal)
    journal.write_bytes(journal.read_bytes()[:left])
    again = study(journal=journal, resume=True)
    again.run(bowl)
    assert timeless(again.trials) == timeless(searched(1).trials)


def test_a_journal_is_not_written_over_by_chance(tmp_path: Path) -> None:
    journal = tmp_path / "search.log"
    searched(1, journal=journal)
    with pytest.raises(OptionError, match="exists: use resume"):
        study(journal=journal)


@pytest.mark.parametrize(
    "content", [b"word pos\n", b"1\n", b"{}\n", b'{"op_code": 77}\n', b"half", b"\xff\xfe\n"]
)
def test_a_file_that_is_no_journal_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    journal = tmp_path / "search.log"
    journal.write_bytes(content)
    with pytest.raises(DataError, match="is no journal of a search"):
        study(journal=journal, resume=True)
    assert journal.read_bytes() == content


# --- Taggers ----------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_best_of_a_dev_set(data: Corpus, dev: Corpus) -> None:
    told: list[Trial] = []
    templates = {"small": SMALL, "large": LARGE}
    found = quick(data, templates, dev=dev, trials=6, seed=1, report=told.append)
    assert tuple(told) == found.trials
    assert len(found.trials) == 6
    scores = {t.number: t.score or 0.0 for t in found.trials if t.outcome == "complete"}
    assert found.best.score == max(scores.values())
    assert found.best.score > 0.0
    model = found.train()
    assert model.record is not None
    assert model.record.dev_score == found.best.score
    options = dict(found.best.options)
    wanted = flat_train(
        data,
        "field",
        templates[str(found.best.template)],
        dev=dev,
        seed=1,
        **options,
    )
    assert np.array_equal(model.theta, wanted.theta)


@pytest.mark.thorough
def test_the_mean_of_folds(data: Corpus) -> None:
    found = quick(data, LARGE, folds=3, trials=2, seed=5, l2=[0.1, 1.0], l1=0, pruner="none")
    permutation = np.random.default_rng(5).permutation(len(data))
    for trial in found.trials:
        scores = []
        for k in range(3):
            held = data.select(sorted(permutation[k::3].tolist()))
            rest = data.select(sorted(set(range(len(data))) - set(permutation[k::3].tolist())))
            model = flat_train(rest, "field", LARGE, seed=5, **trial.options)
            scores.append(evaluate_spans(held.column_lists("field"), model.tag_all(held)).f)
        assert trial.score == pytest.approx(np.mean(scores), abs=1e-12)
        assert trial.steps == 3
    model = found.train()
    whole = flat_train(data, "field", LARGE, seed=5, **found.best.options)
    assert np.array_equal(model.theta, whole.theta)


def test_folds_stop_poor_candidates(data: Corpus) -> None:
    found = quick(data, LARGE, folds=3, trials=10, l2=[100.0, 0.5, 30.0], l1=0, pruner="halving")
    poor = next(t for t in found.trials if t.options["l2"] == 100.0)
    assert (poor.outcome, poor.steps) == ("stopped", 1)
    assert found.best.options["l2"] == 0.5


@pytest.mark.thorough
def test_repeated_with_any_number_of_threads(data: Corpus, dev: Corpus) -> None:
    one, two = (quick(data, LARGE, dev=dev, trials=5, threads=n).trials for n in (1, 2))
    assert timeless(one) == timeless(two)


@pytest.mark.thorough
def test_resumed_from_a_journal(data: Corpus, dev: Corpus, tmp_path: Path) -> None:
    def after_two(trial: Trial) -> None:
        if trial.number == 2:
            raise KeyboardInterrupt

    given: dict[str, Any] = {"dev": dev, "trials": 5, "seed": 2}
    journal = tmp_path / "search.log"
    first = quick(data, LARGE, **given, journal=journal, report=after_two, keep_on_interrupt=True)
    assert first.interrupted
    assert len(first.trials) == 2
    second = quick(data, LARGE, **given, journal=journal, resume=True)
    assert timeless(second.trials) == timeless(quick(data, LARGE, **given).trials)
    assert not second.interrupted
    with pytest.raises(OptionError, match="another search: training data was"):
        quick(data[:100], LARGE, **given, journal=journal, resume=True)
    with pytest.raises(OptionError, match="another search: templates was"):
        quick(data, SMALL, **given, journal=journal, resume=True)


def test_an_interrupt_before_anything_is_known(data: Corpus, dev: Corpus) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CRF, "train", interrupt)
        with pytest.raises(KeyboardInterrupt):
            quick(data, dev=dev, keep_on_interrupt=True)


def test_any_option_of_training_can_be_searched(data: Corpus, dev: Corpus) -> None:
    options: dict[str, Any] = {
        "l2": 0.5,
        "l1": 0,
        "min_count": [1, 2],
        "pairs": ["supported", "complete"],
    }
    found = quick(data, dev=dev, max_iterations=3, **options)
    assert len(found.trials) == 4
    assert found.varied == ("min_count", "pairs")


def test_other_objectives_have_no_l1(data: Corpus, dev: Corpus) -> None:
    found = quick(data, dev=dev, objective="mce", trials=2, max_iterations=2)
    assert found.varied == ("l2",)
    with pytest.raises(OptionError, match="l1 needs objective 'likelihood', not 'mce'"):
        quick(data, dev=dev, objective="mce", l1=[0.0, 1.0])


@pytest.mark.thorough
def test_trials_start_from_a_model(data: Corpus, dev: Corpus, tmp_path: Path) -> None:
    start = CRF.train(data, "field", SMALL, l2=0.1, order=2, max_iterations=30)
    given: dict[str, Any] = {"start": start, "l2": [0.1, 0.2], "l1": 0, "max_iterations": 2}
    journal: dict[str, Any] = {"journal": tmp_path / "journal", "resume": True}
    found = tune(data, "field", SMALL, dev=dev, **given, **journal)
    assert found.varied == ("l2",)  # the order is that of the model
    from_zero = tune(data, "field", SMALL, dev=dev, **{**given, "start": None, "order": 2})
    assert found.best.score is not None
    assert from_zero.best.score is not None
    assert found.best.score > from_zero.best.score
    options: dict[str, Any] = dict(found.best.options)
    best = flat_train(data, "field", SMALL, dev=dev, start=start, **options)
    np.testing.assert_array_equal(found.train().theta, best.theta)
    with pytest.raises(OptionError, match="order is 0, 1, and start= is a model of order 2"):
        tune(data, "field", SMALL, dev=dev, order=[0, 1], **given)
    other = CRF.train(data, "field", SMALL, l2=0.2, order=2, max_iterations=3)
    with pytest.raises(OptionError, match="another search: where trials start was"):
        tune(data, "field", SMALL, dev=dev, **{**given, "start": other}, **journal)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_orders_of_models_without_a_record(data: Corpus, order: Any) -> None:
    trained = CRF.train(data[:20], "field", SMALL, order=order, max_iterations=1)
    assert replace(trained, record=None)._markov_order == trained._markov_order == order


def test_attribute_lists_need_no_template() -> None:
    sentences = [[["w=a"], ["w=b"]], [["w=b"]], [["w=a"]], [["w=b"], ["w=a"]]] * 3
    labels = [["A" if token == ["w=a"] else "B" for token in s] for s in sentences]
    by_folds = tune(sentences, labels, folds=3, trials=2, order=1)
    by_dev = tune(sentences, labels, dev=sentences, dev_target=labels, trials=2, order=1)
    assert by_folds.best.score == by_dev.best.score == 1.0
    assert by_folds.train().tag([["w=a"]]) == ["A"]


@pytest.mark.thorough
def test_taggers_that_read_others(data: Corpus, dev: Corpus) -> None:
    pos = CRF.train(data, "pos", template_path("pos"), method="perceptron", max_iterations=2)
    reader = LARGE.replace("B\n", "U3:%y[0,pos]\nB\n")
    given: dict[str, Any] = {"reads": [pos], "l2": [0.1, 1.0], "l1": 0, "max_iterations": 20}
    assert quick(data, reader, dev=dev, **given).train().reads[0].name == "pos"
    assert quick(data, reader, folds=2, **given).best.score
    with pytest.raises(TemplateError, match="reads the labels of 'pos', and reads= lacks"):
        quick(data, reader, dev=dev, l2=[0.1, 1.0])


def test_class_weights_of_a_label_that_a_fold_lacks(data: Corpus) -> None:
    column = [
        ["RARE" if not i and not t else "x" for t in range(len(s))] for i, s in enumerate(data)
    ]
    given = data.with_column("rare", column)
    found = tune(
        given,
        "rare",
        SMALL,
        folds=2,
        order=[0, 1],
        l2=0.5,
        l1=0,
        class_weights={"RARE": 5.0},
        max_iterations=2,
    )
    assert len(found.trials) == 2


def test_the_table_is_sorted_and_names_what_was_chosen(data: Corpus, dev: Corpus) -> None:
    found = quick(data, [SMALL, LARGE], dev=dev, l2=[0.1, 10.0], l1=0, pruner="none")
    head, *rows = str(found).splitlines()
    assert head.split() == ["trial", "score", "iterations", "template", "l2"]
    scores = [float(row.split()[1]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert rows[0].split()[0] == str(found.best.number)
    assert len(rows) == 4


def test_order_two_is_for_tag_sets_that_allow_it() -> None:
    def orders(labels: int) -> set[int]:
        sentence = [(f"w{i}", f"L{i}") for i in range(labels)]
        data = Corpus.from_sentences([sentence] * 2, columns=("word", "tag"))
        found = tune(data, "tag", SMALL, dev=data, trials=6, max_iterations=1, l1=0, l2=[0.5, 1])
        return {t.options["order"] for t in found.trials}

    assert orders(31) == {1, 2}
    assert orders(32) == {1}


# --- Bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "cannot be scored"),
        ({"folds": 3, "dev": "dev"}, "both dev and folds"),
        ({"folds": 121}, "folds is 121, expected from 2 to the 120 sentences"),
        ({"folds": 1}, "folds is 1"),
        ({"folds": 3, "trials": 0}, "trials is 0"),
        ({"folds": 3, "pruner": "hope"}, "pruner is 'hope'"),
        ({"folds": 3, "resume": True}, "resume needs a journal"),
        ({"folds": 3, "l3": 1.0}, "unknown training option 'l3'"),
        ({"folds": 3, "l2": [0.1, -1.0]}, "l2 is -1"),
        ({"folds": 3, "order": [1, 3]}, "order"),
        ({"folds": 3, "method": ["lbfgs", "magic"]}, "method"),
        ({"folds": 3, "method": "perceptron", "l1": [0.0, 1.0]}, "l1 is given, and is no option"),
        ({"folds": 3, "method": "perceptron"}, "only one value"),
        ({"folds": 3, "method": ["lbfgs", "ap"], "memory": 5}, "memory needs method 'lbfgs'"),
    ],
)
def test_wrong_arguments(data: Corpus, dev: Corpus, given: dict[str, Any], message: str) -> None:
    if "dev" in given:
        given = {**given, "dev": dev}
    with pytest.raises(OptionError, match=message):
        quick(data, **given)


def test_templates_are_checked_before_the_first_trial(data: Corpus, dev: Corpus) -> None:
    def never(_: Trial) -> None:
        pytest.fail("a trial was made")

    for template, message in [
        ("U0:%x[0,form]\nB\n", "reads column 'form'"),
        ("U0:%x[0,field]\nB\n", "reads the target column"),
    ]:
        with pytest.raises(TemplateError, match=message):
            quick(data, [SMALL, template], dev=dev, report=never)
    with pytest.raises(OSError, match=r"none\.tpl"):
        quick(data, [SMALL, Path("none.tpl")], dev=dev, report=never)
    with pytest.raises(OptionError, match="columns need a feature template"):
        quick(data, None, dev=dev)
    with pytest.raises(OptionError, match="given twice"):
        quick(data, [Path("a.tpl"), Path("a.tpl")], dev=dev)


def test_a_target_without_labels(data: Corpus, dev: Corpus) -> None:
    def unknown(corpus: Corpus) -> Corpus:
        return corpus.with_column("field", [["_"] * len(s) for s in corpus])

    with pytest.raises(DataError, match="the target column holds no label"):
        quick(unknown(data), dev=dev)
    with pytest.raises(DataError, match="has no gold label"):
        quick(data, dev=unknown(dev))
    with pytest.raises(DataError, match="no column 'chunk'"):
        tune(data, "chunk", SMALL, dev=dev)


def test_held_out_data_without_a_span(data: Corpus, dev: Corpus) -> None:
    outside = dev.with_column("field", [["O"] * len(s) for s in dev])
    with pytest.raises(DataError, match="not a single gold span, so that F is undefined"):
        quick(data, dev=outside)
    few = data[:6].with_column(
        "field", [["B-X"] * len(data[0]), *(["O"] * len(s) for s in data[1:6])]
    )
    with pytest.raises(DataError, match=r"fold . of 6 has not a single gold span"):
        quick(few, folds=6)


def test_data_without_sentences() -> None:
    with pytest.raises(DataError, match="no sentence"):
        tune([], "field", SMALL, folds=2)


def test_labels_of_attribute_lists_are_lists() -> None:
    with pytest.raises(OptionError, match="attribute lists have no columns"):
        tune([[["a"]]], "field", folds=2)
    with pytest.raises(OptionError, match="dev needs dev_target"):
        tune([[["a"]]] * 2, [["x"], ["y"]], dev=[[["a"]]])
    with pytest.raises(DataError, match="labels of 1 sentences for 2"):
        tune([[["a"]]] * 2, [["x"]], folds=2)


def test_no_trial_came_to_an_end() -> None:
    lost = Trial(1, {}, None, None, "diverged", 0, 0.0)
    found = Tuning((lost,), (), "iteration", interrupted=False, trainer=lambda *_: None)  # type: ignore[arg-type]
    with pytest.raises(NumericError, match="diverged in each of 1 trials"):
        _ = found.best


def test_without_optuna(data: Corpus, dev: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'fstcrf\[tune\]'"):
        quick(data, dev=dev)


def test_optuna_is_as_talkative_as_before(data: Corpus, dev: Corpus) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    quick(data, dev=dev, trials=1)
    assert optuna.logging.get_verbosity() == before
