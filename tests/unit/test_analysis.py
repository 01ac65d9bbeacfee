"""`fstcrf report`: what is wrong, how sure the tagger was, what a grammar changed; its figures."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed: no figures")

from fstcrf import CRF, Corpus, Sentence, compose, write_columns
from fstcrf.constraints import at_most
from fstcrf.errors import DataError, OptionError
from fstcrf.ext.report import Analysis, History, analyse, report_page, write_figures
from fstcrf.text.corpus import spans
from fstcrf.training import Run
from fstcrf.training.loop import Progress
from tests.support import command
from tests.support.joint_cases import TRAIN, taggers


def text(seed: int, n: int = 40) -> Corpus:
    """Words whose spans lean on them, loosely."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        size = int(rng.integers(1, 8))
        words = rng.integers(5, size=size)
        labels, inside = [], ""
        for word in words:
            name = "PER" if word < 2 else "LOC"
            begins = word < 4 and rng.random() < 0.6
            labels.append(f"B-{name}" if begins else "I-PER" if inside == "PER" else "O")
            inside = name if begins and rng.random() < 0.5 else ""
        row = {"word": [f"w<{w}>" for w in words], "ner": labels}
        row["pos"] = [f"P{w % 3}" for w in words]
        found.append(Sentence(row))
    return Corpus.from_sentences(found)


TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]\nB"
TEST = text(2)


@pytest.fixture(scope="module")
def ner() -> CRF:
    return CRF.train(text(1), "ner", TEMPLATE, l2=0.3)


@pytest.fixture(scope="module")
def found(ner: CRF) -> Analysis:
    return analyse(ner, TEST, "ner", resamples=200)


# --- Numbers --------------------------------------------------------------------------------------


def test_every_error_is_there_once_with_its_probability(ner: CRF, found: Analysis) -> None:
    wrong = set()
    for number, (gold, mine) in enumerate(zip(TEST.column_lists("ner"), found.found, strict=True)):
        one = {(s.start, s.end): s.type for s in spans(gold)}
        other = {(s.start, s.end): s.type for s in spans(mine)}
        for place in one.keys() | other.keys():
            if one.get(place) != other.get(place):
                wrong.add((number, *place, one.get(place, ""), other.get(place, "")))
    assert {error[:5] for error in found.errors} == wrong
    assert len(found.errors) == len(wrong) > 5
    for error in found.errors:
        lattice = ner.lattice(TEST[error.sentence])
        p = lattice.span_probability(error.start, error.end, error.found or error.gold)
        assert error.probability == pytest.approx(p)
    sure = [e.probability if e.found else 1.0 - e.probability for e in found.errors]
    assert sure == sorted(sure, reverse=True)


def test_counts_and_intervals(found: Analysis) -> None:
    for row in found.types:
        gold = sum(s.type == row.type for labels in found.gold for s in spans(labels))
        guessed = sum(s.type == row.type for labels in found.found for s in spans(labels))
        assert (row.gold, row.guessed) == (gold, guessed)
        assert row.precision == pytest.approx(row.correct / row.guessed)
        assert row.precision_interval[0] < row.precision < row.precision_interval[1]
        # Wilson's interval, from its formula.
        n, p, z = row.gold, row.recall, 1.959963984540054
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        assert row.recall_interval == pytest.approx((middle - half, middle + half))
    assert found.f_interval[0] <= found.f <= found.f_interval[1]
    confused = sum(count for _, _, count in found.confusions)
    assert confused == round((1.0 - found.accuracy) * TEST.n_tokens)


def test_the_curve_is_counted_anew(found: Analysis) -> None:
    assert found.events is not None
    wanted = sum(len(list(spans(labels))) for labels in found.gold)
    for p, precision, recall in zip(*found.curve(), strict=True):
        kept = found.events.probability >= p
        right = int((kept & found.events.correct).sum())
        assert precision == pytest.approx(right / kept.sum())
        assert recall == pytest.approx(right / wanted)


def test_what_a_grammar_changes(ner: CRF) -> None:
    ruled = analyse(ner & at_most(1, "PER"), TEST, "ner", resamples=100)
    free = analyse(ner, TEST, "ner", resamples=100)
    repair = ruled.repair
    assert repair is not None
    assert free.repair is None
    changed = [k for k in range(len(TEST)) if ruled.found[k] != free.found[k]]
    assert list(repair.sentences) == changed
    assert changed
    assert (repair.score, repair.free) == (ruled.f, free.f)
    pairs = [
        (g == a, g == b)
        for gold, one, other in zip(ruled.gold, ruled.found, free.found, strict=True)
        for g, a, b in zip(gold, one, other, strict=True)
    ]
    assert repair.mended == sum(a and not b for a, b in pairs)
    assert repair.spoilt == sum(b and not a for a, b in pairs)


def test_labels_that_are_no_spans() -> None:
    pos = CRF.train(text(1), "pos", "U0:%x[0,ner]\nB", l2=0.3)
    found = analyse(pos, TEST, "pos")
    assert not found.spans
    assert found.f == found.accuracy
    wrong = sum(
        a != b
        for g, f in zip(found.gold, found.found, strict=True)
        for a, b in zip(g, f, strict=True)
    )
    assert len(found.errors) == wrong
    assert {row.type for row in found.types} == {"P0", "P1", "P2"}


def test_taggers_that_decide_together() -> None:
    corpus = Corpus.from_sentences([Sentence(sentence) for sentence in TRAIN])
    product = compose(*taggers("pair"), normalize="product")
    found = analyse(product, corpus, "chunk", tape="chunk")
    lattice: Any = product.lattice(corpus[found.errors[0].sentence])
    error = found.errors[0]
    if not found.spans:
        k = product.label_sets["chunk"].index(error.found)
        assert error.probability == pytest.approx(lattice.marginals("chunk")[error.start, k])
    chain = analyse(compose(*taggers("pair"), normalize="chain"), corpus, "chunk", tape="chunk")
    assert chain.events is None
    assert all(np.isnan(error.probability) for error in chain.errors)
    assert "no probabilities" in report_page(chain)
    with pytest.raises(OptionError, match="no curve"):
        chain.curve()
    with pytest.raises(OptionError, match="has several tapes"):
        analyse(product, corpus, "chunk")
    with pytest.raises(OptionError, match="no tape 'x'"):
        analyse(product, corpus, "chunk", tape="x")


def test_nothing_to_analyse(ner: CRF) -> None:
    with pytest.raises(DataError, match="no tokens"):
        analyse(ner, TEST[:0], "ner")


def test_a_tagger_that_is_always_right(ner: CRF) -> None:
    corpus = TEST.with_interned("said", ner.tag_column(TEST))
    found = analyse(ner, corpus, "said")
    assert found.errors == ()
    assert found.confusions == ()
    assert "No label is wrong" in report_page(found)


# --- The page -------------------------------------------------------------------------------------


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_whole_and_loads_nothing(ner: CRF, found: Analysis) -> None:
    other = analyse(CRF.train(text(1, 10), "ner", "U0:%x[0,word]"), TEST, "ner", resamples=100)
    for page in (report_page(found, names=["<b>"]), report_page(found, other, names=["a", "b"])):
        read = _Page(page)
        assert all(source.startswith("data:image/svg+xml;base64,") for source in read.sources)
        assert read.sources
        assert "w<1>" in " ".join(read.text)
        assert "<b>" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert "The two compared" in report_page(found, other)
    with pytest.raises(OptionError, match="different texts"):
        report_page(found, analyse(ner, text(3), "ner", resamples=100))


def test_figures_as_files(found: Analysis, tmp_path: Path) -> None:
    written = write_figures(tmp_path / "figures", found)
    assert {path.name for path in written} == {
        f"{name}.{ending}"
        for name in ("confusions", "reliability", "precision-recall")
        for ending in ("svg", "png")
    }
    for path in written:
        if path.suffix == ".svg":
            assert ET.fromstring(path.read_bytes()).tag.endswith("svg")
        else:
            assert path.read_bytes().startswith(b"\x89PNG")


# --- The course of training -----------------------------------------------------------------------


def test_history_of_a_training(tmp_path: Path) -> None:
    history = History(tmp_path / "out")
    history.write()
    assert not (tmp_path / "out").exists()
    told: list[Progress] = []

    def heard(progress: Progress) -> None:
        told.append(progress)
        history(progress)

    CRF.train(text(1), "ner", TEMPLATE, dev=TEST, max_iterations=7, run=Run(report=heard))
    history.write()
    kept = json.loads((tmp_path / "out" / "training.json").read_text())
    assert [one["objective"] for one in kept] == [progress.value for progress in told]
    assert [one["dev"] for one in kept] == [progress.dev for progress in told]
    figure = (tmp_path / "out" / "training.svg").read_text()
    assert ET.fromstring(figure).tag.endswith("svg")
    assert "held-out score" in figure


# --- Commands -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(ner: CRF, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    ner.save(place / "ner.fstcrf")
    CRF.train(text(1, 10), "ner", "U0:%x[0,word]").save(place / "small.fstcrf")
    write_columns(TEST, place / "test.txt")
    write_columns(text(1), place / "train.txt")
    (place / "ner.tpl").write_text(TEMPLATE)
    return place


@pytest.mark.thorough
def test_report_in_the_shell(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    columns = ("--columns", "word,ner,pos")
    given = ("report", folder / "ner.fstcrf", folder / "test.txt", "-o", page, *columns)
    command.done(*given, "--grammar", "bio", "--set", f"figures={tmp_path / 'figures'}")
    read = _Page(page.read_text("utf-8"))
    assert "What the grammar changed" in " ".join(read.text)
    assert (tmp_path / "figures" / "confusions.svg").exists()
    command.done(*given, "--against", folder / "small.fstcrf")
    assert "The two compared" in page.read_text("utf-8")


def test_reports_that_cannot_be_made(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    model, data = folder / "ner.fstcrf", folder / "test.txt"
    columns = ("--columns", "word,ner,pos")
    assert "'x'" in command.failure("report", model, data, "-o", page, *columns, "--target", "x")
    assert "overwrite" in command.failure("report", model, data, "-o", data, *columns, status=2)
    message = command.failure("report", model, data, "-o", page, *columns, "--tape", "x", status=2)
    assert "the tapes are ner" in message
    command.failure("report", data, data, "-o", page, *columns)
    assert not page.exists()


def test_curves_while_training_and_tuning(folder: Path, tmp_path: Path) -> None:
    columns = ("--columns", "word,ner,pos", "--target", "ner", "--template", folder / "ner.tpl")
    out = tmp_path / "curves"
    given = (folder / "train.txt", *columns, "--dev", folder / "test.txt", "--set", f"report={out}")
    command.done("train", *given, "-o", tmp_path / "m.fstcrf", "--max-iterations", 5)
    assert len(json.loads((out / "training.json").read_text())) == 5
    assert (out / "training.svg").exists()
    pytest.importorskip("optuna", reason="the extra fstcrf[tune] is not installed")
    printed = command.done("tune", *given, "--trials", 2, "--max-iterations", 3)
    assert len(json.loads((out / "trials.json").read_text())) == 2
    assert "--set report" not in printed
    file = tmp_path / "file"
    file.write_text("")
    options = ("-o", tmp_path / "n.fstcrf", "--set", f"report={file}")
    assert "is a file" in command.failure("train", *given[:-2], *options, status=2)
