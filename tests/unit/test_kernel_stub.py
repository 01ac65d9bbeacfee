"""The types of the compiled module are those of its contract."""

from __future__ import annotations

import re

import pytest

from csrc.contract import contract
from csrc.stub import STUB, stub
from fstcrf.kernel.native import lib


def test_the_types_are_those_of_the_contract() -> None:
    assert STUB.read_text() == stub(contract()), "run python -m csrc.stub"


def test_all_that_the_module_has_is_typed() -> None:
    typed = set(re.findall(r"^    (?:def )?(fc_\w+|FC_\w+)", STUB.read_text(), re.MULTILINE))
    assert typed == {name for name in dir(lib) if name.startswith(("fc_", "FC_"))}


def test_a_type_that_is_neither_a_number_nor_a_pointer_is_refused() -> None:
    with pytest.raises(ValueError, match="'fc_entry' is neither a number nor a pointer"):
        stub("int64_t fc_wrong(fc_entry entry);")
