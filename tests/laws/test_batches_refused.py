"""Law: a list of sentences in the place of one is named as that, by every tagger and question."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import pytest

from fstcrf import CRF, Corpus, SegmentCRF, compose
from fstcrf.errors import DataError

DATA = [{"word": ["a", "b"], "y": ["O", "B-A"], "z": ["X", "X"]}] * 3
ATTRIBUTES = [[["w=a"], ["w=b"]]] * 3
TEMPLATE = "U:%x[0,word]\nB"


@cache
def of_columns(tape: str = "y") -> CRF:
    return CRF.train(DATA, tape, TEMPLATE, max_iterations=1)


@cache
def of_attributes() -> CRF:
    return CRF.train(ATTRIBUTES, [["O", "B-A"]] * 3, max_iterations=1)


TAGGERS: dict[str, Callable[[], Any]] = {
    "CRF": of_columns,
    "CRF over attributes": of_attributes,
    "composition": lambda: compose(of_columns(), of_columns("z")),
    "segments": lambda: SegmentCRF.train(DATA, "y", TEMPLATE, max_iterations=1),
}
BATCHES: dict[str, Any] = {
    "dicts": [{"word": ["a"]}, {"word": ["b"]}],
    "sentences": list(Corpus.from_sentences(DATA)),
    "corpus": Corpus.from_sentences(DATA),
    "rows": [[("a", "O", "X"), ("b", "B-A", "X")], [("c", "O", "X")]],
    "attributes": ATTRIBUTES,
    "feature dicts": [[{"w": "a"}, {"w": "b"}]],
}
QUESTIONS: dict[str, Callable[[Any, Any], object]] = {
    "tag": lambda tagger, given: tagger.tag(given),
    "lattice": lambda tagger, given: tagger.lattice(given),
    "score": lambda tagger, given: tagger.score(given, ["O"]),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    ("tagger", "batch"),
    [pair for pair in product(TAGGERS, BATCHES) if pair != ("CRF over attributes", "dicts")],
)  # dicts of lists are also dicts of nested features
def test_a_batch_is_named(tagger: str, batch: str, question: str) -> None:
    with pytest.raises(DataError, match="tag_all, decode and lattices take a list of sentences"):
        QUESTIONS[question](TAGGERS[tagger](), BATCHES[batch])
