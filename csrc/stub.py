"""Types of the compiled module, from its contract: ``python -m csrc.stub`` writes them.

A test compares ``fstcrf/_kernel.pyi`` with the result of `stub` for ``csrc/api``. All pointers have
one type: `fstcrf.kernel.native.array_in`, which creates them, checks their arrays.
"""

from __future__ import annotations

import re
from pathlib import Path

from csrc.contract import contract, functions

__all__ = ["STUB", "stub"]

STUB = Path(__file__).parent.parent / "fstcrf" / "_kernel.pyi"

_HEAD = """\
# Made of csrc/api by `python -m csrc.stub`; do not edit.
# ruff: noqa: A002, E501, N803
# fmt: off

from collections.abc import Iterator, Sequence
from typing import Any

class CData:
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: object) -> None: ...
    def __getitem__(self, index: int) -> Any: ...
    def __setitem__(self, index: int | slice, value: object) -> None: ...
    def __add__(self, other: int) -> CData: ...
    def __iter__(self) -> Iterator[Any]: ...

class _FFI:
    NULL: CData
    def new(self, cdecl: str, init: object = ...) -> CData: ...
    def typeof(self, cdecl: str) -> object: ...
    def cast(self, cdecl: str, value: int) -> CData: ...
    def sizeof(self, cdecl: str) -> int: ...
    def from_buffer(self, cdecl: object, source: object, require_writable: bool = ...) -> CData: ...
    def string(self, cdata: CData) -> bytes: ...
    def unpack(self, cdata: CData, length: int) -> Any: ...

class _Lib:
    FC_CONTRACT: int
"""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_ENUM = re.compile(r"enum\s*\{([^}]*)\}\s*(\w*)\s*;")


def stub(declared: str) -> str:
    """Return the types of the module that cffi makes of a contract.

    Raises
    ------
    ValueError
        A type that is neither a number nor a pointer.
    """
    code = _COMMENT.sub("", declared)
    enums = {name for _, name in _ENUM.findall(code)}
    constants = [
        entry.split("=")[0].strip() for body, _ in _ENUM.findall(code) for entry in body.split(",")
    ]
    lines = [f"    {name}: int" for name in constants if name]
    for one in functions(declared):
        given = [_argument(parameter, enums) for parameter in one.parameters if parameter != "void"]
        given = ["self", *given, "/"] if given else ["self"]
        lines.append(f"    def {one.name}({', '.join(given)}) -> {_type(one.returns, enums)}: ...")
    return _HEAD + "\n".join(lines) + "\n\nffi: _FFI\nlib: _Lib\n"


def _argument(declared: str, enums: set[str]) -> str:
    kind, name = declared.strip().rsplit(None, 1)
    pointers = len(name) - len(name.lstrip("*"))
    name = name.lstrip("*")
    given = _type(kind + "*" * pointers, enums)
    if kind == "const char":
        given = "bytes | CData"
    elif "*" in kind:  # an array of pointers
        given = "Sequence[CData] | CData"
    return f"{name}: {given}"


def _type(declared: str, enums: set[str]) -> str:
    kind = declared.strip().removeprefix("const ")
    if kind.endswith("*"):
        return "CData"
    if kind in {"int", "int64_t", "uint64_t"} | enums:
        return "int"
    if kind == "double":
        return "float"
    raise ValueError(f"{declared!r} is neither a number nor a pointer")


if __name__ == "__main__":
    STUB.write_text(stub(contract()))
