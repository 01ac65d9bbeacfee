"""Addresses: tokens, labelled files, components, parsing with a model of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fstcrf.constraints import at_least, contiguous
from fstcrf.errors import DataError, GrammarError, MissingDependencyError, NoPathError, OptionError
from fstcrf.ext.addresses import (
    AddressParser,
    Parses,
    TokenAttributes,
    components_of,
    installed,
    tokens_of,
    type_of,
)
from fstcrf.machines.grammar import Grammar
from fstcrf.recipes.usaddress import (
    Change,
    LabelledAddress,
    accuracy,
    changes,
    raises,
    read_addresses,
)
from fstcrf.taggers import CRF

ATTRIBUTES = TokenAttributes({"n", "s"}, {"st", "ave"})


@pytest.mark.parametrize(
    ("address", "tokens"),
    [
        ("", []),
        (" ,; ", []),
        ("12 N. Elm St., Apt #5;", ["12", "N.", "Elm", "St.,", "Apt", "#", "5;"]),
        ("Elm&amp;Oak &#38; ((Ash))", ["Elm", "&", "Oak", "&", "((Ash))"]),
        ("a\n\nb,\nc", ["a\n\n", "b,\n", "c"]),
    ],
)
def test_tokens(address: str, tokens: list[str]) -> None:
    assert tokens_of(address) == tokens


# --- Labels put together -------------------------------------------------------------------------


def test_components() -> None:
    labelled = [
        ("(Elm", "StreetName"),
        ("St.,", "StreetNamePostType"),
        ("&", "IntersectionSeparator"),
        ("Old", "StreetName"),
        ("Oak,", "StreetName"),
        ("Ithaca;", "PlaceName"),
    ]
    assert components_of(labelled) == {
        "StreetName": "(Elm",
        "StreetNamePostType": "St.",
        "IntersectionSeparator": "&",
        "SecondStreetName": "Old Oak",
        "PlaceName": "Ithaca",
    }
    assert type_of([label for _, label in labelled]) == "Intersection"
    with pytest.raises(ValueError, match="PlaceName is repeated after ZipCode"):
        components_of([("a", "PlaceName"), ("b", "ZipCode"), ("c", "PlaceName")])


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ("AddressNumber StreetName", "Street Address"),
        ("StreetName IntersectionSeparator", "Intersection"),
        ("AddressNumber IntersectionSeparator", "Ambiguous"),
        ("USPSBoxType USPSBoxID", "PO Box"),
        ("PlaceName", "Ambiguous"),
        ("", "Ambiguous"),
    ],
)
def test_types(labels: str, kind: str) -> None:
    assert type_of(labels.split()) == kind


# --- Parsing -------------------------------------------------------------------------------------

LABELLED = [
    ("12 N Elm St Ithaca 14850", "AddressNumber Dir StreetName Type PlaceName ZipCode"),
    ("7 Oak Ave Boston 02101", "AddressNumber StreetName Type PlaceName ZipCode"),
    ("300 S Ash St Salem 97301", "AddressNumber Dir StreetName Type PlaceName ZipCode"),
    ("Ithaca 14850", "PlaceName ZipCode"),
]


def written_out(address: str) -> list[list[str]]:
    own = [ATTRIBUTES(token) for token in tokens_of(address)]
    own[0], own[-1] = [*own[0], "address.start"], [*own[-1], "address.end"]
    return [
        [
            *attributes,
            *(f"previous:{name}" for name in (own[t - 1] if t else [])),
            *(f"next:{name}" for name in (own[t + 1] if t + 1 < len(own) else [])),
        ]
        for t, attributes in enumerate(own)
    ]


@pytest.fixture(scope="module")
def parser() -> AddressParser:
    sentences = [written_out(address) for address, _ in LABELLED]
    crf = CRF.train(sentences, [labels.split() for _, labels in LABELLED])
    return AddressParser(crf, ATTRIBUTES)


STRANGE = [
    "12 Elm St 7 Oak Ave Ithaca 14850",
    "Ithaca 14850 Boston 02101 12 St",
    "St",
    "",
    "N N N 5",
]


def test_under_a_grammar_nothing_comes_back(parser: AddressParser) -> None:
    legal = parser.under(contiguous(parser.tagger.labels))
    plain, found = parser.search(STRANGE), legal.search(STRANGE)
    assert any(map(raises, plain.labels))
    assert not any(map(raises, found.labels))
    assert found.exact.all()
    assert (found.score <= plain.score + 1e-9).all()
    for before, after in zip(plain.labels, found.labels, strict=True):
        assert raises(before) or before == after
    best = [lattice.best() for lattice in legal.lattices(found.tokens)]
    assert [list(path.labels) for path in best] == found.labels
    assert legal.tag_all(STRANGE) == [legal.tag(address) for address in STRANGE]
    assert legal.tag("") == ({}, "Ambiguous")


def test_a_grammar_without_a_path_says_which_address(parser: AddressParser) -> None:
    longer = Grammar.from_text("export L = any any any*;")
    with pytest.raises(NoPathError, match="sentence 1"):
        parser.under(longer).search(["Elm St", "Elm", "Oak St"])


def test_an_address_without_a_path_names_constraints(parser: AddressParser) -> None:
    label = parser.tagger.labels[0]
    crowded = parser.under(contiguous(parser.tagger.labels) & at_least(3, label))
    with pytest.raises(NoPathError, match="no labelling is legal under") as caught:
        crowded.parse("Elm St")
    assert caught.value.constraints == (f'at_least(3, "{label}")',)
    with pytest.raises(NoPathError, match="sentence 1") as caught:
        crowded.search(["12 Elm St Ithaca", "Elm St"])
    assert caught.value.constraints == (f'at_least(3, "{label}")',)


def test_many_addresses_survive_one_without_a_path(parser: AddressParser) -> None:
    label = parser.tagger.labels[0]
    crowded = parser.under(contiguous(parser.tagger.labels) & at_least(3, label))
    first, short, empty, last = crowded.parse_all(["12 Elm St", "Elm St", "", "5 Oak Ave Ithaca"])
    assert short is None
    assert empty is None  # it has no three labels either
    assert parser.parse_all([""]) == [[]]
    assert first == crowded.parse("12 Elm St")
    assert last == crowded.parse("5 Oak Ave Ithaca")
    assert crowded.tag_all(["Elm St", "12 Elm St"]) == [None, crowded.tag("12 Elm St")]


def test_names_of_labels_and_of_grammars(parser: AddressParser) -> None:
    names = {"AddressNumber": "line", "Dir": "line", "StreetName": "line", "Type": "line"}
    address = LABELLED[0][0]
    legal = parser.under("usaddress")
    assert legal.tag(address, names)[0]["line"] == "12 N Elm St"
    assert legal.tag_all([address], names) == [legal.tag(address, tag_mapping=names)]
    with pytest.raises(GrammarError, match="fstcrf ships no grammar 'us', only"):
        parser.under("us")


def test_one_string_is_no_list_of_addresses(parser: AddressParser) -> None:
    for call in (parser.parse_all, parser.tag_all, parser.search):
        with pytest.raises(OptionError, match="the addresses are '12 Elm', expected a list"):
            call("12 Elm")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "usaddress", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'fstcrf\[usaddress\]'"):
        installed()


# --- Files and scores ----------------------------------------------------------------------------

XML = """<AddressCollection>
  <AddressString><AddressNumber>12</AddressNumber> <StreetName>Elm </StreetName></AddressString>
  <AddressString><PlaceName>A &amp; B</PlaceName><ZipCode> </ZipCode></AddressString>
</AddressCollection>
"""


def test_labelled_addresses_are_read(tmp_path: Path) -> None:
    path = tmp_path / "some.xml"
    path.write_text(XML, "utf-8")
    assert read_addresses([path]) == [
        LabelledAddress("12 Elm ", ("12", "Elm"), ("AddressNumber", "StreetName")),
        LabelledAddress("A & B", ("A & B",), ("PlaceName",)),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no XML"), ("<a><b></a>", "no XML: mismatched tag"), ("<a/>", "no AddressString")],
)
def test_what_is_no_file_of_addresses(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "some.xml"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError, match=message) as raised:
        read_addresses([path])
    assert str(path) in str(raised.value)


def parses(*addresses: tuple[str, str]) -> Parses:
    tokens, labels = ([side.split() for side in sides] for sides in zip(*addresses, strict=True))
    size = len(tokens)
    return Parses(tokens, labels, np.zeros(size), np.ones(size, bool), np.zeros(size, np.int64))


def test_scores_and_changes() -> None:
    gold = [
        LabelledAddress("a b", ("a", "b"), ("X", "Y")),
        LabelledAddress("c", ("c",), ("X",)),
        LabelledAddress("de", ("de",), ("X",)),
    ]
    before = parses(("a b", "X X"), ("c", "X"), ("d e", "X X"))
    after = parses(("a b", "Y X"), ("c", "Y"), ("d e", "X X"))
    score = accuracy(gold, before)
    assert score == (3, 2, 2, 1, 1)
    assert score.of_tokens == pytest.approx(200 / 3)
    assert score.of_addresses == 50.0
    assert accuracy(gold, after, [0]).right == 0
    assert changes(before, after) == {("X", "Y"): [Change(0, 0), Change(1, 0)]}
    assert changes(before, before) == {}
