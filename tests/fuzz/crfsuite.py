"""CRFsuite's models."""

from __future__ import annotations

from typing import Any

from fstcrf import CRF, load_crfsuite
from fstcrf.ext.foreign.crfsuite import CRFsuiteModel, write_model
from tests.fuzz.target import Target
from tests.support.crfsuite_models import features, one_way, random_model, sized, small

__all__ = ["CRFSUITE"]

SENTENCE: list[Any] = [["w=the", "a0"], {"w=cat": 2.0}, ["a1a1"]]


def seeds() -> list[bytes]:
    plain = write_model(small())
    empty = CRFsuiteModel.of(["O"], [], features([]))
    many = random_model(1, labels=9, attributes=300, size=800)
    models = [empty, random_model(0), many]
    return [plain, one_way(plain), *map(write_model, models)]


def use(model: CRF) -> object:
    return model.tag(SENTENCE), model.marginals_all([SENTENCE])


CRFSUITE = Target("crfsuite", seeds, load_crfsuite, use, sized)
