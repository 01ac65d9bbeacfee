"""CRFsuite's format: what is written is what is read, and means the same."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf.ext.foreign.crfsuite import (
    FEATURE,
    STATE,
    TRANSITION,
    CRFsuiteModel,
    as_tagger,
    export,
    read_model,
    write_model,
)
from tests.support.crfsuite_models import one_way

TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=40)
WEIGHTS = st.floats(-50, 50, allow_nan=False)


@st.composite
def models(draw: st.DrawFn) -> CRFsuiteModel:
    """Any labels and attributes; features in any order, repeated ones too."""
    labels = draw(st.lists(TEXTS, min_size=1, max_size=5, unique=True))
    attributes = draw(st.lists(TEXTS, max_size=8, unique=True))
    target = st.integers(0, len(labels) - 1)
    kinds = [st.tuples(st.just(TRANSITION), target, target, WEIGHTS)]
    if attributes:
        sources = st.integers(0, len(attributes) - 1)
        kinds.append(st.tuples(st.just(STATE), sources, target, WEIGHTS))
    rows = draw(st.lists(st.one_of(kinds), max_size=20))
    return CRFsuiteModel.of(labels, attributes, np.array(rows, dtype=FEATURE))


@given(models())
def test_what_is_written_is_what_is_read(model: CRFsuiteModel) -> None:
    data = write_model(model)
    for read in (read_model(data), read_model(one_way(data))):
        assert read.labels == model.labels
        assert read.attributes == model.attributes
        assert read.features.tolist() == model.features.tolist()


@given(models(), st.data())
def test_through_a_tagger(model: CRFsuiteModel, data: st.DataObject) -> None:
    """What comes back gives the same potentials, and then does not change any more."""
    tagger = as_tagger(model)
    again = export(tagger)
    assert again.labels == model.labels
    assert set(again.attributes) <= set(model.attributes)
    token = st.dictionaries(st.sampled_from([*model.attributes, "?"]), st.integers(-3, 3))
    sentence = data.draw(st.lists(token, min_size=1, max_size=4))
    one, two = (t.lattice(sentence) for t in (tagger, as_tagger(again)))
    labels = data.draw(
        st.lists(st.sampled_from(model.labels), min_size=len(sentence), max_size=len(sentence))
    )
    assert one.score(labels) == pytest.approx(two.score(labels), abs=1e-9)
    assert one.score(labels) == pytest.approx(score(model, sentence, labels), abs=1e-9)
    assert write_model(export(as_tagger(again))) == write_model(again)


def score(model: CRFsuiteModel, sentence: list[dict[str, int]], labels: list[str]) -> float:
    """The sum of weights, feature by feature."""
    numbers = [model.labels.index(label) for label in labels]
    transitions: dict[tuple[int, int], float] = {}
    total = 0.0
    for kind, src, dst, weight in model.features.tolist():
        if kind == TRANSITION:
            transitions[src, dst] = weight
            continue
        for token, number in zip(sentence, numbers, strict=True):
            if number == dst:
                total += weight * token.get(model.attributes[src], 0)
    return total + sum(transitions.get(pair, 0.0) for pair in pairwise(numbers))
