"""Named entities of CoNLL-2003: how much held-out text helps the probabilities of other text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF
from fstcrf.ext.calibration import (
    Calibration,
    Events,
    fit_temperature,
    lattices_of,
    precision_thresholds,
    reliability,
    select_batch,
    span_events,
    uncertainty,
)
from fstcrf.text.corpus import Corpus

pytestmark = [pytest.mark.corpus, pytest.mark.thorough]

COLUMNS = ("word", "pos", "chunk", "entity")
TEMPLATE = "U0:%x[-1..1,word]\nU1:%x[0,suffix(word,3)]\nU2:%x[0,shape(word)]\nU3:%x[0,pos]\nB"


@pytest.fixture(scope="module")
def folder(data: Path) -> Path:
    return data / "conll2003"


@pytest.fixture(scope="module")
def tagger(folder: Path) -> CRF:
    train = fstcrf.read_columns(folder / "eng.train", COLUMNS)[:3000]
    return CRF.train(train, "entity", TEMPLATE, l2=0.01, max_iterations=60)


@pytest.fixture(scope="module")
def parts(folder: Path) -> tuple[Corpus, Corpus]:
    dev = fstcrf.read_columns(folder / "eng.testa", COLUMNS)
    return dev[:1700], dev[1700:]


@pytest.fixture(scope="module")
def events(tagger: CRF, parts: tuple[Corpus, Corpus]) -> tuple[Events, Events]:
    seen, fresh = (
        span_events(lattices_of(tagger, part), part.column_lists("entity")) for part in parts
    )
    return seen, fresh


@pytest.mark.parametrize(("kind", "share"), [("isotonic", 0.9), ("log-odds", 0.6)])
def test_held_out_text_makes_other_text_more_reliable(
    events: tuple[Events, Events], kind: str, share: float
) -> None:
    seen, fresh = events
    before = reliability(fresh)
    after = reliability(Calibration.fit(seen, kind).applied(fresh))  # type: ignore[arg-type]
    assert after.error < share * before.error
    assert after.log_loss < 1.01 * before.log_loss
    crossed = reliability(Calibration.crossed(seen, kind))  # type: ignore[arg-type]
    assert crossed.error < reliability(seen).error


def test_thresholds_keep_their_precision_on_other_text(events: tuple[Events, Events]) -> None:
    seen, fresh = events
    for name, threshold in precision_thresholds(seen, 0.9, level=0.95).items():
        assert threshold is not None
        mine = fresh.of_type(name)
        kept = mine.probability >= threshold
        assert kept.sum() > 50
        assert mine.correct[kept].mean() > 0.87


def test_the_temperature_says_that_a_tagger_with_little_penalty_is_too_sure(
    tagger: CRF, parts: tuple[Corpus, Corpus]
) -> None:
    part = parts[0][:600]
    lattices, gold = lattices_of(tagger, part), part.column_lists("entity")
    known = set(tagger.labels)
    kept = [k for k, labels in enumerate(gold) if set(labels) <= known]
    found = fit_temperature([lattices[k] for k in kept], [gold[k] for k in kept])
    assert 1.2 < found < 4


@pytest.mark.parametrize("by", ["least-confidence", "margin", "entropy", "token-entropy"])
def test_sentences_of_which_the_tagger_is_unsure_have_errors(
    tagger: CRF, parts: tuple[Corpus, Corpus], by: str
) -> None:
    part = parts[1][:800]
    wrong = np.asarray(
        [a != b for a, b in zip(tagger.tag_all(part), part.column_lists("entity"), strict=True)]
    )
    scores = uncertainty(lattices_of(tagger, part), by)  # type: ignore[arg-type]
    chosen = select_batch(scores, 100)
    assert wrong[chosen].mean() > 1.8 * wrong.mean()
