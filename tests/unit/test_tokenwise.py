"""Potentials by distinct token: the same as those of sentences written out as attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.errors import OptionError
from fstcrf.ext.tokenwise import NEIGHBOURS, TokenPotentials
from fstcrf.taggers import CRF
from fstcrf.training import Features

WORDS = ("12", "Elm", "St.", "N", "Oak", "7", "unseen")
FIRST, LAST = ("start",), ("end", "over")
WIDE = {-2: "before:", -1: "previous:", 0: "", 1: "next:", 3: "far:"}
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=5)


def attributes(token: str) -> list[str]:
    return [f"word:{token.lower()}", *(["digits"] if token.isdigit() else [])]


def written_out(tokens: Sequence[str], views: Mapping[int, str]) -> list[list[str]]:
    """Every token with its own attributes and those of its neighbours."""
    own = [attributes(token) for token in tokens]
    if own:
        own[0] = [*own[0], *FIRST]
        own[-1] = [*own[-1], *LAST]
    return [
        [
            prefix + name
            for distance, prefix in views.items()
            if 0 <= t + distance < len(own)
            for name in own[t + distance]
        ]
        for t in range(len(own))
    ]


def trained(views: Mapping[int, str]) -> CRF:
    sentences = [["12", "Elm", "St."], ["7", "N", "Oak", "St."], ["Elm", "Oak"], ["7"]]
    labels = [["A", "S", "T"], ["A", "D", "S", "T"], ["S", "S"], ["A"]]
    return CRF.train([written_out(s, views) for s in sentences], labels, max_iterations=8)


@pytest.fixture(scope="module")
def crf() -> CRF:
    return trained(NEIGHBOURS)


@pytest.fixture(scope="module")
def wide() -> CRF:
    return trained(WIDE)


def expected(crf: CRF, sentences: Sequence[Sequence[str]], views: Mapping[int, str]) -> Any:
    full = [written_out(tokens, views) for tokens in sentences if tokens]
    return crf._weights.node(crf.index.design(full).node)  # type: ignore[arg-type]


@given(sentences=SENTENCES, capacity=st.integers(1, 12))
def test_they_are_those_of_attributes_written_out(
    crf: CRF, sentences: list[list[str]], capacity: int
) -> None:
    found = TokenPotentials(crf, attributes, first=FIRST, last=LAST, capacity=capacity)
    for _ in range(2):
        offsets, node = found.node(sentences)
        assert np.diff(offsets).tolist() == [len(tokens) for tokens in sentences]
        np.testing.assert_allclose(node, expected(crf, sentences, NEIGHBOURS), atol=1e-12)


@given(sentences=SENTENCES)
def test_a_token_may_see_further(wide: CRF, sentences: list[list[str]]) -> None:
    _, node = TokenPotentials(wide, attributes, views=WIDE, first=FIRST, last=LAST).node(sentences)
    np.testing.assert_allclose(node, expected(wide, sentences, WIDE), atol=1e-12)


def test_a_token_is_described_once(crf: CRF) -> None:
    seen: list[str] = []

    def noted(token: str) -> list[str]:
        seen.append(token)
        return attributes(token)

    potentials = TokenPotentials(crf, noted)
    inner = ["7", "Elm", "Elm", "Oak", "7"]
    potentials.node([inner, inner])
    potentials.node([inner])
    assert sorted(seen) == ["7", "7", "Elm", "Oak"]  # ends count for themselves
    potentials.forget()
    potentials.node([inner])
    assert len(seen) == 8


def test_memory_is_bounded(crf: CRF) -> None:
    potentials = TokenPotentials(crf, attributes, capacity=10)
    for number in range(200):
        potentials.node([["12", str(number), "St."]])
        assert len(potentials._row) <= 11


def test_what_it_cannot_read_is_refused(crf: CRF) -> None:
    hashed = CRF.train(
        [[["a"]], [["b"]]], [["X"], ["Y"]], features=Features(hash_bits=4), max_iterations=2
    )
    columns = CRF.train([{"w": ["a"], "y": ["X"]}], "y", "U:%x[0,w]\nB", max_iterations=2)
    for other in (hashed, columns):
        with pytest.raises(OptionError, match="expected named ones"):
            TokenPotentials(other, attributes)
    with pytest.raises(OptionError, match="capacity is 0"):
        TokenPotentials(crf, attributes, capacity=0)
