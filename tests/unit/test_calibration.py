"""Calibration, reliability, thresholds and uncertainty, on events whose truth is known."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fstcrf
from fstcrf import Lattice
from fstcrf.constraints import bio
from fstcrf.errors import (
    DataError,
    ModelFileError,
    NoPathError,
    NumericError,
    OptionError,
    ShapeError,
)
from fstcrf.ext.calibration import (
    Calibration,
    Events,
    fit_temperature,
    label_events,
    lattices_of,
    precision_thresholds,
    reliability,
    select_batch,
    span_events,
    uncertainty,
)
from fstcrf.ext.calibration.queries import By

KINDS = ["isotonic", "log-odds"]
HEAD = '{"format": "fstcrf-calibration", "version": 1, "types": {}, '
LABELS = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def simulated(n: int, power: float, seed: int = 0, name: str = "X") -> Events:
    """Events of probability p that come true with a probability of σ(power · logit(p))."""
    rng = np.random.default_rng(seed)
    claimed = rng.uniform(0.02, 0.98, n)
    true = 1 / (1 + np.exp(-power * np.log(claimed / (1 - claimed))))
    return Events.of(claimed, rng.random(n) < true, [name] * n)


def lattices(n: int, scale: float = 1.0, seed: int = 0, longest: int = 6) -> list[Lattice]:
    rng = np.random.default_rng(seed)
    arcs = rng.normal(size=(5, 5))
    made = [
        Lattice.from_arrays(LABELS, scale * rng.normal(size=(k % longest + 1, 5)), scale * arcs)
        for k in range(n)
    ]
    return [lattice & bio() for lattice in made]


# --- Calibration ----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["isotonic", "log-odds"])
def test_a_known_distortion_is_found_for_each_type(kind: str) -> None:
    sure, shy = simulated(8000, 0.5), simulated(8000, 2.0, 1, "Y")
    events = Events.of(
        np.concatenate([sure.probability, shy.probability]),
        np.concatenate([sure.correct, shy.correct]),
        ["X"] * len(sure) + ["Y"] * len(shy),
    )
    calibration = Calibration.fit(events, kind)  # type: ignore[arg-type]
    for name, power in (("X", 0.5), ("Y", 2.0)):
        p = np.linspace(0.1, 0.9, 9)
        true = 1 / (1 + np.exp(-power * np.log(p / (1 - p))))
        assert np.abs(calibration(p, [name] * 9) - true).max() < 0.05
        fresh = simulated(8000, power, 7, name)
        before, after = reliability(fresh).error, reliability(calibration.applied(fresh)).error
        assert before > 0.08
        assert after < 0.02


def test_types_with_little_data_share_the_curve_of_all() -> None:
    many, few = simulated(1000, 0.5), simulated(10, 1.0, 1, "Y")
    events = Events.of(
        [*many.probability, *few.probability],
        [*many.correct, *few.correct],
        ["X"] * 1000 + ["Y"] * 10,
    )
    calibration = Calibration.fit(events)
    assert list(calibration.curves) == ["X"]
    p = [0.3, 0.7]
    shared = calibration(p, ["Y", "Z"])
    assert shared.tolist() == calibration.others(np.asarray(p)).tolist()


@pytest.mark.parametrize("kind", ["isotonic", "log-odds"])
def test_files_give_the_same_numbers_back(tmp_path: Path, kind: str) -> None:
    calibration = Calibration.fit(simulated(500, 0.7), kind)  # type: ignore[arg-type]
    calibration.save(tmp_path / "c.json")
    again = Calibration.load(tmp_path / "c.json")
    p = np.linspace(0, 1, 33)
    assert again(p, ["X"] * 33).tolist() == calibration(p, ["X"] * 33).tolist()
    assert json.loads((tmp_path / "c.json").read_text())["method"] == kind
    assert again == calibration


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=30), st.sampled_from(["isotonic", "log-odds"])
)
def test_calibration_never_turns_the_order_round(ps: list[float], kind: str) -> None:
    calibration = Calibration.fit(simulated(200, 0.7), kind)  # type: ignore[arg-type]
    out = calibration(sorted(ps), ["X"] * len(ps))
    assert (np.diff(out) >= -1e-12).all()
    assert ((out >= 0) & (out <= 1)).all()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"format": "other", "version": 1}',
        '{"format": "fstcrf-calibration", "version": 2, "method": "isotonic", "types": {}}',
        HEAD + '"method": "magic", "others": 1}',
        HEAD + '"method": "log-odds", "others": {"divisor": 0}}',
        HEAD + '"method": "isotonic", "others": {"x": [0.0, 1.0], "y": [1.0, 0.0]}}',
    ],
)
def test_damaged_files_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ModelFileError, match=r"c\.json"):
        Calibration.load(tmp_path / "c.json")


def test_what_cannot_be_calibrated() -> None:
    with pytest.raises(OptionError, match="correct and wrong"):
        Calibration.fit(Events.of([0.5, 0.6], [True, True]))
    with pytest.raises(ShapeError, match=r"correct holds 0\.5, expected true and false"):
        Events.of([0.5, 0.6], [0.5, 1])
    with pytest.raises(OptionError, match="isotonic or log-odds"):
        Calibration.fit(simulated(10, 1.0), "beta")  # type: ignore[arg-type]
    with pytest.raises(NumericError, match="probability 1"):
        Events.of([0.5, math.nan], [True, False])
    with pytest.raises(ShapeError):
        Events.of([0.5], [True, False])
    calibration = Calibration.fit(simulated(100, 1.0))
    with pytest.raises(ShapeError):
        calibration([0.5], ["X", "X"])
    with pytest.raises(NumericError):
        calibration([1.5], ["X"])
    with pytest.raises(OptionError, match="no type 'Q'"):
        simulated(10, 1.0).of_type("Q")


# --- Temperature of lattices ----------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("true", [0.5, 1.0, 3.0])
def test_the_temperature_of_sampled_labels_is_found(true: float) -> None:
    made = lattices(1200)
    gold = [x[0] for x in fstcrf.sample([m.weighted(1 / true) for m in made], 1, seed=5)]
    assert fit_temperature(made, gold) == pytest.approx(true, rel=0.15)


def test_a_temperature_is_for_labels_that_are_legal() -> None:
    made = lattices(3)
    with pytest.raises(DataError, match="sentence 1, token 1: the gold label 'I-X'"):
        fit_temperature(made, [["O"], ["O", "I-X"], ["O"] * 3])
    with pytest.raises(ShapeError):
        fit_temperature(made, [["O"]])
    with pytest.raises(OptionError, match="no token"):
        fit_temperature([], [])


# --- Events ---------------------------------------------------------------------------------------


def test_span_events_are_those_of_enumeration() -> None:
    made = lattices(12)
    gold = [m.sample(1, seed=k)[0] for k, m in enumerate(made)]
    events = span_events(made, gold, above=0.05)
    want: dict[tuple[int, str], list[float]] = {}
    there, missed = 0, 0
    for k, (lattice, labels) in enumerate(zip(made, gold, strict=True)):
        true = {(s.start, s.end, s.type) for s in fstcrf.text.corpus.spans(labels)}
        chances: dict[tuple[int, int, str], float] = {}
        for path in lattice.nbest(5**6):
            for s in fstcrf.text.corpus.spans(path.labels):
                key = (s.start, s.end, s.type)
                chances[key] = chances.get(key, 0.0) + path.probability
        for key, p in chances.items():
            if p > 0.05:
                want.setdefault((k, key[2]), []).append(p)
                there += key in true
        missed += len([s for s in true if chances[s] <= 0.05])
    assert np.sort(events.probability) == pytest.approx(sorted(itertools.chain(*want.values())))
    assert (int(events.correct.sum()), int(events.missed.sum())) == (there, missed)
    again = span_events(made, [fstcrf.text.corpus.spans(labels) for labels in gold], above=0.05)
    assert again.correct.tolist() == events.correct.tolist()


@pytest.mark.thorough
def test_sampled_labels_make_reliable_events() -> None:
    made = lattices(2000)
    gold = [x[0] for x in fstcrf.sample(made, 1, seed=3)]
    for events in (span_events(made, gold), label_events(made, gold)):
        assert reliability(events).error < 0.02
    shifted = span_events([m.weighted(2.0) for m in made], gold)
    assert reliability(shifted).error > 0.05


def test_taggers_give_events_as_their_lattices_do() -> None:
    data = [{"word": list("abcab"), "x": ["B-X", "I-X", "O", "B-X", "I-X"]}] * 3
    tagger = fstcrf.CRF.train(data, "x", "U:%x[0,word]\nB", max_iterations=5)
    made = lattices_of(tagger, data)
    assert [m.log_partition() for m in made] == [tagger.lattice(s).log_partition() for s in data]
    events = span_events(made, [s["x"] for s in data])
    assert events.types == ("X",)
    assert events.correct.any()
    both = fstcrf.compose(tagger, fstcrf.CRF.train(data, "word", "U:%x[0,x]"))
    with pytest.raises(OptionError, match="has several tapes"):
        lattices_of(both, data)
    assert len(lattices_of(both, data, tape="x")) == 3


def test_events_that_do_not_fit() -> None:
    made = lattices(2)
    with pytest.raises(ShapeError, match="1 gold sentences for 2"):
        span_events(made, [["O"]])
    with pytest.raises(ShapeError, match="sentence 1: 1 gold labels for 2"):
        span_events(made, [["O"], ["O"]])
    with pytest.raises(DataError, match="sentence 0"):
        span_events(made, [[(0, 4, "X")], []])
    with pytest.raises(ShapeError, match="sentence 1"):
        label_events(made, [["O"], ["O"]])
    with pytest.raises(OptionError):
        label_events(made, [["O"], ["O", "O"]], above=2)
    assert len(span_events([], [])) == 0


# --- Reliability and thresholds -------------------------------------------------------------------


def test_expected_calibration_error_is_that_of_its_definition() -> None:
    events = simulated(997, 0.6)
    found = reliability(events, bins=7)
    total = 0.0
    for k in range(7):
        low, high = k / 7, (k + 1) / 7
        mine = (events.probability > low) & (events.probability <= high)
        if mine.any():
            gap = abs(events.probability[mine].mean() - events.correct[mine].mean())
            total += mine.sum() / 997 * gap
    assert found.error == pytest.approx(total)
    equal = reliability(events, bins=10, by="count")
    assert equal.count.min() >= 90
    assert int(equal.count.sum()) == 997
    assert "expected calibration error" in str(found)
    with pytest.raises(OptionError):
        reliability(Events.of([], []))
    with pytest.raises(OptionError):
        reliability(events, bins=0)


def test_probabilities_that_are_all_alike_make_a_bin() -> None:
    found = reliability(Events.of([1.0] * 4 + [0.0], [True] * 5), by="count")
    assert int(found.count.sum()) == 5
    assert found.error == pytest.approx(0.2)


@pytest.mark.thorough
def test_a_diagram_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    reliability(simulated(100, 1.0)).plot(tmp_path / "r.svg", title="X")
    assert "<svg" in (tmp_path / "r.svg").read_text()


@given(st.integers(0, 10_000), st.floats(0.3, 1.0))
def test_thresholds_are_the_least_that_are_precise(seed: int, wanted: float) -> None:
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 12, 60) / 12
    events = Events.of(p, rng.random(60) < p, rng.choice(["X", "Y"], 60).tolist())
    for name, found in precision_thresholds(events, wanted).items():
        mine = events.of_type(name)
        good = [
            t
            for t in set(mine.probability.tolist())
            if mine.correct[mine.probability >= t].mean() >= wanted - 1e-12
        ]
        assert found == (min(good) if good else None)


def test_thresholds_with_a_level_hold_on_fresh_data() -> None:
    broken = 0
    for seed in range(200):
        found = precision_thresholds(simulated(300, 1.0, seed), 0.8, level=0.95)["X"]
        if found is not None:  # the true precision at or above t is the mean of p there
            broken += (found + 0.98) / 2 < 0.8
    assert broken <= 20
    with pytest.raises(OptionError):
        precision_thresholds(simulated(3, 1.0), 0.0)
    with pytest.raises(OptionError):
        precision_thresholds(simulated(3, 1.0), 0.5, level=0.2)


# --- Uncertainty ----------------------------------------------------------------------------------


def test_uncertainties_are_those_of_enumeration() -> None:
    made = lattices(8)
    for k, lattice in enumerate(made):
        p = np.asarray([path.probability for path in lattice.nbest(5**6)])
        size = len(lattice)
        best, second = p[0], p[1]
        rows = lattice.marginals()
        rows = rows[rows > 0]
        want = {
            "least-confidence": (1 - best, 1 - best ** (1 / size)),
            "margin": (1 - best + second, None),
            "entropy": (-(p * np.log(p)).sum(), -(p * np.log(p)).sum() / size),
            "token-entropy": (-(rows * np.log(rows)).sum(), -(rows * np.log(rows)).sum() / size),
        }
        for by, (whole, each) in want.items():
            assert uncertainty(made, by)[k] == pytest.approx(whole)  # type: ignore[arg-type]
            if each is not None:
                assert uncertainty(made, by, per_token=True)[k] == pytest.approx(each)  # type: ignore[arg-type]


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("by", get_args(By))
@pytest.mark.parametrize("doubt", [0.7, 0.51, 1 - 1e-6])
def test_equal_doubts_are_ranked_by_no_length(by: By, per_token: bool, doubt: float) -> None:
    """One token is doubtful, all others are certain: the longer sentence never comes first."""
    made = []
    for tokens in (1, 3, 10, 30, 100):
        scores = np.column_stack([np.full(tokens, 60.0), np.zeros(tokens)])
        scores[tokens // 2, 0] = np.log(doubt / (1 - doubt))
        made.append(Lattice.from_arrays(["O", "X"], scores))
    if per_token and by == "margin":
        with pytest.raises(OptionError, match="has no value per token: leave out per_tok"):
            uncertainty(made, by, per_token=True)
        return
    found = uncertainty(made, by, per_token=per_token)
    assert (np.diff(found) <= 1e-9).all()
    if not per_token:
        np.testing.assert_allclose(found, found[0], rtol=0, atol=1e-9)


def test_empty_and_dead_lattices() -> None:
    empty = Lattice.from_arrays(["A", "B"], np.empty((0, 2)))
    sure = Lattice.from_arrays(["A"], np.zeros((3, 1)))
    for by in ("least-confidence", "margin", "entropy", "token-entropy"):
        assert uncertainty([empty, sure], by).tolist() == [0.0, 0.0]
    dead = Lattice.from_arrays(["A", "B"], np.full((2, 2), -np.inf))
    with pytest.raises(NoPathError):
        uncertainty([sure, dead])
    with pytest.raises(OptionError, match="least-confidence"):
        uncertainty([sure], "random")  # type: ignore[arg-type]
    assert uncertainty([]).tolist() == []


def test_batches() -> None:
    scores = [0.9, 0.8, 0.89, 0.1]
    assert select_batch(scores, 2).tolist() == [0, 2]
    twins = np.asarray([[1, 0], [0, 1], [1, 0.01], [1, 1]])
    assert select_batch(scores, 3, vectors=twins).tolist()[:2] == [0, 1]
    assert select_batch(scores, 4, costs=[5, 1, 3, 2], budget=6).tolist() == [0, 1]
    assert select_batch(scores, 9).tolist() == [0, 2, 1, 3]
    assert select_batch([], 3).tolist() == []
    for options in ({"n": -1}, {"n": 1, "costs": [1, 1, 1, 1]}, {"n": 1, "costs": [0, 1, 1, 1]}):
        with pytest.raises(OptionError):
            select_batch(scores, **options)
    with pytest.raises(ShapeError):
        select_batch(scores, 1, vectors=[[1, 2]])
    with pytest.raises(NumericError):
        select_batch([math.nan], 1)
