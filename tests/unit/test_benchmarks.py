"""What the benchmarks rest on: both sides have the same features, verdicts follow the limits."""

from __future__ import annotations

import itertools
import json

import pytest

from fstcrf import Corpus, parse_template
from fstcrf.text.features import FeatureIndex
from tests.benchmarks import bench_cliffs, door_page
from tests.benchmarks.crfsuite_peer import ATTRIBUTES
from tests.benchmarks.door_table import DOORS, case
from tests.benchmarks.machine import Machine, commit, this
from tests.benchmarks.report import LIMITS, Line, Report, number
from tests.benchmarks.tasks import TEMPLATES, Attributes

SENTENCES = [
    [("A", "DT")],
    [("McCoy's", "NNP"), ("B-52s", "NNS")],
    [("über", "X"), ("ǅ", "X"), ("٣", "CD")],
    [("the", "DT"), ("the", "DT"), ("1990s", "NNS"), (",", ","), ("naïve", "JJ"), ("the", "DT")],
]


@pytest.mark.parametrize("kind", ["tutorial", "words"])
def test_both_sides_have_the_same_attributes(kind: Attributes) -> None:
    corpus = Corpus.from_sentences(SENTENCES, ("word", "pos"))
    index, design = FeatureIndex.build(corpus, parse_template(TEMPLATES[kind]), boundary="skip")
    theirs = [
        token
        for sentence in SENTENCES
        for token in ATTRIBUTES[kind](*map(list, zip(*sentence, strict=True)))
    ]
    # The two name their attributes differently: number those of each by first appearance, and
    # compare which tokens have which.
    bounds = itertools.pairwise(design.node.indptr.tolist())
    ours = [design.node.index[a:b].tolist() for a, b in bounds]
    assert [len(set(token)) for token in theirs] == [len(token) for token in ours]
    holders = [{t for t, token in enumerate(theirs) if name in token} for name in _all(theirs)]
    wanted = [{t for t, token in enumerate(ours) if row in token} for row in range(len(holders))]
    assert index.n_node_rows == len(holders)
    assert sorted(map(sorted, holders)) == sorted(map(sorted, wanted))


def _all(tokens: list[list[str]]) -> list[str]:
    return sorted({name for token in tokens for name in token})


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (Line("evaluation-1", "", 10.0, 60.0), "aim"),
        (Line("evaluation-1", "", 10.0, 59.0), "must"),
        (Line("evaluation-1", "", 10.0, 39.0), "missed"),
        (Line("evaluation-1", "", 10.0), "missed"),
        (Line("evaluation-1", "", 10.0, 60.0, error="no"), "failed"),
        (Line("tagging-1", "", 120.0, 10.0, more_is_better=True), "aim"),
        (Line("memory-1", "", 200.0, 10.0), "aim"),
        (Line("memory-1", "", 300.1, 10.0), "missed"),
        (Line("complete-f1", "", 93.8), "must"),
        (Line("threads", "", 0.0), "must"),
        (Line("no limit", "", 1.0, 2.0), "measured"),
    ],
)
def test_verdicts(line: Line, verdict: str) -> None:
    assert line.verdict() == verdict


def test_a_report_says_what_failed() -> None:
    lines = [Line("evaluation-1", "fast", 1.0, 3.0, "ms"), Line("x", "broken", error="why")]
    report = Report(this(), commit(), "2000-01-01", "v4", 3, judged=True, lines=lines)
    assert [line.work for line in report.failures()] == ["fast", "broken"]
    assert "| fast | **3.00×** | ≥ 4× | ≥ 6× | missed | 1.00 ms | 3.00 ms |" in report.markdown()
    assert "- **broken: why**" in report.markdown()
    assert json.loads(report.json())["lines"][0]["limit"]["must"] == LIMITS["evaluation-1"].must
    report.judged = False
    assert [line.work for line in report.failures()] == ["broken"]
    assert isinstance(report.machine, Machine)


def test_numbers_have_the_digits_they_deserve() -> None:
    shown = [number(v, "s") for v in (None, 0.0, 0.0123456, 1.25, 99.994, 123.45, 12345.6)]
    assert shown == ["", "0 s", "0.0123 s", "1.25 s", "99.99 s", "123.5 s", "12,346 s"]
    assert number(1.000012, digits=5) == "1.00001"


def test_the_page_has_the_table_of_the_stored_doors() -> None:
    table = door_page.section(door_page.STORED.read_text("utf-8"))
    assert table in door_page.PAGE.read_text("utf-8"), "run: python -m tests.benchmarks.door_page"
    assert all(door.question in table for door in DOORS.values())


def test_doors_are_told_worst_first() -> None:
    """Rows and neighbours by their share of the limit; a table has both in a row."""
    cases = [
        case("marginals", "[1, 2, 3]", 0.5, 0.5, 1.0),
        case("marginals", "[4, 5, 6]", 0.5, 5.0, 1.0, near=True),
        case("at-most", "5 labels", 0.5, 4.5, 1.0),
    ]
    keys = ("doors-marginals", "doors-marginals-near", "doors-at-most")
    lines = [
        Line(key, "", one["value"], samples={"cases": [one]})
        for key, one in zip(keys, cases, strict=True)
    ]
    ordered = bench_cliffs.worst_first(lines)
    assert [line.key for line in ordered] == [keys[1], keys[2], keys[0]]
    assert [line.verdict() for line in ordered] == ["measured", "missed", "must"]
    report = Report(this(), commit(), "2000-01-01", "v4", 3, judged=True, lines=lines)
    table = door_page.section(door_page.stored(report, ordered))
    first, second = (row for row in table.splitlines() if row.startswith("| ") and "×" in row)
    assert "4.00 × | **4.50 ×** |  |" in first
    assert "2.00 × | 0.5 × | 5.00 × ([4, 5, 6]) |" in second
