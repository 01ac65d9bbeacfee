"""Observed labels mean the same however they are given, at each door of each kind of tagger."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Corpus, SegmentCRF, compose
from fstcrf.constraints import at_most, never
from fstcrf.errors import NoPathError
from fstcrf.taggers import Tagger
from fstcrf.taggers.product import Product

DATA = Corpus.from_sentences(
    [
        {"word": ["a", "b", "a"], "pos": ["N", "V", "N"], "tag": ["B", "O", "B"]},
        {"word": ["b", "b"], "pos": ["V", "N"], "tag": ["O", "B"]},
        {"word": ["a"], "pos": ["N"], "tag": ["B"]},
    ]
)
ASKED = Corpus.from_sentences(
    [
        {"word": ["a", "b", "b"], "pos": ["_", "V", "_"], "tag": ["O", "_", "B"]},
        {"word": ["b", "a"], "pos": ["N|V", "V"], "tag": ["_", "_"]},
        {"word": ["a"], "pos": ["V"], "tag": ["O"]},
    ]
)
TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]\nB"


@cache
def kinds() -> dict[str, Tagger]:
    """Return a tagger of each kind."""
    pos = CRF.train(DATA, "pos", TEMPLATE, max_iterations=5)
    tag = CRF.train(DATA, "tag", TEMPLATE, max_iterations=5)
    reader = CRF.train(DATA, "tag", "U0:%y[0,pos]\nB", reads=[pos], max_iterations=5)
    chunks = ["B-X", "I-X", "O", "B-X", "O", "B-X"]
    text = DATA.with_column("chunk", [chunks[:3], chunks[3:5], chunks[5:]])
    segments = SegmentCRF.train(text, "chunk", "U0:%x[0,word]", max_iterations=2)
    return {
        "CRF": pos,
        "CRF under a grammar": pos & at_most(2, "V"),
        "product": compose(pos, tag),
        "product that reads": compose(pos, reader, normalize="product"),
        "chain": compose(pos, reader, normalize="chain"),
        "chain under a grammar": compose(pos, reader, normalize="chain") & never("V", tape="pos"),
        "product with segments": compose(segments, pos),
    }


DOORS: dict[str, Callable[..., Any]] = {
    "tag_all": lambda tagger, **known: tagger.tag_all(ASKED, **known),
    "tag_columns": lambda tagger, **known: [
        column.strings() for column in tagger.tag_columns(ASKED, **known)
    ],
    "decode": lambda tagger, **known: tagger.decode(ASKED, n=2, **known).ranked(),
    "paths_all": lambda tagger, **known: tagger.paths_all(ASKED, **known),
    "nbest_all": lambda tagger, **known: tagger.nbest_all(ASKED, 2, **known),
    "nbest_all of a tape": lambda tagger, **known: tagger.nbest_all(
        ASKED, 2, tapes=["pos"], **known
    ),
    "marginals_all": lambda tagger, **known: tagger.marginals_all(ASKED, **known),
    "marginals_all that skips": lambda tagger, **known: tagger.marginals_all(
        ASKED, on_no_path="skip", **known
    ),
    "cascade": lambda tagger, **known: [
        column.strings() for column in tagger.cascade(ASKED, **known)
    ],
}


def tapes(tagger: Tagger) -> list[str]:
    return [tape for tape in tagger.tapes if tape in ASKED.columns]


def observed(tagger: Tagger) -> list[Any]:
    """Return the observed labels of each sentence, as lists."""
    named = tapes(tagger)
    rows = [{tape: ASKED.column_lists(tape)[b] for tape in named} for b in range(len(ASKED))]
    return rows if len(tagger.tapes) > 1 else [row[named[0]] for row in rows]


def outcome(ask: Callable[..., Any], tagger: Tagger, forced: Any) -> Any:
    try:
        return ask(tagger, forced=forced)
    except NoPathError as error:
        return type(error), error.sentence


def plain(found: Any) -> Any:
    """Return nested lists of what can be compared."""
    if isinstance(found, np.ndarray):
        return found.round(12).tolist()
    if isinstance(found, list | tuple):
        return [plain(one) for one in found]
    if hasattr(found, "labels"):
        return [found.labels, round(found.score, 9), round(found.probability, 9)]
    return found


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", kinds())
def test_columns_are_the_labels_that_they_hold(kind: str, door: str) -> None:
    tagger, ask = kinds()[kind], DOORS[door]
    if door == "cascade" and isinstance(tagger, CRF):
        assert not hasattr(tagger, "cascade")
        return
    if "chain" in kind and door.startswith("marginals_all"):
        return  # the chain rule has no marginals; the table of refusals holds its error
    by_column: dict[str, Any] = {"mapping": {tape: tape for tape in tapes(tagger)}}
    if len(tagger.tapes) == 1:
        by_column["name"] = tagger.tapes[0]
    listed = plain(outcome(ask, tagger, observed(tagger)))
    free = plain(outcome(ask, tagger, None))
    assert listed != free, "the labels change nothing: the test could not notice"
    for form, forced in by_column.items():
        assert plain(outcome(ask, tagger, forced)) == listed, form


@pytest.mark.parametrize("kind", [k for k, t in kinds().items() if not isinstance(t, Product)])
def test_one_sentence_is_a_text_of_one(kind: str) -> None:
    tagger = kinds()[kind]
    for b, labels in enumerate(observed(tagger)):
        one = ASKED[b]
        together = outcome(partial(Tagger.tag_all, sentences=[one]), tagger, [labels])
        alone = outcome(partial(type(tagger).tag, sentence=one), tagger, labels)
        assert [plain(alone)] == plain(together) or alone == together
