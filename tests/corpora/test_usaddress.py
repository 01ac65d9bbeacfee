"""All addresses of usaddress's data: under the grammars none raises, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.ext.addresses import AddressParser, tokens_of
from fstcrf.machines.grammar import Grammar
from fstcrf.recipes import RECIPES, Setting, run_recipe
from fstcrf.recipes import usaddress as usaddress_recipe
from fstcrf.recipes.usaddress import LabelledAddress, raises, read_addresses

usaddress: Any = pytest.importorskip("usaddress", reason="usaddress is not installed")

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="module")
def gold(data: Path) -> list[LabelledAddress]:
    return read_addresses(sorted((data / "usaddress").glob("*.xml")))


@pytest.fixture(scope="module")
def texts(gold: list[LabelledAddress]) -> list[str]:
    return [address.text for address in gold]


@pytest.fixture(scope="module")
def parser() -> AddressParser:
    return AddressParser.installed()


def refused(address: str) -> bool:
    try:
        usaddress.tag(address)
    except usaddress.RepeatedLabelError:
        return True
    return False


def test_plainly_it_is_usaddress(parser: AddressParser, texts: list[str]) -> None:
    assert [tokens_of(text) for text in texts] == [usaddress.tokenize(text) for text in texts]
    assert parser.parse_all(texts) == [usaddress.parse(text) for text in texts]


def test_where_it_raises_people_break_the_rule_as_well(gold: list[LabelledAddress]) -> None:
    failing = [address for address in gold if refused(address.text)]
    assert (len(gold), len(failing)) == (1_571, 37)
    assert sum(raises(address.labels) for address in failing) == 36


@pytest.mark.parametrize("name", ["usaddress", "us_address"])
def test_none_raises_and_what_was_legal_stays(
    parser: AddressParser, texts: list[str], name: str
) -> None:
    grammar = Grammar.shipped(name)
    obedient = parser.under(grammar)
    plain, found = parser.search(texts), obedient.search(texts)
    assert found.exact.all()
    assert not any(map(raises, found.labels))
    bound = grammar.bound(parser.tagger.labels)
    legal = [bound.accepts(labels) if labels else True for labels in plain.labels]
    assert sum(legal) == 1_534
    same = [a == b for a, b in zip(plain.labels, found.labels, strict=True)]
    assert same == legal
    assert np.allclose(found.score[legal], plain.score[legal])
    pops = found.states_expanded / np.array([len(tokens) for tokens in found.tokens])
    assert np.median(pops) <= 2
    for text in texts[:200]:
        if not refused(text):
            assert obedient.tag(text) == usaddress.tag(text)


@pytest.mark.slow
def test_the_recipe(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = usaddress_recipe.timed
    monkeypatch.setattr(usaddress_recipe, "timed", lambda a, b, c, _: timed(a, b, c, 1))
    run_recipe(RECIPES["usaddress"], Setting(data, tmp_path))
    rows = json.loads((tmp_path / "results.json").read_text("utf-8"))["rows"]
    raised = {
        row["row"]: (row["value"], row["paper"])
        for row in rows
        if row["metric"] == "addresses on which usaddress.tag raises"
    }
    assert raised == {
        "no grammar": (37, 37),
        "contiguous": (0, 37),
        "usaddress.grm": (0, 37),
        "us_address.grm": (0, 37),
    }
    proven = [row["value"] for row in rows if row["metric"].endswith("proven to be the best")]
    assert proven == [1_571] * 4
    needless = [row["value"] for row in rows if row["metric"].endswith("obeyed the grammar")]
    assert needless == [0] * 4
    page = (tmp_path / "report.md").read_text("utf-8")
    assert "on 36 of these 37" in page
