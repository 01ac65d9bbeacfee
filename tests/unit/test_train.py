"""`fstcrf.train`: the same as the call of each structure, and what a structure does not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, LatticeCRF, SegmentCRF
from fstcrf.errors import OptionError
from fstcrf.ext.segments.structure import Segments
from fstcrf.ext.words import Annotation, Words
from fstcrf.training import Chain, Dev, Features, Gold, Reads, Run
from fstcrf.training.lbfgs import LBFGS
from tests.golden.cases import lexicon

DATA = [
    {"word": ["the", "old", "oak"], "np": ["B-NP", "I-NP", "I-NP"]},
    {"word": ["she", "saw", "it"], "np": ["B-NP", "O", "B-NP"]},
] * 3
TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]"
TEXTS = [Annotation.of_words(["ab", "c"]), Annotation.of_words(["c", "ab"])]
WORDS = "UNIGRAM A:%F[0]\n"

train: Any = fstcrf.train


def theta(tagger: Any) -> Any:
    return tagger.weights.words if isinstance(tagger, LatticeCRF) else tagger.theta


SAME: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "no structure": (
        lambda: train(DATA, "np", TEMPLATE, l2=0.1),
        lambda: CRF.train(DATA, "np", TEMPLATE, l2=0.1),
    ),
    "a chain": (
        lambda: train(DATA, "np", TEMPLATE, structure=Chain(order=2, ends=True)),
        lambda: CRF.train(DATA, "np", TEMPLATE, order=2, structure=Chain(ends=True)),
    ),
    "structs with their first field": (
        lambda: train(DATA, Gold("np"), Features(TEMPLATE), reads=Reads(), dev=Dev(DATA)),
        lambda: CRF.train(DATA, "np", TEMPLATE, dev=DATA),
    ),
    "segments": (
        lambda: train(
            DATA, "np", TEMPLATE, structure=Segments(longest=2), l2=0.1, run=Run(threads=2)
        ),
        lambda: SegmentCRF.train(DATA, "np", TEMPLATE, structure=Segments(longest=2), l2=0.1),
    ),
    "words": (
        lambda: train(TEXTS, features=WORDS, structure=Words(lexicon()), max_iterations=3),
        lambda: LatticeCRF.train(TEXTS, WORDS, structure=Words(lexicon()), max_iterations=3),
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_it_trains_what_the_call_of_the_structure_trains(case: str) -> None:
    ours, theirs = (make() for make in SAME[case])
    assert type(ours) is type(theirs)
    assert np.array_equal(theta(ours), theta(theirs))


UNREAD: dict[str, Any] = {
    "order": 2,
    "scheme": "iob2",
    "tape": "x",
    "reads": [1],
    "start": 1,
    "grammar": 1,
    "objective": "mce",
}


@pytest.mark.parametrize("option", UNREAD)
def test_an_option_that_the_structure_does_not_read_is_refused(option: str) -> None:
    for structure in (Segments(), Words(lexicon())):
        with pytest.raises(
            OptionError, match=f"{option} is no option of {type(structure).__name__}"
        ):
            train(DATA, features=TEMPLATE, structure=structure, **{option: UNREAD[option]})


@pytest.mark.parametrize("odd", [3, "segments", Run(), LBFGS()], ids=str)
def test_what_is_no_structure(odd: Any) -> None:
    with pytest.raises(OptionError, match="expected Chain, Segments or Words"):
        train(DATA, "np", TEMPLATE, structure=odd)
    with pytest.raises(OptionError, match="target is no option of Words"):
        train(TEXTS, "np", WORDS, structure=Words(lexicon()))
