"""The file of a Wapiti model.

============  ================================================================
Contents      patterns, labels, observations and weights
read_contents what a file holds
============  ================================================================

::

    #mdl#2#1234         kind of model (0 maxent, 1 MEMM, 2 CRF) and number of weights
    #rdr#2/1/0          number of patterns, highest column, whether each line is a sequence
    12:u02:%x[-1,0],    the patterns: length, colon, bytes, comma
    #qrk#3              number of labels, and the labels in the same form
    #qrk#6              number of observations, the texts that patterns gave; and the texts
    14=0x1.8p+1         weights that are not zero: number = value

The weights are numbered observation by observation: one for each label where it begins with u, one
for each pair of labels (the later one faster) where it begins with b, both where it begins with an
asterisk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError
from fstcrf.interop.patterns import SparseWeights, shown
from fstcrf.interop.sources import BOM

__all__ = ["Contents", "read_contents"]

_MODEL = re.compile(rb"#mdl#(?:([0-9]{1,9})#)?([0-9]{1,18})\n")
_READER = re.compile(rb"#rdr#([0-9]{1,9})/([0-9]{1,9})(?:/([0-9]{1,9}))?\n")
_QUARKS = re.compile(rb"#qrk#([0-9]{1,18})\n")
_SIZE = re.compile(rb"([0-9]{1,9}):")
_DIGITS = 18
_BLOCK = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What a file holds.

    Parameters
    ----------
    kind : int
        0 maxent, 1 MEMM, 2 CRF.
    single : bool
        Each token is a sequence of its own, and its attributes have no u in front (``--me``).
    patterns, labels, observations : list of bytes
    weights : SparseWeights
        By the numbers that the file gives them.
    size : int
        Bytes of the file.
    """

    kind: int
    single: bool
    patterns: list[bytes]
    labels: list[bytes]
    observations: list[bytes]
    weights: SparseWeights
    size: int


def read_contents(data: bytes, where: str) -> Contents:
    """Read a file.

    Parameters
    ----------
    data : bytes
        The whole file.
    where : str
        Its name, for messages.

    Raises
    ------
    ModelFileError
        A part that is missing, too short or not what it must be; names the part.
    """
    data = data.removeprefix(BOM)
    if data[: data.find(b"\n") + 1].endswith(b"\r\n"):  # its texts are single lines, too
        data = data.replace(b"\r\n", b"\n")
    reader = _Reader(data, where)
    kind, n_weights = reader.line(_MODEL, "#mdl#")
    n_patterns, _, single = reader.line(_READER, "#rdr#")
    patterns = reader.texts(n_patterns or 0, "pattern")
    labels = reader.texts(reader.line(_QUARKS, "#qrk#")[0] or 0, "label")
    observations = reader.texts(reader.line(_QUARKS, "#qrk#")[0] or 0, "observation")
    weights = reader.weights(n_weights or 0)
    return Contents(kind or 0, bool(single), patterns, labels, observations, weights, len(data))


class _Reader:
    """Reads a file from its beginning to its end.

    Parameters
    ----------
    data : bytes
    where : str
    """

    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where, self._place = data, where, 0

    def line(self, form: re.Pattern[bytes], name: str) -> list[int | None]:
        """Return the numbers of a header line; None for one that is left out."""
        found = form.match(self._data, self._place)
        if found is None:
            raise self._error(f"expected a line {name}")
        self._place = found.end()
        return [None if text is None else int(text) for text in found.groups()]

    def texts(self, count: int, what: str) -> list[bytes]:
        """Return so many texts."""
        data, place = self._data, self._place
        texts: list[bytes] = []
        for number in range(count):
            size = _SIZE.match(data, place)
            begin = place if size is None else size.end()
            end = begin if size is None else begin + int(size[1])
            if size is None or end == begin or data[end : end + 2] != b",\n":
                self._place = place
                raise self._error(f"expected {what} {number} of {count} as 'length:text,'")
            texts.append(data[begin:end])
            place = end + 2
        self._place = place
        return texts

    def weights(self, count: int) -> SparseWeights:
        """Return the weights, which end the file."""
        if not self._data.endswith(b"\n"):  # half a number may be one, too
            raise ModelFileError(f"{self._where}: cut short: its last line has no end")
        numbers = [np.empty(0, dtype=np.int64)]
        values = [np.empty(0)]
        while self._place < len(self._data):
            end = self._data.find(b"\n", min(self._place + _BLOCK, len(self._data) - 1))
            end = len(self._data) if end < 0 else end + 1
            found = _parsed(self._data[self._place : end])
            if found is None:
                raise self._wrong_weight(end)
            numbers.append(found[0])
            values.append(found[1])
            self._place = end
        weights = SparseWeights(np.concatenate(numbers), np.concatenate(values))
        if len(weights) != count:
            raise ModelFileError(f"{self._where}: {len(weights)} weights, #mdl# says {count}")
        if np.any(weights.numbers[1:] <= weights.numbers[:-1]):
            raise ModelFileError(f"{self._where}: the numbers of the weights do not rise")
        return weights

    def _wrong_weight(self, end: int) -> ModelFileError:
        """Return the error of the first line up to `end` that is no weight."""
        for line in self._data[self._place : end].splitlines(keepends=True):
            if _parsed(line) is None:
                break
            self._place += len(line)
        return self._error("expected a weight as 'number=value'")

    def _error(self, expected: str) -> ModelFileError:
        found = shown(self._data[self._place : self._place + 30] or b"the end")
        return ModelFileError(f"{self._where}: byte {self._place}: {found}, {expected}")


def _parsed(block: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Return the numbers and values of whole lines of weights; None where one is none."""
    try:
        lines = block.decode("ascii").split("\n")
    except UnicodeDecodeError:
        return None
    if not lines[-1]:
        del lines[-1]
    pairs = [line.partition("=") for line in lines]
    if not all(digits.isdecimal() and len(digits) <= _DIGITS for digits, _, _ in pairs):
        return None
    try:
        values = np.array([_value(text) for _, _, text in pairs], dtype=np.float64)
    except (ValueError, OverflowError):
        return None
    return np.array([int(digits) for digits, _, _ in pairs], dtype=np.int64), values


def _value(text: str) -> float:
    return float.fromhex(text) if "x" in text else float(text)
