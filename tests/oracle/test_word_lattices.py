"""Word lattices that are trained, beside enumeration of all ways through texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from fstcrf.ext.lexicon import Lexicon
from fstcrf.ext.words import Annotation, KnownWord, LatticeCRF, Words, WordTemplates
from fstcrf.ext.words.crf import _Corpus
from fstcrf.ext.words.likelihood import word_likelihood
from fstcrf.ext.words.structure import Costs
from fstcrf.ext.words.templates import Rewrites
from tests.support.wordlists import random_lexicon

TEMPLATE = """\
UNIGRAM A:%F[0],%F?[2]
UNIGRAM B:%w/%t
UNIGRAM C:%F[1]/%n
BIGRAM D:%L[0]/%R[0]
BIGRAM E:%L[1]/%R?[2],%R[0]
BIGRAM F:%r/%l
"""
REWRITE = """\
[unigram rewrite]
*,*,*\t$1,$2,$3
[left rewrite]
(N|V),*,*\t$1,x,$3
*,*,*\t$1,$2,*
BOS/EOS,*,*\t$1,$2,$3
[right rewrite]
*,*,*\t$1,$3,$2
"""
BLANK = ["BOS/EOS", "*", "*"]
TEXTS = ["abcab", "ab ca", "cbaz", "a"]

Way = list[tuple[int, int, int]]


def _ways(lexicon: Lexicon, text: str) -> list[Way]:
    """All ways through a text: words as (start, end, number)."""
    words = lexicon.candidates(text)
    columns = (column.tolist() for column in (words.first, words.start, words.end, words.word))
    rows = list(zip(*columns, strict=True))

    def beyond(at: int) -> Iterator[Way]:
        if at == words.last:
            yield []
        for first, s, e, word in rows:
            if first == at:
                for rest in beyond(e):
                    yield [(s, e, word), *rest]

    return list(beyond(0))


def _left(fields: Sequence[str]) -> list[str]:
    if fields[0] in "NV":
        return [fields[0], "x", fields[2]]
    return [fields[0], fields[1], "*"]


def _right(fields: Sequence[str]) -> list[str]:
    return [fields[0], fields[2], fields[1]]


def _features(lexicon: Lexicon, text: str, way: Way) -> list[tuple[Any, ...]]:
    """The features of a way, written down once more, by hand."""
    found: list[tuple[Any, ...]] = []
    before = _right(BLANK)
    for start, end, word in way:
        fields = lexicon.feature(word).split(",")
        surface = text[start:end] if word < lexicon.n_known else None
        kind = list(lexicon.characters.names).index("LETTER")
        if fields[2] != "*":
            found.append(("A", fields[0], fields[2]))
        if surface is not None:
            found.append(("B", surface, kind))
        found.append(("C", fields[1], min(end - start, 8)))
        found += _pairs(before, _left(fields))
        before = _right(fields)
    return found + _pairs(before, _left(BLANK))


def _pairs(first: list[str], second: list[str]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [("D", first[0], second[0])]
    if second[2] != "*":
        found.append(("E", first[1], second[2], second[0]))
    return [*found, ("F", *first, *second)]


def _cost(lexicon: Lexicon, way: Way) -> float:
    numbers = np.asarray([word for *_, word in way], dtype=np.int32)
    entries = lexicon.entries(numbers)
    rights = [0, *entries["right"].tolist()]
    lefts = [*entries["left"].tolist(), 0]
    pairs = sum(int(lexicon.matrix[a, b]) for a, b in zip(lefts, rights, strict=True))
    return -(pairs + int(entries["cost"].sum())) / lexicon.unit


def _agrees(lexicon: Lexicon, given: Annotation, way: Way) -> bool:
    spans = {(s, e): lexicon.feature(w).split(",")[0] for s, e, w in way}
    edges = {s for s, _ in spans} | {e for _, e in spans}
    for known in given.words:
        label = spans.get((known.start, known.end))
        if label is None or known.label not in (None, label):
            return False
    inside = {k for s, e in spans for k in range(s + 1, e)}
    return all(
        k not in inside if begins else k not in edges for k, begins in given.boundaries.items()
    )


def _log_sum(values: list[float]) -> float:
    most = max(values)
    return most + math.log(sum(math.exp(v - most) for v in values))


def _annotated(generator: np.random.Generator, lexicon: Lexicon, text: str) -> Annotation:
    """What is known of a random way: all of it, some words, some boundaries."""
    ways = _ways(lexicon, text)
    way = ways[int(generator.integers(len(ways)))]
    words = [KnownWord(s, e, lexicon.feature(w).split(",")[0]) for s, e, w in way]
    how = int(generator.integers(4))
    if how == 0:
        return Annotation(text, words)
    if how == 1:
        return Annotation(text, [w for w in words if generator.random() < 0.5])
    if how == 2:
        return Annotation(text, [KnownWord(w.start, w.end) for w in words])
    inside = {k for w in words for k in range(w.start + 1, w.end)}
    chosen = [k for k in range(1, len(text)) if text[k] != " " and text[k - 1] != " "]
    return Annotation(text, (), {k: k not in inside for k in chosen if generator.random() < 0.5})


@pytest.mark.thorough
@pytest.mark.parametrize("costs", ["none", "fixed", "scaled"])
@pytest.mark.parametrize("seed", range(6))
def test_likelihood_and_gradient_are_those_of_all_ways(seed: int, costs: Costs) -> None:
    generator = np.random.default_rng(seed)
    lexicon = random_lexicon(generator)
    data = [_annotated(generator, lexicon, text) for text in TEXTS]
    templates, rewrites = WordTemplates.parse(TEMPLATE), Rewrites.parse(REWRITE)
    corpus = _Corpus.read(lexicon, data, templates, rewrites, [0], costs=costs, on_missing="error")
    chosen = corpus.chosen(0, scaled=costs == "scaled")
    objective = word_likelihood(corpus.problem, chosen.space, l2=0.3, threads=2)
    theta = generator.normal(size=chosen.space.size)
    value, gradient = objective(theta)
    scale = {"none": 0.0, "fixed": 1.0, "scaled": 1.0 + theta[0]}[costs]

    weights = _by_name(corpus, chosen, theta)
    expected = 0.3 * float(theta @ theta)
    for given in data:
        ways = _ways(lexicon, given.text)
        scores = [
            sum(weights[f] for f in _features(lexicon, given.text, way))
            + scale * _cost(lexicon, way)
            for way in ways
        ]
        right = [s for s, w in zip(scores, ways, strict=True) if _agrees(lexicon, given, w)]
        expected += _log_sum(scores) - _log_sum(right)
    assert value == pytest.approx(expected, rel=1e-11)

    step = 1e-6
    for k in generator.integers(chosen.space.size, size=12).tolist():
        ahead, back = theta.copy(), theta.copy()
        ahead[k] += step
        back[k] -= step
        slope = (objective(ahead)[0] - objective(back)[0]) / (2 * step)
        assert gradient[k] == pytest.approx(slope, abs=2e-7)


def _by_name(corpus: Any, chosen: Any, theta: np.ndarray[Any, Any]) -> dict[tuple[Any, ...], float]:
    """Weights by features as `_features` writes them."""
    trial = corpus.trial(chosen, theta, counts=True)
    found: dict[tuple[Any, ...], float] = {}
    for (template, text), weight in zip(trial.unigrams, trial.words.tolist(), strict=True):
        name = "ABC"[template]
        rest = text[2:]
        if name == "A":
            found[("A", *rest.split(","))] = weight
        else:
            first, second = rest.rsplit("/", 1)
            found[name, first, int(second)] = weight
    for code, weight in zip(trial.pair.tolist(), trial.pairs.tolist(), strict=True):
        first, second = divmod(code, len(trial.seconds))
        template, left = trial.firsts[first]
        assert trial.seconds[second][0] == template
        right = trial.seconds[second][1]
        parts = [*left.split("\x1f"), *right.split("\x1f")]
        if template == 2:
            parts = [*left.split(","), *right.split(",")]
        found["DEF"[template], *parts] = weight
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("costs", ["none", "fixed", "scaled"])
@pytest.mark.parametrize("seed", range(4))
def test_lattices_of_a_trained_model_have_all_ways(seed: int, costs: Costs) -> None:
    generator = np.random.default_rng(100 + seed)
    lexicon = random_lexicon(generator)
    data = [_annotated(generator, lexicon, text) for text in TEXTS]
    model = LatticeCRF.train(
        data,
        TEMPLATE,
        structure=Words(lexicon, rewrite=REWRITE, costs=costs),
        l2=0.1,
        max_iterations=15,
    )
    w = model.weights
    own = dict(zip(w.unigrams, w.words.tolist(), strict=True))
    between: dict[tuple[int, str, str], float] = {}
    for code, weight in zip(w.pair.tolist(), w.pairs.tolist(), strict=True):
        first, second = divmod(code, len(w.seconds))
        between[w.firsts[first][0], w.firsts[first][1], w.seconds[second][1]] = weight
    texts = [*TEXTS, "bbbc", "zz9 a"]
    answer = model.tag_all(texts)
    for b, text in enumerate(texts):
        ways = _ways(lexicon, text)
        scores = [
            sum(_weight(own, between, f) for f in _features(lexicon, text, way))
            + w.costs * _cost(lexicon, way)
            for way in ways
        ]
        if "9" in text:  # of another kind than the features by hand know
            continue
        lattice = model.lattice(text)
        assert lattice.log_partition() == pytest.approx(_log_sum(scores), rel=1e-11, abs=1e-11)
        assert answer.scores[b] == pytest.approx(max(scores), rel=1e-11, abs=1e-11)
        found = lattice.nbest(5)
        best = sorted(scores, reverse=True)[:5]
        assert [path.score for path in found] == pytest.approx(best, rel=1e-10, abs=1e-10)
        share = lattice.arc_probabilities()
        total = _log_sum(scores)
        for k, word in enumerate(model.candidates(text)):
            through = [
                math.exp(s - total)
                for s, way in zip(scores, ways, strict=True)
                if (word.start, word.end, word.number) in way
            ]
            assert share[k] == pytest.approx(sum(through), abs=1e-10)


def _weight(
    own: dict[tuple[int, str], float],
    between: dict[tuple[int, str, str], float],
    feature: tuple[Any, ...],
) -> float:
    name, *parts = feature
    if name == "A":
        return own.get((0, f"A:{parts[0]},{parts[1]}"), 0.0)
    if name in "BC":
        return own.get(("ABC".index(name), f"{name}:{parts[0]}/{parts[1]}"), 0.0)
    if name == "D":
        return between.get((0, *parts), 0.0)
    if name == "E":
        return between.get((1, parts[0], f"{parts[1]}\x1f{parts[2]}"), 0.0)
    return between.get((2, ",".join(parts[:3]), ",".join(parts[3:])), 0.0)
