"""Taggers decode: by tape, the n best, with known labels and biases, and what has no path."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Budget, Composition, Corpus, compose
from fstcrf.constraints import at_most, label
from fstcrf.errors import (
    DataError,
    InexactWarning,
    LabelError,
    NoPathError,
    OptionError,
    ShapeError,
)
from fstcrf.taggers import Tagger
from tests.support.joint_cases import TEST, taggers

A, B = taggers("pair")
GRAMMAR = at_most(1, label("B"), tape="chunk")
TAGGERS: dict[str, Any] = {
    "one": A,
    "under a grammar": A & at_most(1, label("P0")),
    "product": compose(A, B, normalize="product"),
    "product under a grammar": compose(A, B, grammar=GRAMMAR, normalize="product"),
    "lazily": compose(A, B, grammar=GRAMMAR, search="lazy", normalize="product"),
}
DATA: list[Any] = [*TEST[:4], {name: [] for name in TEST[0]}]


Scored = list[tuple[float, tuple[tuple[str, ...], ...]]]
_SCORED: dict[tuple[int, int], tuple[Any, Any, Scored]] = {}
"""Labellings by the identities of a tagger and a sentence, which stay alive here."""


def scored(tagger: Any, sentence: Any) -> Scored:
    """Every labelling with its score, by asking the lattice for each."""
    key = id(tagger), id(sentence)
    if key not in _SCORED:
        size = len(sentence["word"])
        sets = [itertools.product(a, repeat=size) for a in tagger.label_sets.values()]
        found = [
            (tagger.score(sentence, tapes if len(tapes) > 1 else tapes[0]), tapes)
            for tapes in itertools.product(*sets)
        ]
        _SCORED[key] = tagger, sentence, found
    return _SCORED[key][-1]


def all_paths(tagger: Any, sentence: Any, forced: Any = None, bias: Any = None) -> Scored:
    """Every labelling with what is forced and added, best first."""
    found = []
    for plain, tapes in scored(tagger, sentence):
        score = plain
        for tape, labels in zip(tagger.tapes, tapes, strict=True):
            score += sum((bias or {}).get(tape, {}).get(one, 0.0) for one in labels)
            known = (forced or {}).get(tape) or [None] * len(labels)
            pairs = zip(known, labels, strict=True)
            if not all(k in (None, "_") or one in k.split("|") for k, one in pairs):
                score = -np.inf
        if score > -np.inf:
            found.append((score, tapes))
    return sorted(found, key=lambda path: -path[0])


def check(tagger: Any, n: int, forced: Any = None, bias: Any = None, **options: Any) -> None:
    several = len(tagger.tapes) > 1
    said = forced and [f if several or not f else f[tagger.tape] for f in forced]
    added = bias if several or not bias else bias[tagger.tape]
    answer = tagger.decode(DATA, n=n, forced=said, bias=added, **options)
    for b, sentence in enumerate(DATA):
        paths = all_paths(tagger, sentence, forced and forced[b], bias)
        log_z = np.logaddexp.reduce([score for score, _ in paths])
        found = answer.paths(b)
        assert len(found) == min(n, len(paths))
        for path, (score, _) in zip(found, paths, strict=False):
            assert path.score == pytest.approx(score, abs=1e-9)
            assert path.probability == pytest.approx(np.exp(score - log_z), abs=1e-9)
            assert path.exact
            assert path.bound == path.score
            labels = path.labels if several else (path.labels,)
            assert any(s == pytest.approx(score, abs=1e-9) and t == labels for s, t in paths)
        assert len({path.labels for path in found}) == len(found)


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("name", TAGGERS)
def test_the_n_best(name: str, n: int) -> None:
    check(TAGGERS[name], n)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("weights", "grammar"), [((1.0, 1.0), None), ((1.0, 1.0), GRAMMAR), ((0.8, 0.5), GRAMMAR)]
)
def test_a_chain_with_known_labels_and_biases(weights: Any, grammar: Any) -> None:
    """They choose among labellings; probabilities stay those of the taggers."""
    chain = compose(A, B, grammar=grammar, weights=weights, normalize="chain")
    bias = {"pos": {"P0": -1.5}, "chunk": {"O": 0.75, "B": -0.25}}
    forced: list[Any] = [
        {"pos": ["P0|P1", *[None] * (len(s["word"]) - 1)]} if s["word"] else None for s in DATA
    ]
    for number, sentence in enumerate(DATA[1:-1], 1):
        forced[number]["chunk"] = ["_"] * (len(sentence["word"]) - 1) + ["O"]
    told: Any = ((forced, bias), (forced, None), (None, bias))
    for n, (known, added) in itertools.product((1, 4), told):
        answer = chain.decode(DATA, n=n, forced=known, bias=added, budget=4096, threads=2)
        for b, sentence in enumerate(DATA):
            wanted = all_paths(chain, sentence, known and known[b], added)
            found = answer.paths(b)
            assert len(found) == min(n, len(wanted))
            for path, (score, _) in zip(found, wanted, strict=False):
                assert path.exact
                assert path.score == pytest.approx(score, abs=1e-9)
                assert any(
                    s == pytest.approx(score, abs=1e-9) and t == path.labels for s, t in wanted
                )
                if sentence["word"]:
                    plain = chain.probability(sentence, path.labels)
                    assert path.probability == pytest.approx(plain, abs=1e-9)


def test_a_chain_whose_known_labels_leave_nothing() -> None:
    grammar = at_most(0, label("B"), tape="chunk")
    chain = compose(A, B, grammar=grammar, normalize="chain")
    sentence = DATA[0]
    forced: Any = [None, {"chunk": ["B", *["_"] * (len(sentence["word"]) - 1)]}]
    for n in (1, 2):
        with pytest.raises(NoPathError):
            chain.decode([sentence] * 2, forced=forced, n=n)
        assert chain.decode(
            [sentence] * 2, forced=forced, n=n, on_no_path="skip"
        ).dead.tolist() == [False, True]
    relaxed = chain.decode([sentence] * 2, forced=forced, on_no_path="relax")
    assert relaxed.changed.tolist() == ["", "grammar"]
    with pytest.raises(LabelError, match="token 0: forced label 'Z' is not a label"):
        chain.decode(DATA[:1], forced=[{"pos": ["Z"] * len(sentence["word"])}])
    with pytest.raises(ShapeError, match="0 forced labels for"):
        chain.decode(DATA[:1], forced=[{"pos": []}])


# --- No path ------------------------------------------------------------------------------------


SKIP: Any = {"on_no_path": "skip"}


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("normalize", ["product", "chain"])
def test_no_path_under_a_grammar(normalize: Any, n: int) -> None:
    whole = compose(A, B, normalize=normalize)
    short = whole & at_most(2, label(".*"), tape="pos")
    with pytest.raises(NoPathError) as caught:
        short.decode(DATA, n=n)
    dead = [len(s["word"]) > 2 for s in DATA]
    assert caught.value.sentence == dead.index(True)
    skipped = short.decode(DATA, n=n, on_no_path="skip")
    assert skipped.dead.tolist() == dead
    assert not skipped.changed.any()
    relaxed, free = short.decode(DATA, n=n, on_no_path="relax"), whole.decode(DATA, n=n)
    assert relaxed.changed.tolist() == ["grammar" if d else "" for d in dead]
    for b, is_dead in enumerate(dead):
        assert relaxed[b] == (free[b] if is_dead else skipped[b])
    for answer, options in ((skipped, {}), (skipped, SKIP), (relaxed, {"on_no_path": "relax"})):
        assert short.nbest_all(DATA, n, **options) == answer.ranked()
        assert short.paths_all(DATA, **options) == [next(iter(p), None) for p in answer.ranked()]
    with pytest.raises(NoPathError):
        short.paths_all(DATA, on_no_path="error")


def test_what_is_given_up_in_turn() -> None:
    tagger = A & at_most(1, label("P0"))
    sentence = {name: values[:2] for name, values in DATA[0].items()}
    pairs: list[Any] = [["P0", "P0"], [None, None], None]
    answer = tagger.decode([sentence] * 3, forced=pairs, on_no_path="relax")
    assert answer.changed.tolist() == ["grammar", "", ""]
    assert answer.labels()[0] == ["P0", "P0"]
    assert A.decode([sentence], forced=[["P0", "P0"]], on_no_path="relax").changed.tolist() == [""]
    free = tagger.without_grammar()
    assert free is not None
    assert free.tag(sentence) == A.tag(sentence)
    assert A.without_grammar() is None


def test_a_budget_that_ends() -> None:
    lazy = TAGGERS["lazily"]
    with pytest.warns(InexactWarning, match="not proven"):
        answer = lazy.decode(DATA, n=2, budget=1)
    assert (answer.bounds[~answer.exact] >= answer.scores[~answer.exact]).all()
    bounded = compose(A, B, normalize="product").constrained(
        GRAMMAR, search="lazy", budget=Budget(states=1)
    )
    with pytest.warns(InexactWarning):
        assert np.array_equal(bounded.decode(DATA, n=2).exact, answer.exact)
    assert np.array_equal(bounded.decode(DATA, search="expanded").scores, lazy.decode(DATA).scores)


def test_what_is_refused() -> None:
    both = TAGGERS["product"]
    size = len(DATA)
    with pytest.raises(OptionError, match="on_no_path is 'no', expected one of 'error', 'skip'"):
        A.decode(DATA, on_no_path="no")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="n is 0"):
        A.decode(DATA, n=0)
    with pytest.raises(
        OptionError, match="forced must be given per tape: pass a dict with keys from pos, chun"
    ):
        both.decode(DATA[:1], forced=[["P0"]])
    with pytest.raises(OptionError, match="bias is given for a tape 'x': the tapes are pos, chunk"):
        both.decode(DATA, bias={"x": {"P0": 1.0}})
    with pytest.raises(ShapeError, match=f"forced labels of 1 sentences for {size}"):
        both.decode(DATA, forced=[{"pos": []}])
    with pytest.raises(ShapeError, match="0 forced labels for"):
        both.decode(DATA[:1], forced=[{"pos": []}])
    with pytest.raises(LabelError, match="token 0: forced label 'Z' is not a label"):
        both.decode(DATA[:1], forced=[{"pos": ["Z"] * len(DATA[0]["word"])}])
    with pytest.raises(LabelError):
        both.decode(DATA, bias={"pos": {"Z": 1.0}})
    with pytest.raises(OptionError, match="budget of 0 states"):
        A.decode(DATA, budget=0)


def test_all_are_taggers() -> None:
    assert all(isinstance(tagger, Tagger) for tagger in TAGGERS.values())
    assert isinstance(TAGGERS["product"], Composition)
    assert isinstance(A, CRF)


# --- Columns, tapes, distributions, blame ---------------------------------------------------------


@pytest.mark.parametrize("name", TAGGERS)
def test_known_labels_in_columns(name: str) -> None:
    tagger = TAGGERS[name]
    rows = [["P0|P1", *["_"] * (len(s["word"]) - 1)] for s in TEST[:4]]
    corpus = Corpus.from_sentences(
        [{"word": s["word"], "gold": row} for s, row in zip(TEST[:4], rows, strict=True)]
    )
    forced: Any = [{"pos": row} for row in rows]
    wanted = tagger.decode(corpus, forced=forced)
    columns: list[Any] = [{"pos": "gold"}] + ["gold"] * (len(tagger.tapes) == 1)
    for column in columns:
        found = tagger.decode(corpus, forced=column)
        assert list(found) == list(wanted)
    with pytest.raises(OptionError, match="names columns, but the sentences are no Corpus"):
        tagger.decode(DATA, forced={"pos": "gold"})
    with pytest.raises(
        OptionError,
        match=f"expected a dict of column names with keys from {', '.join(tagger.tapes)}",
    ):
        tagger.decode(corpus, forced={"x": "gold"})
    odd = corpus.with_column("gold", [["X", *row[1:]] for row in rows])
    with pytest.raises(
        DataError, match=r"^sentence 0, token 0: 'X' in column 'gold' is not a label"
    ):
        tagger.decode(odd, forced={"pos": "gold"})


@pytest.mark.parametrize("name", ["product", "product under a grammar", "lazily"])
@pytest.mark.parametrize("tapes", [["pos"], ["chunk"], ["chunk", "pos"]])
def test_the_n_best_of_some_tapes(name: str, tapes: list[str]) -> None:
    """Scores and probabilities are those of the best path with these labels."""
    tagger, bias = TAGGERS[name], {"pos": {"P0": -1.5}}
    answer = tagger.decode(DATA, n=3, tapes=tapes, bias=bias)
    assert answer.tapes == tuple(tapes)
    for b, sentence in enumerate(DATA):
        paths = all_paths(tagger, sentence, bias=bias)
        log_z = np.logaddexp.reduce([score for score, _ in paths])
        groups: dict[Any, list[float]] = {}
        for score, labels in paths:
            shown = tuple(labels[tagger.tapes.index(tape)] for tape in tapes)
            groups.setdefault(shown, []).append(score)
        ranked = sorted(groups.values(), key=lambda scores: -scores[0])
        found = answer.paths(b)
        assert len(found) == min(3, len(ranked))
        for path, scores in zip(found, ranked, strict=False):
            assert path.score == pytest.approx(scores[0], abs=1e-9)
            chance = np.exp(scores[0] - log_z)
            key = path.labels if len(tapes) > 1 else (path.labels,)
            assert groups[key][0] == pytest.approx(path.score, abs=1e-9)
            assert path.probability == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("name", TAGGERS)
def test_distributions_of_answers(name: str) -> None:
    """Marginals by summing all paths; what is forced and added is put in."""
    tagger, bias = TAGGERS[name], {"pos": {"P0": -1.5}}
    forced: list[Any] = [{"pos": ["P0|P1", *[None] * (len(s["word"]) - 1)]} for s in DATA[:-1]]
    answer = tagger.decode(DATA, forced=[*forced, None], bias=bias)
    for b, sentence in enumerate(DATA):
        paths = all_paths(tagger, sentence, None if b == len(DATA) - 1 else forced[b], bias)
        log_z = np.logaddexp.reduce([score for score, _ in paths])
        for k, tape in enumerate(tagger.tapes):
            table = np.zeros((len(sentence["word"]), len(tagger.label_sets[tape])))
            for score, labels in paths:
                for t, one in enumerate(labels[k]):
                    table[t, tagger.label_sets[tape].index(one)] += np.exp(score - log_z)
            assert np.allclose(answer.marginals(tape)[b], table)
            spans = answer[tape].spans()[b]
            assert len(answer.span_probabilities(tape)[b]) == len(spans)
        sure = answer.confidence(b)
        assert sure.probability.low == pytest.approx(answer.probabilities[b])
    chain = compose(A, B, normalize="chain")
    with pytest.raises(OptionError, match="answers of this search have no marginals"):
        chain.decode(DATA).marginals("pos")


def test_distributions_of_what_is_relaxed_and_dead() -> None:
    tagger = A & at_most(1, label("P0"))
    long: Any = {"word": ["a", "b", "c"]}
    forced = [None, ["P0", "P0", "P0"]]
    skipped = tagger.decode([long, long], forced=forced, on_no_path="skip")
    assert skipped.dead.tolist() == [False, True]
    assert not skipped.marginals()[1].any()
    assert skipped.confidence(1) is None
    relaxed = tagger.decode([long, long], forced=forced, on_no_path="relax")
    assert relaxed.changed.tolist() == ["", "grammar"]
    assert (relaxed.marginals()[1][:, A.labels.index("P0")] == 1.0).all()
    assert np.array_equal(relaxed.marginals()[0], skipped.marginals()[0])


@pytest.mark.parametrize("name", ["under a grammar", "product under a grammar"])
def test_what_is_to_blame(name: str) -> None:
    long = {"word": ["a", "b", "c"]}
    grammar = at_most(1, label("P0"), tape="pos")
    tagger = compose(A, B, grammar=grammar) if "product" in name else A & grammar
    forced: Any = [None, {"pos": ["P0", "P0", None]}]
    words = "the labels forced by tape 'pos' and the grammar are to blame, but only together"
    with pytest.raises(NoPathError, match=f"^sentence 1, token 1: {words}: ") as raised:
        tagger.decode([long, long], forced=forced)
    assert raised.value.blame == words
    assert raised.value.sentence == 1
    assert len(raised.value.constraints) == 1
