"""Taggers and compositions in other processes: pickled by whoever runs them, and copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import fstcrf
from fstcrf.constraints import at_most

COLUMNS = fstcrf.Corpus.from_sentences(
    [{"word": ["a", "dog", "barks"], "tag": ["D", "N", "V"]}] * 3
    + [{"word": ["dogs", "bark"], "tag": ["N", "V"]}]
)
SENTENCE = {"word": ["a", "dog", "barks", "dogs"]}


def columns_tagger() -> fstcrf.CRF:
    template = "U0:%x[0,word]\nU1:%x[-1,word]/%x[0,word]\nB1:%x[0,word]\nB"
    return fstcrf.CRF.train(COLUMNS, "tag", template, max_iterations=5)


def lists_tagger() -> fstcrf.CRF:
    data = [[["w=a"], ["w=dog", "s=g"]], [["w=dogs"]]]
    return fstcrf.CRF.train(data, [["D", "N"], ["N"]], max_iterations=5)


MADE: dict[str, tuple[Callable[[], Any], Any]] = {
    "columns": (columns_tagger, SENTENCE),
    "lists": (lists_tagger, [["w=a"], ["w=dog"], ["unknown"]]),
    "composition": (lambda: columns_tagger() & at_most(1, "N"), SENTENCE),
}


@pytest.mark.parametrize("name", list(MADE))
@pytest.mark.parametrize("used", [False, True])
def test_copies_tag_alike(name: str, used: bool) -> None:
    make, sentence = MADE[name]
    model = make()
    if used:  # what was computed on the way does not travel
        model.tag(sentence)
        model.lattice(sentence).best()
    for found in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert found.tag(sentence) == model.tag(sentence)
        assert found.labels == model.labels


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(MADE))
def test_other_processes_tag_alike(name: str) -> None:
    make, sentence = MADE[name]
    model = make()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(model.tag, [sentence] * 2)) == [model.tag(sentence)] * 2


def test_lattices_are_copied() -> None:
    lattice = columns_tagger().lattice(SENTENCE) & at_most(1, "N")
    assert pickle.loads(pickle.dumps(lattice)).best() == lattice.best()
    assert copy.deepcopy(lattice).best() == lattice.best()
