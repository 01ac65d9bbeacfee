"""Sentences with unknown labels: only they are summed by the general method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import OptionError
from fstcrf.training import Likelihood, evidence, parameter_space
from fstcrf.training import shards as cuts
from fstcrf.training.evidence import Evidence
from fstcrf.training.executors.executor import LocalExecutor
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.preconditioning import DiagonalHessian
from tests.support.problems import Case, iob2, random_case
from tests.support.training import flat_train

HIDDEN: dict[str, Callable[[int], Longs]] = {
    "none": lambda _: np.arange(0),
    "one": lambda n: np.asarray([n // 2]),
    "few": lambda n: np.arange(0, n, 4),
    "half": lambda n: np.arange(0, n, 2),
    "all": np.arange,
}
"""Number of sentences → the sentences that have an unknown label."""

KINDS: dict[str, dict[str, Any]] = {
    "order 0": {"order": 0},
    "order 1": {"ends": True},
    "complete": {"features": "complete", "transitions": "all"},
    "scheme": {"labels": ("B-X", "I-X", "O"), "legal": iob2},
    "weights, values": {"weights": True, "values": True},
    "order 2": {"order": 2},
    "attributes of arcs": {"arcs": True},
}
LENGTHS = (3, 1, 2, 4, 2, 3, 2, 1)


def with_unknown(allowed: Bools, offsets: Longs, sentences: Longs) -> Bools:
    """Allow all labels at one token of each sentence, and two labels at another token of some."""
    out, rng = allowed.copy(), np.random.default_rng(len(sentences))
    for sentence in sentences.tolist():
        first, last = offsets[sentence : sentence + 2].tolist()
        out[rng.integers(first, last)] = True
        out[rng.integers(first, last), rng.integers(out.shape[1])] = True
    return out


def hidden_case(hidden: str, lengths: tuple[int, ...] = LENGTHS, **options: Any) -> Case:
    """Return a random case whose sentences have unknown labels as `hidden` says."""
    case = random_case(5, lengths=lengths, **options)
    old = case.problem
    allowed = with_unknown(old.allowed, old.offsets, HIDDEN[hidden](len(lengths)))
    problem = replace(old, allowed=allowed)
    names = {"features", "transitions", "ends"} & options.keys()
    space = parameter_space(problem, **{name: options[name] for name in names})
    return replace(case, problem=problem, space=space)


@pytest.fixture
def general_sentences(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the number of sentences of each general forward-backward."""
    seen: list[int] = []
    usual = kernel.forward_backward

    def counted(graph: kernel.Graph, offsets: Longs, *rest: Any, **more: Any) -> kernel.Posterior:
        seen.append(len(offsets) - 1)
        return usual(graph, offsets, *rest, **more)

    monkeypatch.setattr(kernel, "forward_backward", counted)
    return seen


# --- The count ------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", HIDDEN)
def test_only_sentences_with_unknown_labels_take_the_general_method(
    hidden: str, general_sentences: list[int]
) -> None:
    """Each of them twice: for all labels, and for the allowed labels."""
    case = hidden_case(hidden)
    Likelihood(case.problem, case.space, l2=0.5)(np.ones(case.space.size))
    assert sum(general_sentences) == 2 * len(HIDDEN[hidden](len(LENGTHS)))


def test_the_general_method_sees_only_the_weights_of_its_sentences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    usual = kernel.PackedTable.from_cells

    def counted(n_rows: int, width: int, cells: Longs, weights: Floats) -> kernel.PackedTable:
        sizes.append(len(cells))
        return usual(n_rows, width, cells, weights)

    monkeypatch.setattr(kernel.PackedTable, "from_cells", counted)
    case = hidden_case("one", lengths=(2,) * 60, attributes=100)
    Likelihood(case.problem, case.space, l2=0.5)(np.ones(case.space.size))
    sentence = case.problem.part(30, 31)[1]
    rows = np.unique(sentence.node.index)
    own = np.isin(case.space.node_cells // case.space.width, rows)
    assert sizes == [np.count_nonzero(own)]
    assert 0 < sizes[0] < len(own) / 4


# --- The law --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_objective_of_any_share_of_unknown_labels(hidden: str, kind: str) -> None:
    """It equals enumeration and the general method; parts and threads change no bit of it."""
    case = hidden_case(hidden, **KINDS[kind])
    theta = np.random.default_rng(1).normal(size=case.space.size)
    found = Likelihood(case.problem, case.space, l2=0.1)(theta)
    general = Likelihood(case.problem, case.space, l2=0.1, precision="float64")
    expected, slope = case.objective(theta, l2=0.1)
    for (value, gradient), near in ((found, 1e-6), (general(theta), 1e-12)):
        assert value == pytest.approx(expected, rel=near)
        assert gradient == pytest.approx(slope, rel=10 * near, abs=10 * near)
    again = Likelihood(case.problem, case.space, l2=0.1, threads=2)(theta)
    assert again[0] == found[0]
    assert np.array_equal(again[1], found[1])


@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_gradient_is_the_slope_of_the_objective(hidden: str) -> None:
    case = hidden_case(hidden, **KINDS["scheme"])
    theta = np.random.default_rng(2).normal(size=case.space.size)
    gradient = Likelihood(case.problem, case.space, l2=0.1)(theta)[1]
    general = Likelihood(case.problem, case.space, l2=0.1, precision="float64")
    step = 1e-5
    for k, unit in enumerate(step * np.eye(len(theta))):
        slope = (general(theta + unit)[0] - general(theta - unit)[0]) / (2 * step)
        assert gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "attributes of arcs"])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_curvature_takes_all_sentences(hidden: str, kind: str) -> None:
    """It is the diagonal of the Hessian of log Z, for which labels do not matter."""
    case = hidden_case(hidden, **KINDS[kind])
    theta = np.random.default_rng(3).normal(size=case.space.size)
    found = Likelihood(case.problem, case.space, l2=0.5).curvature(theta)
    wanted = DiagonalHessian(case.problem, case.space, l2=0.5)(theta)
    assert found is not None
    assert found == pytest.approx(wanted, rel=1e-4)


# --- Training -------------------------------------------------------------------------------------

WORDS = [f"w{i}" for i in range(60)]
TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]\nB\n"
METHODS: dict[str, dict[str, Any]] = {
    "lbfgs": {},
    "with a start": {"stochastic_epochs": 3},
    "l1": {"l1": 0.3},
    "cg": {"method": "cg"},
}
TIGHT: dict[str, Any] = {"delta": 1e-12, "epsilon": 1e-7, "max_iterations": 500, "l2": 0.5}


def text(hidden: str, sentences: int = 90) -> tuple[list[dict[str, list[str]]], list[list[str]]]:
    """Return sentences whose words tell their labels in part, and the labels."""
    rng, unknown = np.random.default_rng(7), set(HIDDEN[hidden](sentences).tolist())
    places = np.random.default_rng(8)
    data, labels = [], []
    for number in range(sentences):
        label = rng.integers(3, size=int(rng.integers(1, 7)))
        word = np.where(rng.random(len(label)) < 0.6, label * 17, rng.integers(60, size=len(label)))
        names = ["ABC"[k] for k in label]
        if number in unknown:
            names[int(places.integers(len(names)))] = "_"
        data.append({"word": [WORDS[k] for k in word]})
        labels.append(names)
    return data, labels


def reached(hidden: str, **options: Any) -> float:
    """Return the objective that a training with a tight stop reaches."""
    data, labels = text(hidden)
    record = flat_train(data, labels, TEMPLATE, partial=True, **TIGHT, **options).record
    assert record is not None
    assert record.objective is not None
    return record.objective


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_training_reaches_the_objective_of_the_general_method(
    hidden: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = METHODS[method]
    if hidden == "all" and options.get("stochastic_epochs"):
        with pytest.raises(OptionError, match="stochastic_epochs need sentences whose labels are"):
            reached(hidden, **options)
        return
    found = reached(hidden, **options)
    monkeypatch.setattr(evidence, "sweepable", lambda _: False)
    general = {name: value for name, value in options.items() if name != "stochastic_epochs"}
    assert found == pytest.approx(reached(hidden, **general), rel=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["lbfgs", "with a start", "l1"])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_parts_and_threads_change_no_bit(
    hidden: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several parts, some of which have known labels only, others unknown ones only."""
    monkeypatch.setattr(cuts, "PART_TOKENS", 90)
    monkeypatch.setattr(cuts, "START_TOKENS", 200)
    options = dict(METHODS[method])
    if hidden == "all":
        options.pop("stochastic_epochs", None)
    data, labels = text(hidden)
    if hidden == "half":
        labels = text("none")[1][:30] + labels[30:60] + text("all")[1][60:]

    def weights(**more: Any) -> Floats:
        shared: dict[str, Any] = {"partial": True, "max_iterations": 8, **options, **more}
        return flat_train(data, labels, TEMPLATE, **shared).theta

    one = weights()
    for more in (
        {"threads": 2},
        {"executor": LocalExecutor()},
        {"executor": LocalExecutor(), "threads": 2},
        {"memory_limit": 1 << 30},
    ):
        assert np.array_equal(weights(**more), one)


def test_epochs_take_the_sentences_whose_labels_are_known() -> None:
    case = hidden_case("few", lengths=(2, 3) * 800)
    data = Evidence.of(case.problem, case.space)
    assert data.counts.labelled == 1200
    assert LBFGS().epochs(data) == 12
    start = data.start()
    assert not start.partial.any()
    assert len(start.weight) == 1200
    half = hidden_case("half", lengths=(2, 3) * 800)
    assert LBFGS().epochs(Evidence.of(half.problem, half.space)) == 0


def test_epochs_need_a_sentence_whose_labels_are_known() -> None:
    data, labels = text("all")
    doors: list[dict[str, Any]] = [{}, {"executor": LocalExecutor()}]
    for more in doors:
        with pytest.raises(OptionError, match="stochastic_epochs need sentences whose labels are"):
            flat_train(data, labels, TEMPLATE, partial=True, stochastic_epochs=2, **more)


def test_one_unknown_label_costs_no_iterations() -> None:
    """At most 1.2 times those without it, although it is in the middle of a long text."""
    counts = []
    for hidden in ("none", "one"):
        data, labels = text(hidden, sentences=1500)
        record = flat_train(data, labels, TEMPLATE, partial=True, l2=0.02).record
        assert record is not None
        counts.append(record.iterations)
    assert counts[1] <= 1.2 * counts[0]


@pytest.mark.parametrize("method", ["preconditioned-cg", "mixed-cg", "gis", "asgd", "perceptron"])
def test_methods_that_need_known_labels_say_so(method: Any) -> None:
    data, labels = text("one")
    with pytest.raises(OptionError, match="sentence 45 has labels that are not known"):
        flat_train(data, labels, TEMPLATE, partial=True, method=method)
