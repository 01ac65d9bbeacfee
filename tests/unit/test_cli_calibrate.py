"""`fstcrf calibrate`, and what `fstcrf tag` leaves out as too improbable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.demo import COLUMNS, corpus_path
from fstcrf.ext.calibration import (
    Calibration,
    Events,
    lattices_of,
    precision_thresholds,
    span_events,
)
from fstcrf.taggers import CRF
from tests.support.command import done, failure, into_folder_with

TEMPLATE = "U0:%x[0,word]\nU1:%x[0,pos]\nU2:%x[-1,pos]\nB\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with taggers of fields and of parts of speech, and both together."""
    folder = tmp_path_factory.mktemp("models")
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:200]
    field = CRF.train(data, "field", TEMPLATE, max_iterations=15)
    pos = CRF.train(data, "pos", "U:%x[0,word]\nB\n", max_iterations=15)
    joint = fstcrf.compose(pos, field)
    chain = fstcrf.compose(pos, field, normalize="chain")
    models: dict[str, Any] = {"field": field, "pos": pos, "joint": joint, "chain": chain}
    for name, model in models.items():
        model.save(folder / name)
    return folder


@pytest.fixture(autouse=True)
def current(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into_folder_with(models, tmp_path, monkeypatch)
    Path("dev.txt").write_bytes(Path(corpus_path("dev")).read_bytes())


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line and not line.startswith("-DOC")]


def dev() -> fstcrf.Corpus:
    return fstcrf.read_columns("dev.txt", COLUMNS)


# --- fstcrf calibrate -----------------------------------------------------------------------------


def test_what_is_printed_is_what_the_library_finds() -> None:
    pytest.importorskip("sklearn")
    text = done("calibrate", "field", "dev.txt", "-o", "c.json", "--precision", 0.9)
    model, data = CRF.load("field"), dev()
    events = span_events(lattices_of(model, data), data.column_lists("field"))
    assert text.startswith(f"{len(events)} spans above 0.01, {int(events.missed.sum())} missed\n")
    assert text.count("expected calibration error") == 2
    after = Calibration.crossed(events, "isotonic")
    for name, least in precision_thresholds(after, 0.9).items():
        mine = after.of_type(name).probability
        kept = 0 if least is None else int((mine >= least).sum())
        least_text = "none" if least is None else f"{least:.4f}"
        line = f"precision 0.9 of {name}: {least_text}  ({kept} of {len(mine)} spans)"
        assert line in text.splitlines()
        assert kept < len(mine)
    assert Calibration.load("c.json") == Calibration.fit(events)
    facts = json.loads(done("calibrate", "field", "dev.txt", "--json", "--precision", 0.9))
    assert set(facts["thresholds"]) == set(events.types)
    assert facts["after"]["log_loss"] < 1


def test_one_number_for_each_type_of_one_tape() -> None:
    done("calibrate", "joint", "dev.txt", "--tape", "pos", "--curve", "log-odds", "-o", "c")
    assert json.loads(Path("c").read_text())["method"] == "log-odds"
    text = done("calibrate", "pos", "dev.txt", "--curve", "log-odds")
    assert " labels above 0.01" in text


@pytest.mark.thorough
def test_a_diagram(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done("calibrate", "field", "dev.txt", "--curve", "log-odds", "--plot", "r.svg")
    assert "<svg" in Path("r.svg").read_text()


def test_what_cannot_be_calibrated() -> None:
    assert "--tape is missing: the tapes are pos, field" in failure(
        "calibrate", "joint", "dev.txt", status=2
    )
    assert "--tape no" in failure("calibrate", "joint", "dev.txt", "--tape", "no", status=2)
    assert "chain" in failure("calibrate", "chain", "dev.txt", "--tape", "pos", status=2)
    assert "no column 'gold'" in failure("calibrate", "field", "dev.txt", "--target", "gold")
    assert "no/where.json" in failure("calibrate", "field", "dev.txt", "-o", "no/where.json")
    Path("same.txt").write_text("the DET B-DAY\n\n")
    assert "correct and wrong" in failure("calibrate", "field", "same.txt", status=2)


# --- fstcrf tag -----------------------------------------------------------------------------------


def test_spans_that_are_too_improbable_become_o() -> None:
    model, data = CRF.load("field"), dev()
    answer = model.decode(data)
    want = [list(labels) for labels in answer.labels(0)]
    gone = 0
    for labels, spans, chances in zip(
        want, answer.spans(), answer.span_probabilities(), strict=True
    ):
        for span, p in zip(spans, chances.tolist(), strict=True):
            if p < 0.8:
                labels[span.start : span.end] = ["O"] * (span.end - span.start)
                gone += 1
    assert gone > 3
    found = cells(done("tag", "field", "dev.txt", "--min-confidence", 0.8))
    assert [row[-1] for row in found] == [label for labels in want for label in labels]
    both = cells(done("tag", "field", "dev.txt", "--min-confidence", 0.8, "--span-probabilities"))
    assert all(float(row[-1]) >= 0.8 for row in both if row[-1] != "_")
    assert [row[-2] for row in both] == [row[-1] for row in found]
    everything = done("tag", "field", "dev.txt", "--min-confidence", 0)
    assert everything == done("tag", "field", "dev.txt")


@pytest.mark.thorough
def test_labels_without_spans_become_unknown() -> None:
    model, data = CRF.load("pos"), dev()
    rows = cells(done("tag", "pos", "dev.txt", "--min-confidence", 0.6))
    table = np.concatenate(model.decode(data).marginals())
    sure = table.max(axis=1) >= 0.6
    assert 0 < (~sure).sum() < len(sure)
    # The best labels are those of the sequence, which are mostly those of the tokens.
    assert np.mean([(row[-1] != "_") == s for row, s in zip(rows, sure, strict=True)]) > 0.99
    shown = done("tag", "joint", "dev.txt", "--min-confidence", 0.9, "--probabilities")
    fields = cells(shown)
    assert any(row[-2] == "_" for row in fields)
    assert any(row[-1].startswith("O/") for row in fields)
    assert cells(
        done("tag", "joint", "dev.txt", "--min-confidence", 1, "--nbest", 2, "--tape", "pos")
    )


def test_a_calibration_of_another_model() -> None:
    done("calibrate", "field", "dev.txt", "-o", "cal.json", "--curve", "log-odds")
    given = "--calibration", "cal.json", "--min-confidence", 0.5
    assert Calibration.load("cal.json").curves
    done("tag", "field", "dev.txt", *given)
    done("tag", "joint", "dev.txt", *given, "--columns", ",".join(COLUMNS))
    refusal = failure("tag", "pos", "dev.txt", *given, status=2)
    assert "--calibration cal.json belongs to another model: it calibrates " in refusal


def test_a_calibration_decides_what_is_too_improbable() -> None:
    half = Events.of(np.full(100, 0.5), np.arange(100) % 10 == 0)
    Calibration.fit(half, "log-odds").save("low.json")
    pessimist = Calibration.load("low.json")
    plain = cells(done("tag", "field", "dev.txt", "--span-probabilities"))
    known = cells(
        done("tag", "field", "dev.txt", "--span-probabilities", "--calibration", "low.json")
    )
    for a, b in zip(plain, known, strict=True):
        if a[-1] == "_":
            assert b[-1] == "_"
        else:
            kind = a[-2].partition("-")[2]
            assert float(b[-1]) == pytest.approx(pessimist([float(a[-1])], [kind])[0], abs=1e-4)
    Path("odd.json").write_text("{}")
    wrong = failure("tag", "field", "dev.txt", "--min-confidence", 0.5, "--calibration", "odd.json")
    assert "odd.json" in wrong
    alone = failure("tag", "field", "dev.txt", "--calibration", "low.json", status=2)
    assert "--min-confidence or --span-probabilities" in alone
    chain = failure("tag", "chain", "dev.txt", "--min-confidence", 0.5, status=2)
    assert '--min-confidence is not available with normalize = "chain"' in chain
    assert "1.5" in failure("tag", "field", "dev.txt", "--min-confidence", 1.5, status=2)


def test_what_it_writes_replaces_nothing_that_it_reads() -> None:
    given = ["field", "dev.txt", "--curve", "log-odds"]
    for wrong, message in (
        (["--plot", "dev.txt"], "--plot dev.txt would overwrite an input"),
        (["-o", "x", "--plot", "x"], "--plot x would overwrite the file of --output"),
        (["--plot", "-"], "--plot -: expected the name of a file"),
        (["-o", "-", "--json"], "--json and --output - both print JSON"),
    ):
        assert failure("calibrate", *given, *wrong, status=2).startswith(message)
    assert Path("dev.txt").read_bytes() == Path(corpus_path("dev")).read_bytes()


def test_how_sure_the_precision_is() -> None:
    how = ["field", "dev.txt", "--curve", "log-odds", "--precision", 0.8]
    plain = json.loads(done("calibrate", *how, "--json"))["thresholds"]
    safe = json.loads(done("calibrate", *how, "--set", "level=0.95", "--json"))["thresholds"]
    assert all(at is None or at >= plain[kind] for kind, at in safe.items())
    assert safe != plain
    line = failure("calibrate", "field", "dev.txt", "--set", "level=0.9", status=2)
    assert line.startswith("--set level needs --precision")
    assert "holds no spans" in failure("calibrate", "field", "dev.txt", "--target", "pos")
