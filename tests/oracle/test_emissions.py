"""Batches of scores against enumeration of every labelling of every sentence."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from fstcrf import Emissions
from fstcrf.constraints import at_most, bioes, never, requires, transitions
from fstcrf.machines.grammar import Grammar
from fstcrf.text.corpus import spans
from tests.support.emissions import Case, labellings

LABELS = ("O", "B-X", "I-X", "E-X", "S-X")
NEIGHBOURS: dict[str | None, list[str | None]] = {"O": ["O", "B-X"], "E-X": [None]}
GRAMMARS: dict[str, Grammar | None] = {
    "none": None,
    "bioes": bioes(),
    "soft": bioes(weight=-0.5),
    "counted": at_most(1, "X") & bioes(),
    "far": requires("B-X", "S-X"),
    "single": never("B-X", weight=-1.5) & never("E-X"),
    "neighbours": transitions(NEIGHBOURS),
}
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-9}


def made(seed: int, dtype: type, grammar: str, size: int = 5, *, holes: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    lengths = [4, 0, 1, 3, 2]
    scores = rng.normal(size=(5, 4, size)) * 2
    if holes:
        scores[rng.random(scores.shape) < 0.4] = -np.inf
    moves, first, last = rng.normal(size=(size, size)), rng.normal(size=size), rng.normal(size=size)
    if holes:
        moves[rng.random(moves.shape) < 0.2] = -np.inf
    for b, n in enumerate(lengths):  # beyond the end nothing is read
        scores[b, n:] = np.nan
    return Case(scores.astype(dtype), lengths, LABELS[:size], moves, first, last, GRAMMARS[grammar])


CASES = st.builds(
    made,
    seed=st.integers(0, 1 << 30),
    dtype=st.sampled_from([np.float32, np.float64]),
    grammar=st.sampled_from(sorted(GRAMMARS)),
    holes=st.booleans(),
)


def batch_of(case: Case, form: str) -> Emissions:
    model: Any = case.model
    if form == "ragged":
        return Emissions(case.ragged(), **model)
    if form == "mask":
        mask = np.arange(case.scores.shape[1]) < np.asarray(case.lengths)[:, None]
        return Emissions(case.scores, mask=mask, **model)
    return Emissions(case.scores, case.lengths, **model)


FORMS = st.sampled_from(["padded", "ragged", "mask"])


@given(case=CASES, form=FORMS)
def test_best_labels_and_sums_are_those_of_all_labellings(case: Case, form: str) -> None:
    batch, close = batch_of(case, form), TOLERANCE[case.scores.dtype.type]
    answer, log_z, marginals = batch.decode(), batch.log_partition(), batch.marginals()
    maxima, entropy = batch.max_marginals(), batch.entropy()
    assert answer.ids.shape == case.scores.shape[:2]
    for b, n in enumerate(case.lengths):
        all_ = labellings(case, b)
        assert log_z[b] == pytest.approx(all_.log_z, abs=close, rel=close)
        best = all_.ranked(1)
        assert bool(answer.dead[b]) == (not best)
        np.testing.assert_allclose(marginals[b, :n], all_.marginals(5), atol=close)
        assert (marginals[b, n:] == 0).all()
        assert (answer.ids[b, n:] == -1).all()
        assert entropy[b] == pytest.approx(_entropy(all_.shares), abs=50 * close)
        if not best:
            assert answer.scores[b] == -np.inf
            assert (answer.ids[b] == -1).all()
            assert answer.labels()[b] == []
            continue
        np.testing.assert_allclose(maxima[b, :n], all_.max_marginals(5), atol=1e-9)
        chosen = np.flatnonzero((all_.ids == answer.ids[b, :n]).all(axis=1))[0]
        assert answer.scores[b] == pytest.approx(all_.scores[chosen], abs=1e-9)
        assert all_.scores[chosen] == pytest.approx(all_.scores[best[0]], abs=close)
        assert answer.probabilities[b] == pytest.approx(all_.shares[chosen], abs=close)
        assert answer.labels()[b] == [LABELS[i] for i in all_.ids[chosen]]


def _entropy(shares: np.ndarray[Any, Any]) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log(some)).sum())


@given(case=CASES, form=FORMS)
def test_the_n_best_are_those_of_all_labellings(case: Case, form: str) -> None:
    answer = batch_of(case, form).decode(3)
    assert answer.ids.shape == (5, 3, case.scores.shape[1])
    for b, n in enumerate(case.lengths):
        all_ = labellings(case, b)
        order = all_.ranked(3)
        np.testing.assert_allclose(
            answer.scores[b, : len(order)], all_.scores[order], rtol=1e-9, atol=1e-9
        )
        assert (answer.scores[b, len(order) :] == -np.inf).all()
        np.testing.assert_array_equal(answer.ids[b, : len(order), :n], all_.ids[order])


@given(case=CASES, data=st.data())
def test_scores_of_given_labels(case: Case, data: st.DataObject) -> None:
    batch, close = batch_of(case, "padded"), TOLERANCE[case.scores.dtype.type]
    shape = case.scores.shape[:2]
    rows = data.draw(st.lists(st.integers(-1, 4), min_size=20, max_size=20))
    tags = np.asarray(rows, dtype=np.int64).reshape(shape)
    found = batch.score(tags)
    for b, n in enumerate(case.lengths):
        all_ = labellings(case, b)
        own = ((all_.ids == tags[b, :n]) | (tags[b, :n] < 0)).all(axis=1)
        want = np.logaddexp.reduce(all_.scores[own], initial=-np.inf)
        assert found[b] == pytest.approx(want, abs=close, rel=close)


@given(case=CASES, form=FORMS)
@settings(max_examples=20)
def test_spans(case: Case, form: str) -> None:
    batch, close = batch_of(case, form), TOLERANCE[case.scores.dtype.type]
    answer = batch.decode()
    found, probable = answer.span_probabilities(), batch.probable_spans(0.05)
    for b in range(len(case.lengths)):
        all_ = labellings(case, b)
        share: dict[Any, float] = {}
        for ids, p in zip(all_.ids.tolist(), all_.shares.tolist(), strict=True):
            for span in spans([LABELS[i] for i in ids]):
                share[span] = share.get(span, 0.0) + p
        got = dict(zip(answer.spans()[b], found[b].tolist(), strict=True))
        assert got == pytest.approx({span: share[span] for span in got}, abs=close)
        likely = {span: p for span, p in share.items() if p > 0.05 + close}
        near = {span: p for span, p in probable[b] if p > 0.05 + close}
        assert near == pytest.approx(likely, abs=close)


def test_samples_have_the_frequencies_of_the_labellings() -> None:
    case = made(5, np.float32, "bioes")
    drawn = batch_of(case, "padded").sample(20_000, seed=3)
    assert drawn.shape == (5, 20_000, 4)
    for b, n in enumerate(case.lengths):
        assert (drawn[b, :, n:] == -1).all()
        hot = drawn[b, :, :n, None] == np.arange(5)
        want = labellings(case, b).marginals(5)
        np.testing.assert_allclose(hot.mean(axis=0), want, atol=0.02)


@pytest.mark.parametrize("loss", ["token", "span"])
def test_least_risk_is_that_of_lattices(loss: Any) -> None:
    case = made(7, np.float64, "bioes")
    batch = batch_of(case, "padded")
    for lattice, found in zip(batch.lattices, batch.minimum_risk(loss), strict=True):
        assert found == lattice.minimum_risk(loss)


def test_threads_and_company_change_no_bit() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(150, 40, 5)).astype(np.float32) * 3
    lengths = rng.integers(0, 41, 150)
    model: Any = {"labels": LABELS, "transitions": rng.normal(size=(5, 5)), "grammar": bioes()}
    one, two = (Emissions(scores, lengths, threads=k, **model) for k in (1, 2))
    np.testing.assert_array_equal(one.decode().ids, two.decode().ids)
    pairs = zip(one.decode().span_probabilities(), two.decode().span_probabilities(), strict=True)
    for mine, other in pairs:
        np.testing.assert_array_equal(mine, other)
    for name in ("log_partition", "marginals"):
        np.testing.assert_array_equal(getattr(one, name)(), getattr(two, name)())
    for b in (0, 3, 149):
        alone = Emissions(scores[b : b + 1], lengths[b : b + 1], **model)
        assert (alone.decode().ids[0] == one.decode().ids[b]).all()
        assert alone.decode().scores[0] == one.decode().scores[b]
        np.testing.assert_array_equal(alone.marginals()[0], one.marginals()[b])
