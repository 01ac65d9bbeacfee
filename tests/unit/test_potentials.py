"""Potentials of taggers whose earlier tapes are open: terms, labels, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Corpus, kernel
from fstcrf.errors import DataError, OptionError
from fstcrf.taggers.potentials import Potentials, Term, TermShape
from fstcrf.training import Chain

DATA: list[dict[str, list[str]]] = [
    {
        "word": ["the", "dog", "ran"],
        "pos": ["D", "N", "V"],
        "ent": ["O", "E", "O"],
        "y": list("BIO"),
    },
    {"word": ["a", "dog"], "pos": ["D", "N"], "ent": ["O", "E"], "y": ["B", "I"]},
    {"word": ["ran", "a"], "pos": ["V", "D"], "ent": ["O", "O"], "y": ["O", "B"]},
]
TEST: list[dict[str, list[str]]] = [{"word": ["the", "ran"]}, {"word": []}, {"word": ["dog"]}]
NODE = "U1:%x[0,word]\nU2:%y[0,pos]/%x[0,word]\nU3:%y[0,pos]/%y[0,ent]\n"
FULL = NODE + "B1:%y[0,pos]\nB2:%y[0,ent]/%x[-1,word]\nB\n"


@pytest.fixture(scope="module")
def taggers() -> list[CRF]:
    return [CRF.train(DATA, t, "U:%x[0,word]\nB\n", l2=0.01) for t in ("pos", "ent")]


@pytest.fixture(scope="module")
def model(taggers: list[CRF]) -> CRF:
    return CRF.train(DATA, "y", FULL, reads=taggers, l2=0.01)


def best(found: Potentials, pos: list[int], ent: list[int]) -> list[int]:
    """Labels of the best path where the tapes have these labels, by position."""

    def chosen(term: Term) -> np.ndarray[Any, np.dtype[np.float64]]:
        values = np.broadcast_to(term.values, (len(pos), *term.values.shape[1:]))
        given = {"pos": pos, "ent": ent}
        rows = [v[tuple(given[tape][t] for tape in term.context)] for t, v in enumerate(values)]
        return np.asarray(rows, dtype=np.float64)

    node, arc = (np.sum([chosen(t) for t in terms], axis=0) for terms in (found.node, found.arc))
    graph = kernel.Graph(found.initial, found.final, np.ascontiguousarray(arc))
    states, _ = kernel.viterbi(graph, np.array([0, len(pos)]), np.ascontiguousarray(node))
    return [int(state) for state in states]


def test_terms(model: CRF) -> None:
    bound = model._bind()
    assert bound.node == (
        TermShape((), (3,), per_token=True),
        TermShape(("pos",), (3, 3), per_token=True),
        TermShape(("pos", "ent"), (3, 2, 3), per_token=False),
    )
    assert bound.arc == (
        TermShape((), (9,), per_token=False),
        TermShape(("pos",), (3, 9), per_token=False),
        TermShape(("ent",), (2, 9), per_token=True),
    )
    found = model.potentials(TEST)
    assert [t.values.shape for t in found.node] == [(3, 3), (3, 3, 3), (1, 3, 2, 3)]
    assert [t.values.shape for t in found.arc] == [(1, 9), (1, 3, 9), (3, 2, 9)]
    assert [t.context for t in found.node] == [o.context for o in bound.node]
    assert all(t.values.dtype == np.float64 for t in (*found.node, *found.arc))
    assert model._bind() is bound


def test_labels_of_other_tapes_that_are_not_given(model: CRF) -> None:
    with pytest.raises(DataError, match="labels of tape 'ent'"):
        model.potentials(TEST, labels={"pos": ["N"]})
    with pytest.raises(DataError, match="tape 'ent' has the label 'X'"):
        model.potentials([{"word": ["a"], "ent": ["X"]}], labels={"pos": ["N"]})


def test_runs(model: CRF) -> None:
    prepared = model._bind().prepare(TEST)
    assert prepared.lengths == [2, 0, 1]
    runs = list(prepared.runs(1))
    assert [(r.first, r.end, r.offsets.tolist()) for r in runs] == [
        (0, 1, [0, 2]),
        (1, 3, [0, 0, 1]),
    ]
    parts = [prepared.potentials(r.first, r.end).node[1].values for r in runs]
    assert np.array_equal(np.concatenate(parts), model.potentials(TEST).node[1].values)
    last = model.potentials(Corpus.from_sentences(TEST), 2)
    assert np.array_equal(last.node[1].values, parts[1])
    assert model.potentials(TEST, 1, 1).node[1].values.shape == (0, 3, 3)
    assert model.potentials([]).node[0].values.shape == (0, 3)
    with pytest.raises(OptionError, match="sentences 1:4 of 3"):
        model.potentials(TEST, 1, 4)


def test_forbidden_pairs_are_in_the_plain_term(taggers: list[CRF]) -> None:
    data = [{**s, "y": [f"{y}-X" if y in "BI" else y for y in s["y"]]} for s in DATA]
    model = CRF.train(data, "y", FULL, reads=taggers, scheme="iob2")
    found = model.potentials(TEST)
    assert model.topology.dense
    assert np.isneginf(found.arc[0].values).sum() == 1  # O I-X
    assert all(np.isfinite(term.values).all() for term in found.arc[1:])
    assert np.isneginf(found.initial).tolist() == [False, True, False]


def test_attribute_lists_read_no_tape() -> None:
    literal: Any = [[["a"], ["b"]], [], [["a"]]]
    model = CRF.train(literal, [["X", "Y"], [], ["X"]])
    found = model.potentials(literal)
    assert [t.values.shape for t in (*found.node, *found.arc)] == [(3, 2), (1, 4)]
    graph = kernel.Graph(found.initial, found.final, found.arc[0].values[0])
    _, scores = kernel.viterbi(graph, np.array([0, 2, 3]), found.node[0].values)
    paths = model.paths_all([literal[0], literal[2]])
    assert scores.tolist() == [path and path.score for path in paths]
    with pytest.raises(OptionError, match="does not read tape 'pos'; it reads none"):
        model._bind({"pos": ["a"]})


def test_labels_that_are_wrong(model: CRF) -> None:
    with pytest.raises(OptionError, match="tape 'y' does not read tape 'z'; it reads 'pos', 'ent'"):
        model._bind({"z": ["A"]})
    for wrong in ([], ["A", "B", "A"], "AB"):
        with pytest.raises(OptionError, match="tape 'pos' must be a list of distinct labels"):
            model._bind({"pos": wrong})


# --- Tokens under other labels ------------------------------------------------------------------

WIDE = (
    "U1:%x[-2,word]/%y[0,pos]\nU2:%y[0,pos]/%y[0,ent]\nU3:%x[2,word]/%y[0,ent]\nU4:%x[-1,word]\n"
    "U5:%y[0,pos]/%x[1,shape(word)]\nU6:%x[-3,word]\n"
)


@pytest.mark.parametrize("template", [NODE, WIDE])
def test_relabelled_tokens_are_those_of_relabelled_sentences(
    template: str, taggers: list[CRF]
) -> None:
    """A window around a token holds all that its potentials depend on, ends of sentences too."""
    rng = np.random.default_rng(5)
    words = [w for s in DATA for w in s["word"]]
    data = [
        {
            "word": [str(w) for w in rng.choice(words, size)],
            "pos": [str(p) for p in rng.choice(["D", "N", "V"], size)],
            "ent": [str(e) for e in rng.choice(["O", "E"], size)],
            "y": [str(y) for y in rng.choice(list("BIO"), size)],
        }
        for size in (1, 2, 3, 5, 8)
    ]
    model = CRF.train(
        data, "y", template + "B\n", reads=taggers, l2=0.01, structure=Chain(pairs="complete")
    )
    prepared = model._bind({}).prepare(data)
    assert prepared.relabelled is not None
    plain = prepared.potentials(0, len(data)).node[0].values
    places = [(b, t) for b, s in enumerate(data) for t in range(len(s["word"]))]
    sizes = [len(tape.labels) for tape in model.reads]
    tokens = np.repeat(np.arange(len(places)), int(np.prod(sizes)))
    ids = np.asarray(list(np.ndindex(*sizes)) * len(places), dtype=np.int32).T
    found = prepared.relabelled(tokens, ids)
    changed = 0
    for row, token, choice in zip(found, tokens.tolist(), ids.T.tolist(), strict=True):
        b, t = places[token]
        other = {name: list(column) for name, column in data[b].items()}
        for tape, label in zip(model.reads, choice, strict=True):
            other[tape.name][t] = tape.labels[label]
        wanted = model._bind({}).prepare([other]).potentials(0, 1).node[0].values[t]
        np.testing.assert_array_equal(row, wanted)
        changed += not np.array_equal(row, plain[token])
    assert changed > len(places), "other labels have other potentials"


def test_features_of_several_strings_a_token_cannot_be_relabelled(taggers: list[CRF]) -> None:
    model = CRF.train(DATA, "y", "U:%x[-1..1,word]\nU2:%y[0,pos]\nB\n", reads=taggers[:1], l2=0.1)
    for binding in (model._bind({}), model._bind()):
        assert (binding.prepare(DATA).relabelled is not None) == binding.relabels
    assert not model._bind().relabels
