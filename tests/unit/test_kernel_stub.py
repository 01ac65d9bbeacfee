"""The types of the compiled module are those of its contract."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from csrc.contract import CSRC, checksum, contract
from csrc.stub import STUB, stub
from fstcrf.errors import KernelError
from fstcrf.kernel.native import check_built, lib


def test_the_types_are_those_of_the_contract() -> None:
    assert STUB.read_text() == stub(contract()), "run python -m csrc.stub"


def test_all_that_the_module_has_is_typed() -> None:
    typed = set(re.findall(r"^    (?:def )?(fc_\w+|FC_\w+)", STUB.read_text(), re.MULTILINE))
    assert typed == {name for name in dir(lib) if name.startswith(("fc_", "FC_"))}


def test_a_type_that_is_neither_a_number_nor_a_pointer_is_refused() -> None:
    with pytest.raises(ValueError, match="'fc_entry' is neither a number nor a pointer"):
        stub("int64_t fc_wrong(fc_entry entry);")


def test_a_kernel_of_an_older_contract_asks_to_be_built_again(tmp_path: Path) -> None:
    folder = tmp_path / "api"
    check_built(folder)  # no checkout: nothing to compare with
    shutil.copytree(CSRC / "api", folder)
    assert checksum(folder) == lib.FC_CONTRACT
    status = folder / "status.api.h"
    status.write_text(status.read_text() + "\n/* a comment */\n")
    check_built(folder)
    status.write_text(status.read_text() + "fc_status fc_new(int64_t n);\n")
    with pytest.raises(KernelError, match=r"build it again with `make kernel` or `pip install"):
        check_built(folder)
