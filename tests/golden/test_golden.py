"""Files of earlier days are read, and answer as they did."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fstcrf.errors import FstcrfError
from tests.golden.cases import CASES, copied, stored
from tests.golden.make import ANSWERS, FILES, answers, file_of, kept


def difference(found: Any, wanted: Any, within: float, where: str = "answer") -> str:
    """Say where two answers differ first; an empty string where they do not."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        if found.keys() != wanted.keys():
            return f"{where}: {sorted(found)}, expected {sorted(wanted)}"
        parts = [(f"{where}.{key}", found[key], wanted[key]) for key in wanted]
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(found) != len(wanted):
            return f"{where}: {len(found)} items, expected {len(wanted)}"
        parts = [(f"{where}[{k}]", found[k], wanted[k]) for k in range(len(wanted))]
    elif isinstance(wanted, float) and isinstance(found, float):
        both = math.isnan(found) and math.isnan(wanted)
        if both or math.isclose(found, wanted, rel_tol=within, abs_tol=within):
            return ""
        return f"{where}: {found!r}, expected {wanted!r}"
    else:
        same = type(found) is type(wanted) and found == wanted
        return "" if same else f"{where}: {found!r}, expected {wanted!r}"
    differing = (difference(a, b, within, place) for place, a, b in parts)
    return next(filter(None, differing), "")


@pytest.mark.parametrize("name", CASES)
def test_a_golden_file_answers_as_it_did(name: str) -> None:
    assert difference(answers(name), kept(name)["answers"], CASES[name].within) == ""


# Machines of OpenFst are read from streams; of what was added to journals the end may be torn; the
# line of `dicrc` is MeCab's, and the case `arrays` reads its file itself.
MAY_GO_ON = {"vector.fst", "const.fst", "journal-1", "search.journal", "dicrc", "arrays.json"}


@pytest.mark.parametrize("name", CASES)
def test_a_golden_file_with_more_behind_its_end_is_refused(name: str, tmp_path: Path) -> None:
    whole = copied(file_of(name), tmp_path)
    for path in [whole] if whole.is_file() else sorted(whole.rglob("*")):
        if path.name in MAY_GO_ON or not path.is_file() or not path.stat().st_size:
            continue
        data = path.read_bytes()
        path.write_bytes(data + b"x")
        with pytest.raises(FstcrfError):
            CASES[name].ask(whole)
        path.write_bytes(data)


def test_all_that_is_kept_is_asked() -> None:
    assert {path.name for path in FILES.iterdir()} == {stored(file_of(name)).name for name in CASES}
    assert {path.stem for path in ANSWERS.iterdir()} == set(CASES)


@pytest.mark.parametrize(
    ("found", "wanted", "message"),
    [
        ({"a": [1.0, 2.0]}, {"a": [1.0, 2.0 + 3e-9]}, "answer.a[1]: 2.0, expected"),
        ({"a": []}, {"b": []}, "answer: ['a'], expected ['b']"),
        (["O"], ["O", "O"], "answer: 1 items, expected 2"),
        (["O"], ["B"], "answer[0]: 'O', expected 'B'"),
        ([math.nan], [0.0], "answer[0]: nan, expected 0.0"),
        ([-math.inf], [-1e300], "answer[0]: -inf, expected"),
    ],
)
def test_differences_are_noticed(found: Any, wanted: Any, message: str) -> None:
    assert difference(wanted, wanted, 1e-9) == ""
    assert difference(found, wanted, 1e-9).startswith(message)
