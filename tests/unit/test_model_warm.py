"""Going on from a trained model, on data that knows more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf import CRF
from fstcrf.errors import LabelError, OptionError
from fstcrf.ext.explain.pushes import Weight
from fstcrf.training import Features, Gold, Progress, Run
from tests.support.training import flat_train

OLD = [
    {"word": ["the", "dog", "ran"], "y": ["B-X", "I-X", "O"]},
    {"word": ["a", "dog"], "y": ["B-X", "I-X"]},
]
NEW = [
    {"word": ["this", "cat", "ran"], "y": ["B-A", "I-A", "O"]},
    {"word": ["dog"], "y": ["O"]},
]
TEMPLATE = "U1:%x[0,word]\nB\n"
ARCS = TEMPLATE + "B1:%x[0,word]\n"


def named(weights: list[Weight]) -> dict[tuple[str, str], float]:
    return {(w.attribute, w.slot): w.weight for w in weights}


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "order 0": (TEMPLATE, {"order": 0}),
    "order 1": (TEMPLATE, {}),
    "ends": (TEMPLATE, {"ends": True, "transitions": "all"}),
    "arcs": (ARCS, {}),
    "order 2": (TEMPLATE, {"order": 2}),
    "order 2, arcs, scheme": (ARCS, {"order": 2, "scheme": "iob2"}),
    "complete": (TEMPLATE, {"pairs": "complete"}),
}


@pytest.mark.parametrize(("template", "options"), KINDS.values(), ids=KINDS)
def test_weights_are_found_by_what_they_stand_for(
    template: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = flat_train(OLD, "y", template, **options)
    starts: list[np.ndarray[Any, Any]] = []

    class StopError(Exception):
        pass

    def watched(*_args: Any, **_options: Any) -> Any:
        starts.append(_args[3])
        spaces.append(_args[2])
        raise StopError

    spaces: list[Any] = []
    monkeypatch.setattr("fstcrf.taggers.training.optimiser_of", watched)
    with pytest.raises(StopError):
        flat_train(NEW, "y", template, start=old, **options)
    monkeypatch.undo()
    whole = flat_train(NEW, "y", template, start=old, max_iterations=1, **options)
    start = CRF(whole.topology, whole.index, spaces[0], starts[0], "y", ("word", "y"))
    before, after = named(old.top_features(9999)), named(start.top_features(9999))
    assert before.items() <= after.items()
    assert not any(after[key] for key in after.keys() - before.keys())
    assert whole.labels == (*old.labels, "B-A", "I-A")
    for sentence in OLD:
        lattice = start.lattice(sentence)
        assert lattice.score(sentence["y"]) == pytest.approx(
            old.lattice(sentence).score(sentence["y"]), abs=1e-12
        )


@pytest.mark.parametrize(("template", "options"), KINDS.values(), ids=KINDS)
def test_the_old_and_the_new_are_known(template: str, options: dict[str, Any]) -> None:
    old = flat_train(OLD, "y", template, l2=0.01, **options)
    new = flat_train(OLD + NEW[:1], "y", template, l2=0.01, start=old, **options)
    for sentence in OLD + NEW[:1]:
        assert new.tag(sentence) == sentence["y"]
    assert [new.index.attribute(r) for r in range(old.index.n_node_rows)] == [
        old.index.attribute(r) for r in range(old.index.n_node_rows)
    ]


def test_a_model_that_has_converged_stays() -> None:
    old = CRF.train(OLD, "y", TEMPLATE)
    told: list[Progress] = []
    again = CRF.train(OLD, "y", TEMPLATE, start=old, run=Run(report=told.append))
    assert again.theta == pytest.approx(old.theta, abs=1e-3)
    assert old.record is not None
    assert told[0].value == pytest.approx(old.record.objective, rel=1e-4)


def test_labels_and_attributes_that_the_new_data_lacks_stay_known() -> None:
    old = CRF.train(OLD, "y", TEMPLATE, l2=0.01)
    new = CRF.train(NEW, "y", TEMPLATE, start=old, max_iterations=2, l2=1e-6)
    assert "B-X" in new.labels
    before, after = (named(m.top_features(999)) for m in (old, new))
    assert ("U1:a", "B-X") in after
    assert after["U1:a", "B-X"] == pytest.approx(before["U1:a", "B-X"], rel=0.01)


@pytest.mark.parametrize("first", ["perceptron", "l2sgd"])
@pytest.mark.parametrize("then", ["lbfgs", "perceptron", "l2sgd"])
def test_from_one_method_to_another(first: str, then: str) -> None:
    def train(data: list[Any], method: str, **options: Any) -> CRF:
        l2 = None if method == "perceptron" else 0.01
        return flat_train(data, "y", TEMPLATE, method=method, l2=l2, **options)

    old = train(OLD, first, max_iterations=20)
    new = train(OLD + NEW[:1], then, start=old, max_iterations=30)
    if then != "perceptron":  # whose average may lag behind weights without an error
        assert new.tag_all(OLD + NEW[:1]) == [s["y"] for s in OLD + NEW[:1]]
    if then == "lbfgs":
        cold = CRF.train(OLD + NEW[:1], "y", TEMPLATE, l2=0.01)
        assert new.record is not None
        assert cold.record is not None
        # More weights than from scratch, none of them worse.
        assert new.record.objective <= cold.record.objective * 1.001


def test_literal_attributes() -> None:
    old = CRF.train([[["a"], ["b"]]], [["X", "Y"]], l2=0.01)
    new = CRF.train([[["c"], {"b": 1}]], [["Z", "Y"]], start=old, l2=0.01)
    assert new.labels == ("X", "Y", "Z")
    assert new.tag([["c"], ["b"]]) == ["Z", "Y"]
    assert [new.index.row(name) for name in "abc"] == [0, 1, 2]


def test_hashed_attributes() -> None:
    old = CRF.train(OLD, "y", Features(TEMPLATE, hash_bits=10))
    new = CRF.train(OLD + NEW[:1], "y", Features(TEMPLATE, hash_bits=10), start=old)
    assert new.tag_all(OLD) == [s["y"] for s in OLD]


def test_what_does_not_fit() -> None:
    old = CRF.train(OLD, "y", TEMPLATE)
    literal = CRF.train([[["a"]]], [["X"]])
    cases: list[tuple[Any, Any, Any, dict[str, Any]]] = [
        (NEW, "y", TEMPLATE, {"start": old, "order": 2}),
        (NEW, "y", TEMPLATE, {"start": old, "order": 0}),
        (NEW, "y", "U2:%x[0,word]\nB\n", {"start": old}),
        (NEW, "y", TEMPLATE, {"start": old, "boundary": "skip"}),
        (NEW, "y", TEMPLATE, {"start": old, "hash_bits": 8}),
        (NEW, "y", TEMPLATE, {"start": literal}),
        ([[["a"]]], [["X"]], None, {"start": old}),
        ([[["a"]]], [["X"]], None, {"start": literal, "hash_bits": 8}),
    ]
    for data, target, template, options in cases:
        with pytest.raises(OptionError):
            flat_train(data, target, template, **options)


def test_new_labels_need_a_warm_start_only_where_they_are_named() -> None:
    old = CRF.train(OLD, "y", TEMPLATE)
    with pytest.raises(LabelError, match="'B-A'"):
        old.lattice(NEW[0]).score(NEW[0]["y"])
    partial = [{"word": ["cat"], "y": ["B-X|I-X"]}]
    new = CRF.train(partial, Gold("y", partial=True), TEMPLATE, start=old)
    assert new.labels == old.labels, "alternatives of old labels are no new label"
