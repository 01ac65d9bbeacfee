"""Addresses beside the package usaddress: its tokens, its attributes, its rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.ext.addresses import AddressParser, TokenAttributes, components_of, tokens_of, type_of
from fstcrf.machines.grammar import Grammar
from fstcrf.recipes.usaddress import raises

usaddress: Any = pytest.importorskip("usaddress", reason="usaddress is not installed")

ATTRIBUTES = TokenAttributes(usaddress.DIRECTIONS, usaddress.STREET_NAMES)
LABELS: tuple[str, ...] = tuple(usaddress.TAGGER.labels())
GRAMMARS = ("usaddress", "us_address")

ADDRESSES = st.text(st.sampled_from("ab AbN.,;-_'#&()0012½²é\n\t/½"), max_size=30) | st.text(
    max_size=20
)


def flat(features: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The attributes with a value other than 0 that python-crfsuite makes of features."""
    for name, value in features.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}:")
        elif isinstance(value, str):
            yield f"{prefix}{name}:{value}"
        elif value:
            yield f"{prefix}{name}"


def tagged(
    monkeypatch: pytest.MonkeyPatch, labels: Sequence[str]
) -> tuple[Mapping[str, str], str] | None:
    """What ``usaddress.tag`` makes of labels, None where it raises."""
    labelled = [(f"w{i},", label) for i, label in enumerate(labels)]
    monkeypatch.setattr(usaddress, "parse", lambda _: labelled)
    try:
        found: tuple[Mapping[str, str], str] = usaddress.tag("")
    except usaddress.RepeatedLabelError:
        return None
    return found


# --- Tokens and attributes -----------------------------------------------------------------------


@given(ADDRESSES)
def test_tokens_are_those_of_usaddress(address: str) -> None:
    assert tokens_of(address) == usaddress.tokenize(address)


@given(ADDRESSES)
def test_attributes_are_those_of_usaddress(address: str) -> None:
    for token in usaddress.tokenize(address):
        found = ATTRIBUTES(token)
        assert len(set(found)) == len(found)
        assert set(found) == set(flat(usaddress.tokenFeatures(token)))


@pytest.fixture(scope="module")
def parser() -> AddressParser:
    return AddressParser.installed()


@given(address=ADDRESSES)
def test_potentials_are_those_of_its_features(parser: AddressParser, address: str) -> None:
    tokens = usaddress.tokenize(address)
    if not tokens:
        assert parser.parse(address) == []
        return
    crf = parser.tagger
    features = [list(flat(token)) for token in usaddress.tokens2features(tokens)]
    wanted = crf._weights.node(crf.index.design([features]).node)  # type: ignore[arg-type, list-item]
    np.testing.assert_allclose(parser.potentials.node([tokens])[1], wanted, atol=1e-9)


def test_components_by_other_names_are_those_of_tag() -> None:
    names = {
        "AddressNumber": "line1",
        "StreetNamePreDirectional": "line1",
        "StreetName": "line1",
        "StreetNamePostType": "line1",
        "OccupancyType": "line2",
        "OccupancyIdentifier": "line2",
        "ZipCode": "",
    }
    parser = AddressParser.installed()
    for address in ("123 N Main St Apt 4, Chicago, IL 60601", "Elm St & Oak Ave, Rome"):
        assert parser.tag(address, names) == usaddress.tag(address, names)
        assert parser.tag(address, tag_mapping=None) == usaddress.tag(address)


# --- The rule ------------------------------------------------------------------------------------


def test_components_and_type_are_those_of_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    legal = 0
    for length in rng.integers(0, 9, 3_000):
        labels = rng.choice(LABELS, length).tolist()
        theirs = tagged(monkeypatch, labels)
        assert raises(labels) == (theirs is None)
        if theirs is not None:
            legal += 1
            ours = components_of([(f"w{i},", label) for i, label in enumerate(labels)])
            assert (ours, type_of(labels)) == theirs
            assert list(ours) == list(theirs[0])
    assert legal > 100


@pytest.mark.thorough
@pytest.mark.parametrize("name", GRAMMARS)
def test_what_is_drawn_at_random_is_judged_alike(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = Grammar.shipped(name, LABELS)
    rng = np.random.default_rng(1)
    accepted = 0
    for _ in range(1_500):
        # Runs rather than single labels: more of them obey the rule.
        runs = rng.choice(LABELS, rng.integers(1, 6))
        labels = np.repeat(runs, rng.integers(1, 3, len(runs))).tolist()
        legal = tagged(monkeypatch, labels) is not None
        if grammar.accepts(labels):
            accepted += 1
            assert legal, labels
        else:
            assert name == "us_address" or not legal, labels
    assert accepted > 50
