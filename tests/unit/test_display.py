"""What notebooks show: sound HTML, escaped, cut where it is large; short texts of everything."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import display
from fstcrf.constraints import at_most, bio
from fstcrf.evaluate import SpanScore, compare
from fstcrf.lattices import Lattice, Path

SENTENCES = [
    {"word": ["a", "<b>dog</b>", "&"], "tag": ["D", "<N>", "&"], "chunk": ["B-X", "I-X", "O"]},
    {"word": ["dogs"], "tag": ["<N>"], "chunk": ["B-X"]},
]
DATA = fstcrf.Corpus.from_sentences(SENTENCES)
TAG = fstcrf.CRF.train(DATA, "tag", "U:%x[0,word]\nB", l2=0.1)
CHUNK = fstcrf.CRF.train(DATA, "chunk", "U:%x[0,word]\nU1:%y[0,tag]\nB", reads=[TAG], l2=0.1)


class Checked(HTMLParser):
    """Reads HTML; fails where a tag is not closed in its turn, or is none of ours."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.marked: list[str] = []
        self._style = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in {"div", "code", "table", "tr", "td", "th"}, tag
        assert {name for name, _ in attrs} <= {"style", "title"}
        self._style = dict(attrs).get("style", "")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "outline" in self._style:
            self.marked.append(data)


def shown(thing: Any) -> Checked:
    return Checked(thing._repr_html_())


def test_a_lattice_is_a_heat_map_with_its_best_path() -> None:
    lattice = TAG.lattice(SENTENCES[0])
    found = shown(lattice)
    assert "<N>" in found.texts
    best, shares = lattice.best(), lattice.marginals()
    wanted = [
        f"{shares[t, lattice.labels.index(label)]:.2f}" for t, label in enumerate(best.labels)
    ]
    assert sorted(found.marked) == sorted(wanted)
    assert f"{lattice.log_partition():.4g}" in found.texts


def test_lattices_of_all_kinds() -> None:
    joint = TAG @ CHUNK
    assert joint._conditional
    product = fstcrf.compose(TAG, CHUNK, normalize="product")
    shown(joint)
    for tagger in (product, product & bio(tape="chunk"), TAG & at_most(1, "D")):
        Checked(tagger.lattice(SENTENCES[0])._repr_html_())
        shown(tagger)
    found = shown(product.lattice(SENTENCES[0]))
    assert {"tag", "chunk", "I-X"} <= set(found.texts)
    machine = Lattice.from_machine(TAG.lattice(SENTENCES[1]).machine, TAG.labels)
    assert "0:1 <N>" in shown(machine).texts


@pytest.mark.thorough
def test_what_is_large_is_cut() -> None:
    rng = np.random.default_rng(0)
    labels = [f"L{i}" for i in range(60)]
    lattice = fstcrf.Lattice.from_arrays(labels, rng.normal(size=(200, 60)))
    found = shown(lattice)
    assert "… 160 more tokens" in found.texts
    assert any(" of 60 labels, less probable" in text for text in found.texts)
    assert len(found.texts) < 60 * 60
    assert len(found.marked) == 40
    path = lattice.best()
    assert "… 160 more tokens" in shown(path).texts
    assert len(repr(path)) < 400
    assert "… 200 tokens)" in repr(path)
    many = fstcrf.Lattice.from_arrays(labels, np.zeros((300_000, 60)))
    assert shown(many).texts[-1] == "too large to draw here: ask best() or marginals()"


def test_lattices_that_cannot_be_drawn_say_so() -> None:
    dead = fstcrf.Lattice.from_arrays(["A"], [[-np.inf]])
    assert "every label sequence is forbidden" in shown(dead).texts[1]
    empty = fstcrf.Lattice.from_arrays(["A", "B"], np.zeros((0, 2)))
    shown(empty)
    shown(empty.best())
    searched = TAG.lattice(SENTENCES[0]).constrained(at_most(1, "D"), search="lazy")
    assert any("searched" in text for text in shown(searched).texts)


def test_paths() -> None:
    path = TAG.lattice(SENTENCES[0]).best()
    assert repr(path).startswith("Path(labels=('D', '<N>', '&'), score=")
    assert {"D", "<N>", "&"} <= set(shown(path).texts)
    both = fstcrf.compose(TAG, CHUNK, normalize="product").lattice(SENTENCES[0]).best()
    assert {"<N>", "I-X"} <= set(shown(both).texts)
    guess = Path(("A",), 1.0, float("nan"), exact=False, bound=2.0)
    assert "not proven; none scores more than 2" in shown(guess).texts


@pytest.mark.parametrize("tagger", [TAG, CHUNK, TAG @ CHUNK])
def test_taggers(tagger: Any) -> None:
    found = shown(tagger)
    assert len(repr(tagger)) < 120
    assert any("<N>" in text or "I-X" in text for text in found.texts)


def test_what_is_known_of_a_tagger() -> None:
    facts = TAG._facts()
    assert facts["trained on"] == "2 sentences, 4 tokens"
    assert facts["weights"] == TAG.space.size
    assert (TAG & at_most(1, "D"))._facts()["grammar"] == 'at_most(1, "D")'
    labels = [f"L{i}" for i in range(100)]
    many = fstcrf.CRF.train([[[label] for label in labels]], [labels])
    assert any("… (100)" in text for text in shown(many).texts)


def test_answers() -> None:
    answer = TAG.decode(SENTENCES * 60)
    found = shown(answer)
    assert "… 70 more sentences" in found.texts
    assert "D <N> &" in found.texts


def test_evaluations() -> None:
    gold, predicted = [["B-X", "I-X", "O"]], [["B-X", "O", "B-<Y>"]]
    report = fstcrf.evaluate_spans(gold, predicted)
    assert (
        repr(report) == "<SpanReport: F 0.0000, precision 0.0000, recall 0.0000, 1 span of 2 types>"
    )
    assert {"<Y>", "X", "all"} <= set(shown(report).texts)
    tokens = fstcrf.evaluate_tokens(gold, predicted)
    assert repr(tokens) == "<TokenReport: accuracy 0.3333, macro F 0.2500, 3 tokens, 4 labels>"
    same = "F 0.6667, precision 0.5000, recall 1.0000"
    assert repr(SpanScore(1, 2, 1)) == f"<SpanScore: {same}, 1 of 1 found>"
    assert repr(SpanScore(1, 2, 1, beta=2)).startswith("<SpanScore: F2 0.8333, precision 0.5000")
    assert {"B-<Y>", "confusions"} & set(shown(tokens).texts)
    assert "F" in shown(compare(gold * 2, predicted * 2, predicted * 2)).texts
    labels = [f"B-T{i}" for i in range(80)]
    assert "… 31 more types" in shown(fstcrf.evaluate_spans([labels], [labels])).texts


def test_tables_cut_and_escape() -> None:
    found = Checked(display.table(["<a>"], [["<b>", None, 0.5, 1234]] * 60))
    assert found.texts.count("<b>") == 50
    assert "1,234" in found.texts
    assert "… 10 more rows" in found.texts
