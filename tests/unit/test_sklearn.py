"""The estimator: what scikit-learn asks of one, and sentences, tables, grammars and weights."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.constraints import at_most, bio, pairs
from fstcrf.errors import DataError, LabelWarning, NoPathError, OptionError

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fstcrf.ext.sklearn import CRFTagger
from fstcrf.training import Chain, Features, Run
from fstcrf.training.lbfgs import LBFGS

TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]\nB"
WORDS = [
    ["Anna", "Lee", "met", "Bob"],
    ["they", "met", "Anna"],
    ["Bob", "Lee", "slept"],
    ["it", "rained"],
    ["rain", "met", "Anna", "Lee"],
    ["Bob"],
]
X = [[{"w": word, "title": word.istitle()} for word in words] for words in WORDS]
Y = [
    ["B-PER", "I-PER", "O", "B-PER"],
    ["O", "O", "B-PER"],
    ["B-PER", "I-PER", "O"],
    ["O", "O"],
    ["O", "O", "B-PER", "I-PER"],
    ["B-PER"],
]


def flat(labels: Any) -> list[Any]:
    return [label for row in labels for label in row]


class Classifier(CRFTagger):
    """The same said to be a classifier, so that the checks of classifiers are run on tables."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        return tags


EXPECTED = {
    # Training sums in float32, shard by shard: repeated sentences are equal to 1e-7, not to 1e-9.
    "check_sample_weight_equivalence_on_dense_data": "training sums in float32",
}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [CRFTagger(), Classifier()], expected_failed_checks=lambda _: EXPECTED
)
def test_what_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_repeated_sentences_are_heavy_ones() -> None:
    weights = [0, 2, 1, 3, 1, 0]
    heavy = CRFTagger(l2=0.1).fit(X, Y, sample_weight=weights)
    often = [i for i, w in enumerate(weights) for _ in range(w)]
    repeated = CRFTagger(l2=0.1).fit([X[i] for i in often], [Y[i] for i in often])
    assert heavy.classes_.tolist() == repeated.classes_.tolist()
    for a, b in zip(heavy.predict_proba(X), repeated.predict_proba(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_answers_are_those_of_the_tagger_beneath() -> None:
    tagger = CRFTagger(l2=0.1).fit(X, Y)
    crf = fstcrf.CRF.train(X, target=Y, l2=0.1)
    assert tagger.crf_.theta.tolist() == crf.theta.tolist()
    found = tagger.predict(X)
    assert found.dtype == object
    assert found.shape == (6,)
    assert found.tolist() == crf.tag_all(X) == Y
    assert tagger.classes_.tolist() == ["B-PER", "I-PER", "O"]
    order = [crf.labels.index(label) for label in tagger.classes_]
    for mine, theirs in zip(tagger.predict_proba(X), crf.marginals_all(X), strict=True):
        np.testing.assert_array_equal(mine, theirs[:, order])
    spans = tagger.predict_spans(X)
    assert [(s.start, s.end, s.type) for s, _ in spans[0]] == [(0, 2, "PER"), (3, 4, "PER")]
    share = crf.decode(X).span_probabilities()[0]
    assert [p for _, p in spans[0]] == share.tolist()
    assert tagger.score(X, Y) == 1.0


def test_sentences_of_one_length_stay_lists() -> None:
    found = CRFTagger().fit(X, Y).predict([X[0], X[0]])
    assert found.shape == (2,)
    assert isinstance(found[0], list)
    shares = CRFTagger().fit(X, Y).predict_proba([X[0], X[0]])
    assert shares.shape == (2,)
    assert shares[1].shape == (4, 3)


@pytest.mark.thorough
def test_searches_and_folds_take_lists_of_sentences() -> None:
    for cv in (2, None):
        few = [*X, *X], [*Y, *Y]
        search = GridSearchCV(CRFTagger(), {"l2": [0.01, 100.0], "order": [0, 1]}, cv=cv)
        assert search.fit(*few).best_params_["l2"] == 0.01
    assert len(cross_val_score(CRFTagger(), X, Y, cv=3)) == 3
    found = cross_val_predict(CRFTagger(), X, Y, cv=3)
    assert [len(row) for row in found] == [len(row) for row in Y]


@pytest.mark.thorough
def test_a_search_runs_in_several_processes_under_a_grammar() -> None:
    tagger = CRFTagger(grammar=bio() & at_most(1, "PER"))
    search = GridSearchCV(tagger, {"l2": [0.1, 1.0]}, cv=2, n_jobs=2, error_score="raise")
    found = search.fit(X, Y).predict(X)
    assert all(row.count("B-PER") <= 1 for row in found)


def test_a_pipeline_ends_with_it() -> None:
    def features(sentences: Any) -> list[Any]:
        return [[{"w": word} for word in words] for words in sentences]

    pipeline = Pipeline([("features", FunctionTransformer(features)), ("crf", CRFTagger())])
    pipeline.set_params(crf__l2=0.01).fit(WORDS, Y)
    assert pipeline.predict(WORDS).tolist() == Y
    assert pipeline.score(WORDS, Y) == 1.0


def test_weights_are_routed() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        tagger = CRFTagger(l2=0.1).set_fit_request(sample_weight=True)
        tagger = tagger.set_score_request(sample_weight=True)
        pipeline = Pipeline([("crf", tagger)])
        weights = np.array([0, 2.0, 1, 3, 1, 0])
        pipeline.fit(X, Y, sample_weight=weights)
        direct = CRFTagger(l2=0.1).fit(X, Y, sample_weight=weights)
        assert pipeline[-1].crf_.theta.tolist() == direct.crf_.theta.tolist()
        search = GridSearchCV(tagger, {"l2": [0.1, 1.0]}, cv=2)
        search.fit(X, Y, sample_weight=np.ones(6))
        assert search.best_score_ > 0


@pytest.mark.parametrize("metric", ["f", "accuracy"])
def test_scores_count_sentences_by_weight(metric: Any) -> None:
    tagger = CRFTagger(metric=metric, l2=0.01).fit(X, Y)
    given, gold = [X[0], X[2]], [Y[0], ["B-PER", "O", "O"]]
    assert tagger.predict(given).tolist() == [Y[0], Y[2]]
    same = tagger.score(given, gold, sample_weight=[1, 1])
    assert same == pytest.approx(tagger.score(given, gold))
    # Three times a sentence of two spans, four tokens; once one of one span, three tokens.
    found = tagger.score(given, gold, sample_weight=[3, 1])
    right, tried, wished = (6, 7, 7) if metric == "f" else (14, 15, 15)
    assert found == pytest.approx(2 * right / (tried + wished))


def test_clones_and_pickles_answer_the_same() -> None:
    grammar = bio() & at_most(1, "PER")
    tagger = CRFTagger(TEMPLATE, grammar=grammar, l2=0.1)
    fresh = pickle.loads(pickle.dumps(tagger))
    assert str(fresh.grammar) == str(grammar)
    fitted = clone(fresh).fit(WORDS, Y)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict(WORDS).tolist() == fitted.predict(WORDS).tolist()
    assert max(row.count("B-PER") for row in fitted.predict(WORDS)) == 1
    assert fitted.crf_.tag_all([{"word": w} for w in WORDS]) == Y


# --- Forms of sentences ---------------------------------------------------------------------------


def test_columns_have_templates() -> None:
    words = CRFTagger(TEMPLATE).fit(WORDS, Y)
    columns = CRFTagger(TEMPLATE).fit([{"word": w} for w in WORDS], Y)
    rows = [[(word, "x") for word in w] for w in WORDS]
    tuples = CRFTagger(TEMPLATE, columns=("word", "other")).fit(rows, Y)
    corpus = fstcrf.Corpus.from_sentences([{"word": w} for w in WORDS])
    whole = CRFTagger(TEMPLATE).fit(corpus, Y)
    for other in (columns, tuples, whole):
        assert other.crf_.theta.tolist() == words.crf_.theta.tolist()
    assert tuples.predict(rows).tolist() == whole.predict(corpus).tolist() == Y
    assert cross_val_predict(CRFTagger(TEMPLATE), corpus, Y, cv=2).shape == (6,)


def test_labels_are_trained_in_another_scheme() -> None:
    tagger = CRFTagger(scheme="iob2:bioes").fit(X, Y)
    assert {"S-PER", "E-PER"} < set(tagger.classes_)
    assert tagger.score(X, Y) == 1.0


def test_labels_may_be_numbers() -> None:
    numbers = {"O": 0, "B-PER": 7, "I-PER": 10}
    y = [[numbers[label] for label in row] for row in Y]
    tagger = CRFTagger(l2=0.1).fit(X, y)
    assert tagger.classes_.tolist() == [0, 7, 10]
    assert tagger.predict(X).tolist() == y
    assert tagger.score(X, y) == 1.0


def test_some_labels_may_be_unknown() -> None:
    y = [["_" if i == 0 else label for i, label in enumerate(row)] for row in Y]
    with pytest.warns(LabelWarning, match=r"unknown \(_\)"):
        assert "_" not in CRFTagger().fit(X, y).classes_
    assert "_" not in CRFTagger(options={"partial": True}).fit(X, y).classes_
    assert "_" in CRFTagger(options={"partial": False}).fit(X, y).classes_
    with pytest.raises(OptionError, match=r"'whole_labels'.*did you mean 'partial'"):
        CRFTagger(options={"whole_labels": True}).fit(X, y)


def test_a_grammar_is_obeyed_or_trained_with() -> None:
    text = 'export ONE = "[O]"* "[B-PER]" ("[O]" | "[I-PER]")*;'
    found = CRFTagger(grammar=text).fit(X, Y).predict(X[:1])
    assert found[0].count("B-PER") == 1
    trained = CRFTagger(options={"grammar": bio()}).fit(X, Y)
    assert trained.crf_ is trained.tagger_
    assert trained.crf_.record is not None
    assert trained.crf_.record.grammar == "Grammar(bio())"


def test_sentences_without_a_path_are_named_or_relaxed() -> None:
    grammar = fstcrf.constraints.exactly(2, "PER")
    tagger = CRFTagger(grammar=grammar).fit(X, Y)
    with pytest.raises(NoPathError, match="sentence 1"):
        tagger.predict([X[0], X[5]])
    relaxed = CRFTagger(grammar=grammar, on_no_path="relax").fit(X, Y)
    assert [len(row) for row in relaxed.predict([X[0], X[5]])] == [4, 1]


def test_class_weights_pull() -> None:
    plain = CRFTagger(l2=1.0).fit(X, Y).predict_proba(X)
    pulled = CRFTagger(l2=1.0, class_weight={"O": 10.0}).fit(X, Y).predict_proba(X)
    assert sum(p[:, 2].sum() for p in pulled) > sum(p[:, 2].sum() for p in plain)
    CRFTagger(class_weight="balanced").fit(X, Y)
    CRFTagger(class_weight={"O": 2.0, "B-LOC": 3.0}).fit(X, Y)  # a fold may lack some
    with pytest.raises(DataError, match="class_weight names 'B-LOC', which are no labels"):
        CRFTagger(class_weight={"B-LOC": 3.0}).fit(X, Y)


# --- Tables ---------------------------------------------------------------------------------------


def table() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    y = np.array([0, 0, 1, 1, 1, 0] * 10)
    key = np.repeat(np.arange(10), 6)
    x = np.column_stack([key, y + rng.normal(size=60), rng.normal(size=60)])
    return x, y, key


@pytest.mark.thorough
def test_rows_with_one_key_are_a_sentence() -> None:
    x, y, key = table()
    tagger = CRFTagger(sentence=0, l2=0.01).fit(x, y)
    assert tagger.predict(x).shape == (60,)
    assert tagger.predict(x).dtype == y.dtype
    shares = tagger.predict_proba(x)
    assert shares.shape == (60, 2)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    rows = [
        [{"(intercept)": 1.0, "x1": a, "x2": b} for a, b in x[key == k, 1:].tolist()]
        for k in range(10)
    ]
    lists = CRFTagger(l2=0.01).fit(rows, y.reshape(10, 6).tolist())
    assert flat(lists.predict(rows)) == tagger.predict(x).tolist()
    assert tagger.score(x, y) > CRFTagger(l2=0.01).fit(x[:, 1:], y).score(x[:, 1:], y)
    found = cross_val_predict(tagger, x, y, groups=key, cv=GroupKFold(3))
    assert found.shape == (60,)
    pipeline = Pipeline([("scale", StandardScaler()), ("crf", CRFTagger())]).fit(x, y)
    assert pipeline.predict(x).shape == (60,)


def test_a_sentence_of_rows_has_one_weight() -> None:
    x, y, key = table()
    tagger = CRFTagger(sentence=0)
    tagger.fit(x, y, sample_weight=1.0 + key)
    with pytest.raises(DataError, match="row 7 has the sample weight 1, but the first row"):
        tagger.fit(x, y, sample_weight=np.r_[np.ones(5), 1.0, 2.0, np.ones(53)])


# --- Bad input ------------------------------------------------------------------------------------


def test_it_is_used_after_fit() -> None:
    for ask in ("predict", "predict_proba", "predict_spans"):
        with pytest.raises(NotFittedError):
            getattr(CRFTagger(), ask)(X)
    with pytest.raises(NotFittedError):
        CRFTagger().score(X, Y)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (X, Y[:-1], "labels of 5 sentences for 6 sentences"),
        (X[:-1], Y, "labels of 6 sentences for 5 sentences"),
        (X[:2], [Y[0], [*Y[1], "O"]], "sentence 1: 4 labels for 3 tokens"),
        (X[:2], ["O", "O"], "sentence 0: its labels are 'O', expected a list"),
        ([[{"a": float("nan")}]], [["O"]], "sentence 0, token 0.*nan"),
        ([[{"a": 1.0}]], [[None]], "sentence 0, token 0: the label is missing or NaN"),
        (["Anna slept"], [["O", "O"]], "sentence 0: 'Anna slept' is not a sentence"),
        ([], [], "no sentence to train on"),
        ([[{"a": 1.0}, {"b": 1.0}]], [["O", 1]], "strings and other things"),
        ([[{"a": 1.0}, {"b": 1.0}]], [["1", 1]], "labels 1 and '1' are the same string"),
        (X, None, "requires y to be passed"),
        (3, [["O"]], "X is int, expected sentences or a table"),
    ],
)
def test_bad_sentences_are_named(x: Any, y: Any, words: str) -> None:
    with pytest.raises((DataError, OptionError), match=words):
        CRFTagger().fit(x, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "F"}, "metric is 'F', expected 'auto' or 'f' or 'accuracy'"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"grammar": 3}, "grammar is 3, expected a fstcrf.Grammar"),
        ({"class_weight": "even"}, "class_weight is 'even', expected 'balanced'"),
        ({"options": {"l2": 1.0}}, "options contains 'l2', which is already a parameter"),
        ({"l2": -1.0}, "l2"),
        ({"options": {"memry": 5}}, "options has 'memry', which is no option of CRF.train"),
        ({"options": {"structure": Chain(order=2)}}, "options contains 'order', which is already"),
        ({"options": {"structure": Run()}}, r"structure is Run\(\), expected Chain"),
        ({"options": {"grammar": 3}}, "grammar is 3, expected a fstcrf.Grammar"),
        ({"method": Chain()}, r"method is Chain\(\), expected settings of the method"),
        ({"method": LBFGS(l2=0.5), "l2": 0.5}, "l2 is given twice, as an option and in method="),
        ({"template": Chain()}, r"features is Chain\(\), expected Features"),
        ({"template": TEMPLATE}, "a template, a feature function and reads= need columns"),
    ],
)
def test_bad_parameters_are_named_when_fitting(options: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        CRFTagger(**options).fit(X, Y)


# --- Structs --------------------------------------------------------------------------------------


def test_structs_are_those_of_the_call_of_crf() -> None:
    rows = [{"word": words} for words in WORDS]
    for template in (TEMPLATE, of_words):
        tagger = CRFTagger(
            Features(template, min_count=2),
            method=LBFGS(l1=0.1, memory=3),
            options={"structure": Chain(pairs="complete"), "ends": True},
            l2=0.2,
        )
        tagger = clone(tagger).set_params(method__l1=0.05, options__ends=False, order=0)
        called = fstcrf.CRF.train(
            rows,
            Y,
            Features(template, min_count=2),
            structure=Chain(pairs="complete", ends=False, order=0),
            method=LBFGS(l1=0.05, memory=3),
            l2=0.2,
        )
        assert np.array_equal(tagger.fit(rows, Y).crf_.theta, called.theta)


def of_words(sentence: Any) -> list[list[str]]:
    return [[word, word[-1:]] for word in sentence["word"]]


def test_a_search_varies_options_of_structs() -> None:
    grid = {"method__l1": [0.01, 50.0], "options__pairs": ["supported", "complete"]}
    search = GridSearchCV(CRFTagger(method=LBFGS(memory=4)), grid, cv=2).fit(X, Y)
    best = search.best_estimator_
    assert best.method == LBFGS(memory=4, l1=0.01)
    assert best.crf_.record.options["l1"] == 0.01
    with pytest.raises(ValueError, match="method__l1: method is 'lbfgs', expected a struct"):
        CRFTagger().set_params(method__l1=0.1)
    with pytest.raises(ValueError, match="Invalid parameter 'l1'"):
        CRFTagger().set_params(l1=0.1)


def test_tables_must_be_whole() -> None:
    x, y, _ = table()
    with pytest.raises(DataError, match="no column 7 to separate sentences by"):
        CRFTagger(sentence=7).fit(x, y)
    x[30, 0] = 2
    with pytest.raises(DataError, match=r"row 30: sentence 2\.0 of column 0 is interrupted"):
        CRFTagger(sentence=0).fit(x, y)
    with pytest.raises(ValueError, match="inconsistent"):
        CRFTagger().fit(x, y[:-1])
    with pytest.raises(DataError, match="fitted on a list of sentences, and X is a table"):
        CRFTagger().fit(X, Y).predict(x)
    with pytest.raises(DataError, match="fitted on a table, and X is a list of sentences"):
        CRFTagger().fit(x, y).predict(X)


# --- Composed -------------------------------------------------------------------------------------

POS = [[{"Anna": "N", "Lee": "N", "Bob": "N"}.get(word, "V") for word in words] for words in WORDS]


@pytest.mark.parametrize("grammar", [None, bio() & at_most(1, "PER")])
@pytest.mark.parametrize("way", ["named", "renamed"])
def test_estimators_in_memory_are_renamed_and_composed(way: str, grammar: Any) -> None:
    given = {"ner": "ner", "pos": "pos"} if way == "named" else {"ner": "label", "pos": "label"}
    ner = CRFTagger(grammar=grammar, l2=0.1, tape=given["ner"]).fit(X, Y)
    pos = CRFTagger(l2=0.1, tape=given["pos"]).fit(X, POS)
    assert clone(ner).get_params()["tape"] == given["ner"]
    parts = [ner.tagger_, pos.tagger_]
    if way == "renamed":
        with pytest.raises(OptionError, match=r"rename it, tagger\.renamed\('pos'\)"):
            fstcrf.compose(*parts)
        parts = [part.renamed(tape) for part, tape in zip(parts, ("ner", "pos"), strict=True)]
    joint = fstcrf.compose(*parts)
    assert joint.tapes == ("ner", "pos")
    apart = zip(ner.predict(X), pos.predict(X), strict=True)
    assert joint.tag_all(X) == list(apart)
    rule = pairs({"V": ["O"]}, ("pos", "ner"))
    for labels, tags in (joint & rule).tag_all(X):
        assert all(label == "O" for label, tag in zip(labels, tags, strict=True) if tag == "V")
    assert (pickle.loads(pickle.dumps(parts[0])) @ parts[1]).tag_all(X) == joint.tag_all(X)


def test_what_cannot_be_composed_or_renamed() -> None:
    ner: Any = CRFTagger(l2=0.1).fit(X, Y)
    with pytest.raises(OptionError, match=r"of an estimator, compose its \.tagger_"):
        fstcrf.compose(ner, ner)
    joint = ner.tagger_.renamed("ner") @ ner.tagger_.renamed("pos")
    with pytest.raises(OptionError, match="tapes ner, pos: rename taggers, then compose them"):
        joint.renamed("x")
    with pytest.raises(OptionError, match="options contains 'tape', which is already a parameter"):
        CRFTagger(options={"tape": "x"}).fit(X, Y)
    words = [{"word": row, "pos": tags} for row, tags in zip(WORDS, POS, strict=True)]
    pos = fstcrf.CRF.train(words, "pos", TEMPLATE)
    reader = fstcrf.CRF.train(words, Y, "U:%x[0,word]\nU:%y[0,pos]\nB", reads=[pos], tape="ner")
    with pytest.raises(OptionError, match="the tagger reads a tape 'pos'"):
        reader.renamed("pos")
    assert (pos @ reader.renamed("x")).tapes == ("pos", "x")
