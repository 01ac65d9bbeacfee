"""A tagger with a feature function agrees with the same tagger over attributes given as lists.

It also scores like a template that reads the same things, and takes its part in compositions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, SegmentCRF, Sentence
from fstcrf.constraints import at_most
from fstcrf.ext.foreign.conversion import written
from fstcrf.ext.foreign.crfsuite import load_crfsuite
from fstcrf.text.features import FeatureIndex, FunctionIndex, LiteralIndex
from fstcrf.training import Chain
from tests.support.training import flat_train

WORDS = ["the", "a", "cat", "dog", "sat", "runs", "in", "on"]
TAGS = dict(zip(WORDS, ["D", "D", "N", "N", "V", "V", "P", "P"], strict=True))


def _sentences(seed: int, n: int) -> list[dict[str, list[str]]]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        words = [WORDS[i] for i in rng.integers(len(WORDS), size=rng.integers(1, 8))]
        pos = [TAGS[w] if rng.random() < 0.9 else "N" for w in words]
        chunk = ["B" if tag in "DP" or not i else "I" for i, tag in enumerate(pos)]
        made.append({"word": words, "pos": pos, "chunk": chunk})
    return made


TRAIN, TEXT = _sentences(1, 40), _sentences(2, 12)
CORPUS = Corpus.from_sentences(TRAIN)


def shapes(sentence: Sentence) -> list[dict[str, Any]]:
    """Return dicts of all kinds of values: a string, a flag, a number, several strings."""
    words = sentence["word"]
    return [
        {
            "word": word,
            "first": i == 0,
            "size": len(word) / 4,
            "ends": [word[-1:], word[-2:]],
            "before": {"word": words[i - 1]} if i else {},
        }
        for i, word in enumerate(words)
    ]


def names(sentence: Sentence) -> list[list[str]]:
    """Return lists of strings."""
    words = sentence["word"]
    return [[f"w={word}", *([f"p={words[i - 1]}"] if i else [])] for i, word in enumerate(words)]


def of_words(sentences: list[dict[str, list[str]]]) -> list[Any]:
    return [{"word": sentence["word"]} for sentence in sentences]


Function = Callable[[Sentence], list[Any]]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"order": 2},
    {"order": 0},
    {"method": "asgd", "seed": 3},
    {"method": "ap"},
    {"min_count": 3},
    {"hash_bits": 6},
    {"transitions": "all", "ends": True},
]


@cache
def pair(function: Function, number: int) -> tuple[CRF, CRF]:
    """Return a tagger with a function, and one over the attributes that the function computes."""
    options = {"max_iterations": 8, "tape": "pos", **OPTIONS[number]}
    literal: list[Any] = [function(Sentence(s)) for s in of_words(TRAIN)]
    return (
        flat_train(CORPUS, "pos", template=function, **options),
        flat_train(literal, [s["pos"] for s in TRAIN], **options),
    )


QUESTIONS: dict[str, Callable[[CRF, Any], Any]] = {
    "tag": lambda tagger, text: [tagger.tag(sentence) for sentence in text],
    "tag_all": lambda tagger, text: tagger.tag_all(text),
    "threads": lambda tagger, text: tagger.tag_all(text * 9, threads=3),
    "scores": lambda tagger, text: tagger.decode(text, n=3).scores.tolist(),
    "nbest": lambda tagger, text: [
        [p.labels for p in paths] for paths in tagger.nbest_all(text, 4)
    ],
    "marginals": lambda tagger, text: [m.tolist() for m in tagger.marginals_all(text)],
    "log z": lambda tagger, text: [tagger.lattice(sentence).log_partition() for sentence in text],
    "grammar": lambda tagger, text: (tagger & at_most(1, "N")).tag_all(text),
    "bias": lambda tagger, text: tagger.tag_all(text, bias={"V": 2.0}),
    "explain": lambda tagger, text: [str(tagger.explain(sentence, 0)) for sentence in text],
    "top features": lambda tagger, _: tagger.top_features(9),
}


@pytest.mark.parametrize("number", range(len(OPTIONS)), ids=[str(o) for o in OPTIONS])
@pytest.mark.parametrize("function", [shapes, names])
def test_training_and_answers_are_those_of_attribute_lists(function: Function, number: int) -> None:
    computed, given = pair(function, number)
    np.testing.assert_array_equal(computed.theta, given.theta)
    attributes: Any = [function(Sentence(s)) for s in of_words(TEXT)]
    for name, question in QUESTIONS.items():
        assert question(computed, of_words(TEXT)) == question(given, attributes), name
    corpus = Corpus.from_sentences(of_words(TEXT))
    assert computed.tag_all(corpus) == given.tag_all(attributes)
    assert computed.tag_column(corpus).strings() == [
        label for labels in given.tag_all(attributes) for label in labels
    ]


def test_gold_columns_of_the_text_change_nothing() -> None:
    seen: set[str] = set()

    def curious(sentence: Sentence) -> list[list[str]]:
        seen.update(sentence.columns)
        return names(sentence)

    computed = CRF.train(CORPUS, "pos", features=curious, max_iterations=5)
    assert seen == {"word", "chunk"}, "the column of gold labels is not shown"
    assert computed.tag_all(TEXT) == computed.tag_all(CORPUS.from_sentences(TEXT))
    assert seen == {"word", "chunk"}


TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]\nU2:%x[0,word]/%x[1,word]\nB\n"


def as_template(sentence: Sentence) -> list[list[str]]:
    """Compute what the template reads."""
    words = ["_B-1", *sentence["word"], "_B+1"]
    return [
        [f"U0:{words[i]}", f"U1:{words[i - 1]}", f"U2:{words[i]}/{words[i + 1]}"]
        for i in range(1, len(words) - 1)
    ]


def test_a_function_scores_like_the_template_that_reads_the_same() -> None:
    template = CRF.train(CORPUS, "pos", TEMPLATE, max_iterations=20)
    assert isinstance(template.index, FeatureIndex)
    strings = template.index.attributes(range(template.index.n_node_rows))
    function = replace(template, index=FunctionIndex(LiteralIndex(strings), as_template))
    for sentence in of_words(TEXT):
        one, other = template.lattice(sentence), function.lattice(sentence)
        np.testing.assert_array_equal(one.marginals(), other.marginals())
        assert one.log_partition() == other.log_partition()
    trained = CRF.train(CORPUS, "pos", features=as_template, max_iterations=20)
    assert trained.space.size == template.space.size
    assert trained.record is not None
    assert template.record is not None
    assert trained.record.objective == pytest.approx(template.record.objective, rel=1e-6)


# --- Compositions ---------------------------------------------------------------------------------


def readers() -> dict[str, CRF]:
    """Return taggers of chunks: by templates with and without labels of pos."""
    pos, _ = pair(shapes, 0)
    text = "U0:%x[0,word]\nU1:%x[-1,word]\nB\n"
    options: dict[str, Any] = {"max_iterations": 8}
    return {
        "words": flat_train(CORPUS, "chunk", text, **options),
        "labels": flat_train(CORPUS, "chunk", text + "U2:%y[0,pos]\n", reads=[pos], **options),
    }


@pytest.mark.parametrize(
    ("reader", "normalize"), [("words", "product"), ("labels", "product"), ("labels", "chain")]
)
def test_a_composition_has_the_joint_scores_of_its_parts(reader: str, normalize: Any) -> None:
    pos, chunk = pair(shapes, 0)[0], readers()[reader]
    composed = fstcrf.compose(pos, chunk, normalize=normalize)
    scores = composed.decode(of_words(TEXT)).scores.ravel()
    both = composed.tag_all(of_words(TEXT))
    for sentence, score, (first, second) in zip(of_words(TEXT), scores, both, strict=True):
        lattice = pos.lattice(sentence)
        other = chunk.lattice({**sentence, "pos": first})
        expected = lattice.score(first) + other.score(second)
        if normalize == "chain":
            expected -= lattice.log_partition() + other.log_partition()
        assert score == pytest.approx(expected)


def test_a_composition_under_a_grammar_obeys_it() -> None:
    pos, chunk = pair(shapes, 0)[0], readers()["labels"]
    composed = fstcrf.compose(pos, chunk) & at_most(1, "N", tape="pos")
    assert all(tags.count("N") <= 1 for tags, _ in composed.tag_all(of_words(TEXT)))
    explanation = composed.explain(of_words(TEXT)[0], 0)
    assert set(explanation.tapes) == {"pos", "chunk"}


def segments() -> SegmentCRF:
    """Return a tagger of segments, which makes a composition a `Product`."""
    spans = [["B-X", *["I-X"] * (len(s["word"]) - 1)] for s in TRAIN]
    corpus = Corpus.from_sentences(of_words(TRAIN)).with_column("span", spans)
    return SegmentCRF.train(corpus, "span", "U:%x[0,word]\n", max_iterations=3)


def test_saved_compositions_answer_as_before(tmp_path: Path) -> None:
    (pos, _), chunk = pair(shapes, 0), readers()["labels"]
    other = replace(pair(names, 0)[0], tape="other")
    kept: list[tuple[Any, Any]] = [
        (pos, shapes),
        (fstcrf.compose(pos, chunk), shapes),
        (pos @ other, {"pos": shapes, "other": names}),
        (pos @ segments(), shapes),
    ]
    for number, (tagger, features) in enumerate(kept):
        path = tmp_path / f"{number}.fstcrf"
        tagger.save(path)
        loaded: Any = fstcrf.load(path, features=features)
        assert loaded.tag_all(of_words(TEXT)) == tagger.tag_all(of_words(TEXT))
        again = tmp_path / "again.fstcrf"
        loaded.save(again)
        assert again.read_bytes() == path.read_bytes()


def test_a_model_of_crfsuite_reads_columns(tmp_path: Path) -> None:
    computed, given = pair(shapes, 7)
    plain = CRF.train(
        [shapes(Sentence(s)) for s in of_words(TRAIN)],
        [s["pos"] for s in TRAIN],
        structure=Chain(transitions="all"),
        max_iterations=8,
    )
    path = tmp_path / "pos.crfsuite"
    path.write_bytes(written(plain, "crfsuite"))
    model = load_crfsuite(path, features=shapes, tape="pos")
    expected = load_crfsuite(path).tag_all([shapes(Sentence(s)) for s in of_words(TEXT)])
    assert model.tag_all(of_words(TEXT)) == expected
    composed = fstcrf.compose(model, readers()["words"])
    tags = [pos for pos, _ in composed.tag_all(of_words(TEXT))]
    assert tags == expected
    composed.save(tmp_path / "both.fstcrf")
    loaded = fstcrf.load(tmp_path / "both.fstcrf", features=shapes)
    assert loaded.tag_all(of_words(TEXT)) == composed.tag_all(of_words(TEXT))
    assert computed.space.size == given.space.size
