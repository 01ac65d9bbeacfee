"""Every public door that takes labels or tokens reads lists of strings, or says what is wrong.

The labels and the words here are single letters, so that a door that takes a string for the list of
its letters would answer. A door gets the row of one sentence, or a row for each of two sentences of
which the second is odd. Rows of another form (tuples, arrays, strings of NumPy) mean the same; what
is no list of strings is an error of the library that names the sentence and the token.

Taggers of raw text (`LatticeCRF`, `Lexicon`, `AddressParser`) take strings, and are no doors here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, Grammar, Lattice, Lattices, Pipeline, SegmentCRF, Sentence
from fstcrf.constraints import at_most
from fstcrf.errors import FstcrfError
from fstcrf.evaluate import (
    best_of,
    compare,
    evaluate_spans,
    evaluate_tokens,
    span_counts,
    written_alike,
)
from fstcrf.ext.calibration import fit_temperature, label_events, span_events
from fstcrf.ext.documents import Consistency, Document, Violation
from fstcrf.ext.pipelines.evaluation import score_pipeline
from fstcrf.ext.report import analyse
from fstcrf.ext.sklearn import CRFTagger
from fstcrf.ext.tune import tune
from fstcrf.text.corpus import convert, spans
from fstcrf.training import Dev

WORDS = [["a", "b"], ["b", "a"]]
ROWS = [["O", "B"], ["B", "O"]]
DATA = [{"word": words, "y": labels} for words, labels in zip(WORDS, ROWS, strict=True)]
ITEMS = [[[word] for word in words] for words in WORDS]
TOKENS = [{"word": words} for words in WORDS]
CORPUS = Corpus.from_sentences(DATA)
TEMPLATE = "U:%x[0,word]\nB"


@dataclass(frozen=True)
class Door:
    """A way in: `ask` takes the row of a sentence, or a row for each of two (`several`).

    `right` is what it is given rightly; `allows` names forms that mean something there.
    """

    ask: Callable[[Any], Any]
    several: bool = True
    right: Any = None
    allows: frozenset[str] = frozenset()


def one(ask: Callable[[Any], Any], right: Any = ROWS[1], *allows: str) -> Door:
    return Door(ask, several=False, right=right, allows=frozenset(allows))


def many(ask: Callable[[Any], Any], right: Any = ROWS, *allows: str) -> Door:
    return Door(ask, right=right, allows=frozenset(allows))


# --- Who is asked ---------------------------------------------------------------------------------


@cache
def crf(tape: str = "y") -> CRF:
    return CRF.train(DATA, "y", TEMPLATE, tape=tape, max_iterations=2)


@cache
def literal() -> CRF:
    return CRF.train(ITEMS, ROWS, max_iterations=2)


@cache
def joint() -> Any:
    return fstcrf.compose(crf("y"), crf("z"))


@cache
def chained() -> Any:
    reader = CRF.train(DATA, "word", "U:%y[0,y]\n", tape="w", reads=(crf(),), max_iterations=2)
    return fstcrf.compose(crf(), reader, normalize="chain")


@cache
def piped() -> Any:
    return Pipeline([crf("y"), crf("z")]).train()


@cache
def segments() -> SegmentCRF:
    return SegmentCRF.train(DATA, "y", "U:%x[0,word]\n", max_iterations=2)


def tokens() -> Any:
    return Lattice.from_arrays(["O", "B"], np.eye(2))


def batch() -> Any:
    return Lattices.from_arrays(["O", "B"], np.stack([np.eye(2), np.eye(2)]))


def arcs() -> Any:
    return Lattice.from_paths(ROWS, [0.5, 1.0])


def rule() -> Grammar:
    return at_most(1, "B").bound(["O", "B"])


def decoded(answer: Any) -> Any:
    return [list(row) for row in answer]


LATTICES = [tokens(), tokens()]
FORCED = ("None", "no list")  # None says that labels are not known

LABELS: dict[str, Door] = {
    "evaluate_spans, gold": many(lambda rows: evaluate_spans(rows, ROWS).f),
    "evaluate_spans, predicted": many(lambda rows: evaluate_spans(ROWS, rows).f),
    "evaluate_spans, strict": many(
        lambda rows: evaluate_spans(ROWS, rows, scheme="iob2", strict=True).f
    ),
    "evaluate_tokens, gold": many(lambda rows: evaluate_tokens(rows, ROWS).accuracy),
    "evaluate_tokens, predicted": many(lambda rows: evaluate_tokens(ROWS, rows).accuracy),
    "best_of, gold": many(lambda rows: best_of(rows, [[row] for row in ROWS])),
    "best_of, ranked": many(lambda rows: best_of(ROWS, [[row] for row in rows])),
    "written_alike, gold": many(lambda rows: written_alike(rows, ROWS)[1]),
    "written_alike, predicted": many(lambda rows: decoded(written_alike(ROWS, rows)[0])),
    "compare, gold": many(lambda rows: compare(rows, ROWS, ROWS, resamples=9).f),
    "compare, first": many(lambda rows: compare(ROWS, rows, ROWS, resamples=9).f),
    "compare, second": many(lambda rows: compare(ROWS, ROWS, rows, resamples=9).f),
    "span_counts, gold": many(lambda rows: span_counts(rows, ROWS).f),
    "span_counts, predicted": many(lambda rows: span_counts(ROWS, rows).f),
    "spans": one(spans),
    "spans, raise": one(partial(spans, illegal="raise")),
    "convert": one(lambda row: convert(row, "iob2", "bioes")),
    "Corpus.from_sentences": many(
        lambda rows: Corpus.from_sentences([{"y": row} for row in rows]).column_lists("y")
    ),
    "Corpus.with_column": many(lambda rows: CORPUS.with_column("z", rows).column_lists("z")),
    "CRF.train, target of columns": many(lambda rows: CRF.train(TOKENS, rows, TEMPLATE).labels),
    "CRF.train, target of a corpus": many(lambda rows: CRF.train(CORPUS, rows, TEMPLATE).labels),
    "CRF.train, target of attributes": many(lambda rows: CRF.train(ITEMS, rows).labels),
    "CRF.train, a column": many(
        lambda rows: CRF.train([{"word": ["a", "b"], "y": r} for r in rows], "y", TEMPLATE).labels
    ),
    "CRF.train, dev_target": many(
        lambda rows: CRF.train(ITEMS, ROWS, dev=Dev(ITEMS, target=rows), max_iterations=2).labels
    ),
    "tune, target": many(
        lambda rows: (
            tune(ITEMS, rows, dev=ITEMS, dev_target=ROWS, trials=1, max_iterations=2).best.score
        )
    ),
    "tune, dev_target": many(
        lambda rows: (
            tune(ITEMS, ROWS, dev=ITEMS, dev_target=rows, trials=1, max_iterations=2).best.score
        )
    ),
    "CRF.tag, forced": one(lambda row: crf().tag(TOKENS[0], forced=row), ROWS[1], *FORCED),
    "CRF.tag_all, forced": many(lambda rows: crf().tag_all(TOKENS, forced=rows), ROWS, *FORCED),
    "CRF.lattice, forced": one(
        lambda row: crf().lattice(TOKENS[0], forced=row).best().labels, ROWS[1], *FORCED
    ),
    "CRF.nbest_all, forced": many(
        lambda rows: [p[0].labels for p in crf().nbest_all(TOKENS, 2, forced=rows)], ROWS, *FORCED
    ),
    "CRF.marginals_all, forced": many(
        lambda rows: np.stack(crf().marginals_all(TOKENS, forced=rows)).tolist(), ROWS, *FORCED
    ),
    "JointCRF.tag, forced": one(
        lambda row: joint().tag(TOKENS[0], forced={"y": row}), ROWS[1], *FORCED
    ),
    "JointCRF.tag_all, forced": many(
        lambda rows: joint().tag_all(TOKENS, forced=[{"y": row} for row in rows]), ROWS, *FORCED
    ),
    "a chain, forced": one(
        lambda row: chained().tag(TOKENS[0], forced={"y": row}), ROWS[1], *FORCED
    ),
    "a pipeline, forced": many(
        lambda rows: piped().tag_all(TOKENS, forced=[{"y": row} for row in rows]), ROWS, *FORCED
    ),
    "SegmentCRF.tag, forced": one(
        lambda row: segments().tag(TOKENS[0], forced=row), ROWS[1], *FORCED
    ),
    "CRF.score": one(lambda row: crf().score(TOKENS[0], row)),
    "CRF.probability": one(lambda row: crf().probability(TOKENS[0], row)),
    "JointCRF.score": one(lambda row: joint().score(TOKENS[0], (ROWS[0], row))),
    "a chain's score": one(lambda row: chained().score(TOKENS[0], (row, WORDS[0]))),
    "a chain's probability": one(lambda row: chained().probability(TOKENS[0], (row, WORDS[0]))),
    "Lattice.score": one(lambda row: tokens().score(row)),
    "Lattice.score, arcs": one(lambda row: arcs().score(row)),
    "Lattice.score, a product": one((tokens() @ arcs()).score, ROWS[1], "lists"),
    "Lattice.probability": one(lambda row: tokens().probability(row)),
    "Lattice.string_probability": one(lambda row: arcs().string_probability(row)),
    "Lattice.string_log_partition": one(lambda row: tokens().string_log_partition(row)),
    "Lattice.from_paths": many(lambda rows: Lattice.from_paths(rows, [0.0, 0.0]).log_partition()),
    "Lattices.score": many(lambda rows: Lattices(LATTICES).score(rows).tolist()),
    "Lattices.score, of arrays": many(lambda rows: batch().score(rows).tolist()),
    "Lattices.probability": many(lambda rows: batch().probability(rows).tolist()),
    "Grammar.accepts": one(lambda row: rule().accepts(row)),
    "Grammar.score": one(lambda row: rule().score(row)),
    "Acceptor.walk": one(rule().bind({"": ["O", "B"]})[0].walk),
    "label_events": many(lambda rows: label_events(LATTICES, rows).correct.tolist()),
    "span_events": many(lambda rows: span_events(LATTICES, rows).correct.tolist()),
    "fit_temperature": many(lambda rows: fit_temperature(LATTICES, rows)),
    "Consistency.score": one(
        lambda row: Consistency([Violation("same", ("O", "B"), -1.0)]).score(
            Document(CORPUS[:1]), row
        )
    ),
    "analyse": many(lambda rows: analyse(crf(), CORPUS, rows, resamples=9).f),
    "score_pipeline": many(lambda rows: score_pipeline(piped(), CORPUS, {"y": rows}).accuracy),
    "CRFTagger.fit": many(
        lambda rows: CRFTagger(max_iterations=2).fit(ITEMS, rows).predict(ITEMS).tolist(),
        ROWS,
        "an id",
    ),
    "CRFTagger.score": many(
        lambda rows: CRFTagger(max_iterations=2).fit(ITEMS, ROWS).score(ITEMS, rows), ROWS, "an id"
    ),
}

READ: dict[str, Door] = {
    "evaluate_tokens, words": many(
        lambda rows: evaluate_tokens(ROWS, ROWS, words=rows, vocabulary=["a"]).unknown, WORDS
    ),
    "Sentence": one(lambda row: Corpus.from_sentences([Sentence({"w": row})])[0]["w"], WORDS[1]),
    "CRF.train": many(
        lambda rows: CRF.train([{"word": r} for r in rows], ROWS, TEMPLATE).tag(TOKENS[0]),
        WORDS,
    ),
    "CRF.tag": one(lambda row: crf().tag({"word": row}), WORDS[1]),
    "CRF.tag_all": many(lambda rows: crf().tag_all([{"word": row} for row in rows]), WORDS),
    "CRF.lattice": one(lambda row: crf().lattice({"word": row}).log_partition(), WORDS[1]),
    "JointCRF.tag_all": many(lambda rows: joint().tag_all([{"word": r} for r in rows]), WORDS),
    "a chain": many(lambda rows: chained().tag_all([{"word": r} for r in rows]), WORDS),
    "a pipeline": many(lambda rows: piped().tag_all([{"word": row} for row in rows]), WORDS),
    "SegmentCRF.tag_all": many(lambda rows: segments().tag_all([{"word": r} for r in rows]), WORDS),
}

DOORS = {**LABELS, **READ}


# --- What they are given --------------------------------------------------------------------------


def among(value: Any) -> Callable[[list[str]], tuple[Any, int | None]]:
    return lambda row: ([row[0], value], 1)


ODD: dict[str, Callable[[list[str]], tuple[Any, int | None]]] = {
    "a string": lambda row: ("".join(row), None),
    "bytes": lambda row: ("".join(row).encode(), None),
    "a set": lambda row: (set(row), None),
    "no list": lambda _: (None, None),
    "None": among(None),
    "NaN": among(float("nan")),
    "an id": among(1),
    "bytes among strings": among(b"O"),
    "lists": lambda row: ([[string] for string in row], 0),
}
ALIKE: dict[str, Callable[[list[str]], Any]] = {
    "a tuple": tuple,
    "strings of NumPy": lambda row: [np.str_(string) for string in row],
    "an array": np.array,
    "an array of objects": partial(np.array, dtype=object),
}


def given(door: Door, change: Callable[[list[str]], Any]) -> Any:
    """Return what the door takes, the row of the only sentence or of the second one changed."""
    return [door.right[0], change(door.right[1])] if door.several else change(door.right)


def _changed(_: Any, row: Any) -> Any:
    return row


@pytest.mark.parametrize("name", DOORS)
def test_what_is_no_list_of_strings_is_an_error_that_says_where(name: str) -> None:
    door = DOORS[name]
    for form in ODD.keys() - door.allows:
        row, token = ODD[form](door.right[1] if door.several else door.right)
        try:
            found = door.ask(given(door, partial(_changed, row=row)))
        except FstcrfError as error:
            text = str(error)
        else:
            pytest.fail(f"{form}: {found}")
        assert "\n" not in text, form
        if door.several:
            assert re.search("(sentence|path) 1\\b", text), (form, text)
        if token is not None:
            assert re.search(rf"(token|span|segment) {token}\b", text), (form, text)


@pytest.mark.parametrize("name", DOORS)
def test_rows_of_another_form_mean_the_same(name: str) -> None:
    door = DOORS[name]
    wanted = door.ask(door.right)
    assert {form: door.ask(given(door, ALIKE[form])) for form in ALIKE} == dict.fromkeys(
        ALIKE, wanted
    )


@pytest.mark.parametrize("name", DOORS)
def test_rows_that_can_be_read_once_mean_the_same_or_are_refused(name: str) -> None:
    door = DOORS[name]
    rows: list[Iterable[Any]] = [given(door, iter)]
    if door.several:
        rows += [iter(door.right), map(iter, door.right)]
    for odd in rows:
        try:
            found = door.ask(odd)
        except FstcrfError:
            continue
        assert found == door.ask(door.right)


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.several])
def test_a_flat_list_is_no_list_of_sentences(name: str) -> None:
    door = DOORS[name]
    for flat in ([row[0] for row in door.right], [None, *door.right[1:]], door.right[0][0] * 2):
        if flat[0] is None and "no list" in door.allows:
            continue
        with pytest.raises(FstcrfError):
            door.ask(flat)
