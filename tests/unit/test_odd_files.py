"""Files of taggers of segments and compositions with what does not belong there are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fstcrf
from fstcrf.constraints import at_most, label
from fstcrf.errors import FstcrfError, ModelFileError
from fstcrf.ext.segments import files
from fstcrf.storage import VERSION, read_arrays, write_arrays
from fstcrf.taggers import joint
from tests.support.joint_cases import TEST, taggers
from tests.support.odd_files import ODD, changed, odd_arrays, places
from tests.unit import test_model_file
from tests.unit.test_segment_crf import TEMPLATE, sentences

SEGMENTS = sentences(20)


def _segments() -> Any:
    return fstcrf.SegmentCRF.train(SEGMENTS, "tag", TEMPLATE, max_iterations=3)


def _composition() -> Any:
    return fstcrf.compose(*taggers("three in a row")) & at_most(1, label("B"), tape="chunk")


def _tagger(name: str) -> tuple[Callable[[], Any], str, int, list[Any]]:
    make = test_model_file.MODELS[name]
    return make, test_model_file.KIND, test_model_file.VERSION, test_model_file.sentences(make())


KINDS: dict[str, tuple[Callable[[], Any], str, int, list[Any]]] = {
    **{name: _tagger(name) for name in ("columns", "hashed", "order 2", "literal", "no weights")},
    "segments": (_segments, files.KIND, VERSION, SEGMENTS[:3]),
    "composition": (_composition, joint.KIND, VERSION, list(TEST[:3])),
}


class _File:
    """A model's file, written anew with other parts and a right checksum."""

    def __init__(self, kind: str, path: Path) -> None:
        model, self.kind, self.version, self.data = KINDS[kind]
        self.path = path
        model().save(path)
        arrays, self.metadata = read_arrays(path, kind=self.kind, version=self.version)
        self.arrays = {name: np.array(array) for name, array in arrays.items()}

    def refused(self, arrays: dict[str, Any], metadata: dict[str, str]) -> bool:
        """Tell whether such a file is refused; what loads must not break what follows."""
        fields = {k: v for k, v in metadata.items() if k not in {"format", "version", "crc32"}}
        write_arrays(self.path, arrays, fields, kind=self.kind, version=self.version)
        try:
            found = fstcrf.load(self.path)
        except ModelFileError as refusal:
            told = str(refusal)
        else:
            with suppress(FstcrfError):
                found.tag_all(self.data)
                if isinstance(found, fstcrf.CRF):
                    found.top_features(5)
            return False
        assert str(self.path) in told
        return True


pytestmark = pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")


SLOW = ("order 2", "literal", "no weights")


@pytest.fixture(params=[pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in KINDS])
def saved(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _File:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    return _File(request.param, tmp_path / "model")


def _parts(saved: _File) -> list[str]:
    return [name for name in saved.metadata if name not in {"format", "version", "crc32"}]


def test_texts_that_are_no_header(saved: _File) -> None:
    for part in _parts(saved):
        for text in ("", "{", "[]", "null", "{}", '"x"', "1", "[" * 100_000):
            assert saved.refused(saved.arrays, {**saved.metadata, part: text})
        left = {name: text for name, text in saved.metadata.items() if name != part}
        assert saved.refused(saved.arrays, left)


def test_lengths_and_rows_of_segments_that_no_memory_holds(tmp_path: Path) -> None:
    saved = _File("segments", tmp_path / "model")
    longest = np.full_like(saved.arrays["longest"], 2**31 - 1)
    assert saved.refused({**saved.arrays, "longest": longest}, saved.metadata)
    header = msgspec.json.decode(saved.metadata["header"]) | {"rows": 2**63}
    odd = {**saved.metadata, "header": msgspec.json.encode(header).decode()}
    assert saved.refused(saved.arrays, odd)


every = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])


@pytest.mark.thorough
@every
def test_fields(saved: _File, every: int) -> None:
    for part in _parts(saved):
        header = msgspec.json.decode(saved.metadata[part])
        cases = [(p, odd) for p in places(header) for odd in (ODD if len(p) < 6 else ODD[:3])]
        for place, odd in cases[::every]:
            text = msgspec.json.encode(changed(header, place, odd)).decode()
            saved.refused(saved.arrays, {**saved.metadata, part: text})


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@every
def test_arrays(saved: _File, every: int) -> None:
    cases, refused = [], 0
    for name, array in saved.arrays.items():
        left = {key: other for key, other in saved.arrays.items() if key != name}
        assert saved.refused(left, saved.metadata)
        odd_ones = (*odd_arrays(array), np.zeros(()), np.zeros((2, 3), np.int64))
        cases += [(name, odd) for odd in odd_ones]
    for name, odd in cases[::every]:
        refused += saved.refused({**saved.arrays, name: odd}, saved.metadata)
    assert refused > len(cases[::every]) // 4
