"""Feature functions in a cascade, and training with one unknown label.

``python -m tests.benchmarks.doors_functions WORK JSON`` does one piece of work, as
`tests.benchmarks.doors` does. Times are of the processor.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fstcrf import CRF, Corpus, Sentence, compose, read_columns
from fstcrf.ext.pipelines.trained import TrainedPipeline
from fstcrf.text.features import FunctionIndex
from tests.benchmarks.door_table import case
from tests.benchmarks.running import in_turns, least_seconds
from tests.benchmarks.taggers import CHUNKS, COLUMNS
from tests.benchmarks.work import answer, seconds_of

Words = dict[str, list[str]]
Items = list[dict[str, Any]]


def word_features(word: str) -> dict[str, Any]:
    """Return the features of a word in the tutorial of sklearn-crfsuite."""
    return {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
    }


def of_words(sentence: Sentence | Words) -> Items:
    """Compute features of words as the tutorial of sklearn-crfsuite does."""
    words = sentence["word"]
    items: Items = [word_features(word) for word in words]
    for place, item in enumerate(items):
        for end, offset, near in (("BOS", "-1", place - 1), ("EOS", "+1", place + 1)):
            if 0 <= near < len(words):
                item[f"{offset}:word.lower()"] = words[near].lower()
                item[f"{offset}:word.istitle()"] = words[near].istitle()
            else:
                item[end] = True
    return items


def of_tags(sentence: Sentence | Words) -> Items:
    """Add the tags of the token and its neighbours."""
    tags = ["BOS", *sentence["pos"], "EOS"]
    return [
        {**item, "-1:postag": before, "postag": tag, "postag[:2]": tag[:2], "+1:postag": after}
        for item, before, tag, after in zip(
            of_words(sentence), tags, tags[1:], tags[2:], strict=False
        )
    ]


def functions(data: str, rounds: int, *, quick: bool = False) -> dict[str, Any]:
    """Return what a cascade over feature functions takes, over its taggers called by hand."""
    train, test = (_chunks(data, part) for part in ("train", "test"))
    few: dict[str, Any] = {"max_iterations": 10 if quick else 60}
    corpus = train.select(range(300 if quick else 3_000))
    pos = CRF.train(corpus, "pos", of_words, **few)
    chunk = CRF.train(corpus, "chunk", of_tags, reads=[pos], **few)
    shorter = [sentence for sentence in _words(test, 2_000) if len(sentence["word"]) <= 8]
    both = compose(pos, chunk)
    pipeline, plain = TrainedPipeline(both), [_plain(pos), _plain(chunk)]
    cases = []
    for name, text in {"all": _words(test, 400), "short": shorter}.items():
        assert pipeline.tag_all(text) == _by_hand(plain, text)
        together, alone = partial(_by_hand, plain, text), partial(_one_by_one, plain, text)
        ways: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "columns": (together, partial(both.cascade, text)),
            "lists": (together, partial(pipeline.tag_all, text)),
            "one by one": (alone, partial(_each, pipeline, text)),
        }
        for way, (hand, work) in ways.items():
            first = seconds_of(work)
            other, own = least_seconds(rounds, hand, work)
            cases.append(case("functions", f"{name}, {way}", first, own, other))
    return {"cases": cases}


def unknown(data: str, rounds: int, *, quick: bool = False) -> dict[str, Any]:
    """Return what training with one unknown label takes, over the same with all labels."""
    corpus = _chunks(data, "train")
    corpus = corpus.select(range(300)) if quick else corpus
    labels = corpus.column_lists("chunk")
    labels[len(labels) // 2][0] = "_"
    iterations: dict[bool, int] = {}
    template = CHUNKS.replace("%y", "%x")  # the tags are a column

    def train(*, one: bool) -> None:
        tagger = CRF.train(
            corpus.with_column("chunk", labels) if one else corpus, "chunk", template
        )
        assert tagger.record is not None
        iterations[one] = tagger.record.iterations

    works = [partial(seconds_of, partial(train, one=one)) for one in (False, True)]
    other, own = map(min, in_turns(rounds, *works))
    shown = f"{iterations[True]} iterations, {iterations[False]} without"
    steps = case("unknown-label", "iterations", own, iterations[True], iterations[False], near=True)
    return {"cases": [case("unknown-label", f"seconds, {shown}", own, own, other), steps]}


def _plain(tagger: CRF) -> CRF:
    """Return a tagger over attributes, without its function."""
    assert isinstance(tagger.index, FunctionIndex)
    return replace(tagger, index=tagger.index.attributes_by_name)


def _by_hand(plain: Sequence[CRF], text: Sequence[Words]) -> list[tuple[list[str], ...]]:
    pos = plain[0].tag_all([of_words(sentence) for sentence in text])
    tagged = [{**sentence, "pos": tags} for sentence, tags in zip(text, pos, strict=True)]
    return list(zip(pos, plain[1].tag_all([of_tags(one) for one in tagged]), strict=True))


def _one_by_one(plain: Sequence[CRF], text: Sequence[Words]) -> None:
    for sentence in text:
        tags = plain[0].tag(of_words(sentence))
        plain[1].tag(of_tags({**sentence, "pos": tags}))


def _each(pipeline: TrainedPipeline, text: Sequence[Words]) -> None:
    for sentence in text:
        pipeline.tag(sentence)


def _chunks(data: str, part: str) -> Corpus:
    return read_columns(Path(data) / "conll2000" / f"{part}.txt", COLUMNS)


def _words(corpus: Corpus, size: int) -> list[Words]:
    return [{"word": list(s["word"])} for s in itertools.islice(corpus, size)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answer(globals())
