"""Weights chosen on held-out data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Composition, Corpus, Grammar, compose, evaluate_spans
from fstcrf.constraints import at_most, label, pairs
from fstcrf.errors import DataError, LabelWarning, NoPathError, OptionError
from fstcrf.ext.tune.weights import WEIGHT_GRID, WeightTrial
from tests.support.joint_cases import TRAIN, sentences, tagger, taggers

pytestmark = pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
"""A chain may leave answers unproven."""

DEV = sentences(25, seed=9)
SMALL = (0.0, 0.3, 1.0, 2.5)


def both_right(composition: Composition, names: tuple[str, ...]) -> float:
    right = [
        all(found[k][t] == s[name][t] for k, name in enumerate(names))
        for s, found in zip(DEV, composition.tag_all(DEV), strict=True)
        for t in range(len(s["word"]))
    ]
    return float(np.mean(right))


def accuracy(composition: Composition, names: tuple[str, ...]) -> float:
    right = [
        [found[k][t] == s[name][t] for k, name in enumerate(names)]
        for s, found in zip(DEV, composition.tag_all(DEV), strict=True)
        for t in range(len(s["word"]))
    ]
    return float(np.mean(right))


def chunk_f(composition: Composition, names: tuple[str, ...]) -> float:
    found = [labels[1] for labels in composition.tag_all(DEV)]
    return evaluate_spans([s["chunk"] for s in DEV], found).f


@pytest.mark.thorough
@pytest.mark.parametrize("normalize", ["product", "chain"])
@pytest.mark.parametrize(
    ("metric", "score"), [("both", both_right), ("accuracy", accuracy), ("chunk-F", chunk_f)]
)
@pytest.mark.parametrize("case", ["pair", "conditioned arcs", "order 2"])
def test_every_trial_is_what_tagging_with_the_weights_gives(
    normalize: Any, metric: str, score: Any, case: str
) -> None:
    composition = compose(*taggers(case), normalize=normalize, weights=(3.0, 7.0))
    trials: list[WeightTrial] = []
    tuned = composition.tune_weights(DEV, metric=metric, grid=SMALL, report=trials.append)
    assert [t.weights for t in trials] == [(1.0, w) for w in SMALL]
    for trial in trials:
        wanted = score(composition.with_weights(*trial.weights), ("pos", "chunk"))
        assert trial.score == pytest.approx(wanted, abs=1e-12)
    top = max(t.score for t in trials)
    best = [t.weights for t in trials if t.score == top]
    assert tuned.weights == min(best, key=lambda w: (abs(w[1] - 1), w[1]))
    assert tuned.normalize == normalize
    assert tuned.taggers == composition.taggers


def test_three_taggers_are_searched_one_at_a_time() -> None:
    composition = compose(*taggers("three in a row"), normalize="product")
    trials: list[WeightTrial] = []
    tuned = composition.tune_weights(DEV, grid=SMALL, report=trials.append)
    seen = [t.weights for t in trials]
    assert len(set(seen)) == len(seen), "nothing is tried twice"
    assert all(w[0] == 1.0 for w in seen)
    scores = {t.weights: t.score for t in trials}
    for k in (1, 2):
        line = [(*tuned.weights[:k], w, *tuned.weights[k + 1 :]) for w in SMALL]
        assert max(scores[w] for w in line) == scores[tuned.weights]
    names = ("pos", "chunk", "ent")
    assert scores[tuned.weights] == pytest.approx(both_right(tuned, names), abs=1e-12)
    assert composition.tune_weights(DEV, grid=SMALL, threads=3).weights == tuned.weights


def test_of_equals_the_weight_nearest_one() -> None:
    pos, other = tagger("pos"), tagger("alone")  # they read nothing: weights change nothing
    composition = compose(pos, other)
    for grid, wanted in (
        ((0.5, 1.5), 0.5),
        ((0.25, 1.5), 1.5),
        ((0.1, 1.0, 3.0), 1.0),
        (WEIGHT_GRID, 1.0),
    ):
        assert composition.tune_weights(DEV, grid=grid).weights == (1.0, wanted)


@pytest.mark.parametrize("normalize", ["product", "chain"])
def test_data_of_every_kind(normalize: Any) -> None:
    composition = compose(*taggers("pair"), normalize=normalize)
    wanted = composition.tune_weights(DEV, grid=SMALL).weights
    data: list[Any] = [{"word": [], "pos": [], "chunk": []}, *DEV]
    renamed = [{"word": s["word"], "p": s["pos"], "c": s["chunk"]} for s in data]
    lists = {"pos": [s["pos"] for s in data], "chunk": [s["chunk"] for s in data]}
    for dev, targets in (
        (data, None),
        (Corpus.from_sentences(data), None),
        (renamed, {"pos": "p", "chunk": "c"}),
        ([{"word": s["word"]} for s in data], lists),
    ):
        assert composition.tune_weights(dev, targets=targets, grid=SMALL).weights == wanted
    only = composition.tune_weights(renamed, targets={"chunk": "c"}, grid=SMALL, metric="accuracy")
    assert len(only.weights) == 2


def test_under_a_grammar() -> None:
    grammar = at_most(1, label("B"), tape="chunk") & pairs(
        [("P0", "B"), ("P1", "I"), ("P2", "O"), ("P0", "I")], ["pos", "chunk"]
    )
    composition = compose(*taggers("pair"), normalize="product") & grammar
    dev = [{k: v[:1] for k, v in s.items()} for s in DEV]
    trials: list[WeightTrial] = []
    composition.tune_weights(dev, grid=SMALL, report=trials.append)
    for trial in trials:
        found = composition.with_weights(*trial.weights).tag_all(dev)
        right = [a == s["pos"] and b == s["chunk"] for s, (a, b) in zip(dev, found, strict=True)]
        assert trial.score == pytest.approx(np.mean(right), abs=1e-12)
    with pytest.raises(NoPathError):
        composition.constrained(Grammar.from_text("tape pos; export E = any any;")).tune_weights(
            DEV
        )


def test_gold_labels_that_a_tagger_does_not_have_are_never_right() -> None:
    composition = compose(*taggers("pair"), normalize="product")
    odd = [{**s, "pos": ["Q", *s["pos"][1:]]} for s in DEV]
    trials: list[WeightTrial] = []
    with pytest.warns(LabelWarning, match=r"labels of tape 'pos' .* as errors: Q \(25\)$"):
        composition.tune_weights(odd, grid=(1.0,), report=trials.append)
    found = composition.tag_all(DEV)
    right = [
        t > 0 and found[i][0][t] == s["pos"][t] and found[i][1][t] == s["chunk"][t]
        for i, s in enumerate(DEV)
        for t in range(len(s["word"]))
    ]
    assert trials[0].score == pytest.approx(np.mean(right), abs=1e-12)


def test_taggers_of_attribute_lists() -> None:
    def lists(data: list[dict[str, list[str]]]) -> list[Any]:
        return [[[f"w={w}"] for w in s["word"]] for s in data]

    parts = [CRF.train(lists(TRAIN), [s[t] for s in TRAIN], tape=t, l2=0.1) for t in ("pos", "ent")]
    grammar = pairs([("P0", "E0"), ("P1", "E1"), ("P2", "E0")], ["pos", "ent"])
    composition = compose(*parts, grammar=grammar)
    gold = {t: [s[t] for s in DEV] for t in ("pos", "ent")}
    trials: list[WeightTrial] = []
    composition.tune_weights(lists(DEV), targets=gold, grid=SMALL, report=trials.append)
    assert len(trials) == len(SMALL)
    with pytest.raises(DataError, match="have no columns: give the gold labels as lists"):
        composition.tune_weights(lists(DEV))
    with pytest.raises(DataError, match="'pos' are not as long as the sentences"):
        composition.tune_weights(lists(DEV[1:]), targets=gold)


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "metric": (
        {"metric": "f1"},
        OptionError,
        "metric is 'f1', expected one of both, accuracy, pos-F",
    ),
    "no grid": ({"grid": ()}, OptionError, "grid is"),
    "negative": ({"grid": (1, -1)}, OptionError, "expected numbers from 0"),
    "endless": ({"grid": (1, float("nan"))}, OptionError, "expected numbers from 0"),
    "another tape": (
        {"targets": {"ner": "pos"}},
        OptionError,
        "'ner'.*the tapes are 'pos', 'chunk'",
    ),
    "another column": (
        {"targets": {"pos": "tag"}},
        DataError,
        r"tapes 'pos' \('tag'\); the columns",
    ),
    "other labels": (
        {"targets": {"pos": "word"}},
        DataError,
        "no gold label of tape 'pos' is among its labels",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    options, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        compose(*taggers("pair"), normalize="product").tune_weights(DEV, **options)


def test_data_without_labels_or_sentences() -> None:
    composition = compose(*taggers("pair"), normalize="product")
    with pytest.raises(
        DataError, match=r"for the tapes 'chunk' \('chunk'\); the columns are word, pos"
    ):
        composition.tune_weights([{"word": s["word"], "pos": s["pos"]} for s in DEV])
    nothing: list[Any] = [[], [{"word": []}]]
    nothing.append(Corpus.from_sentences(DEV[:0], ("word", "pos", "chunk")))
    for dev in nothing:
        with pytest.raises(DataError, match="no sentences to tune on"):
            composition.tune_weights(dev)
    with pytest.raises(OptionError, match="only one tagger, of tape 'pos'"):
        compose(tagger("pos")).tune_weights(DEV)
