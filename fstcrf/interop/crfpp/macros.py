"""Templates of CRF++ as patterns.

============  ================================================================
read_pattern  one template
============  ================================================================

::

    U05:%x[-1,0]/%x[0,1]    attributes of labels: strings at (row, column) between literals
    B01:%x[0,1]             attributes of label pairs
    B                       label pairs themselves
"""

from __future__ import annotations

import re

from fstcrf.errors import ModelFileError
from fstcrf.features.derive import Plain
from fstcrf.interop.patterns import Hole, Pattern

__all__ = ["read_pattern"]

_MACRO = re.compile(r"%x\[(-?)([0-9]*),([0-9]*)\]")
_FARTHEST = 8
_DIGITS = 9


def read_pattern(text: str, encoding: str, n_columns: int, where: str) -> Pattern:
    """Read a template as CRF++ does: blanks count, a number that is not there is 0.

    Parameters
    ----------
    text : str
    encoding : str
        Of the literals.
    n_columns : int
        Columns that there are.
    where : str
        Name of the file, for messages.

    Raises
    ------
    ModelFileError
        No template, a row farther than 8 away, or a column that there is not.
    """
    if text[:1] not in ("U", "B"):
        raise ModelFileError(f"{where}: template {text!r} begins with neither U nor B")
    literals: list[bytes] = []
    holes: list[Hole] = []
    end = 0
    for found in _MACRO.finditer(text):
        literals.append(text[end : found.start()].encode(encoding))
        end = found.end()
        row, column = (int(digits[-_DIGITS:] or 0) for digits in found.group(2, 3))
        if max(map(len, found.group(2, 3))) > _DIGITS or row > _FARTHEST or column >= n_columns:
            raise ModelFileError(
                f"{where}: template {text!r}: {found[0]} is out of range: rows go to "
                f"{_FARTHEST}, there are {n_columns} columns"
            )
        holes.append(Hole(Plain(column), -row if found[1] else row))
    literals.append(text[end:].encode(encoding))
    if any(b"%" in literal for literal in literals):
        raise ModelFileError(f"{where}: template {text!r}: expected %x[row,column] after every %")
    return Pattern("node" if text[0] == "U" else "arc", text, tuple(literals), tuple(holes))
