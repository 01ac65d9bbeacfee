"""The kernel's contract: the files in ``csrc/api`` that ``csrc/fstcrf.h`` includes.

``python csrc/contract.py FOLDER`` writes these files for the build:

fstcrf.api.h
    The whole contract in one file, for cffi.
variant.h
    Appends the instruction set to every function's name in a variant.
dispatch.c
    Defines every function under its plain name: it calls the variant in use.
checksum.h
    The checksum of the contract, stored in the module to detect a checkout that was not rebuilt.

``python -m csrc.stub`` writes the types of the module that cffi makes. So each function appears in
three places: the contract, its definition, and its wrapper under ``fstcrf/kernel``.
"""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

__all__ = ["Function", "checksum", "contract", "dispatch", "functions", "variant_names"]

CSRC = Path(__file__).parent
ONCE = {"fc_text", "fc_use", "fc_variant"}  # of `status.c`, which is compiled once

_INCLUDE = re.compile(r'^#include "(api/\w+\.api\.h)"', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_FUNCTION = re.compile(r"^(?!typedef)([\w ]+?[ *])(fc_\w+)\(([^)]*)\);", re.MULTILINE)
_NAME = re.compile(r"\w+$")


class Function(NamedTuple):
    """A declaration: return type, name, parameters."""

    returns: str
    name: str
    parameters: tuple[str, ...]


def contract() -> str:
    """Return the text of the whole contract."""
    files = _INCLUDE.findall((CSRC / "fstcrf.h").read_text())
    return "\n".join((CSRC / name).read_text() for name in files)


def checksum(folder: Path = CSRC / "api") -> int:
    """Return the checksum of the contract, without comments and spaces.

    `fstcrf.kernel.native.check_built` computes the same from the sources that it finds.
    """
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.api.h")))
    return zlib.crc32(re.sub(rb"/\*.*?\*/|\s+", b"", text, flags=re.DOTALL)) >> 1


def functions(text: str) -> list[Function]:
    """Return the functions that a contract declares."""
    return [
        Function(returns.strip(), name, tuple(" ".join(one.split()) for one in given.split(",")))
        for returns, name, given in _FUNCTION.findall(_COMMENT.sub("", text))
    ]


def variant_names(text: str) -> str:
    """Return the header that names functions after the variant they are compiled for."""
    names = [one.name for one in functions(text) if one.name not in ONCE]
    return "".join(f"#define {name} FC_NAME({name})\n" for name in names)


def dispatch(text: str) -> str:
    """Return the source of functions that call the variant in use."""
    lines = ['#include "fstcrf.h"', "", "extern int fc_target;", ""]
    for one in functions(text):
        if one.name in ONCE:
            continue
        given = ", ".join(one.parameters)
        passed = ", ".join(_NAME.findall(parameter)[0] for parameter in one.parameters)
        lines += [
            f"{one.returns} {one.name}_base({given});",
            "#ifdef FC_X86_64",
            f"{one.returns} {one.name}_v3({given});",
            f"{one.returns} {one.name}_v4({given});",
            "#endif",
            f"{one.returns} {one.name}({given}) {{",
            "#ifdef FC_X86_64",
            f"    if (fc_target == 2) return {one.name}_v4({passed});",
            f"    if (fc_target == 1) return {one.name}_v3({passed});",
            "#endif",
            f"    return {one.name}_base({passed});",
            "}",
            "",
        ]
    return "\n".join(lines)


def _main(folder: Path) -> None:
    text, sum_of = contract(), f"#define FC_CONTRACT {checksum()}\n"
    made = {
        "fstcrf.api.h": f"{text}{sum_of}",
        "checksum.h": sum_of,
        "variant.h": variant_names(text),
        "dispatch.c": dispatch(text),
    }
    for name, content in made.items():
        (folder / name).write_text(content)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
