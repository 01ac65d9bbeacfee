"""The grammars that come with fstcrf: on labels by hand, and on the corpora they are about."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import fstcrf
from fstcrf.machines.grammar import Grammar
from fstcrf.text.corpus import labels_from_spans
from fstcrf.text.corpus.schemes import Span

FOLDER = Path(__file__).resolve().parents[2] / "grammars"
FIELDS = ("stime", "etime", "location", "speaker")
SEMINAR = ("O", *(f"{letter}-{field}" for field in FIELDS for letter in "BI"))
ADDRESS = (
    "AddressNumber",
    "StreetNamePreDirectional",
    "StreetName",
    "StreetNamePostType",
    "IntersectionSeparator",
    "OccupancyType",
    "OccupancyIdentifier",
    "USPSBoxType",
    "USPSBoxID",
    "PlaceName",
    "StateName",
    "ZipCode",
    "Recipient",
)


def accepts(name: str, text: str, labels: Sequence[str]) -> bool:
    return Grammar.shipped(name, labels).accepts(text.split())


def test_every_grammar_is_in_the_list() -> None:
    names = {path.stem for path in FOLDER.glob("*.grm")}
    listed = set(re.findall(r"`(\w+)\.grm`", (FOLDER / "README.md").read_text("utf-8")))
    assert names == listed
    assert names == {
        "bio",
        "bioes",
        "conll2000",
        "iob1",
        "one_span_per_type",
        "seminar",
        "us_address",
        "usaddress",
    }


@pytest.mark.parametrize(
    ("name", "labels", "good", "bad"),
    [
        ("bio", "O B-X I-X B-Y I-Y", "B-X I-X B-X O", "B-X I-Y"),
        ("iob1", "O B-X I-X B-Y I-Y", "I-X B-X I-Y", "O B-X"),
        ("bioes", "O B-X I-X E-X S-X", "S-X B-X I-X E-X O", "B-X O"),
        ("one_span_per_type", "O B-X I-X B-Y I-Y", "B-X I-X O B-Y O", "B-X O B-X"),
        ("one_span_per_type", "O a b", "O a a O b O", "a O a"),
    ],
)
def test_schemes_and_spans(name: str, labels: str, good: str, bad: str) -> None:
    known = [*labels.split()]
    assert accepts(name, good, known)
    assert not accepts(name, bad, known)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("O B-stime I-stime O B-etime I-etime", True),
        ("O B-etime O B-stime", False),
        ("B-stime B-stime", False),
        ("B-speaker I-speaker O B-location", True),
        ("B-speaker O B-speaker", False),
        ("B-location O B-location", False),
        ("B-etime O B-etime", False),
        ("O I-stime", False),
        ("B-etime", True),
    ],
)
def test_seminar(text: str, expected: bool) -> None:
    assert accepts("seminar", text, SEMINAR) == expected


CHUNKS = ("O", *(f"{b}-{t}" for t in ("NP", "VP", "PP", "SBAR", "PRT") for b in "BI"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B-NP I-NP B-VP B-PRT O", True),
        ("B-NP B-PRT", False),
        ("B-PP B-PRT B-VP", False),
        ("B-VP B-SBAR", False),
        ("B-VP B-SBAR B-NP", True),
        ("O I-NP", False),
    ],
)
def test_conll2000_chunks(text: str, expected: bool) -> None:
    assert accepts("conll2000", text, CHUNKS) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["usaddress", "us_address"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AddressNumber StreetName StreetName StreetNamePostType PlaceName ZipCode", True),
        ("AddressNumber StreetName PlaceName StreetName", False),
        ("StreetName StreetNamePostType IntersectionSeparator StreetName StreetNamePostType", True),
        ("StreetName IntersectionSeparator StreetName PlaceName StreetName", False),
        ("StreetName PlaceName StreetName IntersectionSeparator StreetName", False),
        ("StreetName IntersectionSeparator StreetName IntersectionSeparator StreetName", False),
        ("PlaceName PlaceName ZipCode PlaceName", False),
    ],
)
def test_addresses(name: str, text: str, expected: bool) -> None:
    assert accepts(name, text, ADDRESS) == expected


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        "PlaceName StreetName",
        "StreetName AddressNumber",
        "AddressNumber StreetName ZipCode StateName",
        "AddressNumber StreetNamePostType",
        "StreetName USPSBoxID",
        "OccupancyType IntersectionSeparator",
    ],
)
def test_more_about_addresses(text: str) -> None:
    assert accepts("usaddress", text, ADDRESS)
    assert not accepts("us_address", text, ADDRESS)


# --- What usaddress demands --------------------------------------------------------------------


def taken_by_usaddress(labels: Iterable[str]) -> bool:
    """Say whether usaddress.tag would put these labels together, as its source does."""
    seen: set[str] = set()
    last, crossing = None, False
    for label in labels:
        crossing |= label == "IntersectionSeparator"
        name = f"Second{label}" if crossing and "StreetName" in label else label
        if name in seen and name != last:
            return False
        seen.add(name)
        last = name
    return True


def test_usaddress_is_its_own_rule() -> None:
    labels = ("StreetName", "StreetNamePostType", "IntersectionSeparator", "PlaceName")
    grammar = Grammar.shipped("usaddress", labels)
    for length in range(1, 7):
        for sentence in itertools.product(labels, repeat=length):
            assert grammar.accepts(sentence) == taken_by_usaddress(sentence)


# --- Corpora -----------------------------------------------------------------------------------


def column(data: Path, path: str, columns: tuple[str, ...], name: str) -> list[list[str]]:
    corpus: Any = fstcrf.read_columns(data / path, columns)
    return [list(labels) for labels in corpus.column_lists(name)]


def label_set(sentences: Iterable[Sequence[str]]) -> list[str]:
    return sorted({label for sentence in sentences for label in sentence})


@pytest.mark.corpus
@pytest.mark.parametrize("part", ["train", "test"])
def test_all_of_conll2000(data: Path, part: str) -> None:
    gold = column(data, f"conll2000/{part}.txt", ("word", "pos", "chunk"), "chunk")
    labels = label_set(gold)
    for name in ("bio", "conll2000"):
        grammar = Grammar.shipped(name, labels)
        assert all(grammar.accepts(sentence) for sentence in gold), name


@pytest.mark.corpus
@pytest.mark.parametrize("part", ["train", "testa", "testb"])
def test_all_of_conll2003_but_one_place_is_iob1(data: Path, part: str) -> None:
    columns = ("word", "pos", "chunk", "entity")
    gold = column(data, f"conll2003/eng.{part}", columns, "entity")
    grammar = Grammar.shipped("iob1", label_set(gold))
    broken = [sentence for sentence in gold if not grammar.accepts(sentence)]
    assert len(broken) <= 2
    assert all("B-MISC" in sentence for sentence in broken)


def seminar_lines(data: Path) -> Iterator[list[str]]:
    """Labels of the lines that have a field."""
    with (data / "seminars" / "seminars.jsonl").open(encoding="utf-8") as file:
        for line in file:
            message = json.loads(line)
            for row in re.finditer(r"[^\n]+", message["text"]):
                words = [
                    (row.start() + word.start(), row.start() + word.end())
                    for word in re.finditer(r"\w+|[^\w\s]", row[0])
                ]
                spans = []
                for start, end, field in message["spans"]:
                    inside = [i for i, (a, b) in enumerate(words) if start < b and a < end]
                    if inside and start >= row.start():
                        spans.append(Span(inside[0], inside[-1] + 1, field))
                if spans:
                    yield labels_from_spans(sorted(spans), len(words), "iob2")


@pytest.mark.corpus
def test_lines_of_seminars(data: Path) -> None:
    """The order holds everywhere; one line in 140 has two speakers or times."""
    grammar = Grammar.shipped("seminar", SEMINAR)
    order = Grammar.from_text('export X = before["stime", "etime"];', SEMINAR)
    lines = list(seminar_lines(data))
    assert len(lines) > 2_000
    assert all(order.accepts(line) for line in lines)
    assert sum(grammar.accepts(line) for line in lines) > 0.99 * len(lines)


def addresses(data: Path) -> list[list[str]]:
    found = []
    for path in sorted((data / "usaddress").glob("*.xml")):
        for address in ET.parse(path).getroot():
            labels = [token.tag for token in address if (token.text or "").strip()]
            found += [labels] if labels else []
    return found


@pytest.mark.corpus
def test_addresses_that_people_labelled(data: Path) -> None:
    gold = addresses(data)
    labels = label_set(gold)
    rule, more = (Grammar.shipped(name, labels) for name in ("usaddress", "us_address"))
    legal = [address for address in gold if taken_by_usaddress(address)]
    assert (len(gold), len(legal)) == (1_571, 1_531)
    assert [address for address in gold if rule.accepts(address)] == legal
    # Whatever usaddress takes, has all that is said to be always true.
    assert [address for address in gold if more.accepts(address)] == legal
