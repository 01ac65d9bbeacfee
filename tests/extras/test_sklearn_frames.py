"""The estimator over DataFrames of pandas and Polars."""

from __future__ import annotations

from typing import Any

import pytest

from fstcrf.errors import DataError
from fstcrf.ext.sklearn import CRFTagger

pytestmark = pytest.mark.extras

TABLE: dict[str, list[Any]] = {
    "doc": [1, 1, 2, 2, 2, 3],
    "word": ["Anna", "slept", "it", "met", "Bob", "Anna"],
    "size": [4, 5, 2, 3, 3, 4],
}
LABELS = ["B-PER", "O", "O", "O", "B-PER", "B-PER"]


@pytest.fixture(params=["pandas", "polars"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


@pytest.mark.parametrize("template", [None, "U0:%x[0,word]\nU1:%x[0,size]\nB"])
def test_frames_are_tables(library: Any, template: str | None) -> None:
    frame = library.DataFrame(TABLE)
    tagger = CRFTagger(template, sentence="doc", l2=0.01).fit(frame, library.Series(LABELS))
    assert tagger.predict(frame).tolist() == LABELS
    assert tagger.predict_proba(frame).shape == (6, 2)
    assert [(s.start, s.end) for s, _ in tagger.predict_spans(frame)] == [(0, 1), (4, 5), (5, 6)]
    assert list(tagger.feature_names_in_) == list(TABLE)
    assert tagger.n_features_in_ == 3


@pytest.mark.parametrize("template", [None, "U0:%x[0,word]\nB"])
def test_a_frame_may_be_a_sentence(library: Any, template: str | None) -> None:
    sentences = [
        library.DataFrame({"word": TABLE["word"][a:b], "size": TABLE["size"][a:b]})
        for a, b in ((0, 2), (2, 5), (5, 6))
    ]
    y = [LABELS[0:2], LABELS[2:5], LABELS[5:6]]
    assert CRFTagger(template, l2=0.01).fit(sentences, y).predict(sentences).tolist() == y


def test_missing_values_are_named(library: Any) -> None:
    broken = library.DataFrame({**TABLE, "word": ["Anna", None, *TABLE["word"][2:]]})
    with pytest.raises(DataError, match="column 'word', row 1: NaN"):
        CRFTagger(sentence="doc").fit(broken, LABELS)
    with pytest.raises(DataError, match="no column 'text' to separate sentences by"):
        CRFTagger(sentence="text").fit(library.DataFrame(TABLE), LABELS)
